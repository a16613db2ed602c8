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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress, repeat
from operator import or_
from typing import Any, Final

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
from pact_eval.data.records import MIN_ANSWERS
from pact_eval.errors import Problem, ShapeError, counted
from pact_eval.importing.one_number import ForeignTable, TableRoles, options_of_record
from pact_eval.importing.row_reader import KINDS, confident_logits, fewest_answers
from pact_eval.importing.source import (
    COLUMNS_REMARK,
    Grouping,
    LogFacts,
    LogRows,
    References,
    by_column,
)
from pact_eval.importing.table_cells import log_sum, read_each
from pact_eval.importing.table_roles import roles_of_table, split_predictions
from pact_eval.importing.table_rows import BOOLEAN, Shape, TableRows, families_of_rows, parse_rows
from pact_eval.runs.predictions import SUM_TOLERANCE

_NUMBERS: Final = ("view", "prompt_tokens", "answer_mass", "view_tv", "permutation_tv")
_VARIANTS: Final = ("base", "counterfactual")
_LABELS: Final = ("family", "source_family", "domain", "variant")


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


@dataclass(frozen=True)
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
        self._table, self._entries = table, table.entries
        self._reading, self._source = table.reading, table.source
        self._data, self._roles, self._grouping = table.references, roles, grouping
        self._remarks = [*table.entries.remarks]
        self._reference = None if self._data is not None else roles.first("reference")
        self._prediction = roles.first("prediction")
        self._forms: tuple[Form, ...] = ()  # taken if they fit, before any other
        self._wrong: dict[int, ValueError] = {}  # values out of range, by row

    def table(self, rows: TableRows) -> tuple[LogRows, LogFacts]:
        """Return the rows in our format."""
        self._rows = rows = self._keep_labelled(rows)
        self._have: list[bool] = (rows.numbers.shape_of >= 0).tolist()
        self._families = self._families_of_texts()
        problems = [] if self._roles.outcomes else self._set_options() or self._set_vectors()
        if problems:
            return LogRows.of(problems), LogFacts()
        self._answered = self._are_answered()
        places = [*compress(range(len(rows)), self._answered)]
        answered = rows.chosen(places)
        chosen = self._choose(answered)
        self._check_copy(answered, chosen)
        self._right: list[int | None] = [None] * len(rows)
        self._said: list[int | None] = [None] * len(rows)
        for row, right, said in zip(
            places, chosen.references, chosen.predictions or repeat(None), strict=False
        ):
            self._right[row], self._said[row] = right, said
        remarks = (self._remark(chosen), *self._remarks)
        return self._log_rows(), LogFacts(self._block(chosen), remarks=remarks)

    def _remark(self, chosen: _Chosen) -> str:
        """Say which columns were read, and how the right answer names an option."""
        roles = {role: "+".join(names) for role, names in self._roles.named.items()}
        for role, form in zip(("reference", "prediction"), chosen.forms, strict=True):
            if role in roles and form is not None:
                roles[role] += f" ({form})"
        if self._roles.rest is not None:
            roles["probabilities"] += f" (the probability of {self._roles.probability_of})"
        if self._roles.percent:
            roles["confidence"] += " (in percent)"
        listed = ", ".join(f"{role} = {names}" for role, names in roles.items())
        texts = len({*self._families} - {None})
        what = "id" if any(self._rows.requests) else "text"
        of_texts = f" Rows with one {what} belong together: {texts:,} {what}s." if texts else ""
        return f"{COLUMNS_REMARK}{listed}.{of_texts}"

    def _families_of_texts(self) -> Sequence[str | None]:
        """Return the families of rows; none if something else names them."""
        data, rows, columns = self._data, self._rows, self._roles.columns
        stated = {"family", "source_family"} & {*columns, *self._grouping.labels}
        # A log has few questions: with ids, they do not say what was asked about.
        stated |= {"id"} if self._roles.unlabelled and "state" not in columns else set()
        without_texts = data is None and not self._roles.texts
        if stated or without_texts or (data is not None and not data.lacks_families):
            return ()
        if any(rows.requests):
            return [own or id_ for own, id_ in zip(rows.requests, rows.ids, strict=True)]
        labels: Sequence[str | None] = rows.recorded()
        if self._reference is not None:
            labels = of_texts(
                lambda cell: None if (text := cell_text(cell)) is None else fold_label(text),
                rows.answers(self._reference),
            )
        names = families_of_rows(self._table, self._roles, rows, labels)
        return () if names.count(None) == len(names) else names

    def _keep_labelled(self, rows: TableRows) -> TableRows:
        """Return the rows that have a right answer, and say how many have none."""
        column = self._reference
        if column is None or self._roles.outcomes:
            return rows
        cells = rows.answers(column)
        missing = self._missing_label(cells, column, rows)
        has_label = of_texts(
            lambda cell: not is_unlabelled(cell) and cell_text(cell) not in missing, cells
        )
        left_out = has_label.count(False)
        if not left_out:
            return rows
        self._remarks.append(f"Left out: {counted(left_out, 'row')} without a label ({column}).")
        return rows.chosen([*compress(range(len(rows)), has_label)])

    def _missing_label(self, cells: Sequence[Json], column: str, rows: TableRows) -> frozenset[str]:
        """Return "-1" if it says that there is no label.

        Raises:
            ShapeError: it may also be one of the answers, or a dash is.
        """
        labels, _ = distinct_labels(cells)
        shapes, options = rows.numbers.used, self._reading.options
        named = {fold_label(name) for shape in shapes for name in shape.names or ()}
        named |= {*map(fold_label, options)}
        if "-" in named:
            raise ShapeError(
                f'{self._source}: "-" is one of the answers, and also says that there is none in '
                f"{column}; write it as a word"
            )
        if "-1" not in labels or "-1" in named:
            return frozenset()
        widths = (shape.width for shape in shapes if shape.names is None)
        count = len(options) or max(widths, default=0)
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
        rows, problems = self._rows, list[Problem]()
        own: list[Options] = []
        if "options" in self._roles.columns and (self._data or not self._reading.options):
            own, problems = self._own_options()
        if problems:
            return problems
        if self._data is not None:
            self._take_records(self._data, own)
        elif self._reading.options:
            self._give(Options(self._reading.options), TEXT)
        elif own:
            rows.options = own
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
        """Give all rows the same options, which one of some forms names, if it fits."""
        self._rows.options = [options] * len(self._rows)
        self._forms = forms

    def _own_options(self) -> tuple[list[Options], list[Problem]]:
        """Return the options in the columns of every row, and what is wrong with rows.

        Raises:
            ShapeError: views of an item have another order, or a dash is an option.
        """
        columns, rows = self._roles.columns["options"], self._rows
        options: list[Options] = []
        wrong: dict[int, DraftError] = {}
        first: dict[str, Options] = {}
        known: dict[Any, Options] = {}  # rows with the same texts share their options
        for row, cells in enumerate(zip(*map(rows.entries.column, columns), strict=True)):
            key: Any = cells if all(isinstance(cell, str | None) for cell in cells) else row
            try:
                if key not in known:
                    entry = dict(zip(columns, cells, strict=True))
                    known[key] = options_of_row(entry, columns, self._reference)
            except DraftError as error:
                wrong[row] = error
                continue
            own = known[key]
            options.append(own)
            same = first.setdefault(rows.ids[row], own).texts == own.texts
            if self._data is None and (not same or "-" in own.texts):
                what = '"-", which also says that there is no label'
                if not same:
                    what = "another order of options than the first view of its item"
                raise ShapeError(
                    f"{self._source}: {rows.place(row)} has {what}; write rows that agree"
                )
        kind = next((error.kind for error in wrong.values()), "")
        return options, rows.problems(wrong, kind)

    def _take_records(self, data: References, own: Sequence[Options]) -> None:
        """Take the options of the records.

        Args:
            data: the records.
            own: the options that rows have in columns of their own; empty without any.

        Raises:
            ShapeError: a row has others, or a list has no order.
        """
        rows = self._rows
        self._forms = (TEXT,)
        rows.options = [options_of_record(record, data) for record in rows.records]
        for row, (theirs, ours) in enumerate(zip(own, rows.options, strict=False)):
            if theirs.texts != ours.texts:
                ignored = columns_option(IGNORED, self._roles.columns["options"])
                raise ShapeError(
                    f"{self._source}: {rows.place(row)} has the options "
                    f"{', '.join(map(dumps, theirs.texts))}, and its record has "
                    f"{', '.join(map(dumps, ours.texts))}. Leave one out: {ignored}, or no --data"
                )
        lists = [shape.names is None for shape in rows.numbers.shapes]
        ordered = zip(rows.options, rows.numbers.shape_of.tolist(), strict=True)
        if any(code >= 0 and lists[code] and not own.ordered for own, code in ordered):
            self._order_lists(rows.recorded())

    def _options_of_file(self, column: str) -> None:
        """Take the options from the whole file: classes, names of numbers, positions, or labels.

        Raises:
            ShapeError: nothing gives them, or an order that is needed.
        """
        rows, classes = self._rows, self._entries.class_names.get(column)
        if classes:
            self._give(Options(classes), TEXT, POSITIONS[0])  # `datasets` counts from 0
            return
        shapes, cells = rows.numbers.used, rows.answers(column)
        if any(shape.names for shape in shapes):
            self._options_of_names(cells)
        elif self._roles.has_scores:
            unnamed = self._roles.unlabelled and self._prediction is None
            if not unnamed and not all(
                of_texts(lambda cell: fold_label(cell_text(cell) or "").isdigit(), cells)
            ):
                self._order_lists(cells)
                return
            most = max((shape.width for shape in shapes), default=0)
            by_width = {shape.width: Options((), count=shape.width) for shape in shapes}
            widths = [shape.width for shape in rows.numbers.shapes] + [most]  # last: code -1
            by_width.setdefault(most, Options((), count=most))
            rows.options = [by_width[widths[code]] for code in rows.numbers.shape_of.tolist()]
        else:
            said = rows.answers(self._prediction)
            self._check_words(cells, said)
            labels, merged = distinct_labels([*cells, *said])
            check_truths(labels, column, self._source)
            self._remarks += [f"Read as one label: {', '.join(map(dumps, m))}." for m in merged]
            self._give(Options(tuple(labels), ordered=False), TEXT)

    def _options_of_names(self, cells: Sequence[Json]) -> None:
        """Take the names of the numbers as options, sorted: a file has no other order of them.

        Args:
            cells: the right answer of every row.

        Raises:
            ShapeError: only some tokens are listed, so the options are not known.
        """
        numbers = self._rows.numbers
        named = [shape for shape in numbers.used if shape.names]
        if any(shape.listed for shape in named):
            labels, _ = distinct_labels(cells)
            labels = labels or distinct_labels(shape.names[0] for shape in named if shape.names)[0]
            raise ShapeError(
                f"{self._source}: the most probable tokens are listed, and the answers are not "
                f"known. Name them: --options {shlex.quote(','.join(labels[:6]))}"
            )
        sets = {frozenset(shape.names or ()) for shape in named}
        # Numbers have an order, and so may also be meant as positions.
        digits = all(name.isdigit() for names in sets for name in names)
        shared = Options(tuple(sort_labels(frozenset().union(*sets))), ordered=digits)
        self._give(shared, *(() if digits else (TEXT,)))
        if len(sets) > 1:  # rows are not compared, only found
            own = [
                Options(tuple(sort_labels(shape.names)), ordered=digits) if shape.names else shared
                for shape in numbers.shapes
            ]
            codes = numbers.shape_of.tolist()
            self._rows.options = [own[code] if code >= 0 else shared for code in codes]

    def _order_lists(self, cells: Sequence[Json]) -> None:
        """Take the order of lists of numbers that the predictions prove.

        Args:
            cells: the right answer of every row, in words.

        Raises:
            ShapeError: they prove none.
        """
        rows, said = self._rows, self._rows.answers(self._prediction)
        sizes = {shape.width for shape in rows.numbers.used}
        labels, _ = distinct_labels([*cells, *said])
        order = self._proven_order(sizes, said, labels)
        if order is not None:
            listed = ", ".join(order)
            self._remarks.append(f"Order of the numbers, by {self._prediction}: {listed}.")
            self._give(Options(order), TEXT)
            return
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

    def _proven_order(
        self, sizes: set[int], said: Sequence[Json], labels: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Return the only order of labels in which every prediction is the most probable answer."""
        spelling = {fold_label(label): label for label in labels}
        values = np.nan_to_num(self._rows.numbers.values, nan=-math.inf)
        best = values == values.max(axis=1, keepdims=True, initial=-math.inf)
        is_single = (best.sum(axis=1) == 1) & self._have
        texts: dict[int, str] = {}
        for row, place in np.argwhere(best & is_single[:, None]).tolist():
            text = None if is_unlabelled(said[row]) else cell_text(said[row])
            label = None if text is None else spelling[fold_label(text)]
            if label is not None and texts.setdefault(place, label) != label:
                return None
        left = [label for label in labels if label not in texts.values()]
        lacking = [place for place in range(max(sizes, default=0)) if place not in texts]
        if len(left) == len(lacking) == 1:
            texts[lacking[0]] = left[0]
        is_whole = len({*texts.values()}) == len(labels) and {len(texts)} == sizes
        return tuple(texts[at] for at in sorted(texts)) if is_whole else None

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
        return of_texts(lambda cell: KINDS.get(str(cell)), self._rows.entries.column(column))

    def _set_vectors(self) -> list[Problem]:
        """Put the numbers of every row in the order of its options.

        Raises:
            ShapeError: two forms of the names of numbers fit and differ.
        """
        rows, numbers = self._rows, self._rows.numbers
        cases = numbers.cases(rows.options)
        form = self._form_of_names([case for case in cases if case[0].names is not None])
        most = max((len(own) for _, own, _ in cases), default=0)
        vectors = np.full((len(rows), most), math.nan)
        wrong: dict[int, str] = {}
        for shape, own, members in cases:
            indices: Sequence[int | None] | None = range(shape.width)
            message = (
                f"expected {len(own)} numbers, one per answer, got {shape.width}; if rows have "
                "options of their own, name them: --columns options=NAME"
            )
            if shape.names is not None:
                indices = _indices(shape, own, form)
                message = (
                    f"expected a number for each of {', '.join(own.texts[:8])}; got "
                    f"{', '.join(shape.names)[:200]}"
                )
            if indices is None or (shape.names is None and shape.width != len(own)):
                wrong |= dict.fromkeys(members.tolist(), message)
                continue
            for place, index in enumerate(indices):
                if index is None:
                    continue
                found, before = numbers.values[members, place], vectors[members, index]
                again = ~np.isnan(before)  # "yes" and "Yes" may both be listed
                pairs = zip(before[again].tolist(), found[again].tolist(), strict=True)
                found[again] = [*map(log_sum, pairs)]
                vectors[members, index] = found
        rows.numbers = replace(numbers, vectors=vectors)
        return rows.problems(wrong, "numbers of answers")

    def _form_of_names(self, named: Sequence[tuple[Shape, Options, IntArray]]) -> Form:
        """Return how the names of the numbers name options.

        Raises:
            ShapeError: two forms fit and differ.
        """
        rows, listed = self._rows, any(shape.listed for shape, *_ in named)
        read = {
            form: [_indices(shape, own, form) for shape, own, _ in named]
            for form in ((TEXT, LETTER) if listed else FORMS)
        }
        fitting = [form for form, indices in read.items() if named and None not in indices]
        if fitting and TEXT in self._forms and fitting[0] == TEXT and not listed:
            return TEXT
        if self._reading.form in fitting:
            return self._reading.form or TEXT
        first, *others = fitting or [TEXT]
        if not others or read[first] == read[others[0]]:
            return first
        shapes, of_rows = rows.numbers.shapes, enumerate(rows.numbers.shape_of.tolist())
        pairs = [(at, x) for at, code in of_rows if code >= 0 for x in shapes[code].names or ()]
        answers = Answers(
            "the names of the numbers",
            [name for _, name in pairs],
            [rows.options[row] for row, _ in pairs],
            lambda at: rows.place(pairs[at][0]),
        )
        a, b = (
            (form, [-1 if index is None else index for index in answers.read(form)])
            for form in fitting[:2]
        )
        raise two_readings(self._source, answers, a, b)

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
        tops = rows.numbers.tops
        against = {pair.forms: self._contradiction(rows, tops, pair) for pair in pairs}
        # One file counts one way.
        equal = [pair for pair in pairs if {*pair.forms} != {*POSITIONS}]
        for tried in (equal, pairs):
            passing = [pair for pair in tried if against[pair.forms] is None]
            if passing:
                self._ask(rows, passing)
                return passing[0]
        raise ShapeError(f"{self._source}: {against[(equal or pairs)[0].forms]}")

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
        named = any(own.named for own in rows.options) and TEXT not in readings
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
        cell = dumps(rows.entries.column(column)[row])
        raise ShapeError(
            f"{self._source}: {rows.place(row)}: {column} = {cell} names "
            f"none of the answers ({names}), and so in {read.count(None):,} of {len(rows):,} rows. "
            f"{remedy}"
        )

    def _contradiction(self, rows: TableRows, tops: BoolArray, chosen: _Chosen) -> str | None:
        """Return what a row says against a reading; None if nothing does."""
        said = None if chosen.predictions is None else np.array(chosen.predictions, np.int64)
        right = np.array(chosen.references, np.int64)
        truths = np.array([-1 if truth is None else truth for truth in rows.truths], np.int64)
        has_top = _are_tops(tops, right, said)
        # Of answers that tie, one may be the right one, and another the answer.
        counts = np.where(tops.any(axis=1), tops.sum(axis=1), int(said is not None))
        fits = np.where(truths == 1, has_top, counts > has_top)
        against = (truths >= 0) & ~fits
        is_top = np.ones(len(rows), bool) if said is None else _are_tops(tops, said, said)
        if not (against | ~is_top).any():
            return None
        row = int((against | ~is_top).argmax())
        answer = np.flatnonzero(tops[row]).tolist() or ([] if said is None else [int(said[row])])
        if not is_top[row]:
            column, facts = str(self._prediction), "these numbers"
            told = f"is not the most probable answer ({rows.named(row, answer)})"
        else:
            column, facts = str(self._roles.first("correct")), "these answers"
            told = (
                f"contradicts the answer, read as {rows.named(row, answer)}, and the right one, "
                f"read as {rows.named(row, [int(right[row])])}"
            )
        cell = dumps(rows.entries.column(column)[row])
        return (
            f"{rows.place(row)}: {column} = {cell} {told}. If it is no fact about {facts}: "
            f"{columns_option(IGNORED, [column])}"
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
            f"{dumps(rows.entries.column(column)[row])}, and {self._data.path} has "
            f"{rows.named(row, [index])}. Decide with {columns_option(IGNORED, [column])}"
        )

    # Rows of our format

    def _log_rows(self) -> LogRows:
        """Return the rows, and what is wrong with those that have a number out of its range."""
        rows = self._rows
        columns = {**self._facts(), **self._answers_by_column()}
        asked = of_texts(cell_text, rows.answers(self._roles.first("question")))
        facts: dict[str, Sequence[Any]] = {
            "line": rows.entries.lines,
            "record": rows.ids,
            "question": [text or "" for text in asked],
            "options": [own.texts for own in rows.options],
            **dict.fromkeys(("where", "wording", "state"), [""] * len(rows)),
        }
        used = self._roles.used | {*_NUMBERS, "code_order"}
        entries = rows.entries
        further = {name: entries.column(name) for name in entries.names if name not in used}
        if any(rows.requests):
            pairs = zip(rows.requests, rows.ids, strict=True)
            further["question"] = [x and name.removeprefix(f"{x}/") for x, name in pairs]
        made = LogRows(facts, columns, further)
        if not self._wrong:
            return made
        problems = dict(
            zip(sorted(self._wrong), rows.problems(self._wrong, "values out of range"), strict=True)
        )
        return LogRows.of(problems.get(at) or made.row(at) for at in range(len(rows)))

    def _answers_by_column(self) -> dict[str, Any]:
        """Return the columns, in our format, that are of answers."""
        rows, answered, size = self._rows, self._answered, len(self._rows)
        right: list[int | None] = [None] * size
        counts: list[int] = [*map(len, rows.options)]
        if self._roles.outcomes:
            right, counts = [0] * size, [2] * size
        elif self._roles.unlabelled:
            counts = read_each(self._count, range(size), self._wrong)
        else:
            right = self._right_answers()
        # Of answers that tie, the prediction is the answer.
        columns: dict[str, Any] = {"reference": right, "n_choices": counts, "answer": self._said}
        if not all(answered):
            columns["status"] = [None if has else "missing" for has in answered]
            columns["reason"] = [None if has else "no answer in the table" for has in answered]
        if self._roles.first("correct") is not None:
            # Of answers that tie, nothing says which was counted.
            sure = (rows.numbers.tops.sum(axis=1) < 2) & np.array(answered)
            pairs = zip(rows.truths, sure.tolist(), strict=True)
            columns["correct"] = [truth if is_sure else None for truth, is_sure in pairs]
        columns |= self._numbers_by_column()
        if self._roles.outcomes:
            columns |= {"code_order": [[]] * size, "kind": ["choice"] * size}
        return columns

    def _numbers_by_column(self) -> dict[str, Any]:
        """Return the columns, in our format, that have the numbers of rows."""
        rows, numbers = self._rows, self._rows.numbers
        kinds = {(shape.kind, shape.width) for shape in numbers.used}
        if len(kinds) == 1 and all(self._have):
            ((kind, _),) = kinds
            if kind != "log_probabilities":
                return {kind: numbers.vectors}
        found: list[dict[str, Json] | None] = [None] * len(rows)
        if kinds:
            found = read_each(self._numbers, range(len(rows)), self._wrong)
        if self._roles.first("confidence") is not None:
            bare = [has and each is None for has, each in zip(self._answered, found, strict=True)]
            sure = read_each(
                lambda row: self._confidence(row) if bare[row] else None,
                range(len(rows)),
                self._wrong,
            )
            found = [a or b for a, b in zip(found, sure, strict=True)]
        return by_column([each or {} for each in found])

    def _numbers(self, row: int) -> dict[str, Json] | None:
        """Return the numbers of a row as columns of our format; None without any.

        Raises:
            ValueError: log-probabilities are above 0, or sum to more than 1.
        """
        numbers, own = self._rows.numbers, len(self._rows.options[row])
        if not self._have[row]:
            return None
        shape = numbers.shapes[numbers.shape_of[row]]
        vector: list[float] = numbers.vectors[row, :own].tolist()
        if shape.kind != "log_probabilities":
            return {shape.kind: [*vector]}
        values = numbers.values[row, : shape.width].tolist()
        known = [x for x in vector if not math.isnan(x)]
        if max(values) > SUM_TOLERANCE:
            column = self._roles.first("log_probabilities") or "logprob columns"
            raise ValueError(
                f"{column}: expected log-probabilities of at most 0, got {max(values):.6g}; if "
                f"they are logits, say so: --columns logits={column}"
            )
        mass = math.fsum(math.exp(min(value, 0.0)) for value in known)
        if mass > 1 + SUM_TOLERANCE * len(known):
            raise ValueError(
                f"expected log-probabilities of different answers, whose probabilities sum to at "
                f"most 1, got a sum of {mass:.6g}"
            )
        if not self._partial_mass and not shape.listed:
            return {shape.kind: [*vector]}
        listed: list[Json] = [None if math.isnan(x) else x for x in vector]
        columns: dict[str, Json] = {"logits": listed, "answer_mass": min(mass, 1.0)}
        if len(known) < len(vector):
            left = 1.0 - math.fsum(map(math.exp, values))
            columns["ceiling"] = min(*values, math.log(max(left, 1e-12)))
        return columns

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
        named = self._have[row] or self._rows.options[row].texts == BOOLEAN
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
        numbers = self._rows.numbers
        of_logs = [shape.kind == "log_probabilities" for shape in numbers.shapes]
        if any(shape.listed for shape in numbers.used if shape.kind == "log_probabilities"):
            return True
        rows = zip(numbers.vectors.tolist(), numbers.shape_of.tolist(), strict=True)
        return any(
            math.fsum(math.exp(min(x, 0.0)) for x in vector if not math.isnan(x))
            < 1 - SUM_TOLERANCE
            for vector, code in rows
            if code >= 0 and of_logs[code]
        )

    def _facts(self) -> dict[str, Any]:
        """Return the columns of items and of views that rows or their records have."""
        rows, entries = self._rows, self._rows.entries
        columns: dict[str, Any] = {"id": rows.ids}
        for name in (*_LABELS, "kind"):
            column = self._roles.first(name)
            if name != "kind" and not (column or self._data or self._families):
                continue
            theirs = rows.labels(name)
            own: Sequence[str | None] = of_texts(as_text, entries.column(column))
            if name == "variant":
                own = [text if text in _VARIANTS else None for text in own]
            if name == "kind":
                own = self._kinds()
            if self._families and name == "family":
                own = self._families
            if self._families and name == "source_family":  # of the data, which have no groups
                pairs = zip(self._families, theirs, strict=True)
                theirs = [of_data if x is None else None for x, of_data in pairs]
            columns[name] = [b if a is None else a for a, b in zip(own, theirs, strict=True)]
        for name in (*_NUMBERS, "code_order"):
            if name in self._entries.columns:
                read = partial(_number_or_list, name)
                columns[name] = read_each(read, entries.column(name), self._wrong)
        unknown: Json = []  # which letters a prompt showed, if the table does not say it
        orders = columns.get("code_order") or [None] * len(rows)
        columns["code_order"] = [unknown if order is None else order for order in orders]
        if self._grouping.labels:
            values = [entry.value for entry in entries.entries]
            named = read_each(self._grouping.of_entry, values, self._wrong)
            columns |= by_column([each or {} for each in named])
        return columns

    def _block(self, chosen: _Chosen) -> dict[str, Json]:
        """Return how the table was read, for `run.json`."""
        roles, rows, column = self._roles, self._rows, self._roles.first("id")
        block: dict[str, Json] = {"columns": {x: [*names] for x, names in roles.named.items()}}
        if roles.labels:
            block["labelled"] = True
        if self._families:
            what = "ids" if any(rows.requests) else "texts"
            block[what] = len({*self._families} - {None})
        elif is_constant(rows.texts) or (
            roles.unlabelled and [*rows.ids] == [*map(str, rows.entries.lines)]
        ):
            block["texts"] = 1
        if column is not None and counts_in_order(self._entries, column):
            block["numbered"] = True
        if roles.rest is not None:
            block["probability_of"] = roles.probability_of
        block |= {"percent": True} if roles.percent else {}
        forms = [form for form in chosen.forms if form is not None]
        if forms:
            block["answers"] = forms[0]
        first = rows.options[0].texts if rows.options else ()
        if first and all(own.texts == first for own in rows.options):
            block["options"] = [*first]
        unverified = rows.truths.count(None)
        if self._prediction is not None and unverified:
            pairs = zip(rows.truths, self._have, strict=True)
            unverified = sum(truth is None and not has for truth, has in pairs)
        if 0 < unverified < len(rows):
            block["unverified"] = unverified
        return block


def _indices(shape: Shape, options: Options, form: Form) -> list[int | None] | None:
    """Return the index of each name of numbers among options; None if they do not fit."""
    names = shape.names or ()
    if form not in options.forms:
        return None
    indices = [options.index(name, form) for name in names]
    known = {index for index in indices if index is not None}
    fits = bool(known) if shape.listed else len(known) == len(indices) == len(options)
    return indices if fits else None


def _are_tops(tops: BoolArray, indices: IntArray, said: IntArray | None) -> BoolArray:
    """Return (n,) whether answers are among the most probable; without numbers, if they are said.

    Args:
        tops: (n, A) the most probable answers of rows with numbers.
        indices: (n,) of answers.
        said: (n,) what a model said; None if nothing says it.
    """
    found = np.zeros(len(tops), bool) if said is None else said == indices
    numbered = np.flatnonzero(tops.any(axis=1))
    found[numbered] = tops[numbered, indices[numbered]]
    return found


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.\d+)?", text))


def _number_or_list(name: str, cell: Json) -> Json:
    if cell in (None, ""):
        return None
    if not isinstance(cell, str):
        return cell
    try:
        return loads(cell)
    except ValueError:
        raise ValueError(f"{name}: expected a number or a list, got {cell!r:.40}") from None
