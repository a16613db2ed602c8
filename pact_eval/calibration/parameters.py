"""The parameters of a fit as estimates, each with what the data can say about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from pact_eval.calibration.calibrators import softplus
from pact_eval.calibration.design import SLOPE_BOUND, TEMPERATURE_BOUNDS, Design
from pact_eval.calibration.uncertainty import CONDITION_LIMIT, Uncertainty

__all__ = ["SIGN_MATTERS", "Parameter", "Wald", "level_parameters", "weight_parameters"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

SIGN_MATTERS: Final = 0.25
"""A slope whose sign is open is identified (as near 0) only if its interval lets it change T by
less than this share over the items' whole range of C or L."""

_COVERAGE: Final = 0.95
_WHAT: Final = {"log_choices": "the number of answers", "log_tokens": "the prompt length"}


@dataclass(frozen=True, slots=True)
class Wald:
    """A standard error and the 95% interval around an estimate; NaN where undetermined."""

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
        independent: from the observed information, with the normal distribution: right only where
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
class _Fit:
    """What every parameter is made from."""

    design: Design
    fitted: FloatArray
    held: BoolArray
    penalised: Uncertainty
    data: Uncertainty


def weight_parameters(
    design: Design,
    fitted: FloatArray,
    held: BoolArray,
    *,
    penalised: Uncertainty,
    data: Uncertainty,
) -> tuple[Parameter, ...]:
    """Give every weight of the form its standard errors, and say which the data identify.

    Args:
        design: the columns of n items.
        fitted: (p,) the fit.
        held: (p,) which numbers a bound holds.
        penalised: with the ridge of the fit; standard errors come from it.
        data: without any ridge; identification is judged by it.

    Returns:
        The weights; slopes on what does not vary come last, 0 and not identified.
    """
    fit = _Fit(design, fitted, held, penalised, data)
    values = design.raw @ fitted
    found = [
        _parameter(fit, j, name, float(values[j]), design.raw[j])
        for j, name in enumerate(design.names)
    ]
    nothing = Wald(math.nan, math.nan, math.nan)
    unvaried = [
        Parameter(name, 0.0, nothing, nothing, at_bound=False, identified=False, reason=reason)
        for name, reason in design.unvaried.items()
    ]
    return (*found, *unvaried)


def level_parameters(
    design: Design,
    fitted: FloatArray,
    held: BoolArray,
    *,
    penalised: Uncertainty,
    data: Uncertainty,
) -> tuple[Parameter, ...]:
    """Give the levels of the temperatures: one, or one a kind; arguments as `weight_parameters`.

    The contextual form's level is T at the geometric mean of C and of L. It is determined far
    better than the bias, which is a statement about one answer and 1,000 tokens. Intervals are
    computed on u = softplus^-1(T) and taken back to T, standard errors by the delta method.
    """
    fit = _Fit(design, fitted, held, penalised, data)
    levels = []
    for j, name in enumerate(design.names):
        if not design.is_slope[j]:
            row = np.eye(len(fitted))[j]
            on_u = _parameter(fit, j, name.replace("bias", "temperature"), float(fitted[j]), row)
            levels.append(_as_temperature(on_u))
    return tuple(levels)


def _parameter(fit: _Fit, j: int, name: str, value: float, row: FloatArray) -> Parameter:
    independent, by_family = fit.penalised.standard_errors(row)
    clusters = fit.penalised.clusters
    normal = float(special.ndtri((1 + _COVERAGE) / 2))
    student = float(special.stdtrit(max(clusters - 1, 1), (1 + _COVERAGE) / 2))
    reason = _unidentified(fit, j, row)
    missing = None
    if math.isnan(by_family) and not math.isnan(independent):
        missing = (
            f"no standard error by family: too few families ({clusters:,}), or their gradients "
            "cancel"
        )
    return Parameter(
        name=name,
        value=value,
        by_family=Wald(by_family, value - student * by_family, value + student * by_family),
        independent=Wald(independent, value - normal * independent, value + normal * independent),
        at_bound=bool(fit.held[j]),
        identified=reason is None,
        reason=reason or missing,
    )


def _unidentified(fit: _Fit, j: int, row: FloatArray) -> str | None:
    """Say why the data do not determine a parameter; None where they do."""
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
        return "another slope is held by a bound, and this one is only right beside it"
    if condition > CONDITION_LIMIT:
        return (
            f"not told apart from the other parameters: condition number {condition:,.0f}, "
            f"more than {CONDITION_LIMIT:,.0f}"
        )
    return _sign_open(fit, j)


def _sign_open(fit: _Fit, j: int) -> str | None:
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


def _as_temperature(level: Parameter) -> Parameter:
    """Take a level from u to T = softplus(u)."""
    slope = float(special.expit(level.value))

    def taken(wald: Wald) -> Wald:
        low, high = softplus([wald.low, wald.high]).tolist()
        return Wald(slope * wald.standard_error, low, high)

    return Parameter(
        name=level.name,
        value=float(softplus(level.value)),
        by_family=taken(level.by_family),
        independent=taken(level.independent),
        at_bound=level.at_bound,
        identified=level.identified,
        reason=level.reason,
    )
