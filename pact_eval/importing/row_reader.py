"""A row of our format: one item, or one view of an item; its columns, and checks of their values.

A row holds an id, a reference, and one of: probabilities (or logits, or log-probabilities) in
canonical order; the answer alone, if that is all that is known, or with its confidence; a
confidence, and whether the answer is right; a status, if there is no answer. A probability of 0
stays 0, unless all probabilities are rounded: see `runs/probabilities.py`.

Logs of the most probable tokens list only some answers. Those that are not listed are null among
log-probabilities or logits, and `ceiling` is the largest value that they can have. A reference may
be a list of several right answers, if the caller allows it.

Many rows are read together, column by column. If a check fails, each half of them is read alone,
and so on: a single row says what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, repeat
from operator import le
from typing import Any, Final, TypeAlias, TypeVar, get_args

import numpy as np
import polars as pl

from pact_eval._json import Json, describe, dumps, finite_number
from pact_eval._typing import FloatArray, IntArray
from pact_eval.data.records import MAX_ANSWERS, MIN_ANSWERS, PairVariant
from pact_eval.errors import InputError, Problem
from pact_eval.runs.predictions import SUM_TOLERANCE, rounding_unit
from pact_eval.runs.provenance import ANSWERS, CONFIDENCES, GRADES, OUTCOMES
from pact_eval.runs.rows import OF_LOGS, SCHEMA, STATUSES, UNANSWERED

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id",),
    "family": ("family",),
    "source_family": ("source_family",),
    "domain": ("domain",),
    "kind": ("kind", "type"),
    "variant": ("variant",),
    "reference": ("reference", "gold"),
    "probabilities": ("probabilities",),
    "log_probabilities": ("log_probabilities",),
    "logits": ("logits",),
    "view": ("view",),
    "code_order": ("code_order",),
    "prompt_tokens": ("prompt_tokens",),
    "answer_mass": ("answer_mass",),
    "view_tv": ("view_tv", "permutation_tv"),
    "ceiling": ("ceiling",),
    "answer": ("answer",),
    "confidence": ("confidence",),
    "n_choices": ("n_choices",),
    "status": ("status",),
    "reason": ("reason",),
    "correct": (),
    "scored": (),
    "grade": (),
}
"""Our columns, and the names that are tried without `--map`. `correct` says whether the answer is
right by the log that the row is from, and must agree. `scored` says whether the log counts an entry
without an answer (as wrong), which is the default. `grade` says whether an answer is right that
nothing else is known of; `reference` is then 0."""

OWN_NAMES: Final[Mapping[str, str]] = {
    name: name for name in ("correct", "answer", "scored", "grade")
}
"""The mapping of rows that a source has made: it means these columns where it gives them."""

MOST_PROBLEMS: Final = 1000
"""So many problems of one file are collected."""

Cells: TypeAlias = Sequence[Json]
"""The cells of a column; None without a value."""

_T = TypeVar("_T")
_ANSWERED = ("ok", "answered")
_VALUES = ("probabilities", "log_probabilities", "logits")
_WITHOUT_VALUES = ("answer", "confidence", "grade", "correct")
_KINDS = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
# The largest float32, which some servers write (negative) for an answer that cannot be chosen.
# Squares and differences of such numbers are finite.
_LARGEST = 3.4028234663852886e38
_MOST_VIEWS = 10_000
_MOST_TOKENS = 2**31 - 1
_EXACT_SUM = 1e-6
# Answers within 1e-12 nats tie, so this much more makes one the most probable.
_AHEAD = 4e-12
# More than the sum of some numbers changes with the order of the summation.
_OF_A_SUM = 1e-12


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """Read `column=name` pairs: our column, and its name in the file.

    Raises:
        InputError: a pair has no `=`, or names a column that a run does not have.

    Examples:
        >>> parse_mapping(["reference=label", "id=example_id"])
        {'reference': 'label', 'id': 'example_id'}
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        column, equals, name = pair.partition("=")
        if not equals:
            raise _no_mapping(pair)
        if column in mapping:
            raise InputError(f"--map {pair}: {column} is already mapped to {mapping[column]}")
        mapping |= check_mapping({column: name})
    return mapping


def check_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    """Return the names of our columns in a file.

    Raises:
        InputError: one is not a column of a run, or has no name.
    """
    for column, name in mapping.items():
        if column not in COLUMNS or not name:
            raise _no_mapping(f"{column}={name}")
    return dict(mapping)


def _no_mapping(pair: str) -> InputError:
    return InputError(f"--map {pair}: expected COLUMN=NAME, COLUMN one of {', '.join(COLUMNS)}")


class SeveralRightError(ValueError):
    """A row has several right answers, and nobody said how they count."""


