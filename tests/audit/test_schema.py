"""The check "schema" on records that are written out: keys that reveal, answers alike, splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question, record, write_jsonl

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult
from pact_eval.audit.schema import SchemaScan, check_schema
from pact_eval.data.files import DataFile, Role
from pact_eval.data.index import build_index


def checked(folder: Path, *files: list[Any], role: Role = "eval") -> CheckResult:
    folder.mkdir(exist_ok=True)
    data = [
        DataFile(f"{n}.jsonl", role, write_jsonl(folder / f"{n}.jsonl", rows))
        for n, rows in enumerate(files)
    ]
    scan = SchemaScan("schema", 50)
    return check_schema(build_index(data, scan), scan)


def of_input(folder: Path, decision: dict[str, Any] | None = None, **more: Any) -> CheckResult:
    """Check one record of three answers, of which the second is right, with more in its input."""
    row = record(decision=decision or question())
    row["input"] |= more
    return checked(folder, [row])


def findings_of(result: CheckResult) -> list[tuple[str, str]]:
    return [(finding.code, finding.actual) for finding in result.findings]


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("gold", 7, "in-input"),
        ("groundTruth", 7, "in-input"),
        ("truth_value", 7, "in-input"),
        ("goldfish", 7, None),
        ("rightAnswer", 7, "in-input"),
        ("right_answer", 7, "in-input"),
        ("correct_option", 7, "in-input"),
        ("goldLabelId", 7, "in-input"),
        ("expected_label", 7, "in-input"),
        ("true_key", 7, "in-input"),
        ("reference_option", 7, "in-input"),
        ("right_hand", 7, None),
        ("answer_option", 7, None),
        ("correct_expected", 7, None),
        ("Evidence_Certificate", 7, "in-input"),
        ("fact_states", {}, "in-input"),
        ("answer", 7, "like-key"),
        ("solution", 7, "like-key"),
        ("label_id", 7, "like-key"),
        ("targetIndex", 7, "like-key"),
        ("label_of_the_box", 7, None),
        ("option", 1, None),
        ("answer", 1, "in-input"),
        ("answer", 0, "like-key"),
        ("answer", 1.0, "like-key"),
        ("answer", True, "like-key"),
        ("answer", "b", "in-input"),
        ("answer", "c", "like-key"),
        ("answer", " ANSWER_1 ", "in-input"),
        ("answer", "answer_2", "like-key"),
        ("answer", [7, "B"], "in-input"),
        ("answer", [7, ["A"]], "like-key"),
        ("answer", {"x": {"y": "B"}}, "in-input"),
        ("answer", {"x": 7}, "like-key"),
        ("answer", None, "like-key"),
        ("label_of_the_box", "b", "in-input"),
    ],
)
def test_keys_of_the_input(tmp_path: Path, key: str, value: Any, code: str | None) -> None:
    codes = {"in-input": "reference-in-input", "like-key": "reference-like-key"}
    result = of_input(tmp_path, **{key: value})
    assert result.counts == ({codes[code]: 1} if code else {})
    assert all(finding.actual.startswith(f"input.{key}: ") for finding in result.findings)


def test_the_target_itself_is_revealed(tmp_path: Path) -> None:
    """Of a boolean, `true` reveals and 1 does; of a score, its level does and `true` does not."""
    for kind, value, reveals in (
        ("noul", True, True),
        ("noul", False, False),
        ("noul", 1, True),
        ("noul", "B", True),
        ("noul", "true", True),
        ("noul", "A", False),
        ("score", 1, True),
        ("score", True, False),
    ):
        code = "reference-in-input" if reveals else "reference-like-key"
        assert of_input(tmp_path, question(kind), answer=value).counts == {code: 1}


def test_an_object_with_a_target_is_a_reference_and_its_key_a_hint(tmp_path: Path) -> None:
    assert findings_of(of_input(tmp_path, answer=[{"target": 7}])) == [
        ("reference-in-input", 'input.answer: [{"target": 7}]'),
        ("reference-like-key", "input.answer.0.target: 7"),
    ]


def test_keys_inside_contexts_and_questions(tmp_path: Path) -> None:
    decision = question(note=[{"gold": 1}], criteria={"gold": "a", "answer_1": "b", "truth": "c"})
    result = of_input(
        tmp_path, decision, state={"gold": 1, "x": [0, {"truth": {"gold": 2}}]}, gold=[{"gold": 3}]
    )
    assert findings_of(result) == [
        ("reference-in-input", "input.state.gold: 1"),
        ("reference-in-input", 'input.state.x.1.truth: {"gold": 2}'),
        ("reference-in-input", "input.state.x.1.truth.gold: 2"),
        ("reference-in-input", 'input.gold: [{"gold": 3}]'),
        ("reference-in-input", "input.gold.0.gold: 3"),
        ("reference-in-input", "input.questions.decision.note.0.gold: 1"),
    ]


def test_values_are_shown_in_80_characters(tmp_path: Path) -> None:
    for length in (78, 79):  # and two quotes
        ((_, text),) = findings_of(of_input(tmp_path, gold="x" * length))
        shown = text.removeprefix("input.gold: ")
        assert shown == (f'"{"x" * 78}"' if length == 78 else f'"{"x" * 76}...')


@pytest.mark.parametrize(
    ("kind", "criteria", "code", "text"),
    [
        ("choice", {"A b": "x", "a  B": "y"}, "answers-alike", "A b and a  B: a  B"),
        ("choice", {"a": "x y", "b": "z", "c": "X  y"}, "descriptions-alike", "a and c: X  y"),
        ("choice", {"a": "x", "b": "X"}, None, None),
        ("choice", {"a": None, "b": None}, None, None),
        ("choice", {"a": "", "b": "", "c": None}, None, None),
        ("choice", {"a": None, "b": "x", "c": "x"}, "descriptions-alike", "b and c: x"),
        ("score", ["x", "y", "X"], "answers-alike", "0 and 2: X"),
        ("score", ["x", "x"], "answers-alike", "0 and 1: x"),
    ],
)
def test_answers_that_read_alike(
    tmp_path: Path, kind: str, criteria: Any, code: str | None, text: str | None
) -> None:
    target = 0 if kind == "score" else next(iter(criteria))
    row = record(decision=question(kind, criteria=criteria), reference={"target": target})
    assert findings_of(checked(tmp_path, [row])) == ([(code, text)] if code else [])


@pytest.mark.parametrize(
    ("role", "split", "told"),
    [
        ("eval", "validation", False),
        ("eval", "train", True),
        ("train", "train", False),
        ("train", "validation", True),
        ("selection", "train", False),
        ("calibration", "validation", True),
    ],
)
def test_splits_of_roles(tmp_path: Path, role: Role, split: str, told: bool) -> None:
    result = checked(tmp_path, [record(split=split)], role=role)
    assert result.counts.get("split-mismatch", 0) == told
    assert result.counts.get("no-eval-file", 0) == (role != "eval")


def test_a_split_that_nobody_named_is_not_judged(tmp_path: Path) -> None:
    provenance = {"source_id": "s", "labelled": {"defaults": ["split"]}}
    assert checked(tmp_path, [record(split="train", provenance=provenance)]).counts == {}


def test_an_id_that_appears_again_names_its_first_line(tmp_path: Path) -> None:
    rows = [record("a"), record("b"), record("a"), record("a")]
    result = checked(tmp_path, rows, [record("b")])
    assert [(finding.code, str(finding.place), finding.actual) for finding in result.findings] == [
        ("duplicate-id", "0.jsonl:3 (id a)", "the id of line 1"),
        ("duplicate-id", "0.jsonl:4 (id a)", "the id of line 1"),
    ]
    assert result.scope == "5 lines in 2 files"


def test_lines_that_are_no_records(tmp_path: Path) -> None:
    result = checked(tmp_path, ["{", "[]", "{}", record()], [])
    assert result.counts == {"not-json": 1, "malformed": 2, "empty-file": 1}
    assert result.scope == "4 lines in 2 files"


@pytest.mark.parametrize(
    ("rows", "incomplete"), [([record()], False), ([record(), "{"], True), ([], True)]
)
def test_an_incomplete_file(tmp_path: Path, rows: list[Any], incomplete: bool) -> None:
    data = DataFile("x", "eval", write_jsonl(tmp_path / "x.jsonl", rows))
    assert build_index([data]).is_incomplete is incomplete


def row(number: int, state: Any, answer: str, options: tuple[str, ...], **changes: Any) -> Any:
    decision = question(criteria=dict.fromkeys(options), **changes)
    reference = {"target": answer}
    return record(f"r{number}", state=state, decision=decision, reference=reference)


AB, BA, ABC = ("a", "b"), ("b", "a"), ("a", "b", "c")


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        (("t", "a", AB), ("t", "b", AB), True),
        (("t", "a", AB), ("t", "a", AB), False),
        (("t", "a", AB), ("u", "b", AB), False),  # as the members of a pair
        (("t", "a", AB), (" t\u200b\n", "b", BA), True),
        (("x 2²", "a", AB), ("x 22", "b", AB), False),
        (("us", "a", AB), ("US", "b", AB), False),
        (({"k": ["é"]}, "a", AB), ('{"k": ["\\u00e9"]}', "b", AB), True),
        (("t", "a", AB), ("t", "b", ABC), True),  # a class is missing in a smaller file
        (("t", "a", AB), ("t", "c", ABC), False),  # the other answer was not among the options
        (("t", "c", ABC), ("t", "a", AB), False),
    ],
)
def test_one_text_with_two_right_answers(
    tmp_path: Path, one: Any, other: Any, contradict: bool
) -> None:
    """In one file or in two; both rows are named."""
    first, second = row(1, *one), row(2, *other)
    for files, place in (([[first, second]], "0.jsonl:2"), ([[first], [second]], "1.jsonl:1")):
        result = checked(tmp_path, *files)
        assert result.counts == ({"contradictory-label": 1} if contradict else {})
        for finding in result.findings:
            assert str(finding.place) == f"{place} (id r2)"
            assert "0.jsonl:1 (id r1)" in finding.expected
            assert f'"{one[1]}"' in finding.expected
            assert finding.actual == f'"{other[1]}"'


def test_another_question_or_meaning_of_an_option_is_no_contradiction(tmp_path: Path) -> None:
    rows = [
        row(1, "t", "a", AB),
        row(2, "t", "b", AB, instructions="Another?"),
        record("r3", state="t", decision=question(criteria={"a": "x", "b": "y"}),
               reference={"target": "b"}),
        record("r4", state="t", decision=question("noul", instructions="Open?")),
        record("r5", state="t", decision=question("score", instructions="Open?")),
    ]  # fmt: skip
    assert checked(tmp_path, rows).counts == {}


def test_contradictions_of_random_records_against_all_pairs(tmp_path: Path) -> None:
    """A record is reported if any earlier one contradicts it, once per text, options and answer."""
    rng = np.random.default_rng(7)
    for trial in range(15):
        rows, met = [], []
        for number in range(int(rng.integers(1, 40))):
            state = f"t{rng.integers(6)}"
            options = tuple(rng.permutation(list("abcd"))[: rng.integers(2, 5)])
            answer = str(rng.choice(options))
            rows.append(row(number, state, answer, options))
            met.append((state, answer, frozenset(options)))
        expected = sum(
            any(
                state == other_state and answer != other and answer in others and other in options
                for other_state, other, others in met[:number]
            )
            for number, (state, answer, options) in enumerate(met)
            if (state, answer, options) not in met[:number]
        )
        half = len(rows) // 2
        for files in ([rows], [rows[:half], rows[half:]]):
            counts = checked(tmp_path / str(trial), *[part for part in files if part]).counts
            assert counts.get("contradictory-label", 0) == expected


def test_labels_of_a_table_that_contradict_each_other_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("text,label\nlate,refund\nbroken,replace\nlate,replace\n")
    audit = audit_data(DatasetSource.of_paths([path]), DataAuditSettings(only=["schema"]))
    (finding,) = audit.checks[0].findings
    assert (finding.severity, finding.place.line) == ("error", 4)
    assert "tickets.csv:2" in finding.expected
