"""The order of the answers: its effect next to noise, an audit, and the conclusion on a run.

A server's noise is measured by its probe, which repeats requests (`run.json`). A local model
repeats bit for bit; its noise is that of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np

from pact_eval._typing import BoolArray
from pact_eval.data.records import position_name
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Sentence, Unchecked
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import numeric_noise
from pact_eval.evaluation.registry import REPEATS_OF_ONE_ORDER, MetricSpec, find_metric
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.resampled_groups import (
    Evidence,
    ResampledGroup,
    metric_difference,
    resampled_groups,
)
from pact_eval.metrics.decoding import most_probable
from pact_eval.numbers import (
    estimate_parts,
    interval_text,
    p_value_text,
    rate_text,
    sample_text,
    value_text,
)
from pact_eval.plain_text import one_line, upper_first
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.letter_preference import SlotPreference, SlotPreferences

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

    @property
    def unmeasured(self) -> str:
        """Why noise is not known, and what would measure it."""
        asked = "no repeats were measured; `pact-eval score --probe` measures them"
        return NO_REPEATS if self.source == "not in the log" else asked


@dataclass(frozen=True)
class OrderEffect:
    """Effect of the order in which answers are shown.

    Attributes:
        finding: what is known, by the view TV.
        k: views per item.
        floor: what noise alone moves.
        view_tv: mean TV between the views of an item, with its interval.
        flip_rate: share of items whose answer differs between views, with its interval.
        orders_hidden: whether answers of a server are the same in any order of the options.
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
        flipped = items.values["flip_rate"]
        shown = ~np.isnan(flipped)
        if items.k < 2 or not shown.any():
            return cls()
        best: BoolArray = most_probable(items.predictions.log_probs_by_view)[shown]
        tied = best.sum(axis=2) > 1
        # Some answer is as probable as any other in every view, and not the only one.
        everywhere: BoolArray = np.all(best, axis=1)
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
    estimates, floor, k = evaluation.groups[0].estimates, noise_floor(provenance), evaluation.k
    view_tv, flips = estimates["view_tv"], estimates["flip_rate"]
    probe, low = provenance.probe, view_tv.low
    sorts = probe is not None and probe.order.effect == "not seen"
    if math.isnan(low) and view_tv.clusters >= _FEWEST_AGREEING:
        low = view_tv.value
    finding: OrderFinding = "shown" if low > floor.tv else "not shown"
    if sorts:
        finding = "identical"
    elif k == 1:
        finding = "one view"
    elif math.isnan(view_tv.value):  # of answers without probabilities, only the flips are known
        finding = "one order" if math.isnan(flips.value) else "no floor"
    elif view_tv.value <= _SAME:
        finding = "identical"
    elif not floor.is_known:
        finding = "no floor"
    return OrderEffect(finding, k, floor, view_tv, flips, orders_hidden=sorts)


def flip_floor(items: ScoredItems, floor: NoiseFloor) -> float:
    """Return the share of items whose answer at view 0 noise could change; NaN if it is not known.

    Args:
        items: at view 0, with their views in memory, uncalibrated.
        floor: what noise alone moves.
    """
    if not floor.is_known or not len(items):
        return math.nan
    return float(near_ties(items, floor).mean())


