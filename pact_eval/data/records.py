"""The record: one line of a dataset file, one typed decision with its reference.

JSON lines in, `Record` objects or line-numbered problems out. Parsing is strict: a record either is
what `DESIGN` says or is refused with the reason, and all problems of a file are reported together.
The words `noul` (published data) and `boolean` mean the same kind on reading.

A record without its evidence (an `ablation` object, as `pact-audit ablate` writes it) has no right
answer, and therefore no reference. Only who asks for such records gets them.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Final, Literal, cast, get_args

from pact_eval._files import decoded, read_lines
from pact_eval._json import Json, cut, describe, loads, short
from pact_eval.errors import Problem, RecordError
from pact_eval.results import short_repr

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_VARIATION_SELECTORS = frozenset(chr(code) for code in range(0xFE00, 0xFE10))

LeafPath = tuple[str | int, ...]
"""Keys and list indices that lead from a context to a value inside it."""


def leaf_texts(value: Json) -> list[str]:
    """Return every string value inside a JSON value, in their order; keys are not texts.

    Examples:
        >>> leaf_texts({"turns": [{"text": "a"}, "b"], "n": 1})
        ['a', 'b']
    """
    texts: list[str] = []
    _gather([value], texts)
    return texts


def _gather(items: Iterable[Json], texts: list[str]) -> None:
    # Several times as fast as nested generators, and every check reads every leaf.
    for item in items:
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            _gather(item.values(), texts)
        elif isinstance(item, list):
            _gather(item, texts)


def context_text(state: Json) -> str:
    r"""Return all texts of a context, one a line.

    Examples:
        >>> context_text([{"speaker": "Clerk", "text": "Noted."}, {"n": 3}])
        'Clerk\nNoted.'
    """
    return "\n".join(leaf_texts(state))


def content_of(value: Json) -> str:
    r"""Return one text for everything that prompts render alike: JSON and JSON in a text are one.

    A prompt has a text as it is, and anything else as JSON. White space between the parts of JSON,
    its escapes and the order of its keys do not count either.

    Examples:
        >>> content_of({"b": "é", "a": 1}), content_of('{"a": 1, "b": "\\u00e9"}')
        ('{"a":1,"b":"é"}', '{"a":1,"b":"é"}')
        >>> content_of("A text.")
        'A text.'
    """
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        return value
    try:
        parsed: Json = json.loads(value) if isinstance(value, str) else value
        return json.dumps(parsed, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except (ValueError, RecursionError):  # a text that only looks like JSON
        return str(value)


def readable(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> str:
    r"""Return a text as a reader sees it: compatible forms made one, invisible signs left out.

    Args:
        text: the text.
        form: with NFC, compatible forms stay apart: 2² is not 22.

    Examples:
        >>> readable("Ｓｅａｌ in\u200btact")
        'Seal intact'
    """
    if text.isascii():
        return text
    normal = unicodedata.normalize(form, text)
    left_out = {
        sign
        for sign in set(_NOT_ASCII.findall(normal))
        if unicodedata.category(sign) == "Cf" or sign in _VARIATION_SELECTORS
    }
    return "".join(sign for sign in normal if sign not in left_out) if left_out else normal


def visible(text: str) -> str:
    r"""Return a text as it is read, without invisible signs and with single spaces.

    Case and compatible forms count: US is not us.

    Examples:
        >>> visible(" The SEAL\n is in\u00adtact: 2². ")
        'The SEAL is intact: 2².'
    """
    return " ".join(readable(text, "NFC").split())


def folded(text: str) -> str:
    r"""Return a text for comparison: as a reader sees it, in one case, with single spaces.

    Examples:
        >>> folded(" The\u00a0SEAL\n is in\u00adtact. ")
        'the seal is intact.'
    """
    return " ".join(readable(text).casefold().split())


FieldKind = Literal["choice", "boolean", "score"]
"""The three kinds of typed decision."""

PairVariant = Literal["base", "counterfactual"]
"""Which member of a contrastive pair a record is."""

Variant = Literal[PairVariant, "ablated"]
"""A member of a pair, or the base member's context without its evidence."""

