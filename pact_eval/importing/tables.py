"""Tables of others with the answers of a model, translated to rows of our own format.

A row has the right answer and what a model said: numbers for the answers (`table_cells.py`), its
answer alone, or both. The right answer may be in a dataset file instead (`--data`), joined by id.
Columns have roles as in labelled data (`data/labelled/columns.py`), and those of `PREDICTED`:

    prediction          prediction, predicted, predicted_label, pred, y_pred
    probabilities       a column of lists or objects; or a column per answer: p_refund, prob.refund
    log_probabilities   likewise: logprob_refund; logits: logit_refund
    confidence          the probability of the prediction, without the others
    correct             a check of every row

All rows decide together what cells mean: a reading has to fit every row, the prediction has to be
the most probable answer, and `correct` has to agree. If two readings pass and differ, nothing is
guessed.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.answers import (
    FORMS,
    LETTER,
    POSITIONS,
    TEXT,
    Answers,
    Form,
    Options,
    cell_text,
    distinct_labels,
    flagged,
    fold_label,
    is_unlabelled,
    of_texts,
    options_of_row,
    sort_labels,
    two_readings,
)
from pact_eval.data.labelled.columns import (
    check_truths,
    check_unread,
    levels_by_value,
    minus_one,
)
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.identity import counts_in_order, is_constant
from pact_eval.data.labelled.questions import DraftError, as_text
from pact_eval.data.labelled.reading import IGNORED, Reading, columns_option
from pact_eval.data.records import MIN_ANSWERS, Record
from pact_eval.errors import Problem, ShapeError, counted
from pact_eval.importing.row_reader import confident_logits, fewest_answers
from pact_eval.importing.source import COLUMNS_REMARK, Grouping, LogRows, References, by_column
from pact_eval.importing.table_cells import attempted
from pact_eval.importing.table_items import families_of_rows
from pact_eval.importing.table_rows import (
    NamesOfNumbers,
    TableRoles,
    TableRow,
    options_of_record,
    parse_rows,
    roles_of_table,
    split_predictions,
    vector_of,
)
from pact_eval.runs.predictions import SUM_TOLERANCE

__all__ = ["Table", "read_table"]

_NUMBERS: Final = ("view", "prompt_tokens", "answer_mass", "view_tv", "permutation_tv")
_VARIANTS: Final = ("base", "counterfactual")
_LABELS: Final = ("family", "source_family", "domain", "variant")
_T = TypeVar("_T")
_BOOLEAN: Final = ("false", "true")
_KINDS: Final = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}


@dataclass(frozen=True)
class Table:
    """A table that was read.

    Attributes:
        rows: its rows in our format, and what is wrong with others.
        remarks: what to know of the reading, one sentence each.
        block: what `run.json` keeps of it.
    """

    rows: LogRows
    remarks: tuple[str, ...] = ()
    block: Mapping[str, Json] = field(default_factory=dict)


def read_table(
    entries: Entries,
    reading: Reading,
    source: str,
    references: References | None = None,
    grouping: Grouping | None = None,
) -> Table:
    """Read a table of others.

    Args:
        entries: its rows.
        reading: what the user says of it.
        source: name of the file, for messages.
        references: records with the right answers, joined by id; None if the table has them.
        grouping: what names families and domains.

    Raises:
        ShapeError: two readings fit and differ, a check contradicts the only one, or a role has no
            column.
    """
    entries, reading = split_predictions(entries, reading)
    roles = roles_of_table(entries, reading, source, references)
    rows, problems = parse_rows(entries, roles, references)
    problems = [*entries.problems, *problems]
    if problems:
        return Table(LogRows.of(problems))
    reader = _TableReader(entries, roles, reading, source, references, grouping or Grouping({}))
    return reader.table(rows)


@dataclass
class _Chosen:
    """One reading of all rows that have a label.

    Attributes:
        forms: of the right answer and of the prediction; None without a column.
        references: index of the right answer of every row.
        predictions: that of the prediction; None without a column.
    """

    forms: tuple[Form | None, Form | None]
    references: Sequence[int]
    predictions: Sequence[int] | None


class _TableReader:
    """Steps from parsed rows to rows in our format."""

    def __init__(
        self,
        entries: Entries,
        roles: TableRoles,
        reading: Reading,
        source: str,
        references: References | None,
        grouping: Grouping,
    ) -> None:
        self._entries = entries
        self._roles = roles
        self._reading = reading
        self._source = source
        self._data = references
        self._grouping = grouping
        self._remarks = [*entries.remarks]
        self._reference = None if references is not None else roles.first("reference")
        self._prediction = roles.first("prediction")
        self._forms: tuple[Form, ...] = ()  # taken if they fit, before any other
        self._rows: Sequence[TableRow] = ()
        self._families: Sequence[str | None] = ()
        self._names = NamesOfNumbers()

    def table(self, rows: Sequence[TableRow]) -> Table:
        """Return the rows in our format."""
        self._rows = self._keep_labelled(rows)
        self._families = self._families_of_texts()
        problems = [] if self._roles.outcomes else self._set_options() or self._set_vectors()
        if problems:
            return Table(LogRows.of(problems))
        self._mark_answered()
        answered = [row for row in self._rows if row.answered]
        chosen = self._choose(answered)
        self._check_copy(answered, chosen)
        predictions: Sequence[int | None] = chosen.predictions or [None] * len(answered)
        for row, right, said in zip(answered, chosen.references, predictions, strict=True):
            row.right, row.said = right, said
        remarks = (self._remark(chosen), *self._remarks)
        return Table(self._log_rows(), remarks, self._block(chosen))

    def _plain(self, column: str) -> list[Json]:
        """Return what the rows have in a column."""
        cells = self._entries.column(column)
        return [cells[row.at] for row in self._rows] if len(self._rows) < len(cells) else cells

    def _cells(self, column: str | None, rows: Sequence[TableRow]) -> list[Json]:
        """Return what rows have in a column of answers."""
        cells = self._entries.column(column)
        if dict in {*map(type, cells)}:
            cells = [*map(flagged, cells)]
        return [cells[row.at] for row in rows] if len(rows) < len(cells) else cells

    def _remark(self, chosen: _Chosen) -> str:
        """Say which columns were read, and how the right answer names an option."""
        roles = {role: "+".join(names) for role, names in self._roles.columns.items()}
        roles |= {kind: "+".join(group) for kind, group in self._roles.groups.items()}
        for role, form in zip(("reference", "prediction"), chosen.forms, strict=True):
            if role in roles and form is not None:
                roles[role] += f" ({form})"
        if self._probability_of is not None:
            roles["probabilities"] += f" (the probability of {self._probability_of})"
        if self._roles.percent:
            roles["confidence"] += " (in percent)"
        listed = ", ".join(f"{role} = {names}" for role, names in roles.items())
        texts = len({*self._families} - {None})
        what = "id" if any(row.request for row in self._rows) else "text"
        of_texts = f" Rows with one {what} belong together: {texts:,} {what}s." if texts else ""
        return f"{COLUMNS_REMARK}{listed}.{of_texts}"

    def _families_of_texts(self) -> Sequence[str | None]:
        """Return the families of rows; none if something else names them."""
        data, rows = self._data, self._rows
        stated = {"family", "source_family"} & {*self._roles.columns, *self._grouping.labels}
        # A log has few questions: with ids, they do not say what was asked about.
        stated |= {"id"} if self._roles.unlabelled and "state" not in self._roles.columns else set()
        if stated or (data is not None and not data.lacks_families):
            return ()
        if any(row.request for row in rows):
            return [row.request or row.id for row in rows]
        names = families_of_rows(
            self._roles.columns,
            self._entries,
            self._source,
            texts=[row.text for row in rows],
            ids=[row.id for row in rows],
            labels=self._labels(rows),
        )
        return () if names.count(None) == len(names) else names

    def _labels(self, rows: Sequence[TableRow]) -> list[str | None]:
        """Return the right answers of rows, to see whether two are the same; None without one."""
        if self._reference is None:
            return [row.recorded for row in rows]
        texts = of_texts(cell_text, self._cells(self._reference, rows))
        return of_texts(lambda text: None if text is None else fold_label(str(text)), texts)

    @property
    def _probability_of(self) -> str | None:
        """The answer whose probability the only column of numbers has."""
        if self._roles.rest is None:
            return None
        return next(iter(self._roles.groups["probabilities"].values()))

    def _keep_labelled(self, rows: Sequence[TableRow]) -> list[TableRow]:
        """Return the rows that have a right answer, and say how many have none."""
        column = self._reference
        if column is None or self._roles.outcomes:
            return [*rows]
        cells = self._cells(column, rows)
        missing = self._missing_labels(cells, column, rows)
        lacking = of_texts(lambda cell: is_unlabelled(cell) or cell_text(cell) in missing, cells)
        labelled = [row for row, is_lacking in zip(rows, lacking, strict=True) if not is_lacking]
        if len(labelled) < len(rows):
            left_out = len(rows) - len(labelled)
            self._remarks.append(
                f"Left out: {counted(left_out, 'row')} without a label ({column})."
            )
        return labelled

    def _missing_labels(
        self, cells: Sequence[Json], column: str, rows: Sequence[TableRow]
    ) -> frozenset[str]:
        """Return "-1" if it says that there is no label.

        Raises:
            ShapeError: it may also be one of the answers, or a dash is.
        """
        labels, _ = distinct_labels(cells)
        shapes = {(row.scores.names, len(row.scores.numbers)) for row in rows if row.scores}
        named = {fold_label(name) for names, _ in shapes for name in names or ()}
        named |= {fold_label(option) for option in self._reading.options}
        if "-" in named:
            message = (
                f'{self._source}: "-" is one of the answers, and also says that there is none in '
                f"{column}; write it as a word"
            )
            raise ShapeError(message)
        if "-1" not in labels or "-1" in named:
            return frozenset()
        counts = {count for names, count in shapes if names is None}
        count = len(self._reading.options) or max(counts, default=0)
        if not (count or named or "options" in self._roles.columns):
            return minus_one(labels, column, self._source, rubric=False)
        if count >= len(labels) and column not in self._entries.class_names:
            message = (
                f"{self._source}: {column} has -1 among {len(labels)} labels of {count} answers: "
                f"it is one of them, or says that there is no label. If it is one, name them: "
                f"--options={','.join(labels)}; if not, remove these rows"
            )
            raise ShapeError(message)
        return frozenset({"-1"})

    def _mark_answered(self) -> None:
        """Mark the rows that have an answer."""
        cells = self._cells(self._prediction, self._rows)
        said = of_texts(lambda cell: not is_unlabelled(cell), cells)
        for row, is_said in zip(self._rows, said, strict=True):
            if row.scores is not None:
                row.answered = True
            elif self._roles.outcomes:
                row.answered = row.confidence is not None or row.correct is not None
            else:
                row.answered = self._prediction is not None and is_said

    # Options

    def _set_options(self) -> list[Problem]:
        """Give every row its options; return what is wrong with rows.

        Raises:
            ShapeError: nothing decides what the options are, or their order.
        """
        if self._data is not None:
            self._take_records(self._data)
        elif self._reading.options:
            self._give(Options(self._reading.options), TEXT)
        elif "options" in self._roles.columns:
            return self._options_of_columns()
        else:
            read = {**self._roles.columns, "": (*self._roles.used, *self._roles.labels)}
            column = self._reference or self._prediction
            if column is not None:
                read.setdefault("reference", (column,))
                check_unread(read, self._entries, self._reading, self._source)
            self._options_of_file(str(column))
            self._order_levels()
        return []

    def _give(self, options: Options, *forms: Form) -> None:
        for row in self._rows:
            row.options = options
        self._forms = forms

    def _take_records(self, data: References) -> None:
        """Take the options of the records.

        Raises:
            ShapeError: a row has others, or a list has no order.
        """
        columns = self._roles.columns.get("options")
        self._forms = (TEXT,)
        for row in self._rows:
            row.options = options_of_record(row.record, data)
            own = options_of_row(row.entry.value, columns, self._reference) if columns else None
            if own is not None and own.texts != row.options.texts:
                message = (
                    f"{self._source}: {row.place} has the options "
                    f"{', '.join(map(dumps, own.texts))}, and its record has "
                    f"{', '.join(map(dumps, row.options.texts))}. Leave one out: "
                    f"{columns_option(IGNORED, columns or ())}, or no --data"
                )
                raise ShapeError(message)
        lists = [row for row in self._rows if row.scores is not None and not row.scores.names]
        if any(not row.options.ordered for row in lists):
            self._order_lists([row.recorded for row in self._rows])

    def _options_of_columns(self) -> list[Problem]:
        problems = []
        columns = self._roles.columns["options"]
        first: dict[str, Options] = {}
        known: dict[Any, Options] = {}  # rows with the same texts share their options
        for row, cells in zip(
            self._rows, zip(*map(self._plain, columns), strict=True), strict=True
        ):
            key = cells if all(isinstance(cell, str | None) for cell in cells) else None
            try:
                row.options = known.get(key) or options_of_row(
                    dict(zip(columns, cells, strict=True)), columns, self._reference
                )
            except DraftError as error:
                problems.append(Problem(row.entry.line, row.id, str(error), error.kind))
                continue
            if key is not None:
                known[key] = row.options
            same = first.setdefault(row.id, row.options).texts == row.options.texts
            if not same or "-" in row.options.texts:
                what = '"-", which also says that there is no label'
                if not same:
                    what = "another order of options than the first view of its item"
                message = f"{self._source}: {row.place} has {what}; write rows that agree"
                raise ShapeError(message)
        return problems

    def _options_of_file(self, column: str) -> None:
        """Take the options from the whole file: classes, names of numbers, positions, or labels.

        Raises:
            ShapeError: nothing gives them, or an order that is needed.
        """
        classes = self._entries.class_names.get(column)
        if classes:
            self._give(Options(classes), TEXT, POSITIONS[0])  # `datasets` counts from 0
            return
        if any(row.scores is not None and row.scores.names for row in self._rows):
            self._options_of_names(column)
            return
        cells = self._cells(column, self._rows)
        if self._roles.has_scores:
            unnamed = self._roles.unlabelled and self._prediction is None
            sizes = [len(row.scores.numbers) for row in self._rows if row.scores is not None]
            most = max(sizes, default=0)
            numbers = all(of_texts(lambda cell: fold_label(cell_text(cell) or "").isdigit(), cells))
            if not numbers and not unnamed:
                self._order_lists(cells)
                return
            for row in self._rows:
                size = most if row.scores is None else len(row.scores.numbers)
                row.options = Options((), count=size)
            return
        said = self._cells(self._prediction, self._rows)
        self._check_words(cells, said)
        labels, merged = distinct_labels([*cells, *said])
        check_truths(labels, column, self._source)
        self._remarks += [f"Read as one label: {', '.join(map(dumps, m))}." for m in merged]
        self._give(Options(tuple(labels), ordered=False), TEXT)

    def _options_of_names(self, column: str) -> None:
        """Take the names of the numbers as options, sorted: a file has no other order of them.

        Raises:
            ShapeError: only some tokens are listed, so the options are not known.
        """
        named = [(row, row.scores) for row in self._rows if row.scores and row.scores.names]
        if any(scores.listed for _, scores in named):
            labels, _ = distinct_labels(self._cells(column, [row for row, _ in named]))
            tops = [max(zip(s.numbers, s.names or (), strict=True))[1] for _, s in named]
            labels = labels or distinct_labels(tops)[0]
            message = (
                f"{self._source}: the most probable tokens are listed, and the answers are not "
                f"known. Name them: --options {shlex.quote(','.join(labels[:6]))}"
            )
            raise ShapeError(message)
        sets = {*map(frozenset, {scores.names or () for _, scores in named})}
        # Numbers have an order, and so may also be meant as positions.
        numbers = all(name.isdigit() for names in sets for name in names)
        shared = Options(tuple(sort_labels(frozenset().union(*sets))), ordered=numbers)
        self._give(shared, *(() if numbers else (TEXT,)))
        if len(sets) > 1:  # rows are not compared, only found
            for row, scores in named:
                row.options = Options(tuple(sort_labels(scores.names or ())), ordered=numbers)

    def _order_lists(self, cells: Sequence[Json]) -> None:
        """Take the order of lists of numbers that the predictions prove.

        Args:
            cells: the right answer of every row, in words.

        Raises:
            ShapeError: they prove none.
        """
        sizes = {len(row.scores.numbers) for row in self._rows if row.scores is not None}
        order = self._proven_order(sizes, cells)
        if order is not None:
            listed = ", ".join(order)
            self._remarks.append(f"Order of the numbers, by {self._prediction}: {listed}.")
            self._give(Options(order), TEXT)
            return
        labels, _ = distinct_labels([*cells, *self._cells(self._prediction, self._rows)])
        if not labels:
            message = (
                f"{self._source}: {self._reference} has no label that is text or a number. Name "
                f"another column: {columns_option('reference', ['NAME'])}"
            )
            raise ShapeError(message)
        listed = ",".join(labels) if {len(labels)} == sizes else "FIRST,SECOND,..."
        message = (
            f"{self._source}: the {max(sizes)} numbers of a row are in an order that the file does "
            f"not give: {self._rows[0].place} may have {dumps(labels[0])} first or "
            f"{dumps(labels[-1])} first. Name the answers in their order: --options "
            f"{shlex.quote(listed)}"
        )
        raise ShapeError(message)

    def _proven_order(self, sizes: set[int], right: Sequence[Json]) -> tuple[str, ...] | None:
        """Return the only order of labels in which every prediction is the most probable answer."""
        texts: dict[int, str] = {}
        cells = self._cells(self._prediction, self._rows)
        labels, _ = distinct_labels([*cells, *right])
        spelling = {fold_label(label): label for label in labels}
        for row, cell in zip(self._rows, cells, strict=True):
            numbers = row.scores.numbers if row.scores is not None else ()
            best = [place for place, number in enumerate(numbers) if number == max(numbers)]
            if len(best) == 1 and not is_unlabelled(cell):
                text = spelling[fold_label(cell_text(cell) or "")]
                if texts.setdefault(best[0], text) != text:
                    return None
        places = range(max(sizes, default=0))
        left = [label for label in labels if label not in texts.values()]
        lacking = [place for place in places if place not in texts]
        if len(left) == len(lacking) == 1:
            texts[lacking[0]] = left[0]
        complete = len(sizes) == 1 and len({*texts.values()}) == len(texts) == len(labels)
        return tuple(texts[at] for at in places) if complete and len(texts) in sizes else None

    def _check_words(self, cells: Sequence[Json], said: Sequence[Json]) -> None:
        """Check that right answers and predictions are written in the same words.

        Predictions may have words of their own, which count as wrong; numbers may not, unless
        answers are stated to be texts: they would also be positions, counted otherwise.

        Raises:
            ShapeError: no prediction is one of the right answers, or a number is none of them.
        """
        labels, predictions = (
            {fold_label(label): label for label in distinct_labels(column)[0]}
            for column in (cells, said)
        )
        new = [text for word, text in predictions.items() if word not in labels]
        stated = self._reading.form == TEXT
        numbers = not stated and all(map(_is_number, labels)) and any(map(_is_number, new))
        if not new or not labels:
            return
        if len(new) < len(predictions) and not numbers:
            shown = ", ".join(map(dumps, sorted(new)[:6]))
            self._remarks.append(
                f"{len(new):,} predictions are none of the right answers, so they count as wrong: "
                f"{shown}."
            )
            return
        ours, theirs = (", ".join([*each.values()][:4]) for each in (labels, predictions))
        words = max(labels, predictions, key=lambda each: max(map(len, each)))
        listed = [*dict.fromkeys([*labels.values(), *new])] if numbers else [*words.values()]
        message = (
            f"{self._source}: {self._reference} has {ours}, and {self._prediction} has {theirs}: "
            "they are not the same words. Give all answers, in their order if one column has "
            f"positions or letters: --options={shlex.quote(','.join(listed[:26]))}"
        )
        raise ShapeError(message)

    def _order_levels(self) -> None:
        """Put the levels of rubrics in the order of their values.

        Raises:
            ShapeError: they are words, whose order nobody gives.
        """
        kinds = zip(self._rows, self._kinds(), strict=True)
        rows = [row for row, kind in kinds if kind == "score"]
        texts = {row.options.texts for row in rows if not row.options.ordered}
        if len(texts) != 1 or texts == {()}:
            return
        (labels,) = texts
        levels = levels_by_value(labels, self._source, str(self._reference))
        named = any(row.scores is not None for row in rows)
        self._give(Options(labels if named else tuple(levels)), TEXT)

    def _kinds(self) -> list[str | None]:
        """Return the kinds of question that the user or a column of types gives."""
        column = self._roles.first("type")
        if self._reading.levels or column is None:
            return ["score" if self._reading.levels else None] * len(self._rows)
        return of_texts(lambda cell: _KINDS.get(str(cell)), self._plain(column))

    def _set_vectors(self) -> list[Problem]:
        """Put the numbers of every row in the order of its options."""
        form = self._form_of_names()
        problems = []
        for row in self._rows:
            try:
                row.vector = vector_of(row, self._names.indices(row, form))
            except ValueError as error:
                problems.append(Problem(row.entry.line, row.id, str(error), "numbers of answers"))
        return problems

    def _form_of_names(self) -> Form:
        """Return how the names of the numbers name options.

        Raises:
            ShapeError: two forms fit and differ.
        """
        named = [(row, row.scores) for row in self._rows if row.scores and row.scores.names]
        different = {(id(row.options), scores.names, scores.listed): row for row, scores in named}
        listed = any(is_listed for _, _, is_listed in different)
        forms = (TEXT, LETTER) if listed else tuple(FORMS)
        fitting = [
            form
            for form in forms
            if named
            and all(self._names.indices(row, form) is not None for row in different.values())
        ]
        if fitting and TEXT in self._forms and fitting[0] == TEXT and not listed:
            return TEXT
        if self._reading.form in fitting:
            return self._reading.form or TEXT
        if len(fitting) > 1:
            pairs = [(row, name) for row, scores in named for name in scores.names or ()]
            answers = Answers(
                "the names of the numbers",
                [name for _, name in pairs],
                [row.options for row, _ in pairs],
                lambda at: pairs[at][0].place,
            )
            a, b = (
                [-1 if index is None else index for index in answers.read(form)]
                for form in fitting[:2]
            )
            if a != b:
                raise two_readings(self._source, answers, (fitting[0], a), (fitting[1], b))
        return fitting[0] if fitting else TEXT

    # Answers

    def _choose(self, rows: Sequence[TableRow]) -> _Chosen:
        """Return the only reading of right answers and predictions that every row allows.

        Raises:
            ShapeError: two of them pass and differ, or a check contradicts each.
        """
        if self._roles.outcomes:
            return _Chosen((None, None), [0] * len(rows), None)
        references = self._readings(rows, self._reference)
        said = {None: None} if self._prediction is None else self._readings(rows, self._prediction)
        pairs = [
            _Chosen((a, b), right, answers)
            for a, right in references.items()
            for b, answers in said.items()
        ]
        against = {id(pair): self._contradiction(rows, pair) for pair in pairs}
        # One file counts one way.
        equal = [pair for pair in pairs if {*pair.forms} != {*POSITIONS}]
        for tried in (equal, pairs):
            passing = [pair for pair in tried if against[id(pair)] is None]
            if passing:
                self._ask(rows, passing)
                return passing[0]
        raise ShapeError(f"{self._source}: {against[id((equal or pairs)[0])]}")

    def _answers(self, rows: Sequence[TableRow], column: str) -> Answers:
        return Answers(
            column,
            self._cells(column, rows),
            [row.options for row in rows],
            lambda at: rows[at].place,
        )

    def _readings(
        self, rows: Sequence[TableRow], column: str | None
    ) -> dict[Form | None, list[int]]:
        """Return the readings of a column that fit every row; those of the data without one.

        Raises:
            ShapeError: none does.
        """
        if column is None and self._roles.unlabelled:
            return {None: [0] * len(rows)}
        if column is None:
            indices = [row.options.index(row.recorded, TEXT) for row in rows]
            return {None: [index for index in indices if index is not None]}
        answers = self._answers(rows, column)
        stated = answers.readings(self._reading.form) if self._reading.form else {}
        fitting = stated or answers.readings()
        readings: dict[Form | None, list[int]] = {form: fitting[form] for form in fitting}
        if stated:
            return readings
        usual = (self._roles.form,) if column == self._reference else ()
        for form in (*self._forms, *usual):
            if form in readings:
                return {form: readings[form]}
        named = any(option.named for option in answers.options) and TEXT not in readings
        if named and LETTER in readings:
            return {LETTER: readings[LETTER]}
        if readings:
            return readings
        read = answers.read(answers.likeliest())
        row = rows[read.index(None)]
        names = ", ".join(map(dumps, row.options.texts[:8])) or f"{len(row.options)} positions"
        role = "reference" if column == self._reference else "prediction"
        remedy = f"Correct the column, or name another one: {columns_option(role, ['NAME'])}"
        if not row.options.ordered or not row.options.texts:
            listed = shlex.quote(",".join(row.options.texts or ("FIRST", "SECOND")))
            remedy = f"If these are positions or letters, give the order: --options {listed}"
        for group in self._roles.groups.values():
            ignored = columns_option(IGNORED, [*group])
            remedy += f". If {', '.join(group)} are not numbers for the answers: {ignored}"
        message = (
            f"{self._source}: {row.place}: {column} = {dumps(row.entry.value.get(column))} names "
            f"none of the answers ({names}), and so in {read.count(None):,} of {len(rows):,} rows. "
            f"{remedy}"
        )
        raise ShapeError(message)

    def _contradiction(self, rows: Sequence[TableRow], chosen: _Chosen) -> str | None:
        """Return what a row says against a reading; None if nothing does."""
        for number, row in enumerate(rows):
            said = None if chosen.predictions is None else chosen.predictions[number]
            if said is None and row.correct is None:
                continue
            answer = row.tops if row.scores is not None or said is None else {said}
            right = chosen.references[number]
            if said is not None and said not in answer:
                column = str(self._prediction)
                told = f"is not the most probable answer ({row.named(answer)})"
                facts = "these numbers"
            elif row.correct is not None and row.correct not in {right == top for top in answer}:
                column = str(self._roles.first("correct"))
                told = (
                    f"contradicts the answer, read as {row.named(answer)}, and the right one, read "
                    f"as {row.named({right})}"
                )
                facts = "these answers"
            else:
                continue
            return (
                f"{row.place}: {column} = {dumps(row.entry.value.get(column))} {told}. If it is no "
                f"fact about {facts}: {columns_option(IGNORED, [column])}"
            )
        return None

    def _ask(self, rows: Sequence[TableRow], passing: Sequence[_Chosen]) -> None:
        """Refuse two readings that differ.

        Raises:
            ShapeError: they do.
        """
        first = passing[0]
        for other in passing[1:]:
            column, number = self._reference, 0
            if other.references == first.references:
                if other.predictions == first.predictions or self._roles.has_scores:
                    continue
                column, number = self._prediction, 1
            (a, values), (b, others) = (
                (str(each.forms[number]), (each.references, each.predictions or ())[number])
                for each in (first, other)
            )
            answers = self._answers(rows, str(column))
            raise two_readings(self._source, answers, (a, values), (b, others))

    def _check_copy(self, rows: Sequence[TableRow], chosen: _Chosen) -> None:
        """Check that a right answer next to that of the data agrees with it.

        Raises:
            ShapeError: it differs.
        """
        column = None if self._data is None else self._roles.first("reference")
        if column is None or self._data is None:
            return
        pairs = zip(rows, chosen.references, strict=True)
        labelled = [(row, index) for row, index in pairs if not is_unlabelled(row.cell(column))]
        read = [self._answers([row for row, _ in labelled], column).read(form) for form in FORMS]
        if [index for _, index in labelled] in read:
            return
        places = zip(labelled, zip(*read, strict=True), strict=True)
        row, index = next(pair for pair, indices in places if pair[1] != indices[0])
        message = (
            f"{self._source}: two right answers differ: {row.place} has {column} = "
            f"{dumps(row.entry.value.get(column))}, and {self._data.path} has {row.named({index})}."
            f" Decide with {columns_option(IGNORED, [column])}"
        )
        raise ShapeError(message)

    # Rows of our format

    def _log_rows(self) -> LogRows:
        """Return the rows, and what is wrong with those that have a number out of its range."""
        rows = self._rows
        columns, wrong = self._facts()
        columns |= self._answers_by_column(wrong)
        lines, ids = self._entries.lines, [row.id for row in rows]
        asked = of_texts(cell_text, self._cells(self._roles.first("question"), rows))
        none = [""] * len(rows)
        made = LogRows(
            lines=[lines[row.at] for row in rows],
            records=ids,
            wheres=none,
            columns=columns,
            further=self._further(),
            problems=(),
            questions=[text or "" for text in asked],
            options=[row.options.texts for row in rows],
            wordings=none,
            states=none,
        )
        if not wrong:
            return made
        kind = "values out of range"
        return LogRows.of(
            Problem(made.lines[at], ids[at], str(wrong[at]), kind) if at in wrong else made.row(at)
            for at in range(len(rows))
        )

    def _answers_by_column(self, wrong: dict[int, ValueError]) -> dict[str, list[Any]]:
        """Return the columns, in our format, that are of answers.

        Args:
            wrong: by its number, what is wrong with a row; numbers out of their range are added.
        """
        rows, unlabelled = self._rows, self._roles.unlabelled
        columns: dict[str, list[Any]] = {
            "reference": [None if unlabelled else self._right_answer(row) for row in rows],
            "n_choices": _kept([*map(attempted(self._count), rows)], wrong)
            if unlabelled
            else [len(row.options) for row in rows],
            "status": [None if row.answered else "missing" for row in rows],
            "reason": [None if row.answered else "no answer in the table" for row in rows],
            # Of answers that tie, the prediction is the answer.
            "answer": [row.said for row in rows],
        }
        if self._roles.first("correct") is not None:
            # Of answers that tie, nothing says which was counted.
            sure = [row.answered and row.correct is not None and len(row.tops) < 2 for row in rows]
            pairs = zip(rows, sure, strict=True)
            columns["correct"] = [row.correct if is_sure else None for row, is_sure in pairs]
        columns |= self._numbers_by_column(wrong)
        if self._roles.outcomes:
            columns |= {"reference": [0] * len(rows), "n_choices": [2] * len(rows)}
            columns |= {"code_order": [[]] * len(rows), "kind": ["choice"] * len(rows)}
        return columns

    def _numbers_by_column(self, wrong: dict[int, ValueError]) -> dict[str, list[Any]]:
        """Return the columns, in our format, that have the numbers of rows."""
        kinds = {row.scores.kind for row in self._rows if row.scores is not None}
        if self._roles.first("confidence") is not None or "log_probabilities" in kinds:
            read = _kept([*map(attempted(self._numbers), self._rows)], wrong)
            return by_column([each or {} for each in read])
        return {
            kind: [
                row.vector if row.scores is not None and row.scores.kind == kind else None
                for row in self._rows
            ]
            for kind in kinds
        }

    def _right_answer(self, row: TableRow) -> int | None:
        """Return the index of the right answer, also of a row without an answer."""
        if row.right is not None:
            return row.right
        cell = row.recorded if self._reference is None else row.cell(self._reference)
        indices = [row.options.index(cell, form) for form in row.options.forms]
        return next((index for index in indices if index is not None), None)

    def _count(self, row: TableRow) -> int:
        """Return the number of answers of a row; without labels, the least that there can be.

        Raises:
            ValueError: its confidence is too small for any number.
        """
        known = len(row.options)
        if not self._roles.unlabelled or row.scores is not None or row.options.texts == _BOOLEAN:
            return known
        return max(known, MIN_ANSWERS, fewest_answers(row.confidence or 1.0))

    def _confidence(self, row: TableRow) -> dict[str, Json]:
        """Return the probability of the answer of a row.

        Raises:
            ValueError: it is missing, or whether the answer is right, or it is too small.
        """
        column = self._roles.first("confidence")
        if column is None:
            return {}
        if row.confidence is None:
            raise ValueError(f"{column}: expected a number, got none; fill the cell in")
        if self._roles.outcomes and row.correct is None:
            column = self._roles.first("correct")
            raise ValueError(f"{column}: expected true or false, got none; fill the cell in")
        if row.said is not None and not self._roles.outcomes:
            try:
                confident_logits(row.confidence, row.said, self._count(row))
            except ValueError as error:
                message = (
                    f"{error}; if {column} is not the probability of {self._prediction}: "
                    f"{columns_option(IGNORED, [column])}"
                )
                raise ValueError(message) from None
        return {"confidence": row.confidence}

    def _numbers(self, row: TableRow) -> dict[str, Json]:
        """Return the numbers of a row as columns of our format.

        Raises:
            ValueError: log-probabilities are above 0, or sum to more than 1, or as `_confidence`.
        """
        scores, vector = row.scores, row.vector
        if not row.answered:
            return {}
        if scores is None:
            return self._confidence(row)
        kind = scores.kind
        if kind != "log_probabilities":
            return {kind: [*vector]}
        known = [value for value in vector if value is not None]
        if max(scores.numbers) > SUM_TOLERANCE:
            column = self._roles.first("log_probabilities") or "logprob columns"
            message = (
                f"{column}: expected log-probabilities of at most 0, got "
                f"{max(scores.numbers):.6g}; if they are logits, say so: --columns logits={column}"
            )
            raise ValueError(message)
        mass = math.fsum(math.exp(min(value, 0.0)) for value in known)
        if mass > 1 + SUM_TOLERANCE * len(known):
            message = (
                f"expected log-probabilities of different answers, whose probabilities sum to at "
                f"most 1, got a sum of {mass:.6g}"
            )
            raise ValueError(message)
        if not self._partial_mass and not scores.listed:
            return {kind: [*vector]}
        values: dict[str, Json] = {"logits": [*vector], "answer_mass": min(mass, 1.0)}
        if len(known) < len(vector):
            left = 1.0 - math.fsum(map(math.exp, scores.numbers))
            values["ceiling"] = min(*scores.numbers, math.log(max(left, 1e-12)))
        return values

    @cached_property
    def _partial_mass(self) -> bool:
        """Whether log-probabilities of a row leave something for other tokens."""
        for row in self._rows:
            if row.scores is None or row.scores.kind != "log_probabilities":
                continue
            mass = math.fsum(math.exp(min(value, 0.0)) for value in row.vector if value is not None)
            if row.scores.listed or mass < 1 - SUM_TOLERANCE:
                return True
        return False

    def _facts(self) -> tuple[dict[str, list[Json]], dict[int, ValueError]]:
        """Return the columns of items and of views that rows or their records have.

        Returns:
            (n,) cells by column; and by its number, what is wrong with a row.
        """
        rows, wrong = self._rows, dict[int, ValueError]()
        columns: dict[str, list[Any]] = {"id": [row.id for row in rows]}
        columns |= _of_records([row.record for row in rows if row.record is not None])
        columns.setdefault(
            "kind", ["boolean" if row.options.texts == _BOOLEAN else None for row in rows]
        )
        labels = {label: self._labels_of(label) for label in _LABELS}
        labels |= {"family": self._families or labels["family"], "kind": self._kinds()}
        for name, cells in labels.items():
            if cells:
                others = columns.get(name) or [None] * len(rows)
                pairs = zip(cells, others, strict=True)
                columns[name] = [other if cell is None else cell for cell, other in pairs]
        if self._families and "source_family" in columns:  # of the data, which have no groups
            pairs = zip(self._families, columns["source_family"], strict=True)
            columns["source_family"] = [of_data if x is None else None for x, of_data in pairs]
        for name in (*_NUMBERS, "code_order"):
            if name != "code_order" and name not in self._entries.columns:
                continue
            # Which letters a prompt showed is not known, if the table does not say it.
            nothing: Json = [] if name == "code_order" else None
            read = attempted(partial(_number_or_list, name, nothing))
            columns[name] = _kept(of_texts(read, self._plain(name)), wrong)
        if self._grouping.labels:
            named = [attempted(self._grouping.of_entry)(row.entry.value) for row in rows]
            columns |= by_column([each or {} for each in _kept(named, wrong)])
        return columns, wrong

    def _labels_of(self, label: str) -> Sequence[str | None]:
        """Return the labels that rows have in the column of a role; nothing without the column."""
        column = self._roles.first(label)
        texts = [] if column is None else of_texts(as_text, self._plain(column))
        if label != "variant":
            return texts
        return [text if text in _VARIANTS else None for text in texts]

    def _further(self) -> dict[str, list[Json]]:
        used = self._roles.used | {*_NUMBERS, "code_order"}
        kept = self._entries.chosen([row.at for row in self._rows])
        further = {name: kept.column(name) for name in kept.names if name not in used}
        if any(row.request for row in self._rows):
            further["question"] = [
                None if row.request is None else row.id.removeprefix(f"{row.request}/")
                for row in self._rows
            ]
        return further

    def _block(self, chosen: _Chosen) -> dict[str, Json]:
        """Return how the table was read, for `run.json`."""
        columns: dict[str, Json] = {r: [*names] for r, names in self._roles.columns.items()}
        columns |= {kind: [*group] for kind, group in self._roles.groups.items()}
        block: dict[str, Json] = {"columns": columns}
        if self._roles.labels:
            block["labelled"] = True
        column = self._roles.first("id")
        if self._families:
            what = "ids" if any(row.request for row in self._rows) else "texts"
            block[what] = len({*self._families} - {None})
        elif is_constant([row.text for row in self._rows]) or (
            self._roles.unlabelled
            and all(row.id == str(self._entries.lines[row.at]) for row in self._rows)
        ):
            block["texts"] = 1
        if column is not None and counts_in_order(self._entries, column):
            block["numbered"] = True
        if self._probability_of is not None:
            block["probability_of"] = self._probability_of
        if self._roles.percent:
            block["percent"] = True
        forms = [form for form in chosen.forms if form is not None]
        if forms:
            block["answers"] = forms[0]
        shared = {row.options.texts for row in self._rows}
        if len(shared) == 1 and self._rows[0].options.texts:
            block["options"] = [*self._rows[0].options.texts]
        checked = sum(
            row.correct is not None or (self._prediction is not None and row.scores is not None)
            for row in self._rows
        )
        if 0 < checked < len(self._rows):
            block["unverified"] = len(self._rows) - checked
        return block


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?", text))


def _of_records(records: Sequence[Record]) -> dict[str, list[Json]]:
    """Return what records say of their rows; nothing without records."""
    if not records:
        return {}
    return {
        "family": [record.family for record in records],
        "source_family": [record.source_family for record in records],
        "kind": [record.field.kind for record in records],
        "variant": [record.variant for record in records],
        "domain": [record.domain or None for record in records],
    }


def _kept(cells: Sequence[_T | ValueError], wrong: dict[int, ValueError]) -> list[_T | None]:
    """Return cells without those that are wrong, which are added unless their rows are known."""
    for at, cell in enumerate(cells) if ValueError in {*map(type, cells)} else ():
        if isinstance(cell, ValueError):
            wrong.setdefault(at, cell)
    return [None if isinstance(cell, ValueError) else cell for cell in cells]


def _number_or_list(name: str, nothing: Json, cell: Json) -> Json:
    if cell in (None, ""):
        return nothing
    if not isinstance(cell, str):
        return cell
    try:
        return loads(cell)
    except ValueError:
        raise ValueError(f"{name}: expected a number or a list, got {cell!r:.40}") from None
