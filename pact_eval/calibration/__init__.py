"""Calibration: temperatures fitted by NLL, applied to any decoding, and judged before and after.

    T(x) = softplus(a + b log C + c log(L / 1000))        p = softmax(z / T)

`fit_calibrator` fits the scalar, per-kind or contextual form and says what the data identify;
`choose_mode` picks the form by cross-validation over source families; `calibration_effect` shows
what a calibrator does to a run, and where it makes it worse.
"""

from pact_eval._choices import Mode
from pact_eval.calibration.effect import (
    CalibrationEffect,
    GroupEffect,
    Scores,
    calibration_effect,
    calibration_notes,
)
from pact_eval.calibration.files import (
    FORMAT,
    calibrator_as_shipped,
    calibrator_from_json,
    calibrator_sha256,
    calibrator_to_json,
    read_calibrator,
    write_calibrator,
)
from pact_eval.calibration.fitting import CalibratorFit, fit_calibrator
from pact_eval.calibration.likelihood import SLOPE_BOUND, TEMPERATURE_BOUNDS, CalibrationItems
from pact_eval.calibration.notes import (
    CalibrationNote,
    CalibrationWarning,
    DifferentDecoding,
    FitNote,
    FittedOnTraining,
    NeutralTemperatures,
    OtherRun,
    OutsideFit,
    RoundedItems,
    ScoreName,
    SharedSourceFamilies,
    UnknownFamilies,
    UnknownRun,
    UnseenKind,
    UseNote,
    WorseScore,
)
from pact_eval.calibration.ownership import check_decoding
from pact_eval.calibration.portable import (
    PortableCalibration,
    check_decision_file,
    portable_calibration,
    write_decision_file,
)
from pact_eval.calibration.ratios import ALL_KINDS, TemperatureRatio, temperature_ratio
from pact_eval.calibration.runs import (
    FittedRun,
    Members,
    calibrator_for,
    check_disjoint,
    fit_on_run,
)
from pact_eval.calibration.selection import RIDGES, Candidate, ModeChoice, choose_mode
from pact_eval.calibration.temperatures import (
    KINDS,
    MODES,
    NEUTRAL_BIAS,
    TEMPERATURE_FLOOR,
    Calibrator,
    TemperatureSummary,
    Weights,
    inverse_softplus,
    neutral_calibrator,
    softplus,
)
from pact_eval.calibration.uncertainty import CONDITION_LIMIT, Parameter, Wald
from pact_eval.runs import CALIBRATION_NAME

__all__ = [
    "ALL_KINDS",
    "CALIBRATION_NAME",
    "CONDITION_LIMIT",
    "FORMAT",
    "KINDS",
    "MODES",
    "NEUTRAL_BIAS",
    "RIDGES",
    "SLOPE_BOUND",
    "TEMPERATURE_BOUNDS",
    "TEMPERATURE_FLOOR",
    "CalibrationEffect",
    "CalibrationItems",
    "CalibrationNote",
    "CalibrationWarning",
    "Calibrator",
    "CalibratorFit",
    "Candidate",
    "DifferentDecoding",
    "FitNote",
    "FittedOnTraining",
    "FittedRun",
    "GroupEffect",
    "Members",
    "Mode",
    "ModeChoice",
    "NeutralTemperatures",
    "OtherRun",
    "OutsideFit",
    "Parameter",
    "PortableCalibration",
    "RoundedItems",
    "ScoreName",
    "Scores",
    "SharedSourceFamilies",
    "TemperatureRatio",
    "TemperatureSummary",
    "UnknownFamilies",
    "UnknownRun",
    "UnseenKind",
    "UseNote",
    "Wald",
    "Weights",
    "WorseScore",
    "calibration_effect",
    "calibration_notes",
    "calibrator_as_shipped",
    "calibrator_for",
    "calibrator_from_json",
    "calibrator_sha256",
    "calibrator_to_json",
    "check_decision_file",
    "check_decoding",
    "check_disjoint",
    "choose_mode",
    "fit_calibrator",
    "fit_on_run",
    "inverse_softplus",
    "neutral_calibrator",
    "portable_calibration",
    "read_calibrator",
    "softplus",
    "temperature_ratio",
    "write_calibrator",
    "write_decision_file",
]
