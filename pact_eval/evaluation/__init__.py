"""Evaluation: from a run's predictions to every number of the report.

Groups of items (all of them, and by kind, domain or source family) times the metrics of the
registry, each with a percentile bootstrap interval over families; then the outcomes of pairs, and
whether the model prefers a letter. Pure computation: `pact_reports` shows it.
"""

from pact_eval.evaluation.comparison import (
    Comparison,
    GroupComparison,
    MetricComparison,
    compare,
)
from pact_eval.evaluation.data_splits import Split, data_splits, files_of, splits_of_folder
from pact_eval.evaluation.experiment import Experiment, ExperimentRun, ItemMismatch, align, mismatch
from pact_eval.evaluation.items import (
    ScoredItems,
    group_rows,
    label_codes,
    most_probable,
    ordered_groups,
    pair_partners,
    read_items,
    streamable_items,
)
from pact_eval.evaluation.notes import (
    IncompletePairs,
    InfiniteNll,
    LowAnswerMass,
    NearTies,
    Note,
    RepeatedViews,
    UnmatchedSeeds,
    numeric_noise,
)
from pact_eval.evaluation.registry import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    CONFIDENT,
    MEAN_CONFIDENCE,
    GroupBy,
    Metric,
    MetricSpec,
    Summary,
    Unit,
    find_metric,
    metric_names,
    metric_spec,
    register_metric,
    registered_metrics,
    temporary_metric,
)
from pact_eval.evaluation.report import (
    Calibration,
    Evaluation,
    Group,
    default_resamples,
    evaluate,
    evaluate_items,
)
from pact_eval.evaluation.run_costs import TRAINING_NAME, RunCost, run_costs
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
from pact_eval.evaluation.statistics import (
    GroupStatistics,
    StatisticSet,
    group_statistics,
    point_estimates,
    point_values,
)
from pact_eval.evaluation.sweep import SweepPoint, sweep
from pact_eval.metrics import PairOutcomes
from pact_eval.stats import (
    Estimate,
    McNemarTest,
    SeedSummary,
    SignFlipTest,
    SlotHomogeneity,
)

__all__ = [
    "ABLATED_CONFIDENCE",
    "ABLATED_GAP",
    "CONFIDENT",
    "MEAN_CONFIDENCE",
    "TRAINING_NAME",
    "Arm",
    "ArmPair",
    "ArmsComparison",
    "Calibration",
    "Comparison",
    "Estimate",
    "Evaluation",
    "Experiment",
    "ExperimentRun",
    "Group",
    "GroupBy",
    "GroupComparison",
    "GroupStatistics",
    "IncompletePairs",
    "InfiniteNll",
    "ItemMismatch",
    "LowAnswerMass",
    "McNemarTest",
    "Metric",
    "MetricComparison",
    "MetricSpec",
    "NearTies",
    "Note",
    "PairOutcomes",
    "RepeatedViews",
    "RunCost",
    "ScoredItems",
    "SeedMatch",
    "SeedSummary",
    "Settings",
    "SignFlipTest",
    "SlotHomogeneity",
    "Split",
    "StatisticSet",
    "Summary",
    "SweepPoint",
    "Unit",
    "UnmatchedSeeds",
    "align",
    "compare",
    "compare_arms",
    "compare_seeds",
    "data_splits",
    "default_resamples",
    "evaluate",
    "evaluate_items",
    "files_of",
    "find_metric",
    "group_rows",
    "group_statistics",
    "label_codes",
    "matched_seeds",
    "metric_names",
    "metric_spec",
    "mismatch",
    "most_probable",
    "numeric_noise",
    "ordered_groups",
    "pair_partners",
    "point_estimates",
    "point_values",
    "read_items",
    "register_metric",
    "registered_metrics",
    "run_costs",
    "splits_of_folder",
    "streamable_items",
    "sweep",
    "temporary_metric",
]
