"""Recorded probabilities: check that they are a distribution, and bound what rounding removed.

Servers and logs round to two decimals. Then each probability p stands for an interval of width
10^-d, a distribution of n answers may miss the sum of 1 by n/2 * 10^-d, and a probability of 0.00
means "less than 0.005": its log is not minus infinity but unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval._choices import Decoding
from pact_eval._typing import FloatArray
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Rounding

FEWEST_DECIMALS: Final = 2
MOST_DECIMALS: Final = 6
"""Probabilities that are exact at 2 to 6 decimals are rounded."""

_EXACT: Final = 1e-9
_SAME: Final = 1e-11  # more than what tells a tie from the answer of a log
SUM_TOLERANCE: Final = 1e-3
"""A sum of probabilities may miss 1 by this, whatever their rounding."""


def decimals(values: Iterable[float]) -> int | None:
    """Return to how many decimals numbers are rounded, 2 to 6; None if they are not.

    Examples:
        >>> decimals([0.25, 0.75]), decimals([0.125, 0.875]), decimals([1 / 3, 2 / 3])
        (2, 3, None)
        >>> decimals([1.0, 1e-46, 0.0])
    """
    array = np.fromiter(values, dtype=np.float64)
    for digits in range(FEWEST_DECIMALS, MOST_DECIMALS + 1):
        # Only a difference of the last bits: a value between two decimals was not rounded.
        if (np.abs(array - np.round(array, digits)) <= _SAME * array).all():
            return digits
    return None


def rounding_unit(values: Sequence[float]) -> float:
    """Return the last decimal of one distribution, such as 0.01; 0.0 if it is not rounded."""
    # For one distribution, numpy takes longer than Python.
    for digits in range(FEWEST_DECIMALS, MOST_DECIMALS + 1):
        if all(abs(value - round(value, digits)) <= _SAME * value for value in values):
            return 10.0**-digits
    return 0.0


def log_probabilities_of(
    values: Sequence[float], tolerance: float = SUM_TOLERANCE
) -> tuple[float, ...]:
    """Return the logs of probabilities, after checking that they are a distribution.

    Args:
        values: (C,) probabilities.
        tolerance: how far their sum may be from 1, if not by rounding.

    Raises:
        ValueError: a value is not in [0, 1], or the sum is not 1 within rounding.

    Examples:
        >>> log_probabilities_of([1.0, 0.0])
        (0.0, -inf)
        >>> log_probabilities_of([0.33, 0.33, 0.33])[0] == math.log(0.33)
        True
        >>> try:
        ...     log_probabilities_of([0.7, 0.7])
        ... except ValueError as error:
        ...     print(error)
        probabilities: expected a sum of 1, got 1.4
    """
    if not all(0.0 <= value <= 1.0 + _EXACT for value in values):
        text = ", ".join(f"{value:.6g}" for value in values[:8])
        message = f"probabilities: expected values from 0 to 1, got {text}"
        raise ValueError(message)
    total = math.fsum(values)
    rounded = 0.5 * rounding_unit(values) * len(values) + _EXACT
    if not abs(total - 1.0) <= max(rounded, tolerance):
        message = f"probabilities: expected a sum of 1, got {total:.6g}"
        raise ValueError(message)
    return tuple(math.log(value) if value > 0.0 else -math.inf for value in values)


def mass_of_log_probabilities(values: Sequence[float], tolerance: float = SUM_TOLERANCE) -> float:
    """Return the probability of disjoint tokens or letters, at most 1 but for rounding.

    Args:
        values: their log-probabilities.
        tolerance: how far the sum may exceed 1 by rounding.

    Raises:
        ValueError: a value is above 0, or the sum is above 1.

    Examples:
        >>> round(mass_of_log_probabilities([math.log(0.25), math.log(0.5)]), 9)
        0.75
    """
    if values and max(values) > tolerance:
        message = f"log-probabilities: expected values of at most 0, got {max(values):.6g}"
        raise ValueError(message)
    mass = math.fsum(math.exp(value) for value in values)
    if mass > 1.0 + tolerance:
        message = f"log-probabilities: expected probabilities that sum to at most 1, got {mass:.6g}"
        raise ValueError(message)
    return mass


def with_censored_zeros(
    logits: npt.NDArray[np.float64], digits: int
) -> tuple[npt.NDArray[np.float64], bool]:
    """Return the log-probabilities of one view with a finite value for probabilities of 0.00.

    The zeros of a view share half a unit of the last decimal, the most that each of them can be. So
    other probabilities change by less than their rounding, the ensemble of several views is
    defined, and `exp` of a value below half a unit still says that the server sent 0.00.

    Args:
        logits: (C,) log-probabilities as sent.
        digits: decimals to which the server rounds.

    Returns:
        The values, and whether there were zeros.

    Examples:
        >>> values, censored = with_censored_zeros(np.log([0.99, 0.01]), 2)
        >>> censored
        False
        >>> values, censored = with_censored_zeros(np.array([0.0, -np.inf]), 2)
        >>> np.exp(values).round(4).tolist(), censored
        ([1.0, 0.005], True)
    """
    zeros = np.isneginf(logits)
    count = int(zeros.sum())
    if not count:
        return logits, False
    return np.where(zeros, math.log(0.5 * 10.0**-digits / count), logits), True


def sent_decimals(logits: pl.Series) -> int | None:
    """Return to how many decimals a server rounds; None if it does not, or nothing shows it.

    Values of 0 and 1 alone do not show that they are rounded.

    Args:
        logits: lists of logs of the probabilities that it has sent.

    Examples:
        >>> sent_decimals(pl.Series([[math.log(0.75), math.log(0.25)], [0.0, -math.inf]]))
        2
    """
    sent = np.exp(logits.explode(empty_as_null=False).drop_nulls().to_numpy())
    return decimals(sent) if ((sent > 0) & (sent < 1)).any() else None


def with_rounding(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rounding | None]:
    """Give rows whose probabilities are rounded finite values for probabilities of 0.00.

    Args:
        rows: rows of a run whose logits are the logs of recorded probabilities.

    Returns:
        The rows, and how the values are rounded; None if they are not.
    """
    digits = sent_decimals(rows["logits"])
    if digits is None:
        return rows, None
    lists, zeros = [], 0
    for logits in rows["logits"]:
        values, censored = with_censored_zeros(logits.to_numpy(), digits)
        lists.append(values.tolist())
        zeros += censored
    kept = rows.with_columns(logits=pl.Series(lists, dtype=pl.List(pl.Float64())))
    return kept, Rounding(digits, zeros)


# Two neighbouring values, such as 0.81 and 0.82, were different before they were rounded.
_OPEN = 1 - 1e-9


def recorded_bounds(
    predictions: Predictions, decoding: Decoding, decimals: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest probability that each recorded one stands for.

    Args:
        predictions: the views; logits are logs of the recorded probabilities.
        decoding: single or ensemble.
        decimals: to how many decimals they were rounded; None if they were not.

    Returns:
        Two arrays (n, K, C), of view 0 alone under the single decoding; unused slots are 0.
    """
    views = 1 if decoding == "single" else predictions.k
    low = np.minimum(np.exp(predictions.logits[:, :views]), 1.0)
    high = low
    if decimals is not None:
        half = 0.5 * 10.0**-decimals
        sent = np.where(low <= half * (1 + 1e-9), 0.0, low)
        used = np.arange(sent.shape[2]) < predictions.n_choices[:, None, None]
        low = np.where(used, np.maximum(sent - half * _OPEN, 0.0), 0.0)
        high = np.where(used, np.minimum(sent + half * _OPEN, 1.0), 0.0)
    if predictions.censored is not None:
        low = np.where(predictions.censored[:, :views], 0.0, low)
    return low, high


def censored_references(predictions: Predictions, decoding: Decoding, decimals: int | None) -> int:
    """Count the items whose correct answer can have had a probability of 0 in a view.

    It was rounded to 0, or the log did not list it; see `recorded_bounds`.
    """
    low, high = recorded_bounds(predictions, decoding, decimals)
    rows = np.arange(len(predictions))
    least, most = (bounds[rows, :, predictions.reference] for bounds in (low, high))
    return int(((least == 0) & (most > 0)).any(axis=1).sum())
