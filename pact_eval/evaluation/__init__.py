"""Evaluation: from a run's predictions to every number of the report.

Groups of items (all of them, and by kind, domain or source family) times metrics, each with a
percentile bootstrap interval over families; then how pairs fail, how confident the errors are, and
whether the model prefers a letter. Pure computation: `pact_reports` shows it.
"""

from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes
from pact_eval.evaluation.report import (
    Calibration,
    Evaluation,
    Group,
    default_resamples,
    evaluate,
)
from pact_eval.evaluation.specs import CONFIDENT, METRICS, GroupBy, MetricSpec, Unit
from pact_eval.evaluation.statistics import (
    Basis,
    GroupStatistics,
    StatisticSet,
    group_statistics,
    point_values,
)

__all__ = [
    "CONFIDENT",
    "METRICS",
    "Basis",
    "Calibration",
    "Evaluation",
    "Group",
    "GroupBy",
    "GroupStatistics",
    "MetricSpec",
    "ScoredItems",
    "StatisticSet",
    "Unit",
    "default_resamples",
    "evaluate",
    "group_rows",
    "group_statistics",
    "label_codes",
    "point_values",
]
