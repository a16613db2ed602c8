"""Inference on an ECE: its true value, and the ECE that chance alone gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pact_eval._choices import ECE_BINS
from pact_eval.stats.estimate import LEVEL, Estimate


@dataclass(frozen=True)
class ConfidenceGap(Estimate):
    """Mean confidence minus accuracy, a fraction; above 0 for an over-confident model.

    Attributes:
        low: lower end of its interval, at least mean confidence minus 1.
        high: upper end, at most mean confidence; the interval excludes 0 if and only if the p-value
            is at most 5%.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has a
            gap as far on one side, doubled.
    """

    p_value: float = math.nan


@dataclass(frozen=True)
class CalibrationError(Estimate):
    """The ECE of some items, and what it says about the model.

    Attributes:
        value: the published ECE, a fraction.
        low: lower end of the interval of the true calibration error.
        high: upper end; the interval need not hold the published ECE, which is biased upwards.
        floor: mean ECE of a calibrated model with these confidences and families.
        floor_high: 95% quantile of its ECE.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has
            an ECE as large.
        debiased: the true error at which half of the samples would have a larger ECE; 0 if a
            calibrated model exceeds the ECE half of the time.
        bins: number of bins of equal width.
        gap: mean confidence minus accuracy of the same items; None without items.
    """

    floor: float = math.nan
    floor_high: float = math.nan
    p_value: float = math.nan
    debiased: float = math.nan
    bins: int = ECE_BINS
    gap: ConfidenceGap | None = field(default=None, repr=False)

    @property
    def rejected(self) -> bool:
        """Whether calibration is rejected at 5%."""
        return self.p_value < LEVEL


@dataclass(frozen=True)
class ChanceError:
    """The ECE of one or more runs if they were calibrated, such as those of an arm.

    Attributes:
        floor: mean noise floor over the runs, a fraction: what their ECE would be by chance alone.
        lowest_p: smallest p-value of "the run is calibrated" among them.
        highest_p: largest of these p-values; the same for one run.
    """

    floor: float
    lowest_p: float
    highest_p: float

    @classmethod
    def of(cls, errors: Sequence[Estimate | None]) -> ChanceError | None:
        """Summarise the inference on the ECE of runs; None if one of them has none.

        Examples:
            >>> runs = [CalibrationError(0.07, 0, 0.1, 324, 162, floor=floor, p_value=p)
            ...         for floor, p in ((0.06, 0.3), (0.05, 0.02))]
            >>> summary = ChanceError.of(runs)
            >>> round(summary.floor, 3), summary.lowest_p, summary.highest_p
            (0.055, 0.02, 0.3)
        """
        calibration_errors = [error for error in errors if isinstance(error, CalibrationError)]
        if not calibration_errors or len(calibration_errors) < len(errors):
            return None
        if any(math.isnan(error.floor) for error in calibration_errors):
            return None
        p_values = [error.p_value for error in calibration_errors]
        floors = [error.floor for error in calibration_errors]
        return cls(float(np.mean(floors)), min(p_values), max(p_values))
