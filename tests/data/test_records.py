from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import question, record, write_jsonl
from messages import assert_says

from pact_eval.data.records import (
    AblatedFrom,
    parse_record,
    read_records,
)
from pact_eval.errors import RecordError


def test_a_choice_keeps_the_order_of_its_schema() -> None:
    field = parse_record(
        record(
            decision=question(criteria={"z": None, "a": "x", "m": "y"}), reference={"target": "m"}
        )
    )
    assert [answer.key for answer in field.field.answers] == ["z", "a", "m"]
    assert field.reference == 2


@pytest.mark.parametrize("spelling", ["noul", "boolean"])
@pytest.mark.parametrize(("target", "index"), [(False, 0), (True, 1)])
def test_a_boolean_is_false_then_true_whatever_its_criteria_order(
    spelling: str, target: bool, index: int
) -> None:
    decision = question(spelling, criteria={"true": "so", "false": "not so"})
    parsed = parse_record(record(decision=decision, reference={"target": target}))
    assert parsed.field.kind == "boolean"
    assert [(a.key, a.description) for a in parsed.field.answers] == [
        ("false", "not so"),
        ("true", "so"),
    ]
    assert parsed.reference == index


def test_a_score_has_levels_from_0() -> None:
    parsed = parse_record(record(decision=question("score", 5), reference={"target": 4}))
    assert [a.key for a in parsed.field.answers] == ["0", "1", "2", "3", "4"]
    assert parsed.reference == 4


@pytest.mark.parametrize("n", [2, 26])
def test_2_and_26_answers_are_allowed(n: int) -> None:
    assert parse_record(record(decision=question(n=n))).n_choices == n


BAD: list[tuple[dict[str, Any], str]] = [
    ({"decision": question(n=1)}, "expected 2 to 255 answers, got 1"),
    ({"decision": question(n=256)}, "expected 2 to 255 answers, got 256"),
    ({"decision": question("score", 256)}, "expected 2 to 255 answers, got 256"),
    ({"decision": question("rating")}, "expected type choice, noul .boolean. or score"),
    ({"decision": question(type=["choice"])}, "expected type choice"),
    ({"decision": question(instructions=None)}, "instructions are missing"),
    ({"decision": question(criteria=["a", "b"])}, "expected an object, got a list"),
    ({"decision": question(criteria={"a": 1, "b": None})}, "expected a description or null"),
    ({"decision": question(criteria={"": "x", "b": None})}, "an answer's name is empty"),
    ({"decision": question("score", criteria={"0": "x"})}, "expected a list, got an object"),
    ({"decision": question("noul", criteria={"yes": "x"})}, "named false and true, got yes"),
    ({"reference": {"target": "answer_9"}}, "reference.target is not an answer: expected one of"),
    ({"reference": {}}, "reference.target is not an answer"),
    ({"reference": None}, "reference: expected an object, got null"),
    ({"decision": question("noul"), "reference": {"target": 1}}, "expected true or false, got 1"),
    ({"decision": question("score"), "reference": {"target": True}}, "a level from 0 to 2"),
    ({"decision": question("score"), "reference": {"target": 3}}, "a level from 0 to 2, got 3"),
    ({"decision": question("score"), "reference": {"target": "1"}}, "a level from 0 to 2"),
    ({"id": ""}, "id: expected text, got empty text"),
    ({"id": [7]}, "id: expected text, got a list"),
    ({"id": True}, "id: expected text, got true/false"),
    ({"family": None}, "family: expected text, got nothing"),
    ({"split": "test"}, 'split: expected train or validation, got "test"'),
    ({"variant": "edited"}, "variant: expected base or counterfactual"),
    ({"evidence_certificate": []}, "evidence_certificate: expected an object, got a list"),
    ({"input": {"state": "x", "questions": {}}}, "expected the one field decision, got nothing"),
    ({"input": {"questions": {"decision": question()}}}, "input.state is missing"),
    ({"input": "x"}, "input: expected an object, got text"),
]


