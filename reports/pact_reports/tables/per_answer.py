"""Precision, recall and F1 of every answer, and which answers are taken for which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.per_answer import AnswerRates, QuestionAnswers, question_answers
from pact_eval.evaluation.registry import SINGLE, MetricDecoding, MetricSpec
from pact_eval.evaluation.run_records import cut, item_texts
from pact_eval.numbers import UNDEFINED
from pact_eval.plain_text import one_line, short_names
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Part, Row, Table, table_row
from pact_reports.tables.cells import (
    RUN_COLUMNS,
    arm_cell,
    count_cell,
    count_column,
    decoding_words,
    metric_column,
    seed_cell,
    value_cell,
    with_interval,
)

MOST_ANSWERS: Final = 12
"""Questions with more answers, and several questions, have a list of mistakes, and no matrix."""

_MISTAKES: Final = 10
_LONGEST_NAME: Final = 24
_LONGEST_HEAD: Final = 16
_RATES: Final = (
    MetricSpec("precision", "Precision", "percent", 1),
    MetricSpec("recall", "Recall", "percent", 1),
    MetricSpec("f1", "F1", "percent", 1),
)
_MEANING: Final = (
    "Right: answers to items whose right answer it is; given: how often it is given. Precision: "
    "share of the given that is right; recall: share of the right that is given; F1: their "
    "harmonic mean. Macro F1: mean of F1 over the answers that are right or given at least once."
)
_BRACKETS: Final = "In brackets: 95% interval over families, left out if there is none."


@dataclass(frozen=True)
class RunAnswers:
    """The answers of one run by question, and the cells that name the run; none if it is alone."""

    keys: tuple[Cell, ...]
    questions: Sequence[QuestionAnswers]


def answers_parts(questions: Sequence[QuestionAnswers]) -> Iterator[Part]:
    """Lay out the answers of one run: precision, recall and F1, then the mistakes.

    Args:
        questions: those whose items have the same answers; without any, there is no part.
    """
    if not questions:
        return
    run = RunAnswers((), questions)
    yield answers_table([run])
    yield confusion_table([run])


def build_answers(request: Request) -> Table:
    """Make the table of precision, recall and F1 of every answer of runs.

    Raises:
        InputError: the runs do not compare, or no question has the same answers for all items.
    """
    return answers_table(_runs(request), MetricDecoding(request.decoding))


def build_confusion(request: Request) -> Table:
    """Make the table of which answers runs take for which; errors as `build_answers`."""
    return confusion_table(_runs(request), MetricDecoding(request.decoding))


def _runs(request: Request) -> list[RunAnswers]:
    runs = []
    for run in request.comparable:
        texts = item_texts(run, request.data)
        questions = question_answers(run, run.scored(request.decoding), texts)
        keys = (arm_cell(run.arm, request.names), seed_cell(run.seed))
        runs.append(RunAnswers(keys, questions))
    if not any(run.questions for run in runs):
        raise InputError("no question has the same answers for all of its items")
    return runs


def answers_table(runs: Sequence[RunAnswers], decoding: MetricDecoding = SINGLE) -> Table:
    """Lay out precision, recall and F1: one row per answer, and one of macro F1 per question.

    Args:
        runs: one or more.
        decoding: of the answers.
    """
    several = any(len(run.questions) > 1 for run in runs)
    rows: list[Row] = []
    for run in runs:
        for question in run.questions:
            keys = (*run.keys, *([_question_cell(question)] if several else []))
            rows.append(Row((*keys, *_cells(question.answers[0])), rule=bool(rows)))
            rows += [Row((*keys, *_cells(answer))) for answer in question.answers[1:]]
            rows.append(Row((*keys, *_macro_cells(question))))
    named = [*_run_columns(runs), *([_question_column()] if several else [])]
    return Table(
        name="answers",
        title=f"Precision, recall and F1 of every answer{_of_one_question(runs)}",
        caption=f"Decoding: {decoding_words(decoding)}. Rates in %." if _run_columns(runs) else "",
        columns=(
            *named,
            Column("Answer", "left"),
            *map(count_column, ("Right", "Given")),
            *(metric_column(spec, decoding) for spec in _RATES),
        ),
        rows=tuple(rows),
        notes=(_MEANING,),
        brackets=_BRACKETS if _run_columns(runs) else "",
        keys=len(named) + 1,
    )


def _cells(answer: AnswerRates) -> tuple[Cell, ...]:
    estimates = (answer.precision, answer.recall, answer.f1)
    return (
        _name_cell(answer.name),
        count_cell(answer.right),
        count_cell(answer.given),
        *(
            with_interval(value_cell(rate.value, spec, rate.reason), rate, spec)
            for rate, spec in zip(estimates, _RATES, strict=True)
        ),
    )


def _macro_cells(question: QuestionAnswers) -> tuple[Cell, ...]:
    macro, spec = question.macro_f1, _RATES[-1]
    cell = with_interval(value_cell(macro.value, spec, macro.reason), macro, spec)
    return (Cell("macro F1"), *(Cell("") for _ in range(4)), cell)


def confusion_table(runs: Sequence[RunAnswers], decoding: MetricDecoding = SINGLE) -> Table:
    """Lay out how often each answer is given where each is right, or the most frequent mistakes.

    Args:
        runs: one or more.
        decoding: of the answers.
    """
    named = _run_columns(runs)
    columns, rows, caption = (_matrix if _as_matrix(runs) else _mistakes)(runs)
    words = f"Decoding: {decoding_words(decoding)}. " if named else ""
    return Table(
        name="confusion",
        title=f"Right answers and given answers{_of_one_question(runs)}",
        caption=f"{words}{caption}",
        columns=(*named, *columns),
        rows=tuple(rows),
        keys=len(named) + 1,
    )


_Layout = tuple[list[Column], list[Row], str]


def _matrix(runs: Sequence[RunAnswers]) -> _Layout:
    answers = runs[0].questions[0].answers
    columns = [Column("Right", "left")]
    heads = short_names([answer.name for answer in answers], _LONGEST_HEAD)
    columns += [
        Column(head, numbers=(f"given {one_line(answer.name)}",))
        for head, answer in zip(heads, answers, strict=True)
    ]
    rows = []
    for run in runs:
        counts = run.questions[0].confusion.tolist()
        for at, (answer, line) in enumerate(zip(answers, counts, strict=True)):
            cells = [
                Cell(f"{count:,}", (count,), tone="strong" if at == column else None)
                for column, count in enumerate(line)
            ]
            rows.append(Row((*run.keys, _name_cell(answer.name), *cells), rule=not at))
    return columns, rows, "Each row: how often each answer is given where this one is right."


def _mistakes(runs: Sequence[RunAnswers]) -> _Layout:
    several = any(len(run.questions) > 1 for run in runs)
    columns = [_question_column()] if several else []
    columns += [Column("Right", "left"), Column("Given", "left")]
    columns += map(count_column, ("Times", "Of"))
    rows: list[Row] = []
    for run in runs:
        for question in run.questions:
            asked = [_question_cell(question)] if several else []
            for at, mistake in enumerate(question.mistakes(_MISTAKES)):
                names, counts = (mistake.right, mistake.given), (mistake.times, mistake.of)
                cells = (*map(_name_cell, names), *map(count_cell, counts))
                rows.append(table_row(*run.keys, *asked, *cells, rule=bool(rows) and not at))
    return columns, rows, f"The {_MISTAKES} most frequent mistakes of each question."


def _as_matrix(runs: Sequence[RunAnswers]) -> bool:
    return all(
        len(run.questions) == 1 and len(run.questions[0].answers) <= MOST_ANSWERS for run in runs
    )


def _run_columns(runs: Sequence[RunAnswers]) -> tuple[Column, ...]:
    return RUN_COLUMNS if runs[0].keys else ()


def _of_one_question(runs: Sequence[RunAnswers]) -> str:
    """Name the question of a table that has no column of questions."""
    texts = {question.question for run in runs for question in run.questions}
    text = texts.pop() if len(texts) == 1 else ""
    return f" ({_short(text, 2 * _LONGEST_NAME)})" if text else ""


def _question_column() -> Column:
    return Column("Question", "left", width=0.3, cut=True)


def _question_cell(question: QuestionAnswers) -> Cell:
    return Cell(one_line(question.question) or UNDEFINED)


def _name_cell(name: str) -> Cell:
    (text,) = short_names([name], _LONGEST_NAME)
    return Cell(text, data=one_line(name))


def _short(text: str, longest: int = _LONGEST_NAME) -> str:
    return one_line(cut(" ".join(text.split()), longest))
