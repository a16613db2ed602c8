"""Tables with one number per row, such as `predict_proba(X)[:, 1]`: what the number is.

With two answers, it is the probability of one of them, and the other has the rest. A column that is
called after an answer (p_1, prob_yes) is of that answer. Any other column that is called a
probability, a score or a confidence may be of either answer, or the confidence of the prediction:
the predictions of all rows may prove which; otherwise it is a question.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import TEXT, Options, of_texts
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import IGNORED, columns_option, roles_option
from pact_eval.errors import ShapeError
from pact_eval.importing.labels_file import NO_LABELS
from pact_eval.importing.table_cells import numbers_in

ANSWER_COLUMN: Final = re.compile(
    r"(p|pr|prob|proba|probability|logprob|logit)[_.](.+)", re.DOTALL | re.IGNORECASE
)
"""A column of numbers for one answer, and the name of the answer."""

_WORDS: Final = frozenset(
    {"prob", "probs", "proba", "probas", "probability", "score", "scores", "confidence", "conf"}
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_NUMBERED: Final = re.compile(r"p[_.]?\d*", re.IGNORECASE)
_EVEN: Final = 0.5
_LEAST_PERCENT: Final = 1.5


@dataclass(frozen=True)
class OneNumber:
    """What a column with one number per row is.

    Attributes:
        column: its name.
        answer: the answer that it is the probability of; None if it is of the prediction.
        rest: the other answer.
    """

    column: str
    answer: str | None = None
    rest: str | None = None


@dataclass(frozen=True)
class Question:
    """A table, and what is known of it.

    Attributes:
        source: name of the file, for messages.
        entries: its rows.
        answers: the answers of every row; empty if they are not known or differ between rows.
        stated: whether `answers` are in an order that the user states.
        reference: column of the right answer.
        prediction: column of the answer of the model.
        correct: column that says whether it is right.
    """

    source: str
    entries: Entries
    answers: Sequence[str]
    stated: bool
    reference: str | None
    prediction: str | None
    correct: str | None

    @property
    def is_of_two(self) -> bool:
        """Whether there are two answers."""
        return len(self.answers) == 2

    def indices(self, column: str | None) -> list[int | None]:
        """Return the index of the answer in every cell of a column, by its text."""
        options = Options(tuple(self.answers))
        cells = self.entries.column(column)
        return of_texts(lambda cell: options.index(cell, TEXT), cells)

    def of_answer(self, column: str, answer: int) -> OneNumber:
        """Return a column as the probability of an answer by its index."""
        return OneNumber(column, self.answers[answer], self.answers[1 - answer])

    def named_by(self, column: str) -> int | None:
        """Return the index of the answer that a column is called after; None if there is none."""
        match = ANSWER_COLUMN.fullmatch(column)
        name = match[2].strip("()[] ") if match else column
        return Options(tuple(self.answers)).index(name, TEXT) if self.is_of_two else None


def is_called_probability(column: str) -> bool:
    """Return whether the name of a column says that it is a probability, score or confidence.

    Examples:
        >>> [is_called_probability(name) for name in ("y_proba", "maxScore", "p1", "price")]
        [True, True, True, False]
    """
    words = {part.lower() for part in _PARTS.findall(column)}
    return bool(words & _WORDS) or _NUMBERED.fullmatch(column) is not None


def numbers_of(entries: Entries, column: str) -> list[float | None] | None:
    """Return the number in each cell of a column; None if a cell has something else, or none has.

    Examples:
        >>> from pact_eval.data.labelled.entries import Entry
        >>> numbers_of(Entries("CSV", [Entry(1, {"p": "0,5"}), Entry(2, {})]), "p")
        [0.5, None]
    """
    try:
        numbers = numbers_in(entries.column(column))
    except ValueError:
        return None
    return numbers if any(number is not None for number in numbers) else None


def is_in_percent(entries: Entries, column: str | None) -> bool:
    """Return whether confidences are in percent: all are above 1 and one is above 1.5."""
    numbers = None if column is None else numbers_of(entries, column)
    known = [number for number in numbers or () if number is not None]
    return bool(known) and all(1 < x <= 100 for x in known) and max(known) > _LEAST_PERCENT


def has_unlikely(entries: Entries, column: str) -> bool:
    """Return whether a column has numbers below 1/2, which no chosen one of two answers has."""
    return any(x is not None and x < _EVEN for x in numbers_of(entries, column) or ())


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
    question: Question, columns: Sequence[str], stated: str | None = None, *, asks: bool = True
) -> OneNumber | None:
    """Decide what the only number of each row is.

    Args:
        question: the table.
        columns: columns without a role.
        stated: a column that the user calls the probabilities.
        asks: whether a column that may be several things is a question; otherwise it is none.

    Returns:
        None if no column is called a probability and has numbers from 0 to 1.

    Raises:
        ShapeError: a column may be several things, or has numbers of one of more than two answers.
    """
    if stated is not None:
        return _settle_stated(question, stated)
    if not question.is_of_two and question.prediction is None:
        return None
    for name in filter(ANSWER_COLUMN.fullmatch, columns):
        answer = question.named_by(name)
        if answer is not None and _may_be_probabilities(question, name):
            return question.of_answer(name, answer)
    between = [name for name in columns if _are_probabilities(question.entries, name)]
    called = [name for name in between if is_called_probability(name)]
    if not called:
        return None
    proven = [each for name in called if (each := _proven(question, name)) is not None]
    if len(called) == len(proven) == 1:
        return proven[0]
    if not asks:
        return None
    raise _may_be_several(question, called)


def _settle_stated(question: Question, column: str) -> OneNumber:
    answer = question.named_by(column)
    if answer is None and question.stated and question.is_of_two:
        answer = 0
    proven = None if answer is not None else _proven(question, column)
    if answer is not None:
        return question.of_answer(column, answer)
    if proven is not None and proven.answer is not None:
        return proven
    if question.is_of_two:
        raise _may_be_several(question, [column])
    answers = ", ".join(question.answers[:8]) or "not known"
    message = (
        f"{question.source}: {column} has one number per row: that is the probability of one of "
        f"two answers, and the answers are {answers}"
    )
    if question.prediction is not None:
        message += (
            f". If it is the confidence of {question.prediction}: "
            f"{columns_option('confidence', [column])}; if not: {columns_option(IGNORED, [column])}"
        )
    else:
        message += ". Name a column for each of them: --columns probabilities=NAME+NAME"
        if not question.answers:
            named = columns_option("probabilities", [column])
            message += f", or the answers, that of this column first: {named} --options NAME,NAME"
    raise ShapeError(message)


def _may_be_probabilities(question: Question, column: str) -> bool:
    """Return whether numbers of a column called after an answer can be its probability.

    Next to a prediction, numbers out of range are something else; otherwise they are a mistake.
    """
    known = [x for x in numbers_of(question.entries, column) or () if x is not None]
    return bool(known) and (question.prediction is None or all(0 <= x <= 1 for x in known))


def _are_probabilities(entries: Entries, column: str) -> bool:
    """Return whether a column has numbers from 0 to 1, and not only 0 and 1."""
    known = [number for number in numbers_of(entries, column) or () if number is not None]
    return all(0 <= x <= 1 for x in known) and any(0 < x < 1 for x in known)


def _proven(question: Question, column: str) -> OneNumber | None:
    """Return the only reading that no prediction contradicts; None if several or none are left.

    As the probability of an answer, the number has to be above 1/2 and below it, in some rows each.
    """
    fitting = _fitting(question, column)
    if len(fitting) != 1:
        return None
    (answer,) = fitting
    if answer is None:
        return OneNumber(column)
    numbers = [x for x in numbers_of(question.entries, column) or () if x is not None]
    both = question.is_of_two and min(numbers) < _EVEN < max(numbers)
    return question.of_answer(column, answer) if both else None


def _fitting(question: Question, column: str) -> list[int | None]:
    """Return the answers that a number may be the probability of, and None for the prediction."""
    numbers = numbers_of(question.entries, column) or []
    said, right = question.indices(question.prediction), question.indices(question.reference)
    n = max(2, len(question.answers))
    fitting: list[int | None] = []
    least = min((x for x in numbers if x is not None), default=0.0)
    if question.prediction is not None and least >= round(1 / n, 2):
        fitting.append(None)
    if question.prediction is None and (question.correct is None or not question.is_of_two):
        return [*range(len(question.answers))]
    for answer in range(len(question.answers)):
        if question.prediction is not None:
            rows = zip(numbers, said, strict=True)
            agrees = all(_agrees(x, index, answer, n) for x, index in rows)
        else:
            hits = question.entries.column(question.correct)
            rows_of_hits = zip(numbers, right, hits, strict=True)
            agrees = all(_is_hit(x, index, answer, hit) for x, index, hit in rows_of_hits)
        if agrees:
            fitting.append(answer)
    return fitting


def _agrees(number: float | None, said: int | None, answer: int, n: int) -> bool:
    """Return whether a prediction may be the most probable answer, given the probability of one."""
    if number is None or said is None or number == _EVEN:
        return True
    if number > _EVEN:
        return said == answer
    return said != answer or (n > 2 and number >= 1 / n)


def _is_hit(number: float | None, right: int | None, answer: int, correct: Json) -> bool:
    """Return whether a column that says whether the answer is right agrees, of two answers."""
    if number is None or right is None or number == _EVEN or correct in (None, ""):
        return True
    top = answer if number > _EVEN else 1 - answer
    word = str(correct).strip().lower()
    return (word in ("1", "1.0", "true", "yes")) == (top == right)


def _may_be_several(question: Question, columns: Sequence[str]) -> ShapeError:
    """Return the question what columns are, with options that decide."""
    column = columns[0]
    readings = [*_readings(question, column)]
    for other in columns[1:]:
        readings += [*_readings(question, other)]
    if question.prediction is not None:
        readings.append(("no probability", columns_option(IGNORED, columns)))
    may_be = ", or ".join(dict.fromkeys(what for what, _ in readings))
    cells = {
        name: entry.value.get(name)
        for entry in question.entries.entries[:1]
        for name in (question.reference, question.prediction, *columns)
        if name is not None
    }
    row = ", ".join(f"{name} = {dumps(cell)}" for name, cell in cells.items())
    decide = " or ".join(option for _, option in readings)
    unlabelled = question.prediction is None and question.reference == "answer"
    no_labels = (
        f". If answer is what a model said: {NO_LABELS[0].lower()}{NO_LABELS[1:]}"
        if unlabelled
        else ""
    )
    verb = "has" if len(columns) == 1 else "have"
    message = (
        f"{question.source}: {' and '.join(columns)} {verb} one number per row, which may be "
        f"{may_be}. The first row has {row}. "
    )
    return ShapeError(f"{message}{f'Decide with {decide}' if decide else ''}".rstrip() + no_labels)


def _readings(question: Question, column: str) -> Iterator[tuple[str, str]]:
    """Yield what a column may be, in words with the option that says so.

    Readings that a prediction contradicts are left out, unless all are contradicted: then the
    column of predictions is left out.
    """
    fitting = _fitting(question, column)
    answers = [answer for answer in fitting if answer is not None]
    against = question.prediction is not None and not fitting
    named: dict[str, tuple[str, ...]] = {"probabilities": (column,)}
    if against:
        answers = [*range(len(question.answers))]
        named[IGNORED] = (str(question.prediction),)
    for answer in reversed(answers) if question.is_of_two else ():
        order = options_option((question.answers[answer], question.answers[1 - answer]))
        if order is not None:
            right = _share_right(question, column, answer)
            text = f"the probability of {question.answers[answer]}{right}"
            yield text, f"{roles_option(named)} {order}"
    if question.prediction is not None and (None in fitting or not question.answers):
        text = f"the confidence of {question.prediction}"
        yield text, columns_option("confidence", [column])


def _share_right(question: Question, column: str, answer: int) -> str:
    """Say how many answers are right if a column is the probability of an answer."""
    numbers = numbers_of(question.entries, column) or []
    pairs = [
        (answer if number > _EVEN else 1 - answer) == right
        for number, right in zip(numbers, question.indices(question.reference), strict=True)
        if number is not None and right is not None
    ]
    return f" (then {sum(pairs) / len(pairs):.1%} are right)" if pairs else ""
