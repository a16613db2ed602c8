"""The checks that paired statistics share: two runs on the same items, and the items' clusters."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, IntArray

# Largest label, as a multiple of the number of rows, up to which integers are counted.
_DENSE: Final = 4


def check_outcomes(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike
) -> tuple[BoolArray, BoolArray]:
    """Return both as bool arrays of one shape (n,)."""
    checked = []
    for name, correct in (("correct_a", correct_a), ("correct_b", correct_b)):
        array: npt.NDArray[Any] = np.asarray(correct)
        if array.ndim != 1:
            raise ValueError(f"{name}: expected shape (n,), got {array.shape}")
        if array.dtype != np.bool_ and array.size:
            raise ValueError(f"{name}: expected dtype bool, got {array.dtype}")
        checked.append(array.astype(np.bool_, copy=False))
    if checked[0].size != checked[1].size:
        raise ValueError(
            f"expected the same items in both runs, got {checked[0].size} and {checked[1].size}"
        )
    return checked[0], checked[1]


def check_cluster(cluster: npt.ArrayLike, n_clusters: int, n: int) -> IntArray:
    """Return cluster codes as int64 (n,) after checking that they lie in 0..n_clusters-1."""
    index: npt.NDArray[np.generic] = np.asarray(cluster)
    if index.shape != (n,) or (index.dtype.kind not in "iu" and n):
        raise ValueError(f"cluster: expected integers of shape ({n},), got shape {index.shape}")
    codes = index.astype(np.int64, copy=False)
    if n and not (codes.min() >= 0 and codes.max() < n_clusters):
        raise ValueError(
            f"cluster: expected codes in 0..{n_clusters - 1}, got {codes.min()}..{codes.max()}"
        )
    return codes


def cluster_codes(cluster: npt.ArrayLike, n: int) -> tuple[IntArray, int]:
    """Return labels of any sortable dtype as codes (n,) in 0..F-1, in their order, and F."""
    labels: npt.NDArray[Any] = np.asarray(cluster)
    if labels.shape != (n,):
        raise ValueError(f"cluster: expected shape ({n},), got {labels.shape}")
    if labels.dtype.kind in "iu" and n and labels.min() >= 0 and labels.max() < _DENSE * n:
        # Counting finds the codes of integers without the sort that takes most of the time.
        present = np.bincount(labels.astype(np.int64)) > 0
        return (np.cumsum(present) - 1)[labels], int(present.sum())
    names, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.int64), names.size


def cluster_leads(
    correct_a: npt.ArrayLike, correct_b: npt.ArrayLike, cluster: npt.ArrayLike
) -> tuple[IntArray, IntArray]:
    """Return per cluster by how many right items A leads (below 0: trails), and its items."""
    a, b = check_outcomes(correct_a, correct_b)
    codes, clusters = cluster_codes(cluster, a.size)
    only_a = np.bincount(codes[a & ~b], minlength=clusters)
    only_b = np.bincount(codes[~a & b], minlength=clusters)
    return only_a - only_b, np.bincount(codes, minlength=clusters)
