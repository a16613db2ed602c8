r"""Shape "columns": a question, its options and the answer in columns, by name.

    role       names that are tried without --columns
    state      state, context, passage, text, document, article, sentence
    question   question, instructions, instruction, query
    options    options, choices, candidates
    answer     answer, label, gold, target, answerKey, answer_key, correct_answer
    type       type, kind
    id, family, source_family, domain, split, variant

Options are a list, a list as JSON text, texts with "|" between them, an object of names and texts,
two lists ("text" and "label"), or one column per option (`options=A+B+C`). Columns A, B, ... are
the options if most answers name one of them. Without options, the answers of the file are the
options. An answer is the text of an option, its name or letter, or its
position from 0: one of these for the whole file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from pact_eval._json import Json, loads
from pact_eval.data.labelled.draft import (
    LABELS,
    AskedQuestion,
    Draft,
    DraftError,
    as_text,
    own_labels,
    remaining,
)
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.records import LETTERS, MAX_ANSWERS
from pact_eval.errors import ShapeError

__all__ = [
    "ANSWER_NAMES",
    "ROLES",
    "SUBJECT_NAMES",
    "AnswerForm",
    "ColumnReading",
    "parse_columns",
    "read_columns",
]

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "state": ("state", "context", "passage", "text", "document", "article", "sentence"),
    "question": ("question", "instructions", "instruction", "query"),
    "options": ("options", "choices", "candidates"),
    "answer": ("answer", "label", "gold", "target", "answerKey", "answer_key", "correct_answer"),
    "type": ("type", "kind"),
    **{label: (label,) for label in LABELS},
}
"""What columns can be, and the names that are tried for each."""

SUBJECT_NAMES: Final = frozenset((*ROLES["state"], *ROLES["question"]))
ANSWER_NAMES: Final = frozenset(ROLES["answer"])

AnswerForm = str
"""How the file writes answers: "text", "letter" or "position"."""

_FORMS: Final = ("text", "letter", "position")
_QUESTION: Final = "Which answer is right?"
_LABEL: Final = "Which {} fits?"
_KINDS: Final = ("choice", "noul", "boolean", "score")
_BOOLEAN: Final = frozenset({"true", "false"})


@dataclass(frozen=True)
class ColumnReading:
    """Reading of the columns of a file.

    Attributes:
        roles: by role, the columns that have it; several only for the options.
        form: how the file writes answers.
        options: the options of every entry, if the file has no column of options.
        names: names of integer labels, in their order; empty if they have none.
        question: the question, if the file has no column of questions.
    """

    roles: Mapping[str, tuple[str, ...]]
    form: AnswerForm = "text"
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    question: str = _QUESTION

    def draft(self, entry: Mapping[str, Json]) -> Draft:
        """Translate an entry.

        Raises:
            DraftError: a value is missing, or the options cannot be read.
        """
        state, question = (self._value(entry, role) for role in ("state", "question"))
        subject = state if state is not None else question
        answer = self._value(entry, "answer")
        if subject is None or answer is None:
            lacking = self.roles["answer"][0] if subject is not None else self._subject
            message = f"{lacking}: expected a value, got none; fill it in or remove the row"
            raise DraftError(message, "missing values")
        asked_text = question if question is not None and state is not None else self.question
        options, letters = self.options_of(entry)
        kind = self._kind(entry, options)
        position = _position(answer, options, letters, self.form)
        target = position if kind == "score" else self._answer(answer, options, position)
        field_json: dict[str, Json] = {"type": kind, "instructions": asked_text}
        if kind == "score":
            field_json["criteria"] = [*options]
        elif kind == "choice":
            field_json["criteria"] = dict.fromkeys(options)
        labels = {role: names[0] for role, names in self.roles.items() if role in LABELS}
        used = {name for names in self.roles.values() for name in names}
        own = remaining(entry, *used)
        question_of = [AskedQuestion(None, field_json, target)]
        return Draft(subject, question_of, own_labels(entry, labels), own)

    @property
    def _subject(self) -> str:
        return (self.roles.get("state") or self.roles["question"])[0]

    def _value(self, entry: Mapping[str, Json], role: str) -> Json:
        names = self.roles.get(role)
        return entry.get(names[0]) if names else None

    def _kind(self, entry: Mapping[str, Json], options: Sequence[str]) -> Json:
        kind = self._value(entry, "type")
        return ("boolean" if {*options} == _BOOLEAN else "choice") if kind is None else kind

    def options_of(self, entry: Mapping[str, Json]) -> tuple[list[str], list[str]]:
        """Return the options of an entry, and the names that stand for them.

        Raises:
            DraftError: they cannot be read.
        """
        columns = self.roles.get("options", ())
        if not columns:
            return [*self.options], [*LETTERS]
        if len(columns) > 1:
            cells = [as_text(entry.get(name)) for name in columns]
            texts = [text for text in cells if text is not None]
            named = columns if columns != tuple(texts) else LETTERS
            letters = [name for name, text in zip(named, cells, strict=False) if text is not None]
            return _checked(texts, columns), letters
        texts, letters = _listed(entry.get(columns[0]), columns[0])
        return _checked(texts, columns), letters

    def _answer(self, answer: Json, options: Sequence[str], position: int | None) -> Json:
        """Return the answer as text; where it is not one of the options, as it is."""
        if position is None:
            text = _named(answer, self.names)
            return answer if text is None else text
        return options[position]


def parse_columns(pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read `role=column` pairs, with commas between pairs and `+` between columns of options.

    Raises:
        ShapeError: a pair has no `=`, an unknown role, or a role twice.

    Examples:
        >>> parse_columns(["state=text,answer=label", "options=A+B"])
        {'state': ('text',), 'answer': ('label',), 'options': ('A', 'B')}
    """
    columns: dict[str, tuple[str, ...]] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        role, equals, names = pair.partition("=")
        role = role.strip()
        listed = (
            tuple(name.strip() for name in names.split("+"))
            if role == "options"
            else (names.strip(),)
        )
        if not equals or role not in ROLES or not all(listed):
            message = f"--columns {pair}: expected ROLE=COLUMN, ROLE one of {', '.join(ROLES)}"
            raise ShapeError(f"{message}; options=A+B+C takes one column per option")
        if role in columns:
            message = f"--columns {pair}: {role} is already {'+'.join(columns[role])}"
            raise ShapeError(message)
        columns[role] = listed
    return columns