MIN_ANSWERS = 2
MAX_ANSWERS = 255
"""Most answers of a question, as servers have it. Local prompts have 26 letters."""

LETTERS: Final = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
"""The letters next to answers in prompts, in order."""

_ABLATED: Final = (
    "an ablated context, which has no reference: only `pact-eval score` and `register` read it, "
    "everything else reads the file that it was made of"
)

_KIND_ON_READING: dict[str, FieldKind] = {
    "choice": "choice",
    "noul": "boolean",
    "boolean": "boolean",
    "score": "score",
}


def position_name(position: int) -> str:
    """Return the letter at a position; from the 27th on, where there are none, its number.

    Only servers show more answers than letters; how they mark them is not known.

    Examples:
        >>> position_name(0), position_name(25), position_name(26)
        ('A', 'Z', '#27')
    """
    return LETTERS[position] if position < len(LETTERS) else f"#{position + 1}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One allowed answer.

    Attributes:
        key: the canonical name: the choice key, "false"/"true", or the level "0", "1", ...
        description: the criteria text, or None if the schema gives none.
    """

    key: str
    description: str | None


@dataclass(frozen=True, slots=True)
class Field:
    """A question with its fixed set of answers, in canonical order.

    Attributes:
        name: the field's name in the schema; dataset records name their one field `decision`.
        kind: choice, boolean or score.
        instructions: the question: text, or any JSON value.
        answers: 2 to 255 answers in the order in which the schema declares them; boolean is
            (false, true), score is ("0", "1", ...).
    """

    name: str
    kind: FieldKind
    instructions: Json
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class AblatedFrom:
    """Origin of an ablated context.

    Attributes:
        record: id of the base record.
        answers: canonical indices of the references of the base record and of its counterfactual:
            two answers that nothing in the context tells apart.
    """

    record: str
    answers: tuple[int, int]


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """One line of a dataset.

    Attributes:
        id: unique in its file.
        family: names the contrastive pair; both members carry it.
        source_family: groups families for splitting.
        split: "train" or "validation".
        domain: subject area; empty if nobody named one.
        variant: base or counterfactual; ablated where `ablation` is not None.
        state: the context: text, or any JSON value.
        field: the question.
        reference: canonical index of the right answer; None if the record has no reference (an
            ablated context never has one).
        certificate: the evidence certificate as written in the file, or None.
        provenance: the source as written in the file.
        line: 1-based line in the file it was read from.
        ablation: what an ablated context was made of; None for every other record.
        metadata: further columns of the record, by name: what a report may be divided by.
        order_key: keys the letter orders of its views; empty takes the id.
    """

    id: str
    family: str
    source_family: str
    split: str
    domain: str
    variant: Variant
    state: Json
    field: Field
    reference: int | None
    certificate: Mapping[str, Json] | None
    provenance: Mapping[str, Json]
    line: int
    ablation: AblatedFrom | None = None
    metadata: Mapping[str, Json] = dataclass_field(default_factory=dict)
    order_key: str = ""

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def n_choices(self) -> int:
        """Number of allowed answers, C."""
        return len(self.field.answers)


def read_records(
    path: Path, *, require_reference: bool = True, allow_ablated: bool = False
) -> list[Record]:
    """Read a dataset file.

    Args:
        path: JSON lines, split on line feeds only.
        require_reference: whether a record without a reference is a problem.
        allow_ablated: whether a file of ablated contexts, which have none, is read all the same.

    Returns:
        The records in file order; where references are required, all have one or all are ablated.

    Raises:
        InputError: the file cannot be read.
        RecordError: any record is malformed, an id appears twice, ablated contexts are mixed with
            records that have references, or there are no records; all problems together.

    Examples:
        >>> records = read_records(Path("data/holdout.jsonl"))
        >>> len(records), records[0].field.kind, records[0].variant
        (324, 'boolean', 'base')
    """
    records: list[Record] = []
    problems: list[Problem] = []
    line_of: dict[str, int] = {}
    needs = {"require_reference": require_reference, "allow_ablated": allow_ablated}
    for number, raw in read_lines(path):
        record_id: str | None = None
        try:
            value = loads(decoded(raw, number))
            record_id = name_of(value, "id")
            read = parse_record(value, line=number, **needs)
            if read.id in line_of:
                first = line_of[read.id]
                raise ValueError(f"the id already occurs at line {first}; ids must be unique")
            line_of[read.id] = number
            records.append(read)
        except ValueError as error:
            problems.append(Problem(number, record_id, str(error)))
    if require_reference:
        problems += _mixed_types(records)
    if not records and not problems:
        problems.append(Problem(None, None, "expected at least one record, the file is empty"))
    if problems:
        raise RecordError(str(path), with_remedy(problems, path))
    return records


def with_remedy(problems: Iterable[Problem], path: Path) -> list[Problem]:
    """Return the problems of a dataset file, each with the command that checks the file.

    Examples:
        >>> with_remedy([Problem(2, None, "not valid JSON")], Path("eval.jsonl"))[0].remedy
        'Correct the file; `pact-audit data eval.jsonl` checks all of it.'
    """
    command = f"pact-audit data {shlex.quote(str(path))}"
    remedy = f"Correct the file; `{command}` checks all of it."
    return [replace(problem, remedy=problem.remedy or remedy) for problem in problems]


def parse_record(
    value: Json, *, line: int = 1, require_reference: bool = True, allow_ablated: bool = False
) -> Record:
    """Turn one parsed JSON value into a record.

    Args:
        value: the object of one line.
        line: its line number, kept for messages.
        require_reference: whether a missing `reference` is an error.
        allow_ablated: whether it is none where the record is an ablated context.

    Returns:
        The record.

    Raises:
        ValueError: with the first thing that is wrong, in words.

    Examples:
        >>> record = parse_record({
        ...     "id": "a-base", "family": "a", "source_family": "s", "split": "train",
        ...     "domain": "travel", "variant": "base",
        ...     "input": {"state": "The gate is open.", "questions": {"decision": {
        ...         "type": "noul", "instructions": "Is the gate open?"}}},
        ...     "reference": {"target": True}})
        >>> record.field.kind, record.n_choices, record.reference
        ('boolean', 2, 1)
    """
    obj = _object(value, "a record")
    inputs = _object(obj.get("input"), "input")
    if "state" not in inputs:
        raise ValueError("input.state is missing")
    questions = _object(inputs.get("questions"), "input.questions")
    if list(questions) != ["decision"]:
        message = f"input.questions: expected the one field decision, got {_list_names(questions)}"
        raise ValueError(message)
    field = parse_field("decision", questions["decision"])
    ablation = _ablation(obj, field)
    if ablation is not None and require_reference and not allow_ablated:
        raise ValueError(_ABLATED)
    required = require_reference and ablation is None
    return Record(
        id=_name(obj, "id"),
        family=_name(obj, "family"),
        source_family=_name(obj, "source_family"),
        split=_one_of(obj, "split", ("train", "validation")),
        domain="" if obj.get("domain") == "" else _text(obj, "domain"),
        variant=_variant(obj, ablated=ablation is not None),
        state=inputs["state"],
        field=field,
        reference=_reference(obj, field, required=required),
        certificate=_optional_object(obj, "evidence_certificate"),
        provenance=_optional_object(obj, "provenance") or {},
        line=line,
        ablation=ablation,
        # `metadata` of another type is somebody else's.
        metadata={**metadata} if isinstance(metadata := obj.get("metadata"), dict) else {},
    )


def parse_field(name: str, value: Json) -> Field:
    """Turn a question as written in a dataset or a request into a `Field`.

    Args:
        name: the field's name.
        value: `{"type": ..., "instructions": ..., "criteria": ...}`.

    Returns:
        The field with its answers in canonical order.

    Raises:
        ValueError: with the first thing that is wrong, in words.

    Examples:
        >>> field = parse_field("urgency", {"type": "score", "instructions": "How urgent?",
        ...                                 "criteria": ["Routine", "Urgent"]})
        >>> [answer.key for answer in field.answers]
        ['0', '1']
    """
    obj = _object(value, f"field {name}")
    kind_read = obj.get("type")
    kind = _KIND_ON_READING.get(kind_read) if isinstance(kind_read, str) else None
    if kind is None:
        near = difflib.get_close_matches(str(kind_read).casefold(), _KIND_ON_READING, n=1)
        advice = f'; did you mean "{near[0]}"?' if near else ""
        message = f"field {name}: expected type choice, noul (boolean) or score"
        raise ValueError(f"{message}, got {short(kind_read)}{advice}")
    if obj.get("instructions") is None:
        raise ValueError(f"field {name}: instructions are missing")
    answers = _answers(name, kind, obj.get("criteria"))
    if not MIN_ANSWERS <= len(answers) <= MAX_ANSWERS:
        raise ValueError(
            f"field {name}: expected {MIN_ANSWERS} to {MAX_ANSWERS} answers, got {len(answers)}"
        )
    return Field(name, kind, obj["instructions"], answers)


def _answers(name: str, kind: FieldKind, criteria: Json) -> tuple[Answer, ...]:
    """Return the answers of a field in canonical order; criteria of a boolean may be missing."""
    texts: dict[str, Json] = {}
    if kind == "score" and not isinstance(criteria, list):
        message = f"field {name}: criteria of a score: expected a list, got {describe(criteria)}"
        raise ValueError(message)
    if isinstance(criteria, list) and kind == "score":
        texts = {str(level): text for level, text in enumerate(criteria)}
    elif kind == "choice" or criteria is not None:
        texts = _object(criteria, f"field {name}: criteria of a {kind}")
    if kind == "boolean":
        if unknown := texts.keys() - {"false", "true"}:
            names = _list_names(key for key in texts if key in unknown)
            message = f"field {name}: boolean criteria are named false and true, got {names}"
            raise ValueError(message)
        texts = {key: texts.get(key) for key in ("false", "true")}
    if "" in texts:
        raise ValueError(f"field {name}: an answer's name is empty")
    answers = []
    for key, text in texts.items():
        if text is not None and not isinstance(text, str):
            what = f"expected a description or null, got {describe(text)}"
            raise ValueError(f"field {name}: answer {key}: {what}")
        answers.append(Answer(key, text))
    return tuple(answers)


def _reference(obj: Mapping[str, Json], field: Field, *, required: bool) -> int | None:
    if obj.get("reference") is None and not required:
        return None
    target = _object(obj.get("reference"), "reference").get("target")
    key: str | None = None
    if field.kind == "choice" and isinstance(target, str):
        key = target
    elif field.kind == "boolean" and isinstance(target, bool):
        key = "true" if target else "false"
    elif field.kind == "score" and isinstance(target, int) and not isinstance(target, bool):
        key = str(target)
    keys = [answer.key for answer in field.answers]
    if key not in keys:
        expected = {"boolean": "true or false", "score": f"a level from 0 to {len(keys) - 1}"}
        choices = expected.get(field.kind, f"one of {_list_names(keys)}")
        message = f"reference.target is not an answer: expected {choices}, got {short(target)}"
        raise ValueError(message)
    return keys.index(key)


def _variant(obj: Mapping[str, Json], *, ablated: bool) -> Variant:
    if ablated:
        # `pact-audit ablate` leaves the base record's own word in place.
        _one_of(obj, "variant", ("base", "ablated"))
        return "ablated"
    return cast("PairVariant", _one_of(obj, "variant", get_args(PairVariant)))


def _ablation(obj: Mapping[str, Json], field: Field) -> AblatedFrom | None:
    value = _optional_object(obj, "ablation")
    if value is None:
        return None
    if obj.get("reference") is not None:
        raise ValueError("reference: expected none, because an ablated context has no right answer")
    record = value.get("record")
    if not isinstance(record, str) or not record:
        message = f"ablation.record: expected the id of the base record, got {short(record)}"
        raise ValueError(message)
    answers, last = value.get("answers"), len(field.answers) - 1
    first, second = answers if isinstance(answers, list) and len(answers) == 2 else (None, None)
    are_whole = type(first) is int and type(second) is int
    if are_whole and first != second and {first, second} <= {*range(last + 1)}:
        return AblatedFrom(record, (cast("int", first), cast("int", second)))
    raise ValueError(
        f"ablation.answers: expected two different canonical indices from 0 to {last}, got "
        f"{short(answers)}"
    )


def _mixed_types(records: Sequence[Record]) -> list[Problem]:
    """Name the first record whose type differs from that of the file's first record."""
    for record in records:
        first = records[0]
        if (record.ablation is None) != (first.ablation is None):
            sorts = "an ablated context", "a record with a reference"
            here, there = sorts if first.ablation is None else sorts[::-1]
            message = f"{here}, but line {first.line} is {there}: put them into separate files"
            return [Problem(record.line, record.id, message)]
    return []