FRAME: Final = pl.Schema(
    {
        **SCHEMA,
        "logits": pl.List(pl.Float64()),
        **OF_LOGS,
        **UNANSWERED,
        "scored": pl.Boolean(),
        "right": pl.Boolean(),
        "answer": pl.Int16(),
        "values": pl.String(),
        "at": pl.Int64(),
    }
)
"""Columns of rows that were read: those of a run; whether the log counts the row; whether its
answer is right, the index of the answer, and the column that it comes from; and the number of the
row, from 0."""


@dataclass
class Totals:
    """Counts over all rows.

    Attributes:
        values: the column that the predictions come from; None before the first.
        renormalised: rows whose probabilities miss a sum of 1.
        zero_on_reference: rows that give every right answer a probability of 0.
        compared, correct: rows whose correctness the log says, and the right ones among them.
        not_most_probable: rows whose answer is not the most probable one.
    """

    values: str | None = None
    renormalised: int = 0
    zero_on_reference: int = 0
    compared: int = 0
    correct: int = 0
    not_most_probable: int = 0


@dataclass(frozen=True)
class _Rows:
    """Rows by column, and their numbers."""

    columns: Mapping[str, Any]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def chosen(self, places: Sequence[int]) -> _Rows:
        """Return some of the rows."""
        if len(places) == len(self):
            return self
        columns = {
            name: cells[places] if isinstance(cells, np.ndarray) else [cells[at] for at in places]
            for name, cells in self.columns.items()
        }
        return _Rows(columns, [self.numbers[at] for at in places])


@dataclass(frozen=True)
class _Lists:
    """Numbers of rows, one list after the other.

    Attributes:
        flat: (m,) the numbers.
        widths: (n,) how many of them each row has, two or more.
    """

    flat: FloatArray
    widths: IntArray

    @classmethod
    def of(cls, lists: Sequence[Sequence[float]]) -> _Lists:
        """Return lists of numbers."""
        flat = np.fromiter(chain.from_iterable(lists), np.float64)
        return cls(flat, np.fromiter(map(len, lists), np.int64, len(lists)))

    @cached_property
    def starts(self) -> IntArray:
        """(n,) where the numbers of each row begin."""
        return np.cumsum(self.widths) - self.widths

    def rows(self, places: IntArray) -> list[list[float]]:
        """Return the numbers of some rows."""
        starts, widths = self.starts[places].tolist(), self.widths[places].tolist()
        flat: list[float] = self.flat.tolist() if starts else []
        return [flat[at : at + width] for at, width in zip(starts, widths, strict=True)]

    def series(self) -> pl.Series:
        """Return a column of the lists."""
        if len({*self.widths.tolist()}) > 1:
            lists = self.rows(np.arange(len(self.widths)))
            return list_series("logits", lists, pl.List(pl.Float64()))
        return pl.Series("logits", self.flat).reshape((len(self.widths), -1)).arr.to_list()

    def largest(self) -> IntArray:
        """Return (n,) the place of the largest number of each row, the first of equal ones."""
        places = np.zeros(len(self.widths), np.int64)
        for width in np.unique(self.widths).tolist():
            here = self.widths == width
            numbers = self.flat[np.repeat(here, self.widths)]
            places[here] = numbers.reshape(-1, width).argmax(axis=1)
        return places


