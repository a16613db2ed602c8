"""Options for views that are taken one by one, and the rule that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.console import announce
from pact_cli.number_types import Number, WholeNumber
from pact_cli.options import RUN, gathered
from pact_cli.parameters import choice, option
from pact_eval._choices import TakenViews
from pact_eval._json import Json
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval.remedies.view_rules import AdaptiveViews
    from pact_eval.scoring.windows import Dataset


def _gather(views: TakenViews, **values: object) -> AdaptiveViews | None:
    """Return what the options ask for; None for all views.

    Raises:
        click.UsageError: an option changes nothing, or the run of the threshold is missing.
    """
    chosen = {name: value for name, value in values.items() if value is not None}
    if views == "all" and not chosen:
        return None
    from pact_eval.remedies.view_rules import adaptive_views

    try:
        return adaptive_views(views, **chosen)
    except InputError as error:
        raise click.UsageError(str(error)) from None


adaptive_options = gathered(
    "adaptive",
    _gather,
    [
        option(
            "--views",
            group="Views",
            type=choice(TakenViews),
            default="all",
            show_default=True,
            help="Views of a record: all K of them, or one after the other until its answer is "
            "firm.",
        ),
        option(
            "--views-from",
            group="Views",
            metavar="RUN",
            type=RUN,
            help="Run of all views on other families, on which --views adaptive chooses when to "
            "stop.",
        ),
        option(
            "--risk",
            group="Views",
            type=Number(min=0, max=1, min_open=True, max_open=True),
            help="Share of answers that may differ from those of all views. Default: 0.02.",
        ),
        option(
            "--full-share",
            group="Views",
            type=Number(min=0, max=1),
            help="Share of the families that get all views under --views adaptive. Default: 0.1.",
        ),
        option(
            "--full-seed",
            group="Views",
            type=WholeNumber(min=0),
            help="Seed of the sample of --full-share. Default: 0.",
        ),
    ],
)
"""Options of `pact-eval score` that the command gets as `adaptive`."""


def with_view_rule(
    dataset: Dataset, adaptive: AdaptiveViews | None, settings: Mapping[str, Json]
) -> Dataset:
    """Return the dataset with the rule by which its views are taken.

    Args:
        dataset: the records, and the most views of each.
        adaptive: what was asked for; None takes all views.
        settings: those that identify the model.

    Raises:
        PactError: see `pact_eval.remedies.view_rules.view_rule`.
    """
    if adaptive is None:
        return dataset
    from pact_eval.remedies.view_rules import with_rule
    from pact_reports.sentences.remedies import rule_sentence

    dataset = with_rule(dataset, adaptive, settings)
    if dataset.rule is not None:
        announce([rule_sentence(dataset.rule, Path(str(adaptive.fitted_on)))])
    return dataset
