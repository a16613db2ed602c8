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
from pact_eval.evaluation.columns import ItemColumns
from pact_eval.evaluation.grouped import GROUPED_ITEMS, GroupedEstimates, grouped_estimates
from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes, ordered_groups
from pact_eval.evaluation.report import (
    Calibration,
    Evaluation,
    Group,
    default_resamples,
    evaluate,
    grouped_groups,
    repeated_views,
    report_notes,
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
    metric_bases,
    point_values,
)
from pact_eval.evaluation.streamed import evaluate_file

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "ABLATED_METRICS",
    "CONFIDENT",
    "GROUPED_ITEMS",
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
    "GroupedEstimates",
    "ItemColumns",
    "MetricSpec",
    "ScoredItems",
    "StatisticSet",
    "Unit",
    "ablated_statistics",
    "default_resamples",
    "evaluate",
    "evaluate_ablated",
    "evaluate_file",
    "group_rows",
    "group_statistics",
    "grouped_estimates",
    "grouped_groups",
    "label_codes",
    "metric_bases",
    "ordered_groups",
    "point_values",
    "repeated_views",
    "report_notes",
]
