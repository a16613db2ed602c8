"""Shape "columns": a question, its options and the right answer in columns.

The columns are those that the user names, those of a public set, or those with a usual name
(`roles.py`). Options are a list, JSON text, texts with "|" between them, an object of names and
texts, two lists ("text" and "label"), or one column per option. Without options, the different
answers of the file are the options. `answers.py` decides what a cell with the answer means.

Cells that say that there is no label leave their row out: empty text, a dash, and -1 next to labels
that count from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.answers import (
    FALSE_WORDS,
    LETTER,
    POSITIONS,
    TEXT,
    TRUE_WORDS,
    Answers,
    Form,
    Options,
    cell_text,
    choose_form,
    distinct_labels,
    fold_label,
    is_unlabelled,
)
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
from pact_eval.data.labelled.reading import AUTOMATIC, Reading
from pact_eval.data.labelled.roles import (
    IGNORED,
    PREDICTED,
    ROLES,
    PublicSet,
    check_columns,
    columns_for,
    columns_option,
    groups_of_options,
    is_options,
    public_set,
    unread_options,
)
from pact_eval.data.records import MAX_ANSWERS
from pact_eval.errors import ShapeError

__all__ = [
    "ColumnReading",
    "check_truths",
    "check_unread",
    "flagged",
    "levels_by_value",
    "minus_one",
    "options_of_row",
    "read_columns",
    "roles_of_file",
]

_QUESTION: Final = "Which answer is right?"
_LABEL: Final = "Which {} fits?"
_KINDS: Final = ("choice", "noul", "boolean", "score")
_BOOLEAN: Final = frozenset({"true", "false"})
_NO_LABEL: Final = "without a label"


@dataclass(frozen=True)
class ColumnReading:
    """Reading of the columns of a file.

    Attributes:
        roles: by role, the columns that have it.
        form: how the file writes answers.
        options: the options of every entry, if the file has no column of options.
        question: the question, if the file has no column of questions.
        levels: whether the options are the levels of a rubric.
        unlabelled: cells that say that there is no label, besides empty ones.
        ordered: whether the file or the user gives the order of the options.
        remarks: what to know of the reading, one sentence each.
    """

    roles: Mapping[str, tuple[str, ...]]
    form: Form = TEXT
    options: tuple[str, ...] = ()
    question: str = _QUESTION
    levels: bool = False
    unlabelled: frozenset[str] = frozenset()
    ordered: bool = True
    remarks: tuple[str, ...] = field(default=(), compare=False)

    def draft(self, entry: Mapping[str, Json]) -> Draft:
        """Translate an entry.

        Raises:
            DraftError: a value is missing, or the options cannot be read.
        """
        state, question = (self._value(entry, role) for role in ("state", "question"))
        subject = state if state is not None else question
        if subject is None:
            names = self.roles.get("state") or self.roles["question"]
            message = f"{names[0]}: expected a value, got none; fill it in or remove the row"
            raise DraftError(message, "missing values")
        labels = {role: names[0] for role, names in self.roles.items() if role in LABELS}
        named = own_labels(entry, labels)
        answer = entry.get(self.roles["reference"][0])
        is_dash = cell_text(answer) == "-" and "-" in self.options_of(entry).texts
        if (is_unlabelled(answer) and not is_dash) or cell_text(answer) in self.unlabelled:
            return Draft(subject, [], named, {}, {_NO_LABEL: 1})
        asked_text = question if question is not None and state is not None else self.question
        options = self.options_of(entry)
        kind = self._kind(entry, options.texts)
        index = options.index(flagged(answer), self.form)
        target: Json = (
            answer if index is None else index if kind == "score" else options.texts[index]
        )
        field_json: dict[str, Json] = {"type": kind, "instructions": asked_text}
        if kind == "score":
            field_json["criteria"] = [*options.texts]
        elif kind == "choice":
            field_json["criteria"] = dict.fromkeys(options.texts)
        used = {name for names in self.roles.values() for name in names}
        question_of = [AskedQuestion(None, field_json, target)]
        return Draft(subject, question_of, named, remaining(entry, *used))

    def _value(self, entry: Mapping[str, Json], role: str) -> Json:
        names = self.roles.get(role, ())
        if len(names) < 2:
            return entry.get(names[0]) if names else None
        parts = {name: entry[name] for name in names if entry.get(name) is not None}
        return {**parts} or None

    def _kind(self, entry: Mapping[str, Json], options: Sequence[str]) -> Json:
        if self.levels:
            return "score"
        kind = self._value(entry, "type")
        return ("boolean" if {*options} == _BOOLEAN else "choice") if kind is None else kind

    def options_of(self, entry: Mapping[str, Json]) -> Options:
        """Return the options of an entry.

        Raises:
            DraftError: they cannot be read.
        """
        columns = self.roles.get("options", ())
        if not columns:
            return Options(self.options, ordered=self.ordered)
        return options_of_row(entry, columns, self.roles["reference"][0])


def read_columns(
    entries: Entries, reading: Reading = AUTOMATIC, source: str = "the file"
) -> ColumnReading:
    """Decide how the columns of a labelled file are read.

    Args:
        entries: its entries.
        reading: what the user says.
        source: name of the file, for messages.

    Raises:
        ShapeError: a named column is missing, two readings fit and differ, columns look like
            options and have no role, or no column has the answer or the context.
    """
    roles, known = roles_of_file(entries, reading, source)
    _check_roles(roles, entries.columns, reading, source)
    kinds = {
        cell_text(entry.value.get(name))
        for name in roles.get("type", ())
        for entry in entries.entries
    }
    if "type" not in reading.columns and not kinds <= {*_KINDS, None}:
        del roles["type"]  # another kind of type
        kinds = set()
    if reading.options:
        roles.pop("options", None)
    check_unread(roles, entries, reading, source)
    question = _QUESTION if "options" in roles else _LABEL.format(roles["reference"][0])
    result = ColumnReading(roles, question=reading.question or question, levels=reading.levels)
    if "options" in roles:
        missing = _unlabelled_of_columns(result, entries.entries)
        result = replace(result, unlabelled=missing)
        form = reading.form or _form_of_columns(result, entries.entries, source, known)
        result = replace(result, form=form)
    else:
        rubric = reading.levels or "score" in kinds
        result = _labels_of_file(result, entries, reading, source, rubric=rubric)
    return result


def roles_of_file(
    entries: Entries, reading: Reading, source: str
) -> tuple[dict[str, tuple[str, ...]], PublicSet | None]:
    """Return the columns by role, and the public set that has them.

    Several columns may fit the context or the right answer; the caller decides between them.

    Raises:
        ShapeError: a named column is missing or has two roles.
    """
    check_columns(entries.columns, reading.columns, source)
    roles = {role: names for role, names in reading.columns.items() if role in ROLES}
    taken = {name for names in reading.columns.values() for name in names}
    known = public_set([name for name in entries.columns if name not in taken])
    for role, names in known.roles.items() if known else ():
        if role not in roles:
            roles[role] = names
            taken |= {*names}
    free = [name for name in entries.columns if name not in taken]
    for role in ROLES:
        fitting = columns_for(role, free)
        if role not in roles and fitting:
            roles[role] = tuple(fitting)
    if "options" not in roles:
        references = roles.get("reference", ())
        for group in groups_of_options(free):
            outside = [name for name in references if name not in group.columns]
            if outside and is_options(entries.entries, outside[0], group):
                roles |= {"options": group.columns, "reference": tuple(outside)}
                break
    return roles, known


def _check_roles(
    roles: dict[str, tuple[str, ...]], present: Sequence[str], reading: Reading, source: str
) -> None:
    """Check that context and answer are known, and leave one column for every role.

    Raises:
        ShapeError: a role has no column, or two.
    """
    if reading.bare and "id" in roles and not {"state", "question"} & roles.keys():
        roles["state"] = roles["id"]
    lacking = [] if "reference" in roles else ["reference"]
    lacking += [] if {"state", "question"} & roles.keys() else ["state"]
    if lacking:
        message = (
            f"{source}: no column is known as the {' or the '.join(lacking)}; there are "
            f"{', '.join(present) or 'no columns'}. Name it: --columns "
            f"{','.join(f'{role}=NAME' for role in lacking)}"
        )
        raise ShapeError(message)
    known = public_set(present)
    for role in (*ROLES,):
        names = roles.get(role, ())
        stated = role in reading.columns or (known is not None and role in known.roles)
        if len(columns_for(role, names)) > 1 and not stated:
            either = " or ".join(columns_option(role, [name]) for name in names)
            message = f"{source}: {' and '.join(names)} both fit the {role}; use {either}"
            raise ShapeError(message)


def check_unread(
    roles: Mapping[str, tuple[str, ...]], entries: Entries, reading: Reading, source: str
) -> None:
    """Refuse columns that look like options and are not read.

    Raises:
        ShapeError: there are such columns.
    """
    if "options" in roles or reading.options:
        return
    taken = {name for names in (*roles.values(), *reading.columns.values()) for name in names}
    predicted = {name for role in PREDICTED for name in columns_for(role, entries.columns)}
    unread = [name for name in entries.columns if name not in taken | predicted]
    columns = unread_options(
        entries.entries, roles["reference"][0], unread, groups_of_options(unread)
    )
    if columns:
        message = (
            f"{source}: {', '.join(columns)} look like the options of each row, and were not read "
            f"as such. Decide with {columns_option('options', columns)} or "
            f"{columns_option(IGNORED, columns)}"
        )
        raise ShapeError(message)


def _form_of_columns(
    reading: ColumnReading, rows: Sequence[Entry], source: str, known: PublicSet | None
) -> Form:
    """Return how a file with columns of options writes its answers."""
    column = reading.roles["reference"][0]
    answers = _answers(reading, rows, column)
    if known is not None and known.form is not None and answers.readings(known.form):
        return known.form
    named = any(options.named for options in answers.options)
    if named and answers.readings(LETTER) and not answers.readings(TEXT):
        return LETTER  # the file itself gives every option a name
    return choose_form(answers, source)


def _answers(reading: ColumnReading, rows: Sequence[Entry], column: str) -> Answers:
    """Return the cells of a column with the options of their rows; unreadable rows are left out."""
    cells: list[Json] = []
    options: list[Options] = []
    places: list[str] = []
    for entry in rows:
        cell = flagged(entry.value.get(column))
        if is_unlabelled(cell) or cell_text(cell) in reading.unlabelled:
            continue
        try:
            options.append(reading.options_of(entry.value))
        except DraftError:
            continue
        cells.append(cell)
        places.append(f"line {entry.line}")
    return Answers(column, cells, options, places)


def _unlabelled_of_columns(reading: ColumnReading, rows: Sequence[Entry]) -> frozenset[str]:
    """Return "-1" if it is no option of any row that has it."""
    column = reading.roles["reference"][0]
    for entry in rows:
        if cell_text(entry.value.get(column)) == "-1":
            try:
                if "-1" in reading.options_of(entry.value).texts:
                    return frozenset()
            except DraftError:
                continue
    return frozenset({"-1"})


def _labels_of_file(
    result: ColumnReading, entries: Entries, reading: Reading, source: str, *, rubric: bool
) -> ColumnReading:
    """Return a reading with the options of a file that has no column of them.

    They are those that the user gives, the names that a Parquet file keeps, or the different
    answers of the file.

    Raises:
        ShapeError: there are too many, the order of a rubric is not known, or -1 may be a label or
            the lack of one.
    """
    column = result.roles["reference"][0]
    cells = [entry.value.get(column) for entry in entries.entries]
    names = reading.options or entries.class_names.get(column, ())
    if names:
        present, _ = distinct_labels(cells)
        if reading.options and "-1" in present and "-1" not in names and len(present) <= len(names):
            message = (
                f"{source}: {column} has -1 among {len(present)} labels of {len(names)} answers: "
                "it is one of them, or says that there is no label. If it is one, write the "
                "labels as texts; if not, remove these rows"
            )
            raise ShapeError(message)
        missing = frozenset() if "-1" in names else frozenset({"-1"})
        result = replace(result, options=tuple(names), unlabelled=missing)
        answers = _answers(result, entries.entries, column)
        fitting = answers.readings(reading.form)
        if TEXT in fitting:
            return result
        named = not reading.options  # `datasets` counts its classes from 0
        form = POSITIONS[0] if named else choose_form(answers, source, reading.form)
        return replace(result, form=form)
    labels, merged = distinct_labels(cells)
    missing = minus_one(labels, column, source, rubric=rubric)
    labels = [label for label in labels if label not in missing]
    check_truths(labels, column, source)
    if len(labels) > MAX_ANSWERS:
        message = (
            f"{source}: column {column} has {len(labels):,} different answers, and a question at "
            f"most {MAX_ANSWERS}; name the column of options: --columns options=NAME"
        )
        raise ShapeError(message)
    remarks = [f"Read as one label: {', '.join(map(dumps, texts))}." for texts in merged]
    if rubric:
        labels, ordered = levels_by_value(labels, source, column), True
        remarks.append(
            f"The levels are {labels[0]} to {labels[-1]}, as they occur; --levels states others."
        )
    else:
        ordered = {*labels} == _BOOLEAN
    return replace(
        result,
        options=tuple(labels),
        unlabelled=missing,
        ordered=ordered,
        remarks=(*result.remarks, *remarks),
    )


def minus_one(labels: Sequence[str], column: str, source: str, *, rubric: bool) -> frozenset[str]:
    """Return "-1" if it says that there is no label: the other labels count from 0.

    Args:
        labels: the different labels of a file.
        column: their column, for the message.
        source: name of the file, for the message.
        rubric: whether they are levels, which may be negative.

    Raises:
        ShapeError: the others are 0 and 1, so -1, 0, 1 may be three labels.
    """
    numbers = {label for label in labels if label.removeprefix("-").isdigit()}
    others = numbers - {"-1"}
    if "-1" not in labels or rubric or len(labels) < 3:
        return frozenset()
    if numbers == {"-1"}:
        return frozenset(numbers)
    if numbers != {*labels}:
        return frozenset()
    if any(label.startswith("-") for label in others):
        return frozenset()
    if others == {"0", "1"}:
        message = (
            f"{source}: {column} has -1, 0 and 1: three labels, or -1 for rows without a label. "
            "Decide with --options=-1,0,1 or --options 0,1"
        )
        raise ShapeError(message)
    return frozenset({"-1"})


def check_truths(labels: Sequence[str], column: str, source: str) -> None:
    """Refuse labels that are true and false in two ways, such as true, false, 1 and 0.

    Raises:
        ShapeError: they are.
    """
    words = {fold_label(label) for label in labels}
    if len(words) > 2 and words <= TRUE_WORDS | FALSE_WORDS:
        listed = ",".join(labels)
        message = (
            f"{source}: {column} has {', '.join(labels)}: two labels, written in several ways, or "
            f"{len(labels)}. Decide with --options false,true or --options {listed}"
        )
        raise ShapeError(message)


def levels_by_value(labels: Sequence[str], source: str, column: str) -> list[str]:
    """Return the levels of a rubric by value, without gaps.

    Raises:
        ShapeError: they are words, whose order nobody gives.
    """
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        message = (
            f"{source}: {column} has the levels {', '.join(labels[:8])}, and no order of them is "
            f"given; list them from the lowest to the highest: --options {','.join(labels[:8])}"
        )
        raise ShapeError(message) from None
    low, high = min(numbers), max(numbers)
    dense = high - low < MAX_ANSWERS
    return [str(level) for level in (range(low, high + 1) if dense else sorted(numbers))]


def options_of_row(
    entry: Mapping[str, Json], columns: Sequence[str], reference: str | None = None
) -> Options:
    """Return the options in the columns of a row.

    If the right answer is one of these columns, the others have wrong ones, and all are sorted by
    their texts: otherwise their order would give the answer away.

    Raises:
        DraftError: they cannot be read.
    """
    if len(columns) == 1:
        listed, names = _listed(entry.get(columns[0]), columns[0])
        return Options(_checked(listed, columns), names)
    texts: list[str | None] = []
    for name in columns:
        cell = entry.get(name)
        texts += [as_text(item) for item in cell] if isinstance(cell, list) else [as_text(cell)]
    present = [text for text in texts if text is not None]
    if reference in columns:
        return Options(tuple(sorted(_checked(present, columns))))
    groups = groups_of_options(columns)
    suffixes = (
        groups[0].names if len(groups) == 1 and len(groups[0].columns) == len(columns) else columns
    )
    if len(texts) != len(suffixes):
        return Options(_checked(present, columns))
    named = zip(suffixes, texts, strict=True)
    return Options(
        _checked(present, columns), tuple(name for name, text in named if text is not None)
    )


def flagged(cell: Json) -> Json:
    """Return the position of the only true one of the labels 1, 0, ... next to choices.

    Any other cell is returned as it is.

    Examples:
        >>> flagged({"choices": ["a", "b"], "labels": [0, 1]}), flagged("b")
        (1, 'b')
    """
    labels = cell.get("labels") if isinstance(cell, dict) else None
    return labels.index(1) if isinstance(labels, list) and labels.count(1) == 1 else cell


def _listed(value: Json, name: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the options of one cell, and the names that stand for them."""
    if isinstance(value, str):
        value = _unpacked(value)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = _of_pairs([item for item in value if isinstance(item, dict)])
    if isinstance(value, dict):
        texts = value.get("text", value.get("choices"))
        if isinstance(texts, list) and isinstance(value.get("label"), list):
            return _texts(texts, name), tuple(_texts(value["label"], name))
        if isinstance(texts, list):
            return _texts(texts, name), ()
        present = {key: text for key, text in value.items() if text is not None}
        return _texts([*present.values()], name), tuple(present)
    return _texts(value, name), ()