def read_columns(
    entries: Entries,
    columns: Mapping[str, tuple[str, ...]],
    question: str | None = None,
    source: str = "the file",
) -> ColumnReading:
    """Tell how the columns of a file are read.

    Args:
        entries: its entries.
        columns: the roles that the user names.
        question: the question of every entry, if there is no column of questions.
        source: name of the file, for messages.

    Raises:
        ShapeError: a named column is missing, several columns fit one role, or no column has the
            answer or the context.
    """
    roles = _roles(entries.columns, columns, source)
    if "options" not in roles and (letters := _columns_of_letters(entries, roles)):
        roles["options"] = letters
    kinds = {entry.value.get(name) for name in roles.get("type", ()) for entry in entries.entries}
    if "type" not in columns and not kinds <= {*_KINDS, None}:
        del roles["type"]  # another kind of type
    answer = roles["answer"][0]
    default = _QUESTION if "options" in roles else _LABEL.format(answer)
    names = entries.class_names.get(answer, ())
    reading = ColumnReading(roles, names=names, question=question or default)
    if "options" not in roles:
        options = _options_of_answers(entries.entries, answer, names)
        return replace(reading, options=options)
    return replace(reading, form=_form(reading, entries.entries))


def _roles(
    present: Sequence[str], columns: Mapping[str, tuple[str, ...]], source: str
) -> dict[str, tuple[str, ...]]:
    missing = [name for names in columns.values() for name in names if name not in present]
    if missing:
        message = (
            f"{source}: --columns names {', '.join(missing)}, which no entry has; there are "
            f"{', '.join(present) or 'no columns'}"
        )
        raise ShapeError(message)
    roles = dict(columns)
    taken = {name for names in columns.values() for name in names}
    for role, aliases in ROLES.items():
        fitting = [name for name in aliases if name in present and name not in taken]
        if role in roles or not fitting:
            continue
        if len(fitting) > 1:
            either = " or ".join(f"--columns {role}={name}" for name in fitting)
            message = f"{source}: {' and '.join(fitting)} both fit the {role}; use {either}"
            raise ShapeError(message)
        roles[role] = (fitting[0],)
    lacking = [role for role in ("answer",) if role not in roles]
    lacking += [] if {"state", "question"} & roles.keys() else ["state"]
    if lacking:
        message = (
            f"{source}: no column is known as the {' or the '.join(lacking)}; there are "
            f"{', '.join(present) or 'no columns'}. Name it: --columns "
            f"{','.join(f'{role}=NAME' for role in lacking)}"
        )
        raise ShapeError(message)
    return roles


