"""From logits to probabilities: the single-view decoding and the ensemble of K views.

Every function works in float64, masks unused answer slots with -inf, and keeps a used slot of
-inf (an imported probability of 0) as it is. An item that is left without any possible answer
has no distribution: that is refused, since a NaN row would spoil every aggregate downstream.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray, IntArray
from pact_eval.metrics._arrays import check_whole, rows_of


def _check_logits(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    """Return float64 logits with every unused slot set to -inf."""
    z = np.asarray(logits, dtype=np.float64)
    choices = check_whole("n_choices", n_choices)
    if z.ndim < 2 or choices.shape != z.shape[:1]:
        raise ValueError(
            f"expected logits (n, ..., C) and n_choices (n,), got {z.shape} and {choices.shape}"
        )
    outside = (choices < 1) | (choices > z.shape[-1])
    if outside.any():
        raise ValueError(
            f"n_choices: expected 1..{z.shape[-1]}, got {choices[outside][0]} in {rows_of(outside)}"
        )
    used = np.arange(z.shape[-1]) < choices.reshape(-1, *[1] * (z.ndim - 1))
    return np.where(used, z, -np.inf)


def normalise(z: FloatArray, impossible: str, rows: IntArray | None = None) -> FloatArray:
    """Return log softmax over the last axis of logits without padding.

    Args:
        z: (n, ..., C) logits; any memory layout, which the result keeps.
        impossible: what it means that all logits of a row are -inf.
        rows: (n,) numbers of the rows in messages; None for 0..n-1.

    Raises:
        ValueError: A logit is NaN or +inf, or all logits of a row are -inf.
    """
    largest = z.max(axis=-1, keepdims=True)
    undefined = ~np.isfinite(largest[..., 0])
    if undefined.any():
        empty = np.isneginf(largest[..., 0])
        wrong = undefined & ~empty
        if wrong.any():
            value = largest[..., 0][wrong][0]
            where = rows_of(wrong, rows)
            raise ValueError(f"logits: expected numbers below +inf, got {value} in {where}")
        raise ValueError(f"{impossible}: {rows_of(empty, rows)}")
    below: FloatArray = z - largest
    below -= np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return below


ALL_IMPOSSIBLE = "logits: every answer is -inf, which leaves none possible"
NONE_LEFT = "ensemble undefined: each answer has probability 0 in some view, so none is left"


def _check_temperature(temperature: npt.ArrayLike | None, n: int) -> FloatArray:
    if temperature is None:
        return np.ones(n)
    scale = np.asarray(temperature, dtype=np.float64)
    if scale.shape != (n,):
        raise ValueError(f"temperature: expected shape ({n},), got {scale.shape}")
    bad = ~((scale > 0) & np.isfinite(scale))
    if bad.any():
        raise ValueError(
            f"temperature: expected finite numbers above 0, got {scale[bad][0]} in {rows_of(bad)}"
        )
    return scale


def _check_views(logits: npt.ArrayLike) -> npt.NDArray[Any]:
    # Not converted to float64 yet: one view of many may be all that is needed.
    z: npt.NDArray[Any] = np.asarray(logits)
    if z.ndim != 3 or z.shape[1] == 0:
        raise ValueError(f"logits: expected shape (n, K, C) with K >= 1, got {z.shape}")
    return z


def log_softmax(logits: npt.ArrayLike, n_choices: npt.ArrayLike) -> FloatArray:
    r"""Normalise logits over the answers an item has.

    .. math:: \log p_j = z_j - \log \sum_{i < C} e^{z_i}

    Args:
        logits: (n, ..., C_max) logits in canonical order; what unused slots hold is ignored.
        n_choices: (n,) number of answers of each item, in 1..C_max.

    Returns:
        (n, ..., C_max) log-probabilities in nats, in [-inf, 0]; unused slots are -inf.

    Raises:
        ValueError: Shapes do not fit, a used logit is NaN or +inf, or every used logit of a row
            is -inf.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import log_softmax
        >>> np.exp(log_softmax([[0.0, 0.0, 9.0], [0.0, 0.0, 0.0]], [2, 3])).round(3)
        array([[0.5  , 0.5  , 0.   ],
               [0.333, 0.333, 0.333]])
    """
    z = _check_logits(logits, n_choices)
    return normalise(z, ALL_IMPOSSIBLE)


def decode_single(
    logits: npt.ArrayLike, n_choices: npt.ArrayLike, temperature: npt.ArrayLike | None = None
) -> FloatArray:
    r"""Decode view 0, the canonical order of the codes: p = softmax(z_0 / T).

    Args:
        logits: (n, K, C_max) logits in canonical order, K >= 1; only view 0 is read.
        n_choices: (n,) number of answers of each item.
        temperature: (n,) positive temperature of each item; none means 1 (raw).

    Returns:
        (n, C_max) log-probabilities in nats; unused slots are -inf.

    Raises:
        ValueError: As `log_softmax`; or a temperature is not a finite number above 0.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import decode_single
        >>> views = np.log([[[0.9, 0.1], [0.5, 0.5]]])
        >>> np.exp(decode_single(views, [2])).round(3)
        array([[0.9, 0.1]])
        >>> np.exp(decode_single(views, [2], temperature=[2.0])).round(3)
        array([[0.75, 0.25]])
    """
    z = _check_views(logits)
    scale = _check_temperature(temperature, len(z))
    return log_softmax(z[:, 0] / scale[:, None], n_choices)


def decode_ensemble(
    logits: npt.ArrayLike, n_choices: npt.ArrayLike, temperature: npt.ArrayLike | None = None
) -> FloatArray:
    r"""Decode the K views together: mean log-probability, renormalised.

    .. math:: p_j \propto \exp\Big(\frac1K \sum_k \log \mathrm{softmax}(z_k / T)_j\Big)

    Args:
        logits: (n, K, C_max) logits in canonical order, K >= 1.
        n_choices: (n,) number of answers of each item.
        temperature: (n,) positive temperature of each item, applied before each view's softmax;
            none means 1 (raw).

    Returns:
        (n, C_max) log-probabilities in nats; unused slots are -inf. An answer that one view
        gives probability 0 has probability 0.

    Raises:
        ValueError: As `decode_single`; or the views of an item leave no answer possible, each
            being given probability 0 by some view. Decode such items from a single view.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import decode_ensemble
        >>> np.exp(decode_ensemble(np.log([[[0.9, 0.1], [0.5, 0.5]]]), [2])).round(3)
        array([[0.75, 0.25]])
    """
    z = _check_views(logits)
    scale = _check_temperature(temperature, len(z))
    by_view = log_softmax(z / scale[:, None, None], n_choices)
    return normalise(by_view.mean(axis=1), NONE_LEFT)
