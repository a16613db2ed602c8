"""The page: sections and packed items in one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup

from pact_eval._files import write_atomically
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.plain_text import first_of
from pact_eval.progress import step, tracked
from pact_eval.verification.report_file import PAGE_ELEMENT
from pact_reports.page.answers import Answers
from pact_reports.page.figures import make_contents
from pact_reports.page.html import csp_hash, render, script_json, trusted
from pact_reports.page.item_blocks import BlockStore, pack_experiment
from pact_reports.page.provenance import provenance
from pact_reports.page.svg import stylesheet
from pact_reports.request import Request
from pact_reports.tables.cells import decoding_words
from pact_reports.tables.run_costs import run_groups_table
from pact_reports.writers.files import BuiltTables, build_tables

_MOST_SEEDS: Final = 6


def _facts(experiment: Experiment) -> list[str]:
    """Return the data, the numbers of items and orders, seeds, days, and a calibration."""
    runs = experiment.runs
    files = {Path(file).name for run in runs if (file := run.provenance.data_file)}
    items = (
        counted(len(runs[0].predictions), "item") if experiment.same_items else "different items"
    )
    orders = {run.predictions.k for run in runs if not run.predictions.repeats} - {1}
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    days = sorted({f"{day.date()}" for run in runs if (day := run.provenance.created)})
    facts = (
        first_of(sorted(files), 2),
        items,
        f"{' and '.join(map(str, sorted(orders)))} orders" if orders else "",
        f"{'seed' if len(seeds) == 1 else 'seeds'} {first_of([*map(str, seeds)], _MOST_SEEDS)}",
        " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "",
        f"{experiment.settings.calibration_name}; figures are raw unless they say T(x)"
        if experiment.settings.calibrated
        else "",
    )
    return [fact for fact in facts if fact not in ("", "seeds ")]


_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = tuple(
    f"{name}.js"
    for name in (
        *("blocks", "texts", "columns", "place"),
        *("prompt", "bars", "detail", "search", "list", "runs", "sections", "copies", "browser"),
    )
)


def make_page(request: Request, *, built: BuiltTables | None = None) -> str:
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
        raise InputError(
            "expected a run on full contexts, found only "
            f"{len(request.experiment.ablated):,} on ablated contexts; "
            "those have no right answers, and `pact-eval report RUN` shows them"
        )
    with step("Making the page", 90 if built else 100):
        return _render(request, built)


def _render(request: Request, built: BuiltTables | None) -> str:
    experiment = request.experiment
    # A missing column ends the command at once.
    grouped = request.grouped
    groups = None if grouped is None else run_groups_table(grouped, request.names)
    with step("metrics", counts=10):
        for run in tracked(experiment.runs, "Computing metrics", "runs"):
            experiment.evaluation(run)
    if built is None:
        with step("tables", counts=10):
            built = build_tables(request, request.tables)
    with step("answers", counts=10):
        answers = Answers.of(request)
    with step("figures", counts=50):
        sections = answers.sections(make_contents(request, built, groups))
    store = BlockStore()
    with step("items", counts=20):
        items = pack_experiment(store, experiment, request.records, request.names)
    body = render(
        "body.html",
        **answers.first_screen(),
        facts=_facts(experiment),
        questions=sections,
        several=len(experiment.runs) > 1,
        decoding=decoding_words(MetricDecoding(experiment.settings.decoding)),
        calibration=experiment.settings.calibration_name,
        provenance=provenance(request),
    )
    digest = script_json(request.digest.json, PAGE_ELEMENT)
    return _document(
        body, request.answer, [script_json(items, "page-data"), digest, *store.elements]
    )


def write_page(page: str, path: Path) -> None:
    """Write a page to a file.

    Raises:
        InputError: the folder is missing, or the file cannot be written.
    """
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: folder not found; cannot write {path.name} to")
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))


def _document(body: Markup, title: str, data: Sequence[Markup]) -> str:
    style = _asset("page.css") + stylesheet(body)
    script = "".join(map(_asset, _SCRIPTS))
    policy = (
        f"default-src 'none'; script-src {csp_hash(script)}; style-src {csp_hash(style)}; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return render(
        "page.html",
        policy=trusted(policy),
        title=title,
        style=trusted(style),
        body=body,
        data=data,
        script=trusted(script),
    )


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
