"""Precision, recall and F1 of every answer, and which answers are taken for which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.per_answer import AnswerRates, QuestionAnswers, question_answers
from pact_eval.evaluation.registry import SINGLE, MetricDecoding, MetricSpec
from pact_eval.evaluation.run_records import cut, item_texts
from pact_eval.numbers import UNDEFINED
from pact_eval.plain_text import one_line, short_names
from pact_reports.request import Request
from pact_reports.table import Cell, Column, ColumnOf, Part, Table, make_table
from pact_reports.tables.cells import (
    count_cell,
    count_column,
    decoding_words,
    metric_column,
    run_columns,
    value_cell,
    with_interval,
)

MOST_ANSWERS: Final = 12
"""Questions with more answers, and several questions, have a list of mistakes, and no matrix."""

_MISTAKES: Final = 10
_LONGEST_NAME: Final = 24
_LONGEST_HEAD: Final = 16
_MEANING: Final = (
    "Right: answers to items whose right answer it is; given: how often it is given. Precision: "
    "share of the given that is right; recall: share of the right that is given; F1: their "
    "harmonic mean. Macro F1: mean of F1 over the answers that are right or given at least once."
)
_BRACKETS: Final = "In brackets: 95% interval over families, left out if there is none."


Answered = tuple[ExperimentRun | None, QuestionAnswers]
"""The answers to one question, and the run that gave them; None if it is alone."""


def answers_parts(questions: Sequence[QuestionAnswers]) -> Iterator[Part]:
    """Lay out the answers of one run: precision, recall and F1, then the mistakes.

    Args:
        questions: those whose items have the same answers; without any, there is no part.
    """
    if questions:
        answered: list[Answered] = [(None, question) for question in questions]
        yield answers_table(answered, KEYS)
        yield confusion_table(answered, KEYS)


def build_answers(request: Request) -> Table:
    """Make the table of precision, recall and F1 of every answer of runs.

    Raises:
        InputError: the runs do not compare, or no question has the same answers for all items.
    """
    return answers_table(_answered(request), request.names, MetricDecoding(request.decoding))


def build_confusion(request: Request) -> Table:
    """Make the table of which answers runs take for which; errors as `build_answers`."""
    return confusion_table(_answered(request), request.names, MetricDecoding(request.decoding))


def _answered(request: Request) -> list[Answered]:
    answered: list[Answered] = [
        (run, question)
        for run in request.comparable
        for question in question_answers(
            run, run.scored(request.decoding), item_texts(run, request.data)
        )
    ]
    if not answered:
        raise InputError("no question has the same answers for all of its items")
    return answered


def answers_table(
    answered: Sequence[Answered], names: ArmNames, decoding: MetricDecoding = SINGLE
) -> Table:
    """Lay out precision, recall and F1: one row per answer, and one of macro F1 per question.

    Args:
        answered: one or more.
        names: display names of arms.
        decoding: of the answers.
    """
    keys, of_question, caption = _keys(answered, names, decoding)
    rows = [(one, answer) for one in answered for answer in (*one[1].answers, None)]

    def rate(name: str, title: str) -> ColumnOf[tuple[Answered, AnswerRates | None]]:
        spec = MetricSpec(name, title, "percent", 1)

        def cell(row: tuple[Answered, AnswerRates | None]) -> Cell:
            (_, question), answer = row
            if answer is None and name != "f1":
                return Cell("")
            estimate = question.macro_f1 if answer is None else getattr(answer, name)
            value = value_cell(estimate.value, spec, estimate.reason)
            return with_interval(value, estimate, spec)

        return metric_column(spec, decoding), cell

    return make_table(
        "answers",
        rows,
        *((head, lambda row, key=key: key(row[0])) for head, key in keys),
        (
            Column("Answer", "left"),
            lambda row: "macro F1" if row[1] is None else _name_cell(row[1].name),
        ),
        (count_column("Right"), lambda row: count_cell(row[1].right) if row[1] else ""),
        (count_column("Given"), lambda row: count_cell(row[1].given) if row[1] else ""),
        rate("precision", "Precision"),
        rate("recall", "Recall"),
        rate("f1", "F1"),
        rule=lambda row: id(row[0]),
        title=f"Precision, recall and F1 of every answer{of_question}",
        caption=f"{caption}Rates in %." if caption else "",
        notes=(_MEANING,),
        brackets=_BRACKETS if caption else "",
        keys=len(keys) + 1,
    )


def confusion_table(
    answered: Sequence[Answered], names: ArmNames, decoding: MetricDecoding = SINGLE
) -> Table:
    """Lay out how often each answer is given where each is right, or the most frequent mistakes.

    Args:
        answered: one or more.
        names: display names of arms.
        decoding: of the answers.
    """
    keys, of_question, caption = _keys(answered, names, decoding)
    runs = {None if run is None else run.label for run, _ in answered}
    small = all(len(question.answers) <= MOST_ANSWERS for _, question in answered)
    made = _matrix if small and len(answered) == len(runs) else _mistakes
    return replace(
        made(answered, keys, caption), title=f"Right answers and given answers{of_question}"
    )


def _matrix(
    answered: Sequence[Answered], keys: Sequence[ColumnOf[Answered]], caption: str
) -> Table:
    answers = answered[0][1].answers
    heads = short_names([answer.name for answer in answers], _LONGEST_HEAD)

    def count(row: tuple[Answered, int], at: int) -> Cell:
        (_, question), right = row
        n = int(question.confusion[right, at])
        return Cell(f"{n:,}", (n,), tone="strong" if at == right else None)

    return make_table(
        "confusion",
        [(one, right) for one in answered for right in range(len(one[1].answers))],
        *((head, lambda row, key=key: key(row[0])) for head, key in keys),
        (Column("Right", "left"), lambda row: _name_cell(row[0][1].answers[row[1]].name)),
        *(
            (Column(head, numbers=(f"given {one_line(answer.name)}",)), partial(count, at=at))
            for at, (head, answer) in enumerate(zip(heads, answers, strict=True))
        ),
        rule=lambda row: id(row[0]),
        caption=f"{caption}Each row: how often each answer is given where this one is right.",
        keys=len(keys) + 1,
    )


def _mistakes(
    answered: Sequence[Answered], keys: Sequence[ColumnOf[Answered]], caption: str
) -> Table:
    return make_table(
        "confusion",
        [(one, mistake) for one in answered for mistake in one[1].mistakes(_MISTAKES)],
        *((head, lambda row, key=key: key(row[0])) for head, key in keys),
        (Column("Right", "left"), lambda row: _name_cell(row[1].right)),
        (Column("Given", "left"), lambda row: _name_cell(row[1].given)),
        (count_column("Times"), lambda row: count_cell(row[1].times)),
        (count_column("Of"), lambda row: count_cell(row[1].of)),
        rule=lambda row: id(row[0]),
        caption=f"{caption}The {_MISTAKES} most frequent mistakes of each question.",
        keys=len(keys) + 1,
    )


def _keys(
    answered: Sequence[Answered], names: ArmNames, decoding: MetricDecoding
) -> tuple[list[ColumnOf[Answered]], str, str]:
    """Return the columns that name run and question, the only question, and the decoding of runs.

    A run that is alone has no columns, and its decoding is not named.
    """
    keys: list[ColumnOf[Answered]] = []
    caption = ""
    if answered[0][0] is not None:
        (arm, arm_of), (seed, seed_of) = run_columns(names)
        keys = [
            (arm, lambda one: arm_of(one[0]) if one[0] else ""),
            (seed, lambda one: seed_of(one[0]) if one[0] else ""),
        ]
        caption = f"Decoding: {decoding_words(decoding)}. "
    if len(answered) > len({None if run is None else run.label for run, _ in answered}):
        column = Column("Question", "left", width=0.3, cut=True)
        keys.append((column, lambda one: one_line(one[1].question) or UNDEFINED))
    texts = {question.question for _, question in answered}
    text = texts.pop() if len(texts) == 1 else ""
    short = one_line(cut(" ".join(text.split()), 2 * _LONGEST_NAME))
    return keys, f" ({short})" if text else "", caption


def _name_cell(name: str) -> Cell:
    (text,) = short_names([name], _LONGEST_NAME)
    return Cell(text, data=one_line(name))
