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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import compress
from operator import or_
from typing import Any, Final, TypeVar

import numpy as np

from pact_eval._json import Json, dumps, loads
from pact_eval._typing import BoolArray, IntArray
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
    fold_label,
    is_unlabelled,
    of_texts,
    options_of_row,
    sort_labels,
    two_readings,
)
from pact_eval.data.labelled.columns import check_truths, check_unread, levels_by_value, minus_one
from pact_eval.data.labelled.identity import counts_in_order, is_constant
from pact_eval.data.labelled.questions import DraftError, as_text
from pact_eval.data.labelled.reading import IGNORED, columns_option
from pact_eval.data.records import MIN_ANSWERS, Record
from pact_eval.errors import Problem, ShapeError, counted
from pact_eval.importing.row_reader import confident_logits, fewest_answers
from pact_eval.importing.source import (
    COLUMNS_REMARK,
    Grouping,
    LogFacts,
    LogRows,
    References,
    by_column,
)
from pact_eval.importing.table_cells import attempted, families_of_rows
from pact_eval.importing.table_rows import (
    ForeignTable,
    Numbers,
    TableRoles,
    TableRows,
    indices_of_names,
    options_of_record,
    parse_rows,
    roles_of_table,
    split_predictions,
)
from pact_eval.runs.predictions import SUM_TOLERANCE

_NUMBERS: Final = ("view", "prompt_tokens", "answer_mass", "view_tv", "permutation_tv")
_VARIANTS: Final = ("base", "counterfactual")
_LABELS: Final = ("family", "source_family", "domain", "variant")
_T = TypeVar("_T")
_BOOLEAN: Final = ("false", "true")
_KINDS: Final = {"choice": "choice", "noul": "boolean", "boolean": "boolean", "score": "score"}


