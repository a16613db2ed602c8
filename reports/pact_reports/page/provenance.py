"""Last part of a page: provenance of the runs, and the command that made the page.

A table has one row per run and a column for every key in which the runs differ, and for the times
of a run, which are equal by chance only. Other keys that all runs share are listed once. The full
`run.json` of a run is folded below, and is not printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Final

from pact_eval._json import Json, dumps
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.runs.provenance import Contract, Provenance
from pact_reports.request import Request
from pact_reports.table import Column, Table, table_row

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
    "Contract": lambda run: _contract(run.contract),
    "Contract fingerprint": lambda run: _short(run.contract.fingerprint),
    "Order seed": lambda run: run.order_seed,
    "Precision": lambda run: run.precision,
    "Device": lambda run: run.settings.device,
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
        key: [_text(value(run.provenance)) for run in runs.values()] for key, value in _KEYS.items()
    }
    differing = {key for key, texts in values.items() if len(set(texts)) > 1}
    differing |= set(_TIMES) if len(runs) > 1 else set()
    columns = {key: texts for key, texts in values.items() if key in differing}
    return {
        "table": _table([*runs], columns) if len(runs) > 1 else None,
        "only": next(iter(runs)),
        "shared": [
            (key, texts[0])
            for key, texts in values.items()
            if key not in differing and texts[0] != _UNKNOWN
        ],
        "page": _page(request),
        "recorded": [(label, _recorded_rows(run)) for label, run in runs.items()],
    }


def _table(labels: Sequence[str], columns: Mapping[str, Sequence[str]]) -> Table:
    return Table(
        name="provenance",
        title="What differs between the runs",
        columns=(Column("Run", "left"), *(Column(key, "left") for key in columns)),
        rows=tuple(
            table_row(label, *(texts[at] for texts in columns.values()))
            for at, label in enumerate(labels)
        ),
    )


def _text(value: object) -> str:
    return _UNKNOWN if value in (None, "") else str(value)


def _contract(contract: Contract) -> str | None:
    remark = contract.remark
    return contract.name if remark is None else f"{contract.name}; {remark}"


def _short(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:_HASH]


def _recorded_rows(run: ExperimentRun) -> list[tuple[str, str]]:
    """Return the content of `run.json`, the most asked for first."""
    recorded = run.provenance.recorded
    first = {name: recorded[name] for name in _FIRST if name in recorded}
    rest = {name: value for name, value in recorded.items() if name not in first}
    return [("folder", run.place), *_facts(first | rest)]


def _facts(value: Json, way: str = "") -> Iterator[tuple[str, str]]:
    """Flatten JSON into names and values; a command becomes one shell line."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _facts(item, f"{way}.{name}" if way else name)
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
