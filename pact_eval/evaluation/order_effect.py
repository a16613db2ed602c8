"""Effect of the order of the answers on a run, next to that of noise alone.

A server's noise is measured by its probe, which repeats requests (`run.json`). A local model
repeats bit for bit; its noise is that of rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import numeric_noise
from pact_eval.evaluation.report import Evaluation
from pact_eval.metrics.decisions import most_probable
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate

FloorSource = Literal["repeats", "rounding", "not measured", "not in the log"]
"""Where a noise floor is from: repeated requests, rounding errors of a local model, or nowhere. A
log that was imported is what it is: nobody can measure the noise of its model later."""

OrderFinding = Literal["shown", "not shown", "identical", "no floor", "one order", "one view"]
"""What is known of the effect of the order.

shown: views differ by more than noise. not shown: by no more than noise. identical: the answers are
the same in every order. no floor: noise was not measured. one order: no item was shown in two
orders. one view: K is 1.
"""

_FEWEST_AGREEING: Final = 6
_SAME: Final = 1e-9


@dataclass(frozen=True)
class NoiseFloor:
    """Effect of noise alone.

    Attributes:
        source: where it is from.
        tv: largest TV of two answers to the same question in the same order; NaN if not measured.
        repeats: number of times that one item was asked in the same order; 0 for a local model.
        flips: repeats whose most probable answer is not that of the first.
        precision: of a local model, such as float32; None for a server.
    """

    source: FloorSource
    tv: float
    repeats: int = 0
    flips: int = 0
    precision: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether noise was measured, or is known by construction."""
        return not math.isnan(self.tv)


@dataclass(frozen=True)
class OrderEffect:
    """Effect of the order in which answers are shown.

    Attributes:
        finding: what is known, by the view TV.
        k: views per item.
        floor: what noise alone moves.
        view_tv: mean TV between the views of an item, with its interval.
        flip_rate: share of items whose answer differs between views, with its interval.
        orders_hidden: whether a server sorts the options, so that no order reaches the model.
    """

    finding: OrderFinding
    k: int
    floor: NoiseFloor
    view_tv: Estimate
    flip_rate: Estimate
    orders_hidden: bool = False


@dataclass(frozen=True)
class Ties:
    """Views in which several answers are equally probable, to 1e-12.

    Which of them is the answer is a convention: the first in canonical order. So a tie may decide
    whether an answer changes.

    Attributes:
        tied: number of such views.
        views: number of views.
        changed: share of the items whose answer changes by that convention alone.
        unchanged: share of the items whose answer does not change by that convention alone.
    """

    tied: int = 0
    views: int = 0
    changed: float = 0.0
    unchanged: float = 0.0

    @classmethod
    def of(cls, items: ScoredItems) -> Ties:
        """Count the ties of items with their views in memory, uncalibrated."""
        flipped = items.flipped
        shown = ~np.isnan(flipped)
        if items.k < 2 or not shown.any():
            return cls()
        best: npt.NDArray[np.bool_] = most_probable(items.predictions.log_probs_by_view)[shown]
        tied = best.sum(axis=2) > 1
        # Some answer is as probable as any other in every view, and not the only one.
        everywhere: npt.NDArray[np.bool_] = np.all(best, axis=1)
        open_items = everywhere.any(axis=1) & tied.any(axis=1)
        by_convention = open_items & (flipped[shown] == 1), open_items & (flipped[shown] == 0)
        changed, unchanged = (float(rows.mean()) for rows in by_convention)
        return cls(int(tied.sum()), tied.size, changed, unchanged)


def noise_floor(provenance: Provenance) -> NoiseFloor:
    r"""Return what noise alone moves in a run.

    Of a server, it is the largest TV of repeated requests: those of the probe before the run, and
    its items asked again at the end, unless the model has changed. A local model repeats bit for
    bit. Its logits have rounding errors of at most d (`numeric_noise`), by which the TV of two
    distributions is at most

    .. math:: \max_p \left( \frac{p e^d}{p e^d + (1 - p) e^{-d}} - p \right) = \tanh(d / 2)

    Args:
        provenance: of the run.

    Examples:
        >>> from pact_eval.runs.provenance import Provenance
        >>> round(noise_floor(Provenance.of({"settings": {"dtype": "bfloat16"}})).tv, 4)
        0.0624
    """
    probe = provenance.probe
    if probe is not None and probe.floor.largest_tv is not None:
        at_end = 0.0 if probe.changed else probe.end_largest_tv or 0.0
        floor, largest = probe.floor, max(probe.floor.largest_tv, at_end)
        return NoiseFloor("repeats", largest, floor.repeats or 0, floor.flips or 0)
    noise = numeric_noise(provenance)
    if noise is None:
        imported = provenance.source == "import"
        return NoiseFloor("not in the log" if imported else "not measured", math.nan)
    return NoiseFloor("rounding", math.tanh(noise / 2), precision=provenance.dtype)


def order_effect(evaluation: Evaluation, provenance: Provenance) -> OrderEffect:
    """Return whether the answers of a run follow the order in which they are shown.

    The effect is shown if the whole 95% interval of the view TV is above the noise floor. If all
    families agree, there is no interval; it is then shown if the view TV is above the floor in six
    families or more, which chance alone does in 3% of cases.

    Args:
        evaluation: the report on the run.
        provenance: of the run.
    """
    estimates, floor = evaluation.groups[0].estimates, noise_floor(provenance)
    view_tv, flips = estimates["view_tv"], estimates["flip_rate"]
    probe = provenance.probe
    sorts = probe is not None and probe.order.effect == "not seen"
    finding = _finding((view_tv, flips), evaluation.k, floor, sorts=sorts)
    return OrderEffect(finding, evaluation.k, floor, view_tv, flips, orders_hidden=sorts)


def _finding(
    moved: tuple[Estimate, Estimate], k: int, floor: NoiseFloor, *, sorts: bool
) -> OrderFinding:
    view_tv, flips = moved
    if sorts:
        return "identical"
    if k == 1:
        return "one view"
    if math.isnan(view_tv.value):  # of answers without probabilities, only the flips are known
        return "one order" if math.isnan(flips.value) else "no floor"
    if view_tv.value <= _SAME:
        return "identical"
    if not floor.is_known:
        return "no floor"
    low = view_tv.low
    if math.isnan(low) and view_tv.clusters >= _FEWEST_AGREEING:
        low = view_tv.value
    return "shown" if low > floor.tv else "not shown"


def flip_floor(items: ScoredItems, floor: NoiseFloor) -> float:
    """Return the share of items whose answer at view 0 noise could change; NaN if it is not known.

    Args:
        items: at view 0, with their views in memory, uncalibrated.
        floor: what noise alone moves.
    """
    if not floor.is_known or not len(items):
        return math.nan
    return float(near_ties(items, floor).mean())


def near_ties(items: ScoredItems, floor: NoiseFloor) -> npt.NDArray[np.bool_]:
    """Return (n,) whether noise could change the answer of an item at view 0.

    Two distributions at a TV of t differ in p_a - p_b by at most 2 t.
    """
    if not len(items):
        return np.zeros(0, dtype=np.bool_)
    best = np.sort(np.exp(items.log_probs), axis=1)[:, -2:]
    return np.asarray(best[:, 1] - best[:, 0] <= 2 * floor.tv + _SAME)