def _of_pairs(items: Sequence[Mapping[str, Json]]) -> Json:
    """Return options by name, of objects with a name and a text each; None if they have others."""
    keys = [*items[0]]
    name = next((key for key in ("key", "label", "letter", "name", "id") if key in keys), None)
    text = next((key for key in ("value", "text", "option", "content") if key in keys), None)
    if name is None or text is None or any({name, text} - item.keys() for item in items):
        return None
    return {str(item[name]): item[text] for item in items}


def _unpacked(text: str) -> Json:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return loads(text)
        except ValueError:
            return None
    # A bar inside an option does not end it if the options have " | " between them.
    return [part.strip() for part in text.split(" | " if " | " in text else "|")]


def _texts(value: Json, name: str) -> list[str]:
    texts = [as_text(item) for item in value] if isinstance(value, list) else []
    if not texts or None in texts:
        message = (
            f"{name}: expected a list of texts, got {'none' if value is None else 'something else'}"
            "; write a JSON list, or texts with | between them"
        )
        raise DraftError(message, "options that cannot be read")
    return [text for text in texts if text is not None]


def _checked(options: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    twice = [option for option, count in Counter(options).items() if count > 1]
    if twice or len(options) < 2:
        what = f"different options, got {twice[0]!r:.40} twice" if twice else "two or more options"
        message = f"{'+'.join(columns)}: expected {what}; correct the options"
        raise DraftError(message, "options that cannot be read")
    return tuple(options)
