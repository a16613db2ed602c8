"""Tables with one number per row, such as `predict_proba(X)[:, 1]`: what the number is.

With two answers, it is the probability of one of them, and the other has the rest. A column that is
called after an answer (p_1, prob_yes) is of that answer. Any other column that is called a
probability, a score or a confidence may be of either answer, or the confidence of the prediction:
the predictions of all rows may prove which; otherwise it is a question.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pact_eval._json import dumps
from pact_eval.data.labelled.answers import TEXT, Form, Options, distinct_labels, of_texts
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import IGNORED, Reading, columns_option, roles_option
from pact_eval.data.records import Record
from pact_eval.errors import ShapeError
from pact_eval.importing.labels_file import NO_LABELS
from pact_eval.importing.row_reader import SCORES
from pact_eval.importing.source import References, texts_of_record
from pact_eval.importing.table_cells import numbers_in

ANSWER_COLUMN: Final = re.compile(
    r"(p|pr|prob|proba|probability|logprob|logit)[_.](.+)", re.DOTALL | re.IGNORECASE
)
"""A column of numbers for one answer, and the name of the answer."""

IF_UNLABELLED: Final = f". If answer is what a model said: {NO_LABELS[0].lower()}{NO_LABELS[1:]}"
"""End of a message on a table whose column "answer" may be of the model."""

_WORDS: Final = frozenset(
    {"prob", "probs", "proba", "probas", "probability", "score", "scores", "confidence", "conf"}
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_NUMBERED: Final = re.compile(r"p[_.]?\d*", re.IGNORECASE)
_TRUE: Final = ("1", "1.0", "true", "yes")
_EVEN: Final = 0.5
_LEAST_PERCENT: Final = 1.5


@dataclass(frozen=True)
class ForeignTable:
    """A table of others, and what the user says of it.

    Attributes:
        entries: its rows.
        reading: what the user says of it.
        source: name of the file, for messages.
        references: records with the right answers, joined by id; None if the table has them.
    """

    entries: Entries
    reading: Reading
    source: str
    references: References | None = None


@dataclass
class TableRoles:
    """Columns by role, and columns with one number for one answer each.

    Attributes:
        columns: by role, its columns.
        groups: by kind of number, the answer that each column is of.
        form: how the public set that has these columns writes answers.
        outcomes: whether rows say how sure a model is and whether it is right, and no answers.
        rest: the other answer, if there are two and one column has the probability of one.
        percent: whether confidences are in percent.
        unlabelled: whether right answers are left out.
        labels: columns of right answers that are left out.
    """

    columns: dict[str, tuple[str, ...]]
    groups: dict[str, Mapping[str, str]]
    form: Form | None = None
    outcomes: bool = False
    rest: str | None = None
    percent: bool = False
    unlabelled: bool = False
    labels: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of the context and the question."""
        return (*self.columns.get("state", ()), *self.columns.get("question", ()))

    def first(self, role: str) -> str | None:
        """Return the column of a role; None without one."""
        return next(iter(self.columns.get(role, ())), None)

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """By role, its columns; of groups too."""
        return self.columns | {kind: tuple(group) for kind, group in self.groups.items()}

    @property
    def probability_of(self) -> str:
        """The answer whose probability the only column of numbers has."""
        return next(iter(self.groups["probabilities"].values()))

    @property
    def has_scores(self) -> bool:
        """Whether there are numbers for the answers."""
        return bool(self.groups) or not self.columns.keys().isdisjoint(SCORES)

    @property
    def used(self) -> set[str]:
        """Columns that have a role."""
        return {
            name
            for role in (self.columns, self.groups)
            for names in role.values()
            for name in names
        }


