"""Slices of items on which a run is worse."""

from __future__ import annotations

from dataclasses import asdict

from pact_eval._json import Json
from pact_eval.evaluation.slice_search import SliceSearch
from pact_eval.numbers import p_value_number, value_text
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Line, Table, left_columns, right_columns, table_row
from pact_reports.views.presenter import Presenter


def present_slice_search(search: SliceSearch) -> Presenter:
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


def slices_table(search: SliceSearch) -> Table:
    """Lay out the tests of a search, the smallest p-value first."""
    rows = []
    for test in search.tests:
        rates = (test.inside, test.outside)
        rows.append(
            table_row(
                one_line(test.column),
                one_line(test.name),
                f"{test.items:,}",
                f"{test.families:,}",
                *(value_text(rate, "percent") for rate in rates),
                f"{100 * test.difference:+.1f}",
                p_value_number(test.p_value),
                Cell(p_value_number(test.adjusted), mark="significant" if test.shown else None),
            )
        )
    return Table(
        name="slices",
        title="Slices that stood out, tested on other families",
        caption=(
            f"Decoding: {search.decoding}. Accuracy in %, difference in points. Searched in "
            f"{search.searched:,} families, tested on {search.tested:,} others; permutation "
            "tests, the last column adjusted by Holm over these tests."
        ),
        columns=(
            *left_columns("column", "slice"),
            *right_columns("items", "fam.", "inside", "others", "difference", "p", "p (Holm)"),
        ),
        rows=tuple(rows),
    )
