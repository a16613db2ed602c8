"""A run at every number of views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.evaluation import METRICS, Calibration, SweepPoint
from pact_reports.numbers import estimate_text
from pact_reports.tables.comparison_tables import reason_lines
from pact_reports.writers.terminal import new_table, whole

__all__ = ["SWEEP_METRICS", "sweep_report"]

SWEEP_METRICS = (
    "accuracy",
    "pair_accuracy",
    "nll_nats",
    "ece",
    "view_tv",
    "flip_rate",
    "ensemble_gain",
)
"""What the table shows of `METRICS`; JSON has all of them."""

_SHOWN = [spec for spec in METRICS if spec.name in SWEEP_METRICS]


def sweep_report(
    points: Sequence[SweepPoint], calibration: Calibration, *, plain: bool
) -> Iterator[RenderableType]:
    """Lay out a run at every number of views.

    Args:
        points: the run at each of them, one or more.
        calibration: whether the distributions were calibrated.
        plain: ASCII rules.

    Yields:
        How the numbers were made; one row a number of views; why some are undefined.
    """
    group = points[0].group
    method = group.estimates["accuracy"].method.replace("clusters", "families")
    yield Text(
        f"Decoding: ensemble of the first K views, {calibration}; {group.items:,} items, "
        f"{group.families:,} families. TV and flips are of the raw views."
    )
    yield Text(f"Rates in %, gain in points, NLL in nats; in brackets the {method}.")
    yield _table(points, plain=plain)
    for point in points:
        estimates = point.group.estimates
        yield from reason_lines(
            (f"{spec.title} at K = {point.k}", estimates[spec.name].reason) for spec in _SHOWN
        )


def _table(points: Sequence[SweepPoint], *, plain: bool) -> Table:
    table = new_table(plain=plain)
    table.add_column("K", justify="right")
    for spec in _SHOWN:
        table.add_column(spec.title)
    for point in points:
        cells = [estimate_text(point.group.estimates[spec.name], spec.unit) for spec in _SHOWN]
        table.add_row(str(point.k), *cells)
    return whole(table)