class RowReader:
    """Reads rows, and collects remarks about them.

    Args:
        mapping: our column -> its name in the rows; overrides the defaults.
        tolerance: how far probabilities may miss a sum of 1, if not by rounding.
        several_right: whether an answer counts if it is one of several right ones.
        mixed: whether the answers of rows may come from different columns.

    Examples:
        >>> columns = {"id": ["a", "b"], "reference": [0, 2], "probabilities": [[0.25, 0.75]] * 2}
        >>> rows, failures = RowReader().read(columns, 2)
        >>> rows["answer"].to_list(), failures
        ([1], {1: ValueError('reference/gold: expected an integer from 0 to 1, got 2')})
    """

    def __init__(
        self,
        mapping: Mapping[str, str] | None = None,
        tolerance: float = SUM_TOLERANCE,
        *,
        several_right: bool = False,
        mixed: bool = False,
    ) -> None:
        mapped_names = {} if mapping is None else mapping
        self._names = {
            column: (mapped_names[column],) if column in mapped_names else names
            for column, names in COLUMNS.items()
        }
        self._tolerance = tolerance
        self._several_right = several_right
        self._mixed = mixed
        self._answer_is_meant = "answer" in mapped_names
        others = (names for column, names in self._names.items() if column != "confidence")
        self.used = {name for names in others for name in names}
        self._mapped_but_not_met = dict(mapped_names)
        self.totals = Totals()

    def read(
        self, columns: Mapping[str, Cells], size: int
    ) -> tuple[pl.DataFrame, dict[int, ValueError]]:
        """Read rows; later calls read the rows behind them.

        Args:
            columns: (size,) cells by column.
            size: number of rows.

        Returns:
            The rows that are right, with the columns of `FRAME`; and by number, what is wrong with
            each of the others, until there are `MOST_PROBLEMS`.
        """
        frames = [pl.DataFrame(schema=FRAME)]
        failures: dict[int, ValueError] = {}
        wrong = 0
        pending = [range(size)] if size else []
        while pending and wrong < MOST_PROBLEMS:
            numbers = pending.pop()
            here = slice(numbers.start, numbers.stop)
            rows = _Rows({name: cells[here] for name, cells in columns.items()}, numbers)
            before = replace(self.totals)
            try:
                frames += self._read(rows)
            except ValueError as error:
                if len(rows) == 1:
                    failures[numbers.start] = error
                    wrong += not isinstance(error, SeveralRightError)
                    continue
                self.totals = before
                half = len(rows) // 2
                pending += [numbers[half:], numbers[:half]]
        return pl.concat(frames).sort("at"), failures

    def id_if_readable(self, value: Mapping[str, Json]) -> str | None:
        """Return the id of a row, even if the row is otherwise malformed."""
        given = (value.get(name) for name in self._names["id"])
        record_id = next((cell for cell in given if cell is not None), None)
        is_id = isinstance(record_id, str | int) and not isinstance(record_id, bool)
        return str(record_id) if is_id else None

    def unmet_mapping(self) -> list[Problem]:
        """Return one problem per mapped column that no row has."""
        return [
            Problem(None, None, f"--map {column}={name}: no row has a column {name}")
            for column, name in self._mapped_but_not_met.items()
        ]

    def _read(self, rows: _Rows) -> list[pl.DataFrame]:
        """Return the rows: those with an answer, and those without.

        Raises:
            ValueError: a row is malformed. If there is only one, the message is about it.
        """
        self._texts(rows, "id")  # what is wrong with an id is told first
        statuses = self._statuses(rows)
        frames: list[pl.DataFrame] = []
        for answered in (True, False):
            places = [at for at, status in enumerate(statuses) if (status is None) is answered]
            if not places:
                continue
            part = rows.chosen(places)
            frames += self._answered(part) if answered else [self._unanswered(part)]
        return frames

    def _answered(self, rows: _Rows) -> Iterator[pl.DataFrame]:
        found = self._values(rows)
        for values in dict.fromkeys(found):
            places = [at for at, each in enumerate(found) if each == values]
            part = rows.chosen(places)
            view, logits = self._views(part, values)
            item = self._items(part, view["n_choices"])
            view |= self._outcomes(part, values, item, logits)
            further = {"values": [values] * len(part), "logits": logits.series()}
            yield _frame(part, {**item, **view, **further})

    def _unanswered(self, rows: _Rows) -> pl.DataFrame:
        counts = self._cells(rows, "n_choices") or [None] * len(rows)
        lacking = [at for at, count in enumerate(counts) if count is None]
        if lacking and any(kind != "boolean" for kind in self._kinds(rows.chosen(lacking))):
            raise ValueError(
                "n_choices: a row without an answer needs it, except for booleans; add it"
            )
        n_choices = self._wholes(rows, "n_choices", MIN_ANSWERS, MAX_ANSWERS, default=2)
        views = self._wholes(rows, "view", 0, _MOST_VIEWS, default=0)
        scored = self._cells(rows, "scored") or [None] * len(rows)
        item = self._items(rows, n_choices)
        empty: list[list[int]] = [[]] * len(rows)
        view: dict[str, list[Any]] = {
            "n_choices": n_choices,
            "view": views,
            "code_order": empty,
            "logits": empty,
            "scored": [each is not False for each in scored],
            "right": [False] * len(rows),
            "status": self._statuses(rows),
            "reason": self._texts(rows, "reason", ""),
        }
        return _frame(rows, item | view)

    def _items(self, rows: _Rows, n_choices: list[int]) -> dict[str, list[Any]]:
        """Return the columns that are the same in every view of an item."""
        ids, kinds = self._texts(rows, "id"), self._kinds(rows)
        variants = [text or None for text in self._texts(rows, "variant", "")]
        _of_each(_variant, variants)
        for kind, count in zip(kinds, n_choices, strict=True):
            if kind == "boolean" and count != 2:
                raise ValueError(f"expected 2 numbers for a boolean, got {count}")
        families = self._texts(rows, "family", ids)
        item: dict[str, list[Any]] = {
            "id": ids,
            "family": families,
            "source_family": self._texts(rows, "source_family", families),
            "domain": self._texts(rows, "domain", "unknown"),
            "kind": kinds,
            "variant": variants,
        }
        references, accepted = self._references(rows, n_choices)
        return {**item, "reference": references, "accepted": accepted}

    def _kinds(self, rows: _Rows) -> list[str]:
        kinds = self._texts(rows, "kind", "choice")
        return _of_each(lambda kind: _one_of("kind", kind, _KINDS), kinds)

    def _references(
        self, rows: _Rows, n_choices: list[int]
    ) -> tuple[list[int], list[list[int] | None]]:
        """Return the first right answers, and all of them where there are several."""
        most = [count - 1 for count in n_choices]
        cells = self._cells(rows, "reference") or [None] * len(rows)
        if list not in {*map(type, cells)}:
            return self._wholes(rows, "reference", 0, most), [None] * len(rows)
        name = "/".join(self._names["reference"])
        right = [
            self._several(cell, high) if isinstance(cell, list) else [_whole(cell, name, 0, high)]
            for cell, high in zip(cells, most, strict=True)
        ]
        return [each[0] for each in right], [each if len(each) > 1 else None for each in right]

    def _several(self, cell: list[Json], high: int) -> list[int]:
        """Return the right answers of a row.

        Raises:
            SeveralRightError: there are several, and the caller does not allow it.
            ValueError: they are no different indices.
        """
        inside = [
            index
            for index in cell
            if isinstance(index, int) and not isinstance(index, bool) and 0 <= index <= high
        ]
        if not inside or len(set(inside)) < len(cell):
            raise ValueError(f"reference: expected indices from 0 to {high}, got {_show(cell)}")
        if len(inside) > 1 and not self._several_right:
            raise SeveralRightError(f"expected one right answer, got {len(inside)}")
        return sorted(inside)

    def _views(self, rows: _Rows, values: str) -> tuple[dict[str, list[Any]], _Lists]:
        """Return the columns of views, all of which have an answer, and their logits."""
        logits, censored = self._logits(rows, values)
        n_choices: list[int] = logits.widths.tolist()
        views = self._wholes(rows, "view", 0, _MOST_VIEWS, default=0)
        orders = self._code_orders(rows, n_choices, views)
        tokens = self._cells(rows, "prompt_tokens")
        if tokens is not None:
            name = "/".join(self._names["prompt_tokens"])
            tokens = [None if x is None else _whole(x, name, 1, _MOST_TOKENS) for x in tokens]
        return {
            "n_choices": n_choices,
            "view": views,
            "code_order": orders,
            "censored": [each or None for each in censored],
            "prompt_tokens": [*(tokens or [None] * len(rows))],
            "answer_mass": self._shares(rows, "answer_mass"),
            "view_tv": self._shares(rows, "view_tv"),
            "scored": [True] * len(rows),
        }, logits

    def _statuses(self, rows: _Rows) -> list[str | None]:
        """Return why each row has no answer; None if it has one."""
        if self._cells(rows, "status") is None:
            return [None] * len(rows)
        return _of_each(_status, self._texts(rows, "status", "ok"))

    def _outcomes(
        self, rows: _Rows, values: str, item: Mapping[str, list[Any]], logits: _Lists
    ) -> dict[str, list[Any]]:
        """Return the answers of rows, and which are right; compare them with what a source says."""
        accepted = item["accepted"]
        of_right = logits.flat[logits.starts + np.array(item["reference"])]
        low = np.flatnonzero(of_right == -math.inf)
        for at, row in zip(low.tolist(), logits.rows(low), strict=True):
            others = (row[index] == -math.inf for index in accepted[at] or ())
            self.totals.zero_on_reference += all(others)
        answers = self._answers(rows, logits)
        right = [
            answer == reference if several is None else answer in several
            for answer, reference, several in zip(answers, item["reference"], accepted, strict=True)
        ]
        stated = None if values == OUTCOMES else self._cells(rows, "correct")
        for at, correct in enumerate(stated or ()):
            if correct is None:
                continue
            if correct not in (True, False):
                raise ValueError(f"correct: expected true or false, got {_show(correct)}")
            if bool(correct) != right[at]:
                references = " or ".join(map(str, accepted[at] or [item["reference"][at]]))
                raise ValueError(
                    f"the log counts this answer as {'right' if correct else 'wrong'}; read as "
                    f"answer {answers[at]} and reference {references}, it is "
                    f"{'wrong' if correct else 'right'}"
                )
            self.totals.compared += 1
            self.totals.correct += bool(correct)
        return {"answer": answers, "right": right}

    def _answers(self, rows: _Rows, logits: _Lists) -> list[int]:
        """Return the answers of rows: those of the log, or the most probable ones."""
        answers = logits.largest()
        stated = self._cells(rows, "answer") if self._answer_is_meant else None
        name = "/".join(self._names["answer"])
        given = [at for at, cell in enumerate(stated or ()) if cell is not None]
        if stated is not None and given:
            most = logits.widths[given] - 1
            pairs = zip(given, most.tolist(), strict=True)
            said = np.array([_whole(stated[at], name, 0, high) for at, high in pairs])
            places, best = logits.starts[given] + said, logits.starts[given] + answers[given]
            less = logits.flat[places] < logits.flat[best]
            self.totals.not_most_probable += int(less.sum())
            # Of equal ones, the answer of the log is the most probable: probabilities that were
            # rounded tie, and the first would be taken.
            logits.flat[places[(places != best) & ~less]] += _AHEAD
            answers[given] = said
        found: list[int] = answers.tolist()
        return found

    # Cells

    def _cells(self, rows: _Rows, column: str) -> Cells | None:
        """Return the cells of a column; None if no row has a value."""
        given = [rows.columns[name] for name in self._names[column] if name in rows.columns]
        given = [x for x in given if isinstance(x, np.ndarray) or x.count(None) < len(x)]
        if not given:
            return None
        self._mapped_but_not_met.pop(column, None)
        first: Cells = given[0]
        for cells in given[1:]:
            first = [b if a is None else a for a, b in zip(first, cells, strict=True)]
        return first

    def _given(self, rows: _Rows, column: str) -> list[bool]:
        """Return which rows have a value in a column."""
        cells = self._cells(rows, column)
        return [False] * len(rows) if cells is None else [cell is not None for cell in cells]

    def _shares(self, rows: _Rows, column: str) -> list[float | None]:
        cells = self._cells(rows, column)
        if cells is None:
            return [None] * len(rows)
        shares = [None if cell is None else finite_number(cell) for cell in cells]
        for share, cell in zip(shares, cells, strict=True):
            if cell is not None and (share is None or not 0 <= share <= 1):
                raise ValueError(f"{column}: expected a number from 0 to 1, got {_show(cell)}")
        return shares

    def _texts(self, rows: _Rows, column: str, default: str | list[str] | None = None) -> list[str]:
        """Return texts; where there is none, the default: one for all rows, or one for each."""
        cells: Any = self._cells(rows, column)
        if cells is None and default is not None:
            return default if isinstance(default, list) else [default] * len(rows)
        cells = cells or [None] * len(rows)
        if {*map(type, cells)} == {str} and all(map(str.strip, cells)):
            return [*cells]
        name = "/".join(self._names[column])
        defaults = default if isinstance(default, list) else repeat(default)
        return [_text(cell, name, other) for cell, other in zip(cells, defaults, strict=False)]

    def _wholes(
        self, rows: _Rows, column: str, low: int, high: int | list[int], default: int | None = None
    ) -> list[int]:
        """Return integers; where there is none, the default."""
        cells: Any = self._cells(rows, column)
        if cells is None and default is not None:
            return [default] * len(rows)
        cells = cells or [None] * len(rows)
        highs = high if isinstance(high, list) else [high] * len(rows)
        if {*map(type, cells)} == {int} and min(cells) >= low and all(map(le, cells, highs)):
            return [*cells]
        name = "/".join(self._names[column])
        return [
            default if cell is None and default is not None else _whole(cell, name, low, most)
            for cell, most in zip(cells, highs, strict=True)
        ]

    def _code_orders(self, rows: _Rows, n_choices: list[int], views: list[int]) -> list[list[int]]:
        """Return the orders of the answers; view 0 is canonical by default, others are unknown."""
        cells = self._cells(rows, "code_order")
        if cells is None:
            canonical = {count: [*range(count)] for count in {*n_choices}}
            pairs = zip(n_choices, views, strict=True)
            return [canonical[count] if view == 0 else [] for count, view in pairs]
        return [
            cell if cell == [] else _code_order(cell, count, view)  # type: ignore[misc]
            for cell, count, view in zip(cells, n_choices, views, strict=True)
        ]

    # Numbers

    def _values(self, rows: _Rows) -> list[str]:
        """Return the column that each answer comes from.

        Raises:
            ValueError: a row has none, or several, or another one than earlier rows.
        """
        names: tuple[str, ...] = _VALUES
        flags = [*zip(*(self._given(rows, name) for name in names), strict=True)]
        if not all(map(any, flags)):
            names = (*_VALUES, *_WITHOUT_VALUES)
            flags = [*zip(*(self._given(rows, name) for name in names), strict=True)]
        found = _of_each(lambda row: _columns_of({*compress(names, row)}), flags)
        if {CONFIDENCES, OUTCOMES} & {column for columns in found for column in columns}:
            self.used |= {*self._names["confidence"]}
        for columns in dict.fromkeys(found):
            if len(columns) != 1:
                raise ValueError(
                    f"expected one of {', '.join(_VALUES)}, answer; got "
                    f"{', '.join(columns) or 'none'}"
                )
            if not self._mixed and self.totals.values not in (None, *columns):
                raise ValueError(
                    f"expected {self.totals.values} as in earlier rows, got {columns[0]}"
                )
            (self.totals.values,) = columns
        return [column for (column,) in found]

    def _logits(self, rows: _Rows, values: str) -> tuple[_Lists, list[list[int]]]:
        """Return the logits of views, and the answers whose logits are upper bounds."""
        none: list[list[int]] = [[]] * len(rows)
        if values in (ANSWERS, GRADES):
            return _Lists.of(self._one_answer(rows, values)), none
        if values in (CONFIDENCES, OUTCOMES):
            return _Lists.of(self._one_confidence(rows, values)), none
        cells: Any = self._cells(rows, values)
        if values == "probabilities":
            numbers = _numbers(cells, values)
            self._check_sums(numbers)
            return replace(
                numbers, flat=pl.Series(numbers.flat).log().to_numpy(writable=True)
            ), none
        censored = none
        ceilings = self._cells(rows, "ceiling")
        if ceilings is not None:
            censored = [*map(_unlisted, cells, ceilings)]
            cells = [*map(_bounded, cells, ceilings)]
        numbers = _numbers(cells, values)
        bounds = np.fromiter(map(len, censored), np.int64, len(rows))
        if (bounds == numbers.widths).any():
            raise ValueError(f"{values}: expected a listed answer, got none")
        whole = bounds == 0
        if values == "log_probabilities" and whole.any():
            exponents = numbers.flat[np.repeat(whole, numbers.widths)].tolist()
            shares = np.array([math.exp(min(x, 1.0)) for x in exponents])
            self._check_sums(_Lists(shares, numbers.widths[whole]))
        return numbers, censored

    def _one_confidence(self, rows: _Rows, values: str) -> list[list[float]]:
        """Return log p of the answer and of the others, which share the rest; see `CONFIDENCES`."""
        confidences = [share or 0.0 for share in self._shares(rows, "confidence")]
        if values == OUTCOMES:
            answers = [int(not cell) for cell in self._cells(rows, "correct") or ()]
            n_choices = [*map(fewest_answers, confidences)]
            if any(view not in (None, 0) for view in self._cells(rows, "view") or ()):
                raise ValueError(
                    "view: expected one per item, as it is not known which answers are equal"
                )
        else:
            n_choices, answers = self._named_answers(rows)
        return [*map(confident_logits, confidences, answers, n_choices)]

    def _named_answers(self, rows: _Rows) -> tuple[list[int], list[int]]:
        n_choices = self._wholes(rows, "n_choices", MIN_ANSWERS, MAX_ANSWERS)
        return n_choices, self._wholes(rows, "answer", 0, [count - 1 for count in n_choices])

    def _one_answer(self, rows: _Rows, values: str) -> list[list[float]]:
        """Return 0 for the answer and minus infinity for the others; `ANSWERS` says what it is."""
        if values == GRADES:
            pairs = [(2, int(not grade)) for grade in self._cells(rows, "grade") or ()]
        else:
            pairs = [*zip(*self._named_answers(rows), strict=True)]
        logits = {
            (count, answer): [0.0 if index == answer else -math.inf for index in range(count)]
            for count, answer in {*pairs}
        }
        return [logits[pair] for pair in pairs]

    def _check_sums(self, lists: _Lists) -> None:
        """Check that numbers are distributions; count those whose sum is 1 only roughly."""
        low, high, totals = (
            function.reduceat(lists.flat, lists.starts)
            for function in (np.minimum, np.maximum, np.add)
        )
        # Rounded numbers often miss a sum of 1 by just this, so their sum is taken exactly.
        near = np.flatnonzero(np.abs(np.abs(totals - 1) - _EXACT_SUM) < _OF_A_SUM)
        totals[near] = [*map(math.fsum, lists.rows(near))]
        off = np.abs(totals - 1)
        outside = (low < 0) | (high > 1 + _EXACT_SUM)
        wrong = np.flatnonzero(outside | (off > self._tolerance - _OF_A_SUM))
        for row in lists.rows(wrong):
            if min(row) < 0 or max(row) > 1 + _EXACT_SUM:
                raise ValueError(f"probabilities: expected values from 0 to 1, got {_show([*row])}")
            total = math.fsum(row)
            by = abs(total - 1)
            if by > self._tolerance and by > 0.5 * rounding_unit(row) * len(row):
                raise ValueError(f"probabilities: expected a sum of 1, got {total:.6g}")
        self.totals.renormalised += int((off > _EXACT_SUM).sum())


