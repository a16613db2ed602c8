"""Every column of the items of a run, as groups: what a search for groups that differ goes over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from pact_eval._typing import IntArray
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import MOST_NUMBERS, MOST_TEXTS, Labels, column_labels, text_labels
from pact_eval.runs.identity import MISSING
from pact_eval.runs.rows import PREFIX, collected

ANSWERS: Final = "number of answers"
"""Name of the column `n_choices` as a column of groups."""

TOKENS: Final = "prompt tokens"
"""Name of the column `prompt_tokens` as a column of groups."""

OTHER: Final = "(other)"
"""Name of the group of items with a rare value, in a column of more than `MOST_TEXTS` values."""

_STORED: Final = {
    "kind": "kind",
    ANSWERS: "n_choices",
    "domain": "domain",
    "source_family": "source_family",
    TOKENS: "prompt_tokens",
}
_BINS: Final = 4
_RARE: Final = 10
# So few texts are no ids, even if each belongs to one family: there are as few families.
_FEWEST_IDS: Final = 4


def item_columns(items: ScoredItems, path: Path | None = None) -> Iterator[tuple[str, pl.Series]]:
    """Yield the columns of items that may be groups, with their names, one at a time.

    These are kind, domain, source family, number of answers and length of the prompt, and the
    further columns of the records.

    Args:
        items: in memory, or read from a file.
        path: that file, with the K views of an item next to each other; None for items in memory.
    """
    if path is None:
        views = items.predictions
        further = pl.DataFrame() if views.metadata is None else views.metadata
        for name in _names(further.columns):
            own_values = getattr(views, _STORED.get(name, ""), None)
            if own_values is None:
                yield name, further[name]
            else:
                yield name, pl.Series(own_values.tolist(), strict=False)
        return
    scan = pl.scan_parquet(path, glob=False)
    stored = scan.collect_schema().names()
    own = [name.removeprefix(PREFIX) for name in stored if name.startswith(PREFIX)]
    for name in _names(own):
        column = _STORED.get(name, PREFIX + name)
        if column in stored:
            values = collected(path, scan.select(column))
            yield name, values.gather_every(items.k).to_series()


def _names(own: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of every run, then the further ones that are not called like them."""
    return tuple(dict.fromkeys([*_STORED, *own]))


def group_labels(values: pl.Series, name: str, family: IntArray) -> Labels | None:
    """Return the group of every item; None of a column without groups.

    Texts and up to 20 different numbers are groups of their own; of more than 200 texts, those of
    fewer than ten items are one group. More numbers are divided into four bins of equally many
    items. A column has no groups if it has one value, or more texts than half of the families, or
    more than four texts, or whole numbers, that each belong to one family alone: ids.

    Args:
        values: (n,) of the column; null, NaN and "" where an item has none.
        name: of the column.
        family: (n,) code of the family of each item.

    Examples:
        >>> import numpy as np
        >>> family = np.arange(30)
        >>> group_labels(pl.Series([f"item {n}" for n in range(30)]), "name", family)
        >>> group_labels(pl.Series([4.0 + n for n in range(30)]), "number", family)
        >>> group_labels(pl.Series(["a", "", None] * 10), "topic", family).names.tolist()
        ['(missing)', 'a']
    """
    labels = (_of_numbers if values.dtype.is_numeric() else _of_texts)(values, name, family)
    return labels if labels is not None and len(labels) > 1 else None


def _of_numbers(values: pl.Series, name: str, family: IntArray) -> Labels | None:
    numbers = values.cast(pl.Float64)
    numbers = numbers.set(~numbers.is_finite(), None)
    distinct = numbers.drop_nulls().n_unique()
    if distinct <= MOST_NUMBERS:
        return column_labels(numbers, name)
    if (numbers.drop_nulls() % 1 == 0).all() and _names_families(numbers, family):
        return None
    return column_labels(numbers, name, _BINS)


def _of_texts(values: pl.Series, _name: str, family: IntArray) -> Labels | None:
    try:
        texts = values.cast(pl.String)
    except pl.exceptions.PolarsError:  # lists and structs are no groups
        return None
    texts = texts.set(texts.fill_null("").str.strip_chars() == "", None).fill_null(MISSING)
    counts = texts.value_counts(name="items")
    are_ids = len(counts) > _FEWEST_IDS and _names_families(texts, family)
    if are_ids or len(counts) > max(_RARE, int(family.max(initial=0)) / 2):
        return None
    if len(counts) > MOST_TEXTS:
        common = counts.filter(pl.col("items") >= _RARE)[texts.name].to_list()
        texts = texts.set(~texts.is_in(common), OTHER)
    return text_labels(texts)


def _names_families(values: pl.Series, family: IntArray) -> bool:
    """Return whether each value belongs to one family alone."""
    pairs = pl.DataFrame({"value": values, "family": family}).drop_nulls()
    return pairs.n_unique() == pairs["value"].n_unique()
