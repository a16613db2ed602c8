"""Options for reading labelled files, and the remarks of commands on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pact_cli.commands import LazyChoice, choice, option
from pact_cli.console import announce
from pact_cli.options import PATH, gathered
from pact_eval._choices import AnswerForm, PositionsFrom

if TYPE_CHECKING:
    from pact_eval.data.labelled.reader import LabelledData
    from pact_eval.data.labelled.reading import Reading

__all__ = ["announce_labelled", "reading_options"]


def _shape_names() -> tuple[str, ...]:
    from pact_eval.data.labelled.reading import SHAPE_NAMES

    return SHAPE_NAMES


def _reading(positions_from: str | None, option_texts: str | None, **stated: Any) -> Reading:
    from pact_eval.data.labelled.reading import reading_of

    return reading_of(
        positions_from=None if positions_from is None else int(positions_from),
        options=() if option_texts is None else option_texts.split(","),
        **stated,
    )


_OPTIONS: Final = [
    option(
        "--columns",
        group="Data",
        multiple=True,
        metavar="ROLE=COLUMN,...",
        help="Columns of a file of others, such as state=text,reference=label, or a JSON object of "
        'any names, such as \'{"options": ["yes, please", "no"]}\'. Roles: state, '
        "question, options (A+B+C for one column each), reference, prediction, probabilities, "
        "log_probabilities, logits, confidence, correct, ignored, type, id, family, "
        "source_family, split, domain, variant.",
    ),
    option(
        "--shape",
        group="Data",
        type=LazyChoice(_shape_names),
        help="Shape of a labelled file. Default: the one that its entries have.",
    ),
    option(
        "--options",
        "option_texts",
        group="Data",
        metavar="A,B,...",
        help="The answers of every entry in their order, which lists of numbers have too.",
    ),
    option(
        "--levels",
        group="Data",
        metavar="LOW..HIGH",
        help="The levels of a rubric, such as 1..5.",
    ),
    option(
        "--positions-from",
        group="Data",
        type=choice(PositionsFrom),
        help="Answers are positions of options, counted from 0 or from 1.",
    ),
    option(
        "--answers",
        group="Data",
        type=choice(AnswerForm),
        help="Answers are texts of options, or letters.",
    ),
    option(
        "--question",
        group="Data",
        metavar="TEXT",
        help="The question of every entry, if a labelled file has no column of questions.",
    ),
    option(
        "--questions",
        group="Data",
        metavar="FILE",
        type=PATH,
        help='JSON file of the questions of {"state", "labels"} entries. Default: '
        "FILE.questions.json next to them.",
    ),
]

reading_options = gathered("reading", _reading, _OPTIONS)
"""Add the options for reading labelled files; the command gets one `reading: Reading`."""


def announce_labelled(files: Iterable[LabelledData | None]) -> None:
    """Say on stderr how labelled files were read."""
    from pact_reports.views.datasets import labelled_remarks

    for data in files:
        if data is not None:
            announce(labelled_remarks(data))
