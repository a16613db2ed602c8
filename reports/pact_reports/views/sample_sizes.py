"""How many items are needed, and what that rests on."""

from __future__ import annotations

from pact_eval.sample_sizes import SamplePlan
from pact_reports.table import Column, Table, columns_and_rows
from pact_reports.views.brief import Fact, facts_table
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json


def present_sample_plan(plan: SamplePlan) -> Presenter:
    """Present how many items are needed.

    Args:
        plan: the numbers.
    """
    layout = columns_and_rows(
        plan.sizes,
        (Column("", "left", width=0.4), lambda size: f"to {size.goal}"),
        ("items", lambda size: size.items_text),
        ("range", lambda size: size.range_text),
        (Column("if", "left", width=0.4), lambda size: size.assumes),
    )
    facts = [Fact("groups", plan.group_words), Fact("chance", plan.chance_words)]
    return Presenter(
        tables=lambda: (Table("sizes", "", "", *layout, bare=True), facts_table(facts)),
        to_json=lambda: {"plan": to_json(plan)},
        headline=lambda: (plan.sizes[0].line,),
    )
