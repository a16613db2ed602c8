"""The ECE that chance alone gives to one or more runs, such as those of an arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pact_eval.evaluation.ece_results import CalibrationError
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import seed_summary


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
            >>> runs = [CalibrationError(0.07, 0, 0.1, 324, 162, "", None, floor, 0.1, p)
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
        floor = seed_summary([error.floor for error in calibration_errors]).mean
        return cls(floor, min(p_values), max(p_values))