def _columns_of_letters(entries: Entries, roles: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the columns A, B, ... if most entries have one of these letters as their answer."""
    free = set(entries.columns) - {name for names in roles.values() for name in names}
    letters = tuple(takewhile(free.__contains__, LETTERS))
    column = roles["answer"][0]
    named = sum(entry.value.get(column) in letters for entry in entries.entries)
    return letters if len(letters) > 1 and 2 * named > len(entries.entries) else ()


def _options_of_answers(
    entries: Sequence[Entry], column: str, names: Sequence[str]
) -> tuple[str, ...]:
    """Return the different answers of a file, in their order; names of labels in theirs."""
    if names:
        return tuple(names)
    values: set[str] = {
        text for entry in entries if (text := _named(entry.value.get(column), ())) is not None
    }
    if len(values) > MAX_ANSWERS:
        message = (
            f"column {column} has {len(values):,} different answers, and a question at most "
            f"{MAX_ANSWERS}; name the column of options: --columns options=NAME"
        )
        raise ShapeError(message)
    if all(value.isascii() and value.isdigit() for value in values):
        return tuple(sorted(values, key=int))
    return tuple(sorted(values))


def _named(answer: Json, names: Sequence[str]) -> str | None:
    """Return an answer as text: the name of an integer label, or the text that it is."""
    if isinstance(answer, bool):
        return "true" if answer else "false"
    if names and isinstance(answer, int) and 0 <= answer < len(names):
        return names[answer]
    if isinstance(answer, float) and answer.is_integer():
        return str(int(answer))
    return as_text(answer)


def _form(reading: ColumnReading, entries: Sequence[Entry]) -> AnswerForm:
    """Return the form in which most answers are among the options; text wins ties."""
    fits: Counter[str] = Counter()
    column = reading.roles["answer"][0]
    for entry in entries:
        try:
            options, letters = reading.options_of(entry.value)
        except DraftError:
            continue
        answer = entry.value.get(column)
        fits.update(
            form for form in _FORMS if _position(answer, options, letters, form) is not None
        )
    return max(_FORMS, key=lambda form: fits[form])


def _position(
    answer: Json, options: Sequence[str], letters: Sequence[str], form: AnswerForm
) -> int | None:
    """Return the position of an answer among the options; None if it is not there."""
    text = _named(answer, ())
    if text is None:
        return None
    if form == "position":
        is_number = text.isascii() and text.isdigit() and len(text) < 5
        return int(text) if is_number and int(text) < len(options) else None
    listed = options if form == "text" else letters[: len(options)]
    return listed.index(text) if text in listed else None


def _listed(value: Json, name: str) -> tuple[list[str], list[str]]:
    """Return the options of one cell, and the names that stand for them."""
    if isinstance(value, str):
        value = _unpacked(value)
    if isinstance(value, dict) and {"text", "label"} <= value.keys():
        return _texts(value["text"], name), _texts(value["label"], name)
    if isinstance(value, dict):
        return _texts([*value.values()], name), [*value]
    return _texts(value, name), [*LETTERS]


def _unpacked(text: str) -> Json:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return loads(text)
        except ValueError:
            return None
    return [part.strip() for part in text.split("|")]


def _texts(value: Json, name: str) -> list[str]:
    texts = [as_text(item) for item in value] if isinstance(value, list) else []
    if not texts or None in texts:
        message = (
            f"{name}: expected a list of texts, got {'none' if value is None else 'something else'}"
            "; write a JSON list, or texts with | between them"
        )
        raise DraftError(message, "options that cannot be read")
    return [text for text in texts if text is not None]


def _checked(options: list[str], columns: Sequence[str]) -> list[str]:
    twice = [option for option, count in Counter(options).items() if count > 1]
    if twice or len(options) < 2:
        what = f"different options, got {twice[0]!r:.40} twice" if twice else "two or more options"
        message = f"{'+'.join(columns)}: expected {what}; correct the options"
        raise DraftError(message, "options that cannot be read")
    return options
