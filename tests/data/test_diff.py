"""What changed between two versions of a file, against changes that were made."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import question, record, write_jsonl

from pact_eval.data.diff import diff_datasets
from pact_eval.errors import RecordError


def test_changes_that_were_made_are_the_ones_that_are_told(tmp_path: Path) -> None:
    rows = [record(f"f{n}-base") for n in range(6)]
    old = write_jsonl(tmp_path / "old.jsonl", rows)
    changed = [
        rows[1] | {"domain": "energy", "note": 1},
        record("f2-base", reference={"target": "answer_0"}),
        record("f3-base", state="Another."),
        record("f4-base", decision=question(criteria={"answer_1": None, "answer_0": None})),
    ]
    new = write_jsonl(tmp_path / "new.jsonl", [rows[0], *changed, record("f9-base")])
    diff = diff_datasets(old, new)
    assert [(place.id, place.line) for place in diff.added] == [("f9-base", 6)]
    assert [(place.id, place.line) for place in diff.removed] == [("f5-base", 6)]
    assert [(change.id, change.fields, change.references) for change in diff.changed] == [
        ("f1-base", ("domain", "note"), None),
        ("f2-base", ("reference.target",), ("answer_1", "answer_0")),
        ("f3-base", ("input.state",), None),
        ("f4-base", ("input.questions.decision.criteria",), None),
    ]
    assert (diff.old_records, diff.new_records, diff.unchanged, diff.flipped) == (6, 6, 1, 1)
    assert not diff.reordered


def test_order_and_spelling_of_the_json_do_not_count_but_order_of_answers_does(
    tmp_path: Path,
) -> None:
    one, two = record("a-base", state="é"), record("b-base")
    old = write_jsonl(tmp_path / "old.jsonl", [one, two])
    turned = dict(reversed(one.items()))
    new = tmp_path / "new.jsonl"
    new.write_bytes(old.read_bytes().replace("é".encode(), b"\\u00e9"))
    assert diff_datasets(old, new).changed == ()
    reversed_file = write_jsonl(tmp_path / "r.jsonl", [two, turned])
    diff = diff_datasets(old, reversed_file)
    assert (diff.changed, diff.reordered, diff.unchanged) == ((), True, 2)
    criteria = dict(reversed(question()["criteria"].items()))
    other = write_jsonl(
        tmp_path / "o.jsonl", [record("a-base", state="é", decision=question(criteria=criteria))]
    )
    assert [change.fields for change in diff_datasets(old, other).changed] == [
        ("input.questions.decision.criteria",)
    ]


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [record()])
    new = write_jsonl(tmp_path / "new.jsonl", [record(), record()])
    with pytest.raises(RecordError, match=r"new.jsonl:2 .*ids must be unique"):
        diff_datasets(old, new)
