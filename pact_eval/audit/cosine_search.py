"""Every pair of contexts whose cosine reaches a threshold, by prefix filtering.

Each vector is split into its rare n-grams, the prefix, and the rest (Bayardo, Ma and Srikant 2007).
The rest is shorter than the threshold by a margin. So if two vectors reach the threshold, the
product of their prefixes is at least the margin. Products of sparse matrices, block by block, find
these pairs. Of those that the lengths of the rests do not rule out, the cosines are computed.

Copies of one template would need quadratic time. Of contexts that are equal to the last character,
only those of two families of a file are therefore compared with later ones. And once a context has
`CROWD` near duplicates in a file, it is compared only with those of the file that have fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval.audit.context_vectors import ContextVectors, Matrix, Rows, Values
from pact_eval.data.processes import in_threads
from pact_eval.progress import Step, step

CROWD: Final = 50
"""Near duplicates in one file from which a context is no longer compared with all others."""

_MARGIN: Final = 0.05  # of the threshold; more of it gives longer products of fewer pairs
_ROUNDING: Final = 1e-5  # of sums of 32 bits
_FIRST_PIECE: Final = 1_000  # contexts that others are compared with; then twice as many, ...
_LAST_PIECE: Final = 16_000
_BLOCK_ROWS: Final = 1_024
_BATCH_PAIRS: Final = 512

Flags = npt.NDArray[np.bool_]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Groups:
    """File, state and family of contexts, one number per context.

    Attributes:
        file: its file, ascending.
        family: its family.
        state: equal for equal contexts.
    """

    file: Rows
    family: Rows
    state: npt.NDArray[np.uint64]

    def comparable(self, row: Rows, other: Rows) -> Flags:
        """Tell which pairs are of two families, and not equal contexts of two files."""
        comparable: Flags = self.file[row] == self.file[other]
        comparable |= self.state[row] != self.state[other]
        comparable &= self.family[row] != self.family[other]
        return comparable

    def representatives(self) -> Flags:
        """Tell which contexts are not equal to those of two other families earlier in the file."""
        order = np.lexsort((self.family, self.state, self.file))
        first = order[ranks(self.file[order], self.state[order], self.family[order]) == 0]
        first = first[np.lexsort((first, self.state[first], self.file[first]))]
        chosen = np.zeros(len(order), dtype=np.bool_)
        chosen[first[ranks(self.file[first], self.state[first]) < 2]] = True
        return chosen


@dataclass(frozen=True, slots=True)
class Pairs:
    """Contexts, a neighbour of each, and their cosines. The neighbour is the earlier context."""

    row: Rows
    other: Rows
    cosine: Values

    def take(self, chosen: Rows | Flags) -> Pairs:
        """Return some of the pairs."""
        return Pairs(self.row[chosen], self.other[chosen], self.cosine[chosen])

    def nearest(self, *keys: npt.NDArray[Any]) -> Pairs:
        """Return the nearest pair of each combination of keys."""
        minor: tuple[npt.NDArray[Any], ...] = (self.other, self.row, -self.cosine)
        order = np.lexsort(minor + keys)
        return self.take(order[ranks(*(key[order] for key in keys)) == 0])


def ranks(*keys: npt.NDArray[Any]) -> Rows:
    """Count from 0 within each run of equal keys; the arrays are sorted by them.

    >>> ranks(np.array([5, 5, 7, 7]), np.array([1, 1, 1, 2])).tolist()
    [0, 1, 0, 0]
    """
    place = np.arange(len(keys[0]))
    is_new = np.zeros(len(place), dtype=np.bool_)
    for key in keys:
        is_new[1:] |= key[1:] != key[:-1]
    return place - np.maximum.accumulate(np.where(is_new, place, 0))


def near_pairs(vectors: ContextVectors, groups: Groups, threshold: float) -> tuple[Pairs, bool]:
    """Return the comparable pairs whose cosine reaches a threshold.

    Args:
        vectors: of the contexts.
        groups: what these belong to.
        threshold: above 0.

    Returns:
        The pairs, and whether these are all. Otherwise some context has `CROWD` near duplicates in
        one file, of which at least so many are among the pairs, but a nearer one may be missing.
    """
    search = _Search(vectors, groups, threshold)
    search.run()
    none = np.zeros(0, dtype=np.intp)
    pairs = [Pairs(none, none, none.astype(np.float32)), *search.pairs]
    columns = zip(*((part.row, part.other, part.cosine) for part in pairs), strict=True)
    return Pairs(*map(np.concatenate, columns)), search.is_exact


class _Search:
    """Comparison of the contexts of each file with all that follow, piece by piece."""

    def __init__(self, vectors: ContextVectors, groups: Groups, threshold: float) -> None:
        self.pairs: list[Pairs] = []
        self.is_exact = True
        self._vectors = vectors
        self._groups = groups
        self._threshold = threshold - _ROUNDING
        margin = _MARGIN * threshold
        self._least = margin - _ROUNDING
        self._prefixes = vectors.prefixes(threshold - _ROUNDING, threshold - margin)
        self._n_near = np.zeros(len(vectors), dtype=np.intp)  # in one file

    def run(self) -> None:
        """Find all pairs."""
        n = len(self._vectors)
        starts = np.flatnonzero(ranks(self._groups.file) == 0)
        files = [[*_pieces(start, stop)] for start, stop in pairwise([*starts.tolist(), n])]
        representative = self._groups.representatives() & (self._prefixes.cut > 0)
        n_pairs = sum((stop - start) * (n - start) for file in files for start, stop in file)
        with step("Comparing contexts", n_pairs, "pairs", counts=60) as compared:
            for pieces in files:
                self._n_near[:] = 0
                for start, stop in pieces:
                    before = compared.done
                    piece = start + np.flatnonzero(representative[start:stop])
                    lacks = self._n_near[start:] < CROWD
                    self._compare(start + np.flatnonzero(lacks), piece, compared)
                    others = piece[lacks[piece - start]]
                    end = pieces[-1][1]
                    crowded = start + np.flatnonzero(~lacks[: end - start])
                    self._compare(crowded, others, compared)
                    compared.done = before + (stop - start) * (n - start)
                self.is_exact &= bool((self._n_near < CROWD).all())

    def _compare(self, rows: Rows, others: Rows, compared: Step) -> None:
        """Compare contexts with those of a piece that lie before them."""

        def near(row: Rows, other: Rows, product: Values) -> tuple[Pairs, Rows, Rows]:
            row, other = self._candidates(row, other, product)
            is_likely = ranks(row) < 2 * CROWD
            likely = self._near(row[is_likely], other[is_likely])
            return likely, row[~is_likely], other[~is_likely]

        prefixes = self._prefixes.matrix
        for pairs, row, other in _of_products(near, prefixes, rows, others, self._least, compared):
            self._add(pairs)
            is_open = self._n_near[other] < CROWD
            is_open &= self._groups.file[row] == self._groups.file[other]
            is_open |= self._n_near[row] < CROWD
            self._add(self._near(row[is_open], other[is_open]))

    def _candidates(self, row: Rows, other: Rows, product: Values) -> tuple[Rows, Rows]:
        """Return the comparable pairs that may reach the threshold, the likeliest first by row."""
        upper = self._prefixes.largest_cosines(row, other, product)
        keep = np.flatnonzero((other < row) & (upper >= self._threshold - _ROUNDING))
        keep = keep[self._groups.comparable(row[keep], other[keep])]
        keep = keep[np.lexsort((-product[keep], row[keep]))]
        return row[keep], other[keep]

    def _near(self, row: Rows, other: Rows) -> Pairs:
        """Return the pairs that reach the threshold."""
        pairs = Pairs(row, other, cosines(self._vectors, row, other))
        return pairs.take(pairs.cosine >= self._threshold)

    def _add(self, pairs: Pairs) -> None:
        """Keep and count pairs that reach the threshold."""
        self.pairs.append(pairs)
        within = self._groups.file[pairs.row] == self._groups.file[pairs.other]
        np.add.at(self._n_near, pairs.row, 1)
        np.add.at(self._n_near, pairs.other[within], 1)


def largest_cosine(vectors: ContextVectors, groups: Groups, *, across: bool) -> float:
    """Return the largest cosine of comparable contexts of two files, or of one; else NaN.

    The time is quadratic: 3 seconds for 2,500 contexts.
    """

    def of_block(row: Rows, other: Rows, product: Values) -> float:
        keep = (other < row) & groups.comparable(row, other)
        keep &= (groups.file[row] != groups.file[other]) == across
        if not keep.any():
            return math.nan
        best = np.flatnonzero(keep)[[product[keep].argmax()]]
        return float(cosines(vectors, row[best], other[best])[0])

    shared, rows = vectors.prefixes(0, 0).matrix, np.arange(len(vectors))
    with step("Comparing all contexts", len(rows) ** 2, "pairs") as compared:
        maxima = [*_of_products(of_block, shared, rows, rows, 0, compared)]
    return float(np.fmax.reduce(maxima, initial=math.nan))


def cosines(vectors: ContextVectors, row: Rows, other: Rows) -> Values:
    """Return the cosine of each pair of contexts."""
    values = np.zeros(len(row), dtype=np.float32)
    read, places = np.unique(np.stack([row, other]), return_inverse=True)
    unit = vectors.rows(read)
    for start in range(0, len(row), _BATCH_PAIRS):
        left, right = places[:, start : start + _BATCH_PAIRS]
        values[start : start + _BATCH_PAIRS] = unit[left].multiply(unit[right]).sum(axis=1)
    return np.minimum(values, 1)


def _of_products(
    work: Callable[[Rows, Rows, Values], Result],
    matrix: Matrix,
    rows: Rows,
    others: Rows,
    least: float,
    compared: Step,
) -> Iterator[Result]:
    """Yield what is made of the pairs whose product reaches a value, block by block.

    Args:
        work: makes something of (row, other row, product), in any thread.
        matrix: the vectors.
        rows: of the first vector of each pair.
        others: of the second.
        least: the product; vectors that share no column do not reach it.
        compared: counts pairs as they are multiplied.
    """
    if not len(others):
        return
    transposed = matrix[others].T.tocsr()

    def multiplied(block: Rows) -> Result:
        product = matrix[block] @ transposed
        kept = np.flatnonzero(product.data >= least)
        row = block[np.searchsorted(product.indptr, kept, side="right") - 1]
        return work(row, others[product.indices[kept]], product.data[kept])

    blocks = [rows[start : start + _BLOCK_ROWS] for start in range(0, len(rows), _BLOCK_ROWS)]
    for block, result in zip(blocks, in_threads(multiplied, blocks), strict=True):
        yield result
        compared.done += len(block) * len(others)


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a file: the first are small, and so are their products.

    >>> list(_pieces(10, 3_500))
    [(10, 1010), (1010, 3010), (3010, 3500)]
    """
    size = _FIRST_PIECE
    while start < stop:
        yield start, min(start + size, stop)
        start, size = start + size, min(2 * size, _LAST_PIECE)
