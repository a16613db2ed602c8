"""Check "schema": a record with an allowed answer on every line.

The parser in `data/records.py` decides what a record is. This check adds: ids are unique in their
file, answers read differently, the split is that of the file, and nothing inside the input reveals
the reference.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import polars as pl

from pact_eval._json import Json, cut, dumps, short
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.index import Index, Located, answer_texts
from pact_eval.data.records import LETTERS, Answer, defaults_of_record, folded
from pact_eval.errors import Place, counted

if TYPE_CHECKING:
    from pact_eval.audit.context import DataContext

# Words of a key that name a reference by themselves, or together ...
_SURELY = frozenset({"gold", "truth", "groundtruth"})
_RIGHT = frozenset({"correct", "right", "expected", "reference", "true"})
_ANSWER = frozenset({"answer", "label", "option", "choice", "target", "key"})
_CERTIFICATE = frozenset({"evidence_certificate", "fact_states", "verified_pair"})
# ... and those that may belong to the subject matter: their values decide.
_HINTS = frozenset({"reference", "target", "label", "answer", "expected", "correct", "solution"})
_INDEX = frozenset({"id", "index", "idx", "key", "letter", "code"})
_QUESTION_KEYS = ("type", "criteria")

_Text: TypeAlias = tuple[str, str]


class SchemaScan:
    """Collects findings line by line while the index is built, so files are read once.

    Args:
        findings: collects what is wrong.
    """

    def __init__(self, findings: Collector) -> None:
        self._findings = findings

    def part(self) -> SchemaScan:
        """Return a scan that has seen nothing, for some of the lines."""
        return SchemaScan(Collector(self._findings.check, self._findings.keep))

    def join(self, part: SchemaScan) -> None:
        """Take over what a scan of the next lines has found."""
        self._findings.join(part._findings)

    def record(self, located: Located) -> None:
        """Look at a record that could be parsed."""
        self._check_split(located)
        self._check_answers(located)
        for path, key, value in _keys_of_input(located.value):
            self._check_key(located, path, key, value)

    def result(self, index: Index) -> CheckResult:
        """Add the findings that need all records, and report everything.

        Args:
            index: the finished index.
        """
        for bad in index.bad_lines:
            code, expected = ("malformed", "a record") if bad.is_json else ("not-json", "JSON")
            self._findings.add(code, bad.place, expected, bad.message)
        for number, line, record_id, first in index.repeated_ids():
            place = Place(index.files[number].name, line, record_id)
            self._findings.add("duplicate-id", place, "a unique id", f"the id of line {first}")
        self._add_contradictions(index)
        for file, facts in zip(index.files, index.facts, strict=True):
            if facts.rows == 0:
                self._findings.add("empty-file", Place(file.name), "records", "none")
        if not any(file.role == "eval" for file in index.files):
            place = Place(", ".join(file.name for file in index.files))
            self._findings.add("no-eval-file", place, "a file for evaluation", "none")
        lines = counted(sum(facts.rows for facts in index.facts), "line")
        return self._findings.result(f"{lines} in {counted(len(index.files), 'file')}")

    def _add_contradictions(self, index: Index) -> None:
        """Report each record that has another answer than an earlier one with the same text."""
        for row, key, first_row, first_key in _contradictions(index):
            same = "to the same text and question, with both among the options"
            expected = f"{dumps(first_key)}, as {index.place(first_row)} has it {same}"
            self._findings.add("contradictory-label", index.place(row), expected, dumps(key))

    def _check_split(self, located: Located) -> None:
        expected = "validation" if located.file.role == "eval" else "train"
        named = "split" not in defaults_of_record(located.record)
        if named and located.record.split != expected:
            self._findings.add(
                "split-mismatch",
                located.place,
                f"split {expected} in a file for {located.file.role}",
                located.record.split,
            )

    def _check_answers(self, located: Located) -> None:
        field = located.record.field
        if len(field.answers) > len(LETTERS):
            expected = f"at most {len(LETTERS)} answers, one letter each"
            self._findings.add("server-only", located.place, expected, f"{len(field.answers)}")
        alike = _first_alike(field.answers, [answer.key for answer in field.answers])
        if alike is not None:
            self._findings.add("answers-alike", located.place, "different answers", alike)
        texts = [answer.description for answer in field.answers]
        described = _first_alike(field.answers, texts)
        if described is None:
            return
        if field.kind == "choice":
            # Keys distinguish choices. If all have one description, they alone are meant to.
            if len({folded(text or "") for text in texts}) == 1:
                return
            expected = "different descriptions"
            self._findings.add("descriptions-alike", located.place, expected, described)
        else:
            self._findings.add("answers-alike", located.place, "different answers", described)

    def _check_key(self, located: Located, path: str, key: str, value: Json) -> None:
        says = _said_by(key)
        if says == "nothing":
            return
        actual = f"{path}: {short(value, 80)}"
        if says == "reference" or _reveals(value, located):
            expected = "no key that holds the reference"
            self._findings.add("reference-in-input", located.place, expected, actual)
        elif says == "hint":
            expected = "no key named like a reference"
            self._findings.add("reference-like-key", located.place, expected, actual)


def _contradictions(index: Index) -> Iterator[tuple[int, str, int, str]]:
    """Yield row and right answer of records, and those of the first that each contradicts.

    Two records contradict each other if they have one context and one question, two right answers,
    and both of these among the options of either. What is repeated is yielded once.
    """
    several = index.frame.select(pl.col("right").n_unique().over("asked") > 1).to_series()
    rows = several.arg_true().to_list()
    asked = index.frame["asked"][rows]
    seen: dict[tuple[int, _Text], dict[frozenset[_Text], int]] = {}
    for row, question, located in zip(rows, asked, index.read(rows), strict=True):
        options = answer_texts(located.record)
        right, answers = options[located.record.reference or 0], frozenset(options)
        alike = seen.setdefault((question, right), {})
        if answers in alike:
            continue
        alike[answers] = row
        earlier = (
            (first_row, other[0])
            for other in options
            if other != right
            for others, first_row in seen.get((question, other), {}).items()
            if right in others
        )
        first = min(earlier, default=None)
        if first is not None:
            yield row, right[0], *first


@functools.lru_cache(maxsize=4096)  # records of a dataset have the same few keys
def _said_by(key: str) -> Literal["reference", "hint", "weak hint", "nothing"]:
    """Say what a key means by its name: the reference, perhaps the reference, or something else.

    A weak hint counts only if its value is the reference.
    """
    parts = frozenset(re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", key).lower()))
    if (
        key.lower() in _CERTIFICATE
        or parts & _SURELY
        or (parts & _RIGHT and parts & (_ANSWER - _RIGHT))
    ):
        return "reference"
    if not parts & _HINTS:
        return "nothing"
    return "hint" if len(parts) == 1 or parts & _INDEX else "weak hint"


def _keys_of_input(value: dict[str, Json]) -> Iterator[tuple[str, str, Json]]:
    """Yield (path, key, value) of every key inside the input, except those of the format.

    The criteria of a question are left out: their keys are the answers.
    """
    inputs = value["input"]
    assert isinstance(inputs, dict)  # noqa: S101 - parse_record has checked it
    for key, item in inputs.items():
        if key == "questions":
            continue
        if key != "state":
            yield f"input.{key}", key, item
        yield from _keys_inside(item, f"input.{key}")
    question = inputs["questions"]["decision"]  # type: ignore[index,call-overload]
    assert isinstance(question, dict)  # noqa: S101 - likewise
    for key, item in question.items():
        if key not in _QUESTION_KEYS:
            path = f"input.questions.decision.{key}"
            yield path, key, item
            yield from _keys_inside(item, path)


def _keys_inside(value: Json, path: str) -> Iterator[tuple[str, str, Json]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}.{key}", key, item
            yield from _keys_inside(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _keys_inside(item, f"{path}.{index}")


def _reveals(value: Json, located: Located) -> bool:
    """Return whether a value is or contains the record's reference: its key, index or letter."""
    if isinstance(value, dict):
        return "target" in value or any(_reveals(item, located) for item in value.values())
    if isinstance(value, list):
        return any(_reveals(item, located) for item in value)
    record = located.record
    index = record.reference or 0
    answer = record.field.answers[index].key
    if isinstance(value, str):
        letter = LETTERS[index].casefold() if index < len(LETTERS) else None
        return folded(value) in (folded(answer), letter)
    reference = located.value.get("reference")
    target = reference.get("target") if isinstance(reference, dict) else None
    return type(value) in (int, bool) and (
        (type(value) is type(target) and value == target) or (type(value) is int and value == index)
    )