def read_table(table: ForeignTable, grouping: Grouping) -> tuple[LogRows, LogFacts]:
    """Read a table of others.

    Args:
        table: its rows, and what the user says of it.
        grouping: what names families and domains.

    Returns:
        Its rows in our format, with what is wrong with others; and what to know of the reading.

    Raises:
        ShapeError: two readings fit and differ, a check contradicts the only one, or a role has no
            column.
    """
    table = split_predictions(table)
    roles = roles_of_table(table)
    rows, problems = parse_rows(table, roles)
    problems = [*table.entries.problems, *problems]
    if problems:
        return LogRows.of(problems), LogFacts()
    return _TableReader(table, roles, grouping).table(rows)


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

    def __init__(self, table: ForeignTable, roles: TableRoles, grouping: Grouping) -> None:
        self._entries, self._reading, self._source = table.entries, table.reading, table.source
        self._data, self._roles, self._grouping = table.references, roles, grouping
        self._remarks = [*table.entries.remarks]
        self._reference = None if self._data is not None else roles.first("reference")
        self._prediction = roles.first("prediction")
        self._forms: tuple[Form, ...] = ()  # taken if they fit, before any other
        self._families: Sequence[str | None] = ()
        self._known: dict[tuple[Any, ...], list[int | None] | None] = {}

    def table(self, rows: TableRows) -> tuple[LogRows, LogFacts]:
        """Return the rows in our format."""
        self._rows = self._keep_labelled(rows)
        self._have = self._rows.have_numbers()
        self._families = self._families_of_texts()
        problems = [] if self._roles.outcomes else self._set_options() or self._set_vectors()
        if problems:
            return LogRows.of(problems), LogFacts()
        self._answered = self._are_answered()
        places = [*compress(range(len(self._rows)), self._answered)]
        answered = self._rows.chosen(places)
        chosen = self._choose(answered)
        self._check_copy(answered, chosen)
        self._right = self._spread(places, chosen.references)
        self._said = self._spread(places, chosen.predictions)
        remarks = (self._remark(chosen), *self._remarks)
        return self._log_rows(), LogFacts(self._block(chosen), remarks=remarks)

    def _spread(self, rows: Sequence[int], values: Sequence[Any] | None) -> list[Any]:
        """Return the values of some rows by row; None for others."""
        if values is not None and len(rows) == len(self._rows):
            return [*values]
        of_rows: list[Any] = [None] * len(self._rows)
        for row, value in zip(rows, values or (), strict=values is not None):
            of_rows[row] = value
        return of_rows

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
        what = "id" if any(self._rows.requests) else "text"
        of_texts = f" Rows with one {what} belong together: {texts:,} {what}s." if texts else ""
        return f"{COLUMNS_REMARK}{listed}.{of_texts}"

    def _families_of_texts(self) -> Sequence[str | None]:
        """Return the families of rows; none if something else names them."""
        data, rows = self._data, self._rows
        stated = {"family", "source_family"} & {*self._roles.columns, *self._grouping.labels}
        # A log has few questions: with ids, they do not say what was asked about.
        stated |= {"id"} if self._roles.unlabelled and "state" not in self._roles.columns else set()
        without_texts = data is None and not self._roles.texts
        if stated or without_texts or (data is not None and not data.lacks_families):
            return ()
        if any(rows.requests):
            return [own or id_ for own, id_ in zip(rows.requests, rows.ids, strict=True)]
        labels: Sequence[str | None] = rows.recorded()
        if self._reference is not None:
            cells = of_texts(cell_text, rows.answers(self._reference))
            labels = of_texts(lambda x: None if x is None else fold_label(str(x)), cells)
        names = families_of_rows(
            self._roles.columns, self._entries, self._source, rows.texts, rows.ids, labels
        )
        return () if names.count(None) == len(names) else names

    @property
    def _probability_of(self) -> str | None:
        """The answer whose probability the only column of numbers has."""
        if self._roles.rest is None:
            return None
        return next(iter(self._roles.groups["probabilities"].values()))

    def _keep_labelled(self, rows: TableRows) -> TableRows:
        """Return the rows that have a right answer, and say how many have none."""
        column = self._reference
        if column is None or self._roles.outcomes:
            return rows
        cells = rows.answers(column)
        missing = self._missing_labels(cells, column, rows)
        has_label = of_texts(
            lambda cell: not is_unlabelled(cell) and cell_text(cell) not in missing, cells
        )
        left_out = has_label.count(False)
        if not left_out:
            return rows
        self._remarks.append(f"Left out: {counted(left_out, 'row')} without a label ({column}).")
        return rows.chosen([*compress(range(len(rows)), has_label)])

    def _missing_labels(
        self, cells: Sequence[Json], column: str, rows: TableRows
    ) -> frozenset[str]:
        """Return "-1" if it says that there is no label.

        Raises:
            ShapeError: it may also be one of the answers, or a dash is.
        """
        labels, _ = distinct_labels(cells)
        named = {
            fold_label(name) for part in rows.numbers for names in part.namings for name in names
        }
        named |= {fold_label(option) for option in self._reading.options}
        if "-" in named:
            raise ShapeError(
                f'{self._source}: "-" is one of the answers, and also says that there is none in '
                f"{column}; write it as a word"
            )
        if "-1" not in labels or "-1" in named:
            return frozenset()
        counts = {part.values.shape[1] for part in rows.numbers if not part.namings}
        count = len(self._reading.options) or max(counts, default=0)
        if not (count or named or "options" in self._roles.columns):
            return minus_one(labels, column, self._source, rubric=False)
        if count >= len(labels) and column not in self._entries.class_names:
            raise ShapeError(
                f"{self._source}: {column} has -1 among {len(labels)} labels of {count} answers: "
                f"it is one of them, or says that there is no label. If it is one, name them: "
                f"--options={','.join(labels)}; if not, remove these rows"
            )
        return frozenset({"-1"})

    def _are_answered(self) -> list[bool]:
        """Return which rows have an answer."""
        rows = self._rows
        if self._roles.outcomes:
            pairs = zip(rows.confidences, rows.truths, strict=True)
            return [confidence is not None or truth is not None for confidence, truth in pairs]
        if self._prediction is None or all(self._have):
            return self._have
        said = of_texts(lambda cell: not is_unlabelled(cell), rows.answers(self._prediction))
        return [*map(or_, self._have, said)]

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
        self._rows.give(options)
        self._forms = forms

    def _take_records(self, data: References) -> None:
        """Take the options of the records.

        Raises:
            ShapeError: a row has others, or a list has no order.
        """
        columns, rows = self._roles.columns.get("options"), self._rows
        self._forms = (TEXT,)
        rows.options = [options_of_record(record, data) for record in rows.records]
        for row, options in enumerate(rows.options) if columns else ():
            own = options_of_row(rows.entry(row).value, columns or (), self._reference)
            if own.texts != options.texts:
                raise ShapeError(
                    f"{self._source}: {rows.place(row)} has the options "
                    f"{', '.join(map(dumps, own.texts))}, and its record has "
                    f"{', '.join(map(dumps, options.texts))}. Leave one out: "
                    f"{columns_option(IGNORED, columns or ())}, or no --data"
                )
        lists = [part.rows.tolist() for part in rows.numbers if not any(part.namings)]
        if any(not rows.options[row].ordered for places in lists for row in places):
            self._order_lists(rows.recorded())

    def _options_of_columns(self) -> list[Problem]:
        problems = []
        columns = self._roles.columns["options"]
        rows = self._rows
        options: list[Options] = []
        first: dict[str, Options] = {}
        known: dict[Any, Options] = {}  # rows with the same texts share their options
        for row, cells in enumerate(zip(*map(rows.cells, columns), strict=True)):
            key = cells if all(isinstance(cell, str | None) for cell in cells) else None
            try:
                own = known.get(key) or options_of_row(
                    dict(zip(columns, cells, strict=True)), columns, self._reference
                )
            except DraftError as error:
                line, name = rows.entry(row).line, rows.ids[row]
                problems.append(Problem(line, name, str(error), error.kind))
                continue
            options.append(own)
            if key is not None:
                known[key] = own
            same = first.setdefault(rows.ids[row], own).texts == own.texts
            if not same or "-" in own.texts:
                what = '"-", which also says that there is no label'
                if not same:
                    what = "another order of options than the first view of its item"
                raise ShapeError(
                    f"{self._source}: {rows.place(row)} has {what}; write rows that agree"
                )
        rows.options = options
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
        rows = self._rows
        if any(any(part.namings) for part in rows.numbers):
            self._options_of_names(column)
            return
        cells = rows.answers(column)
        if self._roles.has_scores:
            unnamed = self._roles.unlabelled and self._prediction is None
            numbers = all(of_texts(lambda cell: fold_label(cell_text(cell) or "").isdigit(), cells))
            if not numbers and not unnamed:
                self._order_lists(cells)
                return
            counts = [*map(len, (part.values[0] for part in rows.numbers))]
            rows.give(Options((), count=max(counts, default=0)))
            for count, part in zip(counts, rows.numbers, strict=True):
                rows.give(Options((), count=count), part.rows)
            return
        said = rows.answers(self._prediction)
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
        rows = self._rows
        named = [part for part in rows.numbers if any(part.namings)]
        if any(part.listed for part in named):
            cells = rows.answers(column)
            labels, _ = distinct_labels(cells[row] for part in named for row in part.rows)
            tops = [
                max(zip(numbers, part.namings[code], strict=True))[1]
                for part in named
                for numbers, code in zip(part.values, part.naming, strict=True)
            ]
            labels = labels or distinct_labels(tops)[0]
            raise ShapeError(
                f"{self._source}: the most probable tokens are listed, and the answers are not "
                f"known. Name them: --options {shlex.quote(','.join(labels[:6]))}"
            )
        sets = {frozenset(names) for part in named for names in part.namings}
        # Numbers have an order, and so may also be meant as positions.
        numbers = all(name.isdigit() for names in sets for name in names)
        shared = Options(tuple(sort_labels(frozenset().union(*sets))), ordered=numbers)
        self._give(shared, *(() if numbers else (TEXT,)))
        if len(sets) > 1:  # rows are not compared, only found
            for part in named:
                own = [
                    Options(tuple(sort_labels(names)), ordered=numbers) for names in part.namings
                ]
                for row, code in zip(part.rows, part.naming, strict=True):
                    rows.options[row] = own[code]

    def _order_lists(self, cells: Sequence[Json]) -> None:
        """Take the order of lists of numbers that the predictions prove.

        Args:
            cells: the right answer of every row, in words.

        Raises:
            ShapeError: they prove none.
        """
        rows = self._rows
        sizes = {part.values.shape[1] for part in rows.numbers}
        order = self._proven_order(sizes, cells)
        if order is not None:
            listed = ", ".join(order)
            self._remarks.append(f"Order of the numbers, by {self._prediction}: {listed}.")
            self._give(Options(order), TEXT)
            return
        labels, _ = distinct_labels([*cells, *rows.answers(self._prediction)])
        if not labels:
            raise ShapeError(
                f"{self._source}: {self._reference} has no label that is text or a number. Name "
                f"another column: {columns_option('reference', ['NAME'])}"
            )
        listed = ",".join(labels) if {len(labels)} == sizes else "FIRST,SECOND,..."
        raise ShapeError(
            f"{self._source}: the {max(sizes)} numbers of a row are in an order that the file does "
            f"not give: {rows.place(0)} may have {dumps(labels[0])} first or "
            f"{dumps(labels[-1])} first. Name the answers in their order: --options "
            f"{shlex.quote(listed)}"
        )

    def _proven_order(self, sizes: set[int], right: Sequence[Json]) -> tuple[str, ...] | None:
        """Return the only order of labels in which every prediction is the most probable answer."""
        texts: dict[int, str] = {}
        cells = self._rows.answers(self._prediction)
        labels, _ = distinct_labels([*cells, *right])
        spelling = {fold_label(label): label for label in labels}
        for part in self._rows.numbers:
            if not part.values.size:  # objects without a number
                continue
            best = part.values == part.values.max(axis=1, keepdims=True)
            single = best.sum(axis=1) == 1
            tops = zip(
                part.rows[single].tolist(), best[single].argmax(axis=1).tolist(), strict=True
            )
            for row, place in tops:
                if is_unlabelled(cells[row]):
                    continue
                text = spelling[fold_label(cell_text(cells[row]) or "")]
                if texts.setdefault(place, text) != text:
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
        raise ShapeError(
            f"{self._source}: {self._reference} has {ours}, and {self._prediction} has {theirs}: "
            "they are not the same words. Give all answers, in their order if one column has "
            f"positions or letters: --options={shlex.quote(','.join(listed[:26]))}"
        )

    def _order_levels(self) -> None:
        """Put the levels of rubrics in the order of their values.

        Raises:
            ShapeError: they are words, whose order nobody gives.
        """
        rows = [row for row, kind in enumerate(self._kinds()) if kind == "score"]
        options = [self._rows.options[row] for row in rows]
        texts = {own.texts for own in options if not own.ordered}
        if len(texts) != 1 or texts == {()}:
            return
        (labels,) = texts
        levels = levels_by_value(labels, self._source, str(self._reference))
        named = any(self._have[row] for row in rows)
        self._give(Options(labels if named else tuple(levels)), TEXT)

    def _kinds(self) -> list[str | None]:
        """Return the kinds of question that the user or a column of types gives."""
        column = self._roles.first("type")
        if self._reading.levels or column is None:
            return ["score" if self._reading.levels else None] * len(self._rows)
        return of_texts(lambda cell: _KINDS.get(str(cell)), self._rows.cells(column))

    def _set_vectors(self) -> list[Problem]:
        """Put the numbers of every row in the order of its options."""
        form, rows = self._form_of_names(), self._rows
        wrong: dict[int, str] = {}
        for part in rows.numbers:
            options = self._options_of(part)
            keyed = dict(zip(part.keys(options), options, strict=True)) if part.namings else {}
            indices = {key: self._indices(part, key, own, form) for key, own in keyed.items()}
            wrong |= part.set_vectors(options, indices)
        lines, kind = self._entries.lines, "numbers of answers"
        return [
            Problem(lines[rows.at[row]], rows.ids[row], wrong[row], kind) for row in sorted(wrong)
        ]

    def _options_of(self, part: Numbers) -> list[Options]:
        options = self._rows.options
        is_whole = len(part.rows) == len(options)
        return options if is_whole else [options[row] for row in part.rows.tolist()]

    def _indices(
        self, part: Numbers, key: tuple[int, int], options: Options, form: Form
    ) -> list[int | None] | None:
        """Return the options that the names of numbers name; None if they do not fit."""
        names = part.namings[key[1]]
        known = (key[0], names, part.listed, form)
        if known not in self._known:
            self._known[known] = indices_of_names(names, options, form, listed=part.listed)
        return self._known[known]

    def _form_of_names(self) -> Form:
        """Return how the names of the numbers name options.

        Raises:
            ShapeError: two forms fit and differ.
        """
        rows = self._rows
        named = []
        for part in rows.numbers:
            if any(part.namings):
                options = self._options_of(part)
                keyed = dict(zip(part.keys(options), options, strict=True))
                named += [(part, key, own) for key, own in keyed.items()]
        listed = any(part.listed for part, *_ in named)
        forms = (TEXT, LETTER) if listed else tuple(FORMS)
        fitting = [
            form
            for form in forms
            if named and all(self._indices(*each, form) is not None for each in named)
        ]
        if fitting and TEXT in self._forms and fitting[0] == TEXT and not listed:
            return TEXT
        if self._reading.form in fitting:
            return self._reading.form or TEXT
        first, *others = fitting or [TEXT]
        if any(
            self._indices(*x, first) != self._indices(*x, form)
            for x in named
            for form in others[:1]
        ):
            pairs = [
                (row, name)
                for part in rows.numbers
                for row, code in zip(part.rows.tolist(), part.naming.tolist(), strict=True)
                for name in (part.namings[code] if part.namings else ())
            ]
            pairs.sort(key=lambda pair: pair[0])
            answers = Answers(
                "the names of the numbers",
                [name for _, name in pairs],
                [rows.options[row] for row, _ in pairs],
                lambda at: rows.place(pairs[at][0]),
            )
            a, b = (
                [-1 if index is None else index for index in answers.read(form)]
                for form in fitting[:2]
            )
            raise two_readings(self._source, answers, (fitting[0], a), (fitting[1], b))
        return first

    # Answers

    def _choose(self, rows: TableRows) -> _Chosen:
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
        tops = _Tops(rows)
        against = {id(pair): self._contradiction(rows, tops, pair) for pair in pairs}
        # One file counts one way.
        equal = [pair for pair in pairs if {*pair.forms} != {*POSITIONS}]
        for tried in (equal, pairs):
            passing = [pair for pair in tried if against[id(pair)] is None]
            if passing:
                self._ask(rows, passing)
                return passing[0]
        raise ShapeError(f"{self._source}: {against[id((equal or pairs)[0])]}")

    def _answers(self, rows: TableRows, column: str) -> Answers:
        return Answers(column, rows.answers(column), rows.options, rows.place)

    def _readings(self, rows: TableRows, column: str | None) -> dict[Form | None, list[int]]:
        """Return the readings of a column that fit every row; those of the data without one.

        Raises:
            ShapeError: none does.
        """
        if column is None and self._roles.unlabelled:
            return {None: [0] * len(rows)}
        if column is None:
            pairs = zip(rows.options, rows.recorded(), strict=True)
            indices = [options.index(text, TEXT) for options, text in pairs]
            return {None: [index for index in indices if index is not None]}
        answers = self._answers(rows, column)
        tried = self._reading.form or (TEXT if TEXT in self._forms[:1] else None)
        stated = answers.readings(tried) if tried else {}
        fitting = stated or answers.readings()
        readings: dict[Form | None, list[int]] = {form: fitting[form] for form in fitting}
        if stated:
            return readings
        usual = (self._roles.form,) if column == self._reference else ()
        for form in (*self._forms, *usual):
            if form in readings:
                return {form: readings[form]}
        named = any(own.named for own in _different(rows.options)) and TEXT not in readings
        if named and LETTER in readings:
            return {LETTER: readings[LETTER]}
        if readings:
            return readings
        read = answers.read(answers.likeliest())
        row = read.index(None)
        own = rows.options[row]
        names = ", ".join(map(dumps, own.texts[:8])) or f"{len(own)} positions"
        role = "reference" if column == self._reference else "prediction"
        remedy = f"Correct the column, or name another one: {columns_option(role, ['NAME'])}"
        if not own.ordered or not own.texts:
            listed = shlex.quote(",".join(own.texts or ("FIRST", "SECOND")))
            remedy = f"If these are positions or letters, give the order: --options {listed}"
        for group in self._roles.groups.values():
            ignored = columns_option(IGNORED, [*group])
            remedy += f". If {', '.join(group)} are not numbers for the answers: {ignored}"
        raise ShapeError(
            f"{self._source}: {rows.place(row)}: {column} = {dumps(rows.cell(row, column))} names "
            f"none of the answers ({names}), and so in {read.count(None):,} of {len(rows):,} rows. "
            f"{remedy}"
        )

    def _contradiction(self, rows: TableRows, tops: _Tops, chosen: _Chosen) -> str | None:
        """Return what a row says against a reading; None if nothing does."""
        said = None if chosen.predictions is None else np.array(chosen.predictions, np.int64)
        right = np.array(chosen.references, np.int64)
        truths = np.array([-1 if truth is None else truth for truth in rows.truths], np.int64)
        has_top = tops.has(right, said)
        # Of answers that tie, one may be the right one, and another the answer.
        fits = np.where(truths == 1, has_top, tops.counts(said) > has_top)
        against = (truths >= 0) & ~fits
        is_top = np.ones(len(rows), bool) if said is None else tops.has(said, said)
        if not (against | ~is_top).any():
            return None
        row = int((against | ~is_top).argmax())
        answer = tops.of(row, None if said is None else int(said[row]))
        if not is_top[row]:
            column = str(self._prediction)
            told = f"is not the most probable answer ({rows.named(row, answer)})"
            facts = "these numbers"
        else:
            column = str(self._roles.first("correct"))
            told = (
                f"contradicts the answer, read as {rows.named(row, answer)}, and the right one, "
                f"read as {rows.named(row, [int(right[row])])}"
            )
            facts = "these answers"
        return (
            f"{rows.place(row)}: {column} = {dumps(rows.cell(row, column))} {told}. If it is no "
            f"fact about {facts}: {columns_option(IGNORED, [column])}"
        )

    def _ask(self, rows: TableRows, passing: Sequence[_Chosen]) -> None:
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

    def _check_copy(self, rows: TableRows, chosen: _Chosen) -> None:
        """Check that a right answer next to that of the data agrees with it.

        Raises:
            ShapeError: it differs.
        """
        column = None if self._data is None else self._roles.first("reference")
        if column is None or self._data is None:
            return
        labelled = [row for row, x in enumerate(rows.answers(column)) if not is_unlabelled(x)]
        answers = self._answers(rows.chosen(labelled), column)
        references = [chosen.references[row] for row in labelled]
        read = [answers.read(form) for form in FORMS]
        if references in read:
            return
        places = zip(labelled, references, zip(*read, strict=True), strict=True)
        row, index = next((row, index) for row, index, found in places if index != found[0])
        raise ShapeError(
            f"{self._source}: two right answers differ: {rows.place(row)} has {column} = "
            f"{dumps(rows.cell(row, column))}, and {self._data.path} has "
            f"{rows.named(row, [index])}. Decide with {columns_option(IGNORED, [column])}"
        )

    # Rows of our format

    def _log_rows(self) -> LogRows:
        """Return the rows, and what is wrong with those that have a number out of its range."""
        rows = self._rows
        columns, wrong = self._facts()
        columns |= self._answers_by_column(wrong)
        asked = of_texts(cell_text, rows.answers(self._roles.first("question")))
        lines, none = self._entries.lines, [""] * len(rows)
        facts: dict[str, Sequence[Any]] = {
            "line": lines if len(rows) == len(lines) else [lines[at] for at in rows.at],
            "record": rows.ids,
            "question": [text or "" for text in asked],
            "options": _of_options(lambda own: own.texts, rows.options),
            **dict.fromkeys(("where", "wording", "state"), none),
        }
        made = LogRows(facts, columns, self._further())
        kind = "values out of range"
        problems = {
            at: Problem(facts["line"][at], rows.ids[at], str(error), kind)
            for at, error in wrong.items()
        }
        found = (problems.get(at) or made.row(at) for at in range(len(rows)))
        return LogRows.of(found) if problems else made

    def _answers_by_column(self, wrong: dict[int, ValueError]) -> dict[str, Any]:
        """Return the columns, in our format, that are of answers.

        Args:
            wrong: by its number, what is wrong with a row; numbers out of their range are added.
        """
        rows, unlabelled, answered = self._rows, self._roles.unlabelled, self._answered
        right: list[int | None] = [None] * len(rows)
        counts: list[Any]
        if self._roles.outcomes:
            right, counts = [0] * len(rows), [2] * len(rows)
        elif unlabelled:
            counts = _kept([*map(attempted(self._count), range(len(rows)))], wrong)
        else:
            right, counts = self._right_answers(), _of_options(len, rows.options)
        columns: dict[str, Any] = {
            "reference": right,
            "n_choices": counts,
            # Of answers that tie, the prediction is the answer.
            "answer": self._said,
        }
        if not all(answered):
            columns["status"] = [None if has else "missing" for has in answered]
            columns["reason"] = [None if has else "no answer in the table" for has in answered]
        if self._roles.first("correct") is not None:
            # Of answers that tie, nothing says which was counted.
            sure = (_Tops(rows).counts() < 2) & np.array(answered)
            pairs = zip(rows.truths, sure.tolist(), strict=True)
            columns["correct"] = [truth if is_sure else None for truth, is_sure in pairs]
        columns |= self._numbers_by_column(wrong)
        if self._roles.outcomes:
            columns |= {"code_order": [[]] * len(rows), "kind": ["choice"] * len(rows)}
        return columns

    def _numbers_by_column(self, wrong: dict[int, ValueError]) -> dict[str, Any]:
        """Return the columns, in our format, that have the numbers of rows."""
        rows, parts = self._rows, self._rows.numbers
        of_logs = any(part.kind == "log_probabilities" for part in parts)
        if len(parts) == 1 and len(parts[0].rows) == len(rows) and not of_logs:
            return {parts[0].kind: parts[0].vectors}
        found: list[Any] = [None] * len(rows)
        for part in parts:
            read_numbers = attempted(partial(self._numbers, part))
            pairs = zip(part.values.tolist(), self._vectors(part), strict=True)
            for row, numbers in zip(part.rows, map(read_numbers, pairs), strict=True):
                found[row] = numbers
        if self._roles.first("confidence") is not None:
            read = attempted(self._confidence)
            for row in compress(range(len(rows)), self._answered):
                found[row] = read(row) if found[row] is None else found[row]
        return by_column([each or {} for each in _kept(found, wrong)])

    def _vectors(self, part: Numbers) -> list[list[float | None]]:
        """Return the numbers of rows by option; None for an option that is not listed."""
        vectors: list[list[float | None]] = part.vectors.tolist()
        if not part.listed:
            return vectors
        options = [self._rows.options[row] for row in part.rows]
        return [
            [None if x is None or math.isnan(x) else x for x in vector[: len(own)]]
            for vector, own in zip(vectors, options, strict=True)
        ]

    def _numbers(
        self, part: Numbers, read: tuple[Sequence[float], Sequence[float | None]]
    ) -> dict[str, Json]:
        """Return the numbers of a row as columns of our format.

        Args:
            part: of which the row is one.
            read: the numbers as the row has them, and by option.

        Raises:
            ValueError: log-probabilities are above 0, or sum to more than 1.
        """
        numbers, vector = read
        if part.kind != "log_probabilities":
            return {part.kind: [*vector]}
        known = [value for value in vector if value is not None]
        if max(numbers) > SUM_TOLERANCE:
            column = self._roles.first("log_probabilities") or "logprob columns"
            raise ValueError(
                f"{column}: expected log-probabilities of at most 0, got {max(numbers):.6g}; if "
                f"they are logits, say so: --columns logits={column}"
            )
        mass = math.fsum(math.exp(min(value, 0.0)) for value in known)
        if mass > 1 + SUM_TOLERANCE * len(known):
            raise ValueError(
                f"expected log-probabilities of different answers, whose probabilities sum to at "
                f"most 1, got a sum of {mass:.6g}"
            )
        if not self._partial_mass and not part.listed:
            return {part.kind: [*vector]}
        values: dict[str, Json] = {"logits": [*vector], "answer_mass": min(mass, 1.0)}
        if len(known) < len(vector):
            left = 1.0 - math.fsum(map(math.exp, numbers))
            values["ceiling"] = min(*numbers, math.log(max(left, 1e-12)))
        return values

    def _right_answers(self) -> list[int | None]:
        """Return the indices of the right answers, also of rows without an answer."""
        rows, found = self._rows, self._right
        lacking = [row for row, right in enumerate(found) if right is None]
        if not lacking:
            return found
        cells = rows.recorded() if self._reference is None else rows.answers(self._reference)
        for row in lacking:
            own = rows.options[row]
            indices = (own.index(cells[row], form) for form in own.forms)
            found[row] = next((index for index in indices if index is not None), None)
        return found

    def _count(self, row: int) -> int:
        """Return the number of answers of a row; without labels, the least that there can be.

        Raises:
            ValueError: its confidence is too small for any number.
        """
        known = len(self._rows.options[row])
        named = self._have[row] or self._rows.options[row].texts == _BOOLEAN
        if not self._roles.unlabelled or named:
            return known
        return max(known, MIN_ANSWERS, fewest_answers(self._rows.confidences[row] or 1.0))

    def _confidence(self, row: int) -> dict[str, Json]:
        """Return the probability of the answer of a row.

        Raises:
            ValueError: it is missing, or whether the answer is right, or it is too small.
        """
        column, confidence = self._roles.first("confidence"), self._rows.confidences[row]
        if confidence is None:
            raise ValueError(f"{column}: expected a number, got none; fill the cell in")
        if self._roles.outcomes and self._rows.truths[row] is None:
            column = self._roles.first("correct")
            raise ValueError(f"{column}: expected true or false, got none; fill the cell in")
        said = self._said[row]
        if said is not None and not self._roles.outcomes:
            try:
                confident_logits(confidence, said, self._count(row))
            except ValueError as error:
                raise ValueError(
                    f"{error}; if {column} is not the probability of {self._prediction}: "
                    f"{columns_option(IGNORED, [str(column)])}"
                ) from None
        return {"confidence": confidence}

    @cached_property
    def _partial_mass(self) -> bool:
        """Whether log-probabilities of a row leave something for other tokens."""
        of_logs = [part for part in self._rows.numbers if part.kind == "log_probabilities"]
        return any(part.listed for part in of_logs) or any(
            math.fsum(math.exp(min(x, 0.0)) for x in vector) < 1 - SUM_TOLERANCE
            for part in of_logs
            for vector in part.vectors.tolist()
        )

    def _facts(self) -> tuple[dict[str, list[Json]], dict[int, ValueError]]:
        """Return the columns of items and of views that rows or their records have.

        Returns:
            (n,) cells by column; and by its number, what is wrong with a row.
        """
        rows, wrong = self._rows, dict[int, ValueError]()
        columns: dict[str, Any] = {"id": rows.ids}
        columns |= _of_records([record for record in rows.records if record is not None])
        kinds = _of_options(lambda own: "boolean" if own.texts == _BOOLEAN else None, rows.options)
        columns.setdefault("kind", kinds)
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
            columns[name] = _kept(of_texts(read, rows.cells(name)), wrong)
        if self._grouping.labels:
            read_labels = attempted(self._grouping.of_entry)
            named = [read_labels(rows.entry(row).value) for row in range(len(rows))]
            columns |= by_column([each or {} for each in _kept(named, wrong)])
        return columns, wrong

    def _labels_of(self, label: str) -> Sequence[str | None]:
        """Return the labels that rows have in the column of a role; nothing without the column."""
        column = self._roles.first(label)
        texts = [] if column is None else of_texts(as_text, self._rows.cells(column))
        if label != "variant":
            return texts
        return [text if text in _VARIANTS else None for text in texts]

    def _further(self) -> dict[str, list[Json]]:
        used = self._roles.used | {*_NUMBERS, "code_order"}
        rows = self._rows
        kept = self._entries.chosen(rows.at)
        further = {name: kept.column(name) for name in kept.names if name not in used}
        if any(rows.requests):
            pairs = zip(rows.requests, rows.ids, strict=True)
            further["question"] = [x and name.removeprefix(f"{x}/") for x, name in pairs]
        return further

    def _block(self, chosen: _Chosen) -> dict[str, Json]:
        """Return how the table was read, for `run.json`."""
        columns: dict[str, Json] = {r: [*names] for r, names in self._roles.columns.items()}
        columns |= {kind: [*group] for kind, group in self._roles.groups.items()}
        block: dict[str, Json] = {"columns": columns}
        if self._roles.labels:
            block["labelled"] = True
        column, rows = self._roles.first("id"), self._rows
        lines = self._entries.lines
        if self._families:
            what = "ids" if any(rows.requests) else "texts"
            block[what] = len({*self._families} - {None})
        elif is_constant(rows.texts) or (
            self._roles.unlabelled
            and all(name == str(lines[at]) for name, at in zip(rows.ids, rows.at, strict=True))
        ):
            block["texts"] = 1
        if column is not None and counts_in_order(self._entries, column):
            block["numbered"] = True
        block |= {} if self._probability_of is None else {"probability_of": self._probability_of}
        block |= {"percent": True} if self._roles.percent else {}
        forms = [form for form in chosen.forms if form is not None]
        if forms:
            block["answers"] = forms[0]
        shared = {own.texts for own in _different(rows.options)}
        if len(shared) == 1 and rows.options[0].texts:
            block["options"] = [*rows.options[0].texts]
        unverified = rows.truths.count(None)
        if self._prediction is not None and unverified:
            pairs = zip(rows.truths, self._have, strict=True)
            unverified = sum(truth is None and not has for truth, has in pairs)
        if 0 < unverified < len(rows):
            block["unverified"] = unverified
        return block