def near_ties(items: ScoredItems, floor: NoiseFloor) -> BoolArray:
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
    rows = np.flatnonzero(~np.isnan(single.values["flip_rate"]))
    items = single.taken(rows)
    near = near_ties(items, effect.floor)
    gains: tuple[OrderGain, ...] = ()
    if ensemble is not None and len(items) and items.reference is not None:
        k_views, view_0 = (
            resampled_groups(view_items, rng=rng, resamples=resamples, names=GAINS)[0]
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
    name: str, k_views: ResampledGroup, view_0: ResampledGroup, near: BoolArray, floor: NoiseFloor
) -> OrderGain:
    r"""Return the gain in a metric, and the largest that K repeats of view 0 could have given.

    Only near ties can change an answer, and with it an accuracy. For the NLL and a TV of t or less,

    .. math:: \frac 1n \sum_i \log\left(1 + \frac{t}{p_i}\right) - \log(1 - (K - 1)\, t)

    with p_i the probability of the reference at view 0: no repeat gives it more than p_i + t, and
    the mean of K log-probabilities sums to 1 - (K - 1) t or more before it is renormalised.
    """
    difference, test = metric_difference(name, [(k_views, view_0)])
    items, largest = view_0.items, math.nan
    if not floor.is_known:
        pass
    elif name == "nll_nats":
        left = 1 - (items.k - 1) * floor.tv
        raised = float(np.log1p(floor.tv * np.exp(items.values[name])).mean())
        largest = raised - math.log(left) if left > 0 else math.inf
    else:
        pairs = items.pairs
        paired = near[pairs.base] | near[pairs.counterfactual]
        changes = near if name == "accuracy" else paired
        largest = float(changes.mean()) if changes.size else math.nan
    sides = view_0.estimate(name), k_views.estimate(name)
    return OrderGain(find_metric(name).spec, *sides, difference, test, largest)


OrderStatus = Literal["follows a letter", "follows a position", "unstable", "stable", "cannot tell"]
"""follows a letter, follows a position: some letter, or the last position, is chosen for its own
sake. unstable: answers change, and none is. stable: few answers change. cannot tell: see the
reason."""

CHANGES: Final = 0.1
"""Answers are stable if at most this share of them changes with the order, unstable above it."""

LEAST_PREFERENCE: Final = 0.01
"""A preference is told if its interval is beyond this share of views: a larger sample shows any."""

FEWEST_FAMILIES: Final = 5
"""Of fewer families, nothing is concluded on order or probabilities."""

ONE_ORDER: Final = "each item was shown in one order"
"""Why nothing is known of orders if no item was shown in two."""

NO_REPEATS: Final = "the log has no repeats of one order"
"""Why the noise of a log is unknown; nobody can measure it later."""

NO_TIES: Final = Ties()
_LETTERS_FIRST: Final = 1.25


@dataclass(frozen=True, kw_only=True, repr=False)
class OrderConclusion(Conclusion):
    """Conclusion on whether a run follows the order in which answers are shown.

    Attributes:
        status: see `OrderStatus`.
        run: label of the run.
        flip_rate: share of items whose answer changes between orders, with its interval.
        view_tv: mean TV between the orders of an item, with its interval.
        followed: the letters or positions that are shown to be chosen for their own sake or
            avoided, the one that the status names first.
        reason: why nothing can be told, or None.
        ties: views in which several answers are equally probable.
    """

    question: ClassVar[Question] = "order"

    status: OrderStatus
    run: str
    flip_rate: Estimate
    view_tv: Estimate
    followed: tuple[SlotPreference, ...] = ()
    reason: str | None = None
    ties: Ties = NO_TIES

    @property
    def words(self) -> Sentence:
        """The finding with its numbers.

        Examples:
            "Follows the letter A: chosen 24.2 points [21.8, 26.7] above chance (p < 0.001); ..."
            "Cannot tell: 12.5% [9.6, 16.1] of answers change; too few items: ..."
        """
        flips = self.flip_rate
        change = f"{rate_text(flips)} of answers change"
        if self.status == "cannot tell":
            known = "" if math.isnan(flips.value) else f"{change}; "
            return Sentence(self._finding.capitalize(), f"{known}{one_line(str(self.reason))}.")
        ties = ties_words(self.ties.tied, self.ties.views)
        if not self.followed:
            return Sentence(self._finding.capitalize(), f"{change}{ties}.")
        first, *others = self.followed
        # Other letters are avoided because this one is followed; equal ones are in the finding.
        also = "".join(
            f", also {position_name(slot.slot)}"
            for slot in others
            if slot.slot >= 0 and first.slot >= 0 and slot.preference.value > 0
            if not math.isclose(slot.preference.value, first.preference.value)
        )
        where = ""
        if first.group is not None:
            sides = (first.group.inside, first.group.outside)
            inside, outside = (interval_text(side, "points") for side in sides)
            where = f", there {inside}, elsewhere {outside}"
        chosen = f"chosen {_from_chance(first.preference, interval=True)}"
        change = f"{value_text(flips.value, 'percent')}% of answers change"
        test = p_value_text(first.adjusted_p_value)
        return Sentence(
            upper_first(self._finding), f"{chosen} ({test}){where}{also}; {change}{ties}."
        )

    @property
    def _finding(self) -> str:
        """The status, with its letters; "not tested" if orders were not varied."""
        if self.followed:
            return followed_together(self.followed)
        untested = self.reason in (ONE_ORDER, REPEATS_OF_ONE_ORDER)
        return "not tested" if untested else self.status

    @property
    def mark(self) -> str:
        """The same beside other runs.

        Example:
            "FOLLOWS THE LETTER A (chosen 24.2 points above chance)"
        """
        if self.status == "cannot tell":
            return self.line
        if not self.followed:
            changes = value_text(self.flip_rate.value, "percent")
            return f"{self.emphasise(self.status)} ({changes}% of answers change)"
        first = self.followed[0]
        points = _from_chance(first.preference)
        if first.group is not None:
            points = f"{_from_chance(first.group.inside)} there"
        return f"{self.emphasise(followed_together([first]))} (chosen {points})"

    @property
    def word(self) -> str:
        """The same in a cell of a table.

        Example:
            "FOLLOWS A"
        """
        if not self.followed:
            return self.emphasise(self._finding)
        first = self.followed[0]
        where = "the last place" if first.slot < 0 else position_name(first.slot)
        return self.emphasise(f"{_verb(first)} {where}")


