"""Rows of a table: their cells parsed, joined with the record that has the right answer."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from pact_eval._json import Json, dumps, loads, sha256_of_json
from pact_eval.data.labelled.answers import (
    Form,
    Options,
    cell_text,
    fold_label,
)
from pact_eval.data.labelled.columns import (
    flagged,
    roles_of_file,
)
from pact_eval.data.labelled.draft import as_text
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.labelled.roles import IGNORED, PREDICTED, columns_for, columns_option
from pact_eval.data.records import Record
from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.references import References, texts_of_record

__all__ = [
    "SCORE_KINDS",
    "Scores",
    "TableRoles",
    "TableRow",
    "answer_cell",
    "confidence_of",
    "facts_of_record",
    "log_sum",
    "names_fit",
    "number_of",
    "options_of_record",
    "parse_rows",
    "record_answer",
    "roles_of_predictions",
    "scores_of",
    "stated_kind",
    "truth_of",
    "unread_numbers",
    "vector_of",
    "with_names",
]


_NAMES: Final = ("label", "name", "answer", "option", "class", "text", "token")
_VALUES: Final = ("score", "probability", "prob", "p", "logprob", "log_prob", "value")
_NUMBER: Final = re.compile(r"[-+]?(\d+([.,]\d*)?|[.,]\d+)(e[-+]?\d+)?%?", re.IGNORECASE)
_ARRAY: Final = re.compile(r"(array\()?\[\s*[-+.\de]+(\s+[-+.\de]+)+\s*\]\)?")
_SPACES: Final = " \t\r\n\u0120\u2581"  # as byte-level tokenizers and SentencePiece write it
_THOUSANDS: Final = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_TRUE: Final = frozenset({"1", "true", "yes", "right", "correct", "c"})
_FALSE: Final = frozenset({"0", "false", "no", "wrong", "incorrect", "i"})


@dataclass(frozen=True)
class Scores:
    """The numbers of one row.

    Attributes:
        kind: "probabilities", "log_probabilities" or "logits".
        numbers: (n,) one per name, or one per option in the order of the file.
        names: what each is of; None for a list.
        listed: whether these are the most probable tokens only.
    """

    kind: str
    numbers: tuple[float, ...]
    names: tuple[str, ...] | None = None
    listed: bool = False


def number_of(cell: Json) -> float | None:
    """Return a number, also as text, with a decimal comma or a percent sign; None without one.

    Raises:
        ValueError: the cell has something else.

    Examples:
        >>> number_of(0.5), number_of("0,5"), number_of("50%"), number_of("-1e-3"), number_of("")
        (0.5, 0.5, 0.5, -0.001, None)
    """
    if cell is None or cell == "":
        return None
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return float(cell)
    text = cell.strip() if isinstance(cell, str) else ""
    if text.lower() in ("-inf", "-infinity"):
        return -math.inf
    if _THOUSANDS.fullmatch(text):
        message = f"{text} has a decimal comma or a separator of thousands; write it with a point"
        raise ValueError(message)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"expected a number, got {_shown(cell)}")
    number = float(text.rstrip("%").replace(",", "."))
    return number / 100 if text.endswith("%") else number


def confidence_of(cell: Json) -> float | None:
    """Return the probability of the answer that a model chose; None without one.

    Raises:
        ValueError: it is not a number from 0 to 1.

    Examples:
        >>> confidence_of("0,75"), confidence_of("75%"), confidence_of("")
        (0.75, 0.75, None)
    """
    number = number_of(cell)
    if number is None or 0 <= number <= 1:
        return number
    message = f"expected a probability from 0 to 1, got {_shown(cell)}"
    scaled = "; divide it by 100, or add a percent sign" if 1 < number <= 100 else ""
    raise ValueError(f"{message}{scaled}")


def truth_of(cell: Json) -> bool | None:
    """Return whether a cell says that an answer is right; None without a value.

    Raises:
        ValueError: it says neither.

    Examples:
        >>> truth_of(1), truth_of("False"), truth_of("")
        (True, False, None)
    """
    if cell is None or cell == "":
        return None
    word = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    word = word.strip().casefold()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"expected true or false, got {_shown(cell)}")
    return word in _TRUE


def scores_of(kind: str, cell: Json) -> Scores | None:
    """Read the numbers in one cell.

    Args:
        kind: what they are by the name of their column.
        cell: see the forms above.

    Returns:
        The numbers; None if the cell is empty. Two tokens of one text are summed.

    Raises:
        ValueError: the cell has another form.

    Examples:
        >>> scores_of("probabilities", '{"yes": 0.75, "no": 0.25}').names
        ('yes', 'no')
        >>> scores_of("log_probabilities", [{"token": "A", "logprob": -0.5}]).listed
        True
    """
    if isinstance(cell, str):
        cell = _unpacked(cell)
    if cell is None or cell in ([], {}):
        return None
    if isinstance(cell, dict):
        return _of_object(kind, cell)
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        message = (
            f"expected a list or an object of numbers, got {_shown(cell)}; if this is the "
            "probability of the answer that the model chose: --columns confidence=NAME"
        )
        raise ValueError(message)
    if not isinstance(cell, list):
        raise ValueError(f"expected a list or an object of numbers, got {_shown(cell)}")
    if all(isinstance(item, dict) for item in cell):
        return _of_objects(kind, [item for item in cell if isinstance(item, dict)])
    if len(cell) == 1 and isinstance(cell[0], list):
        return scores_of(kind, cell[0])
    numbers = [number_of(item) for item in cell]
    present = [number for number in numbers if number is not None]
    if len(present) < len(numbers):
        raise ValueError(f"expected a number for every answer, got {_shown(cell)}")
    return Scores(kind, tuple(present))


def with_names(scores: Scores, names: Json) -> Scores:
    """Return a list of numbers with the list of their labels in another cell, if there is one.

    Examples:
        >>> with_names(Scores("probabilities", (0.75, 0.25)), ["yes", "no"]).names
        ('yes', 'no')
    """
    if scores.names is not None or not isinstance(names, list):
        return scores
    if len(names) != len(scores.numbers) or not all(isinstance(name, str) for name in names):
        return scores
    return _summed(scores.kind, [str(name) for name in names], scores.numbers)


def _unpacked(text: str) -> Json:
    """Return what a cell of text holds: JSON, a Python literal or a printed array.

    Raises:
        ValueError: it is none of these.
    """
    text = text.strip()
    if not text:
        return None
    if _ARRAY.fullmatch(text):
        return [float(part) for part in text.strip("ary()[] ").split()]
    try:
        return loads(text)
    except ValueError:
        pass
    try:
        value: Json = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"expected a list or an object of numbers, got {text!r:.60}") from None
    return value


def _of_object(kind: str, cell: Mapping[str, Json]) -> Scores | None:
    content = cell.get("content")
    if isinstance(content, list):
        return _of_first_token(content)
    tops = cell.get("top_logprobs")
    if isinstance(tops, list):
        return _of_first_token(tops if all(map(_is_token, tops)) else [{"top_logprobs": tops[0]}])
    numbers = {name: number_of(value) for name, value in cell.items()}
    present = {name: number for name, number in numbers.items() if number is not None}
    return _summed(kind, [*present], [*present.values()])


def _is_token(value: Json) -> bool:
    return isinstance(value, dict) and "top_logprobs" in value


def _of_first_token(content: Sequence[Json]) -> Scores | None:
    """Return the most probable tokens at the only position of a completion.

    Raises:
        ValueError: there are several positions, so the one of the answer is not known.
    """
    if len(content) != 1:
        message = f"expected the log-probabilities of one token, got those of {len(content)}"
        raise ValueError(message)
    first = content[0]
    tops = first.get("top_logprobs") if isinstance(first, dict) else None
    if isinstance(tops, dict):
        named = _of_object("log_probabilities", tops)
        return None if named is None else Scores(named.kind, named.numbers, named.names, True)
    items = [item for item in tops if isinstance(item, dict)] if isinstance(tops, list) else []
    if isinstance(first, dict) and first.get("token") not in [item.get("token") for item in items]:
        items.append(first)
    return _of_objects("log_probabilities", items)


def _of_objects(kind: str, items: Sequence[Mapping[str, Json]]) -> Scores:
    if not items:
        raise ValueError("expected tokens with log-probabilities, got none")
    items = [{key.casefold(): value for key, value in item.items()} for item in items]
    name = next((key for key in _NAMES if all(key in item for item in items)), None)
    value = next((key for key in _VALUES if all(key in item for item in items)), None)
    if name is None or value is None:
        raise ValueError(f"expected objects with a label and a score, got {_shown({**items[0]})}")
    numbers = [number_of(item[value]) for item in items]
    if None in numbers:
        raise ValueError(f"expected a number for every answer, got {_shown({**items[0]})}")
    tokens = value in ("logprob", "log_prob")
    found = [number for number in numbers if number is not None]
    scores = _summed(
        "log_probabilities" if tokens else kind, [str(item[name]) for item in items], found
    )
    return Scores(scores.kind, scores.numbers, scores.names, listed=tokens)


def _summed(kind: str, names: Sequence[str], numbers: Sequence[float]) -> Scores:
    """Return numbers by name; those of one text, such as "A" and " A", are summed."""
    by_name: dict[str, list[float]] = {}
    for name, number in zip(names, numbers, strict=True):
        by_name.setdefault(name.strip(_SPACES), []).append(number)
    if kind == "logits" and any(len(values) > 1 for values in by_name.values()):
        raise ValueError("expected one logit for every answer, got two of one name")
    add = math.fsum if kind == "probabilities" else log_sum
    summed = tuple(values[0] if len(values) == 1 else add(values) for values in by_name.values())
    return Scores(kind, summed, tuple(by_name))


def log_sum(values: Sequence[float]) -> float:
    """Return the log of the sum of probabilities, from their logs.

    Examples:
        >>> log_sum([math.log(0.25), math.log(0.5)]) == math.log(0.75)
        True
    """
    most = max(values)
    if most == -math.inf:
        return most
    return most + math.log(math.fsum(math.exp(value - most) for value in values))


def _shown(value: Json) -> str:
    return dumps(value)[:60]


_PREDICTED: Final = re.compile(r"pred|prob|score|logit", re.IGNORECASE)
"""In the name of a column that a model has made; others may be votes of annotators."""


SCORE_KINDS: Final = ("probabilities", "log_probabilities", "logits")
"""Roles of numbers for the answers."""

_GROUPS: Final = (
    ("log_probabilities", r"log[_ ]?prob(?:s|abilit(?:y|ies))?|logp|log[_ ]p|lp"),
    ("logits", r"logits?"),
    ("probabilities", r"prob(?:s|a|abilit(?:y|ies))?|p|pr"),
)


@dataclass(frozen=True)
class TableRoles:
    """Columns by role, and columns with one number for one answer each.

    Attributes:
        columns: by role, its columns.
        groups: by kind of number, the answer that each column is of.
        stated: roles that the user names.
        form: how the public set that has these columns writes answers.
    """

    columns: Mapping[str, tuple[str, ...]]
    groups: Mapping[str, Mapping[str, str]]
    stated: frozenset[str]
    form: Form | None = None

    def first(self, role: str) -> str | None:
        """Return the column of a role; None without one."""
        return next(iter(self.columns.get(role, ())), None)

    @property
    def has_scores(self) -> bool:
        """Whether there are numbers for the answers."""
        return bool(self.groups) or any(kind in self.columns for kind in SCORE_KINDS)

    @property
    def used(self) -> set[str]:
        """Columns that have a role."""
        named = {name for names in self.columns.values() for name in names}
        return named | {name for names in self.groups.values() for name in names}


def roles_of_predictions(
    entries: Entries, reading: Reading, source: str, references: References | None = None
) -> TableRoles:
    """Return the columns of a table by role.

    Args:
        entries: its rows.
        reading: what the user says of it.
        source: name of the file, for messages.
        references: records with the right answers; None if the table has them.

    Raises:
        ShapeError: a named column is missing.
    """
    roles, known = roles_of_file(entries, reading, source)
    stated = reading.columns
    taken = {name for names in (*roles.values(), *stated.values()) for name in names}
    free = [name for name in entries.columns if name not in taken]
    groups = {} if {*SCORE_KINDS} & {*stated} else _groups_of_answers(free)
    free = [name for name in free if not any(name in group for group in groups.values())]
    for role in PREDICTED:
        names = stated.get(role) or tuple(columns_for(role, free))
        if len(names) > 1 and role in stated:
            shared = _shared_prefix(names)
            groups[role] = {name: name[len(shared) :].strip("()[] ") for name in names}
        elif names:
            roles[role] = names
    single = [] if "probabilities" in stated else _drop_single_numbers(entries, roles)
    form = None if known is None else known.form
    found = TableRoles(roles, groups, frozenset(stated), form)
    free = [name for name in free if name not in found.used]
    found = _without_confidence(_with_labelled_scores(entries, found, free, references, source))
    if single and not found.has_scores and "confidence" not in found.columns:
        message = (
            f"{source}: {single[0]} has one number per row: the probability of the answer that the "
            f"model chose, or of one of the answers. Decide with "
            f"{columns_option('confidence', single[:1])} or {columns_option(IGNORED, single[:1])}"
        )
        raise ShapeError(message)
    return found


def _groups_of_answers(free: Sequence[str]) -> dict[str, Mapping[str, str]]:
    """Return the columns with a number for one answer each, by kind."""
    groups: dict[str, Mapping[str, str]] = {}
    for kind, prefix in _GROUPS:
        pattern = re.compile(rf"(?:{prefix})[_. :/\-(\[]+(.+?)[)\]]?", re.IGNORECASE)
        named = {name: match[1] for name in free if (match := pattern.fullmatch(name))}
        if len(named) > 1:
            groups[kind] = named
            free = [name for name in free if name not in named]
    return groups


def _drop_single_numbers(entries: Entries, roles: dict[str, tuple[str, ...]]) -> list[str]:
    """Take the role of numbers from columns with one number per row, and return these columns."""
    names = roles.get("probabilities", ())
    single = [name for name in names if _is_single(entries, name)]
    if single:
        roles.pop("probabilities")
        kept = tuple(name for name in names if name not in single)
        roles |= {"probabilities": kept} if kept else {}
    return single


def _with_labelled_scores(
    entries: Entries,
    roles: TableRoles,
    free: Sequence[str],
    references: References | None,
    source: str,
) -> TableRoles:
    """Return roles with numbers that have no usual name, but the labels as names."""
    if not roles.has_scores:
        roles = replace(roles, groups=_scores_by_label(entries, roles, free, references, source))
    if not roles.has_scores:
        named = [
            name
            for name in free
            if _PREDICTED.search(name) and _has_labels(entries, roles.first("reference"), name)
        ]
        if len(named) == 1:
            roles = replace(roles, columns={**roles.columns, "probabilities": (named[0],)})
    return roles


def _without_confidence(roles: TableRoles) -> TableRoles:
    """Return roles without a confidence if all numbers are known."""
    if not roles.has_scores:
        return roles
    others = {role: names for role, names in roles.columns.items() if role != "confidence"}
    return replace(roles, columns=others)


def _has_labels(entries: Entries, reference: str | None, name: str) -> bool:
    """Return whether every cell of a column has numbers by name, and one for the right answer."""
    for entry in entries.entries:
        cell, label = entry.value.get(name), cell_text(entry.value.get(str(reference)))
        try:
            scores = None if _is_plain(cell) else scores_of("probabilities", cell)
        except ValueError:
            return False
        names = () if scores is None or scores.names is None else scores.names
        if label is None or fold_label(label) not in map(fold_label, names):
            return False
    return True


def _is_single(entries: Entries, name: str) -> bool:
    """Return whether a column has one number per row, which can be that of the answer only."""
    for entry in entries.entries:
        try:
            number_of(entry.value.get(name))
        except ValueError:
            return False
    return True


def unread_numbers(entries: Entries, used: Collection[str]) -> list[str]:
    """Return columns without a role whose cells are lists or objects of numbers."""
    unread = []
    for name in entries.columns:
        cells = [entry.value.get(name) for entry in entries.entries if name not in used]
        try:
            scores = [scores_of("logits", cell) for cell in cells if not _is_plain(cell)]
        except ValueError:
            continue
        sizes = [len(each.numbers) for each in scores if each is not None]
        if sizes and len(sizes) == len(cells) and min(sizes) > 1:
            unread.append(name)
    return unread


def _is_plain(cell: Json) -> bool:
    """Return whether a cell is one value, or text that is no list or object."""
    return not isinstance(cell, list | dict) and str(cell).strip()[:1] not in ("[", "{")


def _shared_prefix(names: Sequence[str]) -> str:
    """Return what all names begin with, up to a separator."""
    low, high = min(names), max(names)
    same = next((i for i, c in enumerate(low) if i >= len(high) or high[i] != c), len(low))
    ends = [match.end() for match in re.finditer(r"[_. :/\-(\[]+", low[:same])]
    return low[: ends[-1]] if ends else ""


def _scores_by_label(
    entries: Entries,
    roles: TableRoles,
    free: Sequence[str],
    references: References | None,
    source: str,
) -> dict[str, Mapping[str, str]]:
    """Return columns of numbers whose names are the labels, if they sum to 1 in every row.

    Raises:
        ShapeError: they may be the right answers once more.
    """
    column = roles.first("reference")
    labels = {cell_text(entry.value.get(column or "")) for entry in entries.entries}
    if references is not None:
        labels = {text for record in references.records for text in texts_of_record(record)}
    labels = {fold_label(label) for label in labels if label not in (None, "-") and label}
    named = [name for name in free if fold_label(name) in labels]
    if len(named) < 2 or {fold_label(name) for name in named} != labels:
        return {}
    right = True
    for entry in entries.entries:
        try:
            numbers = [number_of(entry.value.get(name)) or 0.0 for name in named]
        except ValueError:
            return {}
        if abs(math.fsum(numbers) - 1) > 1e-2:
            return {}
        top = named[numbers.index(max(numbers))]
        right = right and fold_label(top) == fold_label(
            cell_text(entry.value.get(column or "")) or ""
        )
    if right and column is not None:
        message = (
            f"{source}: {', '.join(named)} may be probabilities of a model, or the right answers "
            f"once more: the largest is {column} in every row. Decide with "
            f"{columns_option('probabilities', named)} or {columns_option(IGNORED, named)}"
        )
        raise ShapeError(message)
    return {"probabilities": {name: name for name in named}}


_TIE: Final = 1e-12
_TYPES: Final = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}
_HASH: Final = 12


@dataclass
class TableRow:
    """One row, parsed; what its cells name is not yet decided."""

    entry: Entry
    id: str
    scores: Scores | None = None
    confidence: float | None = None
    correct: bool | None = None
    record: Record | None = None
    options: Options = field(default_factory=lambda: Options(()))
    vector: list[float | None] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where the row is, for messages."""
        part = f"{self.entry.part}, row" if self.entry.part else "line"
        return f"{part} {self.entry.line} (id {self.id})"

    def named(self, index: int) -> str:
        """Return an option in words."""
        texts = self.options.texts
        return dumps(texts[index]) if texts else f"answer {index + 1} of {len(self.options)}"

    @cached_property
    def tops(self) -> set[int]:
        """The most probable answers; several if they tie."""
        known = [value for value in self.vector if value is not None]
        best = max(known, default=-math.inf)
        tie = _TIE * max(1.0, abs(best)) if math.isfinite(best) else 0.0
        return {i for i, v in enumerate(self.vector) if v is not None and v >= best - tie}