@pytest.mark.parametrize(("changes", "words"), BAD, ids=[words for _, words in BAD])
def test_a_malformed_record_is_refused_with_the_reason(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_record(record(**changes))


def ablated(record_id: str = "f1-base-ablated", **changes: Any) -> dict[str, Any]:
    value = record(record_id, variant="base", **changes)
    value.pop("reference")
    return {"ablation": {"record": "f1-base", "answers": [2, 0]}} | value


def test_an_ablated_context_is_read_where_it_is_asked_for() -> None:
    read = parse_record(ablated(), allow_ablated=True)
    assert (read.reference, read.variant) == (None, "ablated")
    assert read.ablation == AblatedFrom("f1-base", (2, 0))
    again = parse_record(ablated() | {"variant": "ablated"}, allow_ablated=True)
    assert again == read
    with pytest.raises(ValueError, match="ablated context.* no reference"):
        parse_record(ablated())
    plain = parse_record(record() | {"ablation": None}, allow_ablated=True)
    assert (plain.ablation, plain.variant) == (None, "base")


BAD_ABLATIONS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"ablation": {"record": "f1-base", "answers": answers}}, "two different canonical indices")
        for answers in ([1, 1], [0, 3], [-1, 0], [0], [0, 1, 2], [True, 0], [0.0, 1], "01", None)
    ),
    ({"ablation": {"answers": [0, 1]}}, "ablation.record: expected the id of the base record"),
    ({"ablation": "f1-base"}, "ablation: expected an object, got text"),
    ({"reference": {"target": "answer_1"}}, "reference: expected none"),
    ({"variant": "counterfactual"}, "variant: expected base or ablated"),
]


@pytest.mark.parametrize(("changes", "words"), BAD_ABLATIONS)
def test_a_malformed_ablation_is_refused_with_the_reason(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        parse_record(ablated() | changes, allow_ablated=True)


def test_a_plain_record_must_not_call_itself_ablated() -> None:
    with pytest.raises(ValueError, match="variant: expected base"):
        parse_record(record(variant="ablated"), allow_ablated=True)


def test_a_file_of_ablated_contexts_alone_is_read_and_a_mixed_one_told(tmp_path: Path) -> None:
    alone = write_jsonl(tmp_path / "alone.jsonl", [ablated("a"), ablated("b")])
    assert [record_read.id for record_read in read_records(alone, allow_ablated=True)] == ["a", "b"]
    with pytest.raises(RecordError, match=r"alone.jsonl:1 \(id a\): an ablated context"):
        read_records(alone)
    mixed = write_jsonl(tmp_path / "mixed.jsonl", [record("a"), record("b"), ablated("c")])
    words = r"mixed.jsonl:3 \(id c\): an ablated context, but line 1 is a record with a reference"
    with pytest.raises(RecordError, match=words):
        read_records(mixed, allow_ablated=True)
    assert len(read_records(mixed, require_reference=False)) == 3
    without = {key: value for key, value in record("b").items() if key != "reference"}
    bad = write_jsonl(
        tmp_path / "bad.jsonl", [record("a"), without, ablated("c") | {"ablation": {}}]
    )
    with pytest.raises(RecordError) as caught:
        read_records(bad, allow_ablated=True)
    assert [problem.line for problem in caught.value.problems] == [2, 3]
    assert_says(caught.value, "reference: ", "got null")


def test_all_problems_of_a_file_are_told_together_with_line_and_id(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "eval.jsonl",
        [
            record("f1-base"),
            '{"id": "f2-base", ',
            record("f1-base"),
            record("f3-base", split="test"),
            '{"id": "f4", "id": "f5"}',
        ],
    )
    with pytest.raises(RecordError) as caught:
        read_records(path)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5]
    text = str(caught.value)
    assert f"{path}:2: not valid JSON" in text
    assert_says(text, f"{path}:3 (id f1-base): ", "line 1")
    assert_says(text, f"{path}:4 (id f3-base): split: ", "train or validation", 'got "test"')
    assert f'{path}:5: duplicate key "id"' in text


@pytest.mark.parametrize("number", [0, -1, 7])
def test_a_whole_number_is_a_name(tmp_path: Path, number: int) -> None:
    names: dict[str, Any] = {"id": number, "family": number, "source_family": number}
    path = write_jsonl(tmp_path / "eval.jsonl", [record(**names)])
    (read,) = read_records(path)
    assert {read.id, read.family, read.source_family} == {str(number)}
    twice = write_jsonl(tmp_path / "twice.jsonl", [record(**names), record(str(number))])
    with pytest.raises(RecordError, match=f"id {number}.*already occurs at line 1"):
        read_records(twice)


def test_bytes_that_are_no_utf8_and_a_byte_order_mark_are_told(tmp_path: Path) -> None:
    path = tmp_path / "eval.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{}\n" + b'{"id": "\xff"}\n')
    with pytest.raises(RecordError) as refused:
        read_records(path)
    problems = refused.value.problems
    assert "byte order mark" in problems[0].message
    assert_says(problems[1].message, "UTF-8", "byte 9")


def test_an_empty_file_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="at least one record"):
        read_records(write_jsonl(tmp_path / "eval.jsonl", []))


def test_a_record_without_reference_is_read_only_when_asked_for(tmp_path: Path) -> None:
    ablated = record()
    del ablated["reference"]
    path = write_jsonl(tmp_path / "ablated.jsonl", [ablated])
    assert read_records(path, require_reference=False)[0].reference is None
    with pytest.raises(RecordError, match="reference"):
        read_records(path)
