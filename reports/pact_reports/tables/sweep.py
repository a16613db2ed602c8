"""A run at every number of views."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import Calibration
from pact_eval.evaluation.sweep import SweepPoint
from pact_eval.numbers import methods_text
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import NOISE, estimate_cell


def sweep_table(points: Sequence[SweepPoint], calibration: Calibration) -> Table:
    """Lay out a run at every number of views: a row per number.

    Args:
        points: the run at each of them, one or more.
        calibration: whether the distributions were calibrated.
    """
    group = points[0].group
    specs = registered_metrics("full", "sweep")  # JSON has every metric
    method = methods_text(group.estimates[spec.name] for spec in specs)
    return Table(
        name="sweep",
        title="",
        caption=(
            f"Decoding: ensemble of the first K views, {calibration}; {group.items:,} items, "
            f"{group.families:,} families. View TV and flips are of the raw views.\n"
            f"Rates in %, gain in points, NLL in nats; in brackets the {method}. {NOISE}"
        ),
        columns=(Column("K"), *(Column(spec.title, "left", better=spec.better) for spec in specs)),
        rows=tuple(
            Row(
                (
                    Cell(str(point.k)),
                    *(estimate_cell(point.group.estimates[spec.name], spec.unit) for spec in specs),
                )
            )
            for point in points
        ),
    )