def parse_rows(
    entries: Entries, roles: TableRoles, references: References | None
) -> tuple[list[TableRow], list[Problem]]:
    """Parse the cells of every row, and join it with its record."""
    rows: list[TableRow] = []
    problems: list[Problem] = []
    repeats: Counter[str] = Counter()
    has_views = "view" in entries.columns
    for entry in entries.entries:
        row = TableRow(entry, _id_of(entry, roles))
        repeats[row.id] += 1
        if roles.first("id") is None and repeats[row.id] > 1 and not has_views:
            row.id = f"{row.id}-{repeats[row.id]}"
        try:
            if references is not None:
                row.record = references.record(row.id)
            row.scores = _scores(entry.value, roles)
            row.confidence = _confidence_in(entry.value, roles)
            column = roles.first("correct")
            if column is not None:
                with naming(column):
                    row.correct = truth_of(entry.value.get(column))
        except ValueError as error:
            problems.append(Problem(entry.line, row.id, str(error), "cells that cannot be read"))
        rows.append(row)
    return rows, problems


def _id_of(entry: Entry, roles: TableRoles) -> str:
    """Return the id of a row: its own, a hash of its text, or its number."""
    column = roles.first("id")
    own = None if column is None else as_text(entry.value.get(column))
    if own is not None:
        return own
    names = (*roles.columns.get("state", ()), *roles.columns.get("question", ()))
    texts = {name: entry.value[name] for name in names if name in entry.value}
    return sha256_of_json({**texts})[:_HASH] if texts else str(entry.line)


