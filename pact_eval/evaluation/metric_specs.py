"""Name, title, unit and direction of a metric, without the code that computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["percent", "points", "nats", "score", "levels"]
"""Unit in which a metric is shown: rates and their differences times 100, others unchanged."""


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
