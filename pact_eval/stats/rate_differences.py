"""The difference of two rates of the same rows: a score interval that holds for few clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.stats._paired_arrays import check_cluster
from pact_eval.stats._quantiles import border, t_quantile, t_tail
from pact_eval.stats.clusters import (
    concentration,
    degrees_of_freedom,
    effective_clusters,
    jackknifed,
    pooled_variance,
)
from pact_eval.stats.estimate import NO_ROWS, ONE_CLUSTER, ClusterText, Estimate, Method
from pact_eval.stats.paired_tests import flip_mid_p

_ROUNDING = 1e-12
_HALVINGS = 55
# Rows by which clusters lead, in all, up to which the sign flip is computed.
_MOST_LEADS = 5_000


@dataclass(frozen=True)
class PairedRates:
    r"""Interval and test of a difference of rates over the same rows, which form clusters.

    With the share b of rows that count only in A, the share c that count only in B, and the
    effective number of rows n* of `paired_rates`, the interval of :math:`d = b - c` holds every
    difference :math:`\Delta` that the score test does not reject (Tango 1998), with Student's t
    in place of z:

    .. math:: \sqrt{n^*}\; \frac{|d - \Delta|}{\sqrt{2 q + \Delta (1 - \Delta)}}
              \le t_{(1 + confidence) / 2}

    where t has `degrees` degrees of freedom, and q is the estimate of the probability of c under
    :math:`\Delta`: the larger root of
    :math:`2 q^2 + q\,[(2 - b + c) \Delta - b - c] = c\,\Delta (1 - \Delta)`. The interval lies in
    [-1, 1] and always has a width: no row in which the runs differ is compatible with a
    difference.

    Of no difference, the sign flip over clusters must be able to convince as well: if its mid-p
    value is above 1 - confidence, the interval reaches to 0. With few clusters that differ, the
    score test alone rejects too often.

    Attributes:
        value: d, in [-1, 1].
        differing: b + c, a share in [0, 1].
        n_effective: n*, above 0.
        n: Rows.
        clusters: Clusters, F.
        degrees: Degrees of freedom of t: F - 1 for clusters of one size, fewer otherwise.
        flip_p: P-value of the sign flip over clusters; 0 leaves it out.
        concentration: The few clusters that have more than a quarter of the rows, if there are.

    References:
        Tango, "Equivalence test and confidence interval for the difference in proportions for the
        paired-sample design", Statistics in Medicine 17, 1998. For n* and t: Korn and Graubard,
        Survey Methodology 1998.

    Examples:
        >>> from pact_eval.stats.rate_differences import PairedRates
        >>> tango = PairedRates(-4 / 20, 8 / 20, n_effective=20, n=20, clusters=10**6,
        ...     degrees=10**6).estimate()
        >>> round(tango.value, 3), round(tango.low, 4), round(tango.high, 4)
        (-0.2, -0.457, 0.0858)
    """

    value: float
    differing: float
    n_effective: float
    n: int
    clusters: int
    degrees: int
    flip_p: float = 0.0
    concentration: ClusterText | None = None

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return b - c with its interval; no interval from one cluster."""
        method = Method("score interval", " (differences of rates)", confidence)
        low, high, reason = math.nan, math.nan, None
        if self.clusters < 2:
            reason = ONE_CLUSTER if self.clusters else NO_ROWS
        else:
            t = t_quantile((1 + confidence) / 2, self.degrees)
            low = -_upper_end(-self.value, self.differing, self.n_effective, t)
            high = _upper_end(self.value, self.differing, self.n_effective, t)
            if self.p_value() > 1 - confidence:
                low, high = min(low, 0.0), max(high, 0.0)
        n, clusters = self.n, self.clusters
        return Estimate(self.value, low, high, n, clusters, method, reason, self.concentration)

    def p_value(self) -> float:
        """Return the level at which the interval ends at 0; NaN from one cluster."""
        if self.clusters < 2:
            return math.nan
        if self.differing == 0:
            return 1.0
        score = self.value * math.sqrt(self.n_effective / self.differing)
        return max(2 * t_tail(score, self.degrees), self.flip_p)


