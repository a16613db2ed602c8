"""The last part of a page: the provenance of every run, and the command that made the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.evaluation import ExperimentRun
from pact_eval.verification import PAGE_ELEMENT
from pact_reports.markup import Html, data_text, element, joined, script_json
from pact_reports.page.request import PageRequest

_FIRST: Final = ("arm", "seed", "source", "adapter", "base_model", "data", "command_line")


def provenance_html(request: PageRequest) -> Html:
    """Write `run.json` of every run, and the version, command and settings of the page."""
    experiment = request.experiment
    runs = [_run(run.label, run) for run in experiment.runs]
    runs += [_run(f"{run.label} on ablated contexts", run) for run in experiment.ablated]
    return joined([*runs, _page(request)])


def _run(label: str, run: ExperimentRun) -> Html:
    recorded = run.provenance.recorded
    known = {name: recorded[name] for name in _FIRST if name in recorded}
    rest = {name: value for name, value in recorded.items() if name not in known}
    facts = [("folder", str(run.folder)), *_facts(known | rest)]
    return element("details", element("summary", data_text(label)), _list(facts))


def _facts(value: Json, way: str = "") -> Iterator[tuple[str, str]]:
    """Flatten JSON into names and values; a command becomes one shell line."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _facts(item, f"{way}.{name}" if way else name)
    elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
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
