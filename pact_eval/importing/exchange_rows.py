"""Logs of requests and replies as rows: one per question of every request.

A format is a subclass of `ExchangeSource`: its title, the keys of its entries, and what its keys
mean if they differ from `exchanges.py`. Every row is made in the same way:

- Its id is the one that the log gives, or a hash of what was asked about, and the question.
- Items about one state belong together.
- A question that is asked again, in any order of its options, is a further view of its item.
- Answers of several models, of two prompts under one name, and times of two clocks are refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import (
    FORMS,
    POSITIONS,
    TEXT,
    Form,
    cell_text,
    distinct_labels,
    is_unlabelled,
)
from pact_eval.data.labelled.entries import Entries, read_entries
from pact_eval.errors import InputError, Problem, ShapeError, counted
from pact_eval.importing.exchanges import (
    FACTS,
    Exchange,
    asks_nothing,
    clocks,
    content_id,
    first_of,
    pair,
    several_models,
)
from pact_eval.importing.labels_file import LABELS, NO_LABELS, LabelsFile, read_labels
from pact_eval.importing.source import ImportOptions, Log, LogFacts, LogRow, Source, Start
from pact_eval.importing.wire import Asked, Said, asked_by, asked_of, read_answer

_STATES: Final = ("state", "input", "state_sha256", "state_hash", "messages")
_SUM_TOLERANCE: Final = 0.01
_MOST_PROMPTS: Final = 20
_MOST_NAMED: Final = 5


def first_entries(start: Start) -> list[dict[str, Json]]:
    """Return the first objects of a file of JSON, as far as its beginning has them whole."""
    text = start.content.decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n[")
    decoder, found = json.JSONDecoder(), list[dict[str, Json]]()
    while text.startswith("{"):
        try:
            value, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            break
        found.append(value)
        text = text[end:].lstrip(" \t\r\n,")
    return found


def has_keys(start: Start, keys: Sequence[str]) -> bool:
    """Return whether the first object of a file has these keys."""
    entries = first_entries(start)
    if entries:
        return all(key in entries[0] for key in keys)
    text = start.content  # an object that is longer than what was read
    return all(re.search(rb'"%s"\s*:' % key.encode(), text) for key in keys)


@dataclass
class _Item:
    """One question of one exchange.

    Attributes:
        exchange: the request and its reply.
        name: of the question; "" if it has none.
        asked: the question.
        said: the answer.
        request: id of the request: that of the log, or a hash of what was asked about.
        ids: what a file of right answers may call it.
        hashed: whether that is the hash.
        state: hash of what was asked about; "" if the log does not say.
        id, view: of its row.
        label: the right answer as written, and its index; None without one.
    """

    exchange: Exchange
    name: str
    asked: Asked
    said: Said
    request: str = ""
    ids: tuple[str, ...] = ()
    hashed: bool = False
    state: str = ""
    id: str = ""
    view: int = 0
    label: Json = None
    reference: Json = None

    @property
    def line(self) -> int:
        """The line of its reply."""
        return self.exchange.line


class ExchangeSource(Source):
    """A format of logs of requests and replies.

    Attributes:
        keys: of its entries, which no other format has together.
        id_keys: of an entry that name its item; the last has to be there.
        question_key: of an entry that names its only question; "" if a request names them.
        alone: whether entries have no request.
        last_counts: whether an item that is recorded again replaces the first.
        levels: how its right answers name the level of a score; None if rows decide.
    """

    joins = True
    keys: ClassVar[tuple[str, ...]]
    id_keys: ClassVar[tuple[str, ...]] = ("id",)
    question_key: ClassVar[str] = ""
    alone: ClassVar[bool] = False
    last_counts: ClassVar[bool] = False
    levels: ClassVar[Form | None] = None

    def recognises(self, start: Start) -> bool:
        """A file whose first object has the keys of the format."""
        return not start.path.is_dir() and has_keys(start, self.keys)

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a log.

        Raises:
            InputError: it cannot be read.
            ShapeError: it has answers of several models, or no right answers.
        """
        if path.is_dir():
            raise InputError(f"{path}: expected a file, got a folder; name a file in it")
        reader = _Reader(self, path, options)
        rows = reader.rows()
        files = (path,) if options.data is None else (path, options.data)
        return Log(iter(rows), files, reader.facts, _SUM_TOLERANCE)

    def exchanges(self, entries: Entries) -> tuple[list[Exchange], list[Problem]]:
        """Return the exchanges of the entries, and what is wrong with others."""
        if self.alone:
            return [
                Exchange(entry.line, entry.value, {}, entry.value) for entry in entries.entries
            ], []
        return pair(entries.entries)

    def questions(self, exchange: Exchange, options: ImportOptions) -> dict[str, Asked | None]:
        """Return the questions of an exchange by name; None for one that only its answer tells.

        Args:
            exchange: the request and its reply.
            options: of the user.

        Raises:
            ValueError: a question is malformed.
        """
        del options
        if self.question_key:
            name = cell_text(exchange.entry.get(self.question_key)) or ""
            definition = exchange.entry.get("question")
            return {name: asked_of(definition) if isinstance(definition, dict) else None}
        asked = exchange.request.get("questions")
        named = _by_name(asked)
        if not named:
            return dict.fromkeys(_by_name(exchange.get("answers")), None)
        return {name: asked_of(definition) for name, definition in named.items()}

    def answers(self, exchange: Exchange, names: Sequence[str]) -> dict[str, Json]:
        """Return the answers of an exchange by the name of the question.

        Raises:
            ValueError: an answer is to a question that was not asked.
        """
        if self.question_key:
            whole = "answer" not in exchange.entry
            return {names[0]: {**exchange.entry} if whole else exchange.entry["answer"]}
        answers = _by_name(exchange.get("answers"), names)
        others = [name for name in answers if name not in names]
        if others:
            raise ValueError(f"answers: nobody asked {', '.join(others)[:80]}")
        return answers

    def samples(self, exchange: Exchange) -> list[Exchange]:
        """Return an exchange for each answer to its request, if one reply may have several."""
        return [exchange]

    def state(self, exchange: Exchange) -> Json:
        """Return what was asked about; None if the log does not say."""
        return exchange.get(*_STATES)

    def wording(self, exchange: Exchange) -> str:
        """Return the hash of the prompt of an exchange, if questions have none of their own."""
        del exchange
        return ""

    def asked_by(self, answers: Sequence[Json], labels: Sequence[str]) -> Asked | None:
        """Return the question that answers or right answers tell, without a request."""
        del labels
        return asked_by(answers)

    def said(self, answer: Json, asked: Asked) -> Said:
        """Read one answer.

        Raises:
            ValueError: it is malformed.
        """
        return read_answer(answer, asked)


