"""Evaluation: from a run's predictions to every number of the report.

Every metric of the registry is computed for all items and for each kind, domain or source family,
with an interval over families. The report also has the outcomes of pairs and a test of
letter bias. This package only computes; `pact_reports` shows the results.
"""

from pact_eval.evaluation.arm_differences import ArmDifference, Generalisation, Standing
from pact_eval.evaluation.arm_evidence import ArmEvidence, arm_evidence
from pact_eval.evaluation.calibration_error import (
    CalibrationError,
    calibration_error,
    joint_calibration_p_value,
)
from pact_eval.evaluation.chance_error import ChanceError
from pact_eval.evaluation.chance_miscalibration import ChanceMiscalibration
from pact_eval.evaluation.common_views import common_views
from pact_eval.evaluation.comparison import (
    Comparison,
    GroupComparison,
    MetricComparison,
    compare,
)
from pact_eval.evaluation.data_splits import Split, data_splits, files_of, splits_of_folder
from pact_eval.evaluation.digest import ReportDigest, report_digest
from pact_eval.evaluation.experiment import (
    Experiment,
    ExperimentRun,
    ItemMismatch,
    Notice,
    align,
    mismatch,
)
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
from pact_eval.evaluation.joins import UnlikeRuns, join
from pact_eval.evaluation.marks import LEVEL, Evidence
from pact_eval.evaluation.notes import (
    FEW_CLUSTERS,
    DifferentViews,
    IncompletePairs,
    InfiniteNll,
    LowAnswerMass,
    NearTies,
    Note,
    RepeatedViews,
    SmallGroups,
    TooFewResamples,
    UnmatchedSeeds,
    numeric_noise,
)
from pact_eval.evaluation.registry import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    CONFIDENT,
    MEAN_CONFIDENCE,
    ClusterUnit,
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
from pact_eval.evaluation.roles import SkippedRun, of_one_role
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
    ResampledGroup,
    StatisticSet,
    group_statistics,
    point_estimates,
    point_values,
)
from pact_eval.evaluation.sweep import SweepPoint, sweep
from pact_eval.metrics import AnswerScores, PairOutcomes, ScoreDecomposition
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
    "FEW_CLUSTERS",
    "LEVEL",
    "MEAN_CONFIDENCE",
    "TRAINING_NAME",
    "AnswerScores",
    "Arm",
    "ArmDifference",
    "ArmEvidence",
    "ArmPair",
    "ArmsComparison",
    "Calibration",
    "CalibrationError",
    "ChanceError",
    "ChanceMiscalibration",
    "ClusterUnit",
    "Comparison",
    "DifferentViews",
    "Estimate",
    "Evaluation",
    "Evidence",
    "Experiment",
    "ExperimentRun",
    "Generalisation",
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
    "Notice",
    "PairOutcomes",
    "RepeatedViews",
    "ReportDigest",
    "ResampledGroup",
    "RunCost",
    "ScoreDecomposition",
    "ScoredItems",
    "SeedMatch",
    "SeedSummary",
    "Settings",
    "SignFlipTest",
    "SkippedRun",
    "SlotHomogeneity",
    "SmallGroups",
    "Split",
    "Standing",
    "StatisticSet",
    "Summary",
    "SweepPoint",
    "TooFewResamples",
    "Unit",
    "UnlikeRuns",
    "UnmatchedSeeds",
    "align",
    "arm_evidence",
    "calibration_error",
    "common_views",
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
    "join",
    "joint_calibration_p_value",
    "label_codes",
    "matched_seeds",
    "metric_names",
    "metric_spec",
    "mismatch",
    "most_probable",
    "numeric_noise",
    "of_one_role",
    "ordered_groups",
    "pair_partners",
    "point_estimates",
    "point_values",
    "read_items",
    "register_metric",
    "registered_metrics",
    "report_digest",
    "run_costs",
    "splits_of_folder",
    "streamable_items",
    "sweep",
    "temporary_metric",
]
