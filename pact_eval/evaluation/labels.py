"""Text columns as codes: the kinds, domains, families and further groups of items.

`Labels` numbers the texts of a column. `column_labels` makes groups of a further column of a run:
its texts, its few numbers, or bins of its many numbers. A column of numbers with more than
`MOST_NUMBERS` different values needs bins: how many, or where one ends. Quantiles are those of all
items of the run.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from pact_eval._choices import OWN_GROUPS, Bins
from pact_eval._typing import BoolArray, IntArray, TextArray
from pact_eval.errors import InputError
from pact_eval.runs.identity import MISSING

_LEADING_NUMBER: Final = re.compile(r"\[?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?:, |$)")
_KIND_ORDER = ("choice", "boolean", "score")
# Rows are few if there are this many times as many texts.
_FEW = 8


@dataclass(frozen=True, eq=False)
class Labels:
    """A text column as codes.

    Attributes:
        codes: (n,) index into `texts`; int8 for few texts of a column that was read in slices.
        texts: the distinct texts; sorted unless the codes were numbered as they occurred.
    """

    codes: IntArray
    texts: pl.Series

    @classmethod
    def of(cls, values: TextArray) -> Labels:
        """Number the distinct values in sorted order."""
        texts = pl.Series(values.tolist(), dtype=pl.String)
        codes = texts.rank("dense").cast(pl.Int64).to_numpy() - 1
        return cls(codes, texts.unique().sort())

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def names(self) -> TextArray:
        """The distinct texts."""
        return self.texts.to_numpy().astype(np.object_)

    def taken(self, rows: npt.NDArray[np.integer]) -> Labels:
        """Return some rows, with the texts that occur in them."""
        codes = self.codes[rows]
        if len(codes) * _FEW < len(self.texts):
            unique_codes, numbers = np.unique(codes, return_inverse=True)
            return Labels(numbers, self.texts.gather(unique_codes))
        present = np.bincount(codes, minlength=len(self.texts)) > 0
        return Labels((np.cumsum(present) - 1)[codes], self.texts.filter(pl.Series(present)))

    def has(self, name: str) -> BoolArray:
        """Return (n,) whether a row has a name, which need not occur."""
        # One comparison of codes: looking up every row takes five times as long.
        code = np.flatnonzero(self.names == name)
        return np.asarray(self.codes == (code[0] if code.size else -1), dtype=np.bool_)

    def count(self, rows: IntArray | BoolArray) -> int:
        """Return the number of texts of some rows.

        Args:
            rows: row numbers, or (n,) whether a row counts.
        """
        # A table of all codes: np.unique takes longer than all metrics of millions of items. Rows
        # of a mask first: an index that is a mask takes twice as long.
        counted = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        present = np.zeros(len(self), dtype=np.bool_)
        present[self.codes.take(counted)] = True
        return int(np.count_nonzero(present))

    def sorted(self) -> Labels:
        """Return the same labels with codes in the order of the texts."""
        if self.texts.is_sorted():
            return self
        order = self.texts.arg_sort().to_numpy()
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return Labels(rank[self.codes], self.texts.gather(order))

    def rows_by_name(self) -> dict[str, IntArray]:
        """Return the rows of each name, kinds in their own order, other names sorted."""
        by_code = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.names)))
        rows = dict(zip(self.names.tolist(), np.split(by_code, ends[:-1]), strict=True))
        return {name: rows[name] for name in ordered_groups(list(rows))}


def ordered_groups(names: list[str]) -> list[str]:
    """Return the names of groups in the order of the report: kinds first, then other names.

    Names of numbers and of bins of numbers are in the order of the numbers.

    Examples:
        >>> ordered_groups(["10", "2", "(missing)"]), ordered_groups(["[10, 20]", "[2, 10)"])
        (['2', '10', '(missing)'], ['[2, 10)', '[10, 20]'])
    """
    kinds = [name for name in _KIND_ORDER if name in names]
    others = [name for name in names if name not in kinds]
    leading = {name: _LEADING_NUMBER.match(name) for name in others if name != MISSING}
    numbers = {name: float(match[1]) for name, match in leading.items() if match is not None}
    if len(numbers) == len(leading):
        others.sort(key=lambda name: numbers.get(name, math.inf))
    return kinds + others


def text_labels(column: pl.Series) -> Labels:
    """Number the few distinct texts of a column, in sorted order."""
    names = column.unique().sort()
    codes = column.cast(pl.Enum(names)).to_physical().to_numpy()
    few = len(names) <= np.iinfo(np.int8).max  # an eighth of the memory
    return Labels(codes.astype(np.int8 if few else np.int64), names)


def family_labels(column: pl.Series) -> Labels:
    """Number families as they occur, if their members are next to each other, else in any order.

    Only a text for each run of members is kept, and compared by its hash.
    """
    hashes = column.hash().to_numpy()
    first = np.ones(hashes.size, dtype=np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    codes, texts, runs = np.cumsum(first) - 1, column.filter(pl.Series(first)), hashes[first]
    if count_repeats(runs):
        _, where, number = np.unique(runs, return_index=True, return_inverse=True)
        codes, texts = number[codes], texts.gather(where)
    return Labels(codes, texts)


def count_repeats(hashes: npt.NDArray[np.uint64]) -> int:
    """Count the values that occurred before; a sort of integers is faster than a table."""
    ranked = np.sort(hashes)
    return int(np.count_nonzero(ranked[1:] == ranked[:-1]))


MOST_NUMBERS: Final = 20
"""So many different numbers are groups of their own."""

MOST_TEXTS: Final = 200
"""So many different texts are groups."""

_FEWEST_BINS: Final = 2


def parse_bins(text: str) -> Bins:
    """Read the bins of `--by COLUMN:BINS`: how many, or their inner edges with commas between them.

    Raises:
        InputError: it is neither.

    Examples:
        >>> parse_bins("4"), parse_bins("10,20"), parse_bins("0.5,")
        (4, (10.0, 20.0), (0.5,))
    """
    parts = [part.strip() for part in text.split(",")]
    bins: Bins
    try:
        bins = int(text) if len(parts) == 1 else tuple(float(part) for part in parts if part)
    except ValueError:
        message = f"bins {text}: expected a number of bins, or edges such as 10,20"
        raise InputError(message) from None
    return check_bins(bins)


def check_bins(bins: Bins) -> Bins:
    """Return bins that can be used.

    Raises:
        InputError: there are fewer than two, or the edges do not increase.
    """
    if isinstance(bins, int):
        if bins < _FEWEST_BINS:
            raise InputError(f"bins: expected {_FEWEST_BINS} or more, got {bins}")
        return bins
    increasing = all(low < high for low, high in itertools.pairwise(bins))
    if not bins or not increasing or not all(np.isfinite(bins)):
        message = f"bins: expected edges in increasing order, got {','.join(map(str, bins))}"
        raise InputError(message)
    return tuple(bins)


def find_column(metadata: pl.DataFrame | None, by: str, place: str = "the run") -> pl.Series:
    """Return a further column of a run.

    Args:
        metadata: its further columns; None if it has none.
        by: name of the column.
        place: the run, for messages.

    Raises:
        InputError: there is no such column; the message lists those that there are.
    """
    if metadata is not None and by in metadata.columns:
        return metadata[by]
    names = [*OWN_GROUPS, *([] if metadata is None else metadata.columns)]
    raise InputError(f"--by {by}: {place} has no such column; there are {', '.join(names)}")


def column_labels(values: pl.Series, by: str, bins: Bins | None = None) -> Labels:
    """Return the group of every item.

    Args:
        values: (n,) values of the column, text or numbers; null where an item has none.
        by: name of the column, for messages.
        bins: bins of numbers.

    Raises:
        InputError: there are too many groups, or bins of text.

    Examples:
        >>> labels = column_labels(pl.Series([1.0, 5.0, None, 9.0]), "stars", (5.0,))
        >>> labels.names[labels.codes].tolist()
        ['[1, 5)', '[5, 9]', '(missing)', '[5, 9]']
    """
    if values.dtype.is_numeric():
        return _number_labels(values.cast(pl.Float64), by, bins)
    if bins is not None:
        raise InputError(f"bins: {by} is text, which has none; leave them out")
    texts = values.cast(pl.String).fill_null(MISSING)
    if texts.n_unique() > MOST_TEXTS:
        raise InputError(
            f"--by {by}: expected at most {MOST_TEXTS} different texts, got {texts.n_unique():,}; "
            "choose another column"
        )
    return Labels.of(texts.to_numpy().astype(np.object_))


def _number_labels(values: pl.Series, by: str, bins: Bins | None) -> Labels:
    numbers = values.fill_null(math.nan).to_numpy()
    present = ~np.isnan(numbers)
    distinct = np.unique(numbers[present])
    if bins is None and distinct.size > MOST_NUMBERS:
        raise InputError(
            f"--by {by}: {distinct.size:,} different numbers; give --by {by}:4 for four bins "
            f"with equally many items, or their edges, as in --by {by}:10,20"
        )
    if bins is None or not distinct.size:
        names = [f"{number:.15g}" for number in distinct.tolist()]
        codes = np.searchsorted(distinct, numbers)
    else:
        edges = () if isinstance(bins, int) else bins
        if isinstance(bins, int):  # quantiles that differ
            shares = np.arange(1, bins) / bins
            quantiles = np.quantile(numbers[present], shares, method="inverted_cdf")
            edges = tuple(np.unique(quantiles[quantiles > distinct[0]]).tolist())
        ends = [f"{edge:.6g}" for edge in (distinct[0], *edges, distinct[-1])]
        names = [f"[{low}, {high})" for low, high in itertools.pairwise(ends)]
        names[-1] = f"{names[-1][:-1]}]"  # the last bin has both edges
        codes = np.searchsorted(edges, numbers, side="right")
    # Names may not occur, or occur twice.
    every_name = Labels.of(np.array([*names, MISSING], dtype=np.object_))
    return every_name.taken(np.where(present, codes, len(names)))
