"""`pact-eval plan`: how many items, before anything is run."""

from __future__ import annotations

from typing import Annotated

import click

from pact_cli.commands import command
from pact_cli.console import emit
from pact_cli.param_types import Count, Number
from pact_eval.errors import InputError
from pact_eval.sample_sizes import plan_items
from pact_reports.views.sample_sizes import present_sample_plan

Percent = Annotated[float, Number(min=0, max=100, min_open=True)]
Alike = Annotated[float, Number(max=100)]


@command()
def plan(
    *,
    difference: Percent = 2.0,
    accuracy: Percent,
    agree: Percent | None = None,
    family_size: Count = 1,
    alike: Alike | None = None,
    gate_error: Percent | None = None,
) -> None:
    """Say how many items are needed, before anything is run.

    To show a difference of two models, or that equal ones differ by less; to know the accuracy; to
    let a model act alone; to show a letter that is chosen too often. Each number is that of the
    test that `compare`, `report` and `thresholds` use: at 5%, with a finding in 4 of 5 cases. What
    is assumed is printed, with the range of items behind it. What a plan.toml describes is run by
    `pact-eval experiment`.

    Numbers:
        --difference: Smallest difference that matters, in points.
        --accuracy: Percentage of right answers, about.
        --agree: Percentage of items that both models answer right, or both wrong. Default: 90.
        --family-size: Items in each group that belongs together.
        --alike: How much the items of a group come out alike: 0 not at all, 100 as copies.
            Default: 50.
        --gate-error: Largest percentage of errors of a model that acts alone.
    """
    try:
        planned = plan_items(
            difference,
            accuracy,
            agree=agree,
            family_size=family_size,
            alike=alike,
            gate_error=gate_error,
        )
    except InputError as error:
        raise click.UsageError(str(error)) from error
    emit(present_sample_plan(planned))
