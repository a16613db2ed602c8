"""What the temperature of an item may depend on, as columns that a fit can work with.

The logarithms of C and L are centred and scaled to a standard deviation of 1, so that the level of
the temperatures is all but independent of the slopes, and a ridge means the same on both slopes.
`raw` takes the fitted numbers back to a, b and c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from pact_eval.calibration.calibrators import (
    KINDS,
    NEUTRAL_BIAS,
    Calibrator,
    Mode,
    Weights,
    inverse_softplus,
)
from pact_eval.calibration.items import CalibrationItems
from pact_eval.errors import InputError
from pact_eval.metrics import rows_of

__all__ = ["SLOPE_BOUND", "TEMPERATURE_BOUNDS", "Design", "make_design"]

FloatArray: TypeAlias = npt.NDArray[np.float64]

TEMPERATURE_BOUNDS: Final = (0.05, 20.0)
"""A fit keeps the level of the temperatures in this range: the scalar T, the T of each kind, or the
T at the geometric mean of C and L."""

SLOPE_BOUND: Final = 10.0
"""A fit keeps the slopes b and c within plus or minus this."""

_SLOPES: Final = ("log_choices", "log_tokens")
_UNVARIED: Final = {"log_choices": "answers", "log_tokens": "prompt tokens"}


@dataclass(frozen=True, eq=False)
class Design:
    """The columns of a form of calibrator on some items.

    Attributes:
        mode: the form.
        matrix: (n, p) columns: 1 for all items, or for those of one kind; then scaled slopes.
        raw: (p, p) takes the fitted numbers to the parameters called `names`.
        names: (p,) "bias" or "bias_choice", ...; then "log_choices", "log_tokens".
        spans: by slope, max less min of its logarithm over the items.
        unvaried: by slope that is not fitted, why not.
    """

    mode: Mode
    matrix: FloatArray
    raw: FloatArray
    names: tuple[str, ...]
    spans: dict[str, float]
    unvaried: dict[str, str]

    @property
    def is_slope(self) -> npt.NDArray[np.bool_]:
        """Which of the p numbers are slopes."""
        return np.array([name in _SLOPES for name in self.names], dtype=np.bool_)

    @property
    def start(self) -> FloatArray:
        """The fitted numbers at which T = 1 everywhere."""
        return np.where(self.is_slope, 0.0, inverse_softplus(1.0))

    @property
    def bounds(self) -> FloatArray:
        """(p, 2) range of each fitted number."""
        low, high = (inverse_softplus(temperature) for temperature in TEMPERATURE_BOUNDS)
        scale = SLOPE_BOUND / np.diag(self.raw)
        slope = np.column_stack([-scale, scale])
        return np.where(self.is_slope[:, None], slope, [low, high])

    def calibrator(self, fitted: FloatArray) -> Calibrator:
        """Return the calibrator with these fitted numbers; a kind without items keeps T = 1."""
        values = dict(zip(self.names, (self.raw @ fitted).tolist(), strict=True))
        neutral = {
            name: NEUTRAL_BIAS
            for name, number, slope in zip(self.names, fitted, self.is_slope, strict=True)
            if not slope and number == inverse_softplus(1.0) and not fitted[self.is_slope].any()
        }
        values |= neutral
        shared = values.get("bias", NEUTRAL_BIAS)
        bias = tuple(values.get(f"bias_{kind}", shared) for kind in KINDS)
        slopes = (values.get(name, 0.0) for name in _SLOPES)
        return Calibrator(self.mode, Weights((bias[0], bias[1], bias[2]), *slopes))


def make_design(items: CalibrationItems, mode: Mode) -> Design:
    """Build the columns of a form.

    Args:
        items: what it is fitted on.
        mode: the form. Kinds without items, and slopes on what does not vary, get no column.

    Raises:
        InputError: the contextual form, and the prompt length of an item is unknown.
    """
    if mode == "contextual":
        return _contextual(items)
    n = len(items)
    if mode == "scalar":
        return Design(mode, np.ones((n, 1)), np.eye(1), ("bias",), {}, {})
    present = [kind for kind in KINDS if (items.kind == kind).any()]
    matrix = (items.kind[:, None] == np.array(present, dtype=np.str_)).astype(np.float64)
    names = tuple(f"bias_{kind}" for kind in present)
    return Design(mode, matrix.reshape(n, len(present)), np.eye(len(present)), names, {}, {})


def _contextual(items: CalibrationItems) -> Design:
    unknown = np.isnan(items.prompt_tokens)
    if unknown.any():
        raise InputError(
            f"the contextual form needs the prompt length of every item, unknown in "
            f"{rows_of(unknown)}: score the run again, or fit the scalar or per-kind form"
        )
    logs = {
        "log_choices": np.log(items.n_choices.astype(np.float64)),
        "log_tokens": np.log(items.prompt_tokens / 1000.0),
    }
    unvaried = {
        name: f"every item has {_only(values, name)} {_UNVARIED[name]}"
        for name, values in logs.items()
        if len(items) and np.ptp(values) == 0
    }
    if not len(items):
        unvaried = dict.fromkeys(logs, "there are no items")
    varied = [name for name in logs if name not in unvaried]
    spread = [float(logs[name].std()) for name in varied]
    centre = [float(logs[name].mean()) for name in varied]
    columns = [(logs[name] - m) / s for name, m, s in zip(varied, centre, spread, strict=True)]
    raw = np.diag([1.0, *(1.0 / s for s in spread)])
    # a = level - b * mean log C - c * mean log(L / 1000)
    raw[0, 1:] = [-m / s for m, s in zip(centre, spread, strict=True)]
    spans = {name: float(np.ptp(logs[name])) for name in varied}
    matrix = np.column_stack([np.ones(len(items)), *columns])
    return Design("contextual", matrix, raw, ("bias", *varied), spans, unvaried)


def _only(values: FloatArray, name: str) -> str:
    number = np.exp(values[0]) * (1000 if name == "log_tokens" else 1)
    return f"{number:,.0f}"