def _scores(value: Mapping[str, Json], roles: TableRoles) -> Scores | None:
    """Return the numbers of a row.

    Raises:
        ValueError: they cannot be read.
    """
    for kind in SCORE_KINDS:
        column = roles.first(kind)
        if column is not None:
            with naming(column):
                scores = scores_of(kind, value.get(column))
            return None if scores is None else with_names(scores, value.get("labels"))
    for kind, group in roles.groups.items():
        numbers = []
        for name in group:
            with naming(name):
                numbers.append(number_of(value.get(name)))
        present = [number for number in numbers if number is not None]
        if present and len(present) < len(numbers):
            lacking = [*group][numbers.index(None)]
            raise ValueError(f"{lacking}: expected a number, got none; fill the cell in")
        return Scores(kind, tuple(present), tuple(group.values())) if present else None
    return None


def _confidence_in(value: Mapping[str, Json], roles: TableRoles) -> float | None:
    """Return the probability of the answer of a row.

    Raises:
        ValueError: it cannot be read.
    """
    column = roles.first("confidence")
    try:
        return None if column is None else confidence_of(value.get(column))
    except ValueError as error:
        other = f"if it is not the probability of the answer: --columns {IGNORED}={column}"
        raise ValueError(f"{column}: {error}; {other}") from None


