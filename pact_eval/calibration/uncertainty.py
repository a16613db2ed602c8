"""Uncertainty of the parameters of a fit.

Two covariances are shown side by side, with I the observed information (the Hessian of the NLL) at
the fit and s_f the sum of the gradients of the items of family f:

    I^-1                                                   right where items are independent
    I^-1 (sum_f s_f s_f') I^-1  F/(F-1) (n-1)/(n-p)        right where only families are

The members of a pair share their text, so the second is the one to quote; the first is what
other tools report. Its intervals use the quantile of Student's t with F - 1 degrees of freedom.

Intervals of temperatures do not go to both sides of the fit by a standard error. If few answers are
wrong, T is low, and so is its standard error: nearly all misses would lie below the true T. They
hold the temperatures whose likelihood ratio is not too large for the dependence within families:

    2 (NLL(T) - NLL(fit))  <=  t^2 c,   c = J max(V_robust, deff I^-1)

with the information J along that level, deff the design effect of its gradients, and t the same
quantile (the normal one and c = J I^-1 if items were independent).

References:
    Rotnitzky and Jewell, "Hypothesis testing of regression parameters in semiparametric generalized
    linear models for cluster correlated data", Biometrika 77, 1990, for scaled likelihood ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.calibration.likelihood import SLOPE_BOUND, TEMPERATURE_BOUNDS, Design
from pact_eval.calibration.temperatures import softplus
from pact_eval.stats.bootstrap import cluster_sums
from pact_eval.stats.clusters import pooled_design_effect

CONDITION_LIMIT: Final = 1000.0
"""Above this condition number of the information, slopes count as not identified: a condition
index (its root) of about 30 is where Belsley, Kuh and Welsch (1980) speak of harmful
collinearity."""

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
        cluster_covariance: (p, p) robust to dependence within families; NaN if there is no more
            families than parameters.
        open_directions: (p, m) combinations of the numbers that the data leave undetermined, among
            them each number that a bound holds.
        condition_number: largest over smallest eigenvalue of the information scaled to a diagonal
            of 1; infinite if it is singular, NaN if nothing is free.
        clusters: number of families.
        design_effects: (p,) how much larger families make the variance of the gradient of each
            number, 1 or more.
    """

    covariance: FloatArray
    cluster_covariance: FloatArray
    open_directions: FloatArray
    condition_number: float
    clusters: int
    design_effects: FloatArray

    def standard_errors(self, row: FloatArray) -> tuple[float, float]:
        """Return the two standard errors of row @ fitted: independent items, and by family.

        Both are NaN if the data leave row @ fitted undetermined, or if it is 0.
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


def observed_information(fitted: FloatArray, design: Design, ridge: float = 0.0) -> FloatArray:
    """Return the (p, p) Hessian of the summed NLL, with the ridge on its slopes, at `fitted`."""
    u = (design.matrix * fitted).sum(axis=1)
    curvature = design.items.likelihood.curvature(u)
    hessian = design.matrix.T @ (design.matrix * curvature[:, None])
    return np.asarray(hessian + np.diag(np.where(design.is_slope, ridge, 0.0)))


def uncertainty(
    fitted: FloatArray, held: BoolArray, design: Design, ridge: float = 0.0
) -> Uncertainty:
    """Measure how well the data determine the fitted numbers.

    Args:
        fitted: (p,) the fit.
        held: (p,) which numbers a bound holds; the others are judged as if those were known.
        design: the columns of n items.
        ridge: as in the fit; the covariances are then those of the shrunken estimate.
    """
    p, n = len(fitted), len(design.matrix)
    free = np.flatnonzero(~held)
    information = observed_information(fitted, design, ridge)[np.ix_(free, free)]
    inverse, loose, condition = _inverse(information)
    open_directions = np.zeros((p, loose.shape[1] + p - len(free)))
    open_directions[free, : loose.shape[1]] = loose
    open_directions[held, loose.shape[1] :] = np.eye(p - len(free))
    covariance = np.zeros((p, p))
    covariance[np.ix_(free, free)] = inverse
    cluster, clusters = design.items.family_codes()
    robust, effects = np.full((p, p), np.nan), np.ones(p)
    if clusters > max(len(free), 1) and n > len(free):
        _, slope = design.items.likelihood.nll_and_slope((design.matrix * fitted).sum(axis=1))
        gradients = design.matrix * slope[:, None]
        sums = cluster_sums(gradients[:, free], cluster, clusters)
        correction = clusters / (clusters - 1) * (n - 1) / (n - len(free))
        robust = np.zeros((p, p))
        robust[np.ix_(free, free)] = correction * inverse @ (sums.T @ sums) @ inverse
        effects = np.array([_design_effect(column, cluster) for column in gradients.T])
    return Uncertainty(covariance, robust, open_directions, condition, clusters, effects)


def _design_effect(gradients: FloatArray, cluster: IntArray) -> float:
    """Return how much larger clusters make the variance of a sum of (n,) gradients, 1 or more."""
    used = np.flatnonzero(gradients)
    _, code = np.unique(cluster[used], return_inverse=True)
    rows = np.bincount(code).astype(np.float64)
    if rows.size < 2:
        return 1.0
    sums, squares = (cluster_sums(x[used], code, rows.size) for x in (gradients, gradients**2))
    seen = rows.size / (rows.size - 1) * float((sums**2).sum() / squares.sum())
    return max(1.0, seen, pooled_design_effect(sums, squares, rows))


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


SIGN_MATTERS: Final = 0.25
"""A slope whose sign is open is identified (as near 0) only if its interval lets it change T by
less than this share over the items' full range of C or L."""

