"""Name, title, unit and direction of a metric, without the code that computes it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval.numbers import Unit, value_text

MINUS: Final = "−"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Name and display of a metric.

    Attributes:
        name: key in JSON.
        title: in tables.
        unit: how it is shown.
        better: 1 if higher is better, -1 if lower is better, 0 if differences are not marked.
    """

    name: str
    title: str
    unit: Unit
    better: Literal[-1, 0, 1]

    @property
    def difference_unit(self) -> Unit:
        """Unit of a difference between two values: points if the metric is a rate."""
        return "points" if self.unit == "percent" else self.unit

    def shown(self, value: float) -> str:
        """Write a value as papers print it: AURC in percent with two decimals, a true minus.

        Example:
            >>> from pact_eval.evaluation.registry import metric_spec
            >>> metric_spec("aurc").shown(0.0341), metric_spec("ensemble_gain").shown(-0.007)
            ('3.41', '−0.7')
        """
        if self.name == "aurc" and math.isfinite(value):
            return f"{100 * value:.2f}".replace("-", MINUS)
        return value_text(value, self.unit).replace("-", MINUS)


DIFFERENCE: Final = MetricSpec("difference", "Difference", "points", 0)
"""A difference between two rates, in points and signed."""
