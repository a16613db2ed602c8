"""A search for slices that differ in accuracy."""

from __future__ import annotations

from dataclasses import asdict

from pact_eval._json import Json
from pact_eval.evaluation.slice_search import SliceSearch
from pact_eval.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line
from pact_reports.tables.slices import slices_table


def present(search: SliceSearch) -> Presenter:
    """Present a search: the slices that were tested, and how many differ."""
    heading = Line(one_line(search.place), "strong")
    return Presenter(
        tables=lambda: (heading, *([slices_table(search)] if search.tests else [])),
        to_json=lambda: _json(search),
        headline=lambda: [_answer(search)],
    )


def _json(search: SliceSearch) -> dict[str, Json]:
    return {
        "run": search.place,
        "decoding": search.decoding,
        "columns": [*search.columns],
        "left_out": [*search.left_out],
        "slices": search.slices,
        "families": {"searched": search.searched, "tested": search.tested},
        "seed": search.seed,
        "tests": [
            {**asdict(test), "difference": test.difference, "shown": test.shown}
            for test in search.tests
        ],
    }


def _answer(search: SliceSearch) -> str:
    """Say how many slices differ, out of how many that were tested and searched.

    Examples:
        >>> search = SliceSearch("run", "single", ("kind",), (), 3, 40, 41, 0, ())
        >>> _answer(search)
        'Slices: none of 3 stands out in the 40 searched families, so none was tested.'
    """
    searched = f"{search.slices:,} in the {search.searched:,} searched families"
    if not search.tests:
        stands_out = searched.replace(" in ", " stands out in ", 1)
        return f"Slices: none of {stands_out}, so none was tested."
    tested = f"{len(search.tests)} of {searched} were tested on {search.tested:,} others"
    differing = [
        f"{test.column} = {test.name} ({100 * test.difference:+.1f} points)"
        for test in search.shown
    ]
    result = "; ".join(differing) if differing else "none is shown to differ in accuracy"
    return one_line(f"Slices: {tested}: {result}.")
