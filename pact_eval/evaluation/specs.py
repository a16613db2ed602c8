"""What the reports show: the metrics, their units, and what items are grouped by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "ABLATED_METRICS",
    "CONFIDENT",
    "METRICS",
    "GroupBy",
    "MetricSpec",
    "Unit",
]

GroupBy = Literal["kind", "domain", "source_family"]
"""What items are grouped by, beside all of them together."""

Unit = Literal["percent", "points", "nats", "score", "levels"]
"""How a metric is shown: rates and their differences times 100, the others as they are."""

CONFIDENT: Final = 0.9
"""An error made with this confidence or more is a confident error."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One row of the report.

    Attributes:
        name: key in JSON.
        title: as the table shows it.
        unit: how it is shown.
        better: 1 higher, -1 lower, 0 neither: a value near 0 is wanted.
    """

    name: str
    title: str
    unit: Unit
    better: Literal[-1, 0, 1]


_TV: Final = MetricSpec("view_tv", "View TV", "percent", -1)
_FLIP_RATE: Final = MetricSpec("flip_rate", "Flip rate", "percent", -1)

METRICS: Final = (
    MetricSpec("accuracy", "Accuracy", "percent", 1),
    MetricSpec("pair_accuracy", "Pair accuracy", "percent", 1),
    MetricSpec("nll_nats", "NLL", "nats", -1),
    MetricSpec("brier", "Brier", "score", -1),
    MetricSpec("ece", "ECE", "percent", -1),
    MetricSpec("aurc", "AURC", "percent", -1),
    MetricSpec("score_mae", "Score MAE", "levels", -1),
    MetricSpec("score_level_mae", "Score level MAE", "levels", -1),
    _TV,
    _FLIP_RATE,
    MetricSpec("ensemble_gain", "Ensemble gain", "points", 0),
    MetricSpec("confident_errors", "Confident errors", "percent", -1),
)
"""The metrics of the report, in its order."""

ABLATED_CONFIDENCE: Final = "ablated_confidence"
ABLATED_GAP: Final = "ablated_gap"

ABLATED_METRICS: Final = (
    MetricSpec(ABLATED_CONFIDENCE, "Mean confidence", "percent", -1),
    MetricSpec(ABLATED_GAP, "Answer gap", "nats", -1),
    _TV,
    _FLIP_RATE,
    MetricSpec("answer_mass", "Answer mass", "percent", 1),
)
"""The metrics of the report on ablated contexts, which have no right answer, in its order."""
