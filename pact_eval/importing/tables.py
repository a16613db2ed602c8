"""Tables of others with the answers of a model, translated to rows of our own format.

A row has the right answer and what a model said: numbers for the answers (`scores.py`), its answer
alone, or both. The right answer may be in a dataset file instead (`--data`), joined by id.

    role                names of columns
    reference           label, answer, gold, target, ... (`data/labelled/roles.py`)
    prediction          prediction, predicted, pred, y_pred, ...
    probabilities       probabilities, probs, ..., or one column per answer: p_refund, prob.refund
    log_probabilities   logprobs, top_logprobs, ..., logprob_refund; logits likewise
    confidence          confidence, conf, ...: the probability of the prediction, without the others
    correct             correct, is_correct, ...: a check of every row
    options             options, choices, option1, ...; --options; the names of the numbers

All rows decide together what cells mean: a reading has to fit every row, the prediction has to be
the most probable answer, and `correct` has to agree. If two readings pass and differ, nothing is
guessed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from pact_eval._json import Json, dumps, loads
from pact_eval.data.labelled.answers import (
    FORMS,
    LETTER,
    POSITIONS,
    TEXT,
    Answers,
    Form,
    cell_text,
    distinct_labels,
    fold_label,
    is_unlabelled,
    two_readings,
)
from pact_eval.data.labelled.columns import (
    minus_one,
)
from pact_eval.data.labelled.draft import as_text
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.labelled.roles import (
    IGNORED,
    columns_option,
    fold_name,
)
from pact_eval.errors import Problem, ShapeError
from pact_eval.importing.references import References
from pact_eval.importing.source import Grouping, LogRow
from pact_eval.importing.table_options import TableOptions
from pact_eval.importing.table_rows import (
    SCORE_KINDS,
    Scores,
    TableRoles,
    TableRow,
    answer_cell,
    facts_of_record,
    parse_rows,
    record_answer,
    roles_of_predictions,
    stated_kind,
    unread_numbers,
)
from pact_eval.runs.predictions import SUM_TOLERANCE
from pact_eval.runs.rows import STATUSES

__all__ = ["Table", "read_table"]

_OWN_NAMES: Final = ("reference", "gold")
_NUMBERS: Final = ("view", "prompt_tokens", "answer_mass", "view_tv", "permutation_tv")
_VARIANTS: Final = ("base", "counterfactual")


@dataclass(frozen=True)
class Table:
    """A table that was read.

    Attributes:
        rows: its rows in our format, and what is wrong with others.
        remarks: what to know of the reading, one sentence each.
        block: what `run.json` keeps of it.
    """

    rows: Sequence[LogRow | Problem]
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
    roles = roles_of_predictions(entries, reading, source, references)
    rows, problems = parse_rows(entries, roles, references)
    problems = [*entries.problems, *problems]
    if problems:
        return Table(problems)
    labels = grouping or Grouping({})
    return _TableReader(entries, roles, rows, reading, source, references, labels).table()


@dataclass
class _Reading:
    """One reading of all rows that have a label.

    Attributes:
        forms: of the right answer and of the prediction; None without a column.
        references: index of the right answer of every row.
        predictions: that of the prediction; None without a column.
    """

    forms: tuple[Form | None, Form | None]
    references: Sequence[int]
    predictions: Sequence[int] | None

    def answers(self, rows: Sequence[TableRow]) -> list[set[int]]:
        """Return the answers of the model: the most probable ones, or the prediction."""
        if self.predictions is None:
            return [row.tops for row in rows]
        return [
            {prediction} if row.scores is None else row.tops
            for row, prediction in zip(rows, self.predictions, strict=True)
        ]

    def contradiction(self, rows: Sequence[TableRow], roles: TableRoles) -> str | None:
        """Return what a row says against this reading; None if nothing does."""
        for number, (row, answer) in enumerate(zip(rows, self.answers(rows), strict=True)):
            right = self.references[number]
            if self.predictions is not None and self.predictions[number] not in answer:
                column = roles.first("prediction")
                return (
                    f"{row.place}: {column} = {dumps(row.entry.value.get(str(column)))} is not the "
                    f"most probable answer ({', '.join(map(row.named, sorted(answer)))}). If it is "
                    f"no fact about these numbers: {columns_option(IGNORED, [str(column)])}"
                )
            if row.correct is not None and row.correct not in {right == top for top in answer}:
                column = roles.first("correct")
                return (
                    f"{row.place}: {column} = {dumps(row.entry.value.get(str(column)))}, but the "
                    f"answer is read as {', '.join(map(row.named, sorted(answer)))} and the right "
                    f"one as {row.named(right)}. If it is no fact about these answers: "
                    f"{columns_option(IGNORED, [str(column)])}"
                )
        return None


class _TableReader:
    """Steps from parsed rows to rows in our format."""

    def __init__(
        self,
        entries: Entries,
        roles: TableRoles,
        rows: Sequence[TableRow],
        reading: Reading,
        source: str,
        references: References | None,
        grouping: Grouping,
    ) -> None:
        self._entries = entries
        self._roles = roles
        self._reading = reading
        self._source = source
        self._references = references
        self._grouping = grouping
        self._remarks = [*entries.remarks]
        self._literal = self._from_0 = False
        self._reference = None if references is not None else roles.first("reference")
        self._prediction = roles.first("prediction")
        self._copies = [
            name for name in roles.columns.get("reference", ()) if name != self._reference
        ]
        self._settle_answer()
        self._outcomes = self._are_outcomes()
        if self._outcomes:
            self._forget_answers()
        self._check_roles()
        self._rows = self._labelled(rows)

    def table(self) -> Table:
        """Return the rows in our format."""
        options = TableOptions(
            *(self._entries, self._roles, self._rows, self._reading, self._source),
            *(self._references, self._reference, self._prediction),
        )
        problems = [] if self._outcomes else options.find()
        if problems:
            return Table(problems)
        self._remarks += options.remarks
        self._literal, self._from_0 = options.literal, options.from_0
        answered = [row for row in self._rows if self._has_answer(row)]
        chosen = self._choose(answered)
        self._check_copies(answered, chosen)
        predictions: Sequence[int | None] = chosen.predictions or [None] * len(answered)
        pairs = zip(answered, chosen.references, predictions, strict=True)
        indices = {id(row): (right, said) for row, right, said in pairs}
        made: list[LogRow | Problem] = []
        for row in self._rows:
            reference, prediction = indices.get(id(row), (None, None))
            try:
                values = self._values(row, reference, prediction)
                made.append(LogRow(row.entry.line, row.id, values, further=self._further(row)))
            except ValueError as error:
                made.append(Problem(row.entry.line, row.id, str(error), "values out of range"))
        return Table(made, (self._reading_remark(chosen), *self._remarks), self._block(chosen))

    def _reading_remark(self, chosen: _Reading) -> str:
        """Say which columns were read, and how the right answer names an option."""
        roles = {role: "+".join(names) for role, names in self._roles.columns.items()}
        roles |= {kind: "+".join(group) for kind, group in self._roles.groups.items()}
        for role, form in zip(("reference", "prediction"), chosen.forms, strict=True):
            if role in roles and form is not None:
                roles[role] += f" ({form})"
        return f"Columns: {', '.join(f'{role} = {names}' for role, names in roles.items())}."

    # Roles

    def _settle_answer(self) -> None:
        """Take a column "answer" as what a model said, if another column is the right answer.

        Raises:
            ShapeError: nothing decides which of the two it is.
        """
        answers = [name for name in self._copies if fold_name(name) == "answer"]
        if self._reference is not None and fold_name(self._reference) == "answer" and self._copies:
            if "reference" in self._roles.stated:
                return
            answers, self._copies = [self._reference], self._copies
            self._reference = next(n for n in self._copies if n not in answers)
            self._copies = [*answers, *(n for n in self._copies if n != self._reference)]
        if not answers or self._prediction is not None or self._same(answers[0]):
            return
        documented = self._reference is None or fold_name(self._reference) in _OWN_NAMES
        if self._roles.has_scores or documented:
            self._copies.remove(answers[0])
            self._prediction = answers[0]
            columns = {**self._roles.columns, "prediction": (answers[0],)}
            self._roles = replace(self._roles, columns=columns)
            return
        message = (
            f"{self._source}: {self._reference} or {answers[0]} can be the right answer, and the "
            f"other one that of the model. Decide with --columns reference={self._reference},"
            f"prediction={answers[0]} or --columns reference={answers[0]},prediction="
            f"{self._reference}"
        )
        raise ShapeError(message)

    def _same(self, column: str) -> bool:
        """Return whether a column says the same as the right answer in every row."""
        if self._reference is None:
            return self._roles.has_scores
        pairs = [
            (entry.value.get(self._reference), entry.value.get(column))
            for entry in self._entries.entries
        ]
        same = all(cell_text(a) == cell_text(b) for a, b in pairs)
        return same and (self._roles.has_scores or self._prediction is not None)

    def _are_outcomes(self) -> bool:
        """Return whether rows have a confidence and whether they are right, and no answers."""
        columns = self._roles.columns
        if self._roles.has_scores or not {"confidence", "correct"} <= columns.keys():
            return False
        known = self._references is not None or self._reference is not None
        if known or self._prediction is None:
            return self._prediction is None
        words = {
            fold_label(cell_text(e.value.get(self._prediction)) or "")
            for e in self._entries.entries
        }
        if words <= {"0", "1", "true", "false", ""}:
            column = columns["correct"][0]
            message = (
                f"{self._source}: {column} may say whether {self._prediction} is right, or be the "
                f"right answer. Decide with {columns_option('reference', [column])} or "
                f"{columns_option(IGNORED, [self._prediction])}"
            )
            raise ShapeError(message)
        return True

    def _forget_answers(self) -> None:
        """Take columns with the right answer or that of the model alone as further columns."""
        columns = {
            role: names
            for role, names in self._roles.columns.items()
            if role not in ("reference", "prediction", "options")
        }
        self._roles = replace(self._roles, columns=columns)
        self._reference, self._prediction, self._copies = None, None, []

    def _check_roles(self) -> None:
        """Check that there is a right answer, and something that a model said.

        Raises:
            ShapeError: there is none, or one column has both roles.
        """
        names = ", ".join(self._entries.columns) or "no columns"
        if self._outcomes:
            return
        if self._references is None and self._reference is None:
            message = (
                f"{self._source}: no column is known as the right answer; there are {names}. Name "
                "it: --columns reference=NAME, or give the file that has it: --data FILE"
                + _or_outcomes(self._roles)
            )
            raise ShapeError(message)
        known = self._roles.used | {
            name for names in self._reading.columns.values() for name in names
        }
        unread = [] if self._roles.has_scores else unread_numbers(self._entries, known)
        if unread:
            message = (
                f"{self._source}: {', '.join(unread)} look like numbers for the answers, and were "
                f"not read as such. Decide with {columns_option('probabilities', unread[:1])} or "
                f"{columns_option(IGNORED, unread)}"
            )
            raise ShapeError(message)
        if not self._roles.has_scores and self._prediction is None:
            message = (
                f"{self._source}: no column is known as what a model said; there are {names}. Name "
                "it: --columns probabilities=NAME or --columns prediction=NAME"
                + _or_outcomes(self._roles)
            )
            raise ShapeError(message)
        self._check_predictions()
        kinds = [name for kind in SCORE_KINDS for name in self._roles.columns.get(kind, ())]
        kinds += [next(iter(group)) for group in self._roles.groups.values()]
        if len(kinds) > 1:
            either = " or ".join(columns_option(IGNORED, [name]) for name in kinds)
            message = (
                f"{self._source}: {' and '.join(kinds)} all have numbers for the answers; leave "
                f"all but one out: {either}"
            )
            raise ShapeError(message)

    def _check_predictions(self) -> None:
        """Check that columns with the name of a prediction say the same.

        Raises:
            ShapeError: one differs.
        """
        first, *others = self._roles.columns.get("prediction", ("",))
        for other in others:
            for entry in self._entries.entries:
                a, b = entry.value.get(first), entry.value.get(other)
                if fold_label(cell_text(a) or "") != fold_label(cell_text(b) or ""):
                    message = (
                        f"{self._source}: {first} and {other} both fit the prediction and differ: "
                        f"line {entry.line} has {dumps(a)} and {dumps(b)}. Decide with "
                        f"{columns_option('prediction', [first])} or "
                        f"{columns_option('prediction', [other])}"
                    )
                    raise ShapeError(message)

    def _labelled(self, rows: Sequence[TableRow]) -> list[TableRow]:
        """Return the rows that have a right answer, and say how many have none."""
        if self._reference is None:
            return [*rows]
        column = self._reference
        cells = [row.entry.value.get(column) for row in rows]
        missing = self._missing_labels(cells, column, rows)
        labelled = [
            row
            for row, cell in zip(rows, cells, strict=True)
            if not is_unlabelled(cell) and cell_text(cell) not in missing
        ]
        left_out = len(rows) - len(labelled)
        if left_out:
            self._remarks.append(f"Left out: {left_out:,} rows without a label ({column}).")
        return labelled

    def _missing_labels(
        self, cells: Sequence[Json], column: str, rows: Sequence[TableRow]
    ) -> frozenset[str]:
        """Return "-1" if it says that there is no label.

        Raises:
            ShapeError: it may also be one of the answers, or a dash is.
        """
        labels, _ = distinct_labels(cells)
        scores = [row.scores for row in rows if row.scores is not None]
        named = {fold_label(name) for each in scores for name in each.names or ()}
        named |= {fold_label(option) for option in self._reading.options}
        if "-" in named:
            message = (
                f'{self._source}: "-" is one of the answers, and also says that there is none in '
                f"{column}; write it as a word"
            )
            raise ShapeError(message)
        if "-1" not in labels or "-1" in named:
            return frozenset()
        counts = {len(each.numbers) for each in scores if each.names is None}
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

    def _has_answer(self, row: TableRow) -> bool:
        if row.scores is not None:
            return True
        if self._outcomes:
            return row.confidence is not None or row.correct is not None
        cell = None if self._prediction is None else row.entry.value.get(self._prediction)
        return not is_unlabelled(cell)

    # Answers

    def _choose(self, rows: Sequence[TableRow]) -> _Reading:
        """Return the only reading of right answers and predictions that every row allows.

        Raises:
            ShapeError: two of them pass and differ, or a check contradicts each.
        """
        if self._outcomes:
            return _Reading((None, None), [0] * len(rows), None)
        references = self._readings(rows, self._reference)
        predictions = self._readings(rows, self._prediction)
        pairs = [
            _Reading((a, b), right, said if self._prediction is not None else None)
            for a, right in references.items()
            for b, said in predictions.items()
        ]
        # One file counts one way.
        equal = [pair for pair in pairs if {*pair.forms} != {*POSITIONS}]
        against = {id(pair): pair.contradiction(rows, self._roles) for pair in pairs}
        for tried in (equal, pairs):
            passing = [pair for pair in tried if against[id(pair)] is None]
            if passing:
                self._ask(rows, passing)
                return passing[0]
        raise ShapeError(f"{self._source}: {against[id((equal or pairs)[0])]}")

    def _ask(self, rows: Sequence[TableRow], passing: Sequence[_Reading]) -> None:
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
            cells = [answer_cell(row, column) for row in rows]
            answers = Answers(
                str(column), cells, [row.options for row in rows], [row.place for row in rows]
            )
            values = [(r.references, r.predictions or ())[number] for r in (first, other)]
            raise two_readings(
                self._source,
                answers,
                (str(first.forms[number]), values[0]),
                (str(other.forms[number]), values[1]),
            )

    def _readings(
        self, rows: Sequence[TableRow], column: str | None
    ) -> dict[Form | None, list[int]]:
        """Return the readings of a column that fit every row; those of the data without one.

        Raises:
            ShapeError: none does.
        """
        if column is None:
            indices = [row.options.index(record_answer(row), TEXT) for row in rows]
            return {None: [index for index in indices if index is not None]}
        cells = [answer_cell(row, column) for row in rows]
        options = [row.options for row in rows]
        answers = Answers(column, cells, options, [row.place for row in rows])
        readings = dict[Form | None, list[int]](answers.readings())
        stated = answers.readings(self._reading.form) if self._reading.form else {}
        if stated:
            return dict[Form | None, list[int]](stated.items())
        if self._literal and TEXT in readings:
            return {TEXT: readings[TEXT]}
        if self._from_0 and POSITIONS[0] in readings:
            return {POSITIONS[0]: readings[POSITIONS[0]]}
        if self._roles.form in readings and column == self._reference:
            return {self._roles.form: readings[self._roles.form]}
        named = any(option.named for option in options) and TEXT not in readings
        if named and LETTER in readings:
            return {LETTER: readings[LETTER]}
        if readings:
            return dict[Form | None, list[int]](readings.items())
        read = answers.read(answers.likeliest())
        row = rows[read.index(None)]
        wrong = sum(index is None for index in read)
        names = ", ".join(map(dumps, row.options.texts[:8])) or f"{len(row.options)} positions"
        role = "reference" if column == self._reference else "prediction"
        remedy = f"Correct the column, or name another one: {columns_option(role, ['NAME'])}"
        if not row.options.ordered or not row.options.texts:
            texts = row.options.texts or ("FIRST", "SECOND")
            listed = shlex.quote(",".join(texts))
            remedy = f"If these are positions or letters, give the order: --options {listed}"
        message = (
            f"{self._source}: {row.place}: {column} = {dumps(row.entry.value.get(column))} names "
            f"none of the answers ({names}), and so in {wrong:,} of {len(rows):,} rows. {remedy}"
        )
        raise ShapeError(message)

    def _check_copies(self, rows: Sequence[TableRow], chosen: _Reading) -> None:
        """Check that further columns with the right answer agree with the one that is read.

        Raises:
            ShapeError: one differs.
        """
        if "reference" in self._roles.stated and self._references is None:
            return
        for column in self._copies:
            pairs = [
                (row, index)
                for row, index in zip(rows, chosen.references, strict=True)
                if not is_unlabelled(row.entry.value.get(column))
            ]
            differing = self._first_difference(column, pairs)
            if differing is None:
                continue
            row, index = differing
            ours = self._reference if self._references is None else self._references.path
            role = "reference" if self._references is None else IGNORED
            decides = [columns_option(role, [column])]
            if self._references is None:
                decides.append(columns_option(role, [str(self._reference)]))
            message = (
                f"{self._source}: two right answers differ: {row.place} has {column} = "
                f"{dumps(row.entry.value.get(column))}, and {ours} has {row.named(index)}. Decide "
                f"with {' or '.join(decides)}"
            )
            raise ShapeError(message)

    def _first_difference(
        self, column: str, pairs: Sequence[tuple[TableRow, int]]
    ) -> tuple[TableRow, int] | None:
        """Return the first row in which a copy differs under its best reading; None if none does.

        Words of another language than the options' are a copy if they stand for them one to one.
        """
        cells = [answer_cell(row, column) for row, _ in pairs]
        ours = [index for _, index in pairs]
        answers = Answers(column, cells, [row.options for row, _ in pairs])
        readings = [answers.read(form) for form in FORMS]
        if not pairs or ours in readings:
            return None
        if self._references is None and "options" not in self._roles.columns:
            there = dict(zip(map(dumps, cells), ours, strict=True))
            back = dict(zip(ours, map(dumps, cells), strict=True))
            one_to_one = all(
                there[dumps(cell)] == index and back[index] == dumps(cell)
                for cell, index in zip(cells, ours, strict=True)
            )
            if one_to_one and all(None in reading for reading in readings):
                return None
        best = max(readings, key=lambda read: sum(map(int.__eq__, ours, map(_or_none, read))))
        return next(pair for pair, index in zip(pairs, best, strict=True) if pair[1] != index)

    # Rows of our format

    def _values(
        self, row: TableRow, reference: int | None, prediction: int | None
    ) -> dict[str, Json]:
        """Return a row in our format.

        Raises:
            ValueError: a number is out of its range.
        """
        values: dict[str, Json] = {"id": row.id, **self._facts(row)}
        values |= self._grouping.of_entry(row.entry.value)
        count = len(row.options)
        if reference is None:
            cell = answer_cell(row, self._reference) if self._reference else record_answer(row)
            indices = [row.options.index(cell, form) for form in row.options.forms]
            reference = next((index for index in indices if index is not None), None)
        values |= {"reference": reference, "n_choices": count}
        if self._outcomes:
            values |= {"reference": 0, "n_choices": 2, "code_order": [], "kind": "choice"}
        if not self._has_answer(row):
            return values | {"status": "missing", "reason": "no answer in the table"}
        if row.correct is not None and len(row.tops) < 2:
            values["correct"] = row.correct
        if row.scores is None:
            return values | self._confidence(row, prediction)
        # Of answers that tie, the prediction is the answer.
        named = {} if prediction is None else {"answer": prediction}
        return values | named | self._numbers(row, row.scores)

    def _confidence(self, row: TableRow, prediction: int | None) -> dict[str, Json]:
        """Return the answer of a row, its probability, or both.

        Raises:
            ValueError: one of two is missing.
        """
        column = self._roles.first("confidence")
        if column is None:
            return {"answer": prediction}
        if row.confidence is None:
            raise ValueError(f"{column}: expected a number, got none; fill the cell in")
        if self._outcomes and row.correct is None:
            column = self._roles.first("correct")
            raise ValueError(f"{column}: expected true or false, got none; fill the cell in")
        answer: dict[str, Json] = {} if self._outcomes else {"answer": prediction}
        return {"confidence": row.confidence, **answer}

    def _numbers(self, row: TableRow, scores: Scores) -> dict[str, Json]:
        """Return the numbers of a row as columns of our format.

        Raises:
            ValueError: log-probabilities are above 0, or sum to more than 1.
        """
        kind, vector = scores.kind, row.vector
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

    def _facts(self, row: TableRow) -> dict[str, Json]:
        """Return the columns of an item and of a view that the row or its record has."""
        cell, roles = row.entry.value, self._roles
        facts: dict[str, Json] = {}
        if row.record is not None:
            facts |= facts_of_record(row.record)
        for label in ("family", "source_family", "domain", "variant"):
            column = roles.first(label)
            text = None if column is None else as_text(cell.get(column))
            if text is not None and (label != "variant" or text in _VARIANTS):
                facts[label] = text
        kind = "score" if self._reading.levels else stated_kind(row, roles)
        if kind is None and row.record is None and row.options.texts == ("false", "true"):
            kind = "boolean"
        facts |= {} if kind is None else {"kind": kind}
        facts["code_order"] = []  # which letters a prompt showed is not known
        for name in (*_NUMBERS, "code_order"):
            if cell.get(name) not in (None, ""):
                facts[name] = _number_or_list(cell[name], name)
        if str(cell.get("status")) in STATUSES and not self._has_answer(row):
            facts |= {"status": cell["status"], "reason": cell.get("reason")}
        return facts

    def _further(self, row: TableRow) -> dict[str, Json]:
        used = self._roles.used | {*_NUMBERS, "code_order"}
        return {name: value for name, value in row.entry.value.items() if name not in used}

    def _block(self, chosen: _Reading) -> dict[str, Json]:
        """Return how the table was read, for `run.json`."""
        columns: dict[str, Json] = {r: [*names] for r, names in self._roles.columns.items()}
        columns |= {kind: [*group] for kind, group in self._roles.groups.items()}
        block: dict[str, Json] = {"columns": columns}
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


def _or_outcomes(roles: TableRoles) -> str:
    """Return the remedy for a table that has a confidence, or whether the answers are right."""
    named = {role: roles.first(role) or "NAME" for role in ("confidence", "correct")}
    if roles.has_scores or {*named.values()} == {"NAME"}:
        return ""
    stated = ",".join(f"{role}={name}" for role, name in named.items())
    return f". If it only says whether each answer is right: --columns {stated}"


def _or_none(index: int | None) -> int:
    return -1 if index is None else index


def _number_or_list(cell: Json, name: str) -> Json:
    if not isinstance(cell, str):
        return cell
    try:
        return loads(cell)
    except ValueError:
        raise ValueError(f"{name}: expected a number or a list, got {cell!r:.40}") from None
