"""How many items are needed, and what that rests on."""

from __future__ import annotations

from collections.abc import Iterator

from pact_eval.sample_sizes import SamplePlan
from pact_reports.table import Column, Part, Table, table_row
from pact_reports.views.brief import Fact, facts_table
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json


def present_sample_plan(plan: SamplePlan) -> Presenter:
    """Present how many items are needed.

    Args:
        plan: the numbers.
    """

    def parts() -> Iterator[Part]:
        rows = tuple(
            table_row(f"to {size.goal}", size.items_text, size.range_text, size.assumes)
            for size in plan.sizes
        )
        texts = (Column("", "left", width=0.4), Column("if", "left", width=0.4))
        columns = (texts[0], Column("items"), Column("range"), texts[1])
        yield Table(name="sizes", columns=columns, rows=rows, bare=True)
        yield facts_table([Fact("groups", plan.group_words), Fact("chance", plan.chance_words)])

    return Presenter(
        tables=parts,
        to_json=lambda: {"plan": to_json(plan)},
        headline=lambda: (plan.sizes[0].line,),
    )
