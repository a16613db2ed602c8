"""One metric of an arm over its seeds: `ArmSummary`, whatever the numbers are from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pact_eval.evaluation.arms.differences import Standing
from pact_eval.evaluation.calibration_error import ChanceError
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import seed_summary


@dataclass(frozen=True)
class ArmSummary:
    """One metric of one arm, in the unit of the metric.

    Attributes:
        arm: name of the arm.
        seeds: seeds of its runs, ascending; None for a run without a seed.
        runs: the metric of each run, in the same order; published metrics have no intervals.
        mean: mean over runs; NaN if a run has no value.
        deviation: sample standard deviation over runs (n - 1); NaN for fewer than two.
        reason: why the mean or the deviation is NaN or infinite; otherwise None.
        low: lower end of the 95% interval of the mean over families, with the runs held fixed; NaN
            if there is none, or it was not computed. The interval of ECE is that of the true error,
            and can lie below the mean.
        high: upper end of the interval.
        standing: whether the arm is best, or tied with the best, of those next to it; None if it
            is neither, or no difference was tested.
        calibrated: the same after T(x); None if a run has no calibrator, or T(x) was not requested.
    """

    arm: str
    seeds: tuple[int | None, ...]
    runs: tuple[Estimate, ...]
    mean: float
    deviation: float
    reason: str | None = None
    low: float = math.nan
    high: float = math.nan
    standing: Standing | None = None
    calibrated: ArmSummary | None = None

    @classmethod
    def of(
        cls, arm: str, runs: Mapping[int | None, Estimate], mean: Estimate | None = None
    ) -> ArmSummary:
        """Summarise the runs of an arm.

        Args:
            arm: name of the arm.
            runs: the metric of each run, by seed.
            mean: their mean with its interval over families; None leaves the interval out.

        Examples:
            >>> runs = {seed: Estimate(value, math.nan, math.nan, 324, 162)
            ...         for seed, value in {17: 0.840, 18: 0.821, 19: 0.877}.items()}
            >>> summary = ArmSummary.of("pact", runs)
            >>> round(summary.mean, 3), round(summary.deviation, 3), summary.seeds
            (0.846, 0.028, (17, 18, 19))
        """
        with np.errstate(invalid="ignore"):
            over_seeds = seed_summary([run.value for run in runs.values()])
        return cls(
            arm=arm,
            seeds=tuple(runs),
            runs=tuple(runs.values()),
            mean=over_seeds.mean if mean is None else mean.value,
            deviation=over_seeds.deviation,
            reason=over_seeds.reason,
            low=math.nan if mean is None else mean.low,
            high=math.nan if mean is None else mean.high,
        )

    @property
    def values(self) -> tuple[float, ...]:
        """The value of each run."""
        return tuple(run.value for run in self.runs)

    @property
    def chance(self) -> ChanceError | None:
        """ECE of these runs expected by chance; None for other metrics."""
        return ChanceError.of(self.runs)
