"""Results that figures draw: curves with bands, means of arms, training logs."""

from pact_eval.evaluation.curves.arms import (
    ArmMean,
    ArmSweep,
    EceByKind,
    MetricMeans,
    ViewsSweep,
    ece_by_kind,
    main_comparison,
    views_sweep,
)
from pact_eval.evaluation.curves.bands import Band, curve_band
from pact_eval.evaluation.curves.differences import (
    ArmDifferences,
    GroupDifference,
    arm_differences,
)
from pact_eval.evaluation.curves.distributions import (
    ArmCurve,
    ArmCurves,
    CurveDifference,
    RiskCoverageCurves,
    RiskReference,
    risk_coverage,
    view_tv_distribution,
)
from pact_eval.evaluation.curves.probabilities import (
    AnswerConfidence,
    BinnedCurve,
    ReliabilityCurve,
    RunConfidence,
    RunReliability,
    answer_confidence,
    binned_reliability,
    reliability,
)
from pact_eval.evaluation.curves.recalibration import RecalibratedCurve, recalibrated_curve
from pact_eval.evaluation.curves.temperatures import (
    RunTemperatures,
    TemperatureByChoices,
    TemperatureByLength,
    temperature_by_choices,
    temperature_by_length,
)
from pact_eval.evaluation.curves.training import (
    DECAY,
    TERMS,
    Smoothed,
    TrainingCurves,
    Trajectory,
    selection_trajectory,
    training_curves,
)

__all__ = [
    "DECAY",
    "TERMS",
    "AnswerConfidence",
    "ArmCurve",
    "ArmCurves",
    "ArmDifferences",
    "ArmMean",
    "ArmSweep",
    "Band",
    "BinnedCurve",
    "CurveDifference",
    "EceByKind",
    "GroupDifference",
    "MetricMeans",
    "RecalibratedCurve",
    "ReliabilityCurve",
    "RiskCoverageCurves",
    "RiskReference",
    "RunConfidence",
    "RunReliability",
    "RunTemperatures",
    "Smoothed",
    "TemperatureByChoices",
    "TemperatureByLength",
    "TrainingCurves",
    "Trajectory",
    "ViewsSweep",
    "answer_confidence",
    "arm_differences",
    "binned_reliability",
    "curve_band",
    "ece_by_kind",
    "main_comparison",
    "recalibrated_curve",
    "reliability",
    "risk_coverage",
    "selection_trajectory",
    "temperature_by_choices",
    "temperature_by_length",
    "training_curves",
    "view_tv_distribution",
    "views_sweep",
]
