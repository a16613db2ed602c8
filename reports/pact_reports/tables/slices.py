"""Slices that were tested: a row per slice."""

from __future__ import annotations

from pact_eval.evaluation.slice_search import SliceSearch
from pact_eval.numbers import p_value_number, value_text
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Row, Table


def slices_table(search: SliceSearch) -> Table:
    """Lay out the tests of a search, the smallest p-value first."""
    rows = []
    for test in search.tests:
        rates = (test.inside, test.outside)
        rows.append(
            Row(
                (
                    Cell(one_line(test.column)),
                    Cell(one_line(test.name)),
                    Cell(f"{test.items:,}"),
                    Cell(f"{test.families:,}"),
                    *(Cell(value_text(rate, "percent")) for rate in rates),
                    Cell(f"{100 * test.difference:+.1f}"),
                    Cell(p_value_number(test.p_value)),
                    Cell(p_value_number(test.adjusted), mark="significant" if test.shown else None),
                )
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
            Column("column", "left"),
            Column("slice", "left"),
            *map(Column, ("items", "fam.", "inside", "others", "difference", "p", "p (Holm)")),
        ),
        rows=tuple(rows),
    )
