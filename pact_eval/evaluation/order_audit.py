"""The order audit: effects of the order of the answers on a run, next to those of noise alone.

Views show the same question with its answers in other orders. The audit has the view TV and flip
rate of a run, which slots it prefers, and what averaging over its orders gains. Each is shown next
to its noise floor: the most that asking again in the same order would have given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.marks import Evidence
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.order_effect import NoiseFloor, OrderEffect, flip_floor, near_ties
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreferences

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