def _by_name(values: Json, names: Sequence[str] = ()) -> dict[str, Json]:
    """Return questions or answers by name; those of a list without a name by their place.

    Raises:
        ValueError: two have one name.
    """
    if isinstance(values, dict):
        return values
    named: dict[str, Json] = {}
    for place, value in enumerate(values if isinstance(values, list) else ()):
        given = (
            first_of(value.get(key) for key in ("name", "id")) if isinstance(value, dict) else None
        )
        name = cell_text(given) or (names[place] if place < len(names) else str(place + 1))
        if name in named:
            raise ValueError(f"two questions or answers are called {name}")
        named[name] = value
    return named


class _Reader:
    """Steps from the entries of a log to rows."""

    def __init__(self, source: ExchangeSource, path: Path, options: ImportOptions) -> None:
        self._source = source
        self._path = path
        self._options = options
        self._remarks: list[str] = []
        self._block: dict[str, Json] = {}
        self._labels: LabelsFile | None = None
        self._model: str | None = None
        self._unlabelled = options.reading.unlabelled

    def rows(self) -> list[LogRow | Problem]:
        """Return the rows of the log, and what is wrong with it.

        Raises:
            ShapeError: an option has to decide.
        """
        entries = self._asking(read_entries(self._path))
        exchanges, problems = self._source.exchanges(entries)
        problems = [*entries.problems, *problems]
        exchanges = self._of_one_model(exchanges)
        if self._unlabelled:
            exchanges = [one for exchange in exchanges for one in self._source.samples(exchange)]
        problems += clocks(exchanges)
        items, others = self._items(exchanges)
        problems += others
        if not problems:
            problems += self._name(items)
        if problems or not items:
            return [*problems]
        if self._source.last_counts or not self._unlabelled:  # there, views are repeats
            items = self._views(items)
        self._count(exchanges, items)
        items, others = self._with_labels(items)
        return [*others] or [
            self._row(item, families) for families in [_families(items)] for item in items
        ]

    def _asking(self, entries: Entries) -> Entries:
        """Return the entries that ask something, and say how many do not."""
        if self._source.alone:
            return entries
        kept = [entry for entry in entries.entries if not asks_nothing(entry)]
        left_out = len(entries.entries) - len(kept)
        if left_out:
            what = counted(left_out, "failed request")
            self._remarks.append(f"Left out: {what} without a question.")
        return replace(entries, entries=kept)

    def facts(self) -> LogFacts:
        """Return the model, the questions, and what was left out."""
        remarks = (*self._remarks, *(() if self._labels is None else self._labels.remarks))
        return LogFacts(self._block, self._model, remarks)

    def _of_one_model(self, exchanges: Sequence[Exchange]) -> list[Exchange]:
        """Return the exchanges of the model that the user names, or of the only one.

        Raises:
            ShapeError: there are several, or none of that name.
        """
        lines: dict[str, list[int]] = defaultdict(list)
        models = [each.served if self._unlabelled else each.model for each in exchanges]
        for exchange, model in zip(exchanges, models, strict=True):
            if model is not None and exchange.reply and exchange.error is None:
                lines[model].append(exchange.line)
        chosen = self._options.filter
        if self._unlabelled and len(lines) < 2:  # the other log has several
            chosen = None
        if chosen in lines or (len(lines) < 2 and chosen is None):
            self._model = chosen or next(iter(lines), None)
            pairs = zip(exchanges, models, strict=True)
            return [each for each, model in pairs if chosen is None or model in (None, chosen)]
        raise several_models(str(self._path), lines, chosen)

    # Questions and answers

    def _items(self, exchanges: Sequence[Exchange]) -> tuple[list[_Item], list[Problem]]:
        asked: list[dict[str, Asked | None]] = []
        answers: list[dict[str, Json]] = []
        problems: list[Problem] = []
        for exchange in exchanges:
            try:
                asked.append(self._source.questions(exchange, self._options))
                answers.append(
                    self._source.answers(exchange, [*asked[-1]]) if exchange.reply else {}
                )
            except ValueError as error:
                problems.append(Problem(exchange.line, None, str(error)))
        if problems:
            return [], problems
        names = {name for questions in asked for name in questions}
        if self._options.data is not None:
            self._labels = read_labels(self._options.data, self._options.reading, names)
            self._block["labels"] = self._options.data.name
        known = self._known(asked, answers, exchanges)
        items: list[_Item] = []
        for exchange, questions, said in zip(exchanges, asked, answers, strict=True):
            for name, question in (questions or dict.fromkeys(known, None)).items():
                try:
                    items.append(self._item(exchange, name, question or known.get(name), said))
                except ValueError as error:
                    problems.append(Problem(exchange.line, name or None, str(error)))
        return items, problems

    def _known(
        self,
        asked: Sequence[Mapping[str, Asked | None]],
        answers: Sequence[Mapping[str, Json]],
        exchanges: Sequence[Exchange],
    ) -> dict[str, Asked]:
        """Return the questions by name: as first asked, or as answers and right answers tell.

        Raises:
            ShapeError: nothing tells the options, and an option of the user would.
        """
        cells = [_logged_label(exchange.entry) for exchange in exchanges]
        cells += [] if self._labels is None else [x.cell for x in self._labels.labels.values()]
        labels, _ = distinct_labels(cells)
        known: dict[str, Asked] = {}
        for name in dict.fromkeys(name for questions in asked for name in questions):
            question = next((q[name] for q in asked if q.get(name) is not None), None)
            if question is None:
                said = [answer[name] for answer in answers if name in answer]
                try:
                    question = self._source.asked_by(said, labels)
                except ValueError as error:
                    raise ShapeError(f"{self._path}: {error}") from None
            if question is not None:
                known[name] = question
        return known

    def _item(
        self, exchange: Exchange, name: str, asked: Asked | None, answers: Mapping[str, Json]
    ) -> _Item:
        if asked is None:
            raise ValueError(
                f"nothing tells the options of question {name}: no request, no probabilities"
            )
        if exchange.error is not None:
            said = Said(status="failed", reason=exchange.error)
        elif not exchange.reply:
            said = Said(status="missing", reason="the log has no reply to the request")
        elif answers.get(name) is None:
            said = Said(
                status="missing", reason=f"the reply on line {exchange.line} has no answer to it"
            )
        else:
            said = self._source.said(answers[name], asked)
        wording = self._source.wording(exchange) or asked.wording
        return _Item(exchange, name, replace(asked, wording=wording), said)

    # Ids and views

    def _name(self, items: Sequence[_Item]) -> list[Problem]:
        """Name the items; return what is wrong with ids and prompts."""
        wordings: dict[str, dict[str, int]] = defaultdict(dict)
        for item in items:
            wordings[item.name].setdefault(item.asked.wording, item.line)
        counts = Counter(item.name for item in items)
        own = {n for n, texts in wordings.items() if len(texts) > 1 and counts[n] < 2 * len(texts)}
        problems = []
        for item in items:
            state = self._source.state(item.exchange)
            logged = item.exchange.name_by(self._source.id_keys)
            given = cell_text(item.exchange.entry.get(self._source.id_keys[-1]))
            item.state = "" if state is None else content_id(state)
            about = content_id([state, item.asked.wording]) if item.name in own else item.state
            item.hashed = logged is None and state is not None
            item.request = about if item.hashed else logged or given or ""
            item.id = "/".join(filter(None, (item.request, item.name)))
            item.ids = tuple(filter(None, (item.id, item.request, given, item.state)))
            if not item.request:
                message = "no id and no state: nothing says which item this is"
                problems.append(Problem(item.line, None, message))
        self._say_prompts({name: texts for name, texts in wordings.items() if name not in own})
        return problems or self._two_prompts(items, own)

    def _two_prompts(self, items: Sequence[_Item], own: set[str]) -> list[Problem]:
        """Return the items that were asked under two texts of one question."""
        first: dict[tuple[str, str], _Item] = {}
        problems = []
        for item in items:
            earlier = first.setdefault((item.state or item.request, item.name), item)
            if earlier.asked.wording == item.asked.wording or item.name in own:
                continue
            message = (
                f"question {item.name} has one text here and another on line {earlier.line}, about "
                "one state: two prompts under one name; give each a log, or a name"
            )
            problems.append(Problem(item.line, item.id, message, "two prompts"))
        return problems

    def _say_prompts(self, wordings: Mapping[str, Mapping[str, int]]) -> None:
        self._prompts = {
            name: {wording: number for number, wording in enumerate(texts, 1)}
            for name, texts in wordings.items()
            if 1 < len(texts) <= _MOST_PROMPTS
        }
        for name, texts in wordings.items():
            if len(texts) > 1:
                lines = ", ".join(map(str, [*texts.values()][:_MOST_NAMED]))
                self._remarks.append(
                    f"Question {name} has {len(texts):,} texts under one name (first on lines "
                    f"{lines}); --by prompt divides by them."
                )

    def _views(self, items: Sequence[_Item]) -> list[_Item]:
        """Return the items with the views of each numbered."""
        groups: dict[str, list[_Item]] = defaultdict(list)
        for item in items:
            groups[item.id].append(item)
        repeated = len(items) - len(groups)
        if self._source.last_counts:
            if repeated:
                self._remarks.append(
                    f"Left out: {counted(repeated, 'answer')} that a later line replaces."
                )
                self._block["repeated_lines"] = repeated
            return [group[-1] for group in groups.values()]
        sizes = {len(group) for group in groups.values()}
        for group in groups.values():
            for number, item in enumerate(group):
                if len(sizes) == 1:
                    item.view = number
                elif number and item.hashed:  # asked again: an item of its own
                    item.id = f"{item.id}-{number + 1}"
        return [*items]

    # Right answers

    def _with_labels(self, items: Sequence[_Item]) -> tuple[list[_Item], list[Problem]]:
        """Return the items that have a right answer, with its index.

        Raises:
            ShapeError: no item has one, or two readings of a level fit.
        """
        problems = []
        for item in items:
            logged = self._logged(item)
            file = self._labels
            given = None if file is None else file.of(item.ids, item.name)
            item.label = logged if given is None else given.cell
            if file is None or given is None or logged is None:
                continue
            if item.asked.index(logged) != item.asked.index(given.cell):
                other = f"{dumps(given.cell)} on line {given.line} of {file.path}"
                message = f"right answer {dumps(logged)} here, {other}"
                problems.append(Problem(item.line, item.id, message))
        labelled = [item for item in items if item.label is not None]
        if self._unlabelled:
            self._block["labelled"] = len(labelled)
            return [*items], []
        if not labelled:
            raise ShapeError(self._no_labels(items))
        if len(labelled) < len(items):
            left_out = len(items) - len(labelled)
            self._remarks.append(f"Left out: {counted(left_out, 'answer')} without a right answer.")
            self._block["incomplete"] = {"read": len(labelled), "of": len(items)}
        return labelled, problems or self._read_labels(labelled)

    def _logged(self, item: _Item) -> Json:
        """Return the right answer in the log; None without one."""
        value = _logged_label(item.exchange.entry)
        if isinstance(value, dict):
            value = value.get(item.name)
        if (
            value is None
            and item.exchange.get("outcome_correct") is True
            and item.said.answer is not None
        ):
            return item.asked.options[item.said.answer]
        return None if is_unlabelled(value) else value

    def _no_labels(self, items: Sequence[_Item]) -> str:
        names = [*dict.fromkeys(item.name for item in items if item.name)]
        listed = f" to {', '.join(names[:_MOST_NAMED])}" if names else ""
        column = ", question" if len(names) > 1 else ""
        return (
            f"{self._path}: {len(items):,} answers{listed} were read, of "
            f"{self._model or 'an unknown model'}, and none has a right answer. Give a file that "
            f"has them, with columns id{column} and label: --data FILE. Ids are such as "
            f"{items[0].request}. {NO_LABELS}"
        )

    def _read_labels(self, items: Sequence[_Item]) -> list[Problem]:
        """Read the right answers of all items; return those that are not an option.

        Raises:
            ShapeError: two readings of the levels fit and differ.
        """
        form = self._form_of_levels([item for item in items if item.asked.kind == "score"])
        problems = []
        for item in items:
            cells = item.label if isinstance(item.label, list) else [item.label]
            indices = [_index(item.asked, cell, form) for cell in cells]
            if None in indices or not indices:
                options = ", ".join(item.asked.texts or item.asked.options)[:80]
                message = f"right answer: expected one of {options}, got {dumps(item.label)[:60]}"
                problems.append(
                    Problem(item.line, item.id, message, "right answers that are no option")
                )
            item.reference = indices[0] if len(indices) == 1 else [*indices]
        return problems

    def _form_of_levels(self, items: Sequence[_Item]) -> Form:
        """Return how right answers name the level of a score.

        Raises:
            ShapeError: they may be positions from 0, or texts, and that makes a difference.
        """
        if self._options.reading.form is not None:
            return self._options.reading.form
        readings = {
            form: [_index(item.asked, item.label, form) for item in items]
            for form in (POSITIONS[0], TEXT)
        }
        fitting = {form: found for form, found in readings.items() if None not in found}
        if self._source.levels in fitting:
            return self._source.levels
        if len(fitting) < 2 or fitting[TEXT] == fitting[POSITIONS[0]]:
            return next(iter(fitting), TEXT)
        at = next(
            n for n, item in enumerate(items) if readings[TEXT][n] != readings[POSITIONS[0]][n]
        )
        raise ShapeError(
            f"{self._path}: right answer {dumps(items[at].label)} (line {items[at].line}) is the "
            "level of that text, or a position counted from 0. Decide with "
            f"{FORMS[TEXT]} or {FORMS[POSITIONS[0]]}"
        )

    # Rows

    def _row(self, item: _Item, families: Mapping[str, str]) -> LogRow | Problem:
        said, asked = item.said, item.asked
        row: dict[str, Json] = {
            "id": item.id,
            "family": families.get(item.state, item.request),
            "kind": asked.kind,
            "reference": item.reference,
            "n_choices": len(asked.options),
            "view": item.view,
            "code_order": [*asked.shown],
        }
        domain = cell_text(item.exchange.entry.get("dataset"))
        row |= {} if domain is None else {"domain": domain}
        row |= {**said.row(), "correct": item.exchange.get("outcome_correct")}
        try:
            row |= self._options.grouping.of_entry(item.exchange.entry)
            facts = item.exchange.facts()
        except ValueError as error:
            return Problem(item.line, item.id, str(error))
        prompt = self._prompts.get(item.name, {}).get(item.asked.wording)
        further = {"question": item.name or None, "prompt": prompt, **facts}
        kept = {name: value for name, value in further.items() if value is not None}
        return LogRow(
            *(item.line, item.id, row),
            further=kept,
            options=asked.texts or asked.options,
            wording=asked.wording,
            state=item.state,
        )

    def _count(self, exchanges: Sequence[Exchange], items: Sequence[_Item]) -> None:
        """Count questions, requests, tokens and price, for `run.json`; say what has no answer."""
        questions = Counter(item.name for item in items if item.name)
        self._block |= {"tasks": [*questions], "questions": dict(questions), **_options(items)}
        calls = {cell_text(e.entry.get("call")) or str(e.line): e for e in exchanges}
        self._block["requests"] = len(calls)
        for name in ("input_tokens", "output_tokens", "price"):
            values = [exchange.get(*FACTS[name]) for exchange in calls.values()]
            numbers = [value for value in values if isinstance(value, int | float)]
            if numbers:
                self._block[name] = sum(numbers)
        missing = [item.line for item in items if item.said.status is not None]
        if missing:
            lines = [*dict.fromkeys(missing)]
            listed = ", ".join(map(str, lines[:_MOST_NAMED]))
            more = f" and {len(lines) - _MOST_NAMED:,} more" if len(lines) > _MOST_NAMED else ""
            self._remarks.append(
                f"Without an answer: {counted(len(missing), 'question')} (lines {listed}{more})."
            )


