"""Everything a user can say of a file of others: its shape, its columns, its answers.

`--columns state=text,reference=label` names columns by role. A column without such a role is read
by its exact name: `ROLES` and `PREDICTED` list them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypedDict

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.answers import FORMS, LETTER, POSITIONS, TEXT, Form
from pact_eval.data.labelled.entries import ENCODING, Entry, container_of, json_lines
from pact_eval.data.labelled.questions import LABELS, as_object
from pact_eval.errors import Problem, ShapeError

RECORDS_NAME: Final = "records"
"""Name of the full format among the shapes."""

SHAPE_NAMES: Final = (
    *(RECORDS_NAME, "questions", "labels", "columns", "systemone"),
    *("decision-index", "jevbench", "typed-decisions"),
)
"""The shapes that `--shape` may name."""

ANSWER_FORMS: Final = (TEXT, LETTER)
"""What `--answers` may name."""

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "state": ("state", "text", "context", "passage", "sentence"),
    "question": ("question",),
    "options": ("options", "choices"),
    "reference": (
        *("reference", "answer", "label", "answerKey", "gold", "gold_label", "target"),
        *("true_label", "truth", "y_true"),
    ),
    "type": ("type",),
    **{label: (label,) for label in LABELS},
}
"""Roles of the columns of labelled data, and the exact names that have them."""

PREDICTED: Final[Mapping[str, tuple[str, ...]]] = {
    "prediction": ("prediction", "predicted", "predicted_label", "pred", "y_pred"),
    "probabilities": (
        *("probabilities", "probs", "prob", "proba", "probability", "predict_proba"),
        *("predicted_label_probs", "scores"),
    ),
    "log_probabilities": ("log_probabilities", "logprobs", "log_probs", "top_logprobs"),
    "logits": ("logits",),
    "confidence": ("confidence", "conf"),
    "correct": ("correct", "is_correct"),
}
"""Roles of columns with the answers of a model, and the exact names that have them."""

Columns = Mapping[str, str | Sequence[str]] | Sequence[str]
"""Columns by role, or texts of `--columns`."""

IGNORED: Final = "ignored"
"""Role of columns that are not facts about the answers."""

_ALIASES: Final[Mapping[str, str]] = {"answer": "reference", "gold": "reference"}
_LISTED_ROLES: Final = frozenset(
    {"state", "options", "probabilities", "log_probabilities", "logits", IGNORED}
)

_OF_RECORDS: Final = frozenset({"source_family", "variant"})
_LEVELS: Final = re.compile(r"(-?\d{1,4})\.\.(-?\d{1,4})")


@dataclass(frozen=True)
class Reading:
    """Choices of the user for reading a file of others.

    Attributes:
        shape: name of its shape; None detects it.
        columns: by role, the columns that have it.
        question: the question of every entry, if there is no column of questions.
        questions: file of the questions of the shape "labels"; None takes FILE.questions.json.
        options: the answers of every entry in their order, if there is no column of them.
        form: how the file writes answers; see `answers.py`.
        levels: whether `options` are the levels of a rubric.
        bare: whether contexts may be missing, as in a file of right answers; ids stand for them.
        unlabelled: whether right answers are left out: what a model said is read without them.
    """

    shape: str | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    question: str | None = None
    questions: Path | None = None
    options: tuple[str, ...] = ()
    form: Form | None = None
    levels: bool = False
    bare: bool = False
    unlabelled: bool = False

    @property
    def named(self) -> bool:
        """Whether the user says anything."""
        return replace(self, bare=False, unlabelled=False) != AUTOMATIC

    def to_json(self) -> dict[str, Json]:
        """Return what the user says, for `run.json`."""
        stated = {
            "answers" if name == "form" else name: value
            for name, value in vars(self).items()
            if name != "unlabelled" and value != getattr(AUTOMATIC, name)
        }
        plain: dict[str, Json] = json.loads(json.dumps(stated, default=str))  # a path, tuples
        return plain


class ReadingOptions(TypedDict, total=False):
    """Options of `reading_of`, which documents them; they have the names of the command line."""

    shape: str | None
    columns: Columns
    question: str | None
    questions: Path | str | None
    options: Sequence[str]
    positions_from: int | None
    answers: str | None
    levels: str | None


AUTOMATIC: Final = Reading()
"""Everything is detected."""


def reading_of(
    shape: str | None = None,
    columns: Columns = (),
    question: str | None = None,
    questions: Path | str | None = None,
    options: Sequence[str] = (),
    positions_from: int | None = None,
    answers: str | None = None,
    levels: str | None = None,
) -> Reading:
    """Return how a file is read, from options.

    Args:
        shape: name of its shape; None detects it.
        columns: names of columns by role, or texts of `--columns`; see `parse_columns`.
        question: the question of every entry, if there is no column of questions.
        questions: file of the questions of the shape "labels".
        options: the answers of every entry in their order.
        positions_from: 0 or 1, if answers are positions.
        answers: "text" or "letter", if that is what answers are.
        levels: the levels of a rubric, such as "1..5".

    Raises:
        ShapeError: there is no such shape, role or form, or two options contradict each other.

    Examples:
        >>> reading_of(columns={"state": "text", "answer": "label"}).columns
        {'state': ('text',), 'reference': ('label',)}
        >>> reading_of(levels="1..3").options
        ('1', '2', '3')
    """
    if shape is not None and shape not in SHAPE_NAMES:
        raise ShapeError(f"--shape {shape}: expected one of {', '.join(SHAPE_NAMES)}")
    place = None if questions is None else Path(questions)
    form = _form(positions_from, answers)
    listed = tuple(option.strip() for option in options)
    if levels is not None:
        if listed:
            raise ShapeError("--levels and --options both give the answers; leave one out")
        listed = _levels(levels)
    if len({*listed}) < len(listed) or len(listed) == 1:
        raise ShapeError(f"--options {','.join(listed)}: expected two or more different answers")
    return Reading(
        *(shape, parse_columns(columns), question, place, listed, form), levels=levels is not None
    )


def _form(positions_from: int | None, answers: str | None) -> Form | None:
    if positions_from is None and answers is None:
        return None
    if positions_from not in (None, 0, 1) or answers not in (None, *ANSWER_FORMS):
        raise ShapeError("expected --positions-from 0 or 1, or --answers text or letter")
    if positions_from is None:
        return answers
    if answers is not None:
        raise ShapeError("--positions-from and --answers both say what answers are; leave one out")
    return POSITIONS[positions_from]


def _levels(text: str) -> tuple[str, ...]:
    ends = _LEVELS.fullmatch(text.strip())
    low, high = (int(ends[1]), int(ends[2])) if ends else (0, 0)
    if not 0 < high - low < 255:
        raise ShapeError(f"--levels {text}: expected the first and the last level, such as 1..5")
    return tuple(str(level) for level in range(low, high + 1))


def parse_columns(columns: Columns) -> dict[str, tuple[str, ...]]:
    """Read the columns of roles.

    Args:
        columns: names by role; or texts of `role=column` pairs, with commas between pairs and `+`
            between columns of one role, or of a JSON object, which may have any names.

    Raises:
        ShapeError: a pair has no `=`, an unknown role, or a role twice.

    Examples:
        >>> parse_columns(["state=text,reference=label", "options=A+B"])
        {'state': ('text',), 'reference': ('label',), 'options': ('A', 'B')}
        >>> parse_columns(['{"options": ["yes, please", "no"]}'])
        {'options': ('yes, please', 'no')}
    """
    parsed: dict[str, tuple[str, ...]] = {}
    texts = [columns] if isinstance(columns, Mapping) else columns
    for pair, name, names in (each for text in texts for each in _pairs(text)):
        role = _ALIASES.get(name, name)
        if isinstance(names, str):
            parts = names.split("+") if role in _LISTED_ROLES else [names]
            names = [part.strip() for part in parts]
        roles = (*ROLES, *PREDICTED, IGNORED)
        if role not in roles or not names or not all(names):
            message = f"--columns {pair}: expected ROLE=COLUMN, ROLE one of {', '.join(roles)}"
            raise ShapeError(f"{message}; options=A+B+C takes one column per option")
        if role in parsed or (len(names) > 1 and role not in _LISTED_ROLES):
            message = f"--columns {pair}: {role} is already {'+'.join(parsed.get(role, names[:1]))}"
            raise ShapeError(message)
        parsed[role] = tuple(names)
    return parsed


def _pairs(text: str | Mapping[str, str | Sequence[str]]) -> list[tuple[str, str, Any]]:
    """Return the pairs of one text or mapping: as given, the role, and the names of columns."""
    value: Mapping[str, Any]
    if isinstance(text, str):
        if not text.lstrip().startswith("{"):
            parts = [(pair, pair.partition("=")) for pair in text.split(",")]
            return [(pair, name.strip(), names) for pair, (name, _, names) in parts]
        try:
            value = as_object(loads(text), "--columns")
        except ValueError as error:
            message = f"--columns {text}: {error}; expected ROLE=COLUMN pairs or a JSON object"
            raise ShapeError(message) from None
    else:
        value = text
    pairs = []
    for role, names in value.items():
        listed = names if isinstance(names, list | tuple) else [names]
        are_texts = all(isinstance(name, str) for name in listed)
        pairs.append((f"{role}={names}", role, names if are_texts else ()))
    return pairs


def columns_option(role: str, names: Sequence[str]) -> str:
    r"""Return the option that names the columns of a role, as a shell takes it.

    Examples:
        >>> columns_option("options", ["wrong 1", "wrong 2"])
        "--columns 'options=wrong 1+wrong 2'"
        >>> columns_option("options", ["yes, please", "no"])
        '--columns \'{"options": ["yes, please", "no"]}\''
    """
    return roles_option({role: names})


def roles_option(roles: Mapping[str, Sequence[str]]) -> str:
    """Return the option that names the columns of several roles, as a shell takes it.

    Examples:
        >>> roles_option({"reference": ["y"], "probabilities": ["p 1", "p 2"]})
        "--columns 'reference=y,probabilities=p 1+p 2'"
    """
    text = ",".join(f"{role}={'+'.join(names)}" for role, names in roles.items())
    listed = [name for names in roles.values() for name in names]
    if any(mark in name or name != name.strip() for name in listed for mark in ",+"):
        text = dumps({role: [*names] for role, names in roles.items()})
    return f"--columns {shlex.quote(text)}"


def take_reading(options: dict[str, Any]) -> Reading:
    """Take the options of a reading out of others, and return the reading.

    Raises:
        ShapeError: as for `reading_of`.

    Examples:
        >>> options = {"levels": "0..1", "k": 4}
        >>> take_reading(options).options, options
        (('0', '1'), {'k': 4})
    """
    names = ReadingOptions.__annotations__
    return reading_of(**{name: options.pop(name) for name in names if name in options})


def reading_of_json(value: Json) -> Reading:
    """Return the reading that `LabelledData.to_json` describes; automatic if it is not one."""
    if not isinstance(value, dict) or value.get("shape") not in SHAPE_NAMES:
        return AUTOMATIC
    columns: Any = value.get("columns")
    named = columns.items() if isinstance(columns, dict) else ()
    roles = {
        _ALIASES.get(role, role): tuple(map(str, names))
        for role, names in named
        if isinstance(names, list)
    }
    question, questions = value.get("question"), value.get("questions")
    options, form = value.get("options"), value.get("answers")
    return Reading(
        str(value["shape"]),
        roles,
        question if isinstance(question, str) else None,
        Path(questions) if isinstance(questions, str) else None,
        tuple(map(str, options)) if isinstance(options, list) else (),
        str(form) if form in FORMS else None,
        levels=value.get("levels") is True,
        bare=value.get("bare") is True,
    )


def is_record(entry: Mapping[str, Json]) -> bool:
    """Return whether an entry is in the full format: its `input` is not that of BIG-bench."""
    return "input" in entry and "target_scores" not in entry


def is_labelled(path: Path, reading: Reading = AUTOMATIC) -> bool:
    """Tell whether a file is to be read by shape: it is not in the full format.

    A file of JSON lines is in the full format if its first line has an `input`, or looks like a
    record without one, or is not an object: then its own reader says what is wrong. What the user
    says of labelled files does not make a record anything else.

    Raises:
        InputError: the file cannot be read.
    """
    if reading.shape == RECORDS_NAME:
        return False
    if container_of(path) != "JSON lines":
        return True
    first = next(json_lines(path), None)
    if isinstance(first, Entry) and is_record(first.value):
        return False
    if reading.named:
        return True
    if isinstance(first, Problem):
        return first.kind == ENCODING
    return first is not None and not first.value.keys() >= _OF_RECORDS
