"""Differences of rates that are shares of different rows, such as of the errors of two runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pact_eval.evaluation.calibration_difference import correlations
from pact_eval.stats.bootstrap import Resampled, TotalsStatistic
from pact_eval.stats.estimate import ClusterText, Estimate, Method
from pact_eval.stats.proportions import rate_estimate
from pact_eval.stats.summed_intervals import SummedInterval, summed_interval


@dataclass(frozen=True)
class RatesOfOtherRows:
    """Inference on a weighted sum of rates that are shares of different rows of the same families.

    The interval combines the Wilson intervals of the rates (MOVER, see `stats.summed_interval`),
    with the correlation of their linearised values over families, and lies in [-1, 1].

    Attributes:
        drawn: the sum, with its rates.
        resamples: none limit the p-value.
    """

    drawn: Resampled
    resamples: ClassVar[int] = 0

    @property
    def clusters(self) -> int:
        """Number of families, or source families."""
        return self.drawn.n_clusters

    @cached_property
    def _summed(self) -> SummedInterval | None:
        rates, influences = [], []
        for _, statistic in self.drawn.terms:
            if not isinstance(statistic, TotalsStatistic):
                return None
            linear = statistic.linearised()
            if linear is None:
                return None
            (counted,), (positive,) = statistic.by_cluster()
            rates.append(rate_estimate(positive, counted))
            influences.append(linear.influence)
        if any(math.isnan(rate.low) for rate in rates):
            return None
        return summed_interval(
            [weight for weight, _ in self.drawn.terms],
            [rate.value for rate in rates],
            [rate.low for rate in rates],
            [rate.high for rate in rates],
            # Rates without a spread, as of no family or of all, tell nothing of a correlation.
            np.maximum(correlations(influences), 0.0),
            n_clusters=min(rate.clusters for rate in rates),
            ends_at_zero=False,
        )

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return the sum with its interval; none if a rate has none."""
        method = Method("MOVER interval", " (rates of different items)", confidence)
        value, n, reason = self.drawn.value, self.drawn.n, None
        low, high = math.nan, math.nan
        if self._summed is None:
            reason = ClusterText("items of one {cluster} count: no interval")
        else:
            low, high = np.clip(self._summed.at(confidence), -1.0, 1.0).tolist()
        return Estimate(value, low, high, n, self.clusters, method, reason)

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN without an interval."""
        if self._summed is None:
            return math.nan
        return 1.0 if self.drawn.value == 0 else self._summed.p_value()