class KnownColumns:
    """What the cells of a table say of its columns, while these get roles."""

    def __init__(self, table: ForeignTable, roles: TableRoles) -> None:
        self.table, self.roles, self.entries = table, roles, table.entries
        self._numbers: dict[str, list[float | None] | None] = {}

    def numbers(self, column: str) -> list[float | None] | None:
        """Return the number in each cell; None if a cell has something else, or none has."""
        if column not in self._numbers:
            self._numbers[column] = None
            with suppress(ValueError):
                numbers = numbers_in(self.entries.column(column))
                self._numbers[column] = numbers if numbers.count(None) < len(numbers) else None
        return self._numbers[column]

    def known(self, column: str) -> list[float]:
        """Return the numbers of a column without empty cells; none if a cell is no number."""
        return [number for number in self.numbers(column) or () if number is not None]

    def are_probabilities(self, column: str) -> bool:
        """Return whether a column has numbers from 0 to 1, and not only 0 and 1."""
        known = self.known(column)
        return all(0 <= x <= 1 for x in known) and any(0 < x < 1 for x in known)

    def are_in_percent(self, column: str) -> bool:
        """Return whether confidences are in percent: all are above 1 and one is above 1.5."""
        known = self.known(column)
        return bool(known) and all(1 < x <= 100 for x in known) and max(known) > _LEAST_PERCENT

    @cached_property
    def answers(self) -> Sequence[str]:
        """The answers of every row; empty if they are not known or differ between rows."""
        references = self.table.references
        if self.table.reading.options:
            return self.table.reading.options
        if references is not None:
            sets = {options_of_record(record, references).texts for record in references.records}
            return next(iter(sets)) if len(sets) == 1 else ()
        if "options" in self.roles.columns:
            return ()
        classes = self.entries.class_names.get(str(self.roles.first("reference")))
        sides = map(self.roles.first, ("reference", "prediction"))
        cells = [cell for name in sides if name for cell in self.entries.column(name)]
        return classes or distinct_labels(cells)[0]

    @property
    def is_of_two(self) -> bool:
        """Whether there are two answers."""
        return len(self.answers) == 2

    def indices(self, role: str) -> list[int | None]:
        """Return the index of the answer in every cell of the column of a role, by its text."""
        options = Options(tuple(self.answers))
        cells = self.entries.column(self.roles.first(role))
        return of_texts(lambda cell: options.index(cell, TEXT), cells)

    def index_of_name(self, column: str) -> int | None:
        """Return the index of the answer that a column is called after; None if there is none."""
        match = ANSWER_COLUMN.fullmatch(column)
        name = match[2].strip("()[] ") if match else column
        return Options(tuple(self.answers)).index(name, TEXT)


def options_of_record(record: Record | None, references: References) -> Options:
    """Return the answers of a record, and the names that may stand for them."""
    if record is None:
        return Options(())
    keys = tuple(answer.key for answer in record.field.answers)
    if record.field.kind == "boolean":
        return Options(keys, ("no", "yes"))
    texts = texts_of_record(record)
    return Options(texts, () if texts == keys else keys, ordered=references.ordered)


def is_called_probability(column: str) -> bool:
    """Return whether the name of a column says that it is a probability, score or confidence.

    Examples:
        >>> [is_called_probability(name) for name in ("y_proba", "maxScore", "p1", "price")]
        [True, True, True, False]
    """
    words = {part.lower() for part in _PARTS.findall(column)}
    return bool(words & _WORDS) or _NUMBERED.fullmatch(column) is not None


def options_option(answers: Sequence[str]) -> str | None:
    """Return the option that gives the answers in an order; None if a comma in one prevents it.

    Examples:
        >>> options_option(["yes", "no"]), options_option(["-1", "1"]), options_option(["a,b", "c"])
        ('--options yes,no', '--options=-1,1', None)
    """
    if any("," in answer or answer != answer.strip() for answer in answers):
        return None
    listed = ",".join(answers)
    return f"--options{'=' if listed.startswith('-') else ' '}{shlex.quote(listed)}"


def settle_one_number(
    known: KnownColumns, free: Sequence[str], stated: str | None = None
) -> tuple[str, int | None] | None:
    """Decide what the only number of each row is.

    Args:
        known: the table.
        free: columns without a role.
        stated: a column that the user calls the probabilities.

    Returns:
        The column, and the index of the answer that it is the probability of; None for that of the
        prediction. None if no column is called a probability and has numbers from 0 to 1.

    Raises:
        ShapeError: a column may be several things, or has numbers of one of more than two answers.
    """
    prediction = known.roles.first("prediction")
    if stated is not None:
        answer = known.index_of_name(stated) if known.is_of_two else None
        if answer is None and known.is_of_two and known.table.reading.options:
            answer = 0
        proven = [answer] if answer is not None else _proven(known, stated)
        if proven not in ([], [None]):
            return stated, proven[0]
        raise _may_be_several(known, [stated]) if known.is_of_two else _is_of_many(known, stated)
    if not known.is_of_two and prediction is None:
        return None
    for name in filter(ANSWER_COLUMN.fullmatch, free if known.is_of_two else ()):
        # Next to a prediction, numbers out of range are something else; otherwise a mistake.
        numbers, answer = known.known(name), known.index_of_name(name)
        in_range = prediction is None or all(0 <= x <= 1 for x in numbers)
        if answer is not None and numbers and in_range:
            return name, answer
    called = [name for name in free if known.are_probabilities(name)]
    called = [name for name in called if is_called_probability(name)]
    found = [(name, answer) for name in called for answer in _proven(known, name)]
    if len(called) == len(found) == 1:
        return found[0]
    # Who names the column of predictions has said what the answers are.
    if not called or "prediction" in known.table.reading.columns:
        return None
    raise _may_be_several(known, called)