def _first_alike(answers: Sequence[Answer], texts: Sequence[str | None]) -> str | None:
    """Name the first two answers whose texts differ only in case and white space."""
    seen: dict[str, str] = {}
    for answer, text in zip(answers, texts, strict=True):
        if text is None:
            continue
        read = folded(text)
        if read in seen:
            return f"{seen[read]} and {answer.key}: {cut(text, 80)}"
        seen[read] = answer.key
    return None


CHECK: Final[Check[DataContext]] = Check(
    name="schema",
    question="Is every line a record with an allowed answer?",
    run=lambda context: context.scan.result(context.index),
    cost=0.01,
    codes={
        "not-json": ("error", "A line is not strict JSON."),
        "malformed": ("error", "A line is not a record, or its right answer is no answer of it."),
        "duplicate-id": ("error", "An id appears twice in a file."),
        "answers-alike": ("error", "Two answers of a question read alike."),
        "descriptions-alike": ("warning", "Two answers of a choice have the same description."),
        "reference-in-input": ("error", "A key inside the input reveals the right answer."),
        "split-mismatch": ("error", "A record's split is not that of its file."),
        "empty-file": ("error", "A dataset file holds no record."),
        "contradictory-label": ("error", "One text and question has two right answers."),
        "no-eval-file": ("note", "No file is for evaluation."),
        "server-only": ("note", "A question has more than 26 answers: only a server can be asked."),
        "reference-like-key": ("warning", "A key inside the input is named like a right answer."),
    },
)