def order_conclusion(
    run: str,
    effect: OrderEffect,
    slots: SlotPreferences,
    *,
    flip_floor: float = math.nan,
    items: tuple[str, ...] = (),
    repeats: bool = False,
    untested: int = 0,
    ties: Ties = NO_TIES,
) -> OrderConclusion:
    """Return whether a run follows the order of its answers.

    A letter or position is followed if the permutation test and t over families both show it
    (`slot_preferences`), and its interval is beyond `LEAST_PREFERENCE`. No noise floor is needed,
    because repeats cannot prefer a letter. If none is followed, the flip rate decides: its interval
    is above or below `CHANGES`.

    Args:
        run: label of the run.
        effect: flip rate, view TV and noise of the run.
        slots: the test of every letter, and of the last position.
        flip_floor: share of the items whose answer repeats alone could change; NaN if unknown.
        items: ids of the items whose answer changes.
        repeats: whether the views are repeats of one order, which show nothing about orders.
        untested: number of items whose letters were not tested.
        ties: views in which several answers are equally probable.
    """
    flips, floor = effect.flip_rate, effect.floor
    untold = effect.finding in ("one view", "one order") or not slots.items
    followed = () if repeats or untold else _preferred_slots(slots)
    reason = REPEATS_OF_ONE_ORDER if repeats else _reason(effect, slots, flip_floor, ties)
    unchecked: list[Unchecked] = []
    status: OrderStatus = "cannot tell"
    if not repeats and not untold:
        if not floor.is_known:
            unchecked.append(Unchecked("repeats", floor.unmeasured))
        if followed:
            status = "follows a position" if followed[0].slot < 0 else "follows a letter"
            reason = None
        elif reason is None:
            status = "stable" if flips.high <= CHANGES else "unstable"
    if untested and slots.items and not repeats:
        unchecked.append(Unchecked("letters", f"{counted(untested, 'item')} after the first ones"))
    return OrderConclusion(
        status=status,
        run=run,
        flip_rate=flips,
        view_tv=effect.view_tv,
        followed=followed,
        reason=reason,
        items=items,
        unchecked=tuple(unchecked),
        ties=ties,
    )


