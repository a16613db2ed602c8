"""Finding the temperatures of least NLL within bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import optimize

from pact_eval.calibration.design import Design
from pact_eval.calibration.likelihood import TemperatureLikelihood

__all__ = ["Minimum", "minimise", "penalised_nll"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# In mean NLL per unit of a scaled parameter; curvatures are about 0.01 to 1.
_GRADIENT_TOLERANCE: Final = 1e-10
_CONVERGED: Final = 1e-6
_AT_BOUND: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the NLL is least.

    Attributes:
        fitted: (p,) numbers that go with the columns of the design.
        held: (p,) which of them a bound holds; slopes that go with a separated level are held at 0.
        separated: (p,) which of them were put to a bound because every right answer among their
            items is the most probable one already, so that the NLL falls for ever.
        converged: whether the gradient vanishes but for the bounds.
    """

    fitted: FloatArray
    held: BoolArray
    separated: BoolArray
    converged: bool

    @classmethod
    def free_at(cls, point: FloatArray) -> Minimum:
        """Return a point that no bound holds."""
        nowhere = np.zeros(len(point), dtype=np.bool_)
        return cls(point, nowhere, nowhere, converged=True)


def penalised_nll(
    fitted: FloatArray, likelihood: TemperatureLikelihood, design: Design, ridge: float
) -> tuple[float, FloatArray]:
    r"""Return the mean NLL with its ridge, and the gradient.

    .. math:: \frac1n \Big(\sum_i NLL_i(x_i \theta) + \frac{ridge}2 \sum_{slopes} \theta_j^2\Big)

    Args:
        fitted: (p,) the point theta.
        likelihood: of n items, 1 or more.
        design: its columns x.
        ridge: strength on the scaled slopes: the precision of a normal prior around 0 for the
            change of u that one standard deviation of log C or log L makes.
    """
    n = len(design.matrix)
    # A sum over columns, not a matrix product: its rounding depends on no other row.
    u = (design.matrix * fitted).sum(axis=1)
    nll, slope = likelihood.nll_and_slope(u)
    pull = np.where(design.is_slope, ridge * fitted, 0.0)
    value = float(nll.sum()) + 0.5 * float(pull @ fitted)
    return value / n, (design.matrix.T @ slope + pull) / n


def minimise(
    likelihood: TemperatureLikelihood,
    design: Design,
    ridge: float = 0.0,
    start: FloatArray | None = None,
) -> Minimum:
    """Minimise the NLL by L-BFGS-B from T = 1, within the bounds of the design.

    Slopes start at the best level without slopes, so that more freedom never costs NLL.

    Args:
        likelihood: of n items.
        design: the columns of those items.
        ridge: see `penalised_nll`.
        start: (p,) where to start instead, such as the fit with another ridge.
    """
    bounds, slope = design.bounds, design.is_slope
    if not len(design.matrix):
        return Minimum.free_at(design.start)
    separated = _separated(likelihood, design)
    box = bounds.copy()
    box[separated, 1] = box[separated, 0]
    if separated[0]:
        box[slope] = 0.0
    level = box.copy()
    level[slope] = 0.0
    if start is None:
        start = _search(design.start, likelihood, design, 0.0, level)
    fitted = _search(start, likelihood, design, ridge, box)
    _, gradient = penalised_nll(fitted, likelihood, design, ridge)
    downhill = np.clip(fitted - gradient, box[:, 0], box[:, 1]) - fitted
    near = np.abs(fitted[:, None] - bounds).min(axis=1) <= _AT_BOUND
    return Minimum(
        fitted,
        held=near | (separated[0] & slope),
        separated=separated,
        converged=bool(np.abs(downhill).max() < _CONVERGED),
    )


def _separated(likelihood: TemperatureLikelihood, design: Design) -> BoolArray:
    columns = [
        not slope and likelihood.separated(column != 0)
        for column, slope in zip(design.matrix.T, design.is_slope, strict=True)
    ]
    return np.array(columns, dtype=np.bool_)


def _search(
    start: FloatArray,
    likelihood: TemperatureLikelihood,
    design: Design,
    ridge: float,
    bounds: FloatArray,
) -> FloatArray:
    result = optimize.minimize(
        penalised_nll,
        np.clip(start, bounds[:, 0], bounds[:, 1]),
        args=(likelihood, design, ridge),
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(bounds[:, 0], bounds[:, 1]),
        options={"gtol": _GRADIENT_TOLERANCE, "ftol": 1e-15, "maxiter": 500},
    )
    return np.asarray(result.x, dtype=np.float64)
