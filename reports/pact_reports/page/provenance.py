"""Last part of a page: provenance of the runs, and the command that made the page.

A table has one row per run and a column for every key in which the runs differ, and for the times
of a run, which are equal by chance only. Other keys that all runs share are listed once. The full
`run.json` of a run is folded below, and is not printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.runs.provenance import Contract, Provenance
from pact_eval.verification.report_file import PAGE_ELEMENT
from pact_reports.markup import Html, data_text, element, joined, script_json
from pact_reports.page.request import PageRequest
from pact_reports.page.sections import copyable_table
from pact_reports.table import Cell, Column, Row, Table

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


def provenance_html(request: PageRequest) -> Html:
    """Write the provenance of the runs by keys, and the command of the page."""
    experiment = request.experiment
    run_name = request.names.run
    runs = {run_name(run.label): run for run in experiment.runs}
    runs |= {f"{run_name(run.label)} on ablated contexts": run for run in experiment.ablated}
    return joined([*_by_keys(runs), _page(request), _full(runs)])


def _by_keys(runs: Mapping[str, ExperimentRun]) -> Iterator[Html]:
    values = {
        key: [_text(value(run.provenance)) for run in runs.values()] for key, value in _KEYS.items()
    }
    differing = {key for key, texts in values.items() if len(set(texts)) > 1}
    differing |= set(_TIMES) if len(runs) > 1 else set()
    shared = {key: texts[0] for key, texts in values.items() if key not in differing}
    columns = {key: texts for key, texts in values.items() if key in differing}
    if len(runs) > 1:
        table = Table(
            name="provenance",
            title="What differs between the runs",
            caption="",
            columns=(Column("Run", "left"), *(Column(key, "left") for key in columns)),
            rows=tuple(
                Row((Cell(label), *(Cell(texts[at]) for texts in columns.values())))
                for at, label in enumerate(runs)
            ),
        )
        yield copyable_table(table)
        yield element("h3", "What all runs share")
    else:
        yield element("h3", next(iter(runs)))
    yield _list([(key, value) for key, value in shared.items() if value != _UNKNOWN])


def _text(value: object) -> str:
    return _UNKNOWN if value in (None, "") else str(value)


def _contract(contract: Contract) -> str | None:
    remark = contract.remark
    return contract.name if remark is None else f"{contract.name}; {remark}"


def _short(sha256: str | None) -> str | None:
    return None if sha256 is None else sha256[:_HASH]


def _full(runs: Mapping[str, ExperimentRun]) -> Html:
    """Write the content of `run.json` of every run, folded."""
    return element(
        "div",
        element("h3", "Full run.json"),
        *(_run(label, run) for label, run in runs.items()),
        class_="on-screen",
    )


def _run(label: str, run: ExperimentRun) -> Html:
    recorded = run.provenance.recorded
    first = {name: recorded[name] for name in _FIRST if name in recorded}
    rest = {name: value for name, value in recorded.items() if name not in first}
    facts = [("folder", run.place), *_facts(first | rest)]
    return element("details", element("summary", data_text(label)), _list(facts))


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


def _list(facts: Sequence[tuple[str, str]]) -> Html:
    return element(
        "dl",
        *(
            joined([element("dt", data_text(name)), element("dd", data_text(value))])
            for name, value in facts
        ),
        class_="facts",
    )


def _page(request: PageRequest) -> Html:
    settings = request.experiment.settings
    resamples = settings.resamples
    facts = [
        ("made by", f"pact-eval {metadata.version('pact-eval')}"),
        ("command", shlex.join(request.command) if request.command else "none: made from Python"),
        ("decoding", settings.decoding),
        ("bootstrap seed", str(settings.seed)),
        ("resamples", "default" if resamples is None else f"{resamples:,}"),
    ]
    note = element("p", "The same runs and options give the same bytes: no date is recorded.")
    facts.append(("digest", request.digest.sha256))
    return joined([element("h3", "How this page was made"), _list(facts), note])


def digest_data(request: PageRequest) -> Html:
    """Return the digest of a page as data, for `pact-eval verify`."""
    return script_json(request.digest.json, PAGE_ELEMENT)
