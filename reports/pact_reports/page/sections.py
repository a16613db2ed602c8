"""The sections of a page: each one HTML from results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_eval.errors import InputError, RecordError
from pact_eval.preregistration import JudgedHypotheses, decoding_name
from pact_reports.figures import FIGURES
from pact_reports.figures.figure import Plate, reason
from pact_reports.figures.files import inline_svg
from pact_reports.page.diagnostics import WorryContext, all_worries
from pact_reports.page.diagnostics.of_comparisons import Difference
from pact_reports.page.markup import Html, data_text, element, joined
from pact_reports.page.request import PageRequest, Progress
from pact_reports.page.runs_table import ablated_table, runs_table
from pact_reports.page.summary import headline_html, verdicts_html, worries_html
from pact_reports.page.svg import strict_svg
from pact_reports.tables import BuiltTables, Table
from pact_reports.tables.paired_tests import SeedTest, paired_tests
from pact_reports.writers.html import table_html

__all__ = ["figures_html", "summary_html", "tables_html"]

_IN_SUMMARY: Final = ("main",)
_OPEN_PLATES: Final = 4


def summary_html(request: PageRequest, built: BuiltTables) -> Html:
    """Write the first section: verdicts, headline tables, worries."""
    judged = _judged(request)
    tests = _tests(request)
    differences = [] if isinstance(tests, str) else _differences(tests, request.for_tables.main_arm)
    registration = judged.registration if isinstance(judged, JudgedHypotheses) else None
    scorecard = judged.scorecard if isinstance(judged, JudgedHypotheses) else None
    worries = all_worries(
        WorryContext(
            collection=request.collection,
            decoded=request.decoded,
            reports=request.reports,
            differences=differences,
            registration=registration,
            scorecard=scorecard,
            data_warnings=() if request.records is None else request.records.warnings,
        )
    )
    main = built.tables.get("main")
    return joined(
        [
            verdicts_html(
                judged.scorecard if isinstance(judged, JudgedHypotheses) else judged,
                registration,
                tests,
                request.for_tables.main_arm,
                decoding_name(request.decoding, "raw"),
            ),
            headline_html(
                main,
                built.skipped.get("main", "it was not asked for"),
                runs_table(request.decoded, request.reports, request.decoding),
            ),
            _ablated(request),
            worries_html(worries, [run.label for run in request.collection.runs]),
        ]
    )


def _ablated(request: PageRequest) -> Html | None:
    """Write the runs on ablated contexts, where there are some."""
    if not request.collection.ablated:
        return None
    try:
        reports = request.ablated_reports()
    except InputError as error:
        return element("p", "No table of runs on ablated contexts: ", data_text(reason(error)), ".")
    labels = [run.label for run in request.collection.ablated]
    return table_html(ablated_table(tuple(zip(labels, reports, strict=True))))


def _judged(request: PageRequest) -> JudgedHypotheses | str:
    """Judge the criteria, or say why they cannot be judged."""
    if request.criteria is None:
        return ""
    try:
        return request.for_tables.judged
    except RecordError:
        # Criteria that were named: they are to be put right, not left out.
        raise
    except InputError as error:
        return reason(error)


def _tests(request: PageRequest) -> tuple[SeedTest, ...] | str:
    try:
        return paired_tests(request.for_tables)
    except InputError as error:
        return reason(error)


def _differences(tests: tuple[SeedTest, ...], method: str) -> list[Difference]:
    return [Difference(method, each.control, each.seed, each.family_interval) for each in tests]


def figures_html(request: PageRequest, progress: Progress | None = None) -> Html:
    """Draw the figures as SVG in the page; those that lack data are listed with the reason."""
    wanted = list(FIGURES) if request.figures is None else list(request.figures)
    drawn: list[Html] = []
    folded: list[Html] = []
    missing: dict[str, str] = {}
    partly: dict[str, str] = {}
    for number, name in enumerate(wanted, start=1):
        try:
            figure = FIGURES[name].build(request.for_figures)
            plates = [_figure(plate) for plate in figure.plates]
        except ValueError as error:
            # InputError is one; others come from drawing, and must not take the page with them.
            why = reason(error) if isinstance(error, InputError) else f"drawing failed: {error}"
            missing[name] = why
        else:
            if len(plates) > _OPEN_PLATES:
                folded.append(_folded(FIGURES[name].title, plates))
            else:
                drawn += plates
            if figure.missing:
                (partly if plates else missing)[name] = "; ".join(figure.missing)
        if progress is not None:
            progress(number, len(wanted))
    grid = element("div", *drawn, class_="figures") if drawn else None
    if not drawn and not folded:
        grid = element("p", "No figure.")
    return joined(
        [grid, *folded, _left_out("Not drawn", missing), _left_out("Drawn in part", partly)]
    )


def _folded(title: str, plates: list[Html]) -> Html:
    """Fold a figure that has a plate for each of many runs."""
    said = element("summary", f"{title[:1].upper()}{title[1:]}: {len(plates):,} figures")
    return element("details", said, element("div", *plates, class_="figures"))


def _figure(plate: Plate) -> Html:
    return element(
        "figure",
        strict_svg(inline_svg(plate)),
        element(
            "figcaption", data_text(plate.title), f". {plate.caption}" if plate.caption else None
        ),
        id=f"figure-{plate.name}",
    )


def tables_html(built: BuiltTables) -> Html:
    """Write the tables that the summary does not show; those that lack data with the reason."""
    shown: Mapping[str, Table] = {
        name: table for name, table in built.tables.items() if name not in _IN_SUMMARY
    }
    written = [table_html(table) for table in shown.values()]
    return joined([*(written or [element("p", "No table.")]), _left_out("Not made", built.skipped)])


def _left_out(heading: str, missing: Mapping[str, str]) -> Html | None:
    if not missing:
        return None
    lines = [
        element("li", element("code", name), ": ", data_text(why)) for name, why in missing.items()
    ]
    return joined([element("h3", heading), element("ul", *lines, class_="missing")])
