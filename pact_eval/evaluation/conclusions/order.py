"""Conclusion on the order of the answers: letters, positions, and answers that change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pact_eval._choices import ClusterUnit
from pact_eval.errors import counted
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Tone, Unchecked
from pact_eval.evaluation.order_effect import NoiseFloor, OrderEffect, Ties
from pact_eval.evaluation.registry import REPEATS_OF_ONE_ORDER
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreference, SlotPreferences

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
        unit: units of the intervals.
    """

    question: ClassVar[Question] = "order"
    tones: ClassVar[Mapping[str, Tone]] = {
        "follows a letter": "bad",
        "follows a position": "bad",
        "unstable": "bad",
        "stable": "good",
        "cannot tell": "open",
    }

    status: OrderStatus
    run: str
    flip_rate: Estimate
    view_tv: Estimate
    followed: tuple[SlotPreference, ...] = ()
    reason: str | None = None
    ties: Ties = NO_TIES
    unit: ClusterUnit = "family"


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
    unit: ClusterUnit = "family",
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
        unit: units of the intervals.
    """
    flips = effect.flip_rate
    followed = _followed(slots)
    unchecked = [] if effect.floor.is_known else [Unchecked("repeats", _unmeasured(effect.floor))]
    reason = REPEATS_OF_ONE_ORDER if repeats else _reason(effect, slots, flip_floor, ties)
    status: OrderStatus = "cannot tell"
    if repeats or effect.finding in ("one view", "one order") or not slots.items:
        unchecked = []
    elif followed:
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
        unit=unit,
    )


def _unmeasured(floor: NoiseFloor) -> str:
    """Explain a missing noise floor; the model of a log cannot be asked."""
    if floor.source == "not in the log":
        return "the log has no repeats of one order"
    return "no repeats were measured; `pact-eval probe` measures them"


def _followed(slots: SlotPreferences) -> tuple[SlotPreference, ...]:
    """Return letters and positions chosen or avoided for their own sake, by number of views.

    The last position has a letter in every item, so it comes first only if it explains more views
    than any one letter does.
    """
    every = [*slots.slots, *([] if slots.last is None else [slots.last])]
    shown = [
        slot
        for slot in every
        if slot.marked and slot.preference.clusters >= FEWEST_FAMILIES and _beyond(slot.preference)
    ]
    return tuple(sorted(shown, key=lambda slot: (slot.preference.value < 0, -_views(slot))))


def _views(slot: SlotPreference) -> float:
    """Return the number of views that a preference explains; a letter counts for more."""
    views = abs(slot.preference.value) * slot.shown
    return views / _LETTERS_FIRST if slot.slot < 0 else views


def _beyond(preference: Estimate) -> bool:
    """Return whether the interval, or else the value, is above `LEAST_PREFERENCE`."""
    if math.isnan(preference.low):
        return abs(preference.value) >= LEAST_PREFERENCE
    return preference.low >= LEAST_PREFERENCE or preference.high <= -LEAST_PREFERENCE


def _reason(
    effect: OrderEffect, slots: SlotPreferences, flip_floor: float, ties: Ties
) -> str | None:
    """Return the reason that the flip rate decides nothing; None if it does."""
    flips = effect.flip_rate
    if effect.finding == "one view":
        return "every item was shown in one order (K is 1)"
    if effect.orders_hidden:
        return "the orders did not reach the model: the server sorts the options"
    if effect.finding == "one order" or not slots.items:
        return "no item was shown in two orders"
    if flips.clusters < FEWEST_FAMILIES or math.isnan(flips.low):
        return f"too few families: {flips.clusters:,} in several orders"
    if flips.low <= CHANGES < flips.high:
        return f"too few items: the share that changes may be below or above {CHANGES:.0%}"
    if flips.low - ties.changed <= CHANGES < flips.high + ties.unchanged:
        if ties.tied == ties.views:
            return "every view is a tie: no answer is the most probable one"
        return f"ties: {ties.tied:,} of {ties.views:,} views have several most probable answers"
    if flips.low > CHANGES and flips.low <= flip_floor:
        return "asking again in the same order may change as many answers"
    return None
