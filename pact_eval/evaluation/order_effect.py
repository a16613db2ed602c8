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

from pact_eval.evaluation.combined_differences import Evidence
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.notes import numeric_noise
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.metrics.decisions import most_probable
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreferences

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


GAINS: Final = ("accuracy", "pair_accuracy", "nll_nats")
"""The metrics whose gain from averaging over orders is audited."""


@dataclass(frozen=True)
class OrderGain:
    """Change in one metric by averaging over K orders.

    Attributes:
        spec: the metric.
        single: its value at view 0, with its interval.
        ensemble: its value over K views, with its interval.
        difference: K views minus view 0, with its paired interval.
        evidence: whether the difference is shown, and by which test.
        floor: largest difference that K repeats of view 0 could have given; NaN if noise is not
            known.
    """

    spec: MetricSpec
    single: Estimate
    ensemble: Estimate
    difference: Estimate
    evidence: Evidence
    floor: float

    @property
    def beyond_floor(self) -> bool:
        """Whether the difference is shown and its interval is beyond what noise could have given.

        False if noise is not known.
        """
        nearest = min(abs(self.difference.low), abs(self.difference.high))
        return self.evidence.marked and nearest > self.floor


@dataclass(frozen=True)
class OrderAudit:
    """The order audit of one run; every number is of the items that are shown in several orders.

    Attributes:
        effect: view TV and flip rate, and whether the order has an effect.
        items: number of items that are shown in several orders.
        one_order: number of the other items.
        flip_floor: share of the items whose answer at view 0 noise could change; NaN if noise is
            not known.
        gains: what averaging over orders changes; empty for ablated contexts and one view.
        slots: which slots are preferred or avoided.
    """

    effect: OrderEffect
    items: int
    one_order: int
    flip_floor: float
    gains: tuple[OrderGain, ...]
    slots: SlotPreferences

    @property
    def flips_beyond_floor(self) -> bool:
        """Whether more items flip than noise could flip; False if noise is not known."""
        return self.effect.flip_rate.low > self.flip_floor


def order_audit(
    effect: OrderEffect,
    slots: SlotPreferences,
    single: ScoredItems,
    ensemble: ScoredItems | None,
    *,
    rng: np.random.Generator,
    resamples: int,
) -> OrderAudit:
    """Audit what the order of the answers does to a run.

    Args:
        effect: of the run.
        slots: the test of its letters.
        single: its items at view 0, with their views in memory, uncalibrated.
        ensemble: the same items over K views; None if there is no ensemble.
        rng: source of the permutations and resamples.
        resamples: bootstrap resamples of families.
    """
    orders = single.reordered
    rows = np.arange(len(single)) if orders is None else np.flatnonzero(orders)
    rows = rows if single.k > 1 else rows[:0]
    items = single.taken(rows)
    near = near_ties(items, effect.floor)
    gains: tuple[OrderGain, ...] = ()
    if ensemble is not None and len(items) and items.reference is not None:
        metrics = [find_metric(name) for name in GAINS]
        k_views, view_0 = (
            resampled_group("all", view_items, rng=rng, resamples=resamples, entries=metrics)
            for view_items in (ensemble.taken(rows), items)
        )
        gains = tuple(_gain(name, k_views, view_0, near, effect.floor) for name in GAINS)
    return OrderAudit(
        effect=effect,
        items=len(items),
        one_order=len(single) - len(items),
        flip_floor=flip_floor(items, effect.floor),
        gains=tuple(gain for gain in gains if not math.isnan(gain.difference.value)),
        slots=slots,
    )


def _gain(
    name: str,
    k_views: ResampledGroup,
    view_0: ResampledGroup,
    near: npt.NDArray[np.bool_],
    floor: NoiseFloor,
) -> OrderGain:
    difference, test = metric_difference(name, [(k_views, view_0)])
    return OrderGain(
        spec=find_metric(name).spec,
        single=view_0.estimate(name),
        ensemble=k_views.estimate(name),
        difference=difference,
        evidence=test,
        floor=_gain_floor(name, view_0.items, near, floor) if floor.is_known else math.nan,
    )


def _gain_floor(
    name: str, items: ScoredItems, near: npt.NDArray[np.bool_], floor: NoiseFloor
) -> float:
    r"""Return the largest gain that K repeats of view 0 could have given, at TV t or less.

    Only near ties can change an answer, and with it an accuracy. For the NLL,

    .. math:: \frac 1n \sum_i \log\left(1 + \frac{t}{p_i}\right) - \log(1 - (K - 1)\, t)

    with p_i the probability of the reference at view 0: no repeat gives it more than p_i + t, and
    the mean of K log-probabilities sums to 1 - (K - 1) t or more before it is renormalised.
    """
    if name == "accuracy":
        return float(near.mean())
    if name == "pair_accuracy":
        pairs = items.pairs
        either = near[pairs.base] | near[pairs.counterfactual]
        return float(either.mean()) if either.size else math.nan
    left = 1 - (items.k - 1) * floor.tv
    if left <= 0:
        return math.inf
    return float(np.log1p(floor.tv * np.exp(items.nll)).mean()) - math.log(left)