def _preferred_slots(slots: SlotPreferences) -> tuple[SlotPreference, ...]:
    """Return letters and positions chosen or avoided for their own sake, by number of views.

    The interval of each, or else its value, is beyond `LEAST_PREFERENCE`. The last position has a
    letter in every item, so it comes first only if it explains more views than any one letter does.
    """

    def shown(slot: SlotPreference) -> bool:
        value, low, high = (getattr(slot.preference, end) for end in ("value", "low", "high"))
        beyond = low >= LEAST_PREFERENCE or high <= -LEAST_PREFERENCE
        if math.isnan(low):
            beyond = abs(value) >= LEAST_PREFERENCE
        return bool(slot.marked and slot.preference.clusters >= FEWEST_FAMILIES and beyond)

    def rank(slot: SlotPreference) -> tuple[bool, float]:
        views = abs(slot.preference.value) * slot.shown
        return slot.preference.value < 0, -views / (_LETTERS_FIRST if slot.slot < 0 else 1)

    every = [*slots.slots, *([] if slots.last is None else [slots.last])]
    return tuple(sorted(filter(shown, every), key=rank))


def _reason(
    effect: OrderEffect, slots: SlotPreferences, flip_floor: float, ties: Ties
) -> str | None:
    """Return the reason that the flip rate decides nothing; None if it does."""
    flips = effect.flip_rate
    if effect.orders_hidden and effect.finding != "one view":
        return "no order is seen: the server sorts the options, or its model ignores their order"
    if effect.finding in ("one view", "one order") or not slots.items:
        return ONE_ORDER
    if flips.clusters < FEWEST_FAMILIES or math.isnan(flips.low):
        return f"too few: {sample_text(flips.n, flips.clusters, 'family')} in several orders"
    if flips.low <= CHANGES < flips.high:
        return f"too few items: the share that changes may be below or above {CHANGES:.0%}"
    if flips.low - ties.changed <= CHANGES < flips.high + ties.unchanged:
        if ties.tied == ties.views:
            return "every answer is a tie: no letter is the most probable one"
        return f"ties: {ties.tied:,} of {ties.views:,} answers have several most probable letters"
    if flips.low > CHANGES and flips.low <= flip_floor:
        return "asking again may change as many"
    return None


def ties_words(tied: int, views: int) -> str:
    """Say how tied answers are counted; nothing without ties.

    Examples:
        >>> ties_words(3, 240), ties_words(0, 240)
        ('; 3 of 240 answers tie: each tied letter has a share of the choice', '')
    """
    if not tied:
        return ""
    return f"; {tied:,} of {views:,} answers tie: each tied letter has a share of the choice"


def _verb(slot: SlotPreference) -> str:
    return "follows" if slot.preference.value > 0 else "avoids"


def followed_together(followed: Sequence[SlotPreference]) -> str:
    """Write which letters are followed equally, or the one that is followed most, and in what.

    Args:
        followed: letters and positions, those that are followed most first.

    Examples:
        "follows the letters A and B", "follows the letter A in questions of 6 answers", "follows
        D, the last place", "avoids the last place"
    """
    first = followed[0]
    name, most = position_name(first.slot), first.preference.value
    equal = [
        position_name(slot.slot)
        for slot in followed
        if slot.slot >= 0 and math.isclose(slot.preference.value, most)
    ]
    if len(equal) > 1 and first.slot >= 0:
        return f"{_verb(first)} the letters {', '.join(equal[:-1])} and {equal[-1]}"
    where, of = f"the letter {name}", ""
    if first.is_last:
        where = "the last place" if first.slot < 0 else f"{name}, the last place"
    if first.group is not None:
        group = first.group.group
        answers = f"questions of {group} answers"
        of = f" in {answers if isinstance(group, int) else f'{group} questions'}"
    return f"{_verb(first)} {where}{of}"


def _from_chance(preference: Estimate, *, interval: bool = False) -> str:
    """Write how far the share of views that choose a slot is from that of permuted answers.

    Example:
        "24.2 points [21.8, 26.7] above chance"
    """
    above = preference.value > 0
    distance = preference if above else preference.negated
    value, ends = estimate_parts(distance, "percent")
    points = f"{value} points {ends}" if interval and ends else f"{value} points"
    return f"{points} {'above' if above else 'below'} chance"


def slot_name(slot: SlotPreference) -> str:
    """Return the letter of a slot, or "last" for the last slot of every item."""
    return "last" if slot.slot < 0 else position_name(slot.slot)