@contextmanager
def naming(column: str) -> Iterator[None]:
    """Put the name of a column before the message of a `ValueError` of the block."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def answer_cell(row: TableRow, column: str | None) -> Json:
    """Return what a row has in a column of answers."""
    return flagged(row.entry.value.get(str(column)))


def names_fit(row: TableRow, form: Form) -> bool:
    """Return whether the names of the numbers of a row name its options under a form."""
    if row.scores is None or row.scores.names is None or form not in row.options.forms:
        return False
    indices = [row.options.index(name, form) for name in row.scores.names]
    known = {index for index in indices if index is not None}
    if row.scores.listed:
        return bool(known)
    return len(known) == len(indices) == len(row.options)


def vector_of(row: TableRow, form: Form) -> list[float | None]:
    """Return the numbers of a row by option; None for an option that is not listed.

    Raises:
        ValueError: they are not those of the options.
    """
    if row.scores is None:
        return []
    names, numbers = row.scores.names, row.scores.numbers
    if names is None:
        if len(numbers) != len(row.options):
            message = (
                f"expected {len(row.options)} numbers, one per answer, got {len(numbers)}; if rows "
                "have options of their own, name them: --columns options=NAME"
            )
            raise ValueError(message)
        return [*numbers]
    if not names_fit(row, form):
        texts = ", ".join(row.options.texts[:8])
        message = f"expected a number for each of {texts}; got {', '.join(names)[:200]}"
        raise ValueError(message)
    vector: list[float | None] = [None] * len(row.options)
    for name, number in zip(names, numbers, strict=True):
        index = row.options.index(name, form)
        if index is None:
            continue
        earlier = vector[index]  # "yes" and "Yes" may both be listed
        vector[index] = number if earlier is None else log_sum([earlier, number])
    return vector


def record_answer(row: TableRow) -> str | None:
    """Return the text of the right answer of the record of a row."""
    record = row.record
    if record is None or record.reference is None:
        return None
    options = texts_of_record(record)
    return options[record.reference]


def options_of_record(record: Record | None, references: References) -> Options:
    """Return the answers of a record, and the names that may stand for them."""
    if record is None:
        return Options(())
    keys = tuple(answer.key for answer in record.field.answers)
    if record.field.kind == "boolean":
        return Options(keys, ("no", "yes"))
    texts = texts_of_record(record)
    return Options(texts, () if texts == keys else keys, ordered=references.ordered)


def facts_of_record(record: Record) -> dict[str, Json]:
    """Return what a record knows of its rows."""
    return {
        "family": record.family,
        "source_family": record.source_family,
        **({"domain": record.domain} if record.domain else {}),
        "kind": record.field.kind,
        "variant": record.variant,
    }


def stated_kind(row: TableRow, roles: TableRoles) -> str | None:
    """Return the kind of question that a column of types gives; None without a known one."""
    column = roles.first("type")
    return None if column is None else _TYPES.get(str(row.entry.value.get(column)))
