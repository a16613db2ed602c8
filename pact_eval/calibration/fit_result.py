"""What a fit says about itself, as a result and as the `fit` section of a calibrator file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pact_eval._json import Json
from pact_eval.calibration.calibrators import KINDS, Calibrator, TemperatureSummary
from pact_eval.calibration.items import CalibrationItems
from pact_eval.calibration.parameters import Parameter

__all__ = ["CalibratorFit", "fit_as_json"]


@dataclass(frozen=True, eq=False)
class CalibratorFit:
    """A fitted calibrator, and how far to trust it.

    Attributes:
        calibrator: what was fitted; its `fit` says all that follows, for the file.
        parameters: its weights, with standard errors, and which the data identify.
        levels: its temperature, one for each kind, or that at the geometric mean of C and L.
        condition_number: of the information scaled to a diagonal of 1, without any ridge; NaN
            where a bound holds everything.
        nll_before: mean NLL of the items in nats, uncalibrated.
        nll_after: the same, calibrated; never above `nll_before`.
        temperature: mean and range of the items' temperatures.
        items: number of items.
        families: number of families.
        ridge: strength of the ridge on the slopes.
        improved: whether the NLL fell; where it did not, T = 1 was kept.
        converged: whether the search ended where the gradient vanishes but for the bounds.
        at_bound: names of the parameters that a bound holds.
        notes: what a reader must know, in sentences.
    """

    calibrator: Calibrator
    parameters: tuple[Parameter, ...]
    levels: tuple[Parameter, ...]
    condition_number: float
    nll_before: float
    nll_after: float
    temperature: TemperatureSummary
    items: int
    families: int
    ridge: float
    improved: bool
    converged: bool
    at_bound: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def unidentified(self) -> tuple[Parameter, ...]:
        """The parameters that the data do not determine; each has its `reason`."""
        return tuple(parameter for parameter in self.parameters if not parameter.identified)


def fit_as_json(fit: CalibratorFit, items: CalibrationItems) -> dict[str, Json]:
    """Return the `fit` section of a calibrator file; what is NaN or infinite is null there.

    Args:
        fit: the result of a fit.
        items: what it was fitted on. Their families and source families are listed, so that a later
            run that shares some can be refused.
    """
    lengths = items.prompt_tokens[~np.isnan(items.prompt_tokens)]
    section = {
        "decoding": items.decoding,
        "items": fit.items,
        "kinds": {kind: int((items.kind == kind).sum()) for kind in KINDS},
        "n_choices": _range(items.n_choices),
        "prompt_tokens": _range(lengths),
        "ridge": fit.ridge,
        "improved": fit.improved,
        "converged": fit.converged,
        "at_bound": list(fit.at_bound),
        "nll_nats": {"before": fit.nll_before, "after": fit.nll_after},
        "temperature": asdict(fit.temperature),
        "condition_number": fit.condition_number,
        "parameters": [asdict(parameter) for parameter in fit.parameters],
        "levels": [asdict(level) for level in fit.levels],
        "notes": list(fit.notes),
        "families": sorted(set(items.family.tolist()) - {""}),
        "source_families": sorted(set(items.source_family.tolist()) - {""}),
    }
    return {name: _finite(value) for name, value in section.items()}


def _range(values: np.ndarray[Any, Any]) -> list[float] | None:
    return [int(values.min()), int(values.max())] if values.size else None


def _finite(value: Any) -> Json:
    """Return the value with null for every number that JSON does not know."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    result: Json = value
    return result
