"""Shape "columns": a question, its options and the right answer in columns.

The columns of a role are those that the user names, those of a public set (`SETS`), or those with
an exact name (`ROLES` of `reading.py`):

    text, label                        classes: the different answers of the file are the options
    question, options, answer          a list of options, an object of names and texts, two lists
                                       ("text" and "label"), JSON text, or texts with "|" between
    question, A, B, ..., answer        one column per option: A, B, ... or option1, option2, ...
    question, answer                   only if the answers are true and false, or yes and no

Two columns for one role are a question to the user, and so are columns that may be options and have
no role. `answers.py` decides what a cell with the answer means.

Cells that say that there is no label leave their row out: empty text, a dash, and -1 next to labels
that count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Final

from pact_eval._json import Json, dumps
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
    flagged,
    fold_label,
    is_unlabelled,
    numbered_columns,
    of_texts,
    options_of_row,
)
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.labelled.identity import column_of_ids
from pact_eval.data.labelled.questions import (
    LABELS,
    AskedQuestion,
    Draft,
    DraftError,
    own_labels,
    remaining,
)
from pact_eval.data.labelled.reading import (
    AUTOMATIC,
    IGNORED,
    PREDICTED,
    ROLES,
    Reading,
    columns_option,
    parse_columns,
)
from pact_eval.data.records import MAX_ANSWERS
from pact_eval.errors import ShapeError

_QUESTION: Final = "Which answer is right?"
_LABEL: Final = "Which {} fits?"
_KINDS: Final = ("choice", "noul", "boolean", "score")
_BOOLEAN: Final = frozenset({"true", "false"})
_QUESTIONS: Final = {
    "reference": "which column is the right answer",
    "state": "which column is the text that is asked about",
}
_NO_LABEL: Final = "without a label"
_NUMBER: Final = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?%?", re.IGNORECASE)
_OF_OPTIONS: Final = frozenset({"", "option", "opt", "choice", "answer"})

_COLUMNS_OF_SETS: Final[Mapping[Form | None, Mapping[str, str]]] = {
    TEXT: {"DREAM": "state=dialogue,question=question,options=choice,reference=answer"},
    LETTER: {
        "MedQA": "question=question,options=options,reference=answer_idx",
        "MMLU-Pro": "question=question,options=options,reference=answer,ignored=answer_index",
        "RACE": "state=article,question=question,options=options,reference=answer",
    },
    POSITIONS[0]: {
        "BIG-bench": "question=input,options=target_scores,reference=target_scores",
        "COPA": "state=premise,question=question,options=choice1+choice2,reference=label",
        "Cosmos QA": "state=context,question=question,"
        "options=answer0+answer1+answer2+answer3,reference=label",
        "HellaSwag": "state=ctx,options=endings,reference=label",
        "MMLU": "question=question,options=choices,reference=answer,ignored=subject",
        "PIQA": "state=goal,options=sol1+sol2,reference=label",
        "SWAG": "state=startphrase,options=ending0+ending1+ending2+ending3,reference=label",
        "TruthfulQA MC1": "question=question,options=mc1_targets,reference=mc1_targets",
    },
    POSITIONS[1]: {
        "Belebele": "state=flores_passage,question=question,"
        "options=mc_answer1+mc_answer2+mc_answer3+mc_answer4,reference=correct_answer_num",
        "Social IQa": "state=context,question=question,options=answerA+answerB+answerC,"
        "reference=label",
        "Story Cloze": "state=InputSentence1+InputSentence2+InputSentence3+InputSentence4,"
        "options=RandomFifthSentenceQuiz1+RandomFifthSentenceQuiz2,reference=AnswerRightEnding",
        "WinoGrande": "state=sentence,options=option1+option2,reference=answer",
    },
    None: {
        "AGIEval": "question=query,options=choices,reference=gold",
        "claims": "state=claim+evidence",
        "GPQA": "question=Question,"
        "options=Correct Answer+Incorrect Answer 1+Incorrect Answer 2+Incorrect Answer 3,"
        "reference=Correct Answer",
        "MedMCQA": "question=question,options=opa+opb+opc+opd,reference=cop",
        "OpenBookQA": "question=question_stem,options=choices,reference=answerKey",
        "pairs of questions": "state=question1+question2",
        "pairs of sentences": "state=sentence1+sentence2",
        "premises": "state=premise+hypothesis",
        "PubMedQA": "state=context,question=question,reference=final_decision",
        "SciQ": "question=question,"
        "options=correct_answer+distractor1+distractor2+distractor3,reference=correct_answer",
    },
}

SETS: Final[Mapping[str, tuple[str, Form | None]]] = {
    name: (columns, form)
    for form, sets in _COLUMNS_OF_SETS.items()
    for name, columns in sets.items()
}
"""Public sets: their columns as `--columns` names them, and the form of their answers, which is
taken if it fits every row. Columns that are "ignored" here only tell sets apart."""

_ROLES_OF_SETS: Final = {name: parse_columns([columns]) for name, (columns, _) in SETS.items()}
_NAMES_OF_SETS: Final = {
    name: {column for names in roles.values() for column in names}
    for name, roles in _ROLES_OF_SETS.items()
}


def sets_of(present: Sequence[str]) -> list[str]:
    """Return the public sets whose columns are all there, without those that another includes.

    Examples:
        >>> sets_of(["question", "options", "answer", "answer_index", "src"])
        ['MMLU-Pro']
    """
    fitting = [name for name, columns in _NAMES_OF_SETS.items() if columns <= {*present}]
    wider = [_NAMES_OF_SETS[name] for name in fitting]
    return [name for name in fitting if not any(_NAMES_OF_SETS[name] < other for other in wider)]


def has_columns(entry: Mapping[str, Json]) -> bool:
    """Return whether exact names have the context or the question, and a plain answer."""
    if sets_of([*entry]):
        return True
    subjects = [entry.get(name) for role in ("state", "question") for name in ROLES[role]]
    answers = [entry[name] for name in ROLES["reference"] if name in entry]
    return any(isinstance(value, str) for value in subjects) and any(
        isinstance(value, str | int | float | list) for value in answers
    )


def find_roles(
    entries: Entries, reading: Reading, source: str, *, counters: bool = False
) -> tuple[dict[str, tuple[str, ...]], str | None]:
    """Return the columns by role, and the public set that has them.

    Several columns may fit a role; the caller decides between them.

    Args:
        entries: the rows.
        reading: what the user says of them.
        source: name of the file, for messages.
        counters: whether columns that only count rows are ids; see `identity.py`.

    Raises:
        ShapeError: a named column is missing or has two roles, or two public sets fit.
    """
    present = entries.columns
    _check_stated(present, reading.columns, source)
    roles = {role: names for role, names in reading.columns.items() if role in ROLES}
    taken = {name for names in reading.columns.values() for name in names}
    sets = sets_of([name for name in present if name not in taken])
    if len(sets) > 1:
        either = " or ".join(f"--columns {SETS[name][0]!r}" for name in sets)
        message = f"{source}: the columns of {' and '.join(sets)} are all there; use {either}"
        raise ShapeError(message)
    for role, names in _ROLES_OF_SETS[sets[0]].items() if sets else ():
        if role not in (*roles, IGNORED):
            roles[role] = names
            taken |= {*names}
    free = [name for name in present if name not in taken]
    for role, tried in ROLES.items():
        fitting = tuple(name for name in tried if name in free)
        if role not in roles and fitting:
            roles[role] = fitting
    groups = _groups_of_options(roles, [name for name in free if name not in taken], reading)
    if len(groups) > 1:
        either = " or ".join(columns_option("options", group) for group in groups)
        names_of = " and ".join("+".join(group) for group in groups)
        raise ShapeError(f"{source}: {names_of} both fit the options; use {either}")
    roles |= {"options": groups[0]} if groups else {}
    if "id" not in roles:
        column = column_of_ids(entries, _unnamed(present, roles, reading), counters=counters)
        roles |= {} if column is None else {"id": (column,)}
    return roles, sets[0] if sets else None


def _unnamed(
    present: Sequence[str], roles: Mapping[str, tuple[str, ...]], reading: Reading
) -> list[str]:
    """Return columns without a role; groups of one row each may also be the id."""
    named = {**roles, **reading.columns}
    others = [named[role] for role in named.keys() - {"family", "source_family"}]
    taken = {name for names in (*others, *PREDICTED.values()) for name in names}
    return [name for name in present if name not in taken]


def _groups_of_options(
    roles: Mapping[str, tuple[str, ...]], free: Sequence[str], reading: Reading
) -> list[tuple[str, ...]]:
    """Return the readings of the options: a list with an exact name, and numbered columns.

    Columns A, B, ... need a question next to them: other tables have such names too.
    """
    named = [(name,) for name in roles.get("options", ()) if name in ROLES["options"]]
    if (
        ("reference" not in roles and not reading.unlabelled)
        or "options" in reading.columns
        or ("options" in roles and not named)
    ):
        return []
    groups = [
        tuple(group.values())
        for prefix, group in numbered_columns(free)
        if prefix in _OF_OPTIONS and (prefix or "question" in roles)
    ]
    return [*named, *groups]


def _check_stated(
    present: Sequence[str], columns: Mapping[str, Sequence[str]], source: str
) -> None:
    """Check that the columns that the user names are there, each in one role.

    Raises:
        ShapeError: one is missing, or has two roles.
    """
    names = [name for role in columns for name in dict.fromkeys(columns[role])]
    missing = [name for name in names if name not in present]
    if missing:
        raise ShapeError(
            f"{source}: --columns names {', '.join(missing)}, which no entry has; there are "
            f"{', '.join(present) or 'no columns'}"
        )
    for role in ("prediction", "correct"):
        shared = {*columns.get("reference", ())} & {*columns.get(role, ())}
        if shared:
            raise ShapeError(
                f"{source}: --columns gives {shared.pop()} two roles, reference and {role}: the "
                "same column cannot be the right answer and the prediction"
            )


def unwrapped(entries: Entries) -> Entries:
    """Return rows with the columns of their document: "doc" as an object, or "doc.question" etc.

    Logs of lm-evaluation-harness keep a row of a set in this way.
    """
    columns = entries.columns
    nested = all(isinstance(cell, dict) for cell in entries.column("doc"))
    prefixed = {name: name[4:] for name in columns if name.startswith("doc.") and len(name) > 4}
    if not (nested and "doc" in columns) and not prefixed:
        return entries
    rows = []
    for entry in entries.entries:
        own = {prefixed.get(name, name): cell for name, cell in entry.value.items()}
        doc = own.get("doc")
        inner = doc if isinstance(doc, dict) else {}
        rows.append(replace(entry, value={**inner, **own}))
    return replace(entries, entries=rows)


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
        kind: Json = "score" if self.levels else self._value(entry, "type")
        if kind is None:
            kind = "boolean" if {*options.texts} == _BOOLEAN else "choice"
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
    roles, known = find_roles(entries, reading, source, counters=reading.bare)
    _check_roles(roles, entries.columns, reading, source)
    kinds = {cell_text(cell) for name in roles.get("type", ()) for cell in entries.column(name)}
    if "type" not in reading.columns and not kinds <= {*_KINDS, None}:
        del roles["type"]  # another kind of type
        kinds = set()
    if reading.options:
        roles.pop("options", None)
    check_unread(roles, entries, reading, source)
    if known is None or "question" not in _ROLES_OF_SETS[known]:
        _check_question(roles, entries, reading, source)
    question = _QUESTION if "options" in roles else _LABEL.format(roles["reference"][0])
    result = ColumnReading(roles, question=reading.question or question, levels=reading.levels)
    if "options" in roles:
        missing = _unlabelled_values(result, entries.entries)
        result = replace(result, unlabelled=missing)
        usual = None if known is None else SETS[known][1]
        form = reading.form or _form_of_columns(result, entries.entries, source, usual)
        result = replace(result, form=form)
    else:
        rubric = reading.levels or "score" in kinds
        result = _labels_of_file(result, entries, reading, source, rubric=rubric)
    return result


def _check_roles(
    roles: dict[str, tuple[str, ...]], present: Sequence[str], reading: Reading, source: str
) -> None:
    """Check that context and answer are known, and that every role has one column.

    Raises:
        ShapeError: a role has no column, or two.
    """
    if reading.bare and "id" in roles and not {"state", "question"} & roles.keys():
        roles["state"] = roles["id"]
    lacking = [] if "reference" in roles else ["reference"]
    lacking += [] if {"state", "question"} & roles.keys() else ["state"]
    if lacking:
        usual = "; ".join(f"{role}: {', '.join(ROLES[role])}" for role in lacking)
        asked = " and ".join(_QUESTIONS[role] for role in lacking)
        raise ShapeError(
            f"{source}: no column is known as the {' or the '.join(lacking)} ({usual}); there are "
            f"{', '.join(present) or 'no columns'}. {asked[0].upper()}{asked[1:]}? --columns "
            f"{','.join(f'{role}=NAME' for role in lacking)}"
        )
    for role, tried in ROLES.items():
        names = [name for name in roles.get(role, ()) if name in tried]
        if len(names) > 1 and role not in reading.columns:
            either = " or ".join(columns_option(role, [name]) for name in names)
            raise ShapeError(f"{source}: {' and '.join(names)} both fit the {role}; use {either}")


def _check_question(
    roles: Mapping[str, tuple[str, ...]], entries: Entries, reading: Reading, source: str
) -> None:
    """Check that a question without options is answered by true or false, unless it is named.

    Raises:
        ShapeError: it has other answers, so columns of options may have other names.
    """
    named = "question" in reading.columns or reading.options
    if named or "options" in roles or "question" not in roles:
        return
    (column,) = roles["reference"]
    labels, _ = distinct_labels(entries.column(column))
    if {fold_label(label) for label in labels} <= TRUE_WORDS | FALSE_WORDS:
        return
    raise ShapeError(
        f"{source}: no column is known as the options ({', '.join(ROLES['options'])}, A, B, ..., "
        f"option1, option2, ...); there are {', '.join(entries.columns)}. Name it: --columns "
        f"options=NAME, or options=A+B+C for one column each. If the different answers are the "
        f"options: {columns_option('question', roles['question'])}"
    )


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
    taken |= {name for names in PREDICTED.values() for name in names}
    unread = [name for name in entries.columns if name not in taken]
    columns = _like_options(entries, roles["reference"][0], unread)
    if columns:
        raise ShapeError(
            f"{source}: {', '.join(columns)} look like the options of each row, and were not read "
            f"as such. Decide with {columns_option('options', columns)} or "
            f"{columns_option(IGNORED, columns)}"
        )


def _like_options(entries: Entries, column: str, unread: Sequence[str]) -> tuple[str, ...]:
    """Return columns that may be options: alike in name, lists, or the right answer by turns."""
    for _, group in numbered_columns(unread):
        cells = [cell for name in group.values() for cell in entries.column(name)]
        if 2 * sum(map(_is_words, cells)) > len(cells):
            return tuple(group.values())
    for name in unread:
        if all(
            isinstance(cell, list) and len(cell) > 1 and all(map(_is_words, cell))
            for cell in entries.column(name)
        ):
            return (name,)
    right = entries.column(column)
    lacking = of_texts(is_unlabelled, right)
    answered = [at for at, is_lacking in enumerate(lacking) if not is_lacking]
    held: dict[str, set[int]] = {}
    for name in unread:
        equal = [*map(eq, entries.column(name), right)]
        held[name] = {at for at in answered if equal[at]}
    by_turns = sorted(filter(held.get, unread), key=lambda name: min(held[name]))
    always = [name for name in by_turns if len(held[name]) == len(answered)]
    everywhere = len(set[int]().union(*held.values())) == len(answered)
    return tuple(by_turns) if everywhere and len(by_turns) > 1 and not always else ()


def _is_words(cell: Json) -> bool:
    """Return whether a cell is text, and not that of a number."""
    return isinstance(cell, str) and not _NUMBER.fullmatch(cell.strip())


def _form_of_columns(
    reading: ColumnReading, rows: Sequence[Entry], source: str, usual: Form | None
) -> Form:
    """Return how a file with columns of options writes its answers."""
    column = reading.roles["reference"][0]
    answers = _answers(reading, rows, column)
    if usual is not None and answers.readings(usual):
        return usual
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
    return Answers(column, cells, options, places.__getitem__)


def _unlabelled_values(reading: ColumnReading, rows: Sequence[Entry]) -> frozenset[str]:
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
    cells = entries.column(column)
    names = reading.options or entries.class_names.get(column, ())
    if names:
        present, _ = distinct_labels(cells)
        if reading.options and "-1" in present and "-1" not in names and len(present) <= len(names):
            raise ShapeError(
                f"{source}: {column} has -1 among {len(present)} labels of {len(names)} answers: "
                "it is one of them, or says that there is no label. If it is one, write the "
                "labels as texts; if not, remove these rows"
            )
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
        raise ShapeError(
            f"{source}: column {column} has {len(labels):,} different answers, and a question at "
            f"most {MAX_ANSWERS}; name the column of options: --columns options=NAME"
        )
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
    if others and (numbers != {*labels} or any(label.startswith("-") for label in others)):
        return frozenset()
    if others == {"0", "1"}:
        raise ShapeError(
            f"{source}: {column} has -1, 0 and 1: three labels, or -1 for rows without a label. "
            "Decide with --options=-1,0,1 or --options 0,1"
        )
    return frozenset({"-1"})


def check_truths(labels: Sequence[str], column: str, source: str) -> None:
    """Refuse labels that are true and false in two ways, such as true, false, 1 and 0.

    Raises:
        ShapeError: they are.
    """
    words = {fold_label(label) for label in labels}
    if len(words) > 2 and words <= TRUE_WORDS | FALSE_WORDS:
        listed = ",".join(labels)
        raise ShapeError(
            f"{source}: {column} has {', '.join(labels)}: two labels, written in several ways, or "
            f"{len(labels)}. Decide with --options false,true or --options {listed}"
        )


def levels_by_value(labels: Sequence[str], source: str, column: str) -> list[str]:
    """Return the levels of a rubric by value, without gaps.

    Raises:
        ShapeError: they are words, whose order nobody gives.
    """
    try:
        numbers = [int(label) for label in labels]
    except ValueError:
        raise ShapeError(
            f"{source}: {column} has the levels {', '.join(labels[:8])}, and no order of them is "
            f"given; list them from the lowest to the highest: --options {','.join(labels[:8])}"
        ) from None
    low, high = min(numbers), max(numbers)
    dense = high - low < MAX_ANSWERS
    return [str(level) for level in (range(low, high + 1) if dense else sorted(numbers))]