def name_of(value: object, key: str) -> str | None:
    """Return a name in a record: text, or a whole number as text; None if it is neither.

    Examples:
        >>> name_of({"id": 0}, "id"), name_of({"id": ""}, "id"), name_of([], "id")
        ('0', None, None)
    """
    name = value.get(key) if isinstance(value, dict) else None
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    return name if isinstance(name, str) and name else None


def _object(value: Json, what: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"{what}: expected an object, got {describe(value)}")
    return value


def _optional_object(obj: Mapping[str, Json], key: str) -> dict[str, Json] | None:
    return None if obj.get(key) is None else _object(obj[key], key)


def _name(obj: dict[str, Json], key: str) -> str:
    name = name_of(obj, key)
    return _text(obj, key) if name is None else name


def _text(obj: Mapping[str, Json], key: str) -> str:
    value = obj.get(key)
    if not isinstance(value, str) or not value:
        actual = "nothing" if value is None else "empty text" if value == "" else describe(value)
        raise ValueError(f"{key}: expected text, got {actual}")
    return value


def _one_of(obj: Mapping[str, Json], key: str, allowed: tuple[str, ...]) -> str:
    value = _text(obj, key)
    if value not in allowed:
        raise ValueError(f"{key}: expected {' or '.join(allowed)}, got {short(value)}")
    return value


