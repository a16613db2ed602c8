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
from pact_eval.evaluation.comparison import (
    Comparison,
    GroupComparison,
    MetricComparison,
    compare,
)
from pact_eval.evaluation.experiment import Experiment, ExperimentRun, ItemMismatch, align, mismatch
from pact_eval.evaluation.grouped import GROUPED_ITEMS, GroupedEstimates, grouped_estimates
from pact_eval.evaluation.items import ScoredItems, group_rows, label_codes, ordered_groups
from pact_eval.evaluation.near_ties import NearTies, near_ties, near_ties_of_file, numeric_noise
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
from pact_eval.evaluation.seeds import (
    Arm,
    ArmPair,
    ArmsComparison,
    SeedMatch,
    compare_arms,
    compare_seeds,
    matched_seeds,
)
from pact_eval.evaluation.settings import Settings
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
from pact_eval.evaluation.streaming import streamable_items
from pact_eval.evaluation.sweep import SweepPoint, sweep

# Former names, until the last caller has changed.
CollectedRun = ExperimentRun
RunCollection = Experiment
collect_runs = Experiment.read

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
    "Arm",
    "ArmPair",
    "ArmsComparison",
    "Basis",
    "Calibration",
    "CollectedRun",
    "Comparison",
    "Evaluation",
    "Experiment",
    "ExperimentRun",
    "Group",
    "GroupBy",
    "GroupComparison",
    "GroupStatistics",
    "GroupedEstimates",
    "ItemColumns",
    "ItemMismatch",
    "MetricComparison",
    "MetricSpec",
    "NearTies",
    "RunCollection",
    "ScoredItems",
    "SeedMatch",
    "Settings",
    "StatisticSet",
    "SweepPoint",
    "Unit",
    "ablated_statistics",
    "align",
    "collect_runs",
    "compare",
    "compare_arms",
    "compare_seeds",
    "default_resamples",
    "evaluate",
    "evaluate_ablated",
    "evaluate_file",
    "group_rows",
    "group_statistics",
    "grouped_estimates",
    "grouped_groups",
    "label_codes",
    "matched_seeds",
    "metric_bases",
    "mismatch",
    "near_ties",
    "near_ties_of_file",
    "numeric_noise",
    "ordered_groups",
    "point_values",
    "repeated_views",
    "report_notes",
    "streamable_items",
    "sweep",
]
