"""Pair accuracy of very many items: 8 bytes an item, one sort, and no table of families."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pact_eval.metrics._arrays import check_correct

__all__ = ["PairTotals", "pair_keys", "pair_totals"]

UIntArray = npt.NDArray[np.uint64]

_RIGHT, _BASE = np.uint64(1), np.uint64(2)


@dataclass(frozen=True)
class PairTotals:
    """The complete pairs among some items.

    Attributes:
        pairs: families of exactly one base and one counterfactual.
        both_right: pairs with both members right.
        incomplete_families: families that are no complete pair.
    """

    pairs: int
    both_right: int
    incomplete_families: int

    @property
    def accuracy(self) -> float:
        """Share of complete pairs with both members right; NaN without a pair."""
        return self.both_right / self.pairs if self.pairs else float("nan")


def pair_keys(family_hash: UIntArray, is_base: npt.ArrayLike, correct: npt.ArrayLike) -> UIntArray:
    """Packs family, variant and outcome of each item into one integer.

    The upper 62 bits of the hash stand for the family. The chance that any two of F families share
    them is below F^2 / 2^63: one in 300,000 for five million families.

    Args:
        family_hash: (n,) 64-bit hashes of the family labels.
        is_base: (n,) bool: base, or else counterfactual.
        correct: (n,) bool.

    Returns:
        (n,) keys; those of parts of the data are put together before they are counted.

    Raises:
        ValueError: The shapes differ, or `is_base` or `correct` is not bool.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import pair_keys, pair_totals
        >>> hashes = np.array([1, 1, 2, 2], dtype=np.uint64) << 32
        >>> keys = pair_keys(hashes, [True, False, True, False], [True, True, True, False])
        >>> pair_totals(keys)
        PairTotals(pairs=2, both_right=1, incomplete_families=0)
    """
    hashes = np.asarray(family_hash)
    if hashes.ndim != 1 or hashes.dtype != np.uint64:
        raise ValueError(f"family_hash: expected uint64 (n,), got {hashes.dtype} {hashes.shape}")
    base, right = check_correct(is_base, hashes.shape), check_correct(correct, hashes.shape)
    family = hashes & ~(_RIGHT | _BASE)
    return np.asarray(family | base * _BASE | right * _RIGHT, dtype=np.uint64)


def pair_totals(keys: npt.ArrayLike) -> PairTotals:
    """Counts the complete pairs among packed items, and those with both members right.

    Args:
        keys: (n,) from `pair_keys`, in any order.

    Returns:
        The counts; all 0 without items.

    Raises:
        ValueError: `keys` is not one-dimensional, or is of another dtype than uint64.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import pair_keys, pair_totals
        >>> lonely = pair_keys(np.array([4], dtype=np.uint64), [True], [True])
        >>> pair_totals(lonely).incomplete_families
        1
    """
    packed = np.asarray(keys)
    if packed.ndim != 1 or (packed.dtype != np.uint64 and packed.size):
        raise ValueError(f"keys: expected uint64 (n,), got {packed.dtype} of {packed.shape}")
    ranked = np.sort(packed)
    left, right = ranked[:-1], ranked[1:]
    # Keys that differ in the two lowest bits at most are of one family.
    together = left ^ right <= (_RIGHT | _BASE)
    families = ranked.size - int(together.sum())
    two = together.copy()
    two[1:] &= ~together[:-1]
    two[:-1] &= ~together[1:]
    # Within a family keys sort by variant: a counterfactual comes before a base.
    complete = two & (left & _BASE == 0) & (right & _BASE != 0)
    pairs = int(complete.sum())
    return PairTotals(
        pairs=pairs,
        both_right=int((complete & (left & right & _RIGHT != 0)).sum()),
        incomplete_families=families - pairs,
    )
