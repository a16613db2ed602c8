"""Contexts that are nearly the same: pairs whose TF-IDF vectors have a large cosine.

Every pair of contexts whose cosine reaches a threshold, by prefix filtering.

Each vector is split into its rare n-grams, the prefix, and the rest (Bayardo, Ma and Srikant 2007).
The rest is shorter than the threshold by a margin. So if two vectors reach the threshold, the
product of their prefixes is at least the margin. Products of sparse matrices, block by block, find
these pairs. Of those that the lengths of the rests do not rule out, the cosines are computed.

Copies of one template would need quadratic time. Of contexts that are equal to the last character,
only those of two families of a file are therefore compared with later ones. And once a context has
`CROWD` near duplicates in a file, it is compared only with those of the file that have fewer.
"""

from __future__ import annotations

import functools
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval.audit.findings import Collector
from pact_eval.audit.parts import work_on_parts
from pact_eval.data.diff import word_diff
from pact_eval.data.index import Index
from pact_eval.data.processes import in_threads
from pact_eval.data.records import context_text, folded
from pact_eval.progress import Step, step, tracked

if TYPE_CHECKING:
    from scipy import sparse


Rows = npt.NDArray[np.intp]
Values = npt.NDArray[np.float32]
_Chunk = tuple[Rows, npt.NDArray[np.int32], npt.NDArray[np.uint16]]
"""Of some contexts: the numbers of their n-grams, the n-grams, and how often each occurs."""

Matrix: TypeAlias = "sparse.csr_array[np.float32, tuple[int, int]]"

_GRAM: Final = 5
_BUCKET_BITS: Final = 22
_BUCKETS: Final = 1 << _BUCKET_BITS
_MULTIPLIERS: Final = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)
_CHUNK_ROWS: Final = 2_500
_CHUNK_CHARACTERS: Final = 4_000_000
_LEVELS: Final = 64