def _is_of_many(known: KnownColumns, column: str) -> ShapeError:
    answers = ", ".join(known.answers[:8]) or "not known"
    message = (
        f"{known.table.source}: {column} has one number per row: that is the probability of one of "
        f"two answers, and the answers are {answers}"
    )
    prediction = known.roles.first("prediction")
    if prediction is not None:
        sure, ignored = (columns_option(role, [column]) for role in ("confidence", IGNORED))
        return ShapeError(
            f"{message}. If it is the confidence of {prediction}: {sure}; if not: {ignored}"
        )
    message += ". Name a column for each of them: --columns probabilities=NAME+NAME"
    if not known.answers:
        named = columns_option("probabilities", [column])
        message += f", or the answers, that of this column first: {named} --options NAME,NAME"
    return ShapeError(message)


def _proven(known: KnownColumns, column: str) -> list[int | None]:
    """Return the only reading that no prediction contradicts; nothing if several or none are left.

    As the probability of an answer, the number has to be above 1/2 and below it, in some rows each.
    """
    fitting, numbers = _fitting(known, column), known.known(column)
    if len(fitting) != 1:
        return []
    both = known.is_of_two and min(numbers) < _EVEN < max(numbers)
    return fitting if both or fitting == [None] else []


def _fitting(known: KnownColumns, column: str) -> list[int | None]:
    """Return the answers that a number may be the probability of, and None for the prediction."""
    numbers, n = known.numbers(column) or [], max(2, len(known.answers))
    has_prediction = known.roles.first("prediction") is not None
    correct = known.roles.first("correct")
    if has_prediction:
        said = known.indices("prediction")
    elif correct is not None and known.is_of_two:  # whether the answer is right says which it is
        pairs = zip(known.indices("reference"), known.entries.column(correct), strict=True)
        said = [
            None
            if right is None or cell in (None, "")
            else right
            if str(cell).strip().lower() in _TRUE
            else 1 - right
            for right, cell in pairs
        ]
    else:
        return [*range(len(known.answers))]
    least = min(known.known(column), default=0.0)
    fitting: list[int | None] = [None] if has_prediction and least >= round(1 / n, 2) else []
    for answer in range(len(known.answers)):
        rows = zip(numbers, said, strict=True)
        if all(_agrees(number, index, answer, n) for number, index in rows):
            fitting.append(answer)
    return fitting


def _agrees(number: float | None, said: int | None, answer: int, n: int) -> bool:
    """Return whether a prediction may be the most probable answer, given the probability of one."""
    if number is None or said is None or number == _EVEN:
        return True
    if number > _EVEN:
        return said == answer
    return said != answer or (n > 2 and number >= 1 / n)


def _may_be_several(known: KnownColumns, columns: Sequence[str]) -> ShapeError:
    """Return the question what columns are, with options that decide."""
    reference, prediction = map(known.roles.first, ("reference", "prediction"))
    readings = [each for column in columns for each in _readings(known, column)]
    if prediction is not None:
        readings.append(("no probability", columns_option(IGNORED, columns)))
    may_be = ", or ".join(dict.fromkeys(what for what, _ in readings))
    cells = {
        name: entry.value.get(name)
        for entry in known.entries.entries[:1]
        for name in (reference, prediction, *columns)
        if name is not None
    }
    row = ", ".join(f"{name} = {dumps(cell)}" for name, cell in cells.items())
    decide = " or ".join(option for _, option in readings)
    verb = "has" if len(columns) == 1 else "have"
    message = (
        f"{known.table.source}: {' and '.join(columns)} {verb} one number per row, which may be "
        f"{may_be}. The first row has {row}. {f'Decide with {decide}' if decide else ''}"
    )
    unlabelled = prediction is None and reference == "answer"
    return ShapeError(message.rstrip() + (IF_UNLABELLED if unlabelled else ""))


def _readings(known: KnownColumns, column: str) -> list[tuple[str, str]]:
    """Return what a column may be, in words with the option that says so.

    Readings that a prediction contradicts are left out, unless all are contradicted: then the
    column of predictions is left out.
    """
    fitting, prediction = _fitting(known, column), known.roles.first("prediction")
    answers = [answer for answer in fitting if answer is not None]
    named: dict[str, tuple[str, ...]] = {"probabilities": (column,)}
    if prediction is not None and not fitting:
        answers = [*range(len(known.answers))]
        named[IGNORED] = (prediction,)
    numbers, right = known.numbers(column) or [], known.indices("reference")
    readings = []
    for answer in reversed(answers) if known.is_of_two else ():
        order = options_option((known.answers[answer], known.answers[1 - answer]))
        hits = [
            (answer if number > _EVEN else 1 - answer) == index
            for number, index in zip(numbers, right, strict=True)
            if number is not None and index is not None
        ]
        share = f" (then {sum(hits) / len(hits):.1%} are right)" if hits else ""
        if order is not None:
            what = f"the probability of {known.answers[answer]}{share}"
            readings.append((what, f"{roles_option(named)} {order}"))
    if prediction is not None and (None in fitting or not known.answers):
        option = columns_option("confidence", [column])
        readings.append((f"the confidence of {prediction}", option))
    return readings