_COVERAGE: Final = 0.95
_WHAT: Final = {"log_choices": "the number of answers", "log_tokens": "the prompt length"}


@dataclass(frozen=True, slots=True)
class Wald:
    """A standard error and the 95% interval around an estimate; NaN if undetermined."""

    standard_error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a fit.

    Attributes:
        name: a weight ("bias", "bias_choice", ..., "log_choices", "log_tokens") or a temperature
            ("temperature", "temperature_choice", ...).
        value: the estimate.
        by_family: robust to dependence within families, with Student's t on families less 1
            degrees of freedom: the one to quote.
        independent: from the observed information, with the normal distribution: valid only if
            all items are independent.
        at_bound: whether a bound of the fit holds it.
        identified: whether the data determine it; with a ridge: whether they would without.
        reason: why it is not identified, or why an interval is missing; None if all is well.
    """

    name: str
    value: float
    by_family: Wald
    independent: Wald
    at_bound: bool
    identified: bool
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class FitEvidence:
    """What the data say of fitted numbers; every parameter is made from it.

    Attributes:
        design: the columns of n items.
        fitted: (p,) the fit.
        held: (p,) which numbers a bound holds.
        penalised: with the ridge of the fit; standard errors come from it.
        data: without any ridge; identification is judged by it.
    """

    design: Design
    fitted: FloatArray
    held: BoolArray
    penalised: Uncertainty
    data: Uncertainty


def weight_parameters(fit: FitEvidence) -> tuple[Parameter, ...]:
    """Give every weight of the form its standard errors, and say which the data identify.

    Returns:
        The weights; slopes on what does not vary come last, 0 and not identified.
    """
    design, values = fit.design, fit.design.raw @ fit.fitted
    varied = [
        _parameter(fit, j, name, float(values[j]), design.raw[j])
        for j, name in enumerate(design.names)
    ]
    nothing = Wald(math.nan, math.nan, math.nan)
    unvaried = [
        Parameter(name, 0.0, nothing, nothing, at_bound=False, identified=False, reason=reason)
        for name, reason in design.unvaried.items()
    ]
    return (*varied, *unvaried)


def level_parameters(fit: FitEvidence) -> tuple[Parameter, ...]:
    """Give the levels of the temperatures: one, or one a kind.

    The contextual form's level is T at the geometric mean of C and of L. It is determined far
    better than the bias, which is a statement about one answer and 1,000 tokens. Standard
    errors are taken from u = softplus^-1(T) to T by the delta method.
    """
    rows = np.eye(len(fit.fitted))
    levels = []
    for j, name in enumerate(fit.design.names):
        if fit.design.is_slope[j]:
            continue
        u = _parameter(fit, j, name.replace("bias", "temperature"), float(fit.fitted[j]), rows[j])
        slope = 1 / (1 + math.exp(-u.value))
        by_family, independent = (
            Wald(slope * wald.standard_error, *softplus([wald.low, wald.high]).tolist())
            for wald in (u.by_family, u.independent)
        )
        value = float(softplus(u.value))
        levels.append(replace(u, value=value, by_family=by_family, independent=independent))
    return tuple(levels)


def _parameter(fit: FitEvidence, j: int, name: str, value: float, row: FloatArray) -> Parameter:
    from scipy import special  # reports on raw runs do without it

    independent, by_family = fit.penalised.standard_errors(row)
    clusters = fit.penalised.clusters
    normal = float(special.ndtri((1 + _COVERAGE) / 2))
    student = float(special.stdtrit(max(clusters - 1, 1), (1 + _COVERAGE) / 2))
    reason = _why_unidentified(fit, j, row)
    missing = None
    if math.isnan(by_family) and not math.isnan(independent):
        missing = (
            f"no standard error by family: too few families ({clusters:,}), or their gradients "
            "cancel"
        )
    is_level = np.count_nonzero(row) == 1 and not fit.design.is_slope[j]
    spread = by_family
    if is_level:
        spread = max(by_family, independent * math.sqrt(fit.penalised.design_effects[j]))
    walds = []
    for error, reach in ((by_family, student * spread), (independent, normal * independent)):
        ends = value - reach, value + reach
        if is_level and not math.isnan(reach):
            ends = _likelihood_ends(fit, j, reach)
        walds.append(Wald(error, *ends))
    return Parameter(
        name=name,
        value=value,
        by_family=walds[0],
        independent=walds[1],
        at_bound=bool(fit.held[j]),
        identified=reason is None,
        reason=reason or missing,
    )


def _likelihood_ends(fit: FitEvidence, j: int, reach: float) -> tuple[float, float]:
    """Return where NLL rises as a parabola would in `reach`, along level j, within its bounds."""
    from scipy import optimize  # reports on raw runs do without it

    column, fitted = fit.design.matrix[:, j], float(fit.fitted[j])
    likelihood = fit.design.items.likelihood
    u = (fit.design.matrix * fit.fitted).sum(axis=1)
    information = float((column**2 * likelihood.curvature(u)).sum())
    allowed = float(likelihood.nll_and_slope(u)[0].sum()) + reach**2 * information / 2

    def excess(level: float) -> float:
        return float(likelihood.nll_and_slope(u + column * (level - fitted))[0].sum()) - allowed

    low, high = (
        bound if excess(bound) <= 0 else float(optimize.brentq(excess, fitted, bound))
        for bound in fit.design.bounds[j].tolist()
    )
    return low, high


def _why_unidentified(fit: FitEvidence, j: int, row: FloatArray) -> str | None:
    """Say why the data do not determine a parameter; None if they do."""
    slope = bool(fit.design.is_slope[j])
    if not len(fit.design.matrix):
        return "there are no items"
    if fit.held[j] and slope and fit.fitted[j] == 0:
        return "held at 0, since the level of the temperatures is at its bound"
    if fit.held[j]:
        low, high = (-SLOPE_BOUND, SLOPE_BOUND) if slope else TEMPERATURE_BOUNDS
        return f"held by a bound of the fit ({low:g} to {high:g}{'' if slope else ' for T'})"
    condition = fit.data.condition_number
    if math.isnan(fit.data.standard_errors(row)[0]):
        if (fit.held & (row != 0)).any():
            return "it depends on a slope that a bound holds"
        return "the NLL is flat here: it changes nothing, or another parameter makes up for it"
    if not slope:
        return None
    if (fit.held & fit.design.is_slope).any():
        return "another slope is held by a bound, and this one is valid only given that bound"
    if condition > CONDITION_LIMIT:
        return (
            f"not identified next to the other parameters: condition number {condition:,.0f}, "
            f"more than {CONDITION_LIMIT:,.0f}"
        )
    return _sign_open(fit, j)


def _sign_open(fit: FitEvidence, j: int) -> str | None:
    from scipy import special  # reports on raw runs do without it

    design, name = fit.design, fit.design.names[j]
    independent, by_family = fit.data.standard_errors(design.raw[j])
    value = float(design.raw[j] @ fit.fitted)
    quantile = float(special.stdtrit(max(fit.data.clusters - 1, 1), (1 + _COVERAGE) / 2))
    half = quantile * by_family
    if math.isnan(by_family):
        half = float(special.ndtri((1 + _COVERAGE) / 2)) * independent
    if abs(value) > half:
        return None
    level = float(fit.fitted[0])
    change = half * design.spans[name] * float(special.expit(level) / softplus(level))
    if change <= SIGN_MATTERS:
        return None
    return (
        f"its sign is open ({value:+.2f}, 95% interval {value - half:.2f} to {value + half:.2f}), "
        f"and over the range of {_WHAT[name]} here it could change T by {change:.0%}"
    )
