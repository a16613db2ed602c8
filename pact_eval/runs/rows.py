"""The rows of a run, one per item and view: their columns, and checks of their values.

Readers check values because a run may come from elsewhere, and a seal shows only that nobody has
changed it since.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from pact_eval._files import open_regular
from pact_eval._json import Json, dumps, finite_number
from pact_eval.data.panics import without_panics
from pact_eval.data.records import MAX_ANSWERS, MIN_ANSWERS, FieldKind, Record
from pact_eval.errors import InputError, RunError

SCHEMA: Final = pl.Schema(
    {
        "id": pl.String(),
        "family": pl.String(),
        "source_family": pl.String(),
        "domain": pl.String(),
        "kind": pl.String(),
        "variant": pl.String(),
        "reference": pl.Int16(),
        "n_choices": pl.Int16(),
        "view": pl.Int16(),
        "code_order": pl.List(pl.Int16()),
        "logits": pl.List(pl.Float32()),
        "prompt_tokens": pl.Int32(),
        "answer_mass": pl.Float32(),
    }
)
"""Columns of `predictions.parquet`. Imported rows keep their logits as float64."""

ABLATED_SCHEMA: Final = pl.Schema({**SCHEMA, "answers": pl.List(pl.Int16())})
"""Columns of a run on ablated contexts: `reference` is null, `variant` is "ablated", and `answers`
holds the two canonical indices between which the context no longer decides."""

OF_LOGS: Final = pl.Schema(
    {"censored": pl.List(pl.Int16()), "accepted": pl.List(pl.Int16()), "view_tv": pl.Float64()}
)
"""Further columns that imported logs may have. Two hold canonical indices of answers. Those of
`censored` were not listed by the log: their logits are the largest that they can have. `accepted`
are all right answers, if there are several; `reference` is then the first of them. `view_tv` is the
TV between orders that the log states of an item, of which it lists one view."""

UNANSWERED: Final = pl.Schema({"status": pl.String(), "reason": pl.String()})
"""Further columns of rows that may be of unanswered items. `status` is null in the row of a view;
otherwise it is one of `STATUSES`, the item has this one row, and `reason` says more."""

COUNTED: Final = pl.Schema({"asked": pl.Int16(), "right": pl.Int16()})
"""Columns that unanswered items of logs have in addition: in how many repeats the log counts the
item, and in how many of them its answer is right."""

Status: TypeAlias = Literal["missing", "refused", "unsupported", "failed"]
"""Why an item has no answer: the server left it out, the model refused it, the server does not take
such a request, or no usable answer came."""

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

ABLATED: Final = "ablated"

_OF_A_VIEW: Final = (*("view", "code_order", "logits", "prompt_tokens", "answer_mass", *OF_LOGS),)
_IN_EVERY_ROW: Final = ("id", "kind", "n_choices", "view", "code_order", "logits")
_KINDS: Final = get_args(FieldKind)
_SAME_IN_EVERY_VIEW: Final = (
    *("id", "kind", "family", "source_family", "domain", "variant", "reference", "n_choices"),
)
"""Columns of an item, which all of its views share."""


def collected(path: Path, rows: pl.LazyFrame) -> pl.DataFrame:
    """Read rows of a Parquet file.

    Args:
        path: the file, for the message.
        rows: a scan of it.

    Raises:
        RunError: the file is damaged or cannot be read.
    """
    try:
        open_regular(path).close()  # polars would wait for the writer of a pipe
        with without_panics():
            return rows.collect()
    except InputError as error:
        raise RunError(str(error)) from None
    except (PolarsError, PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RunError(f"{path}: damaged or cut short ({reason})") from None


def answered(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of answered items, without the columns of `UNANSWERED`."""
    if "status" not in frame.columns:
        return frame
    return frame.filter(pl.col("status").is_null()).drop(*UNANSWERED, *COUNTED, strict=False)


