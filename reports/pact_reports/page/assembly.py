"""The page: sections and packed items in one self-contained file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Final

from pact_eval._files import write_atomically
from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.progress import step, tracked
from pact_reports.figures.style import Looks
from pact_reports.markup import Html, csp_hash, data_text, element, joined, script_json
from pact_reports.page.item_blocks import BlockStore, pack_experiment
from pact_reports.page.provenance import digest_data, provenance_html
from pact_reports.page.reliability import reliability_html
from pact_reports.page.request import PageRequest
from pact_reports.page.sections import (
    CALIBRATION_TABLES,
    ORDER_TABLES,
    DrawnFigures,
    copyable_table,
    drawn_figures,
    figures_html,
    left_out_html,
    stylesheet,
    tables_html,
)
from pact_reports.page.summary import headline_html, summary_html
from pact_reports.tables.cells import decoding_words
from pact_reports.tables.run_costs import run_groups_table
from pact_reports.writers.files import BuiltTables, build_tables

_MOST_ARMS: Final = 4
_MOST_SEEDS: Final = 6


def title_text(request: PageRequest) -> str:
    """Return the title on one line, for the tab of a browser."""
    return f"{_subject(request)}: {', '.join(_facts(request.experiment))}"


def heading_html(request: PageRequest) -> Html:
    """Write the heading of the page, and a line on what else is in it."""
    experiment = request.experiment
    heading = element(
        "h1",
        data_text(_subject(request)),
        " ",
        element("span", *_unbroken(_facts(experiment)), class_="facts-line"),
    )
    runs = len(experiment.runs)
    parts = [f"{runs:,} {'run' if runs == 1 else 'runs'}"]
    if experiment.same_items:
        families = len(set(experiment.runs[0].predictions.family.tolist()))
        parts.append(f"{families:,} families of items")
    if experiment.ablated:
        parts.append(f"{len(experiment.ablated):,} more on ablated contexts")
    texts = "texts are in the page" if request.records is not None else "without texts"
    return joined([heading, element("p", f"{', '.join(parts)}; {texts}.", class_="lead")])


def _unbroken(facts: Sequence[str]) -> Iterator[Html | str]:
    """Separate facts by commas, so that a narrow line breaks only between them."""
    for at, fact in enumerate(facts):
        last = at == len(facts) - 1
        yield element("span", fact if last else f"{fact},")
        yield "" if last else " "


def _subject(request: PageRequest) -> str:
    """Name the arms, the method first, and the dataset files."""
    experiment = request.experiment
    method = experiment.main_arm
    arms = [method, *(arm for arm in experiment.arms if arm != method)]
    named = ", ".join(map(request.names.arm, arms[:_MOST_ARMS]))
    more = f" and {len(arms) - _MOST_ARMS:,} more" if len(arms) > _MOST_ARMS else ""
    provenances = (run.provenance for run in experiment.runs)
    files = sorted(
        {Path(provenance.data_file).name for provenance in provenances if provenance.data_file}
    )
    on = f" on {', '.join(files)}" if files else ""
    return f"{named}{more}{on}"


def _facts(experiment: Experiment) -> list[str]:
    """Return the number of items, K, the seeds, and the days on which scoring began."""
    runs = experiment.runs
    ks = sorted({run.predictions.k for run in runs})
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    days = sorted({run.provenance.created.date() for run in runs if run.provenance.created})
    items = f"{len(runs[0].predictions):,} items" if experiment.same_items else "different items"
    facts = [items, f"K = {' and '.join(map(str, ks))}"]
    if seeds:
        named = ", ".join(map(str, seeds[:_MOST_SEEDS]))
        more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
        facts.append(f"{'seed' if len(seeds) == 1 else 'seeds'} {named}{more}")
    if days:
        facts.append(f"{days[0]} to {days[-1]}" if len(days) > 1 else f"{days[0]}")
    return facts


_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = tuple(
    f"{name}.js"
    for name in (
        *("blocks", "texts", "columns", "place"),
        *("prompt", "bars", "detail", "search", "list", "runs", "sections", "copies", "browser"),
    )
)


def make_page(
    request: PageRequest,
    *,
    built: BuiltTables | None = None,
) -> str:
    """Make the page of runs.

    Args:
        request: the runs and the choices of the user.
        built: the tables of the runs; None makes them.

    Returns:
        One HTML document. The same request gives the same text.

    Raises:
        InputError: there is no run on full contexts, or a run does not have the decoding.
        RecordError: the criteria or a data file cannot be read.
    """
    if not request.experiment.runs:
        message = (
            "expected a run on full contexts, found only "
            f"{len(request.experiment.ablated):,} on ablated contexts; "
            "those have no right answers, and `pact-eval report RUN` shows them"
        )
        raise InputError(message)
    with step("Making the page", 90 if built else 100):
        return _made(request, built)


def _made(request: PageRequest, built: BuiltTables | None) -> str:
    groups_link, groups = _groups(request)  # a missing column ends the command at once
    with step("metrics", counts=10):
        for run in tracked(request.experiment.runs, "Computing metrics", "runs"):
            request.experiment.evaluation(run, calibrated=False)
    if built is None:
        with step("tables", counts=10):
            built = build_tables(request.for_tables, request.tables)
    with step("summary", counts=10):
        summary = summary_html(request)
    with step("figures", counts=50):
        drawn = drawn_figures(request)
    sections = {
        "summary": summary,
        "groups": groups,
        "groups_link": groups_link,
        "calibration": _calibration(request, drawn, built),
        "order": _or_none(tables_html(built, ORDER_TABLES), left_out_html(built, ORDER_TABLES)),
        "figures": _or_none(
            figures_html(drawn, calibration=False), left_out_html(drawn=drawn, calibration=False)
        ),
        "tables": joined([headline_html(request, built), tables_html(built), left_out_html(built)]),
    }
    store = BlockStore()
    with step("items", counts=20):
        items = pack_experiment(store, request.experiment, request.records, request.names)
    return _document(request, store, items, sections)


def write_page(page: str, path: Path) -> None:
    """Write a page to a file.

    Raises:
        InputError: the folder is missing, or the file cannot be written.
    """
    if not path.parent.is_dir():
        message = f"{path.parent}: folder not found; cannot write {path.name} to"
        raise InputError(message)
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))


def _document(
    request: PageRequest, store: BlockStore, items: Json, sections: Mapping[str, Html]
) -> str:
    style = _asset("page.css") + stylesheet(sections.values())
    script = "".join(map(_asset, _SCRIPTS))
    policy = (
        f"default-src 'none'; script-src {csp_hash(script)}; style-src {csp_hash(style)}; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Template(_asset("page.html")).substitute(
        policy=policy,
        title=element("title", title_text(request)).text,
        style=style,
        heading=heading_html(request).text,
        **{name: section.text for name, section in sections.items()},
        decoding=_decoding(request).text,
        provenance=provenance_html(request).text,
        items=script_json(items, "page-data").text + digest_data(request).text,
        blocks=store.html.text,
        script=script,
    )


def _groups(request: PageRequest) -> tuple[Html, Html]:
    """Return the link to the section of groups, and the section; both are empty without a column.

    Raises:
        InputError: a run lacks the column.
    """
    if request.grouped is None:
        return Html(""), Html("")
    table = run_groups_table(request.grouped, request.names)
    title = element("h2", "Groups", id="groups-title")
    section = element(
        "section", title, copyable_table(table), id="groups", aria_labelledby="groups-title"
    )
    return element("a", "Groups", href="#groups"), section


def _calibration(request: PageRequest, drawn: DrawnFigures, built: BuiltTables) -> Html:
    looks = Looks.of(request.experiment, request.palette)
    return joined(
        [
            reliability_html(request.experiment, looks),
            figures_html(drawn, calibration=True),
            tables_html(built, CALIBRATION_TABLES),
            left_out_html(built, CALIBRATION_TABLES, drawn, calibration=True),
        ]
    )


def _or_none(*parts: Html | None) -> Html:
    """Join the parts of a section; say so if it has none."""
    return joined(parts) if any(parts) else element("p", "Nothing was asked for.")


def _decoding(request: PageRequest) -> Html:
    """Name the decoding of the numbers in the item browser."""
    words = decoding_words(MetricDecoding(request.experiment.settings.decoding))
    text = (
        f"Decoding of answer, outcome and confidence: {words}; the column After T(x) is "
        "calibrated. TV and flips are between the K views."
    )
    return element("p", text, class_="hint")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
