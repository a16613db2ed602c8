"""Inference on an ECE: its true value, and the ECE that chance alone gives."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pact_eval.stats.estimate import LEVEL, Estimate


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
    """

    floor: float = math.nan
    floor_high: float = math.nan
    p_value: float = math.nan
    debiased: float = math.nan

    @property
    def rejected(self) -> bool:
        """Whether calibration is rejected at 5%."""
        return self.p_value < LEVEL
