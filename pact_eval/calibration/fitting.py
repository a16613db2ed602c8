"""Fitting a calibrator by NLL, with everything a reader needs to judge the fit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pact_eval.calibration.calibrators import (
    KINDS,
    MODES,
    TEMPERATURE_FLOOR,
    Calibrator,
    Mode,
    TemperatureSummary,
    neutral_calibrator,
)
from pact_eval.calibration.design import SLOPE_BOUND, TEMPERATURE_BOUNDS, Design, make_design
from pact_eval.calibration.fit_result import CalibratorFit, fit_as_json
from pact_eval.calibration.items import CalibrationItems
from pact_eval.calibration.likelihood import TemperatureLikelihood
from pact_eval.calibration.minimise import Minimum, minimise
from pact_eval.calibration.parameters import Parameter, level_parameters, weight_parameters
from pact_eval.calibration.uncertainty import Uncertainty, uncertainty
from pact_eval.errors import InputError
from pact_eval.metrics import item_mean, nll_nats

__all__ = ["fit_calibrator"]

FloatArray: TypeAlias = npt.NDArray[np.float64]

# A gain of NLL below this (nats) is rounding.
_NO_GAIN: Final = 1e-12


def fit_calibrator(items: CalibrationItems, *, mode: Mode, ridge: float = 0.0) -> CalibratorFit:
    r"""Fits temperatures by mean NLL with L-BFGS-B, from T = 1, with analytic gradients.

    .. math:: \min_{a, b, c} \frac1n \sum_i -\log softmax(z_i / T(x_i))_{y_i}

    The level of the temperatures stays within 0.05 to 20, the slopes within -10 to 10. Where all
    right answers already are the most probable ones the NLL falls for ever as T falls: the level is
    put to 0.05, and the fit says so. Where nothing lowers the NLL, T = 1 is kept, and it says so.
    Parameters do not depend on the order of the rows, but for rounding.

    Args:
        items: what to fit on: families that the adapter never saw, and that it is not judged on.
        mode: scalar, per-kind or contextual.
        ridge: strength of the ridge on the contextual slopes, 0 or more: the precision of a normal
            prior around 0 for the change of softplus^-1(T) that one standard deviation of log C or
            of log L makes. 0 is plain maximum likelihood, as published.

    Returns:
        The fit.

    Raises:
        InputError: A right answer has probability 0; a prompt length is unknown and the form is
            contextual; `ridge` is negative.

    References:
        Guo et al., "On calibration of modern neural networks", ICML 2017; the PACT paper, section
        "Contextual temperature".

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration import CalibrationItems, fit_calibrator
        >>> n, names = 40, np.array([f"f{index // 2}" for index in range(40)])
        >>> items = CalibrationItems(
        ...     np.log(np.tile([0.9, 0.1], (n, 1))), (np.arange(n) % 4 == 0).astype(np.int64),
        ...     np.full(n, "boolean"), np.full(n, 2), np.full(n, 300.0), names, names)
        >>> fit = fit_calibrator(items, mode="scalar")  # says 90%, is right in 75%
        >>> round(fit.levels[0].value, 3), round(fit.nll_before, 3), round(fit.nll_after, 3)
        (2.0, 0.655, 0.562)
    """
    _check(mode, ridge)
    likelihood = TemperatureLikelihood.of_items(items)
    design = make_design(items, mode)
    minimum = minimise(likelihood, design, ridge)
    calibrator = design.calibrator(minimum.fitted)
    before = _mean_nll(items, neutral_calibrator())
    improved = _mean_nll(items, calibrator) < before - _NO_GAIN
    if not improved:
        minimum, calibrator = Minimum.free_at(design.start), neutral_calibrator(mode)
    parameters, levels, data = _estimates(items, likelihood, design, minimum, ridge)
    temperature = _temperatures(items, calibrator)
    fit = CalibratorFit(
        calibrator=calibrator,
        parameters=parameters,
        levels=levels,
        condition_number=data.condition_number,
        nll_before=before,
        nll_after=_mean_nll(items, calibrator),
        temperature=TemperatureSummary.of(temperature),
        items=len(items),
        families=data.clusters,
        ridge=ridge,
        improved=improved,
        converged=minimum.converged,
        at_bound=tuple(parameter.name for parameter in parameters if parameter.at_bound),
        notes=_notes(items, design, minimum, temperature, improved=improved),
    )
    return replace(fit, calibrator=calibrator.with_provenance(**fit_as_json(fit, items)))


def _check(mode: Mode, ridge: float) -> None:
    if mode not in MODES:
        raise InputError(f"mode: expected one of {', '.join(MODES)}, got {mode!r}")
    if not (ridge >= 0 and math.isfinite(ridge)):
        raise InputError(f"ridge: expected a finite number, 0 or more, got {ridge}")


def _estimates(
    items: CalibrationItems,
    likelihood: TemperatureLikelihood,
    design: Design,
    minimum: Minimum,
    ridge: float,
) -> tuple[tuple[Parameter, ...], tuple[Parameter, ...], Uncertainty]:
    """Return the weights and the levels as estimates, and what the data alone say of them."""
    fitted, held = minimum.fitted, minimum.held
    cluster = _family_codes(items.family)
    data, penalised = (
        uncertainty(fitted, held, likelihood, design, cluster=cluster, ridge=strength)
        for strength in (0.0, ridge)
    )
    weights = weight_parameters(design, fitted, held, penalised=penalised, data=data)
    levels = level_parameters(design, fitted, held, penalised=penalised, data=data)
    return weights, levels, data


def _family_codes(family: npt.NDArray[np.str_]) -> npt.NDArray[np.int64]:
    """Number the families; each item of unknown family is one of its own."""
    names, codes = np.unique(family, return_inverse=True)
    unknown = np.flatnonzero(family == "")
    codes = codes.astype(np.int64)
    codes[unknown] = len(names) + np.arange(len(unknown))
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _mean_nll(items: CalibrationItems, calibrator: Calibrator) -> float:
    log_probs = calibrator.apply(
        items.log_probs,
        kind=items.kind,
        n_choices=items.n_choices,
        prompt_tokens=items.prompt_tokens,
    )
    return item_mean(nll_nats(log_probs, items.reference))


def _temperatures(items: CalibrationItems, calibrator: Calibrator) -> FloatArray:
    return calibrator.temperatures(items.kind, items.n_choices, items.prompt_tokens)


def _notes(
    items: CalibrationItems,
    design: Design,
    minimum: Minimum,
    temperature: FloatArray,
    *,
    improved: bool,
) -> tuple[str, ...]:
    """Say in sentences what a reader must know before trusting a fit."""
    notes = [_separation(design, minimum)] if minimum.separated.any() else []
    hot = minimum.held & ~design.is_slope & ~minimum.separated & (minimum.fitted > 1)
    if not len(items):
        notes.append("there are no items: T = 1")
    elif not improved:
        notes.append("no temperature lowers the NLL of these items: T = 1 is kept")
    if hot.any():
        notes.append(
            f"T reached its upper bound, {TEMPERATURE_BOUNDS[1]:g}: these probabilities say "
            "no more about the right answer than chance does, or less"
        )
    steep = minimum.held & design.is_slope & (minimum.fitted != 0)
    notes += [
        f"the slope {design.names[j]} ran to its bound, "
        f"{np.sign(minimum.fitted[j]) * SLOPE_BOUND:g}: these items do not determine it"
        for j in np.flatnonzero(steep)
    ]
    if not minimum.converged:
        notes.append("the search ended before the gradient vanished: do not trust the parameters")
    low = int((temperature <= TEMPERATURE_FLOOR).sum())
    if low:
        notes.append(f"items whose temperature is held at {TEMPERATURE_FLOOR:g}: {low:,}")
    absent = [kind for kind in KINDS if not (items.kind == kind).any()]
    if design.mode == "per-kind" and absent and len(items):
        notes.append(f"no items of kind {' or '.join(absent)}: T = 1 there")
    used = np.arange(items.log_probs.shape[1]) < items.n_choices[:, None]
    zeros = int((np.isneginf(items.log_probs) & used).any(axis=1).sum())
    if zeros:
        notes.append(
            f"items with answers of probability 0, which no temperature changes: {zeros:,}"
        )
    return tuple(notes)


def _separation(design: Design, minimum: Minimum) -> str:
    names = [design.names[j].removeprefix("bias_") for j in np.flatnonzero(minimum.separated)]
    which = "" if names == ["bias"] else f" of kind {' and '.join(names)}"
    return (
        f"the model is right on every item{which}, so that the NLL falls for ever as T falls: T is "
        f"put to its lower bound, {TEMPERATURE_BOUNDS[0]:g}, and would make any error on other "
        "data very costly; fit on more items before using it"
    )
