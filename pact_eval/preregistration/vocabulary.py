"""The words of a hypothesis: metrics, decodings, relations, and margins with their units."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pact_eval.evaluation import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    METRICS,
    MetricSpec,
    Unit,
)

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "DECODINGS",
    "JUDGED_ON",
    "MEAN_CONFIDENCE",
    "METRIC_SPECS",
    "NO_MARGIN",
    "RELATIONS",
    "TEMPERATURE_FREE",
    "VIEW_METRICS",
    "DecodingName",
    "JudgedOn",
    "Margin",
    "Relation",
    "margin_unit",
    "parse_margin",
]

DecodingName = Literal["single", "single_calibrated", "ensemble", "ensemble_calibrated"]
"""View 0 alone or the K views together; raw, or divided by a fitted temperature."""

DECODINGS: Final[tuple[DecodingName, ...]] = get_args(DecodingName)

Relation = Literal["higher", "lower", "not higher", "not lower", "similar"]
"""How the first quantity of a check stands to the second."""

RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)

JudgedOn = Literal["matched", "means"]
"""Seed by seed, or on the means over seeds."""

JUDGED_ON: Final[tuple[JudgedOn, ...]] = get_args(JudgedOn)

MEAN_CONFIDENCE: Final = "mean_confidence"

METRIC_SPECS: Final = {
    spec.name: spec
    for spec in (
        *METRICS,
        MetricSpec(MEAN_CONFIDENCE, "Mean confidence", "percent", 0),
        MetricSpec(ABLATED_CONFIDENCE, "Confidence on ablated contexts", "percent", -1),
        MetricSpec(ABLATED_GAP, "Answer gap on ablated contexts", "nats", -1),
    )
}
"""Every metric that a check may name: those of the report, the mean top probability, and two on
contexts without their changed focus sentence: the mean top probability, and the mean distance of
the logits of the two answers that nothing tells apart there."""

VIEW_METRICS: Final = ("view_tv", "flip_rate", "ensemble_gain")
"""Metrics of the K views; they stand under the ensemble decodings."""

TEMPERATURE_FREE: Final = (
    "accuracy",
    "pair_accuracy",
    "score_level_mae",
    "flip_rate",
    "ensemble_gain",
)
"""Metrics of the argmax: no temperature changes them."""

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

    Example:
        >>> margin = Margin(2.0, "points")
        >>> str(margin), margin.distance
        ('2 points', 0.02)
    """

    amount: float
    unit: str

    @property
    def distance(self) -> float:
        """The distance as values are kept: rates are fractions."""
        return self.amount / 100 if self.unit == "points" else self.amount

    def __str__(self) -> str:
        amount = f"{self.amount!r}".removesuffix(".0")
        return f"{amount} {self.unit[:-1] if self.amount == 1 else self.unit}".strip()


NO_MARGIN: Final = Margin(0.0, "")


def margin_unit(metric: str) -> str:
    """Return the unit of differences of a metric; empty where it has none.

    Example:
        >>> margin_unit("accuracy"), margin_unit("score_mae"), margin_unit("brier")
        ('points', 'levels', '')
    """
    return _UNIT_WORDS[METRIC_SPECS[metric].unit]


def parse_margin(text: str, metric: str) -> Margin:
    """Read a margin as hypotheses write it.

    Args:
        text: a number and the unit of the metric's differences.
        metric: a name in `METRIC_SPECS`.

    Raises:
        ValueError: it is no number at least 0 in that unit.

    Example:
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
        wanted = f'a number of {unit}, such as "2 {unit}"' if unit else 'a number, such as "0.01"'
        message = f'expected {wanted}, got "{text}"'
        raise ValueError(message)
    return Margin(float(match[1]), unit)