def _different(options: Sequence[Options]) -> list[Options]:
    """Return the options of rows, each object once."""
    if len({*map(id, options)}) == 1:
        return [options[0]]
    return [*{id(own): own for own in options}.values()]


def _of_options(function: Callable[[Options], _T], options: Sequence[Options]) -> list[_T]:
    """Return a function of the options of every row, called once for each object."""
    known = {id(own): function(own) for own in _different(options)}
    return [*map(known.__getitem__, map(id, options))]


class _Tops:
    """The most probable answers of rows; several if they tie.

    Args:
        rows: with their options, and numbers in the order of these.
    """

    def __init__(self, rows: TableRows) -> None:
        self._size = len(rows)
        self._parts = [(part.rows, part.tops) for part in rows.numbers if part.vectors.shape[1]]

    def has(self, indices: IntArray, said: IntArray | None = None) -> BoolArray:
        """Return (n,) whether answers are among them; of rows without numbers, if they are said.

        Args:
            indices: (n,) of answers.
            said: (n,) what a model said; None if nothing says it.
        """
        found = np.zeros(self._size, bool) if said is None else said == indices
        for rows, tops in self._parts:
            found[rows] = tops[np.arange(len(rows)), indices[rows]]
        return found

    def counts(self, said: IntArray | None = None) -> IntArray:
        """Return (n,) how many there are."""
        counts = np.full(self._size, int(said is not None))
        for rows, tops in self._parts:
            counts[rows] = tops.sum(axis=1)
        return counts

    def of(self, row: int, said: int | None) -> list[int]:
        """Return those of a row."""
        for rows, tops in self._parts:
            if row in rows:
                return [*map(int, np.flatnonzero(tops[rows == row][0]))]
        return [] if said is None else [said]


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
