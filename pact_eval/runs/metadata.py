"""Further columns of the records of a run, by which a report may be divided.

They are columns `metadata.NAME` of `predictions.parquet`, equal in every view of an item: numbers
if all values are numbers, text otherwise, null where a record has none. The seal covers them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from pact_eval._json import Json, dumps, finite_number
from pact_eval.data.records import Record

__all__ = ["PREFIX", "frame_of_metadata", "metadata_frame", "metadata_of_rows", "with_metadata"]

PREFIX: Final = "metadata."
"""How the names of the columns begin."""

_NUMBER: Final = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")


def metadata_frame(records: Sequence[Record]) -> pl.DataFrame | None:
    """Return the further columns of records, one row per record with its id; None without any.

    Examples:
        >>> from dataclasses import replace
        >>> from pact_eval.data.records import parse_record
        >>> first = parse_record({
        ...     "id": "a", "family": "a", "source_family": "s", "split": "train", "domain": "",
        ...     "variant": "base", "metadata": {"stars": "5", "shop": "x"},
        ...     "input": {"state": "s", "questions": {"decision": {
        ...         "type": "noul", "instructions": "Open?"}}},
        ...     "reference": {"target": True}})
        >>> metadata_frame([first, replace(first, id="b", metadata={"shop": True})]).rows()
        [('a', 5.0, 'x'), ('b', None, 'true')]
    """
    return frame_of_metadata({record.id: record.metadata for record in records})


def frame_of_metadata(values: Mapping[str, Mapping[str, Json]]) -> pl.DataFrame | None:
    """Return further columns of items, one row per item with its id; None without any.

    Args:
        values: by id, the values by the name of their column.
    """
    names: dict[str, None] = {}
    for item in values.values():
        names |= dict.fromkeys(item)
    if not names:
        return None
    columns = [_column(name, [item.get(name) for item in values.values()]) for name in names]
    return pl.DataFrame([pl.Series("id", [*values]), *columns])


def with_metadata(rows: pl.DataFrame, frame: pl.DataFrame | None) -> pl.DataFrame:
    """Return the rows of a run with further columns of its items; without any, as they are.

    Args:
        rows: the rows, with the column `id`.
        frame: what `metadata_frame` or `frame_of_metadata` returned.
    """
    return rows if frame is None else rows.join(frame, on="id", how="left", maintain_order="left")


def metadata_of_rows(rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return the further columns of rows by their own names; None without any."""
    own = {name: name.removeprefix(PREFIX) for name in rows.columns if name.startswith(PREFIX)}
    return rows.select(pl.col(name).alias(short) for name, short in own.items()) if own else None


def _column(name: str, values: Sequence[Json]) -> pl.Series:
    numbers = [_number(value) for value in values]
    present = [value is not None for value in values]
    if any(present) and all(
        number is not None for number, is_there in zip(numbers, present, strict=True) if is_there
    ):
        return pl.Series(PREFIX + name, numbers, pl.Float64)
    return pl.Series(PREFIX + name, [_text(value) for value in values], pl.String)


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    return finite_number(value)


def _text(value: Json) -> str | None:
    return value if value is None or isinstance(value, str) else dumps(value)
