"""How many items a question needs, before anything is run: the plan of `pact-eval plan`.

Each number is that of the test that is used later, at 5%, with a chance of 4 of 5. What nobody
knows beforehand is assumed, and a range shows what the assumption costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import CONFIDENCE
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.order import LEAST_PREFERENCE
from pact_eval.numbers import about, sample_text
from pact_eval.results import Result
from pact_eval.stats._quantiles import normal_quantile
from pact_eval.stats.estimate import POWER
from pact_eval.stats.power import (
    Groups,
    fewest_groups,
    half_width_of_rate,
    power_of_difference,
    power_of_letter,
    power_of_margin,
)
from pact_eval.thresholds.choice import families_needed
from pact_eval.thresholds.gates import GateItems, Target

Purpose: TypeAlias = Literal["difference", "margin", "interval", "gate", "order"]
"""What items are for: to show a difference of two models, to show that two equal ones do not differ
by more than that, an interval of the accuracy, a gate, or a letter that is chosen too often."""

AGREE: Final = 0.9
"""Share of items that two versions of a model are assumed to answer both right or both wrong."""

ALIKE: Final = 0.5
"""Correlation that is assumed between two items of a group."""

LETTERS: Final = 4
"""Answers of an item, and orders in which it is shown, of the test of letters."""

LEAST_DIFFERENCE: Final = 0.001
"""Smaller differences are likely a fraction that was written for points."""

NOTHING: Final = "none"
"""Written for a number of items that does not exist."""

_MORE: Final = 1.5  # times a large difference: so many items differ
_MOVED: Final = (0.05, 0.1, 0.2)
_AUROC: Final = (0.85, 0.8, 0.75)
_OTHER_ACCURACY: Final = 0.05
_GATE_ITEMS: Final = 4_000


@dataclass(frozen=True)
class SampleSize:
    """The items that one purpose needs.

    Attributes:
        purpose: what they are for.
        goal: the same in words, after "to".
        items: their number; None if a million groups would not do, or no number does.
        groups: groups that they form.
        low: items if what is assumed turns out well.
        high: items if it turns out badly; None if a million groups would not do.
        assumes: what `items` rests on, with the range behind `low` and `high`.
    """

    purpose: Purpose
    goal: str
    items: int | None
    groups: int | None
    low: int | None
    high: int | None
    assumes: str

    @property
    def line(self) -> str:
        """The number in a sentence.

        Example:
            "To show a difference of 2 points at 85% right: about 2,900 items in 1,450 groups that
            belong together."
        """
        if self.items is None or self.groups is None:
            return f"To {self.goal}: no number of items is likely to do it."
        items, size = about(self.items), self.items // self.groups
        return f"To {self.goal}: about {sample_text(items, round(items / size))}."

    @property
    def items_text(self) -> str:
        """The items, to two digits."""
        return NOTHING if self.items is None else f"{about(self.items):,}"

    @property
    def range_text(self) -> str:
        """The items if what is assumed turns out well, and badly; nothing if both are the same.

        Example:
            "950 to 7,800", "5,100 or more"
        """
        if self.low == self.high or self.low is None:
            return "" if self.low == self.high else NOTHING
        return f"{about(self.low):,} {f'to {about(self.high):,}' if self.high else 'or more'}"


@dataclass(frozen=True, repr=False)
class SamplePlan(Result):
    """How many items are needed.

    Attributes:
        difference: smallest difference that matters, a fraction.
        accuracy: share of right answers, about.
        agree: share of items that both models answer right, or both wrong.
        family_size: items of each group that belongs together.
        alike: correlation of two items of a group.
        gate_error: largest share of errors of a model that acts alone; None without a gate.
        sizes: the numbers, the difference first.
        alike_range: lowest and highest correlation behind the ranges.
    """

    difference: float
    accuracy: float
    agree: float
    family_size: int
    alike: float
    gate_error: float | None
    sizes: tuple[SampleSize, ...]
    alike_range: tuple[float, float] = field(repr=False)

    @property
    def group_words(self) -> str:
        """What is assumed of groups; nothing if every item is one."""
        if self.family_size == 1:
            return ""
        alike = _between(self.alike, *self.alike_range)
        return f"{self.family_size} items each, which come out alike by {alike}: 100% are copies"

    @property
    def chance_words(self) -> str:
        """The level and the power of the tests."""
        return (
            f"a finding in {POWER:.0%} of cases, at 5%, from one comparison; several are adjusted "
            "together (Holm) and need more"
        )


def plan_items(
    difference: float,
    accuracy: float,
    *,
    agree: float | None = None,
    family_size: int = 1,
    alike: float | None = None,
    gate_error: float | None = None,
) -> SamplePlan:
    """Return how many items are needed; arguments are percentages, as on the command line.

    Args:
        difference: smallest difference that matters, in points.
        accuracy: percentage of right answers, about.
        agree: percentage of items that both models answer right, or both wrong; None assumes 90:
            more if independent errors give more, less for a difference above 6.7 points.
        family_size: items of each group that belongs together.
        alike: how much the items of a group come out alike, from 0 to 100; None assumes 50.
        gate_error: largest percentage of errors of a model that acts alone; None plans no gate.

    Raises:
        InputError: a number cannot be meant as a percentage, or the numbers exclude each other.

    Examples:
        >>> print(plan_items(2, 85, agree=90).sizes[0].line)
        To show a difference of 2 points at 85% right: about 1,900 items.
    """
    rate, size = _percent("accuracy", accuracy), _percent("difference", difference)
    error = None if gate_error is None else _percent("gate-error", gate_error)
    if not 0 < size / 2 < min(rate, 1 - rate):
        message = f"--accuracy {accuracy:g}: no two models differ by {difference:g} points there"
        raise InputError(message)
    if not family_size >= 1 or family_size != int(family_size):
        raise InputError(f"--family-size {family_size:g}: expected a whole number from 1")
    if alike is not None and not 0 <= alike <= 100:
        raise InputError(f"--alike {alike:g}: expected a percentage from 0 to 100")
    shares = _differing(rate, size, None if agree is None else _percent("agree", agree))
    groups = Groups(0, family_size, ALIKE if alike is None else alike / 100)
    alikes = (0.0, groups.alike, 1.0) if alike is None else (groups.alike,) * 3
    sizes = [
        _size(purpose, goal, assumes, _fewest(enough, values, groups, alikes))
        for purpose, goal, assumes, values, enough in _purposes(rate, size, shares)
    ]
    if error is not None:
        sizes.insert(3, _of_gate(rate, error, groups))
    alike_range = alikes[0], alikes[2]
    return SamplePlan(
        size, rate, 1 - shares[1], family_size, groups.alike, error, tuple(sizes), alike_range
    )


Values: TypeAlias = tuple[float, float, float]
"""What is assumed if it turns out well, the assumption itself, and if it turns out badly."""

Enough: TypeAlias = Callable[[float, Groups], bool]
"""Whether groups are enough if a value is assumed."""


def _purposes(
    rate: float, size: float, shares: Values
) -> Iterator[tuple[Purpose, str, str, Values, Enough]]:
    """Yield what is planned: the purpose, its goal, what it assumes in words and in numbers."""
    points = _points(size)
    agreed = _between(1 - shares[1], 1 - shares[2], 1 - shares[0])
    yield (
        "difference",
        f"show a difference of {points} at {_percents(rate)} right",
        f"{agreed} of the items are right in both or wrong in both",
        shares,
        lambda share, groups: power_of_difference(size, share, groups) >= POWER,
    )
    yield (
        "margin",
        f"show that equal models differ by less than {points}",
        "the same",
        shares,
        lambda share, groups: power_of_margin(size, share, groups) >= POWER,
    )
    # The accuracy is nearer to 50% if it turns out badly.
    towards = _OTHER_ACCURACY if rate < 0.5 else -_OTHER_ACCURACY
    good, bad = (min(max(rate + move, 0.0), 1.0) for move in (-towards, towards))
    bad = 0.5 if (bad - 0.5) * (rate - 0.5) < 0 else bad
    yield (
        "interval",
        f"know the accuracy within {points}",
        f"{_between(rate, min(good, bad), max(good, bad))} of the answers are right",
        (good, rate, bad),
        lambda accuracy, groups: half_width_of_rate(accuracy, groups) <= size,
    )
    least = LEAST_PREFERENCE
    moved = f"{_between(_MOVED[1], _MOVED[0], _MOVED[2])} of the answers change"
    assumes = f"{moved} in {LETTERS} orders of {LETTERS} answers"
    preference = min(size, 1 - 1 / LETTERS - least)
    if size <= least:
        assumes = f"preferences up to {_points(least)} are not named"
    yield (
        "order",
        f"show a letter that is chosen {points} too often",
        assumes,
        _MOVED,
        lambda share, groups: (
            size > least
            and power_of_letter(preference, share, groups, letters=LETTERS, least=least) >= POWER
        ),
    )


def _fewest(enough: Enough, values: Values, groups: Groups, alikes: Values) -> list[Groups | None]:
    """Return the groups that do if all turns out well, as assumed, and badly."""
    return [
        fewest_groups(partial(enough, value), replace(groups, alike=alike))
        for value, alike in zip(values, alikes, strict=True)
    ]


def _size(purpose: Purpose, goal: str, assumes: str, groups: Sequence[Groups | None]) -> SampleSize:
    """Return a size from the groups that do if all turns out well, as assumed, and badly."""
    low, items, high = (None if some is None else some.items for some in groups)
    count = None if groups[1] is None else groups[1].count
    return SampleSize(purpose, goal, items, count, low, high, assumes)


def _of_gate(rate: float, error: float, like: Groups) -> SampleSize:
    """Plan a gate; its tests take one item of each group, so only the groups count."""
    target = Target.of_error(error)
    groups = []
    for auroc in _AUROC:
        needed = families_needed(typical_items(rate, auroc), target, CONFIDENCE)
        groups.append(None if needed is None else replace(like, count=needed))
    high, middle, low = _AUROC
    assumes = f"surer answers are right more often: AUROC {middle} ({low} to {high})"
    goal = f"let the model act alone on a share with {target.limit}"
    return _size("gate", goal, assumes, groups)


def typical_items(accuracy: float, auroc: float, items: int = _GATE_ITEMS) -> GateItems:
    r"""Return items whose sureness is normal among the right and among the wrong answers.

    With means that are :math:`\sqrt 2\, \Phi^{-1}(AUROC)` apart, a right answer is surer than a
    wrong one with the chance AUROC. The items lie at equal steps of both distributions.

    Args:
        accuracy: share of right answers.
        auroc: in (0.5, 1).
        items: their number.

    References:
        Hanley and McNeil, "The meaning and use of the area under a receiver operating
        characteristic (ROC) curve", Radiology 143, 1982, for the binormal model.

    Examples:
        >>> items = typical_items(0.85, 0.8)
        >>> float(items.wrong.mean()), float(items.wrong[items.sureness >= 1].mean().round(3))
        (0.15, 0.046)
    """
    wrong = round((1 - accuracy) * items)
    apart = math.sqrt(2) * normal_quantile(auroc)
    sureness = np.array(
        [
            normal_quantile((place + 0.5) / count) + shift
            for count, shift in ((wrong, 0.0), (items - wrong, apart))
            for place in range(count)
        ]
    )
    names = np.array([f"{number}" for number in range(items)], dtype=np.object_)
    return GateItems(names, names, names, sureness, np.arange(items) < wrong)


def _differing(accuracy: float, difference: float, agree: float | None) -> Values:
    """Return the share of items that one model alone answers right.

    It is half and twice as much if it turns out well and badly, as far as models can differ so
    little and so much.

    Raises:
        InputError: two models cannot agree so much, or so little.
    """
    # One of two models with independent errors alone is right on so many.
    independent = 2 * accuracy * (1 - accuracy) + difference**2 / 2
    if agree is None:
        share = min(max(1 - AGREE, _MORE * difference), independent)
        half = max(share / 2, difference)
        return min(half, share), share, max(min(2 * share, independent), share)
    most = 2 * min(accuracy, 1 - accuracy)
    if not difference <= 1 - agree <= most:
        raise InputError(
            f"--agree {100 * agree:g}: expected {100 * (1 - most):g} to "
            f"{100 * (1 - difference):g} at --accuracy {100 * accuracy:g} and a difference of "
            f"{_points(difference)}"
        )
    return (1 - agree,) * 3


def _percent(option: str, value: float) -> float:
    """Return a percentage as a fraction; refuse what looks like a fraction."""
    least = 100 * LEAST_DIFFERENCE if option in ("difference", "gate-error") else 1.0
    if not least <= value < 100:
        hint = f"; write {100 * value:g} for {100 * value:g}%" if 0 < value < 1 else ""
        message = f"--{option} {value:g}: expected a percentage from {least:g}, below 100{hint}"
        raise InputError(message)
    return value / 100


def _points(fraction: float) -> str:
    return f"{100 * fraction:g} point{'' if fraction == 0.01 else 's'}"


def _percents(fraction: float) -> str:
    return f"{100 * fraction:.4g}%"


def _between(value: float, low: float, high: float) -> str:
    """Write an assumption with its range; one that is no assumption has none.

    Examples:
        >>> _between(0.9, 0.8, 0.95), _between(0.9, 0.9, 0.9)
        ('90% (80 to 95%)', '90%')
    """
    if low == high:
        return _percents(value)
    return f"{_percents(value)} ({100 * low:.4g} to {_percents(high)})"
