"""Drafts of records, into which every shape translates its entries, and the reading of answers.

A draft has a question and its answer as the file writes them. `records_of_draft` in `records.py`
makes records of it, with defaults for what the file does not name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pact_eval._json import Json, describe, dumps
from pact_eval.data.records import Answer, Field

__all__ = [
    "LABELS",
    "AskedQuestion",
    "Draft",
    "DraftError",
    "ShapeName",
    "as_object",
    "as_text",
    "own_labels",
    "remaining",
    "short",
    "target_of",
]

LABELS: Final = ("id", "family", "source_family", "split", "domain", "variant")
"""What a record names besides its state, its question and its answer."""

ShapeName = str
"""Name of a shape, for `--shape`."""

_NO: Final = frozenset({"false", "no", "n", "0"})
_YES: Final = frozenset({"true", "yes", "y", "1"})


class DraftError(ValueError):
    """One entry cannot be translated.

    Args:
        message: what was expected and found, and what to do.
        kind: what sort of problem it is, in the plural.
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question of an entry, as the file writes it.

    Attributes:
        name: its name among the questions of the entry; None if it has none.
        question: `{"type", "instructions", "criteria"}`.
        answer: the right answer; see `target_of`.
    """

    name: str | None
    question: Json
    answer: Json


@dataclass(frozen=True)
class Draft:
    """One entry, translated.

    Attributes:
        state: the context.
        questions: its questions with their answers.
        labels: those of `LABELS` that the entry names.
        metadata: its further columns.
        left_out: questions without one right answer, counted by the reason.
        always_named: whether the ids of records end with the name of the question even if there is
            only one.
    """

    state: Json
    questions: Sequence[AskedQuestion]
    labels: Mapping[str, str]
    metadata: Mapping[str, Json]
    left_out: Mapping[str, int] = field(default_factory=dict)
    always_named: bool = False


def target_of(field_: Field, answer: Json, levels_from: int = 0) -> str | bool | int:
    """Return an answer as the full format writes it.

    Args:
        field_: the question.
        answer: the key of a choice; true or false, also as text or as yes and no; a level, also as
            text or as its description.
        levels_from: number of the first level.

    Raises:
        DraftError: it is not one of the allowed answers.

    Examples:
        >>> from pact_eval.data.records import parse_field
        >>> open_ = parse_field("open", {"type": "noul", "instructions": "Is the gate open?"})
        >>> target_of(open_, "yes"), target_of(open_, False)
        (True, False)
    """
    text = _text_of(answer)
    keys = [option.key for option in field_.answers]
    if field_.kind == "choice" and text in keys and not isinstance(answer, bool):
        return str(text)
    if field_.kind == "boolean" and text is not None and text.strip().lower() in _NO | _YES:
        return text.strip().lower() in _YES
    if field_.kind == "score" and text is not None and not isinstance(answer, bool):
        level = _level(field_.answers, text, levels_from)
        if level is not None:
            return level
    last = len(keys) - 1 + levels_from
    expected = {"boolean": "true or false", "score": f"a level from {levels_from} to {last}"}
    allowed = expected.get(field_.kind, f"one of {_listed(keys)}")
    got = "null" if answer is None else short(answer)
    message = f"expected {allowed}, got {got}; correct the answer, or add it to the options"
    raise DraftError(message, "answers outside the options")


def _text_of(answer: Json) -> str | None:
    if isinstance(answer, bool):
        return "true" if answer else "false"
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    return str(answer) if isinstance(answer, str | int) else None


def _level(answers: Sequence[Answer], text: str, first: int) -> int | None:
    """Return the level that a text names: its number, or the description of one level."""
    number = text.strip()
    if number.isascii() and number.isdigit() and len(number) < 5:
        level = int(number) - first
        if 0 <= level < len(answers):
            return level
    described = [level for level, option in enumerate(answers) if option.description == text]
    return described[0] if len(described) == 1 else None


def as_object(value: Json, name: str) -> dict[str, Json]:
    """Return a JSON object.

    Raises:
        DraftError: it is something else.
    """
    if isinstance(value, dict):
        return value
    message = f"{name}: expected an object, got {describe(value)}; see docs/labelled.md"
    raise DraftError(message, "values of another type")


def as_text(value: Json) -> str | None:
    """Return text or a number as text; None for anything else and for empty text.

    Examples:
        >>> as_text(7), as_text("a"), as_text(""), as_text(None)
        ('7', 'a', None, None)
    """
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(value)


def own_labels(entry: Mapping[str, Json], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the labels that an entry names.

    Args:
        entry: its values.
        names: by label, the name of the value; None takes equal names.

    Raises:
        DraftError: one of them is not text.
    """
    labels: dict[str, str] = {}
    for label, name in (names or dict(zip(LABELS, LABELS, strict=True))).items():
        if entry.get(name) is None:
            continue
        text = as_text(entry[name])
        if text is None:
            message = f"{name}: expected text, got {short(entry[name])}; write text or leave it out"
            raise DraftError(message, "values of another type")
        labels[label] = text
    return labels


def remaining(entry: Mapping[str, Json], *used: str) -> dict[str, Json]:
    """Return the further columns of an entry."""
    return {name: value for name, value in entry.items() if name not in used}


def short(value: Json, limit: int = 60) -> str:
    """Return a value as JSON, cut.

    Examples:
        >>> short("a"), short("a" * 100, 10)
        ('"a"', '"aaaaaa...')
    """
    text = dumps(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _listed(keys: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(short(key, 43) for key in keys[:limit])
    return f"{shown}, ... ({len(keys)} in all)" if len(keys) > limit else shown
