r"""How well the data determine the parameters of a fit.

Two covariances stand side by side, with I the observed information (the Hessian of the NLL) at the
fit and s_f the sum of the gradients of the items of family f:

    I^-1                                                   right where items are independent
    I^-1 (sum_f s_f s_f') I^-1  F/(F-1) (n-1)/(n-p)        right where only families are

The members of a pair share their text, so that the second is the one to quote; the first is what
other tools report. Its intervals use the quantile of Student's t with F - 1 degrees of freedom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pact_eval.calibration.design import Design
from pact_eval.calibration.likelihood import TemperatureLikelihood
from pact_eval.stats import cluster_sums

__all__ = ["CONDITION_LIMIT", "Uncertainty", "observed_information", "uncertainty"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

CONDITION_LIMIT: Final = 1000.0
"""Above this condition number of the information, slopes count as not told apart: a condition index
(its root) of about 30 is where Belsley, Kuh and Welsch (1980) speak of harmful collinearity."""

# An information below this leaves a standard error of 10^5 on u = softplus^-1(T): none at all.
_NO_INFORMATION: Final = 1e-10
_SINGULAR: Final = 1e-10
_TOUCHES: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Covariances of the fitted numbers, on the scale of the design's columns.

    Attributes:
        covariance: (p, p) inverse of the observed information; a pseudo-inverse where that is
            singular, 0 for numbers that a bound holds.
        cluster_covariance: (p, p) robust to dependence within families; NaN where there are no more
            families than parameters.
        open_directions: (p, m) combinations of the numbers that the data leave undetermined, among
            them each number that a bound holds.
        condition_number: largest over smallest eigenvalue of the information scaled to a diagonal
            of 1; infinite where it is singular, NaN where nothing is free.
        clusters: number of families.
    """

    covariance: FloatArray
    cluster_covariance: FloatArray
    open_directions: FloatArray
    condition_number: float
    clusters: int

    def standard_errors(self, row: FloatArray) -> tuple[float, float]:
        """Return the two standard errors of row @ fitted: independent items, and by family.

        Both are NaN where the data leave row @ fitted undetermined, as is one that comes out 0.
        """
        if self.is_open(row):
            return math.nan, math.nan
        first, second = (
            float(row @ covariance @ row)
            for covariance in (self.covariance, self.cluster_covariance)
        )
        return (
            math.sqrt(first) if first > 0 else math.nan,
            math.sqrt(second) if second > 0 else math.nan,
        )

    def is_open(self, row: FloatArray) -> bool:
        """Say whether the data leave row @ fitted undetermined."""
        share = np.abs(row @ self.open_directions) / max(float(np.linalg.norm(row)), 1e-300)
        return bool((share > _TOUCHES).any())


def observed_information(
    fitted: FloatArray, likelihood: TemperatureLikelihood, design: Design, ridge: float = 0.0
) -> FloatArray:
    """Return the (p, p) Hessian of the summed NLL, with the ridge on its slopes, at `fitted`."""
    u = (design.matrix * fitted).sum(axis=1)
    curvature = likelihood.curvature(u)
    hessian = design.matrix.T @ (design.matrix * curvature[:, None])
    return np.asarray(hessian + np.diag(np.where(design.is_slope, ridge, 0.0)))


def uncertainty(
    fitted: FloatArray,
    held: BoolArray,
    likelihood: TemperatureLikelihood,
    design: Design,
    *,
    cluster: npt.NDArray[np.int64],
    ridge: float = 0.0,
) -> Uncertainty:
    """Measure how well the data determine the fitted numbers.

    Args:
        fitted: (p,) the fit.
        held: (p,) which numbers a bound holds; the others are judged as if those were known.
        likelihood: of n items.
        design: the columns of those items.
        cluster: (n,) family codes in 0..F-1.
        ridge: as in the fit; the covariances are then those of the shrunken estimate.
    """
    p, n = len(fitted), len(design.matrix)
    free = np.flatnonzero(~held)
    information = observed_information(fitted, likelihood, design, ridge)[np.ix_(free, free)]
    inverse, loose, condition = _inverse(information)
    open_directions = np.zeros((p, loose.shape[1] + p - len(free)))
    open_directions[free, : loose.shape[1]] = loose
    open_directions[held, loose.shape[1] :] = np.eye(p - len(free))
    covariance = np.zeros((p, p))
    covariance[np.ix_(free, free)] = inverse
    clusters = int(cluster.max()) + 1 if n else 0
    robust = np.full((p, p), np.nan)
    if clusters > max(len(free), 1) and n > len(free):
        _, slope = likelihood.nll_and_slope((design.matrix * fitted).sum(axis=1))
        sums = cluster_sums(design.matrix[:, free] * slope[:, None], cluster, clusters)
        correction = clusters / (clusters - 1) * (n - 1) / (n - len(free))
        robust = np.zeros((p, p))
        robust[np.ix_(free, free)] = correction * inverse @ (sums.T @ sums) @ inverse
    return Uncertainty(covariance, robust, open_directions, condition, clusters)


def _inverse(information: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return pseudo-inverse, undetermined directions (p, m), and the condition number."""
    size = len(information)
    if not size:
        return information, np.zeros((0, 0)), float("nan")
    diagonal = np.diag(information)
    scale = np.where(diagonal > _NO_INFORMATION, np.sqrt(np.maximum(diagonal, 0.0)), 1.0)
    scaled = information / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(scaled)
    firm = values > _SINGULAR
    back = vectors / scale[:, None]
    inverse = (back[:, firm] / values[firm]) @ back[:, firm].T
    # theta = phi / scale: an undetermined phi moves theta along this.
    loose = back[:, ~firm]
    loose = loose / np.maximum(np.linalg.norm(loose, axis=0), 1e-300)
    condition = float(values[-1] / values[0]) if firm.all() else float("inf")
    return inverse, loose, condition
