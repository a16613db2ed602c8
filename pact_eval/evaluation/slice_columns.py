"""Groups of a further column of a run: its texts, its few numbers, or bins of its many numbers.

A column of numbers with more than `MOST_NUMBERS` different values needs bins: how many, or where
one ends. Quantiles are those of all items of the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from pact_eval._choices import OWN_GROUPS, Bins
from pact_eval.errors import InputError
from pact_eval.evaluation.labels import Labels

__all__ = [
    "MISSING",
    "MOST_NUMBERS",
    "MOST_TEXTS",
    "check_bins",
    "column_labels",
    "find_column",
    "parse_bins",
]

MOST_NUMBERS: Final = 20
"""So many different numbers are groups of their own."""

MOST_TEXTS: Final = 200
"""So many different texts are groups."""

MISSING: Final = "(missing)"
"""Name of the group of items without a value."""

_FEWEST_BINS: Final = 2


def parse_bins(text: str) -> Bins:
    """Read `--bins`: a number of bins, or their inner edges with commas between them.

    Raises:
        InputError: it is neither.

    Examples:
        >>> parse_bins("4"), parse_bins("10,20"), parse_bins("0.5,")
        (4, (10.0, 20.0), (0.5,))
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        if len(parts) == 1:
            return check_bins(int(parts[0]))
        return check_bins(tuple(float(part) for part in parts if part))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        message = f"--bins {text}: expected a number of bins, or edges such as 10,20"
        raise InputError(message) from None


def check_bins(bins: Bins) -> Bins:
    """Return bins that can be used.

    Raises:
        InputError: there are fewer than two, or the edges do not increase.
    """
    if isinstance(bins, int):
        if bins < _FEWEST_BINS:
            message = f"--bins: expected {_FEWEST_BINS} or more, got {bins}"
            raise InputError(message)
        return bins
    increasing = all(low < high for low, high in itertools.pairwise(bins))
    if not bins or not increasing or not all(np.isfinite(bins)):
        message = f"--bins: expected edges in increasing order, got {','.join(map(str, bins))}"
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
    message = f"--by {by}: {place} has no such column; there are {', '.join(names)}"
    raise InputError(message)


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
        return Labels.of(_number_names(values.cast(pl.Float64), by, bins))
    if bins is not None:
        message = f"--bins: {by} is text; leave --bins out"
        raise InputError(message)
    texts = values.cast(pl.String).fill_null(MISSING)
    if texts.n_unique() > MOST_TEXTS:
        message = (
            f"--by {by}: expected at most {MOST_TEXTS} different texts, got {texts.n_unique():,}; "
            "choose another column"
        )
        raise InputError(message)
    return Labels.of(texts.to_numpy().astype(np.object_))


def _number_names(values: pl.Series, by: str, bins: Bins | None) -> np.ndarray:
    numbers = values.to_numpy()
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if bins is None and distinct.size > MOST_NUMBERS:
        message = (
            f"--by {by}: {distinct.size:,} different numbers; give --bins 4 for four bins with "
            "equally many items, or their edges, as in --bins 10,20"
        )
        raise InputError(message)
    if bins is None or not distinct.size:
        names = {number: f"{number:.15g}" for number in distinct.tolist()}
        named = [names.get(number, MISSING) for number in numbers.tolist()]
        return np.array(named, dtype=np.object_)
    edges = _inner_edges(numbers[~np.isnan(numbers)], bins)
    names_of_bins = _bin_names([distinct[0], *edges, distinct[-1]])
    codes = np.searchsorted(edges, numbers, side="right")
    named = [
        MISSING if missing else names_of_bins[code]
        for code, missing in zip(codes.tolist(), np.isnan(numbers).tolist(), strict=True)
    ]
    return np.array(named, dtype=np.object_)


def _inner_edges(numbers: np.ndarray, bins: Bins) -> list[float]:
    """Return the edges between bins: quantiles that differ, or the given ones."""
    if not isinstance(bins, int):
        return [*bins]
    shares = np.arange(1, bins) / bins
    quantiles = np.unique(np.quantile(numbers, shares, method="inverted_cdf"))
    return [float(edge) for edge in quantiles if edge > numbers.min()]


def _bin_names(edges: Sequence[float]) -> list[str]:
    """Name bins by their edges; the last one has both."""
    texts = [f"{edge:.6g}" for edge in edges]
    last = len(texts) - 2
    return [
        f"[{low}, {high}{']' if number == last else ')'}"
        for number, (low, high) in enumerate(itertools.pairwise(texts))
    ]