class ContextVectors:
    """The TF-IDF vectors of the contexts of an index, which is read once.

    The counts are in a temporary file of 6 bytes per context and different n-gram of it.

    Args:
        index: the dataset.
        family: the family of each record, as a number from 0.

    Attributes:
        is_empty: whether a context has no text; its vector is 0.

    Raises:
        InputError: a file has changed since the index was built.
    """

    def __init__(self, index: Index, family: npt.NDArray[np.integer[Any]]) -> None:
        frequency = np.zeros(_BUCKETS, dtype=np.int64)
        last, first = np.zeros((2, _BUCKETS), dtype=np.int32)  # family of an n-gram, from each end
        n_families = int(family.max(initial=-1)) + 1
        family = family.astype(np.int32)  # as `last` and `first`: numpy is fast then
        lengths = [np.zeros(0, dtype=np.int64)]
        with tempfile.TemporaryFile() as grams_file, tempfile.TemporaryFile() as counts_file:
            start = 0
            for _, chunks in work_on_parts(_grams_of_part, index.in_slices(_CHUNK_ROWS)):
                for n_grams, grams, counts in chunks:
                    families = family[start : start + len(n_grams)].repeat(n_grams)
                    np.add.at(frequency, grams, 1)
                    np.maximum.at(last, grams, families + 1)
                    np.maximum.at(first, grams, n_families - families)
                    lengths.append(n_grams)
                    grams.tofile(grams_file)
                    counts.tofile(counts_file)
                    start += len(n_grams)
            self._grams = _map_file(grams_file, np.int32)
            self._counts = _map_file(counts_file, np.uint16)
        self._lengths = np.concatenate(lengths)
        self._ends = self._lengths.cumsum()
        self.is_empty = self._lengths == 0
        used = np.flatnonzero(frequency)
        self._column = np.zeros(_BUCKETS, dtype=np.int32)
        self._column[used] = np.arange(len(used))
        idf = np.log((1 + len(index)) / (1 + frequency[used])) + 1
        self._idf = idf.astype(np.float32)
        self._level = _levels(frequency[used], last[used] + first[used] > n_families + 1)

    def __len__(self) -> int:
        """Number of contexts."""
        return len(self._lengths)

    def rows(self, rows: Rows) -> Matrix:
        """Return the unit vectors of some contexts."""
        from scipy import sparse

        lengths = self._lengths[rows]
        ends = np.concatenate([[0], lengths.cumsum()])
        place = np.arange(ends[-1]) + np.repeat(self._ends[rows] - ends[1:], lengths)
        columns = self._column[self._grams[place]]
        values = self._counts[place].astype(np.float32) * self._idf[columns]
        some = lengths > 0
        squares = np.add.reduceat(values**2, ends[:-1][some], dtype=np.float64)
        values /= np.repeat(np.sqrt(squares).astype(np.float32), lengths[some])
        return sparse.csr_array((values, columns, ends), shape=(len(rows), len(self._idf)))

    def prefixes(self, threshold: float, least_rest: float) -> Prefixes:
        """Return the rare n-grams of each vector, without those that only one family has.

        Two vectors share no more than the product of the lengths of what is left out of them. So
        the more the longest rest at a level lacks of 1, the sooner a prefix may end.

        Args:
            threshold: a vector is empty if its n-grams of several families are shorter than this.
            least_rest: above the lower cut of two vectors, the product of the lengths of their
                other n-grams is smaller than this.
        """
        from scipy import sparse

        starts = range(0, max(1, len(self)), _CHUNK_ROWS)
        weighed = in_threads(functools.partial(self._weigh, threshold, least_rest), starts)
        weighed_parts = tracked(weighed, "Weighing n-grams", "parts", total=len(starts), counts=15)
        parts, cuts, rests = zip(*weighed_parts, strict=True)
        cut, rest = np.concatenate(cuts), np.concatenate(rests)
        longest = rest.max(axis=0, initial=0)
        cut = np.minimum(cut, (rest * longest >= least_rest).sum(axis=1))
        cut_of_parts = np.split(cut, np.cumsum([len(cut_rows) for cut_rows in cuts])[:-1])
        short = [self._up_to(part, own) for part, own in zip(parts, cut_of_parts, strict=True)]
        return Prefixes(sparse.vstack(short, format="csr"), cut, rest)

    def _weigh(
        self, threshold: float, least_rest: float, start: int
    ) -> tuple[Matrix, Rows, Values]:
        """Return the prefixes of a chunk, cut as if other vectors had no others, and their rests.

        The rests are the lengths of the n-grams above each level, from level 0.
        """
        unit = self.rows(np.arange(start, min(start + _CHUNK_ROWS, len(self))))
        n = unit.shape[0]
        place = np.repeat(np.arange(n) * (_LEVELS + 1), np.diff(unit.indptr))
        place += self._level[unit.indices]
        squares = np.bincount(place, unit.data.astype(np.float64) ** 2, n * (_LEVELS + 1))
        squares = squares.reshape(n, _LEVELS + 1)
        squares[:, 0] = 0
        rest = np.sqrt(squares[:, ::-1].cumsum(axis=1)[:, ::-1])[:, 1:]
        cut = (rest >= least_rest).sum(axis=1)
        cut[rest[:, 0] < threshold] = 0
        return self._up_to(unit, cut), cut, np.pad(rest, ((0, 0), (0, 1))).astype(np.float32)

    def _up_to(self, matrix: Matrix, cut: Rows) -> Matrix:
        """Return the n-grams of each vector from level 1 to its cut."""
        from scipy import sparse

        level = self._level[matrix.indices]
        row = np.repeat(np.arange(len(cut)), np.diff(matrix.indptr))
        kept = (level > 0) & (level <= cut[row])
        ends = np.concatenate([[0], np.bincount(row[kept], minlength=len(cut)).cumsum()])
        return sparse.csr_array((matrix.data[kept], matrix.indices[kept], ends), matrix.shape)


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Vectors without their frequent n-grams, which may be shared by several families.

    Attributes:
        matrix: the vectors, of n-grams up to a level of frequency.
        cut: this level.
        rest: length of the n-grams above each level, from level 0.
    """

    matrix: Matrix
    cut: Rows
    rest: Values

    def largest_cosines(self, row: Rows, other: Rows, product: Values) -> Values:
        """Return upper bounds of cosines, given the products of the prefixes.

        These are the products of all n-grams up to the lower of two cuts. The other n-grams of two
        vectors have at most the product of their lengths, by the inequality of Cauchy and Schwarz.
        """
        level = np.minimum(self.cut[row], self.cut[other])
        return product + self.rest[row, level] * self.rest[other, level]


def _grams_of_part(part: Index) -> list[_Chunk]:
    """Return the n-grams of the contexts of a part, chunk by chunk."""
    chunks = []
    for texts in _texts_of(part):
        row, grams, counts = _count_grams(texts)
        n_grams = np.bincount(row, minlength=len(texts))
        least = np.minimum(counts, 65_535).astype(np.uint16)
        chunks.append((n_grams, grams.astype(np.int32), least))
    return chunks


def _texts_of(part: Index) -> Iterator[list[str]]:
    """Yield the folded texts of some contexts, in their order."""
    texts: list[str] = []
    characters = 0
    for state in part.states():
        texts.append(folded(context_text(state)))
        characters += len(texts[-1])
        if characters > _CHUNK_CHARACTERS:
            yield texts
            texts, characters = [], 0
    if texts:
        yield texts


def _count_grams(texts: list[str]) -> tuple[Rows, Rows, Rows]:
    """Return (text, hashed n-gram, count) of the n-grams of some texts, ascending.

    >>> row, _, count = _count_grams(["abcdeabcde", "", "abc"])
    >>> row.tolist(), sorted(count.tolist())
    ([0, 0, 0, 0, 0, 2], [1, 1, 1, 1, 1, 2])
    """
    padded = [text.ljust(_GRAM, "\0") if text else "" for text in texts]
    points = np.frombuffer("".join(padded).encode("utf-32-le"), dtype=np.uint32)
    row = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
    n = max(len(points) - _GRAM + 1, 0)
    mixed = points[:n]
    for place in range(1, _GRAM):
        mixed = mixed * _MULTIPLIERS[0] + points[place : place + n]
    mixed = (mixed ^ (mixed >> np.uint32(15))) * _MULTIPLIERS[1]
    inside = row[:n] == row[len(row) - n :]  # first and last character are of one text
    hashed = mixed[inside] >> np.uint32(32 - _BUCKET_BITS)
    keys = np.sort((row[:n][inside] << _BUCKET_BITS) | hashed.astype(np.int64))
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, counts = keys[starts], np.diff(starts, append=len(keys))
    return keys >> _BUCKET_BITS, keys & (_BUCKETS - 1), counts


def _levels(frequency: npt.NDArray[np.int64], shared: npt.NDArray[np.bool_]) -> Rows:
    """Return levels of n-grams from rare, 1, to frequent, 64, about equally large; 0 if not shared.

    >>> _levels(np.array([9, 1, 2, 9]), np.array([True, False, True, True])).tolist()
    [7, 0, 1, 36]
    """
    order = np.flatnonzero(shared)
    order = order[frequency[order].argsort(kind="stable")]
    before = frequency[order].cumsum() - frequency[order]
    level = np.zeros(len(frequency), dtype=np.intp)
    level[order] = 1 + before * _LEVELS // frequency[order].sum()
    return level


def _map_file(file: IO[bytes], dtype: Any) -> npt.NDArray[Any]:
    """Return the numbers in a temporary file without reading them into memory."""
    file.flush()
    if not file.tell():  # an empty file cannot be mapped
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(file, dtype=dtype, mode="r"))


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
        for pairs, row, other in _work_on_products(
            near, prefixes, rows, others, self._least, compared
        ):
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
        maxima = [*_work_on_products(of_block, shared, rows, rows, 0, compared)]
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


def _work_on_products(
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


_MOST_ROWS_OF_ALL_PAIRS: Final = 2_500


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Result of the search for near duplicates.

    Attributes:
        contexts: contexts that were compared, one a record.
        without_text: contexts that hold no text and were left out.
        threshold: cosine from which two contexts are near duplicates.
        exact: whether the nearest near duplicate of each context is known. Every context that has
            one is reported in any case. But if a context has 50 or more of them in one file, a
            nearer one than the named one may exist.
        largest_across: largest cosine between two files. NaN if there is none: in a dataset of more
            than 2,500 records, if none reaches the threshold.
        largest_within: likewise, between two families of one file.
    """

    contexts: int
    without_text: int
    threshold: float
    exact: bool
    largest_across: float
    largest_within: float

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        largest = {"across files": self.largest_across, "within": self.largest_within}
        nearest = [f"{where} {x:.2f}" for where, x in largest.items() if not math.isnan(x)]
        if not nearest:
            return f"no pair near {self.threshold:g}"
        limit = "" if self.exact else "; of 50 or more alike in a file not all pairs are compared"
        return f"largest cosine {', '.join(nearest)}, threshold {self.threshold:g}{limit}"