def _list_names(names: Iterable[str], limit: int = 8) -> str:
    shown = [cut(name, 40) for name in names]
    text = ", ".join(shown[:limit])
    return f"{text}, ... ({len(shown)} in all)" if len(shown) > limit else text or "nothing"


LABELLED: Final = "labelled"
"""Key of `provenance` that says how a record was read from a labelled file."""


@dataclass(frozen=True)
class Defaults:
    """Defaults of labelled records that nobody named, and their cost.

    Attributes:
        names: labels with defaults, in the order of `LABELS`, and "instructions".
        pairs: whether no record says that it belongs to a contrastive pair.
        source_families: whether no record names its source family.
        families: whether no record names its family: intervals take records as independent.
    """

    names: tuple[str, ...]
    pairs: bool
    source_families: bool
    families: bool


def defaults_of(records: Sequence[Record]) -> Defaults:
    """Return what nobody named in records; nothing for records of the full format.

    Examples:
        >>> defaults_of([])
        Defaults(names=(), pairs=False, source_families=False, families=False)
    """
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(defaults_of_record(record))
    names = ("id", "family", "source_family", "split", "domain", "variant", "instructions")
    everywhere = {name for name in names if records and counts[name] == len(records)}
    return Defaults(
        tuple(name for name in names if counts[name]),
        pairs="variant" in everywhere,
        source_families="source_family" in everywhere,
        families="family" in everywhere,
    )


def defaults_of_record(record: Record) -> list[str]:
    """Return the names of what nobody named in a record: none for one of the full format."""
    labelled = record.provenance.get(LABELLED)
    names = labelled.get("defaults") if isinstance(labelled, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
