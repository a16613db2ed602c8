"""Options of the rows of a table, and its numbers in the order of the options.

They are those of the records, of the user, of columns of options, or of the whole file: the names
of classes or of the numbers, positions, or the labels themselves. A list of numbers needs an order:
the predictions of a table may prove it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import (
    FORMS,
    LETTER,
    TEXT,
    Answers,
    Form,
    Options,
    cell_text,
    distinct_labels,
    fold_label,
    sort_labels,
    two_readings,
)
from pact_eval.data.labelled.columns import (
    check_truths,
    check_unread,
    levels_by_value,
    options_of_row,
)
from pact_eval.data.labelled.draft import DraftError
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.labelled.roles import (
    IGNORED,
    columns_option,
)
from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.references import References
from pact_eval.importing.table_rows import (
    TableRoles,
    TableRow,
    answer_cell,
    names_fit,
    options_of_record,
    record_answer,
    stated_kind,
    vector_of,
)

__all__ = ["TableOptions"]


@dataclass
class TableOptions:
    """Search for the options of a table.

    Attributes:
        entries: the rows as they were read.
        roles: its columns.
        rows: those that have a label, parsed; they get their options here.
        reading: what the user says.
        source: name of the file, for messages.
        references: records with the right answers; None if the table has them.
        reference: the column of the right answer; None with records.
        prediction: that of the prediction; None without one.
        remarks: what to know of the reading.
        literal: whether a text that is an option is that option, and never a position.
        from_0: whether positions are counted from 0, as the file says.
    """

    entries: Entries
    roles: TableRoles
    rows: Sequence[TableRow]
    reading: Reading
    source: str
    references: References | None
    reference: str | None
    prediction: str | None
    remarks: list[str] = field(default_factory=list)
    literal: bool = False
    from_0: bool = False

    def find(self) -> list[Problem]:
        """Give every row its options, and put its numbers in their order.

        Returns:
            What is wrong with rows.

        Raises:
            ShapeError: nothing decides what the options are, or their order.
        """
        return self._find_options() or self._place_scores()

    def _find_options(self) -> list[Problem]:
        """Give every row its options; return what is wrong with rows."""
        reading, roles = self.reading, self.roles
        if self.references is not None:
            for row in self.rows:
                row.options = options_of_record(row.record, self.references)
                self._compare_options(row)
            self.literal = True
            lists = [row for row in self.rows if row.scores is not None and not row.scores.names]
            if lists and not all(row.options.ordered for row in lists):
                self._options_of_lists([record_answer(row) for row in self.rows])
        elif reading.options:
            self._give(Options(reading.options), literal=True)
        elif "options" in roles.columns:
            return self._options_of_columns()
        else:
            self._options_of_file()
        return []

    def _compare_options(self, row: TableRow) -> None:
        """Refuse a row whose options are not those of its record, in their order.

        Raises:
            ShapeError: they differ.
        """
        columns = self.roles.columns.get("options")
        try:
            own = options_of_row(row.entry.value, columns, self.reference) if columns else None
        except DraftError:
            return
        if own is not None and own.texts != row.options.texts:
            message = (
                f"{self.source}: {row.place} has the options {', '.join(map(dumps, own.texts))}, "
                f"and its record has {', '.join(map(dumps, row.options.texts))}. Leave one out: "
                f"{columns_option(IGNORED, columns or ())}, or no --data"
            )
            raise ShapeError(message)

    def _options_of_file(self) -> None:
        """Take the options from the whole file.

        Raises:
            ShapeError: columns look like options, or nothing gives an order that is needed.
        """
        roles = self.roles
        read = {**roles.columns, "": tuple(roles.used)}
        check_unread(read, self.entries, self.reading, self.source)
        self._find_options_of_file(roles)
        self._order_levels()

    def _order_levels(self) -> None:
        """Put the levels of rubrics in the order of their values.

        Raises:
            ShapeError: they are words, whose order nobody gives.
        """
        rows = [
            row
            for row in self.rows
            if self.reading.levels or stated_kind(row, self.roles) == "score"
        ]
        texts = {row.options.texts for row in rows if not row.options.ordered}
        if len(texts) > 1 or texts == {()}:
            return
        for labels in texts:
            levels = levels_by_value(labels, self.source, str(self.reference))
            named = any(row.scores is not None for row in rows)
            self._give(Options(labels if named else tuple(levels)), literal=True)

    def _find_options_of_file(self, roles: TableRoles) -> None:
        if self.entries.class_names.get(str(self.reference)):
            self._give(Options(self.entries.class_names[str(self.reference)]), literal=True)
            self.from_0 = True  # as `datasets` counts its classes
        elif any(row.scores is not None and row.scores.names for row in self.rows):
            self._options_of_names()
        elif roles.has_scores:
            self._options_of_lists([answer_cell(row, self.reference) for row in self.rows])
        else:
            self._check_words()
            names = (self.reference, self.prediction)
            cells = [row.entry.value.get(str(name)) for row in self.rows for name in names]
            labels, merged = distinct_labels(cells)
            check_truths(labels, str(self.reference), self.source)
            self.remarks += [f"Read as one label: {', '.join(map(dumps, m))}." for m in merged]
            self._give(Options(tuple(labels), ordered=False), literal=True)

    def _check_words(self) -> None:
        """Check that right answers and predictions are written in the same words.

        Raises:
            ShapeError: no prediction is one of the right answers.
        """
        words = []
        for column in (self.reference, self.prediction):
            labels, _ = distinct_labels(answer_cell(row, column) for row in self.rows)
            words.append({fold_label(label): label for label in labels})
        shared = words[0].keys() & words[1].keys()
        numbers = [{int(word) for word in each if word.isdigit()} for each in words]
        shifted = bool(numbers[0]) and {n + 1 for n in numbers[0]} == numbers[1]
        if not all(words) or (shared and not shifted and not _are_continuous(*words)):
            new = [words[1][word] for word in words[1].keys() - words[0].keys()]
            if new:
                self.remarks.append(
                    f"{len(new):,} predictions are none of the right answers, so they count as "
                    f"wrong: {', '.join(map(dumps, sorted(new)[:6]))}."
                )
            return
        ours, theirs = (", ".join([*each.values()][:4]) for each in words)
        message = (
            f"{self.source}: {self.reference} has {ours}, and {self.prediction} has {theirs}: "
            "they are not the same words. If one has positions or letters, give the order of the "
            f"answers: --options {shlex.quote(','.join([*max(words, key=_words).values()][:26]))}"
        )
        raise ShapeError(message)

    def _give(self, options: Options, *, literal: bool) -> None:
        for row in self.rows:
            row.options = options
        self.literal = literal

    def _options_of_columns(self) -> list[Problem]:
        problems = []
        columns = self.roles.columns["options"]
        first: dict[str, Options] = {}
        for row in self.rows:
            try:
                row.options = options_of_row(row.entry.value, columns, self.reference)
                earlier = first.setdefault(row.id, row.options).texts
                if "-" in row.options.texts or earlier != row.options.texts:
                    what = '"-", which also says that there is no label'
                    if earlier != row.options.texts:
                        what = "another order of options than the first view of its item"
                    message = f"{self.source}: {row.place} has {what}; write rows that agree"
                    raise ShapeError(message)
            except DraftError as error:
                problems.append(Problem(row.entry.line, row.id, str(error), error.kind))
        return problems

    def _options_of_names(self) -> None:
        """Take the names of the numbers as options, sorted: a file has no other order of them.

        Raises:
            ShapeError: only some tokens are listed, so the options are not known.
        """
        named = [row for row in self.rows if row.scores is not None and row.scores.names]
        if any(row.scores is not None and row.scores.listed for row in named):
            labels, _ = distinct_labels(row.entry.value.get(str(self.reference)) for row in named)
            message = (
                f"{self.source}: the most probable tokens are listed, and the answers are not "
                f"known. Name them: --options {','.join(labels[:6])}"
            )
            raise ShapeError(message)
        names_of = {id(row): row.scores.names or () for row in named if row.scores}
        # Numbers have an order, and so may also be meant as positions.
        numbers = all(name.isdigit() for names in names_of.values() for name in names)
        self.literal = not numbers
        for row in named:
            row.options = Options(tuple(sort_labels(names_of[id(row)])), ordered=numbers)
        sets = {frozenset(row.options.texts) for row in named}
        shared = Options(tuple(sort_labels(set.union(*map(set, sets)))), ordered=numbers)
        for row in self.rows:
            if len(sets) == 1 or id(row) not in names_of:  # rows are not compared, only found
                row.options = shared

    def _options_of_lists(self, cells: Sequence[Json]) -> None:
        """Take the positions of the numbers, or their texts if predictions prove the order.

        Args:
            cells: the right answer of every row.

        Raises:
            ShapeError: nothing gives the order.
        """
        counts = {len(row.scores.numbers) for row in self.rows if row.scores is not None}
        count = max(counts, default=0)
        numbers = all(fold_label(cell_text(cell) or "").isdigit() for cell in cells)
        if (numbers and self.references is None) or len(counts) != 1:
            for row in self.rows:
                size = len(row.scores.numbers) if row.scores is not None else count
                row.options = Options((), count=size)
            return
        labels, _ = distinct_labels(cells)
        if not labels:
            message = (
                f"{self.source}: {self.reference} has no label that is text or a number. Name "
                f"another column: {columns_option('reference', ['NAME'])}"
            )
            raise ShapeError(message)
        order = self._order_by_prediction(count, labels)
        if order is None:
            listed = ",".join(labels) if len(labels) == count else "FIRST,SECOND,..."
            listed = shlex.quote(listed)
            first = self.rows[0]
            message = (
                f"{self.source}: the {count} numbers of a row are in an order that the file does "
                f"not give: {first.place} may have {dumps(labels[0])} first or "
                f"{dumps(labels[-1])} first. Name the answers in their order: --options {listed}"
            )
            raise ShapeError(message)
        self.remarks.append(f"Order of the numbers, by {self.prediction}: {', '.join(order)}.")
        self._give(Options(order), literal=True)

    def _order_by_prediction(self, count: int, labels: Sequence[str]) -> tuple[str, ...] | None:
        """Return the only order of labels in which every prediction is the most probable answer."""
        if self.prediction is None:
            return None
        texts: dict[int, dict[str, TableRow]] = {}
        cells = [row.entry.value.get(self.prediction) for row in self.rows]
        known, _ = distinct_labels([*labels, *cells])
        spelling = {fold_label(label): label for label in known}
        for row, cell in zip(self.rows, cells, strict=True):
            numbers = row.scores.numbers if row.scores else ()
            best = [i for i, number in enumerate(numbers) if number == max(numbers)]
            text = cell_text(cell)
            if text is not None and len(best) == 1:
                texts.setdefault(best[0], {}).setdefault(spelling[fold_label(text)], row)
        if len(known) > count:
            return None
        self._refuse_two_texts(texts)
        order = {place: min(of_place) for place, of_place in texts.items()}
        left = [label for label in known if label not in order.values()]
        places = [place for place in range(count) if place not in order]
        if len(left) == len(places) == 1:
            order[places[0]] = left[0]
        distinct = len({*order.values()}) == len(order) == count
        return tuple(order[place] for place in range(count)) if distinct else None

    def _refuse_two_texts(self, texts: Mapping[int, Mapping[str, TableRow]]) -> None:
        """Refuse predictions that no order of the numbers explains.

        Raises:
            ShapeError: one place is most probable, and rows with it have different predictions.
        """
        for place, rows in texts.items():
            if len(rows) > 1:
                (a, first), (b, second), *_ = rows.items()
                message = (
                    f"{self.source}: number {place + 1} is the largest in two rows with different "
                    f"predictions: {first.place} has {dumps(a)}, {second.place} has {dumps(b)}. If "
                    f"{self.prediction} is no fact about these numbers: "
                    f"{columns_option(IGNORED, [str(self.prediction)])}"
                )
                raise ShapeError(message)

    def _place_scores(self) -> list[Problem]:
        """Put the numbers of every row in the order of its options."""
        form = self._form_of_names()
        problems = []
        for row in self.rows:
            try:
                row.vector = vector_of(row, form)
            except ValueError as error:
                problems.append(Problem(row.entry.line, row.id, str(error), "numbers of answers"))
        return problems

    def _form_of_names(self) -> Form:
        """Return how the names of the numbers name options.

        Raises:
            ShapeError: two forms fit and differ.
        """
        named = [row for row in self.rows if row.scores is not None and row.scores.names]
        listed = any(row.scores is not None and row.scores.listed for row in named)
        if self.literal and not listed and all(names_fit(row, TEXT) for row in named):
            return TEXT
        forms = (TEXT, LETTER) if listed else tuple(FORMS)
        fitting = [form for form in forms if named and all(names_fit(row, form) for row in named)]
        if self.reading.form in fitting:
            return self.reading.form or TEXT
        if len(fitting) > 1:
            names = [(row, name) for row in named if row.scores for name in row.scores.names or ()]
            answers = Answers(
                "the names of the numbers",
                [name for _, name in names],
                [row.options for row, _ in names],
                [row.place for row, _ in names],
            )
            a, b = (
                [i if i is not None else -1 for i in answers.read(form)] for form in fitting[:2]
            )
            if a != b:
                raise two_readings(self.source, answers, (fitting[0], a), (fitting[1], b))
        return fitting[0] if fitting else TEXT


def _are_continuous(labels: Mapping[str, str], predictions: Mapping[str, str]) -> bool:
    """Return whether predictions are numbers between the labels, as of a regression."""
    between = [word for word in predictions if re.fullmatch(r"-?\d+\.\d*[1-9]\d*", word)]
    return len(between) > len(predictions) / 2 and not {*between} & labels.keys()


def _words(labels: Mapping[str, str]) -> int:
    """Return how much labels look like words: longer ones do more."""
    return max(map(len, labels), default=0)
