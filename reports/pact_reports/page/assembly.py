"""The page: sections and packed items in one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from pact_eval._files import write_atomically
from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.evaluation import Experiment
from pact_eval.preregistration import decoding_name
from pact_reports.markup import Html, csp_hash, data_text, element, joined, script_json
from pact_reports.page.item_blocks import item_tables, pack_items, pack_run
from pact_reports.page.item_columns import FLAGS
from pact_reports.page.packing import BlockStore
from pact_reports.page.provenance import digest_data, provenance_html
from pact_reports.page.request import PageRequest, Progress
from pact_reports.page.sections import figures_html, tables_html
from pact_reports.page.summary import summary_html
from pact_reports.tables import BuiltTables, build_tables
from pact_reports.tables.metric_values import DECODING_WORDS

_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = ("blocks.js", "texts.js", "columns.js", "detail.js", "search.js", "browser.js")
_MOST_NAMED: Final = 6


def make_page(
    request: PageRequest,
    *,
    built: BuiltTables | None = None,
    progress: Progress | None = None,
) -> str:
    """Make the page of runs.

    Args:
        request: the runs and the choices of the user.
        built: the tables of the runs; None makes them.
        progress: called with the number of parts that are done, of a hundred.

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
    step = progress or (lambda _done, _total: None)
    step(0, 100)
    for run in request.experiment.runs:
        request.experiment.evaluation(run, calibrated=False)
    step(10, 100)
    if built is None:
        names = request.tables
        built = build_tables(request.for_tables, names, _span(step, 10, 25))
    summary = summary_html(request, built)
    step(30, 100)
    figures = figures_html(request, _span(step, 30, 80))
    store = BlockStore()
    items = _packed(store, request, _span(step, 80, 98))
    page = _document(request, store, items, (summary, figures, tables_html(built)))
    step(100, 100)
    return page


def write_page(page: str, path: Path) -> None:
    """Write a page to a file.

    Raises:
        InputError: the folder is missing, or the file cannot be written.
    """
    if not path.parent.is_dir():
        message = f"{path.parent}: folder not found; cannot write {path.name} to"
        raise InputError(message)
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))


def _span(step: Progress, start: int, end: int) -> Progress:
    """Return a callback that reports the progress of a part as progress of the page."""
    return lambda done, total: step(start + (end - start) * done // max(total, 1), 100)


def _packed(store: BlockStore, request: PageRequest, progress: Progress) -> Json:
    records = None if request.records is None else request.records.records
    tables: list[Json] = []
    runs: list[Json] = []
    place: dict[int, int] = {}
    experiment = request.experiment
    for run, owner in zip(experiment.runs, item_tables(experiment), strict=True):
        if owner not in place:
            place[owner] = len(tables)
            tables.append(pack_items(store, run.predictions, records, progress))
        runs.append(pack_run(store, experiment, run, place[owner]))
    return {"items": tables, "runs": runs, "flags": {**FLAGS}, "blocks": store.index}


def _document(
    request: PageRequest, store: BlockStore, items: Json, sections: Sequence[Html]
) -> str:
    summary, figures, tables = sections
    style = _asset("page.css")
    script = "".join(map(_asset, _SCRIPTS))
    policy = (
        f"default-src 'none'; script-src {csp_hash(script)}; style-src {csp_hash(style)}; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return Template(_asset("page.html")).substitute(
        policy=policy,
        title=element("title", _title(request)).text,
        style=style,
        heading=element("h1", data_text(_title(request))).text,
        lead=_lead(request).text,
        summary=summary.text,
        figures=figures.text,
        tables=tables.text,
        decoding=_decoding(request).text,
        provenance=provenance_html(request).text,
        items=script_json(items, "page-data").text + digest_data(request).text,
        blocks=store.html.text,
        script=script,
    )


def _title(request: PageRequest) -> str:
    arms = list(request.experiment.arms)
    named = ", ".join(arms[:_MOST_NAMED])
    more = f" and {len(arms) - _MOST_NAMED:,} more" if len(arms) > _MOST_NAMED else ""
    return f"pact-eval: {named}{more}"


def _lead(request: PageRequest) -> Html:
    experiment = request.experiment
    runs = len(experiment.runs)
    first = experiment.runs[0].predictions
    families = len(set(first.family.tolist()))
    items = f"{len(first):,} items of {families:,} families" if experiment.same_items else ""
    parts = [f"{runs:,} {'run' if runs == 1 else 'runs'}", items or "on different items"]
    parts += _scored(experiment)
    if experiment.ablated:
        parts.append(f"{len(experiment.ablated):,} more on ablated contexts")
    texts = "texts are in the page" if request.records is not None else "without texts"
    return joined([element("p", f"{', '.join(parts)}; {texts}.", class_="lead")])


def _scored(experiment: Experiment) -> list[str]:
    """Say what the runs scored: dataset files, K, seeds, and the days on which they began."""
    runs = experiment.runs
    files = {Path(run.provenance.data_file).name for run in runs if run.provenance.data_file}
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    ks = sorted({run.predictions.k for run in runs})
    days = sorted({run.provenance.created.date() for run in runs if run.provenance.created})
    said = [f"of {', '.join(sorted(files))}"] if files else []
    said.append(f"K = {' and '.join(map(str, ks))}")
    if seeds:
        said.append(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
    if days:
        until = f" to {days[-1]}" if len(days) > 1 else ""
        said.append(f"scored {days[0]}{until}")
    return said


def _decoding(request: PageRequest) -> Html:
    """Name the decoding of the numbers in the item browser."""
    words = DECODING_WORDS[decoding_name(request.experiment.settings.decoding, "raw")]
    text = (
        f"Decoding of answer, outcome and confidence: {words}; the column After T(x) is "
        "calibrated. TV and flips are between the K views."
    )
    return element("p", text, class_="hint")


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
