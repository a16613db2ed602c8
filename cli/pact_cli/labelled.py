"""Options for reading labelled files, and the remarks of commands on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import click

from pact_cli.commands import Doc, Function, gathered, parameters_of
from pact_cli.console import announce
from pact_eval._choices import AnswerForm, PositionsFrom
from pact_eval.data.labelled.reader import LabelledData
from pact_eval.data.labelled.reading import SHAPE_NAMES, Reading, reading_of
from pact_reports.views.datasets import labelled_remarks


def make_reading(
    *,
    columns: tuple[str, ...] = (),
    shape: Annotated[str | None, click.Choice(SHAPE_NAMES)] = None,
    option_texts: Annotated[
        str | None,
        Doc(
            "--options",
            "The answers of every entry in their order, which lists of numbers have too.",
            "Data",
            metavar="A,B,...",
        ),
    ] = None,
    levels: str | None = None,
    positions_from: PositionsFrom | None = None,
    answers: AnswerForm | None = None,
    question: str | None = None,
    questions: Path | None = None,
) -> Reading:
    """Return how labelled files are read.

    Data:
        --columns ROLE=COLUMN,...: Columns of a file of others, such as state=text,reference=label,
            or a JSON object of any names, such as '{"options": ["yes, please", "no"]}'. Roles:
            state, question, options (A+B+C for one column each), reference, prediction,
            probabilities, log_probabilities, logits, confidence, correct, ignored, type, id,
            family, source_family, split, domain, variant.
        --shape: Shape of a labelled file. Default: the one that its entries have.
        --levels LOW..HIGH: The levels of a rubric, such as 1..5.
        --positions-from: Answers are positions of options, counted from 0 or from 1.
        --answers: Answers are texts of options, or letters.
        --question TEXT: The question of every entry, if a labelled file has no column of questions.
        --questions FILE: JSON file of the questions of {"state", "labels"} entries. Default:
            FILE.questions.json next to them.
    """
    return reading_of(
        columns=columns,
        shape=shape,
        options=() if option_texts is None else option_texts.split(","),
        levels=levels,
        positions_from=None if positions_from is None else int(positions_from),
        answers=answers,
        question=question,
        questions=questions,
    )


reading_options = gathered("reading", make_reading)
"""Add the options for reading labelled files; the command gets one `reading: Reading`."""


def some_reading_options(*names: str) -> Callable[[Function], Function]:
    """Add some of these options by name."""
    return gathered("reading", make_reading, parameters_of(make_reading, names))


def announce_labelled(files: Iterable[LabelledData | None]) -> None:
    """Say on stderr how labelled files were read."""
    for data in files:
        if data is not None:
            announce(labelled_remarks(data))
