"""The last part of a page: where every run comes from, and how the page was made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.runs import RunFolder
from pact_reports.page.markup import Html, data_text, element, joined
from pact_reports.page.request import PageRequest

__all__ = ["provenance_html"]

_FIRST: Final = ("arm", "seed", "source", "adapter", "base_model", "data", "command_line")


def provenance_html(request: PageRequest) -> Html:
    """Write `run.json` of every run, and the command and versions behind the page."""
    collection = request.collection
    runs = [_run(run.label, run.run) for run in collection.runs]
    runs += [_run(f"{run.label} on ablated contexts", run.run) for run in collection.ablated]
    return joined([*runs, _page(request)])


def _run(label: str, run: RunFolder) -> Html:
    recorded = run.provenance
    known = {name: recorded[name] for name in _FIRST if name in recorded}
    rest = {name: value for name, value in recorded.items() if name not in known}
    facts = [("folder", str(run.folder)), *_facts(known | rest)]
    return element("details", element("summary", data_text(label)), _list(facts))


def _facts(value: Json, way: str = "") -> Iterator[tuple[str, str]]:
    """Flatten JSON into names and values; a command is one line for a shell."""
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
    facts = [
        ("made by", f"pact-eval {metadata.version('pact-eval')}"),
        ("command", shlex.join(request.command) if request.command else "none: made from Python"),
        ("decoding", request.decoding),
        ("bootstrap seed", str(request.bootstrap_seed)),
        ("resamples", "default" if request.resamples is None else f"{request.resamples:,}"),
    ]
    note = element("p", "The same runs and options give the same bytes: no date of making is kept.")
    return joined([element("h3", "How this page was made"), _list(facts), note])
