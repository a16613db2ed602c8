"""Margins: distances between two values of a metric, with their unit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from pact_eval.evaluation.registry import metric_spec
from pact_eval.numbers import Unit

_UNIT_WORDS: Final[dict[Unit, str]] = {
    "percent": "points",
    "points": "points",
    "nats": "nats",
    "levels": "levels",
    "score": "",
}
_MARGIN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True, slots=True)
class Margin:
    """A distance between two values of a metric, with its unit.

    Attributes:
        amount: at least 0.
        unit: points, nats, levels, or nothing (Brier).

    Examples:
        >>> margin = Margin(2.0, "points")
        >>> str(margin), margin.distance
        ('2 points', 0.02)
    """

    amount: float
    unit: str

    @property
    def distance(self) -> float:
        """The distance in the scale of values: rates are fractions."""
        return self.amount / 100 if self.unit == "points" else self.amount

    def __str__(self) -> str:
        amount = f"{self.amount!r}".removesuffix(".0")
        return f"{amount} {self.unit[:-1] if self.amount == 1 else self.unit}".strip()


NO_MARGIN: Final = Margin(0.0, "")


def margin_unit(metric: str) -> str:
    """Return the unit of differences of a metric; empty if it has none.

    Examples:
        >>> margin_unit("accuracy"), margin_unit("score_mae"), margin_unit("brier")
        ('points', 'levels', '')
    """
    return _UNIT_WORDS[metric_spec(metric).unit]


def parse_margin(text: str, metric: str) -> Margin:
    """Read a margin as hypotheses write it.

    Args:
        text: a number and the unit of the metric's differences.
        metric: name of a registered metric.

    Raises:
        ValueError: it is not a number of at least 0 in that unit.

    Examples:
        >>> parse_margin("2 points", "accuracy")
        Margin(amount=2.0, unit='points')
        >>> parse_margin("2", "accuracy")
        Traceback (most recent call last):
            ...
        ValueError: expected a number of points, such as "2 points", got "2"
    """
    unit = margin_unit(metric)
    match = _MARGIN.fullmatch(text.strip())
    if (
        match is None
        or match[2] not in ({unit, unit[:-1]} if unit else {""})
        or not math.isfinite(float(match[1]))
    ):
        expected = f'a number of {unit}, such as "2 {unit}"' if unit else 'a number, such as "0.01"'
        message = f'expected {expected}, got "{text}"'
        raise ValueError(message)
    return Margin(float(match[1]), unit)
