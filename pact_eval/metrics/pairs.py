"""Contrastive pairs: families whose base and counterfactual are judged together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.metrics._arrays import check_correct, check_whole, item_mean

# Rows whose pairs are sought at a time: memory that is touched first takes longer than the search.
_BLOCK_ROWS = 2**18


@dataclass(frozen=True, eq=False)
class PairIndex:
    """The rows of the complete pairs, and the families that are none.

    Attributes:
        base: (P,) row of the base of each pair.
        counterfactual: (P,) row of its counterfactual.
        rows: Number of rows that were indexed.
        incomplete_families: Families that are not exactly one base and one counterfactual.
    """

    base: IntArray
    counterfactual: IntArray
    rows: int
    incomplete_families: int

    def __len__(self) -> int:
        """Return the number of complete pairs."""
        return self.base.size


def pair_rows(family: npt.ArrayLike, variant_is_base: npt.ArrayLike) -> PairIndex:
    """Find the families that are exactly one base and one counterfactual.

    Args:
        family: (n,) labels of any sortable dtype (integer codes are fastest).
        variant_is_base: (n,) bool: base, or else counterfactual.

    Returns:
        The rows of each complete pair, in the order of the sorted labels, and a count of the
        families left out.

    Raises:
        ValueError: The shapes differ, or `variant_is_base` is not bool.

    Examples:
        >>> from pact_eval.metrics import pair_rows
        >>> pairs = pair_rows(["f2", "f1", "f1", "f3"], [True, False, True, False])
        >>> pairs.base, pairs.counterfactual, pairs.incomplete_families
        (array([2]), array([1]), 2)
    """
    labels: npt.NDArray[Any] = np.asarray(family)
    if labels.ndim != 1:
        raise ValueError(f"family: expected shape (n,), got {labels.shape}")
    is_base: npt.NDArray[Any] = np.asarray(variant_is_base)
    if is_base.shape != labels.shape or (is_base.dtype != np.bool_ and is_base.size):
        raise ValueError(
            f"variant_is_base: expected bool of shape {labels.shape}, got {is_base.dtype} "
            f"of shape {is_base.shape}"
        )
    names, code = np.unique(labels, return_inverse=True)
    return pairs_of_codes(code, is_base.astype(np.bool_, copy=False), names.size)


def pairs_of_codes(
    family: npt.NDArray[np.integer], is_base: BoolArray, n_families: int
) -> PairIndex:
    """Find the complete pairs as `pair_rows` does, without sorting.

    Args:
        family: (n,) family codes in 0..n_families-1.
        is_base: (n,) base, or else counterfactual.
        n_families: Number of families.

    Examples:
        >>> import numpy as np
        >>> from pact_eval.metrics import pairs_of_codes
        >>> pairs_of_codes(np.array([1, 0, 0]), np.array([True, False, True]), 2).base
        array([2])
    """
    repeated = np.zeros(n_families, dtype=np.bool_)
    row = np.full((2, n_families), -1, dtype=np.int64)
    for start in range(0, family.size, _BLOCK_ROWS):
        block = is_base[start : start + _BLOCK_ROWS]
        for at, variant in enumerate((block, ~block)):
            rows = start + np.flatnonzero(variant)
            members = family.take(rows)
            before = members[row[at, members] >= 0]
            row[at, members] = rows
            within = members[row[at, members] != rows]
            repeated[before] = True
            repeated[within] = True
    complete = (row >= 0).all(axis=0) & ~repeated
    base, counterfactual = row if complete.all() else row[:, complete]
    return PairIndex(
        base=base,
        counterfactual=counterfactual,
        rows=family.size,
        incomplete_families=n_families - int(complete.sum()),
    )


def pair_correct(pairs: PairIndex, correct: npt.ArrayLike) -> BoolArray:
    """Say for each pair whether both members are right.

    Args:
        pairs: The complete pairs, from `pair_rows`.
        correct: (n,) bool for all rows that were indexed.

    Returns:
        (P,) bool; its mean is the pair accuracy.

    Raises:
        ValueError: `correct` is not bool or does not have one value per row.

    Examples:
        >>> from pact_eval.metrics import pair_correct, pair_rows
        >>> pair_correct(pair_rows([7, 7, 8, 8], [True, False] * 2), [True, True, True, False])
        array([ True, False])
    """
    right = check_correct(correct, (pairs.rows,))
    return right[pairs.base] & right[pairs.counterfactual]


def pair_accuracy(pairs: PairIndex, correct: npt.ArrayLike) -> float:
    """Return the share of complete pairs with both members right.

    Args:
        pairs: The complete pairs, from `pair_rows`.
        correct: (n,) bool for all rows that were indexed.

    Returns:
        A fraction in [0, 1], higher is better; NaN if there is no complete pair.

    Raises:
        ValueError: `correct` is not bool or does not have one value per row.

    Examples:
        >>> from pact_eval.metrics import pair_accuracy, pair_rows
        >>> pair_accuracy(pair_rows([7, 7, 8, 8], [True, False] * 2), [True, True, True, False])
        0.5
    """
    return item_mean(pair_correct(pairs, correct))


def lead_nats(
    log_probs: npt.ArrayLike, reference: npt.ArrayLike, other: npt.ArrayLike
) -> FloatArray:
    """Return the log-odds of the reference against the reference of the other pair member.

    The offset of a softmax cancels, so logits and log-probabilities give the same.

    Args:
        log_probs: (n, C) canonical log-probabilities or logits.
        reference: (n,) canonical index of the right answer.
        other: (n,) that of the other member of its pair; -1 without one.

    Returns:
        (n,) nats. NaN without another member, or if its right answer is the same, or none of this
        item's answers, or as impossible as the reference (both -inf); infinite if one of the two
        is impossible.

    Raises:
        ValueError: The shapes differ.

    Examples:
        >>> from pact_eval.metrics import lead_nats
        >>> lead_nats([[1.5, 0.0], [0.0, 2.0], [0.0, 2.0]], [0, 1, 1], [1, 0, -1]).tolist()
        [1.5, 2.0, nan]
    """
    z = np.asarray(log_probs, dtype=np.float64)
    y, opposite = check_whole("reference", reference), check_whole("other", other)
    if z.ndim != 2 or not y.shape == opposite.shape == z.shape[:1]:
        raise ValueError(
            f"expected log_probs (n, C), reference (n,) and other (n,), got {z.shape}, {y.shape} "
            f"and {opposite.shape}"
        )
    compared = (opposite >= 0) & (opposite < z.shape[1]) & (opposite != y)
    rows = np.arange(y.size)
    with np.errstate(invalid="ignore"):
        if compared.all():
            return np.asarray(z[rows, y] - z[rows, opposite])
        lead = np.full(y.shape, np.nan)
        rows = rows[compared]
        lead[rows] = z[rows, y[rows]] - z[rows, opposite[rows]]
    return lead


def pair_margin_nats(pairs: PairIndex, lead: npt.ArrayLike) -> FloatArray:
    """Return the margin of each pair: the difference in differences of the paper's equation (1).

        d(x_a, x_b) = [z_ya(x_a) - z_yb(x_a)] + [z_yb(x_b) - z_ya(x_b)]

    It is 0 for a model that ignores the edited fact, whatever answer it prefers, because an offset
    that both members share cancels. The training term `L_CF` is softplus(m - d).

    Args:
        pairs: The complete pairs, from `pair_rows`.
        lead: (n,) `lead_nats` of all rows that were indexed.

    Returns:
        (P,) nats, any sign, higher is better; NaN or infinite where a lead is.

    Raises:
        ValueError: `lead` does not have one value per row.

    Examples:
        >>> from pact_eval.metrics import pair_margin_nats, pair_rows
        >>> pair_margin_nats(pair_rows([7, 7], [True, False]), [1.5, 2.0]).tolist()
        [3.5]
    """
    leads = np.asarray(lead, dtype=np.float64)
    if leads.shape != (pairs.rows,):
        raise ValueError(f"lead: expected shape ({pairs.rows},), got {leads.shape}")
    with np.errstate(invalid="ignore"):
        return np.asarray(leads[pairs.base] + leads[pairs.counterfactual])


@dataclass(frozen=True)
class PairOutcomes:
    """Numbers of complete pairs by outcome.

    The first four add up to the number of pairs; `same_answer` cuts across them.

    Attributes:
        both_right: Base and counterfactual right.
        only_base: Only the base right.
        only_counterfactual: Only the counterfactual right.
        neither: Both wrong.
        same_answer: Both members got the same answer, right or not. Where the two references
            differ, as a contrast has it, such a model did not see the change. None if it is only
            known which answers are right.
        incomplete_families: Families left out because they are not complete pairs.
    """

    both_right: int
    only_base: int
    only_counterfactual: int
    neither: int
    same_answer: int | None
    incomplete_families: int

    @property
    def total(self) -> int:
        """Number of pairs."""
        return self.both_right + self.only_base + self.only_counterfactual + self.neither


def pair_outcomes(
    pairs: PairIndex, predicted: npt.ArrayLike, reference: npt.ArrayLike
) -> PairOutcomes:
    """Count the ways in which pairs come out.

    The members of a pair share one schema, so equal canonical indices are equal answers.

    Args:
        pairs: The complete pairs, from `pair_rows`.
        predicted: (n,) canonical index of the predicted answer, for all rows indexed.
        reference: (n,) canonical index of the right answer.

    Returns:
        The counts; all 0 if there is no complete pair.

    Raises:
        ValueError: An array does not have one integer per row.

    Examples:
        >>> from pact_eval.metrics import pair_outcomes, pair_rows
        >>> pairs = pair_rows([7, 7, 8, 8], [True, False] * 2)
        >>> outcomes = pair_outcomes(pairs, [0, 1, 0, 0], [0, 1, 0, 1])
        >>> outcomes.both_right, outcomes.only_base, outcomes.same_answer
        (1, 1, 1)
    """
    answer, y = check_whole("predicted", predicted), check_whole("reference", reference)
    if not answer.shape == y.shape == (pairs.rows,):
        raise ValueError(
            f"expected predicted and reference of shape ({pairs.rows},), got {answer.shape} "
            f"and {y.shape}"
        )
    base, other = (answer == y)[pairs.base], (answer == y)[pairs.counterfactual]
    return PairOutcomes(
        both_right=int((base & other).sum()),
        only_base=int((base & ~other).sum()),
        only_counterfactual=int((~base & other).sum()),
        neither=int((~base & ~other).sum()),
        same_answer=int((answer[pairs.base] == answer[pairs.counterfactual]).sum()),
        incomplete_families=pairs.incomplete_families,
    )
