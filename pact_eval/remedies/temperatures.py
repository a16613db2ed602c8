"""Temperatures of remedied distributions: one for all items, fitted by NLL."""

from __future__ import annotations

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.calibration.fitting import minimise
from pact_eval.calibration.likelihood import CalibrationItems, TemperatureLikelihood, make_design
from pact_eval.calibration.temperatures import Calibrator, Weights, inverse_softplus
from pact_eval.runs.predictions import Predictions


def fit_temperature(decoded: Predictions) -> Calibrator | None:
    """Fit one temperature on remedied distributions.

    Args:
        decoded: items with references, as `remedied` returns them; view 0 is fitted.

    Returns:
        A scalar calibrator; None if nothing can be fitted: answers without probabilities, several
        right answers, or a right answer of probability 0.
    """
    if decoded.known != "probabilities" or decoded.accepted is not None:
        return None
    of_right = np.take_along_axis(decoded.logits[:, 0], decoded.reference[:, np.newaxis], axis=1)
    if np.isneginf(of_right).any():
        return None
    items = CalibrationItems.from_predictions(decoded, "single")
    design = make_design(items, "scalar")
    return design.calibrator(minimise(TemperatureLikelihood.of_items(items), design).fitted)


def temperature_of(calibrator: Calibrator) -> float:
    """Return the temperature of a scalar calibrator, above 0.

    Examples:
        >>> round(temperature_of(calibrator_of(2.5)), 12)
        2.5
    """
    return float(calibrator.temperatures(["choice"], [2])[0])


def calibrator_of(temperature: float) -> Calibrator:
    """Return the scalar calibrator of a temperature.

    Raises:
        InputError: it is not a finite number above 0.
    """
    return Calibrator("scalar", Weights((inverse_softplus(temperature),) * 3))


def tempered(decoded: Predictions, calibrator: Calibrator) -> FloatArray:
    """Return the log-probabilities (n, K, C) of remedied distributions at a temperature."""
    return calibrator.apply(decoded.logits, kind=decoded.kind, n_choices=decoded.n_choices)
