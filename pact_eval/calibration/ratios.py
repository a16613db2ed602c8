"""Temperatures of two runs, fitted alike, and the interval of their ratio.

If the probabilities of B are those of A divided by a temperature t, then T fitted on B is T fitted
on A divided by t. On the same items the two fits err together, so their ratio is far surer than
either: its error counts each family once, with what it adds to the one fit less the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, TextArray
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems, TemperatureLikelihood
from pact_eval.calibration.temperatures import inverse_softplus
from pact_eval.errors import counted
from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.estimate import ClusterText, Estimate, Method

ALL_KINDS: Final = "all"
"""Name of the fit on the items of every kind."""

_METHOD: Final = Method("t interval", " (log temperatures)")
_NAN: Final = math.nan


@dataclass(frozen=True)
class TemperatureRatio:
    """The temperatures of two runs.

    Attributes:
        kind: choice, boolean or score; "all" for one temperature of all items.
        a: T of the first run, with its interval over families.
        b: T of the second run.
        ratio: T of the first divided by T of the second, with the interval of the ratio: by how
            much the second is tempered.
        left_out: items left out of both fits, because a run gives their reference probability 0.
    """

    kind: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    left_out: int


@dataclass(frozen=True, eq=False)
class _Fit:
    """One temperature, and what each item adds to its logarithm."""

    temperature: Estimate
    influence: FloatArray
    families: TextArray
    reason: str | None


def temperature_ratio(
    kind: str, a: CalibrationItems, b: CalibrationItems, *, paired: bool
) -> TemperatureRatio:
    r"""Fit one temperature on each of two runs.

    The logarithm of each T is linearised in its items, :math:`-s_i\,T'(u) / (I\,T)`, with the
    slope :math:`s_i` of the NLL in u and the information I (as for the standard errors of a fit by
    family). Families that both runs have count once.

    Args:
        kind: name of the items.
        a: items of the first run.
        b: items of the second run; the same in the same order if `paired`.
        paired: whether they are the same items.

    Returns:
        The temperatures and their ratio; NaN with a reason if a bound holds a fit, a reference has
        probability 0 in runs that are not paired, or there are no items.

    Examples:
        >>> import numpy as np
        >>> names = np.array([f"f{index // 2}" for index in range(40)])
        >>> def items(p):
        ...     return CalibrationItems(
        ...         np.log(np.tile([p, 1 - p], (40, 1))), (np.arange(40) % 4 == 0).astype(np.int64),
        ...         np.full(40, "boolean"), np.full(40, 2), np.full(40, 300.0), names, names)
        >>> fit = temperature_ratio("boolean", items(0.9), items(0.75), paired=True)
        >>> round(fit.a.value, 3), round(fit.b.value, 3), round(fit.ratio.value, 3)
        (2.0, 1.0, 2.0)
    """
    left_out = 0
    if paired:
        possible = _possible(a) & _possible(b)
        left_out = int((~possible).sum())
        a, b = a.take(possible), b.take(possible)
    first, second = _fit(_all_named(a, "a")), _fit(_all_named(b, "a" if paired else "b"))
    reason = first.reason or second.reason
    if reason is not None:
        ratio = Estimate(_NAN, _NAN, _NAN, len(a) + len(b), 0, _METHOD, ClusterText(reason))
    else:
        ratio = _ratio(first, second)
    return TemperatureRatio(kind, first.temperature, second.temperature, ratio, left_out)


def _all_named(items: CalibrationItems, run: str) -> CalibrationItems:
    """Return items in which each item of unknown family has a family of its own in the run."""
    own = np.array([f"\0{run}{index}" for index in range(len(items))], dtype=np.str_)
    return replace(items, family=np.where(items.family == "", own, items.family))


def _possible(items: CalibrationItems) -> npt.NDArray[np.bool_]:
    at = items.log_probs[np.arange(len(items)), items.reference]
    return np.asarray(~np.isneginf(at))


def _fit(items: CalibrationItems) -> _Fit:
    n, families = len(items), items.family
    impossible = int((~_possible(items)).sum())
    nothing = Estimate(_NAN, _NAN, _NAN, n, 0, _METHOD)
    if not n:
        return _Fit(nothing, np.zeros(0), families, "there are no items")
    if impossible:
        reason = f"the reference has probability 0 in {counted(impossible, 'item')}"
        return _Fit(nothing, np.zeros(n), families, reason)
    fit = fit_calibrator(items, mode="scalar")
    (level,) = fit.levels
    temperature = Estimate(
        level.value, level.by_family.low, level.by_family.high, n, fit.families, _METHOD
    )
    if level.at_bound or not level.identified:
        return _Fit(temperature, np.zeros(n), families, level.reason or "a bound holds the fit")
    u = np.full(n, inverse_softplus(level.value))
    likelihood = TemperatureLikelihood.of_items(items)
    _, slope = likelihood.nll_and_slope(u)
    information = float(likelihood.curvature(u).sum())
    # dT/du = sigmoid(u) = 1 - exp(-T)
    of_log = -math.expm1(-level.value) / level.value
    return _Fit(temperature, -slope * of_log / information, families, None)


def _ratio(a: _Fit, b: _Fit) -> Estimate:
    names = np.concatenate([a.families, b.families]).astype(np.str_)
    _, codes = np.unique(names, return_inverse=True)
    parts = np.bincount(codes, np.concatenate([a.influence, -b.influence]))
    clusters, n = len(parts), len(a.influence) + len(b.influence)
    value = a.temperature.value / b.temperature.value
    if clusters < 2:
        reason = ClusterText("one {cluster}: no interval")
        return Estimate(value, _NAN, _NAN, n, clusters, _METHOD, reason)
    error = math.sqrt(clusters / (clusters - 1) * float((parts**2).sum()))
    reach = math.exp(t_quantile(0.975, clusters - 1) * error)
    return Estimate(value, value / reach, value * reach, n, clusters, _METHOD)
