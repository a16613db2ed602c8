"""The page: sections and packed items in one self-contained file.

Its last part is the provenance of the runs, and the command that made the page. A table has one row
per run and a column for every key in which the runs differ, and for the times of a run, which are
equal by chance only. Other keys that all runs share are listed once. The full `run.json` of a run
is folded below, and is not printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.plain_text import first_of
from pact_eval.progress import step, tracked
from pact_eval.runs.provenance import Provenance
from pact_eval.verification import PAGE_ELEMENT
from pact_reports.page.answers import Answers
from pact_reports.page.figures import make_contents
from pact_reports.page.html import csp_hash, render, script_json, stylesheet, trusted
from pact_reports.page.item_blocks import BlockStore, pack_experiment
from pact_reports.request import Request
from pact_reports.table import Column, Table, table_row
from pact_reports.tables.cells import decoding_words
from pact_reports.tables.runs import run_groups_table
from pact_reports.writers.files import BuiltTables, build_tables

_FIRST: Final = ("arm", "seed", "source", "adapter", "base_model", "data", "command_line")
_HASH: Final = 12
_UNKNOWN: Final = "–"

_KEYS: Final[Mapping[str, Callable[[Provenance], object]]] = {
    "Scored": lambda run: run.created and f"{run.created:%Y-%m-%d %H:%M}",
    "Source": lambda run: run.source,
    "Role": lambda run: run.role,
    "K": lambda run: run.k,
    "Items": lambda run: run.counts.items,
    "Data": lambda run: run.data_name,
    "Data SHA-256": lambda run: _short(run.data.sha256),
    "Training data": lambda run: run.custody.training_text,
    "Adapter": lambda run: run.adapter_name,
    "Adapter SHA-256": lambda run: _short(run.adapter.sha256 if run.adapter else None),
    "Base model": lambda run: run.base_model,
    "Base SHA-256": lambda run: _short(run.base.sha256 if run.base else None),
    "Contract": lambda run: "; ".join(filter(None, (run.contract.name, run.contract.remark))),
    "Contract fingerprint": lambda run: _short(run.contract.fingerprint),
    "Order seed": lambda run: run.order_seed,
    "Precision": lambda run: run.precision,
    "Device": lambda run: run.device,
    "Engine": lambda run: run.engine.name,
    "Seconds": lambda run: run.wall_seconds and f"{run.wall_seconds:,.0f}",
    "Versions": lambda run: ", ".join(
        f"{name} {version}" for name, version in run.versions.items()
    ),
    "Seal": lambda run: _short(run.seal.predictions_sha256 if run.seal else None),
}
"""What the table has of a run: the name of the column, and its value."""

_TIMES: Final = ("Scored", "Seconds")
"""Keys that are columns in any case: pages of one experiment, made twice, have the same layout."""


def provenance(request: Request) -> dict[str, Any]:
    """Return the provenance of the runs by keys, and the command of the page."""
    experiment = request.experiment
    run_name = request.names.run
    runs = {run_name(run.label): run for run in experiment.runs}
    runs |= {f"{run_name(run.label)} on ablated contexts": run for run in experiment.ablated}
    values = {
        key: [
            _UNKNOWN if (found := value(run.provenance)) in (None, "") else str(found)
            for run in runs.values()
        ]
        for key, value in _KEYS.items()
    }
    differing = {key for key, texts in values.items() if len(set(texts)) > 1}
    differing |= set(_TIMES) if len(runs) > 1 else set()
    columns = {key: texts for key, texts in values.items() if key in differing}
    table = Table(
        name="provenance",
        title="What differs between the runs",
        columns=tuple(Column(title, "left") for title in ("Run", *columns)),
        rows=tuple(map(table_row, runs, *columns.values())),
    )
    return {
        "table": table if len(runs) > 1 else None,
        "only": next(iter(runs)),
        "shared": [
            (key, texts[0])
            for key, texts in values.items()
            if key not in differing and texts[0] != _UNKNOWN
        ],
        "page": _page(request),
        "recorded": [(label, _recorded_rows(run)) for label, run in runs.items()],
    }


def _short(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:_HASH]


def _recorded_rows(run: ExperimentRun) -> list[tuple[str, str]]:
    """Return the content of `run.json`, the most asked for first."""
    recorded = run.provenance.recorded
    first = {name: recorded[name] for name in _FIRST if name in recorded}
    return [("folder", run.place), *_run_facts(first | {**recorded})]


def _run_facts(value: Json, way: str = "") -> Iterator[tuple[str, str]]:
    """Flatten JSON into names and values; a command becomes one shell line."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _run_facts(item, f"{way}.{name}" if way else name)
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield way, shlex.join(map(str, value))
    elif isinstance(value, str):
        yield way, value
    else:
        yield way, "none" if value is None else dumps(value)


def _page(request: Request) -> list[tuple[str, str]]:
    settings = request.experiment.settings
    resamples = settings.resamples
    return [
        ("made by", f"pact-eval {metadata.version('pact-eval')}"),
        ("command", shlex.join(request.command) if request.command else "none: made from Python"),
        ("decoding", settings.decoding),
        ("bootstrap seed", str(settings.seed)),
        ("resamples", "default" if resamples is None else f"{resamples:,}"),
        ("digest", request.digest.sha256),
    ]


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
    style = _asset("page.css") + stylesheet(body)
    script = "".join(map(_asset, _SCRIPTS))
    policy = (
        f"default-src 'none'; script-src {csp_hash(script)}; style-src {csp_hash(style)}; "
        "img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    digest = script_json(request.digest.json, PAGE_ELEMENT)
    return render(
        "page.html",
        policy=trusted(policy),
        title=request.answer,
        style=trusted(style),
        body=body,
        data=[script_json(items, "page-data"), digest, *store.elements],
        script=trusted(script),
    )


def write_page(page: str, path: Path) -> None:
    """Write a page to a file.

    Raises:
        InputError: the folder is missing, or the file cannot be written.
    """
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: folder not found; cannot write {path.name} to")
    write_atomically(path, page.encode("utf-8", errors="backslashreplace"))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
