"""Files of grades: whether each answer is right, and nothing else of it.

A format is a subclass of `GradedSource`, which names the columns of its rows. A run of grades has
accuracy, its intervals and comparisons; it does not know which answers these are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import cell_text
from pact_eval.data.labelled.entries import Entry, read_entries
from pact_eval.data.labelled.reading import PREDICTED, ROLES
from pact_eval.errors import InputError, Problem
from pact_eval.importing.exchanges import first_of, several_models
from pact_eval.importing.source import ImportOptions, Log, LogFacts, LogRow, Source, Start
from pact_eval.importing.table_cells import number_or_none, truth_of

_NAMES: Final = {**ROLES, **PREDICTED}
_OF_TABLES: Final = frozenset(
    {"answers", *(name for role in ("reference", *PREDICTED) for name in _NAMES[role])}
)
"""Columns of right answers and of what a model said: a file that has one is a table."""


class GradedSource(Source):
    """A format of grades.

    Attributes:
        required: further columns that every file of the format has.
        ids: names of the column of ids.
        grades: names of the columns that say whether an answer is right.
        models: of the model; groups: of what belongs together; repeats: of the number of a sample.
    """

    joins = True
    required: ClassVar[tuple[str, ...]] = ()
    ids: ClassVar[tuple[str, ...]]
    grades: ClassVar[tuple[str, ...]]
    models: ClassVar[tuple[str, ...]] = ("model",)
    groups: ClassVar[tuple[str, ...]] = ()
    repeats: ClassVar[tuple[str, ...]] = ()

    def recognises(self, start: Start) -> bool:
        """A file whose first row has an id and a grade by the names of the format."""
        names = start.first or frozenset(_header(start.content))
        own = names >= {*self.ids, *self.required} and bool(names & {*self.grades})
        return own and not names & _OF_TABLES

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a file of grades.

        Raises:
            InputError: it cannot be read, or `--data` is given.
            ShapeError: it has the grades of several models.
        """
        if options.data is not None:
            raise InputError(
                f"--data: {path} has grades, which need no right answers; leave it out"
            )
        entries = read_entries(path)
        rows, facts = self.rows_of(path, entries.entries, options)
        return Log(iter([*entries.problems, *rows]), (path,), lambda: facts)

    def rows_of(
        self, path: Path, entries: Sequence[Entry], options: ImportOptions
    ) -> tuple[list[LogRow | Problem], LogFacts]:
        """Return the rows of one model, and what is known of the file.

        Raises:
            ShapeError: there are several models, and the user names none of them.
        """
        lines: dict[str, list[int]] = defaultdict(list)
        for entry in entries:
            lines[_cell(entry, self.models) or ""].append(entry.line)
        model = options.filter or next(iter(lines), "")
        if model not in lines or (options.filter is None and len(lines) > 1):
            raise several_models(str(path), lines, options.filter)
        own = [entry for entry in entries if (_cell(entry, self.models) or "") == model]
        return [*self._rows(own, options)], LogFacts({"rows": len(own)}, model or None)

    def _rows(self, entries: Sequence[Entry], options: ImportOptions) -> Iterator[LogRow | Problem]:
        first: dict[str, int] = {}
        used = {*self.ids, *self.grades, *self.models, *self.groups, *self.repeats}
        for entry in entries:
            item = _cell(entry, self.ids)
            try:
                grade = self._grade(entry)
                if item in first:
                    raise ValueError(
                        f"graded already on line {first[item]}; give every sample a file of its own"
                    )
                row: dict[str, Json] = {
                    "id": item,
                    "reference": 0,
                    "n_choices": 2,
                    "grade": grade,
                    "code_order": [],
                }
                group = _cell(entry, self.groups)
                row |= {} if group is None else {"family": group}
                row |= options.grouping.of_entry(entry.value)
            except ValueError as error:
                yield Problem(entry.line, item, str(error))
                continue
            first[str(item)] = entry.line
            further = {name: cell for name, cell in entry.value.items() if name not in used}
            yield LogRow(entry.line, item, row, further=further)

    def _grade(self, entry: Entry) -> bool:
        """Return whether an answer is right.

        Raises:
            ValueError: it is neither right nor wrong, or two columns differ.
        """
        cells = {name: entry.value.get(name) for name in self.grades}
        found = {name: _truth(name, cell) for name, cell in cells.items() if cell is not None}
        if not found:
            raise ValueError(f"expected {' or '.join(self.grades)}, got neither")
        if len({*found.values()}) > 1:
            raise ValueError(f"{' and '.join(found)} differ: {dumps({**cells})}")
        return next(iter(found.values()))


def _truth(name: str, cell: Json) -> bool:
    number = None if isinstance(cell, bool) else number_or_none(cell)
    if number is not None and number not in (0, 1):
        raise ValueError(f"{name}: expected 0 or 1, got {number:g}: a share is not right or wrong")
    truth = truth_of(number if number is not None else cell)
    return bool(truth)


def _cell(entry: Entry, names: Sequence[str]) -> str | None:
    return cell_text(first_of(entry.value.get(name) for name in names))


def _header(content: bytes) -> list[str]:
    """Return the names on the first line of a table."""
    line = content.decode("utf-8-sig", errors="replace").lstrip().split("\n", 1)[0]
    if line.startswith(("{", "[")):
        return []
    mark = max(",;\t|", key=line.count)
    return [name.strip().strip('"') for name in line.split(mark)]
