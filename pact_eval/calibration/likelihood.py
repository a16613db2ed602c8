r"""The likelihood of temperatures, with its first and second derivatives.

With s = z - max z, beta = 1 / T and p = softmax(beta z), an item costs

    NLL = log sum_j e^(beta s_j) - beta s_y                        (never overflows: s <= 0)
    dNLL/dbeta = E_p[s] - s_y          d2NLL/dbeta2 = Var_p[s]

and T = softplus(u) with u linear in the parameters, T' = sigmoid(u) = q, T'' = q (1 - q), so that

    dbeta/du = -q / T^2                d2beta/du2 = 2 q^2 / T^3 - q (1 - q) / T^2

The NLL is convex in beta, hence has one minimum in u where all items share one T; over slopes it
need not be convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from pact_eval.calibration.calibrators import TEMPERATURE_FLOOR, softplus
from pact_eval.calibration.items import CalibrationItems
from pact_eval.errors import InputError
from pact_eval.metrics import TIE, rows_of

__all__ = ["TemperatureLikelihood"]

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TemperatureLikelihood:
    """NLL of n items as a function of u, where T = max(softplus(u), 0.001).

    Attributes:
        shifted: (n, C) logits less their maximum; -inf in slots without probability.
        finite: (n, C) the same with 0 for -inf, for products with probabilities of 0.
        of_reference: (n,) shifted logit of the right answer, finite.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.calibration.likelihood import TemperatureLikelihood
        >>> terms = TemperatureLikelihood.of(np.log([[0.9, 0.1]]), np.array([0]))
        >>> nll, slope = terms.nll_and_slope(np.array([0.5413248546129181]))
        >>> bool(np.isclose(nll[0], -np.log(0.9)))
        True
    """

    shifted: FloatArray
    finite: FloatArray
    of_reference: FloatArray

    @classmethod
    def of(cls, log_probs: FloatArray, reference: npt.NDArray[np.int64]) -> TemperatureLikelihood:
        """Prepare log-probabilities (n, C), unused slots -inf, and references (n,).

        Raises:
            InputError: a right answer has probability 0, so that the NLL is infinite at every T.
        """
        shifted = log_probs - log_probs.max(axis=1, keepdims=True)
        of_reference = shifted[np.arange(len(reference)), reference]
        impossible = np.isneginf(of_reference)
        if impossible.any():
            raise InputError(
                f"the right answer has probability 0 in {rows_of(impossible)}: its NLL is infinite "
                "at every temperature, and without such items the fit would be too confident; "
                "bring probabilities with more digits, or logits"
            )
        finite = np.where(np.isneginf(shifted), 0.0, shifted)
        return cls(shifted, finite, of_reference)

    @classmethod
    def of_items(cls, items: CalibrationItems) -> TemperatureLikelihood:
        """Prepare items; see `of`."""
        return cls.of(items.log_probs, items.reference)

    def nll_and_slope(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return NLL in nats and dNLL/du, each (n,); the slope is 0 where T is held at the floor.

        Args:
            u: (n,) as in T = softplus(u).
        """
        temperature = np.maximum(softplus(u), TEMPERATURE_FLOOR)
        beta = 1.0 / temperature
        weights = np.exp(self.shifted * beta[:, None])
        total = weights.sum(axis=1)
        nll = np.log(total) - beta * self.of_reference
        mean = np.einsum("ij,ij->i", weights, self.finite) / total
        return nll, (mean - self.of_reference) * _beta_slope(u, temperature)

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return d2NLL/du2, (n,); 0 where T is held at the floor."""
        temperature = np.maximum(softplus(u), TEMPERATURE_FLOOR)
        p = np.exp(self.shifted / temperature[:, None])
        p /= p.sum(axis=1, keepdims=True)
        mean = np.einsum("ij,ij->i", p, self.finite)
        variance = np.einsum("ij,ij->i", p, np.square(self.finite - mean[:, None]))
        q = special.expit(u)
        bend = 2 * q**2 / temperature**3 - q * (1 - q) / temperature**2
        bend[temperature <= TEMPERATURE_FLOOR] = 0.0
        first = _beta_slope(u, temperature)
        return np.asarray(variance * first**2 + (mean - self.of_reference) * bend)

    def separated(self, rows: npt.NDArray[np.bool_]) -> bool:
        """Say whether the NLL of these rows falls for ever as T falls towards 0.

        So it is where every right answer is the most probable one and is not merely tied with all
        the others everywhere.
        """
        right = bool((self.of_reference[rows] >= -TIE).all())
        return right and bool((self.finite[rows] < -TIE).any())


def _beta_slope(u: FloatArray, temperature: FloatArray) -> FloatArray:
    slope = -special.expit(u) / temperature**2
    slope[temperature <= TEMPERATURE_FLOOR] = 0.0
    return np.asarray(slope)