def unanswered(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of unanswered items, one per item, without the columns of a view."""
    if "status" not in frame.columns:
        return frame.head(0).with_columns(
            pl.lit(None, pl.String()).alias(name) for name in UNANSWERED
        )
    kept = [name for name in frame.columns if name not in _OF_A_VIEW]
    return frame.filter(pl.col("status").is_not_null()).select(kept)


def check_columns(frame: pl.DataFrame) -> None:
    """Check that a frame holds the rows of a run.

    Rows of unanswered items have no logits and are not checked.

    Raises:
        RunError: a column is missing or has another type, or the length of a list is not the
            number of answers of its item.
    """
    missing = [name for name in SCHEMA if name not in frame.columns]
    if missing:
        raise RunError(f"expected the columns of a run, missing: {', '.join(missing)}")
    for name, dtype in SCHEMA.items():
        dtype_read = frame.schema[name]
        if dtype_read == pl.Null and name not in _IN_EVERY_ROW:
            continue  # a column of nulls only, which says no type
        if type_family(dtype_read) != type_family(dtype):
            raise RunError(f"column {name}: expected {dtype}, got {dtype_read}")
    frame = answered(frame)
    n_choices = frame["n_choices"]
    orders = frame["code_order"].list.len()
    if not (frame["logits"].list.len() == n_choices).all() or not (
        ((orders == n_choices) | (orders == 0)).all()
    ):
        raise RunError("expected one logit and one letter per answer")


def check_values(frame: pl.DataFrame, k: int) -> None:
    """Check the values in the rows of a run, as far as it has the columns.

    Args:
        frame: columns of `SCHEMA`; the k views of an item are next to each other, in order.
        k: number of views of each item.

    Raises:
        RunError: a column of `OF_LOGS` has another type, a value is missing, not finite, out of its
            range or no order of the letters, or the views of an item differ in their id, kind,
            family, reference or number of answers.
            A logit of minus infinity (an imported probability of 0) is allowed.

    Examples:
        >>> check_values(pl.DataFrame({"n_choices": [2, 2], "answer_mass": [0.5, 7.5]}), 2)
        Traceback (most recent call last):
            ...
        pact_eval.errors.RunError: answer_mass: expected values from 0 to 1, got 7.5
    """
    columns = {name: frame[name] for name in frame.columns}
    for name, dtype in OF_LOGS.items():
        dtype_read = columns[name].dtype if name in columns else pl.Null()
        if dtype_read != pl.Null and type_family(dtype_read) != type_family(dtype):
            raise RunError(f"column {name}: expected {dtype}, got {dtype_read}")
    for name in _SAME_IN_EVERY_VIEW if k > 1 else ():
        if name in columns:
            _check_same(columns[name], k)
    for name in _IN_EVERY_ROW:
        if name in columns and columns[name].null_count():
            raise RunError(f"{name}: expected a value in every row, got null")
    n_choices = columns["n_choices"]
    _check_range(n_choices, MIN_ANSWERS, MAX_ANSWERS)
    checks: dict[str, Callable[[pl.Series], None]] = {
        "kind": _check_kinds,
        "reference": lambda column: _check_range(column, 0, n_choices - 1),
        # Sums of float32 probabilities may be above 1 by rounding.
        "answer_mass": lambda column: _check_range(column, 0, 1, slack=1e-3),
        "prompt_tokens": lambda column: _check_range(column, 1, None),
        "logits": lambda column: _check_logits(column, n_choices),
        "code_order": lambda column: _check_orders(column, n_choices),
        "view_tv": lambda column: _check_range(column, 0, 1),
        **dict.fromkeys(("censored", "accepted"), lambda column: _check_indices(column, n_choices)),
    }
    for name, check in checks.items():
        # A column of nulls only has no type that could be compared.
        if name in columns and columns[name].dtype != pl.Null:
            check(columns[name])


def _check_kinds(column: pl.Series) -> None:
    # At most three comparisons: they take half the time of a table of the distinct texts.
    left = len(column)
    for kind in _KINDS:
        left -= (column == kind).sum() if left else 0
    if left and len(unknown := column.filter(~column.is_in(_KINDS))):
        raise RunError(f"kind: expected {', '.join(_KINDS)}, got {unknown[0]!r:.60}")


def _check_same(column: pl.Series, k: int) -> None:
    keys = column.hash() if column.dtype == pl.String else column.cast(pl.Int64).fill_null(-1)
    of_views = keys.to_numpy().reshape(-1, k)
    if (of_views != of_views[:, :1]).any():
        raise RunError(f"{column.name}: expected the same value in the {k} views of an item")


def _check_range(
    column: pl.Series, low: float, high: pl.Series | float | None, *, slack: float = 0.0
) -> None:
    outside = (column < low - slack) | column.is_nan() if column.dtype.is_float() else column < low
    if high is not None:
        outside |= column > (high if isinstance(high, pl.Series) else high + slack)
    if outside.any():
        value = column.filter(outside)[0]
        most = "" if high is None else " to the number of answers - 1"
        most = f" to {high}" if isinstance(high, int | float) else most
        least = "from" if most else "of at least"
        raise RunError(f"{column.name}: expected values {least} {low}{most}, got {value}")


def _check_logits(logits: pl.Series, n_choices: pl.Series) -> None:
    lengths = logits.list.len().to_numpy()
    if logits.null_count() or not np.array_equal(lengths, n_choices.to_numpy()):
        raise RunError("logits: expected as many numbers as the item has answers")
    values = logits.explode(empty_as_null=False)
    # The largest is NaN if any is: one pass finds NaN and infinity.
    if values.null_count() or not values.to_numpy().max(initial=0.0) < math.inf:
        raise RunError("logits: expected finite numbers (minus infinity for a probability of 0)")


def _check_orders(orders: pl.Series, n_choices: pl.Series) -> None:
    """Each order, if known, has every index from 0 to C - 1 once."""
    lengths = orders.list.len().fill_null(0).to_numpy().astype(np.int64)
    codes = orders.explode(empty_as_null=False).drop_nulls().to_numpy()
    known = lengths > 0  # the orders of imported views may be unknown
    if codes.size == lengths.sum() and (lengths == n_choices.to_numpy())[known].all():
        given = np.zeros(codes.size, dtype=np.bool_)
        if ((codes >= 0) & (codes < np.repeat(lengths, lengths))).all():
            given[np.repeat(np.cumsum(lengths) - lengths, lengths) + codes] = True
        if given.all():
            return
    message = "code_order: expected each answer's index once, or an empty list if it is unknown"
    raise RunError(message)


def _check_indices(lists: pl.Series, n_choices: pl.Series) -> None:
    """Each list has indices of answers, or nothing."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    indices = lists.explode(empty_as_null=False).drop_nulls().to_numpy()
    most = np.repeat(n_choices.to_numpy(), lengths)
    if indices.size != most.size or ((indices < 0) | (indices >= most)).any():
        raise RunError(f"{lists.name}: expected indices of answers")


def type_family(dtype: pl.DataType) -> str:
    """Return the family of a type: text, integer, float, or a list of them, whatever the width."""
    name = str(dtype)
    for family, members in (("whole", r"U?Int\d+"), ("number", r"Float\d+")):
        name = re.sub(members, family, name)
    return name


PREFIX: Final = "metadata."
"""How the names of the further columns of records begin."""

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
    values = {record.id: record.metadata for record in records}
    names = dict.fromkeys(name for item in values.values() for name in item)
    columns = {name: [item.get(name) for item in values.values()] for name in names}
    return frame_of_metadata([*values], columns)


def frame_of_metadata(
    ids: Sequence[str], values: Mapping[str, Sequence[Json]]
) -> pl.DataFrame | None:
    """Return further columns of items, one row per item with its id; None without any.

    Args:
        ids: (n,) the items.
        values: (n,) the values of the items by the name of their column.
    """
    if not values:
        return None
    columns = [_column(name, cells) for name, cells in values.items()]
    return pl.DataFrame([pl.Series("id", ids), *columns])


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
    lacking = sum(value is None for value in values)
    if numbers.count(None) == lacking < len(values):
        return pl.Series(PREFIX + name, numbers, pl.Float64)
    return pl.Series(PREFIX + name, [_text(value) for value in values], pl.String)


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value) else None
    return finite_number(value)


def _text(value: Json) -> str | None:
    return value if value is None or isinstance(value, str) else dumps(value)
