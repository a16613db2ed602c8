"""Check "schema": a record with an allowed answer on every line.

The parser in `data/records.py` decides what a record is. This check adds: ids are unique in their
file, answers read differently, the split is that of the file, and nothing inside the input reveals
the reference.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

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


class SchemaScan(Collector):
    """Collects findings line by line while the index is built, so files are read once."""

    def record(self, located: Located) -> None:
        """Look at a record that could be parsed."""
        record, place, answers = located.record, located.place, located.record.field.answers
        split = "validation" if located.file.role == "eval" else "train"
        if record.split != split and "split" not in defaults_of_record(record):
            expected = f"split {split} in a file for {located.file.role}"
            self.add("split-mismatch", place, expected, record.split)
        if len(answers) > len(LETTERS):
            expected = f"at most {len(LETTERS)} answers, one letter each"
            self.add("server-only", place, expected, f"{len(answers)}")
        alike = _first_alike(answers, [answer.key for answer in answers])
        if alike is not None:
            self.add("answers-alike", place, "different answers", alike)
        texts = [answer.description for answer in answers]
        alike = _first_alike(answers, texts)
        if alike is not None and record.field.kind != "choice":
            self.add("answers-alike", place, "different answers", alike)
        # Keys distinguish choices. If all have one description, they alone are meant to.
        elif alike is not None and len({folded(text or "") for text in texts}) > 1:
            self.add("descriptions-alike", place, "different descriptions", alike)
        for path, key, value in _keys_of_input(located.value):
            says = _said_by(key)
            if says == "reference" or (says != "nothing" and _reveals(value, located)):
                code, expected = "reference-in-input", "no key that holds the reference"
            elif says == "hint":
                code, expected = "reference-like-key", "no key named like a reference"
            else:
                continue
            self.add(code, place, expected, f"{path}: {short(value, 80)}")


def check_schema(index: Index, findings: Collector) -> CheckResult:
    """Add the findings that need all records, and report everything.

    Args:
        index: the finished index.
        findings: the scan that has seen every record of it.
    """
    for bad in index.bad_lines:
        code, expected = ("malformed", "a record") if bad.is_json else ("not-json", "JSON")
        findings.add(code, bad.place, expected, bad.message)
    for number, line, record_id, first in index.repeated_ids():
        place = Place(index.files[number].name, line, record_id)
        findings.add("duplicate-id", place, "a unique id", f"the id of line {first}")
    for row, key, first_row, first_key in _contradictions(index):
        same = "to the same text and question, with both among the options"
        expected = f"{dumps(first_key)}, as {index.place(first_row)} has it {same}"
        findings.add("contradictory-label", index.place(row), expected, dumps(key))
    for file, facts in zip(index.files, index.facts, strict=True):
        if facts.rows == 0:
            findings.add("empty-file", Place(file.name), "records", "none")
    if not any(file.role == "eval" for file in index.files):
        place = Place(", ".join(file.name for file in index.files))
        findings.add("no-eval-file", place, "a file for evaluation", "none")
    lines = counted(sum(facts.rows for facts in index.facts), "line")
    return findings.result(f"{lines} in {counted(len(index.files), 'file')}")


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
    inputs: Any = value["input"]
    for key, item in inputs.items():
        if key == "state":
            yield from _keys_inside(item, "input.state")
        elif key != "questions":
            yield from _keys_inside({key: item}, "input")
    question = inputs["questions"]["decision"]
    rest = {key: item for key, item in question.items() if key not in _QUESTION_KEYS}
    yield from _keys_inside(rest, "input.questions.decision")


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
        if (
            text is not None
            and (earlier := seen.setdefault(folded(text), answer.key)) != answer.key
        ):
            return f"{earlier} and {answer.key}: {cut(text, 80)}"
    return None


CHECK: Final[Check[DataContext]] = Check(
    name="schema",
    question="Is every line a record with an allowed answer?",
    run=lambda context, findings: check_schema(context.index, findings),
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
