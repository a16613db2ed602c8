"""A row of our format: one item, or one view of an item; its columns, and checks of their values.

A row holds an id, a reference, and one of: probabilities (or logits, or log-probabilities) in
canonical order; the answer alone, if that is all that is known, or with its confidence; a
confidence, and whether the answer is right; a status, if there is no answer. A probability of 0
stays 0, unless all probabilities are rounded: see `runs/probabilities.py`.

Logs of the most probable tokens list only some answers. Those that are not listed are null among
log-probabilities or logits, and `ceiling` is the largest value that they can have. A reference may
be a list of several right answers, if the caller allows it.

Many rows are read together, column by column. Where a cell is wrong, what is wrong is kept by the
number of its row, and a harmless value stands in until the row is left out. Of several faults of a
row, the first is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress
from operator import le
from typing import Any, Final, TypeAlias, get_args

import numpy as np
import polars as pl

from pact_eval._json import Json, describe, dumps, finite_number
from pact_eval._typing import FloatArray, IntArray
from pact_eval.data.records import MAX_ANSWERS, MIN_ANSWERS, PairVariant
from pact_eval.errors import InputError, Problem
from pact_eval.runs.predictions import SUM_TOLERANCE, rounding_unit
from pact_eval.runs.provenance import ANSWERS, CONFIDENCES, GRADES, OUTCOMES
from pact_eval.runs.rows import OF_LOGS, SCHEMA, STATUSES, UNANSWERED

SCORES: Final = ("probabilities", "log_probabilities", "logits")
"""The columns of numbers for all answers."""

_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "kind": ("kind", "type"),
    "reference": ("reference", "gold"),
    "view_tv": ("view_tv", "permutation_tv"),
    **dict.fromkeys(("correct", "scored", "grade"), ()),
}
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    name: _OTHER_NAMES.get(name, (name,))
    for name in (
        *("id", "family", "source_family", "domain", "kind", "variant", "reference", *SCORES),
        *("view", "code_order", "prompt_tokens", "answer_mass", "view_tv", "ceiling", "answer"),
        *("confidence", "n_choices", "status", "reason", "correct", "scored", "grade"),
    )
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

_WITHOUT_VALUES = ("answer", "confidence", "grade", "correct")
KINDS: Final = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
"""Names of kinds of question, and what they mean."""

_STATUSES: Final[Mapping[str, str | None]] = {
    **{name: name for name in STATUSES},
    **dict.fromkeys(("ok", "answered")),
}
_VARIANTS: Final = {**{name: name for name in get_args(PairVariant)}, "": None}
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
        column, _, name = pair.partition("=")
        if column in mapping:
            raise InputError(f"--map {pair}: {column} is already mapped to {mapping[column]}")
        mapping |= check_mapping({column: name}, pair)
    return mapping


def check_mapping(mapping: Mapping[str, str], given: str = "") -> dict[str, str]:
    """Return the names of our columns in a file.

    Args:
        mapping: our column -> its name.
        given: what the user wrote, for the message.

    Raises:
        InputError: one is not a column of a run, or has no name.
    """
    for column, name in mapping.items():
        if column not in COLUMNS or not name:
            known = ", ".join(COLUMNS)
            raise InputError(
                f"--map {given or f'{column}={name}'}: expected COLUMN=NAME, COLUMN one of {known}"
            )
    return dict(mapping)


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
    """Counts over all rows, if none is wrong.

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
    """Rows by column, and what is wrong with some of them.

    Attributes:
        columns: cells by our name of the column; numbers may be an array.
        labels: names of columns, as messages have them.
        numbers: of the rows.
        failures: by its number, what is wrong with a row.
    """

    columns: Mapping[str, Any]
    labels: Mapping[str, str]
    numbers: Sequence[int]
    failures: dict[int, ValueError] = field(default_factory=dict)

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
        numbers = [self.numbers[at] for at in places]
        return replace(self, columns=columns, numbers=numbers)

    def cells(self, column: str) -> Any:
        """Return the cells of a column; None if no row has a value."""
        cells = self.columns.get(column)
        is_empty = isinstance(cells, list) and cells.count(None) == len(cells)
        return None if is_empty else cells

    def fail(self, at: int, message: str) -> None:
        """Keep what is wrong with a row, if nothing was before."""
        self.failures.setdefault(self.numbers[at], ValueError(message))

    def each(self, function: Callable[..., Any], instead: Any, *cells: Any) -> list[Any]:
        """Return a function of the cells of every row; something else for rows that are wrong."""
        found = []
        for at, row in enumerate(zip(*cells, strict=True)):
            value = instead
            if self.numbers[at] not in self.failures:
                try:
                    value = function(*row)
                except ValueError as error:
                    self.failures[self.numbers[at]] = error
            found.append(value)
        return found

    def texts(self, column: str, default: str | Sequence[str] | None = None) -> list[str]:
        """Return texts; where there is none, the default: one for all rows, or one for each."""
        cells, size = self.cells(column), len(self)
        defaults: Any = [default] * size if default is None or isinstance(default, str) else default
        if cells is None and default is not None:
            return [*defaults]
        cells = cells or [None] * size
        if {*map(type, cells)} == {str} and all(map(str.strip, cells)):
            return [*cells]
        return self.each(partial(_text, self.labels[column]), "", cells, defaults)

    def named(self, column: str, default: str, allowed: Mapping[str, str | None]) -> list[Any]:
        """Return what the texts of a column mean."""
        texts = self.texts(column, default)
        if not {*texts} <= allowed.keys():
            texts = self.each(partial(_one_of, column, allowed), default, texts)
        return [*map(allowed.__getitem__, texts)]

    def wholes(
        self, column: str, low: int, high: int | Sequence[int], default: int | None = None
    ) -> list[Any]:
        """Return integers; where there is none, the default."""
        cells = self.cells(column)
        if cells is None and default is not None:
            return [default] * len(self)
        cells = cells or [None] * len(self)
        highs = [high] * len(self) if isinstance(high, int) else high
        if {*map(type, cells)} == {int} and min(cells) >= low and all(map(le, cells, highs)):
            return [*cells]
        read = partial(_whole, self.labels[column], default, low)
        return self.each(read, low, cells, highs)

    def shares(self, column: str) -> list[float | None]:
        """Return numbers from 0 to 1; None where there is none."""
        cells = self.cells(column)
        if cells is None:
            return [None] * len(self)
        return self.each(partial(_share, column), None, cells)


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
        mapped: Mapping[str, str] = mapping or {}
        own = {column: (name,) for column, name in mapped.items()}
        self._names = {column: own.get(column, names) for column, names in COLUMNS.items()}
        self._tolerance = tolerance
        self._several_right = several_right
        self._mixed = mixed
        self._answer_is_meant = "answer" in mapped
        others = (names for column, names in self._names.items() if column != "confidence")
        self.used = {name for names in others for name in names}
        self._mapped_but_not_met = dict(mapped)
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
            each of the others.
        """
        own: dict[str, Any] = {}
        for column, names in self._names.items():
            given: Iterator[Any] = (columns[name] for name in names if name in columns)
            for cells in given:
                if isinstance(cells, np.ndarray) or cells.count(None) < len(cells):
                    self._mapped_but_not_met.pop(column, None)
                    pairs = zip(own.get(column, ()), cells, strict=False)
                    own[column] = [b if a is None else a for a, b in pairs] or cells
        labels = {column: "/".join(names) for column, names in self._names.items()}
        rows = _Rows(own, labels, range(size))
        rows.texts("id")  # what is wrong with an id is told first
        statuses = rows.named("status", "ok", _STATUSES)
        right = [at for at in range(size) if at not in rows.failures]
        lacking = rows.chosen([at for at in right if statuses[at] is not None])
        parts: list[tuple[str | None, _Rows]] = [(None, lacking)]
        parts += self._by_values(rows.chosen([at for at in right if statuses[at] is None]))
        frames = [self._frame(part, values) for values, part in parts if len(part)]
        frame = pl.concat([pl.DataFrame(schema=FRAME), *frames]).sort("at")
        return frame, dict(sorted(rows.failures.items()))

    def unmet_mapping(self) -> list[Problem]:
        """Return one problem per mapped column that no row has."""
        return [
            Problem(None, None, f"--map {column}={name}: no row has a column {name}")
            for column, name in self._mapped_but_not_met.items()
        ]

    def _by_values(self, rows: _Rows) -> list[tuple[str, _Rows]]:
        """Return the rows by the column that their answers come from."""
        names = (*SCORES, *_WITHOUT_VALUES)
        cells, none = map(rows.cells, names), [False] * len(rows)
        given = (none if x is None else [cell is not None for cell in x] for x in cells)
        places: dict[tuple[bool, ...], list[int]] = {}
        for at, flags in enumerate(zip(*given, strict=True)):
            places.setdefault(flags, []).append(at)
        by_values: dict[str, list[int]] = {}
        for flags, members in places.items():
            columns = _columns_of({*compress(names, flags)})
            told = ", ".join(columns) or "none"
            message = f"expected one of {', '.join(SCORES)}, answer; got {told}"
            if len(columns) == 1 and (self._mixed or self.totals.values in (None, *columns)):
                (self.totals.values,) = columns
                by_values[columns[0]] = sorted(by_values.get(columns[0], []) + members)
                continue
            if len(columns) == 1:
                message = f"expected {self.totals.values} as in earlier rows, got {told}"
            for at in members:
                rows.fail(at, message)
        if {CONFIDENCES, OUTCOMES} & by_values.keys():
            self.used |= {*self._names["confidence"]}
        return [(values, rows.chosen(places)) for values, places in by_values.items()]

    def _frame(self, rows: _Rows, values: str | None) -> pl.DataFrame:
        """Return rows whose answers come from one column; None is for rows without an answer."""
        size = len(rows)
        made: dict[str, Any] = {"at": rows.numbers, "values": [values] * size}
        logits: FloatArray | None = None
        if values is None:
            counts = rows.cells("n_choices") or [None] * size
            kinds = rows.named("kind", "choice", KINDS)
            n_choices = rows.each(partial(_count, rows.labels["n_choices"]), 2, counts, kinds)
            made["logits"] = [[]] * size
        else:
            logits, made["censored"] = self._logits(rows, values)
            n_choices = (~np.isnan(logits)).sum(axis=1).tolist()
        views = rows.wholes("view", 0, _MOST_VIEWS, default=0)
        made |= {"n_choices": n_choices, "view": views}
        made |= {} if logits is None else _of_views(rows, n_choices, views)
        made |= self._items(rows, n_choices)
        if logits is not None:
            made |= self._outcomes(rows, values, made, logits)
            made |= {"logits": _series(logits), "scored": [True] * size}
        else:
            scored = rows.cells("scored") or [None] * size
            made |= {
                "code_order": [[]] * size,
                "scored": [each is not False for each in scored],
                "right": [False] * size,
                "status": rows.named("status", "ok", _STATUSES),
                "reason": rows.texts("reason", ""),
            }
        frame = pl.DataFrame(
            [
                list_series(name, made[name], dtype)
                if isinstance(dtype, pl.List) and isinstance(made.get(name), list)
                else pl.Series(name, made.get(name, [None] * size), dtype)
                for name, dtype in FRAME.items()
            ]
        )
        wrong = rows.failures.keys() & {*rows.numbers} if rows.failures else ()
        return frame.filter(~pl.col("at").is_in([*wrong])) if wrong else frame

    def _items(self, rows: _Rows, n_choices: Sequence[int]) -> dict[str, list[Any]]:
        """Return the columns that are the same in every view of an item."""
        ids, kinds = rows.texts("id"), rows.named("kind", "choice", KINDS)
        variants = rows.named("variant", "", _VARIANTS)
        for at, (kind, count) in enumerate(zip(kinds, n_choices, strict=True)):
            if kind == "boolean" and count != 2:
                rows.fail(at, f"expected 2 numbers for a boolean, got {count}")
        families = rows.texts("family", ids)
        item: dict[str, list[Any]] = {
            "id": ids,
            "family": families,
            "source_family": rows.texts("source_family", families),
            "domain": rows.texts("domain", "unknown"),
            "kind": kinds,
            "variant": variants,
        }
        most = [count - 1 for count in n_choices]
        cells = rows.cells("reference") or [None] * len(rows)
        if list not in {*map(type, cells)}:
            references = rows.wholes("reference", 0, most)
            return {**item, "reference": references, "accepted": [None] * len(rows)}
        right = rows.each(partial(self._right, rows.labels["reference"]), [0], cells, most)
        accepted = [each if len(each) > 1 else None for each in right]
        return {**item, "reference": [each[0] for each in right], "accepted": accepted}

    def _right(self, name: str, cell: Json, high: int) -> list[int]:
        """Return the right answers of a row.

        Raises:
            SeveralRightError: there are several, and the caller does not allow it.
            ValueError: they are no different indices.
        """
        if not isinstance(cell, list):
            return [_whole(name, None, 0, cell, high)]
        inside = [index for index in cell if type(index) is int and 0 <= index <= high]
        if not inside or len(set(inside)) < len(cell):
            raise ValueError(f"reference: expected indices from 0 to {high}, got {_show(cell)}")
        if len(inside) > 1 and not self._several_right:
            raise SeveralRightError(f"expected one right answer, got {len(inside)}")
        return sorted(inside)

    def _outcomes(
        self, rows: _Rows, values: str | None, item: Mapping[str, list[Any]], logits: FloatArray
    ) -> dict[str, list[Any]]:
        """Return the answers of rows, and which are right; compare them with what a source says."""
        accepted = item["accepted"]
        of_right = logits[np.arange(len(rows)), item["reference"]]
        for at in np.flatnonzero(of_right == -math.inf).tolist():
            others = (logits[at, index] == -math.inf for index in accepted[at] or ())
            self.totals.zero_on_reference += all(others)
        answers = self._answers(rows, logits)
        right = [
            answer == reference if several is None else answer in several
            for answer, reference, several in zip(answers, item["reference"], accepted, strict=True)
        ]
        stated = None if values == OUTCOMES else rows.cells("correct")
        for at, correct in enumerate(stated or ()):
            if correct is None:
                continue
            self.totals.compared += 1
            self.totals.correct += bool(correct)
            if correct not in (True, False):
                rows.fail(at, f"correct: expected true or false, got {_show(correct)}")
            elif bool(correct) != right[at]:
                references = " or ".join(map(str, accepted[at] or [item["reference"][at]]))
                words = ("right", "wrong") if correct else ("wrong", "right")
                message = (
                    f"the log counts this answer as {words[0]}; read as answer {answers[at]} and "
                    f"reference {references}, it is {words[1]}"
                )
                rows.fail(at, message)
        return {"answer": answers, "right": right}

    def _answers(self, rows: _Rows, logits: FloatArray) -> list[int]:
        """Return the answers of rows: those of the log, or the most probable ones."""
        answers: IntArray = np.nanargmax(logits, axis=1)
        stated = rows.cells("answer") if self._answer_is_meant else None
        given = [at for at, cell in enumerate(stated or ()) if cell is not None]
        if given:
            most = [len(row) - 1 for row in _lists(logits[given])]
            said: IntArray = np.array(rows.chosen(given).wholes("answer", 0, most))
            less = logits[given, said] < logits[given, answers[given]]
            self.totals.not_most_probable += int(less.sum())
            # Of equal ones, the answer of the log is the most probable: probabilities that were
            # rounded tie, and the first would be taken.
            ahead = np.flatnonzero((said != answers[given]) & ~less)
            logits[np.array(given)[ahead], said[ahead]] += _AHEAD
            answers[given] = said
        found: list[int] = answers.tolist()
        return found

    def _logits(self, rows: _Rows, values: str) -> tuple[FloatArray, list[list[int] | None]]:
        """Return the logits of views, and the answers whose logits are upper bounds."""
        if values not in SCORES:
            return _matrix(_one_answer(rows, values)), [None] * len(rows)
        cells = rows.cells(values)
        censored: Sequence[list[int] | None] = [None] * len(rows)
        ceilings = None if values == "probabilities" else rows.cells("ceiling")
        if ceilings is not None:
            cells, censored = zip(*map(_bounded, cells, ceilings), strict=True)
        numbers = _numbers(rows, values, cells)
        if values == "probabilities":
            self._check_sums(rows, numbers, range(len(rows)))
            logs = pl.Series(np.maximum(numbers, 0).ravel()).log().to_numpy(writable=True)
            return logs.reshape(numbers.shape), [*censored]
        for at, bounds in enumerate(censored):
            if bounds and len(bounds) == len(cells[at]):
                rows.fail(at, f"{values}: expected a listed answer, got none")
        whole = [at for at, bounds in enumerate(censored) if bounds is None]
        if values == "log_probabilities" and whole:
            self._check_sums(rows, np.exp(np.minimum(numbers[whole], 1.0)), whole)
        return numbers, [*censored]

    def _check_sums(self, rows: _Rows, numbers: FloatArray, places: Sequence[int]) -> None:
        """Check that numbers are distributions; count those whose sum is 1 only roughly."""
        totals = np.nansum(numbers, axis=1)
        # Rounded numbers often miss a sum of 1 by just this, so their sum is taken exactly.
        near = np.flatnonzero(np.abs(np.abs(totals - 1) - _EXACT_SUM) < _OF_A_SUM)
        totals[near] = [*map(math.fsum, _lists(numbers[near]))]
        off = np.abs(totals - 1)
        low, high = np.nanmin(numbers, axis=1), np.nanmax(numbers, axis=1)
        outside = (low < 0) | (high > 1 + _EXACT_SUM)
        wrong = np.flatnonzero(outside | (off > self._tolerance - _OF_A_SUM))
        for at, row in zip(wrong.tolist(), _lists(numbers[wrong]), strict=True):
            total = math.fsum(row)
            by = abs(total - 1)
            if outside[at]:
                shown = _show([*row])
                rows.fail(places[at], f"probabilities: expected values from 0 to 1, got {shown}")
            elif by > self._tolerance and by > 0.5 * rounding_unit(row) * len(row):
                rows.fail(places[at], f"probabilities: expected a sum of 1, got {total:.6g}")
        self.totals.renormalised += int((off > _EXACT_SUM).sum())


def _columns_of(given: Set[str]) -> tuple[str, ...]:
    """Return the columns that the answer of a row comes from, of those in which it has a value."""
    columns = tuple(name for name in SCORES if name in given)
    if columns or not given:
        return columns
    if "answer" in given:
        return (CONFIDENCES,) if "confidence" in given else (ANSWERS,)
    column, values = ("correct", OUTCOMES) if "confidence" in given else ("grade", GRADES)
    return (values,) if column in given else ()


def _of_views(rows: _Rows, n_choices: Sequence[int], views: Sequence[int]) -> dict[str, Any]:
    """Return what a view has besides its logits.

    View 0 has the canonical order of answers by default; that of others is unknown.
    """
    canonical = {count: [*range(count)] for count in {*n_choices}}
    orders, tokens = rows.cells("code_order"), rows.cells("prompt_tokens")
    if orders is None:
        pairs = zip(n_choices, views, strict=True)
        orders = [canonical[count] if view == 0 else [] for count, view in pairs]
    elif any(order != [] for order in orders):
        orders = rows.each(_code_order, [], orders, n_choices, views)
    if tokens is not None:
        name = rows.labels["prompt_tokens"]
        tokens = rows.each(
            lambda x: None if x is None else _whole(name, None, 1, x, _MOST_TOKENS), None, tokens
        )
    return {
        "code_order": orders,
        "prompt_tokens": tokens or [None] * len(rows),
        "answer_mass": rows.shares("answer_mass"),
        "view_tv": rows.shares("view_tv"),
    }


def _one_answer(rows: _Rows, values: str) -> list[list[float]]:
    """Return the logits of rows that say one answer, and perhaps how sure it is.

    The other answers share what a confidence leaves; see `CONFIDENCES` and `ANSWERS`.
    """
    shares = None
    if values in (CONFIDENCES, OUTCOMES):
        shares = [share or 0.0 for share in rows.shares("confidence")]
    if values == GRADES:
        n_choices, answers = [2] * len(rows), [int(not x) for x in rows.cells("grade")]
    elif shares is not None and values == OUTCOMES:
        n_choices = rows.each(fewest_answers, 2, shares)
        answers = [int(not x) for x in rows.cells("correct")]
        for at, view in enumerate(rows.cells("view") or ()):
            if view not in (None, 0):
                message = "view: expected one per item, as it is not known which answers are equal"
                rows.fail(at, message)
    else:
        n_choices = rows.wholes("n_choices", MIN_ANSWERS, MAX_ANSWERS)
        answers = rows.wholes("answer", 0, [count - 1 for count in n_choices])
    if shares is not None:
        return rows.each(confident_logits, [0.0, 0.0], shares, answers, n_choices)
    pairs = [*zip(n_choices, answers, strict=True)]
    logits = {
        (count, answer): [0.0 if index == answer else -math.inf for index in range(count)]
        for count, answer in {*pairs}
    }
    return [logits[pair] for pair in pairs]


def _series(matrix: FloatArray) -> pl.Series:
    """Return a column of the numbers of rows."""
    if np.isnan(matrix).any():
        return list_series("logits", _lists(matrix), pl.List(pl.Float64()))
    return pl.Series("logits", matrix.ravel()).reshape(matrix.shape).arr.to_list()


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


def _text(name: str, cell: Json, default: str | None) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if default is not None and (cell is None or str(cell).strip() == ""):
        return default
    if not isinstance(cell, str) or not cell:
        raise ValueError(f"{name}: expected text, got {_show(cell)}")
    return cell


def _one_of(column: str, allowed: Mapping[str, str | None], text: str) -> str:
    if text not in allowed:
        words = ", ".join(filter(None, allowed))
        raise ValueError(f"{column}: expected {words}, got {_show(text)}")
    return text


def _whole(name: str, default: int | None, low: int, cell: Json, high: int) -> int:
    if cell is None and default is not None:
        return default
    if isinstance(cell, int) and not isinstance(cell, bool) and low <= cell <= high:
        return cell
    raise ValueError(f"{name}: expected an integer from {low} to {high}, got {_show(cell)}")


def _count(name: str, cell: Json, kind: str) -> int:
    """Return the number of answers of a row without an answer."""
    if cell is None and kind != "boolean":
        raise ValueError("n_choices: a row without an answer needs it, except for booleans; add it")
    return _whole(name, 2, MIN_ANSWERS, cell, MAX_ANSWERS)


def _share(column: str, cell: Json) -> float | None:
    share = finite_number(cell)
    if cell is not None and (share is None or not 0 <= share <= 1):
        raise ValueError(f"{column}: expected a number from 0 to 1, got {_show(cell)}")
    return share


def _code_order(cell: Json, n_choices: int, view: int) -> list[int]:
    if cell is None:
        return list(range(n_choices)) if view == 0 else []
    entries = cell if isinstance(cell, list) else [cell]
    order = [item for item in entries if isinstance(item, int) and not isinstance(item, bool)]
    if entries and (len(order) != len(entries) or sorted(order) != list(range(n_choices))):
        raise ValueError(
            f"code_order: expected an order of 0 to {n_choices - 1}, got {_show(cell)}"
        )
    return order


def _bounded(cell: Json, ceiling: Json) -> tuple[Json, list[int] | None]:
    """Return numbers, with upper bounds for those that are not listed, and which these are."""
    if not isinstance(cell, list) or ceiling is None or None not in cell:
        return cell, None
    unlisted = [at for at, entry in enumerate(cell) if entry is None]
    return [ceiling if entry is None else entry for entry in cell], unlisted


def _numbers(rows: _Rows, name: str, cells: Any) -> FloatArray:
    """Return (n, W) lists of finite numbers, or the rows of an array."""
    if isinstance(cells, np.ndarray):
        if MIN_ANSWERS <= cells.shape[1] <= MAX_ANSWERS and (np.abs(cells) <= _LARGEST).all():
            return np.array(cells)
        cells = cells.tolist()
    if {*map(type, cells)} == {list}:
        flat, widths = [*chain.from_iterable(cells)], [*map(len, cells)]
        allowed = min(widths) >= MIN_ANSWERS and max(widths) <= MAX_ANSWERS
        if allowed and {*map(type, flat)} == {float} and (np.abs(flat) <= _LARGEST).all():
            return _matrix(cells)
    return _matrix(rows.each(partial(_numbers_of, name), [0.5, 0.5], cells))


def _matrix(lists: Sequence[Sequence[float]]) -> FloatArray:
    """Return (n, W) lists of numbers, NaN behind the last of each."""
    widths = np.array([*map(len, lists)])
    matrix = np.full((len(lists), widths.max()), math.nan)
    matrix[np.arange(widths.max()) < widths[:, None]] = [*chain.from_iterable(lists)]
    return matrix


def _lists(matrix: FloatArray) -> list[list[float]]:
    """Return the numbers of rows without what is behind the last of each."""
    lists: list[list[float]] = matrix.tolist()
    if not np.isnan(matrix).any():
        return lists
    widths = (~np.isnan(matrix)).sum(axis=1).tolist()
    return [row[:width] for row, width in zip(lists, widths, strict=True)]


def _numbers_of(name: str, value: Json) -> list[float]:
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
