"""Plots as rows of a table: text keeps its size, and numbers can be copied."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from pact_eval.data.records import position_name
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.report import COMPARED
from pact_eval.numbers import Unit, p_value_text, value_text, views_words
from pact_eval.plain_text import upper_first
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import SlotPreferences
from pact_reports.page.item_links import items_href

_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_RATES: Final = 5
_MARGIN: Final = 4.0
_MOST_BARS: Final = 9
_OPEN_ROWS: Final = 16
"""Groups beyond these rows are folded."""


@dataclass(frozen=True)
class Axis:
    """A horizontal axis.

    Attributes:
        low: smallest value on it, a fraction.
        high: largest value on it.
        step: distance of two ticks.
        unit: of the ticks: points with a line at 0, or percent.
    """

    low: float
    high: float
    step: float
    unit: Unit = "percent"

    @classmethod
    def of_differences(cls, values: Iterable[float]) -> Axis:
        """Choose the axis around 0 that holds some values, with a tick on either side of 0.

        Args:
            values: NaN are left out.

        Examples:
            >>> Axis.of_differences([-0.115, 0.04])
            Axis(low=-0.115, high=0.115, step=0.1, unit='points')
        """
        end = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
        end = max(end, _STEPS[0])
        step = next((width for width in _STEPS if end / width < 2), _STEPS[-1])
        return cls(-end, end, step, "points")

    @classmethod
    def of_rates(cls, values: Iterable[float]) -> Axis:
        """Choose the axis of rates that holds some values, between two ticks.

        Examples:
            >>> [text for _, text in Axis.of_rates([0.61, 0.719]).ticks]
            ['60', '65', '70', '75']
        """
        known = [value for value in values if not math.isnan(value)]
        least, most = min(known, default=0.0), max(known, default=1.0)
        step = next((width for width in _STEPS if (most - least) / width < _MOST_RATES - 1), 0.5)
        low, high = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
        return cls(max(0.0, low * step), min(1.0, max(high, low + 1) * step), step)

    @property
    def ticks(self) -> tuple[tuple[str, str], ...]:
        """The places of the ticks and their texts, ascending."""
        first, last = (
            rounding(end / self.step + off)
            for rounding, end, off in (
                (math.ceil, self.low, -1e-9),
                (math.floor, self.high, 1e-9),
            )
        )
        values = (at * self.step for at in range(first, last + 1))
        return tuple(
            (self.place(value), value_text(value, self.unit).removesuffix(".0")) for value in values
        )

    @property
    def zero(self) -> str | None:
        """The place of the line at 0; None for rates."""
        return self.place(0.0) if self.unit == "points" else None

    def place(self, value: float) -> str:
        """Return the place of a value, in percent of the width.

        Examples:
            >>> Axis.of_differences([0.1]).place(0.0), Axis.of_differences([0.1]).place(0.1)
            ('50%', '96%')
        """
        share = _MARGIN + (100 - 2 * _MARGIN) * (value - self.low) / (self.high - self.low)
        return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


@dataclass(frozen=True)
class Row:
    """A row of a plot.

    Attributes:
        name: what it is of.
        estimate: the value with its interval.
        shown: whether the mark is filled.
        remark: after the numbers, such as a p-value.
        href: the items behind it.
        beside: another value on the same axis, such as the mean confidence; NaN without one.
        differs: whether the bar is coloured as bad: of a group that is shown to be worse.
    """

    name: str
    estimate: Estimate
    shown: bool = True
    remark: str = ""
    href: str | None = None
    beside: float = math.nan
    differs: bool = False


Rows = tuple[str | None, Sequence[Row]]
"""A heading, or None, and the rows below it."""


@dataclass(frozen=True)
class Plot:
    """Rows on one axis.

    Attributes:
        label: what they show, for those who do not see them.
        groups: the rows; those beyond `_OPEN_ROWS` are folded, group by group.
        unit: percent or points.
        bars: whether a bar from 0 leads to each value.
        ends: what lies to the left and to the right of 0, or None.
        hint: how to read it.
    """

    label: str
    groups: Sequence[Rows]
    unit: Unit = "points"
    bars: bool = False
    ends: tuple[str, str] | None = None
    hint: str = ""

    @cached_property
    def axis(self) -> Axis:
        """The axis of all rows."""
        if self.bars:
            return Axis(0.0, 1.0, 0.25)
        values = (end for _, rows in self.groups for row in rows for end in ends_of(row.estimate))
        return Axis.of_rates(values) if self.unit == "percent" else Axis.of_differences(values)

    @property
    def shown(self) -> Sequence[Rows]:
        """The groups that are open."""
        totals = accumulate(len(rows) for _, rows in self.groups)
        return self.groups[: max(1, sum(total <= _OPEN_ROWS for total in totals))]

    @property
    def folded(self) -> Sequence[Rows]:
        """The other groups."""
        return self.groups[len(self.shown) :]


def groups_plot(run: RunConclusions, hrefs: Mapping[str, str | None]) -> Plot:
    """Return the accuracy of a run, and of the groups of one column, the worst first, as bars.

    Args:
        run: its conclusions.
        hrefs: links to the wrong answers of the groups, by their values.
    """
    where, probabilities = run.where, run.probabilities
    bars = sorted(where.column_bars, key=lambda group: group.accuracy.value)
    rows = [
        Row(
            f"{group.value} ({group.items:,})",
            group.accuracy,
            differs=group in where.groups and not group.better,
            href=hrefs.get(group.value),
            beside=group.confidence,
        )
        for group in (bars if len(bars) > 1 else ())
    ]
    everything = Row(
        f"all items ({run.accuracy.n:,})",
        run.accuracy,
        href=items_href(0, outcome="wrong"),
        beside=probabilities.confidence,
    )
    more: list[Rows] = [(None, rows[_MOST_BARS:])] if rows[_MOST_BARS:] else []
    beside = "" if math.isnan(probabilities.confidence) else " Line: mean confidence."
    worse = any(row.differs for row in rows)
    differs = " Red: shown to be worse than the others." if worse else ""
    return Plot(
        f"Right answers by {bars[0].column}" if rows else "Right answers",
        [(None, [everything, *rows[:_MOST_BARS]]), *more],
        "percent",
        bars=True,
        hint=f"In %, with 95% intervals.{beside}{differs}",
    )


def differences_plot(
    conclusions: Sequence[BetterConclusion],
    method: str,
    names: ArmNames,
    drawn: Collection[Claim] = (),
) -> Plot | None:
    """Return the differences of a method from the other arms; None if there are none to draw.

    Args:
        conclusions: on the method and each other arm.
        method: the arm.
        names: display names of arms.
        drawn: differences that are drawn elsewhere.
    """
    left, elsewhere = names.arm(method), {*map(id, drawn)}
    pairs = [(each, [*_rows(each, elsewhere)]) for each in conclusions]
    compared = [each for each, rows in pairs if rows]
    if not compared:
        return None
    other = names.arm(compared[0].right) if len(compared) == 1 else "the other arm"
    over_seeds = ", and over seeds if there are three" if compared[0].seeds > 1 else ""
    return Plot(
        "Paired differences",
        [(_heading(left, each, names), rows) for each, rows in pairs if rows],
        ends=(f"{other} better", f"{left} better"),
        hint=(
            f"In points, with 95% intervals over families{over_seeds}. Filled: shown. Hollow: "
            f"not shown, with its p-value. {upper_first(compared[0].adjustment)}"
        ),
    )


def order_plot(names: Sequence[str], preferences: Sequence[SlotPreferences]) -> Plot | None:
    """Return how much more often than by chance runs choose each letter; None without orders.

    Args:
        names: of the runs.
        preferences: of each run.
    """
    of_runs = zip(names, preferences, strict=True)
    groups = [
        (name if len(names) > 1 else None, [*_letters(of_run)])
        for name, of_run in of_runs
        if of_run.items
    ]
    if not any(rows for _, rows in groups):
        return None
    return Plot(
        "Choices of each letter beyond chance",
        groups,
        ends=("avoided", "preferred"),
        hint=(
            "Share of the views that choose the answer next to a letter, in points beyond the "
            "same answers in other orders; 95% intervals over families. Filled: shown."
        ),
    )


def _letters(preferences: SlotPreferences) -> Iterable[Row]:
    last = [] if preferences.last is None else [preferences.last]
    for slot in (*preferences.slots, *last):
        if not math.isnan(slot.preference.value):
            name = "the last place" if slot.slot < 0 else position_name(slot.slot)
            yield Row(name, slot.preference, slot.marked)


def difference_row(
    name: str, claim: Claim, href: str | None = None, *, worded: bool = False
) -> Row:
    """Return the row of a difference; the p-value of one that is not shown follows.

    Args:
        name: of the row.
        claim: on the difference.
        href: link to the items.
        worded: whether a sentence of the page gives the p-value of an interval without 0.
    """
    p_value = claim.evidence.deciding
    said = claim.shown or (worded and claim.difference.excludes_zero)
    remark = "" if said or math.isnan(p_value) else p_value_text(p_value)
    return Row(name, claim.difference, claim.shown, remark, href)


def _heading(left: str, conclusion: BetterConclusion, names: ArmNames) -> str:
    seeds = f", mean of {conclusion.seeds} seeds" if conclusion.seeds > 1 else ""
    return f"{left} − {names.arm(conclusion.right)}{seeds}"


def _rows(conclusion: BetterConclusion, elsewhere: Collection[int]) -> Iterable[Row]:
    for name in COMPARED:
        for claim in (each for each in conclusion.of(name) if id(each) not in elsewhere):
            title = f"{metric_spec(name).title}, {views_words(claim.k, claim.repeats)}"
            yield difference_row(title, claim)


def ends_of(estimate: Estimate) -> tuple[float, float, float]:
    """Return what an axis must hold of an estimate."""
    return estimate.value, estimate.low, estimate.high
