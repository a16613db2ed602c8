"""Requests and decisions, against what the schema and the files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import question

from pact_eval.data.records import parse_field
from pact_eval.errors import RequestError
from pact_eval.prompts.requests import Decision, parse_schema, read_context, read_schema

REFUND: dict[str, Any] = question("noul", instructions="A refund?")


@pytest.mark.parametrize(
    "schema",
    [
        {"refund": REFUND, "other": REFUND},
        {"questions": {"refund": REFUND, "other": REFUND}},
    ],
)
def test_questions_are_read_alone_or_under_their_key(schema: Any) -> None:
    assert [field.name for field in parse_schema(schema)] == ["refund", "other"]


@pytest.mark.parametrize("schema", ["refund", None, {"questions": {}}, {"a": 1}])
def test_what_is_no_object_of_questions_is_refused(schema: Any) -> None:
    with pytest.raises(RequestError):
        parse_schema(schema)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "an object of questions by field name, got a list"),
        ("{}", "an object of questions"),
        ('{"a": {"type": "choice", "instructions": "x", "criteria": {"b": null}}}', "got 1"),
        ('{"a": {"type": "noul", "instructions": "x"}, "a": {}}', "duplicate key"),
        (None, "no such file"),
    ],
)
def test_a_schema_that_cannot_be_read_is_named(
    tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "schema.json").write_text(text)
    with pytest.raises(RequestError, match=words) as caught:
        read_schema(tmp_path / "schema.json")
    assert "schema.json" in str(caught.value)


def test_a_context_is_json_by_its_ending_alone(tmp_path: Path) -> None:
    for name in ("a.json", "a.txt"):
        (tmp_path / name).write_bytes(b'{"gate":\r\n"open"}')
    assert read_context(str(tmp_path / "a.json")) == {"gate": "open"}
    assert read_context(str(tmp_path / "a.txt")) == '{"gate":\r\n"open"}'
    for missing in (str(tmp_path / "b.txt"), "missing.md", str(tmp_path)):
        with pytest.raises(RequestError, match="no such file"):
            read_context(missing)
    for text, words in (("{", r"bad\.json"), ('{"a": 1, "a": 2}', 'duplicate key "a"')):
        (tmp_path / "bad.json").write_text(text, "utf-8")
        with pytest.raises(RequestError, match=words):
            read_context(str(tmp_path / "bad.json"))
    long = "A text that is no file name. " * 50
    assert read_context(long) == long


def test_the_answer_is_the_most_probable_one_and_ties_go_to_the_first() -> None:
    field = parse_field("grade", question("score"))
    levels = len(field.answers)
    tied = [0.0] * levels
    tied[1] = tied[2] = 0.5
    decision = Decision(field, tuple(tied), None, None)
    assert decision.answer == "1"
    assert decision.expected_level == pytest.approx(1.5)  # (1 + 2) / 2
    refund = Decision(parse_field("refund", REFUND), (0.3, 0.7), None, None)
    assert refund.answer == "true"
    assert refund.expected_level is None
