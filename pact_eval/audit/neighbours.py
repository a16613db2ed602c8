"""Contexts that are nearly the same: neighbours by their character n-grams.

Two contexts are compared by the cosine of the TF-IDF vectors of their character 5-grams, as
scikit-learn's `TfidfVectorizer(analyzer="char", ngram_range=(5, 5))` has them, except that 5-grams
are hashed into 2^22 buckets, all white space is one space, and a shorter text is one n-gram. Only
the pairs that may be near are compared. Up to 20,000 contexts that is exact: a product of sparse
matrices gives what two contexts share of rarer n-grams, and bounds tell whether the common ones can
make them near. In a larger dataset, and where that would cost too much, contexts that share a key
are compared: the keys are bands of MinHash values (Broder 1997) in which n-grams win in proportion
to their squared idf, so two contexts agree about as often as they share TF-IDF energy. Where
many share a key, all are compared with a few of them: copies of one text cost no quadratic time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pact_eval.audit.findings import Collector
from pact_eval.data import Index, context_text, folded, word_diff
from pact_eval.errors import Place

__all__ = ["NearDuplicates", "add_near_duplicates"]

_GRAM: Final = 5
_BUCKET_BITS: Final = 22
_N_BUCKETS: Final = 1 << _BUCKET_BITS

_SAMPLE = 20_000  # contexts that document frequencies are counted on
_MOST_HELD_GRAMS = 20_000_000  # of all contexts, for the exact search; 160 MB
_MOST_PRODUCTS = 4e9  # of weights in the exact search, which computes half of them
_MOST_COSINES = 500_000  # in the exact search; five seconds
_MOST_COMMON_ONLY = 300  # contexts with few rarer n-grams, which are all compared with each other

_N_BINS: Final = 256  # MinHash values of a context
_ROUNDS: Final = 4  # in which they are drawn: in each, many n-grams fall into a bin
_REPRESENTATIVES: Final = 8  # contexts of a file that stand for all with the same key
_MARGIN: Final = 0.2  # of the estimate: six standard errors, since repeated n-grams weigh more
_MOST_CANDIDATES: Final = 4  # neighbours of a context in a file of which cosines are computed
_MOST_LIKELY_PAIRS = 300_000  # likewise in all; one neighbour of a context in a file may exceed it

_CHUNK_ROWS: Final = 2_500  # contexts, or pairs of them, that are read at once
_BLOCK_ROWS: Final = 64
_BATCH_PAIRS: Final = 512
_ROUNDING: Final = 1e-5  # of sums of 32 bits
_MULTIPLIERS: Final = np.uint32(0x9E3779B1), np.uint32(0x85EBCA6B)

_Rows = npt.NDArray[np.intp]
_Flags = npt.NDArray[np.bool_]
_Grams = npt.NDArray[np.int32]
_Counts = npt.NDArray[np.int64]
_Values = npt.NDArray[np.float32]
_Sketches = npt.NDArray[np.uint16]
_Matrix = sparse.csr_array[np.float32, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """How contexts were compared, and how near the nearest are.

    Attributes:
        contexts: contexts that were compared, one a record.
        without_text: contexts that hold no text and were left out.
        threshold: cosine from which two contexts are near duplicates.
        exact: whether no near duplicate can have been missed; False if likely pairs were
            compared only.
        cosines: cosines that were computed.
        largest_across: largest of them between two files; NaN if there is none. It is the largest
            of all up to about 10,000 contexts; of more, few below the threshold are computed.
        largest_within: likewise, between two families of one file.
    """

    contexts: int
    without_text: int
    threshold: float
    exact: bool
    cosines: int
    largest_across: float
    largest_within: float


def add_near_duplicates(
    index: Index, findings: Collector, *, threshold: float, rng: np.random.Generator
) -> NearDuplicates:
    """Find contexts that are nearly the same, of two files or of two families of one file.

    Adds `near-duplicate`, one finding for two families of different files, at the record of the
    later file: for each of its records, the nearest one of each earlier file. Adds
    `near-duplicate-within`, one finding per family that has a neighbour in its own file, the
    nearest.
    The left side of a comparison is the neighbour. Members of one family are near by design and
    never compared, nor are equal contexts of two files, which are `shared-context`.

    Args:
        index: the dataset; its records are read again, once where the search is exact.
        findings: collector of the check "separation".
        threshold: least cosine of near duplicates, in (0, 1].
        rng: draws the 20,000 contexts that document frequencies are counted on, if there are more,
            and the MinHash values; not used where the search is exact.

    Returns:
        How contexts were compared, and the largest cosines.

    Raises:
        ValueError: the threshold is out of its range.
        InputError: a file has changed since the index was built.

    Example:
        >>> import pact_fixtures
        >>> from pathlib import Path
        >>> from pact_eval.data.index import index_of_records
        >>> from pact_eval.data.files import DataFile
        >>> path = Path(pact_fixtures.__file__).parent / "data" / "holdout.jsonl"
        >>> index = index_of_records([DataFile("holdout.jsonl", "eval", path)])
        >>> rng = np.random.default_rng(17)
        >>> near = add_near_duplicates(index, Collector("separation", 5), threshold=0.8, rng=rng)
        >>> near.contexts, near.exact, round(near.largest_within, 2)
        (324, True, 0.51)
    """
    if not 0 < threshold <= 1:
        message = f"expected a threshold in (0, 1], got {threshold}"
        raise ValueError(message)
    contexts = _Contexts(index)
    compared = _Compared(contexts, threshold)
    n = len(index)
    sample = np.arange(n) if n <= _SAMPLE else np.sort(rng.choice(n, _SAMPLE, replace=False))
    frequency, counts = contexts.document_frequency(sample, hold=n <= _SAMPLE)
    idf = (np.log((1 + len(sample)) / (1 + frequency)) + 1).astype(np.float32)
    exact = counts is not None and _compare_all(_unit_vectors(counts, idf), frequency, compared)
    if not exact:
        _compare_likely(idf, compared, rng)
    _report(compared, findings)
    n_empty = int(contexts.is_empty.sum())
    across, within = compared.largest["across"], compared.largest["within"]
    return NearDuplicates(n - n_empty, n_empty, threshold, exact, compared.cosines, across, within)


class _Contexts:
    """The contexts of an index: what they belong to, and their n-grams, read when needed."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.file = index.frame["file"].to_numpy()
        self.family = index.frame["family"].rank("dense").to_numpy()
        self.state = index.frame["context"].to_numpy()
        self.is_empty = np.zeros(len(index), dtype=np.bool_)

    def comparable(self, row: _Rows, other: _Rows) -> _Flags:
        """Tell which pairs are of two families and are reported at `row`, not at `other`."""
        reported: _Flags = self.file[other] == self.file[row]
        reported |= (self.file[other] < self.file[row]) & (self.state[other] != self.state[row])
        reported &= self.family[other] != self.family[row]
        return reported

    def grams(self, rows: _Rows) -> Iterator[_Grams]:
        """Yield the hashed n-grams of each context, ascending and with repeats."""
        for row, located in zip(rows, self.index.read(rows.tolist()), strict=True):
            grams = _hashed_grams(context_text(located.record.state))
            self.is_empty[row] = len(grams) == 0
            yield grams

    def counts(self, rows: _Rows) -> _Matrix:
        """Return how often each n-gram (a column) occurs in each context (a row)."""
        grams = [*self.grams(rows), np.zeros(0, dtype=np.int32)]
        ends = np.cumsum([0, *map(len, grams[:-1])])
        indices = np.concatenate(grams)
        ones = np.ones(len(indices), dtype=np.float32)
        counts = sparse.csr_array((ones, indices, ends), shape=(len(rows), _N_BUCKETS))
        counts.sum_duplicates()
        return counts

    def document_frequency(self, rows: _Rows, *, hold: bool) -> tuple[_Counts, _Matrix | None]:
        """Count the contexts that hold each n-gram; return all counts too, if they are few."""
        frequency = np.zeros(_N_BUCKETS, dtype=np.int64)
        held: list[_Matrix] = []
        n_grams = 0
        for start in range(0, len(rows), _CHUNK_ROWS):
            counts = self.counts(rows[start : start + _CHUNK_ROWS])
            frequency += np.bincount(counts.indices, minlength=_N_BUCKETS)
            n_grams += counts.nnz
            hold = hold and n_grams <= _MOST_HELD_GRAMS
            held = [*held, counts] if hold else []
        return frequency, sparse.vstack(held, format="csr") if held else None


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Contexts, a neighbour of each, and their cosines."""

    row: _Rows
    other: _Rows
    cosine: _Values

    def take(self, chosen: _Rows | _Flags) -> _Pairs:
        return _Pairs(self.row[chosen], self.other[chosen], self.cosine[chosen])

    def nearest(self, *keys: npt.NDArray[Any]) -> _Pairs:
        """Return the nearest pair of each combination of keys."""
        minor: tuple[npt.NDArray[Any], ...] = (self.other, self.row, -self.cosine)
        order = np.lexsort(minor + keys)
        return self.take(order[_ranks(*(key[order] for key in keys)) == 0])


class _Compared:
    """Takes in cosines as they are computed, and keeps the pairs at the threshold."""

    def __init__(self, contexts: _Contexts, threshold: float) -> None:
        self.contexts = contexts
        self.threshold = threshold
        self.cosines = 0
        self.largest = {"within": math.nan, "across": math.nan}
        none = np.zeros(0, dtype=np.intp)
        self._near = [_Pairs(none, none, none.astype(np.float32))]

    def add(self, pairs: _Pairs) -> None:
        """Take in the cosines of comparable pairs."""
        across = self.contexts.file[pairs.row] != self.contexts.file[pairs.other]
        for name, chosen in (("within", ~across), ("across", across)):
            cosines = pairs.cosine[chosen]
            self.largest[name] = float(np.fmax.reduce(cosines, initial=self.largest[name]))
        self.cosines += len(pairs.cosine)
        self._near.append(pairs.take(pairs.cosine >= self.threshold - _ROUNDING))

    def near(self) -> _Pairs:
        """Return all near duplicates."""
        columns = zip(*((each.row, each.other, each.cosine) for each in self._near), strict=True)
        return _Pairs(*map(np.concatenate, columns))


def _hashed_grams(text: str) -> _Grams:
    """Return the n-grams of a text as hashes below 2^22, ascending and with repeats."""
    text = folded(text)
    padded = text.ljust(_GRAM, "\0") if text else ""
    points = np.frombuffer(padded.encode("utf-32-le"), dtype=np.uint32)
    n = max(len(points) - _GRAM + 1, 0)
    mixed = points[:n]
    for place in range(1, _GRAM):
        mixed = mixed * _MULTIPLIERS[0] + points[place : place + n]
    mixed = (mixed ^ (mixed >> np.uint32(15))) * _MULTIPLIERS[1]
    return np.sort(mixed >> np.uint32(32 - _BUCKET_BITS)).astype(np.int32)


def _unit_vectors(counts: _Matrix, idf: _Values) -> _Matrix:
    """Turn counts of n-grams, in place, into TF-IDF vectors of length 1 (0 without text)."""
    counts.data *= idf[counts.indices]
    n_grams = np.diff(counts.indptr)
    starts = counts.indptr[:-1][n_grams > 0]
    lengths = np.sqrt(np.add.reduceat(counts.data**2, starts, dtype=np.float64))
    counts.data /= np.repeat(lengths.astype(np.float32), n_grams[n_grams > 0])
    return counts


def _cosines(vectors: _Matrix, row: _Rows, other: _Rows) -> _Values:
    """Return the cosine of each pair of rows of a matrix of unit vectors."""
    cosines = np.zeros(len(row), dtype=np.float32)
    for start in range(0, len(row), _BATCH_PAIRS):
        batch = slice(start, start + _BATCH_PAIRS)
        cosines[batch] = vectors[row[batch]].multiply(vectors[other[batch]]).sum(axis=1)
    return np.minimum(cosines, 1)


def _products(left: _Matrix, right: _Matrix) -> Iterator[tuple[_Rows, _Rows, _Values]]:
    """Yield (row of left, row of right, their product) where it is not 0, block by block."""
    transposed = right.T.tocsr()
    for start in range(0, left.shape[0], _BLOCK_ROWS):
        product = (left[start : start + _BLOCK_ROWS] @ transposed).tocoo()
        yield product.row.astype(np.intp) + start, product.col.astype(np.intp), product.data


def _ranks(*keys: npt.NDArray[Any]) -> _Rows:
    """Count from 0 within each run of equal keys; the arrays are sorted by them.

    >>> _ranks(np.array([5, 5, 7, 7]), np.array([1, 1, 1, 2])).tolist()
    [0, 1, 0, 0]
    """
    place = np.arange(len(keys[0]))
    is_new = np.zeros(len(place), dtype=np.bool_)
    for key in keys:
        is_new[1:] |= key[1:] != key[:-1]
    return place - np.maximum.accumulate(np.where(is_new, place, 0))


def _compare_all(vectors: _Matrix, frequency: _Counts, compared: _Compared) -> bool:
    """Compute every cosine that can reach the threshold; False if that would cost too much.

    A cosine is a sum over rarer n-grams, which a product of sparse matrices gives wherever it is
    not 0, and one over common n-grams, which is at most the product of both contexts' lengths in
    them: without a rarer n-gram in common, only contexts of which these are large can be near.
    """
    n_of = np.bincount(frequency)
    limit = int(np.searchsorted(np.cumsum(n_of * np.arange(len(n_of)) ** 2.0), _MOST_PRODUCTS))
    common = np.sqrt(vectors.power(2) @ (frequency >= limit).astype(np.float32))
    mostly_common = np.flatnonzero(common > 0.7 * compared.threshold)
    if len(mostly_common) > _MOST_COMMON_ONLY:
        return False
    few = vectors[mostly_common]
    for row, other, cosine in _products(few, few):
        if not _compare_near(vectors, compared, mostly_common[row], mostly_common[other], cosine):
            return False
    rare = vectors[:, np.flatnonzero((frequency > 1) & (frequency < limit))]
    for start in range(0, rare.shape[0], _CHUNK_ROWS):
        stop = start + _CHUNK_ROWS
        for place, other, shared in _products(rare[start:stop], rare[:stop]):
            row = place + start
            upper = shared + common[row] * common[other]
            if not _compare_near(vectors, compared, row, other, upper):
                return False
    return True


def _compare_near(
    vectors: _Matrix, compared: _Compared, row: _Rows, other: _Rows, upper: _Values
) -> bool:
    """Compute the cosines with an upper bound at the threshold, or the largest; False if many."""
    file = compared.contexts.file
    keep = (other < row) & compared.contexts.comparable(row, other)
    row, other, upper = row[keep], other[keep], upper[keep]
    near = upper >= compared.threshold - 2 * _ROUNDING
    across = file[row] != file[other]
    for scope in (np.flatnonzero(across), np.flatnonzero(~across)):
        if len(scope):
            near[scope[upper[scope].argmax()]] = True
    row, other = row[near], other[near]
    if compared.cosines + len(row) > _MOST_COSINES:
        return False
    compared.add(_Pairs(row, other, _cosines(vectors, row, other)))
    return True


def _compare_likely(idf: _Values, compared: _Compared, rng: np.random.Generator) -> None:
    """Compute the cosines of contexts that share a key and are estimated to be near.

    These are the likeliest few of each context in each file, fewer where very many have some.
    """
    contexts = compared.contexts
    sketches = _sketches(contexts, idf, rng)
    least = compared.threshold**2 - _MARGIN
    found = [np.zeros((3, 0), dtype=np.intp)]
    for row, other, _ in _products(*_keys(contexts, sketches, rng)):
        keep = contexts.comparable(row, other)
        row, other = row[keep], other[keep]
        agreement = (sketches[row] == sketches[other]).mean(axis=1)
        order = np.lexsort((other, -agreement, contexts.file[other], row))
        row, other = (each[order[agreement[order] >= least]] for each in (row, other))
        ranks = _ranks(row, contexts.file[other])
        found.append(np.stack([row, other, ranks])[:, ranks < _MOST_CANDIDATES])
    row, other, ranks = np.concatenate(found, axis=1)
    totals = np.bincount(ranks, minlength=1).cumsum()
    chosen = ranks <= max(0, int(np.searchsorted(totals, _MOST_LIKELY_PAIRS, side="right")) - 1)
    row, other = row[chosen], other[chosen]
    for start in range(0, len(row), _CHUNK_ROWS):
        some = slice(start, start + _CHUNK_ROWS)
        read = np.unique([row[some], other[some]])
        vectors = _unit_vectors(contexts.counts(read), idf)
        places = (np.searchsorted(read, each[some]) for each in (row, other))
        compared.add(_Pairs(row[some], other[some], _cosines(vectors, *places)))


def _sketches(contexts: _Contexts, idf: _Values, rng: np.random.Generator) -> _Sketches:
    """Return MinHash values of each context, of shape (contexts, 256).

    In each of a few rounds every n-gram is thrown into a bin (one permutation hashing, Li, Owen and
    Zhang 2012) and runs a race there, which it wins with a chance proportional to its squared idf.
    The value of a bin is the time of the winner among the context's n-grams, or the next bin's
    where it has none. Times are 32-bit floats: as integers they keep their order.
    """
    shape = _ROUNDS, _N_BUCKETS
    times = rng.standard_exponential(shape, dtype=np.float32) / idf**2
    bins = rng.integers(0, _N_BINS // _ROUNDS, shape, dtype=np.uint32)
    bins += np.arange(0, _N_BINS, _N_BINS // _ROUNDS, dtype=np.uint32)[:, None]
    runners = (bins << np.uint32(24)) | (times.view(np.uint32) >> np.uint32(7))
    starts = np.arange(_N_BINS, dtype=np.uint32) << np.uint32(24)
    rows = np.arange(len(contexts.file))
    sketches = np.zeros((len(rows), _N_BINS), dtype=np.uint16)
    for row, grams in zip(rows, contexts.grams(rows), strict=True):
        if len(grams):
            finish = np.sort(runners[:, grams], axis=None)
            sketches[row] = finish.take(finish.searchsorted(starts), mode="wrap")
    return sketches


def _keys(
    contexts: _Contexts, sketches: _Sketches, rng: np.random.Generator
) -> tuple[_Matrix, _Matrix]:
    """Return which keys (columns) each context has, and the same of the keys' representatives.

    A key is four MinHash values. Keys that only one family has are left out. A key is represented
    by the first contexts of up to 8 families of each file, or by all where those are not more.
    """
    texts = np.flatnonzero(~contexts.is_empty)
    file, family = contexts.file[texts], contexts.family[texts]
    priority = rng.permutation(int(family.max(initial=0)) + 1)[family]
    order = np.lexsort((texts, family, file))
    priority[order] += _ranks(file[order], family[order]) * len(contexts.file)
    places, standing_for_all, n_keys = [], [], 0
    for key in sketches[texts].view(np.uint64).T:
        order = np.lexsort((priority, file, key))
        is_first = _ranks(key[order]) == 0
        starts, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        families = family[order]
        several = np.minimum.reduceat(families, starts) < np.maximum.reduceat(families, starts)
        kept = several[group]
        places.append(np.stack([texts[order], group + n_keys])[:, kept].astype(np.int32))
        standing_for_all.append((_ranks(key[order], file[order]) < _REPRESENTATIVES)[kept])
        n_keys += len(starts)
    members = np.concatenate(places, axis=1)
    ones = np.ones(members.shape[1], dtype=np.float32)
    has_key: _Matrix = sparse.csr_array((ones, tuple(members)), (len(contexts.file), n_keys))
    stands = np.concatenate(standing_for_all)
    stands_for: _Matrix = sparse.csr_array((ones[stands], tuple(members[:, stands])), has_key.shape)
    return has_key, stands_for


def _report(compared: _Compared, findings: Collector) -> None:
    """Add one finding per pair of families of two files, one per family within a file."""
    contexts = compared.contexts
    file, family = contexts.file, contexts.family
    near = compared.near()
    is_across = file[near.row] != file[near.other]
    across, within = near.take(is_across), near.take(~is_across)
    across = across.nearest(across.row, file[across.other])
    row, other = across.row, across.other
    across = across.nearest(file[row], family[row], file[other], family[other])
    row, other = np.append(within.row, within.other), np.append(within.other, within.row)
    within = _Pairs(row, other, np.tile(within.cosine, 2)).nearest(file[row], family[row])
    _add(findings, "near-duplicate", "a context unlike those of other files", contexts, across)
    _add(findings, "near-duplicate-within", "contexts that differ", contexts, within)


def _add(findings: Collector, code: str, expected: str, contexts: _Contexts, pairs: _Pairs) -> None:
    """Add a finding per pair, in the order of the records; read the full text of each again."""
    index = contexts.index
    pairs = pairs.take(np.lexsort((pairs.other, pairs.row)))
    rows = np.stack([pairs.other, pairs.row], axis=1)
    texts = (context_text(each.record.state) for each in index.read(rows.ravel().tolist()))
    lines, ids = index.frame["line"], index.frame["id"]
    for (left, right), cosine in zip(rows.tolist(), pairs.cosine.tolist(), strict=True):
        comparison = word_diff(next(texts), next(texts)) if findings.wants(code) else None
        neighbour, place = (
            Place(index.files[contexts.file[row]].name, lines[row], ids[row])
            for row in (left, right)
        )
        findings.add(code, place, expected, f"cosine {cosine:.2f} to {neighbour}", comparison)
