"""The one reader of labelled data: from a file of a known shape to records of the full format.

    read_labelled(path, reading)    a labelled file -> `LabelledData`, or all of its problems
    is_labelled(path, reading)      whether a file needs this, or is in the full format already
    read_dataset_records(path)      records of either

`score`, `import --data` and `pact-audit data`, `split` and `convert` read with it. A file in the
full format is read as before, line by line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from pact_eval._files import read_json, sha256_of_file
from pact_eval._json import Json, dumps, sha256_of_json
from pact_eval.data.labelled import questions as named
from pact_eval.data.labelled.answers import POSITIONS
from pact_eval.data.labelled.columns import ColumnReading, has_columns, read_columns, unwrapped
from pact_eval.data.labelled.entries import Container, Entries, Entry, read_entries
from pact_eval.data.labelled.questions import (
    AskedQuestion,
    Draft,
    DraftError,
    ShapeName,
    as_object,
    as_text,
    target_of,
)
from pact_eval.data.labelled.reading import AUTOMATIC, Reading, is_labelled, is_record
from pact_eval.data.records import (
    LABELLED,
    Defaults,
    Record,
    defaults_of,
    parse_field,
    parse_record,
    read_records,
)
from pact_eval.errors import InputError, Problem, RecordError, ShapeError
from pact_eval.hub import short_name

FIELD: Final = "decision"
_HASH: Final = 12
_SPLITS: Final[Mapping[str, str]] = {
    "train": "train",
    "training": "train",
    **dict.fromkeys(("validation", "valid", "dev", "test", "eval"), "validation"),
}
_VARIANTS: Final = ("base", "counterfactual")


def default_id(draft: Draft) -> str:
    """Return the id of an entry that names none.

    Examples:
        >>> default_id(Draft("The gate is open.", [], {}, {}))
        'f76c61eff41f'
    """
    questions: list[Json] = [
        [asked_question.name, asked_question.question] for asked_question in draft.questions
    ]
    return sha256_of_json([draft.state, questions])[:_HASH]


def records_of_draft(
    draft: Draft, line: int, shape: str, own_id: str | None = None, levels_from: int = 0
) -> Iterator[dict[str, Json]]:
    """Yield the full format of every question of an entry.

    Args:
            draft: the entry.
            line: its line in the file.
            shape: name of its shape.
            own_id: the id if the entry names none; None takes `default_id`.
            levels_from: number of the first level of a rubric.

    Raises:
        DraftError: a question is malformed, or its answer is not one of the options.

    Examples:
        >>> from pact_eval.data.labelled.questions import AskedQuestion, Draft
        >>> asked_question = AskedQuestion("open", {"type": "noul", "instructions": "Open?"}, True)
        >>> draft = Draft("The gate is open.", [asked_question], {}, {})
        >>> record, = records_of_draft(draft, 7, "questions")
        >>> record["id"] == record["family"], record["split"], record["reference"]
        (True, 'validation', {'target': True})
    """
    labels, metadata = _labels(draft, own_id or default_id(draft))
    provenance, nested = (metadata.pop(name, None) for name in ("provenance", "metadata"))
    metadata = {**metadata, **(nested if isinstance(nested, dict) else {}), **metadata}
    entry_id = labels["id"]
    several = draft.always_named or len(draft.questions) > 1
    unused = {name for name in ("split", "variant") if labels[name] != draft.labels.get(name)}
    unused -= {"split"} if draft.labels.get("split", "").lower() in _SPLITS else set()
    named_labels = draft.labels.keys() - unused
    for asked_question in draft.questions:
        question, filled = _question(asked_question)
        try:
            field = parse_field(asked_question.name or FIELD, question)
        except ValueError as error:
            raise DraftError(str(error), "questions that cannot be read") from None
        defaults: list[Json] = [*sorted({*labels} - named_labels | filled)]
        own = dict(metadata)
        if asked_question.name is not None:
            own.setdefault("question", asked_question.name)
        yield {
            **labels,
            "id": f"{entry_id}/{asked_question.name}" if several else entry_id,
            "input": {"state": draft.state, "questions": {FIELD: question}},
            "reference": {"target": target_of(field, asked_question.answer, levels_from)},
            "provenance": {
                **(provenance if isinstance(provenance, dict) else {}),
                LABELLED: {"line": line, "shape": shape, "defaults": defaults},
            },
            **({"metadata": own} if own else {}),
        }


def _labels(draft: Draft, own_id: str) -> tuple[dict[str, str], dict[str, Json]]:
    """Return the labels of a record with defaults, and further columns.

    A split or variant of another kind is a column like any other.
    """
    own, metadata = dict(draft.labels), dict(draft.metadata)
    split, variant = own.get("split", ""), own.get("variant", "")
    known_split = _SPLITS.get(split.lower())
    if split and known_split != split:
        metadata["split"] = split
    if variant and variant not in _VARIANTS:
        metadata["variant"] = variant
    entry_id = own.get("id", own_id)
    family = own.get("family", entry_id)
    labels = {
        "id": entry_id,
        "family": family,
        "source_family": own.get("source_family", family),
        "split": known_split or "validation",
        "domain": own.get("domain", ""),
        "variant": variant if variant in _VARIANTS else "base",
    }
    return labels, metadata


def _question(asked_question: AskedQuestion) -> tuple[dict[str, Json], set[str]]:
    """Return a question in our form, and the names of what was filled in."""
    question = dict(as_object(asked_question.question, "question"))
    filled = set()
    if question.get("instructions") in (None, ""):
        question["instructions"] = asked_question.name or "Which answer is right?"
        filled.add("instructions")
    criteria = question.get("criteria")
    if question.get("type") == "choice" and isinstance(criteria, list):
        texts = [text if isinstance(text, str) else dumps(text) for text in criteria]
        if len(set(texts)) < len(texts):
            message = "criteria: expected different options; remove the repeated one"
            raise DraftError(message, "options that cannot be read")
        question["criteria"] = dict.fromkeys(texts)
    elif isinstance(criteria, dict):
        question["criteria"] = {key: _description(text) for key, text in criteria.items()}
    elif isinstance(criteria, list):
        question["criteria"] = [_description(text) for text in criteria]
    return question, filled


def _description(value: Json) -> Json:
    """Return a description as text: servers also take JSON values."""
    return value if value is None or isinstance(value, str) else dumps(value)


@dataclass(frozen=True)
class Shape:
    """One shape of entries.

    Attributes:
        name: its name, for `--shape`.
        title: its keys, for messages and docs.
        fits: whether an entry has it.
        draft: translates an entry, given the questions of another file; None for the full format,
            which needs no translation, and for columns, whose reading depends on the file.
        refines: shapes whose entries may have this one too.
    """

    name: ShapeName
    title: str
    fits: Callable[[Mapping[str, Json]], bool]
    draft: Callable[[Mapping[str, Json], Mapping[str, Json]], Draft] | None = None
    refines: tuple[ShapeName, ...] = ()


def _with(**types: type | tuple[type, ...]) -> Callable[[Mapping[str, Json]], bool]:
    """Return the test whether an entry has values of these types."""
    return lambda entry: all(
        name in entry and isinstance(entry[name], kind) for name, kind in types.items()
    )


_PACKED: Final = (str, dict)  # an object, or its JSON as text
_REQUEST: Final = _with(request=dict, expected=dict)
_OPEN_REQUEST: Final = _with(state=object, model=str, questions=dict, expected=dict)

RECORDS: Final = Shape("records", '{"id", "family", "input", "reference", ...}', is_record)
COLUMNS: Final = Shape("columns", "columns of question, options and answer", has_columns)

SHAPES: Final[Mapping[ShapeName, Shape]] = {
    shape.name: shape
    for shape in (
        RECORDS,
        Shape(
            "questions",
            '{"state", "questions", "expected"}',
            _with(state=object, questions=_PACKED, expected=_PACKED),
            named.of_questions,
        ),
        Shape("labels", '{"state", "labels"}', _with(state=object, labels=dict), named.of_labels),
        COLUMNS,
        Shape(
            "systemone",
            'requests of /v1/systemone with "expected"',
            lambda entry: _REQUEST(entry) or _OPEN_REQUEST(entry),
            named.of_systemone,
            refines=("questions",),
        ),
        Shape(
            "decision-index",
            "rows of the Decision Index suite",
            _with(state=object, questions=dict, expected=dict, _evaluation=dict),
            named.of_decision_index,
            refines=("questions",),
        ),
        Shape(
            "jevbench",
            "tasks of JevBench",
            _with(state=object, question=dict, labels=list),
            named.of_jevbench,
            refines=("columns",),
        ),
        Shape(
            "typed-decisions",
            "cases of LocalLLaMA/typed-decisions",
            _with(state=object, questions=_PACKED, gold=_PACKED),
            named.of_typed_decisions,
            refines=("columns",),
        ),
    )
}
"""Every shape, by name."""


def shapes_of_entry(entry: Mapping[str, Json]) -> tuple[ShapeName, ...]:
    """Return the shapes that an entry fits, without those that another of them refines.

    Examples:
        >>> shapes_of_entry({"state": "s", "questions": {}, "expected": {}, "model": "m"})
        ('systemone',)
        >>> shapes_of_entry({"state": "s", "questions": {}, "expected": {}, "labels": {}})
        ('questions', 'labels')
    """
    fitting = [shape for shape in SHAPES.values() if shape.fits(entry)]
    refined = {name for shape in fitting for name in shape.refines}
    return tuple(shape.name for shape in fitting if shape.name not in refined)


def shape_of(
    entries: Entries, source: str, *, name: ShapeName | None = None, named_columns: bool = False
) -> Shape:
    """Return the shape of a file: the one that most of its entries fit.

    Args:
        entries: its entries.
        source: name of the file, for messages.
        name: the shape that the user names; None detects it.
        named_columns: whether the user names columns, which decides for "columns".

    Raises:
        ShapeError: entries fit two shapes, or none.
    """
    if name is not None or named_columns:
        return SHAPES[name or COLUMNS.name]
    fitting = [shapes_of_entry(entry.value) for entry in entries.entries]
    counts = Counter(shape for shapes in fitting for shape in shapes)
    most = max(counts.values(), default=0)
    first = [shape for shape in SHAPES if counts[shape] == most and most]
    together = ([shape for shape in shapes if shape in first] for shapes in fitting)
    both = next((shapes for shapes in together if len(shapes) > 1), ())
    if both:
        titles = " and ".join(f'"{shape}" ({SHAPES[shape].title})' for shape in both)
        message = f"{source}: the entries fit two shapes, {titles}; decide with --shape NAME"
        raise ShapeError(message)
    if first:
        return SHAPES[first[0]]
    if entries.container != "JSON lines" or not entries.entries:
        return COLUMNS
    titles = "; ".join(shape.title for shape in SHAPES.values())
    names = ", ".join(entries.columns[:_NAMES_SHOWN]) or "no keys"
    more = ", ..." if len(entries.columns) > _NAMES_SHOWN else ""
    raise ShapeError(
        f"{source}: no known shape ({titles}); there are {names}{more}. Name the columns: "
        "--columns state=NAME,reference=NAME"
    )


_DIGITS: Final = re.compile(r"\d{1,4}")
_QUESTIONS_SUFFIX: Final = ".questions.json"
_NAMES_SHOWN: Final = 12


@dataclass(frozen=True)
class LabelledData:
    """A labelled file that was read.

    Attributes:
        path: the file.
        container: what it is made of.
        shape: its shape.
        values: its records in the full format, in file order.
        records: the same, parsed; `line` is the line of the entry.
        n_entries: number of entries.
        columns: how columns are read; None for other shapes.
        left_out: questions without one right answer, counted by the reason.
        reading: what the user said of it.
        questions_sha256: hash of the file of questions of the shape "labels".
        remarks: what to know of the reading, one sentence each.
    """

    path: Path
    container: Container
    shape: Shape
    values: Sequence[Mapping[str, Json]] = field(repr=False)
    records: Sequence[Record] = field(repr=False)
    n_entries: int
    columns: ColumnReading | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    reading: Reading = AUTOMATIC
    questions_sha256: str | None = None
    remarks: tuple[str, ...] = ()

    @cached_property
    def defaults(self) -> Defaults:
        """What nobody named."""
        return defaults_of(self.records)

    def to_json(self) -> dict[str, Json]:
        """Return how it was read, for the settings of a run; it gives the same records again."""
        value: dict[str, Json] = {"shape": self.shape.name, **self.reading.to_json()}
        if self.columns is not None:
            value["columns"] = {role: [*names] for role, names in self.columns.roles.items()}
            value["answers"] = self.columns.form
            if self.columns.options:
                value["options"] = [*self.columns.options]
        if self.questions_sha256 is not None:
            value["questions_sha256"] = self.questions_sha256
        return value

    @cached_property
    def metadata(self) -> tuple[str, ...]:
        """Names of further columns, in the order in which they first occur."""
        names: dict[str, None] = {}
        for record in self.records:
            names |= dict.fromkeys(record.metadata)
        return tuple(names)


def read_dataset_records(
    path: Path,
    reading: Reading = AUTOMATIC,
    *,
    require_reference: bool = True,
    allow_ablated: bool = False,
) -> list[Record]:
    """Read the records of a dataset file, in the full format or of a known shape.

    Args:
        path: the file.
        reading: how a labelled file is read.
        require_reference: as for `read_records`; a labelled file has references.
        allow_ablated: as for `read_records`.

    Raises:
        InputError: the file cannot be read.
        ShapeError: nothing decides how it is read.
        RecordError: an entry is malformed; all problems together.
    """
    if is_labelled(path, reading):
        return [*read_labelled(path, reading).records]
    return read_records(path, require_reference=require_reference, allow_ablated=allow_ablated)


def read_labelled(path: Path, reading: Reading = AUTOMATIC) -> LabelledData:
    """Read a labelled file.

    Args:
        path: a file of JSON lines, CSV or Parquet.
        reading: what the user says of it.

    Returns:
        Its records, and how they were read.

    Raises:
        InputError: the file cannot be read.
        ShapeError: its entries fit two shapes or none, or columns are not known.
        RecordError: entries are malformed; all problems together.
    """
    entries = unwrapped(read_entries(path))
    if not entries.entries:
        raise RecordError(short_name(path), entries.problems or [_EMPTY])
    name = short_name(path)
    shape = shape_of(
        entries, name, name=reading.shape, named_columns=bool(reading.columns or reading.options)
    )
    columns, questions, questions_sha256 = None, dict[str, Json](), None
    if shape is COLUMNS:
        columns = read_columns(entries, reading, name)
    elif shape.name == "labels":
        beside = path.with_name(f"{path.name}{_QUESTIONS_SUFFIX}")
        by_stem = path.with_name(f"{path.stem}{_QUESTIONS_SUFFIX}")
        is_beside = beside.exists() or not by_stem.exists()
        place = reading.questions or (beside if is_beside else by_stem)
        questions = _questions(place, path)
        questions_sha256 = sha256_of_file(place)
    draft = partial(_draft, shape, columns, questions)
    levels_from = 0
    if columns is None and shape is not RECORDS:
        levels_from = _first_level(entries.entries, draft, reading, name)
    ids = columns.roles.get("id", ("id",))[0] if columns else "id"
    values, records, problems, left_out = _read(entries.entries, shape, draft, levels_from, ids)
    problems = [*entries.problems, *problems]
    if not records and not problems:
        reasons = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
        problems = [
            Problem(None, None, f"expected at least one answer, all are left out: {reasons}")
        ]
    if problems:
        raise RecordError(name, sorted(problems, key=lambda problem: problem.line or 0))
    return LabelledData(
        *(path, entries.container, shape, values, records, len(entries.entries)),
        columns=columns,
        left_out=left_out,
        reading=reading,
        questions_sha256=questions_sha256,
        remarks=(*entries.remarks, *(() if columns is None else columns.remarks)),
    )


_EMPTY: Final = Problem(
    None, None, "expected at least one entry, the file is empty; write one per line"
)


def _questions(place: Path, path: Path) -> dict[str, Json]:
    """Read the questions of labelled items.

    Raises:
        InputError: the file is missing or has no questions.
    """
    missing = f"no file of questions; write it, or name it with --questions (for {path})"
    value = read_json(place, missing=missing)
    if isinstance(value, dict) and isinstance(value.get("questions"), dict):
        value = value["questions"]
    if not isinstance(value, dict) or not value:
        message = f"{place}: expected an object of questions by name, as `decide --schema` reads it"
        raise InputError(message)
    return value


def _draft(
    shape: Shape, columns: ColumnReading | None, questions: Mapping[str, Json], entry: Entry
) -> Draft:
    """Translate an entry by the shape of its file.

    Raises:
        DraftError: it has another shape, or is malformed.
    """
    if columns is not None and (not is_record(entry.value) or shape.fits(entry.value)):
        return columns.draft(entry.value)
    if shape.draft is not None and shape.fits(entry.value):
        return shape.draft(entry.value, questions)
    others = [SHAPES[name] for name in shapes_of_entry(entry.value)]
    got = f"the keys {', '.join(entry.value) or '(none)'}; add what is missing"
    if others:
        got = f"{others[0].title}; put entries of different shapes into separate files"
    raise DraftError(f"expected {shape.title}, got {got}", "entries of another shape")


def _first_level(
    entries: Sequence[Entry], draft: Callable[[Entry], Draft], reading: Reading, source: str
) -> int:
    """Return the number of the first level of rubrics: 0, unless their texts say 1.

    Args:
        entries: the entries; those that cannot be read are left out.
        draft: translates an entry.
        reading: what the user says.
        source: name of the file, for the message.

    Raises:
        ShapeError: texts are numbered from 1, and no answer is the first or the last number.
    """
    if reading.form in POSITIONS:
        return POSITIONS.index(reading.form)
    levels: list[tuple[int, int, list[str], list[int]]] = []
    for entry in entries:
        try:
            asked_questions = draft(entry).questions
        except DraftError:
            continue
        for asked in asked_questions:
            question = asked.question if isinstance(asked.question, dict) else {}
            criteria, answer = question.get("criteria"), asked.answer
            if not isinstance(answer, int) or isinstance(answer, bool):
                continue
            if question.get("type") == "score" and isinstance(criteria, list):
                texts = [text if isinstance(text, str) else "" for text in criteria]
                found = [_DIGITS.search(text) for text in texts]
                numbers = [int(number[0]) if number else -1 for number in found]
                levels.append((entry.line, answer, texts, numbers))
    from_1 = all(numbers == [*range(1, len(numbers) + 1)] for _, _, _, numbers in levels)
    if not levels or not from_1 or any(answer == 0 for _, answer, _, _ in levels):
        return 0
    if any(answer == len(numbers) for _, answer, _, numbers in levels):
        return 1
    line, answer, texts, _ = levels[0]
    raise ShapeError(
        f"{source}: levels can be counted from 0 or from 1, and both fit every entry. Line {line}: "
        f"{answer} is {dumps(texts[answer])} or {dumps(texts[answer - 1])}. Decide with "
        "--positions-from 0 or --positions-from 1"
    )


def _read(
    entries: Sequence[Entry],
    shape: Shape,
    draft: Callable[[Entry], Draft],
    levels_from: int,
    ids: str,
) -> tuple[list[dict[str, Json]], list[Record], list[Problem], Counter[str]]:
    """Return the records of entries, as values and parsed, the problems, and what is left out.

    An item that is asked again in another order, as predictions of views are, is one record.
    Entries of equal content that name no id are numbered.
    """
    values: list[dict[str, Json]] = []
    records: list[Record] = []
    problems: list[Problem] = []
    left_out, repeats = Counter[str](), Counter[str]()
    first_of, views = dict[str, Record](), set[tuple[str, str]]()
    for entry in entries:
        try:
            made = [entry.value]
            if shape is not RECORDS or not shape.fits(entry.value):
                drafted = draft(entry)
                own_id = None
                if "id" not in drafted.labels:
                    own_id = default_id(drafted)
                    repeats[own_id] += 1
                    own_id += f"-{repeats[own_id]}" if repeats[own_id] > 1 else ""
                made = [*records_of_draft(drafted, entry.line, shape.name, own_id, levels_from)]
                left_out.update(drafted.left_out)
            parsed = [parse_record(value, line=entry.line) for value in made]
        except ValueError as error:
            kind = error.kind if isinstance(error, DraftError) else "malformed entries"
            record_id = as_text(entry.value.get(ids))
            problems.append(Problem(entry.line, record_id, str(error), kind))
            continue
        for value, record in zip(made, parsed, strict=True):
            first = first_of.setdefault(record.id, record)
            view = (record.id, str(entry.value.get("view")))
            is_new_view = "view" in entry.value and view not in views
            views.add(view)
            asked, before = ((x.state, x.field, x.reference) for x in (record, first))
            if first.line == entry.line:
                values.append(value)
                records.append(record)
            elif is_new_view and asked == before:
                left_out["further views of items"] += 1
            else:
                message = (
                    f"expected an id of its own, got the id of line {first.line}; change it, or "
                    "leave the ids out"
                )
                problems.append(Problem(entry.line, record.id, message, "repeated ids"))
    return values, records, problems, left_out