def _options(items: Sequence[_Item]) -> dict[str, Json]:
    """Return the answers of the only question, or by question, of those that keep their answers."""
    asked: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for item in items:
        asked[item.name].add(item.asked.options)
    constant: dict[str, Json] = {
        name: [*min(found)] for name, found in asked.items() if len(found) == 1
    }
    if not constant:
        return {}
    return {"options": constant if len(asked) > 1 else next(iter(constant.values()))}


def _logged_label(entry: Mapping[str, Json]) -> Json:
    return first_of(entry.get(key) for key in LABELS if key != "answer")


def _families(items: Sequence[_Item]) -> dict[str, str]:
    """Return the family of every state: the first request about it; none if all have one state."""
    first: dict[str, str] = {}
    for item in items:
        if item.state:
            first.setdefault(item.state, item.request)
    return first if len(first) > 1 else {}


def _index(asked: Asked, cell: Json, form: Form) -> int | None:
    """Return the option that a right answer names; of a score, under a form."""
    if asked.kind != "score":
        return asked.index(cell)
    if form == TEXT and asked.texts:
        return asked.level(cell)
    text = cell_text(cell) or ""
    number = int(text) - int(form == POSITIONS[1]) if text.isascii() and text.isdigit() else -1
    return number if 0 <= number < len(asked.options) else None
