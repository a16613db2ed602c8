"""Answers as cells write them: text, letter or position of an option, and the form that a file has.

One cell can often be read in several forms: 0 is the first option, or the option "0". A form is
taken if the user states it, or if it is the only one that fits every row. If two fit and give
different answers, nothing is guessed: `ShapeError` shows one row under both, and the options that
decide.

    text         the text of an option; "Yes", "yes " and "1.0", "1" are one text each
    letter       A, B, ..., or the name that the file gives to an option
    position-0   its position, counted from 0
    position-1   its position, counted from 1
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.questions import DraftError, as_text
from pact_eval.data.records import LETTERS
from pact_eval.errors import ShapeError

_T = TypeVar("_T")
Form = str
TEXT: Final = "text"
LETTER: Final = "letter"
POSITIONS: Final[tuple[Form, Form]] = ("position-0", "position-1")
FORMS: Final[Mapping[Form, str]] = {
    TEXT: "--answers text",
    LETTER: "--answers letter",
    POSITIONS[0]: "--positions-from 0",
    POSITIONS[1]: "--positions-from 1",
}
"""Every form, and the option that states it."""

_TITLES: Final = {
    TEXT: "the text of an option",
    LETTER: "the letter or name of an option",
    POSITIONS[0]: "a position counted from 0",
    POSITIONS[1]: "a position counted from 1",
}
FALSE_WORDS: Final = frozenset({"false", "no", "0"})
TRUE_WORDS: Final = frozenset({"true", "yes", "1"})
"""Spellings of the answers of a boolean question."""

_BOOLEAN: Final = ("false", "true")
_NUMBER: Final = re.compile(r"[-+]?\d{1,15}(\.\d{1,15})?")
_WHOLE: Final = re.compile(r"[-+]?(0|[1-9]\d{0,14})(\.0+)?")
_SUFFIX: Final = re.compile(r"(.*?)[_. -]?(\d{1,2}|[A-Za-z])")
_LETTER: Final = re.compile(r"\(?([A-Z]{1})[).:]?")


def cell_text(cell: Json) -> str | None:
    """Return a cell as text; None if it has no value or is a list or an object.

    A list of one value is this value.

    Examples:
        >>> cell_text(1.0), cell_text(True), cell_text(" yes "), cell_text([3]), cell_text("")
        ('1', 'true', 'yes', '3', None)
    """
    if isinstance(cell, list) and len(cell) == 1:
        cell = cell[0]
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else str(cell)
    if isinstance(cell, int):
        return str(cell)
    return (cell.strip() or None) if isinstance(cell, str) else None


def fold_label(text: str) -> str:
    """Return what spellings of one label share: NFC, case, spaces, and the form of a number.

    Examples:
        >>> fold_label("True ") == fold_label("true"), fold_label("1.0"), fold_label("-2")
        (True, '1', '-2')
    """
    folded = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    # 1.0 is 1; versions such as 1.1 and 1.10, and codes such as 007 and 7, are different labels.
    return str(int(float(folded))) if _WHOLE.fullmatch(folded) else folded


def is_unlabelled(cell: Json) -> bool:
    """Tell whether a cell says that there is no label: nothing, empty text or a dash.

    Examples:
        >>> is_unlabelled(None), is_unlabelled(" "), is_unlabelled("-"), is_unlabelled(0)
        (True, True, True, False)
    """
    if isinstance(cell, float) and math.isnan(cell):
        return True
    return cell is None or (isinstance(cell, str) and cell.strip() in ("", "-")) or cell == []


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Sort labels by their value if all are numbers, and by their text otherwise.

    Examples:
        >>> sort_labels(["10", "9", "-1"]), sort_labels(["b", "10", "a"])
        (['-1', '9', '10'], ['10', 'a', 'b'])
    """
    texts = [*labels]
    if all(_NUMBER.fullmatch(text) for text in texts):
        return sorted(texts, key=float)
    return sorted(texts)


def of_texts(function: Callable[[Json], _T], cells: Sequence[Json]) -> list[_T]:
    """Return a function of every cell, called once for each different one if they are texts.

    Examples:
        >>> of_texts(cell_text, ["a", "a ", None])
        ['a', 'a', None]
    """
    if not {*map(type, cells)} <= {str, type(None)}:
        return [*map(function, cells)]
    texts: Sequence[Any] = cells
    known = {text: function(text) for text in dict.fromkeys(texts)}
    return [*map(known.__getitem__, texts)]


def distinct_labels(cells: Iterable[Json]) -> tuple[list[str], list[list[str]]]:
    """Return the different labels of cells in order, and the spellings that were taken as one.

    Examples:
        >>> distinct_labels([True, "true", "True", "no"])
        (['no', 'true'], [['True', 'true']])
    """
    spellings: dict[str, Counter[str]] = {}
    for text, count in Counter(of_texts(cell_text, [*cells])).items():
        if text is not None and not is_unlabelled(text):
            spellings.setdefault(fold_label(text), Counter())[text] += count
    labels = [min(counts, key=lambda text: (-counts[text], text)) for counts in spellings.values()]
    merged = [sorted(counts) for counts in spellings.values() if len(counts) > 1]
    return sort_labels(labels), merged