def add_near_duplicates(
    index: Index, findings: Collector, *, threshold: float
) -> tuple[NearDuplicates, Pairs]:
    """Find contexts that are nearly the same, of two files or of two families of one file.

    Adds `near-duplicate`, one finding for two families of different files, at the record of the
    later file: for each of its records, the nearest one of each earlier file. Adds
    `near-duplicate-within`, one finding per family that has a neighbour in its own file, the
    nearest.
    The left side of a comparison is the neighbour. Members of one family are near by design and
    never compared, nor are equal contexts of two files, which are `shared-context`.

    Args:
        index: the dataset; its records are read once again.
        findings: collector of the check "separation".
        threshold: least cosine of near duplicates, in (0, 1].

    Returns:
        The largest cosines and whether the nearest neighbours are known; and, for each record with
        near duplicates in earlier files, the nearest one of each of these files.

    Raises:
        ValueError: the threshold is out of its range.
        InputError: a file has changed since the index was built.

    Examples:
        >>> import pact_fixtures
        >>> from pathlib import Path
        >>> from pact_eval.data.index import index_of_records
        >>> from pact_eval.data.files import DataFile
        >>> path = Path(pact_fixtures.__file__).parent / "data" / "holdout.jsonl"
        >>> index = index_of_records([DataFile("holdout.jsonl", "eval", path)])
        >>> near, across = add_near_duplicates(index, Collector("separation", 5), threshold=0.8)
        >>> near.contexts, near.exact, round(near.largest_within, 2), len(across.row)
        (324, True, 0.51, 0)
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"expected a threshold in (0, 1], got {threshold}")
    groups = Groups(
        index.frame["file"].to_numpy().astype(np.intp),
        index.frame["family"].rank("dense").to_numpy().astype(np.intp) - 1,
        index.frame["context"].to_numpy(),
    )
    with step("Near duplicates", total=100):
        with step("Counting n-grams", counts=25):
            vectors = ContextVectors(index, groups.family)
        near, exact = near_pairs(vectors, groups, threshold)
    across = _report(index, groups, near, findings)
    n_empty = int(vectors.is_empty.sum())
    largest = []
    for is_across in (True, False):
        chosen = near.take((groups.file[near.row] != groups.file[near.other]) == is_across)
        cosine = float(np.fmax.reduce(chosen.cosine, initial=math.nan))
        if math.isnan(cosine) and len(index) <= _MOST_ROWS_OF_ALL_PAIRS:
            cosine = largest_cosine(vectors, groups, across=is_across)
        largest.append(cosine)
    return NearDuplicates(len(index) - n_empty, n_empty, threshold, exact, *largest), across


def _report(index: Index, groups: Groups, near: Pairs, findings: Collector) -> Pairs:
    """Add one finding per pair of families of two files, one per family within a file.

    Returns:
        Of each record, its nearest duplicate in each earlier file.
    """
    file, family = groups.file, groups.family
    is_across = file[near.row] != file[near.other]
    across, within = near.take(is_across), near.take(~is_across)
    across = across.nearest(across.row, file[across.other])
    row, other = across.row, across.other
    families = across.nearest(file[row], family[row], file[other], family[other])
    row, other = np.append(within.row, within.other), np.append(within.other, within.row)
    within = Pairs(row, other, np.tile(within.cosine, 2)).nearest(file[row], family[row])
    add_pairs(findings, "near-duplicate", "a context unlike those of other files", index, families)
    add_pairs(findings, "near-duplicate-within", "contexts that differ", index, within)
    return across


def add_pairs(findings: Collector, code: str, expected: str, index: Index, pairs: Pairs) -> None:
    """Add a finding per pair, in the order of the records; read the full text of each again.

    Args:
        findings: collects them.
        code: their code.
        expected: what a sound dataset has instead.
        index: the dataset; the pairs are rows of it.
        pairs: contexts, each with its neighbour.
    """
    pairs = pairs.take(np.lexsort((pairs.other, pairs.row)))
    for left, right, cosine in zip(
        pairs.other.tolist(), pairs.row.tolist(), pairs.cosine.tolist(), strict=True
    ):
        comparison = None
        if findings.wants(code):
            texts = [context_text(located.record.state) for located in index.read([left, right])]
            comparison = word_diff(*texts)
        actual = f"cosine {cosine:.2f} to {index.place(left)}"
        findings.add(code, index.place(right), expected, actual, comparison)