def paired_rates(lead: npt.ArrayLike, cluster: npt.ArrayLike, n_clusters: int) -> PairedRates:
    r"""Count how often two rates differ, and how many independent rows that is worth.

    .. math:: n^* = \frac{b + c - d^2}{V}, \quad
              V = \frac{F}{F - 1} \sum_f \frac{(s_f - d\, n_f)^2}{n^2}

    V is the variance of the difference over the F clusters, with the lead :math:`s_f` of cluster
    f; if clusters differ in size, it is that of the jackknife, see `jackknifed`, and at least that
    of independent rows times their `pooled_design_effect`. If all clusters
    have the same lead (none, say), V is 0 and :math:`n^* = n^2 / \sum_f n_f^2`, as in
    `effective_rows`. Unlike there, a design effect below 1 is used: with many clusters, the
    interval is that of V.

    Args:
        lead: (n,) what a row counts in A minus what it counts in B: -1, 0 or 1, or the mean of
            such leads over seeds.
        cluster: (n,) cluster code of each row, in 0..n_clusters-1; clusters without rows do not
            count.
        n_clusters: Number of clusters.

    Raises:
        ValueError: The shapes do not fit, or a lead is not in [-1, 1].

    Examples:
        >>> from pact_eval.stats.rate_differences import paired_rates
        >>> rates = paired_rates([1, 0, 0, -1, 1, 1, 0, 0], [0, 0, 1, 1, 2, 2, 3, 3], 4)
        >>> rates.value, rates.differing, round(rates.n_effective, 2)
        (0.25, 0.5, 4.2)
    """
    leads = np.asarray(lead, dtype=np.float64)
    if leads.ndim != 1 or not (np.abs(leads) <= 1 + _ROUNDING).all():
        raise ValueError("lead: expected (n,) numbers in [-1, 1]")
    codes = check_cluster(cluster, n_clusters, len(leads))
    rows = np.bincount(codes, minlength=n_clusters).astype(np.float64)
    by_cluster, rows = np.bincount(codes, leads, n_clusters)[rows > 0], rows[rows > 0]
    n, clusters = leads.size, rows.size
    if clusters == 0:
        return PairedRates(math.nan, math.nan, math.nan, 0, 0, 1)
    value, differing = float(leads.mean()), float(np.abs(leads).mean())
    apart, degrees, flip_p = (
        by_cluster - value * rows,
        degrees_of_freedom(rows),
        _flip(by_cluster.astype(np.float64)),
    )
    if clusters < 2 or float(np.abs(apart).max()) <= _ROUNDING * float(rows.max()):
        n_effective = effective_clusters(rows)
    else:
        squares = clusters / (clusters - 1) * float((jackknifed(apart, rows) ** 2).sum())
        squares = max(squares, pooled_variance(leads, codes, n_clusters))
        n_effective = (differing - value**2) * n**2 / squares
    large = concentration(rows)
    return PairedRates(value, differing, n_effective, n, clusters, degrees, flip_p, large)


def _flip(leads: FloatArray) -> float:
    """Return the mid-p value of the sign flip of clusters, at least what an exact one can reach.

    It is computed for whole numbers that are not too many: the score test needs no help then.
    """
    differing = np.abs(leads[np.abs(leads) > _ROUNDING])
    least = min(1.0, 2.0 ** (1 - differing.size))
    if differing.sum() > _MOST_LEADS or not np.array_equal(differing, np.rint(differing)):
        return least
    return max(least, flip_mid_p(np.rint(leads).astype(np.int64)))


def _upper_end(value: float, differing: float, n: float, t: float) -> float:
    """Return the largest difference that the score test does not reject."""
    c = (differing - value) / 2

    def is_kept(difference: float) -> bool:
        linear = (2 - value) * difference - differing
        root = math.sqrt(max(0.0, linear**2 + 8 * c * difference * (1 - difference)))
        variance = (root - linear) / 2 + difference * (1 - difference)
        return not n * (difference - value) ** 2 > t**2 * variance

    return border(is_kept, value, 1.0, _HALVINGS)[1]