@dataclass(frozen=True)
class Options:
    """The options of one row or of a file.

    Attributes:
        texts: (C,) their texts; empty if only their number is known.
        names: (C,) what stands for them in the file; empty for the letters A, B, ...
        count: how many there are, if their texts are not known.
        ordered: whether the file or the user gives their order: letters and positions need one.
    """

    texts: tuple[str, ...]
    names: tuple[str, ...] = ()
    count: int = 0
    ordered: bool = True

    def __len__(self) -> int:
        return len(self.texts) or self.count

    @property
    def named(self) -> bool:
        """Whether the file gives the options names that are no numbers."""
        return any(not name.isdigit() for name in self.names)

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms in which a cell can name one of them."""
        if not self.texts:
            return POSITIONS
        return tuple(FORMS) if self.ordered else (TEXT,)

    @cached_property
    def _texts(self) -> dict[str, int]:
        return {text: index for index, text in reversed([*enumerate(self.texts)])}

    @cached_property
    def _folded(self) -> dict[str, int]:
        keys = [fold_label(text) for text in self.texts]
        folded = {key: index for index, key in enumerate(keys) if keys.count(key) == 1}
        if folded.keys() == {*_BOOLEAN}:
            folded |= dict.fromkeys(FALSE_WORDS, folded["false"])
            folded |= dict.fromkeys(TRUE_WORDS, folded["true"])
        return folded

    @cached_property
    def _names(self) -> dict[str, int]:
        named = {name.strip().upper(): index for index, name in enumerate(self.names)}
        # Options that are numbered in the file may still be named by letters.
        letters = {} if self.named else {name: at for at, name in enumerate(LETTERS[: len(self)])}
        return letters | named

    def index(self, cell: Json, form: Form) -> int | None:
        """Return the canonical index of the option that a cell names; None if it names none.

        Examples:
            >>> options = Options(("red", "blue"))
            >>> options.index("Blue", TEXT), options.index("(B)", LETTER), options.index(2, TEXT)
            (1, 1, None)
            >>> options.index(1, "position-0"), options.index("1", "position-1")
            (1, 0)
        """
        text = cell_text(cell)
        if text is None:
            return None
        if form == TEXT:
            exact = self._texts.get(text)
            return self._folded.get(fold_label(text)) if exact is None else exact
        if form == LETTER:
            named = self._names.get(text.upper())
            letter = _LETTER.fullmatch(text.upper())
            return self._names.get(letter[1]) if named is None and letter else named
        if isinstance(cell, bool):
            return None
        number = fold_label(text)
        position = int(number) if number.isascii() and number.isdigit() else -1
        position -= int(form == POSITIONS[1])
        return position if 0 <= position < len(self) else None


@dataclass(frozen=True)
class Answers:
    """The cells of one column, each with the options of its row.

    Attributes:
        column: its name, for messages.
        cells: what the rows have; rows without a label are left out.
        options: of each row.
        place: of a row by its number, for messages.
    """

    column: str
    cells: Sequence[Json]
    options: Sequence[Options]
    place: Callable[[int], str]

    def read(self, form: Form) -> list[int | None]:
        """Return the index of every cell under a form."""
        if len({*map(id, self.options)}) == 1:
            options = self.options[0]
            known = form in options.forms
            return of_texts(lambda cell: options.index(cell, form) if known else None, self.cells)
        return [
            options.index(cell, form) if form in options.forms else None
            for cell, options in zip(self.cells, self.options, strict=True)
        ]

    def readings(self, stated: Form | None = None) -> dict[Form, list[int]]:
        """Return the forms that fit every row, with the indices of all rows.

        Forms that give the same indices are one reading, under the first of their names.
        """
        fitting: dict[Form, list[int]] = {}
        for form in FORMS if stated is None else (stated,):
            indices = [index for index in self.read(form) if index is not None]
            if len(indices) == len(self.cells) and indices not in fitting.values():
                fitting[form] = indices
        return fitting

    def likeliest(self) -> Form:
        """Return the form that fits most rows, for messages about the others."""
        fits = {form: sum(i is not None for i in self.read(form)) for form in FORMS}
        return max(FORMS, key=fits.__getitem__)

    def named(self, row: int, index: int) -> str:
        """Return an option in words: its text, or its position."""
        texts = self.options[row].texts
        return dumps(texts[index]) if texts else f"answer {index + 1} of {len(self.options[row])}"


def choose_form(answers: Answers, source: str, stated: Form | None = None) -> Form:
    """Return the form of a column: the stated one, or the only one that fits every row.

    Where none fits every row, the likeliest is returned: the reader then lists the other rows.

    Args:
        answers: the column.
        source: name of the file, for the message.
        stated: what the user says.

    Raises:
        ShapeError: two forms fit every row and differ.
    """
    if stated is not None:
        return stated
    readings = answers.readings()
    if not readings:
        return answers.likeliest()
    if len(readings) > 1:
        first, second, *_ = readings
        raise two_readings(source, answers, (first, readings[first]), (second, readings[second]))
    return next(iter(readings))


def two_readings(
    source: str,
    answers: Answers,
    first: tuple[Form, Sequence[int]],
    second: tuple[Form, Sequence[int]],
) -> ShapeError:
    """Return the error of two readings that fit: a row under both, and what decides."""
    pairs = enumerate(zip(first[1], second[1], strict=True))
    row = next((number for number, (a, b) in pairs if a != b), 0)
    message = (
        f"{source}: {answers.column} can be read as {_TITLES[first[0]]} or as {_TITLES[second[0]]},"
        f" and both fit every row. {answers.place(row)}: {answers.column} = "
        f"{dumps(answers.cells[row])} is "
        f"{answers.named(row, first[1][row])} or {answers.named(row, second[1][row])}. Decide with "
        f"{FORMS[first[0]]} or {FORMS[second[0]]}"
    )
    return ShapeError(message)


def numbered_columns(present: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the columns that are numbered from 0 or 1, or lettered from A: two or more of each.

    Returns:
        What the names of each group share, and its columns by what tells them apart.

    Examples:
        >>> numbered_columns(["opt_2", "opt_1", "A", "B", "x7"])
        [('opt', {'1': 'opt_1', '2': 'opt_2'}), ('', {'A': 'A', 'B': 'B'})]
    """
    by_prefix: dict[str, dict[str, str]] = {}
    for name in present:
        parts = _SUFFIX.fullmatch(name)
        if parts:
            suffix = str(int(parts[2])) if parts[2].isdigit() else parts[2].upper()
            by_prefix.setdefault(parts[1], {})[suffix] = name
    groups = []
    numbers = [*map(str, range(26))]
    for prefix, columns in by_prefix.items():
        for order in (LETTERS, numbers, numbers[1:]):
            names = [*itertools.takewhile(columns.__contains__, order)]
            if len(names) > 1 and (prefix or names[0].isalpha()):
                groups.append((prefix, {name: columns[name] for name in names}))
                break
    return groups


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
        cell = entry.get(columns[0])
        if reference in columns and isinstance(cell, dict) and _are_flags(cell):
            cell = [*cell]
        listed, names = _list_options(cell, columns[0])
        return Options(_check_options(listed, columns), names)
    texts: list[str | None] = []
    for name in columns:
        cell = entry.get(name)
        texts += [as_text(item) for item in cell] if isinstance(cell, list) else [as_text(cell)]
    present = [text for text in texts if text is not None]
    if reference in columns:
        return Options(tuple(sorted(_check_options(present, columns))))
    groups = [group for _, group in numbered_columns(columns) if len(group) == len(columns)]
    names = tuple(groups[0]) if groups else tuple(columns)
    if len(texts) != len(names):
        return Options(_check_options(present, columns))
    named = zip(names, texts, strict=True)
    return Options(
        _check_options(present, columns), tuple(name for name, text in named if text is not None)
    )


