"""Views one by one: mean views and agreement with all views, by the risk that is taken."""

from __future__ import annotations

from pact_eval.remedies.sequential import SequentialPoint, SequentialReplay
from pact_eval.stats.estimate import Estimate
from pact_reports.numbers import has_width, methods_text
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import estimate_cell


def sequential_table(replay: SequentialReplay) -> Table:
    """Lay out a replay: a row per risk.

    Args:
        replay: with one point or more.
    """
    k = f"K = {replay.k}"
    estimates = [
        estimate
        for point in replay.points
        for estimate in (point.agreement, point.accuracy_difference, point.nll_difference)
    ]
    return Table(
        name="sequential-views",
        title="Views one by one",
        caption=(
            "An item stops when its margin is firm; thresholds are chosen on other families.\n"
            "Risk: share of answers that differ from those of all views "
            f"({replay.most:.2f} per item, no repeats).\n"
            f"Rates in %, differences in points, NLL in nats; in brackets the "
            f"{methods_text(estimates)}. Thresholds are held fixed in the resamples."
        ),
        columns=(
            Column("Risk"),
            Column("Views", "left", better=-1),
            Column(f"Answer of {k}", "left", better=1),
            Column(f"Accuracy − {k}", "left", better=1),
            Column(f"NLL − {k}", "left", better=-1),
        ),
        rows=tuple(map(_row, replay.points)),
    )


def _row(point: SequentialPoint) -> Row:
    return Row(
        (
            Cell(f"{point.risk:.0%}", data=f"{point.risk:g}"),
            _views_cell(point.views),
            estimate_cell(point.agreement, "percent"),
            estimate_cell(point.accuracy_difference, "points"),
            estimate_cell(point.nll_difference, "nats"),
        )
    )


def _views_cell(views: Estimate) -> Cell:
    interval = f"[{views.low:.2f}, {views.high:.2f}]" if has_width(views) else ""
    return Cell(f"{views.value:.2f}", reason=views.reason, interval=interval)
