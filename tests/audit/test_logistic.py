"""Weights and folds of the check of shortcuts, against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold

from pact_eval.audit.shortcuts import fit_logistic, group_folds


@pytest.mark.parametrize("seed", range(4))
def test_weights_against_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((300, 40)) * (rng.random((300, 40)) < 0.2)
    label = rows @ rng.normal(size=40) + rng.logistic(size=300) > rng.normal()
    matrix = csr_array(rows.astype(np.float32))
    expected = LogisticRegression(tol=1e-3, max_iter=200).fit(matrix, label).coef_[0]
    np.testing.assert_allclose(fit_logistic(matrix, label), expected, atol=2e-3)


@pytest.mark.parametrize("seed", range(20))
def test_folds_against_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, group = np.unique(rng.integers(rng.integers(5, 40), size=200), return_inverse=True)
    expected = GroupKFold(5).split(group, groups=group)
    folds = group_folds(group, 5)
    for fold, (_, rows) in enumerate(expected):
        assert np.flatnonzero(folds == fold).tolist() == rows.tolist()


def test_one_label_alone_moves_no_weight_far() -> None:
    """With one label, the intercept alone explains everything; scikit-learn refuses this."""
    matrix = csr_array(np.eye(5, dtype=np.float32))
    weights = fit_logistic(matrix, np.ones(5, dtype=bool))
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() < 1
