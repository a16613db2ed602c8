"""How many items are needed, and what that rests on."""

from __future__ import annotations

from pact_eval.sample_sizes import SamplePlan
from pact_reports.table import Column, make_table
from pact_reports.views.presenter import Fact, Presenter, facts_table
from pact_reports.writers.json import to_json


def present_sample_plan(plan: SamplePlan) -> Presenter:
    """Present how many items are needed.

    Args:
        plan: the numbers.
    """
    sizes = make_table(
        "sizes",
        plan.sizes,
        (Column("", "left", width=0.4), lambda size: f"to {size.goal}"),
        ("items", lambda size: size.items_text),
        ("range", lambda size: size.range_text),
        (Column("if", "left", width=0.4), lambda size: size.assumes),
        bare=True,
    )
    facts = [Fact("groups", plan.group_words), Fact("chance", plan.chance_words)]
    return Presenter(
        tables=lambda: (sizes, facts_table(facts)),
        to_json=lambda: {"plan": to_json(plan)},
        headline=lambda: (plan.sizes[0].line,),
    )
