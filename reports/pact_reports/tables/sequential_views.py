"""Views one by one, by the risk that is taken: against all views, and against fixed numbers."""

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


def fixed_views_table(replay: SequentialReplay) -> Table:
    """Lay out the differences from the same number of views for every item: a row per risk.

    Args:
        replay: with one point or more.
    """
    agreements = [point.against_fixed.agreement for point in replay.points]
    return Table(
        name="fixed-views",
        title="Views one by one, minus fixed views",
        caption=(
            "Fixed: the fewest views of every item that cost as much as the rule, or more.\n"
            f"Answer of K = {replay.k}: in points, with the {methods_text(agreements)}.\n"
            "Each row is a comparison by itself: no adjustment for several risks."
        ),
        columns=(
            Column("Risk"),
            Column("Fixed", "left"),
            Column("Its views"),
            Column("Views", "left", better=-1),
            Column(f"Answer of K = {replay.k}", "left", better=1),
        ),
        rows=tuple(map(_fixed_row, replay.points)),
    )


def _fixed_row(point: SequentialPoint) -> Row:
    against = point.against_fixed
    return Row(
        (
            _risk_cell(point),
            Cell(f"K = {against.fixed.k}", data=str(against.fixed.k)),
            Cell(f"{against.fixed.views.value:.2f}"),
            _views_cell(against.views, signed=True),
            estimate_cell(against.agreement, "points"),
        )
    )


def _row(point: SequentialPoint) -> Row:
    return Row(
        (
            _risk_cell(point),
            _views_cell(point.views),
            estimate_cell(point.agreement, "percent"),
            estimate_cell(point.accuracy_difference, "points"),
            estimate_cell(point.nll_difference, "nats"),
        )
    )


def _risk_cell(point: SequentialPoint) -> Cell:
    return Cell(f"{point.risk:.0%}", data=f"{point.risk:g}")


def _views_cell(views: Estimate, *, signed: bool = False) -> Cell:
    number = "+.2f" if signed else ".2f"
    interval = f"[{views.low:{number}}, {views.high:{number}}]" if has_width(views) else ""
    return Cell(f"{views.value:{number}}", reason=views.reason, interval=interval)
