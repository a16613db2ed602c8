"""A run at every number of views."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import ASCII2, SIMPLE_HEAD
from rich.table import Table

from pact_eval.evaluation import METRICS
from pact_eval.sweep import SweepPoint
from pact_reports.numbers import estimate_text

__all__ = ["SWEEP_METRICS", "sweep_table"]

SWEEP_METRICS = ("accuracy", "pair_accuracy", "nll_nats", "ece", "tv", "flip_rate", "gain_from_k")
"""What the table shows of `METRICS`; JSON has all of them."""


def sweep_table(points: Sequence[SweepPoint], *, plain: bool) -> Table:
    """Lay out one row a number of views.

    Args:
        points: the run at each of them.
        plain: ASCII rules.
    """
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("K", justify="right")
    specs = [spec for spec in METRICS if spec.name in SWEEP_METRICS]
    for spec in specs:
        table.add_column(spec.title)
    for point in points:
        cells = [estimate_text(point.group.estimates[spec.name], spec.unit) for spec in specs]
        table.add_row(str(point.k), *cells)
    return table
