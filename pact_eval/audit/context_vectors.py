"""TF-IDF vectors of the character 5-grams of contexts, with the counts in a temporary file.

A vector is that of scikit-learn's `TfidfVectorizer(analyzer="char", ngram_range=(5, 5))`, except
that 5-grams are hashed into 2^22 buckets, white space of any kind is one space, and a shorter text
is one n-gram. The texts of many contexts are hashed at once, with numpy: `HashingVectorizer` makes
a Python string of each n-gram, which takes several times as long.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from pact_eval.audit.parts import work_on_parts
from pact_eval.data.contexts import context_text, folded
from pact_eval.data.index import Index
from pact_eval.data.processes import in_threads
from pact_eval.progress import tracked

Rows = npt.NDArray[np.intp]
Values = npt.NDArray[np.float32]
_Chunk = tuple[Rows, npt.NDArray[np.int32], npt.NDArray[np.uint16]]
"""Of some contexts: the numbers of their n-grams, the n-grams, and how often each occurs."""

Matrix = sparse.csr_array[np.float32, tuple[int, int]]

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
            self._grams = _mapped(grams_file, np.int32)
            self._counts = _mapped(counts_file, np.uint16)
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
        starts = range(0, max(1, len(self)), _CHUNK_ROWS)
        weighed = in_threads(functools.partial(self._weighed, threshold, least_rest), starts)
        weighed_parts = tracked(weighed, "Weighing n-grams", "parts", total=len(starts), counts=15)
        parts, cuts, rests = zip(*weighed_parts, strict=True)
        cut, rest = np.concatenate(cuts), np.concatenate(rests)
        longest = rest.max(axis=0, initial=0)
        cut = np.minimum(cut, (rest * longest >= least_rest).sum(axis=1))
        cut_of_parts = np.split(cut, np.cumsum([len(cut_rows) for cut_rows in cuts])[:-1])
        short = [self._up_to(part, own) for part, own in zip(parts, cut_of_parts, strict=True)]
        return Prefixes(sparse.vstack(short, format="csr"), cut, rest)

    def _weighed(
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
        row, grams, counts = _counted_grams(texts)
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


def _counted_grams(texts: list[str]) -> tuple[Rows, Rows, Rows]:
    """Return (text, hashed n-gram, count) of the n-grams of some texts, ascending.

    >>> row, _, count = _counted_grams(["abcdeabcde", "", "abc"])
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


def _mapped(file: IO[bytes], dtype: Any) -> npt.NDArray[Any]:
    """Return the numbers in a temporary file without reading them into memory."""
    file.flush()
    if not file.tell():  # an empty file cannot be mapped
        return np.zeros(0, dtype=dtype)
    return np.asarray(np.memmap(file, dtype=dtype, mode="r"))
