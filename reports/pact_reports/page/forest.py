"""Forest plot of a page: paired differences of the method, one row per difference.

Each row is a row of a table with a small SVG in percent of its width, so text keeps its size on a
narrow screen, and the numbers can be read aloud and copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.report import COMPARED
from pact_eval.numbers import estimate_parts, p_value_text, value_text, views_words
from pact_eval.stats.estimate import Estimate
from pact_reports.markup import Html, data_text, element, joined

_STEPS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_TICKS: Final = 1
"""On either side of 0: more would overlap where the plot of a narrow screen has 7 rem."""
_MARGIN: Final = 4.0
MARKS: Final = (
    "Filled: shown. Hollow: not shown, with its p-value. What is named together is adjusted "
    "together (Holm), so the interval of a hollow mark may exclude 0."
)
_OPEN_ROWS: Final = 8
"""More rows than these are folded, so that the diagnostics below stay on the first screen."""

_LOOSE_ROWS: Final = 4


@dataclass(frozen=True)
class Axis:
    """A symmetric axis of differences, with 0 in the middle.

    Attributes:
        step: distance of two ticks, as a fraction.
        end: largest value on it.
    """

    step: float
    end: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Axis:
        """Choose the axis that holds some values, with one tick on either side of 0.

        Args:
            values: NaN are left out.

        Examples:
            >>> Axis.of([-0.115, 0.04])
            Axis(step=0.1, end=0.115)
        """
        end = max((abs(value) for value in values if not math.isnan(value)), default=0.0)
        end = max(end, _STEPS[0])
        step = next((width for width in _STEPS if end / width < _MOST_TICKS + 1), _STEPS[-1])
        return cls(step, end)

    @property
    def ticks(self) -> tuple[float, ...]:
        """The values of the ticks, ascending."""
        n = math.floor(self.end / self.step + 1e-9)
        return tuple(at * self.step for at in range(-n, n + 1))

    def place(self, value: float) -> str:
        """Return the place of a value, in percent of the width.

        Examples:
            >>> Axis(0.05, 0.1).place(0.0), Axis(0.05, 0.1).place(0.1)
            ('50%', '96%')
        """
        share = 50 + (50 - _MARGIN) * value / self.end
        return f"{share:.2f}".rstrip("0").rstrip(".") + "%"


def forest_html(conclusions: Sequence[BetterConclusion], method: str, names: ArmNames) -> Html:
    """Draw the differences of a method from the other arms.

    Args:
        conclusions: on the method and each other arm; one or more have claims.
        method: the arm.
        names: display names of arms.
    """
    estimates = [claim.difference for conclusion in conclusions for claim in conclusion.claims]
    axis = Axis.of(
        [end for estimate in estimates for end in (estimate.value, estimate.low, estimate.high)]
    )
    arms = {
        names.arm(conclusion.right): conclusion for conclusion in conclusions if conclusion.claims
    }
    shown, folded = _split(arms)
    more = None
    if folded:
        word = "arm" if len(folded) == 1 else "arms"
        summary = element("summary", f"{len(folded):,} more {word}: ", _listed(folded))
        more = element("details", summary, _table(names.arm(method), folded, axis))
    return joined(
        [
            _table(names.arm(method), shown, axis, dense=len(estimates) > _LOOSE_ROWS),
            more,
            element(
                "p",
                "Points, method minus other arm; 95% intervals over families, and over seeds if "
                f"there are three. {MARKS}",
                class_="hint",
            ),
        ]
    )


_Arms = Mapping[str, BetterConclusion]
"""By name of the other arm, the conclusion with its differences."""


def _split(arms: _Arms) -> tuple[_Arms, _Arms]:
    """Return the first arms, with as many rows as are shown, and the others."""
    shown: dict[str, BetterConclusion] = {}
    rows = 0
    for arm, conclusion in arms.items():
        rows += len(conclusion.claims)
        if shown and rows > _OPEN_ROWS:
            break
        shown[arm] = conclusion
    return shown, {arm: conclusion for arm, conclusion in arms.items() if arm not in shown}


def _listed(arms: _Arms) -> Html:
    first, *others = map(data_text, arms)
    return joined([first, *(part for arm in others for part in (", ", arm))])


def _table(method: str, arms: _Arms, axis: Axis, *, dense: bool = True) -> Html:
    rows = [row for arm, conclusion in arms.items() for row in _arm(method, arm, conclusion, axis)]
    return element(
        "table",
        element("colgroup", *(element("col") for _ in range(3))),
        element("tbody", *rows),
        element("tfoot", _foot(method, list(arms), axis)),
        class_="forest dense" if dense else "forest",
        aria_label="Paired differences",
    )


def _arm(method: str, arm: str, conclusion: BetterConclusion, axis: Axis) -> Iterator[Html]:
    over = f", mean of {conclusion.seeds} seeds" if conclusion.seeds > 1 else ""
    title = joined([data_text(method), " − ", data_text(arm), over])
    yield element("tr", element("th", title, colspan="3", scope="rowgroup", class_="left"))
    for claim in (claim for name in COMPARED for claim in conclusion.of(name)):
        name = f"{metric_spec(claim.metric).title}, {views_words(claim.k, claim.repeats)}"
        mark = interval_mark(claim.difference, axis, shown=claim.shown)
        number = difference_html(claim.difference, claim.evidence.deciding, shown=claim.shown)
        yield element(
            "tr",
            element("th", name, scope="row", class_="left"),
            element("td", mark, class_="plot"),
            element("td", number, class_="number"),
        )


def difference_html(difference: Estimate, p_value: float, *, shown: bool) -> Html:
    """Write a difference with its interval, and the p-value of one that is not shown.

    Args:
        difference: of a rate.
        p_value: of its test; NaN if there is none.
        shown: whether the difference is shown at the 5% level.
    """
    value, interval = estimate_parts(difference, "points")
    tested = not shown and not math.isnan(p_value)
    return joined(
        [
            element("strong", value),
            joined([" ", element("span", interval)]) if interval else None,
            joined([" ", element("span", p_value_text(p_value), class_="p-value")])
            if tested
            else None,
        ]
    )


def interval_mark(difference: Estimate, axis: Axis, *, shown: bool) -> Html:
    """Draw the line of 0, the interval and the value; the number is in another cell.

    Args:
        difference: of a rate.
        axis: holds it.
        shown: whether the mark is filled.
    """
    interval = None
    if not math.isnan(difference.low):
        low, high = axis.place(difference.low), axis.place(difference.high)
        interval = element("line", x1=low, x2=high, y1="50%", y2="50%", class_="interval-line")
    return element(
        "svg",
        _line_of_zero(),
        interval,
        element(
            "circle",
            cx=axis.place(difference.value),
            cy="50%",
            r="4.5",
            class_="shown" if shown else "not-shown",
        ),
        aria_hidden="true",
    )


def _line_of_zero() -> Html:
    return element("line", x1="50%", x2="50%", y1="0", y2="100%", class_="zero")


def ticks_html(axis: Axis) -> Html:
    """Write the ticks of an axis."""
    ticks = [
        element(
            "text",
            value_text(tick, "points").removesuffix(".0"),
            x=axis.place(tick),
            y="1em",
            text_anchor="middle",
        )
        for tick in axis.ticks
    ]
    return element("svg", *ticks, aria_hidden="true", class_="ticks")


def _foot(method: str, arms: Sequence[str], axis: Axis) -> Html:
    """Write the ticks and, below them, the better arm at each end."""
    other: Html | str = data_text(arms[0]) if len(arms) == 1 else "the other arm"
    ends = element(
        "div",
        element("span", "← ", other, " better"),
        " ",
        element("span", data_text(method), " better →"),
    )
    return joined(
        [
            element(
                "tr", element("td"), element("td", ticks_html(axis), class_="plot"), element("td")
            ),
            element("tr", element("td", ends, colspan="3", class_="left ends")),
        ]
    )