def _columns_of(given: Set[str]) -> tuple[str, ...]:
    """Return the columns that the answer of a row comes from, of those in which it has a value."""
    columns = tuple(name for name in _VALUES if name in given)
    if columns or not given:
        return columns
    if "answer" in given:
        return (CONFIDENCES,) if "confidence" in given else (ANSWERS,)
    column, values = ("correct", OUTCOMES) if "confidence" in given else ("grade", GRADES)
    return (values,) if column in given else ()


def _of_each(function: Callable[[_T], Any], cells: Sequence[_T]) -> list[Any]:
    """Return a function of every cell, called once for each different one."""
    known = {cell: function(cell) for cell in dict.fromkeys(cells)}
    return [*map(known.__getitem__, cells)]


def _frame(rows: _Rows, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return rows with the columns of `FRAME`; those that are not given are empty."""
    made, none = {**columns, "at": rows.numbers}, [None] * len(rows)
    return pl.DataFrame(
        [
            list_series(name, made[name], dtype)
            if isinstance(dtype, pl.List) and isinstance(made.get(name), list)
            else pl.Series(name, made.get(name, none), dtype)
            for name, dtype in FRAME.items()
        ]
    )


def list_series(name: str, lists: Sequence[Sequence[Any] | None], dtype: pl.List) -> pl.Series:
    """Return a column of lists; those of one length together, which is faster than polars alone.

    Examples:
        >>> list_series("a", [[0, 1], None, [2], [1, 0], []], pl.List(pl.Int16())).to_list()
        [[0, 1], None, [2], [1, 0], []]
    """
    widths = [-1 if each is None else len(each) for each in lists]
    parts: list[pl.Series] = []
    places: list[int] = []
    for width in dict.fromkeys(widths):
        here = [at for at, each in enumerate(widths) if each == width]
        places += here
        if width < 1:
            alike = pl.Series(name, [None if width < 0 else []], dtype)
            parts.append(alike.new_from_index(0, len(here)))
        else:
            cells: Iterator[Any] = chain.from_iterable(lists[at] or () for at in here)
            flat = pl.Series(name, [*cells], dtype.inner)
            parts.append(flat.reshape((-1, width)).arr.to_list())
    return parts[0] if len(parts) == 1 else pl.concat(parts).gather(pl.Series(places).arg_sort())


def _status(status: str) -> str | None:
    if status in _ANSWERED:
        return None
    return _one_of("status", status, {name: name for name in (*STATUSES, *_ANSWERED)})


def _variant(variant: str | None) -> None:
    if variant is not None:
        _one_of("variant", variant, {name: name for name in get_args(PairVariant)})


def _text(cell: Json, name: str, default: str | None) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if default is not None and (cell is None or str(cell).strip() == ""):
        return default
    if not isinstance(cell, str) or not cell:
        raise ValueError(f"{name}: expected text, got {_show(cell)}")
    return cell


def _whole(cell: Json, name: str, low: int, high: int) -> int:
    if isinstance(cell, int) and not isinstance(cell, bool) and low <= cell <= high:
        return cell
    raise ValueError(f"{name}: expected an integer from {low} to {high}, got {_show(cell)}")


def _code_order(cell: Json, n_choices: int, view: int) -> list[int]:
    if cell is None:
        return list(range(n_choices)) if view == 0 else []
    entries = cell if isinstance(cell, list) else []
    order = [item for item in entries if isinstance(item, int) and not isinstance(item, bool)]
    if len(order) != len(entries) or sorted(order) != list(range(n_choices)):
        raise ValueError(
            f"code_order: expected an order of 0 to {n_choices - 1}, got {_show(cell)}"
        )
    return order


def _unlisted(cell: Json, ceiling: Json) -> list[int]:
    """Return the answers of a row that its log does not list."""
    if not isinstance(cell, list) or ceiling is None:
        return []
    return [at for at, entry in enumerate(cell) if entry is None]


def _bounded(cell: Json, ceiling: Json) -> Json:
    """Return the numbers of a row, with the largest that those that are not listed can have."""
    if not isinstance(cell, list) or ceiling is None:
        return cell
    return [ceiling if entry is None else entry for entry in cell]


def _numbers(cells: Any, name: str) -> _Lists:
    """Return lists of finite numbers, or the rows of an array.

    Raises:
        ValueError: a cell is none, or is too short or too long.
    """
    if isinstance(cells, np.ndarray):
        allowed = MIN_ANSWERS <= cells.shape[1] <= MAX_ANSWERS
        if allowed and (np.abs(cells) <= _LARGEST).all():
            return _Lists(cells.flatten(), np.full(len(cells), cells.shape[1]))
        cells = cells.tolist()
    if {*map(type, cells)} == {list}:
        lists: Sequence[Any] = cells
        flat, widths = [*chain.from_iterable(lists)], [*map(len, lists)]
        if (
            min(widths) >= MIN_ANSWERS
            and max(widths) <= MAX_ANSWERS
            and {*map(type, flat)} == {float}
        ):
            numbers = np.array(flat)
            if (np.abs(numbers) <= _LARGEST).all():
                return _Lists(numbers, np.array(widths))
    return _Lists.of([_numbers_of(cell, name) for cell in cells])


def _numbers_of(value: Json, name: str) -> list[float]:
    if not isinstance(value, list) or not MIN_ANSWERS <= len(value) <= MAX_ANSWERS:
        description = f"{len(value)} numbers" if isinstance(value, list) else _show(value)
        raise ValueError(
            f"{name}: expected a list of {MIN_ANSWERS} to {MAX_ANSWERS} numbers, got {description}"
        )
    numbers = [finite_number(item) for item in value]
    finite = [number for number in numbers if number is not None and abs(number) <= _LARGEST]
    if len(finite) < len(numbers):
        allowed = f"finite numbers from -{_LARGEST:.2g} to {_LARGEST:.2g}"
        raise ValueError(f"{name}: expected {allowed}, got {_show(value)}")
    return finite


def fewest_answers(confidence: float) -> int:
    """Return the least number of answers with which one of this probability is the most probable.

    Raises:
        ValueError: it is larger than a run can have.

    Examples:
        >>> [fewest_answers(confidence) for confidence in (1.0, 0.51, 0.5, 0.25)]
        [2, 2, 3, 5]
    """
    for n_choices in range(MIN_ANSWERS, MAX_ANSWERS + 1):
        if (1 - confidence) / (n_choices - 1) < confidence:
            return n_choices
    raise ValueError(
        f"confidence: expected the probability of the most probable of at most {MAX_ANSWERS} "
        f"answers, got {confidence:g}"
    )


def confident_logits(confidence: float, answer: int, n_choices: int) -> list[float]:
    """Return log p of all answers if the others share equally what one leaves.

    Args:
        confidence: probability of the answer.
        answer: its index.
        n_choices: number of answers.

    Raises:
        ValueError: it is too small to be the most probable answer, by more than rounding.

    Examples:
        >>> [round(math.exp(logit), 3) for logit in confident_logits(0.6, 1, 3)]
        [0.2, 0.6, 0.2]
    """
    least = 1 / n_choices
    if confidence < least - _EXACT_SUM and confidence < least - 0.5 * rounding_unit([confidence]):
        raise ValueError(
            f"confidence: expected at least 1/{n_choices}, as the most probable of {n_choices} "
            f"answers has, got {confidence:g}; if there are more answers, name them all "
            "(--options, or n_choices)"
        )
    confidence = max(confidence, least)
    top = math.log(confidence)
    rest = (1 - confidence) / max(1, n_choices - 1)  # one answer alone is refused later
    other = min(math.log(rest), top - _AHEAD) if rest > 0 else -math.inf
    return [top if index == answer else other for index in range(n_choices)]


def missing_views(rows: pl.DataFrame) -> list[Problem]:
    """Check that every item has the views 0 to K - 1; no two rows have one id and view."""
    k = int(rows["view"].max() or 0) + 1  # type: ignore[arg-type]
    if rows["id"].n_unique() * k == len(rows):
        return []
    views = rows.group_by("id", maintain_order=True).agg(pl.col("view").sort())
    return [
        Problem(None, record_id, f"expected views 0 to {k - 1}, got {seen}")
        for record_id, seen in views.filter(pl.col("view").list.len() != k).iter_rows()
    ]


def inconsistent_views(rows: pl.DataFrame) -> list[Problem]:
    """Check that the values of an item are the same in all of its views."""
    if rows["id"].n_unique() == len(rows):
        return []
    columns = (
        *("family", "source_family", "domain", "kind", "variant", "reference", "accepted"),
        "n_choices",
    )
    first: dict[str, Sequence[Json]] = {}
    problems = []
    for record_id, *row in rows.select("id", *columns).iter_rows():
        first_row = first.setdefault(record_id, row)
        for column, value, other in zip(columns, first_row, row, strict=True):
            if value != other:
                values = f"{_show(value)} and {_show(other)}"
                message = f"{column}: expected the same value in every view, got {values}"
                problems.append(Problem(None, record_id, message))
    return problems


def _one_of(column: str, value: str, allowed: Mapping[str, str]) -> str:
    if value not in allowed:
        raise ValueError(f"{column}: expected {', '.join(allowed)}, got {_show(value)}")
    return allowed[value]


def as_object(value: Json) -> dict[str, Json]:
    """Return a JSON object.

    Raises:
        ValueError: it is not one.
    """
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {describe(value)}")
    return value


def _show(value: Json) -> str:
    text = "nothing" if value is None else dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
