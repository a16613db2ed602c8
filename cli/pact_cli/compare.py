"""`pact-eval compare`: two runs or more on the same items."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from pact_cli.options import bootstrap_options, decoding_option, json_option

if TYPE_CHECKING:
    from pact_eval.evaluation import GroupBy
    from pact_eval.runs import Decoding

__all__ = ["compare"]


def _finite(
    context: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse nan, which no bound of a range keeps out."""
    if value is not None and math.isnan(value):
        message = "nan is not in the range 0<x<=1."
        raise click.BadParameter(message, context, parameter)
    return value


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="A B [C ...]")
@click.option(
    "--arms",
    is_flag=True,
    help="Compare arms over seeds: give NAME=PATTERN, such as pact=runs/pact-*.",
)
@click.option(
    "--by",
    type=click.Choice(["kind", "domain", "source_family"]),
    default="kind",
    show_default=True,
    help="What items are grouped by, beside all of them together.",
)
@click.option(
    "--mcnemar", is_flag=True, help="List the items that only one of the two runs gets right."
)
@click.option(
    "--equivalence-margin",
    "margin",
    type=click.FloatRange(min=0, min_open=True, max=1),
    callback=_finite,
    help="Largest difference in a rate that does not matter, as a fraction: say whether the runs "
    "are equivalent.",
)
@click.option(
    "--holm", is_flag=True, help="Adjust the p-values over the groups; of arms over the seeds."
)
@click.option("--calibrated", is_flag=True, help="Apply the calibration.json in each run's folder.")
@decoding_option
@bootstrap_options
@json_option
def compare(
    runs: tuple[str, ...],
    arms: bool,
    by: GroupBy,
    mcnemar: bool,
    margin: float | None,
    holm: bool,
    calibrated: bool,
    decoding: Decoding,
    resamples: int | None,
    bootstrap_seed: int,
    as_json: bool,
) -> None:
    """Compare A with B (and with C, ...), item by item.

    Runs are joined on item ids. Differences are A - B, with intervals over families; accuracy has
    exact tests over items (McNemar) and over families (sign flip) beside that.
    """
    from pact_cli.comparing import ComparisonRequest, compare_arms_command, compare_runs_command

    request = ComparisonRequest(
        decoding=decoding,
        by=by,
        calibrated=calibrated,
        margin=margin,
        resamples=resamples,
        bootstrap_seed=bootstrap_seed,
        holm=holm,
        mcnemar=mcnemar,
        as_json=as_json,
    )
    (compare_arms_command if arms else compare_runs_command)(runs, request)
