"""Evaluation: from a run's predictions to every number of the report.

Groups of items (all of them, and by kind, domain or source family) times metrics, each with a
percentile bootstrap interval over families; then how pairs fail, how confident the errors are, and
whether the model prefers a letter. Ablated contexts have an evaluation of their own. Pure
computation: `pact_reports` shows it.
"""

from pact_eval.evaluation.ablated import (
    AblatedEvaluation,
    AblatedGroup,
    AblatedItems,
    ablated_statistics,
    evaluate_ablated,
)
from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes
from pact_eval.evaluation.report import (
    Calibration,
    Evaluation,
    Group,
    default_resamples,
    evaluate,
)
from pact_eval.evaluation.specs import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    ABLATED_METRICS,
    CONFIDENT,
    METRICS,
    GroupBy,
    MetricSpec,
    Unit,
)
from pact_eval.evaluation.statistics import (
    Basis,
    GroupStatistics,
    StatisticSet,
    group_statistics,
    point_values,
)

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "ABLATED_METRICS",
    "CONFIDENT",
    "METRICS",
    "AblatedEvaluation",
    "AblatedGroup",
    "AblatedItems",
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
    "ablated_statistics",
    "default_resamples",
    "evaluate",
    "evaluate_ablated",
    "group_rows",
    "group_statistics",
    "label_codes",
    "point_values",
]
