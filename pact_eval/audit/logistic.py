"""Logistic regression on sparse rows, and folds that keep groups together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pact_eval._typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    import scipy.sparse as sp

_MOST_STEPS: Final = 200
_SLOPE_AT_END: Final = 1e-3


def fit_logistic(matrix: sp.csr_array[np.float32], label: BoolArray) -> FloatArray:
    """Return the weights of a logistic regression with a penalty of half their sum of squares.

    They minimise sum_i -log p(label_i) + |w|^2 / 2 over w and an intercept, which is not penalised
    (scikit-learn's `LogisticRegression` with C = 1). L-BFGS ends if no slope of the mean exceeds
    0.001: the last digits of the weights do not matter here.

    Args:
        matrix: (n, d) rows.
        label: (n,) of the rows.

    Returns:
        (d,) weights, without the intercept.

    Examples:
        >>> from scipy.sparse import csr_array
        >>> rows = csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
        >>> fit_logistic(rows, np.array([True, True, False, False])).round(1)
        array([ 0.7, -0.7])
    """
    from scipy import optimize, special

    sign, columns = np.where(label, 1.0, -1.0), matrix.T

    def loss_and_slopes(point: FloatArray) -> tuple[float, FloatArray]:
        weights = point[:-1]
        margin = sign * (matrix @ weights.astype(np.float32) + point[-1])
        pull = -sign * special.expit(-margin)
        slopes = np.append(columns @ pull.astype(np.float32) + weights, pull.sum())
        loss = weights @ weights / 2 - special.log_expit(margin).sum()
        return loss / len(label), slopes / len(label)

    fit = optimize.minimize(
        loss_and_slopes,
        np.zeros(matrix.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "gtol": _SLOPE_AT_END, "ftol": 1e-14},
    )
    return np.asarray(fit.x[:-1], dtype=np.float64)


def group_folds(group: IntArray, n_folds: int) -> IntArray:
    """Return the fold of each row: the largest group first, into the fold with the fewest rows.

    Args:
        group: (n,) group of each row, from 0.
        n_folds: number of folds; at most that of groups.

    Examples:
        >>> group_folds(np.array([0, 0, 0, 1, 1, 2]), 2)
        array([0, 0, 0, 1, 1, 1])
    """
    sizes = np.bincount(group)
    fold_of, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(n_folds, dtype=np.int64)
    for each in np.argsort(sizes, kind="stable")[::-1]:
        fold_of[each] = filled.argmin()
        filled[fold_of[each]] += sizes[each]
    folds: IntArray = fold_of[group]
    return folds