def flagged(cell: Json) -> Json:
    """Return the position of the only true one of the labels 1, 0, ... next to choices.

    Any other cell is returned as it is.

    Examples:
        >>> flagged({"choices": ["a", "b"], "labels": [0, 1]}), flagged({"a": 0, "b": 1})
        (1, 1)
    """
    labels = cell.get("labels") if isinstance(cell, dict) else None
    if isinstance(cell, dict) and _are_flags(cell):
        labels = [*cell.values()]
    return labels.index(1) if isinstance(labels, list) and labels.count(1) == 1 else cell


def _are_flags(cell: Mapping[str, Json]) -> bool:
    """Return whether an object says of every answer whether it is right: 1 or 0."""
    return bool(cell) and all(value in (0, 1) for value in cell.values())


def _list_options(value: Json, name: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the options of one cell, and the names that stand for them."""
    if isinstance(value, str):
        value = _unpack(value)
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        value = _options_of_pairs([item for item in value if isinstance(item, dict)])
    if isinstance(value, dict):
        texts = value.get("text", value.get("choices"))
        if isinstance(texts, list) and isinstance(value.get("label"), list):
            return _texts(texts, name), tuple(_texts(value["label"], name))
        if isinstance(texts, list):
            return _texts(texts, name), ()
        present = {key: text for key, text in value.items() if text is not None}
        return _texts([*present.values()], name), tuple(present)
    return _texts(value, name), ()


def _options_of_pairs(items: Sequence[Mapping[str, Json]]) -> Json:
    """Return options by name, of objects with a name and a text each; None if they have others."""
    keys = [*items[0]]
    name = next((key for key in ("key", "label", "letter", "name", "id") if key in keys), None)
    text = next((key for key in ("value", "text", "option", "content") if key in keys), None)
    if name is None or text is None or any({name, text} - item.keys() for item in items):
        return None
    return {str(item[name]): item[text] for item in items}


def _unpack(text: str) -> Json:
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


def _check_options(options: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    twice = [option for option, count in Counter(options).items() if count > 1]
    if twice or len(options) < 2:
        what = f"different options, got {twice[0]!r:.40} twice" if twice else "two or more options"
        message = f"{'+'.join(columns)}: expected {what}; correct the options"
        raise DraftError(message, "options that cannot be read")
    return tuple(options)
