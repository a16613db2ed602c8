"""What the check "families" says of a pair: the expectation, what was found, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import question, record, write_jsonl
from messages import assert_says

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import Finding


def said_of(folder: Path, base: dict[str, Any], other: dict[str, Any]) -> list[Finding]:
    """Audits one family whose contexts differ in one word."""
    rows = [
        record("f1-base", state="The gate is open.", reference={"target": "answer_0"}) | base,
        record("f1-counterfactual", state="The gate is shut.", reference={"target": "answer_1"})
        | other,
    ]
    write_jsonl(folder / "train.jsonl", rows)
    settings = DataAuditSettings(only=("families",))
    (check,) = audit_data(DatasetSource.of_folder(folder), settings).checks
    return list(check.findings)


def inputs(decision: dict[str, Any], state: str) -> dict[str, Any]:
    return {"input": {"state": state, "questions": {"decision": decision}}}


def test_a_pair_with_one_edited_word_and_two_references_is_healthy(tmp_path: Path) -> None:
    assert said_of(tmp_path, {}, {}) == []


@pytest.mark.parametrize("key", ["answer_0", "answer_1", "answer_2"])
def test_the_reference_that_both_members_have_is_named(tmp_path: Path, key: str) -> None:
    same = {"reference": {"target": key}}
    (finding,) = said_of(tmp_path, same, same)
    assert (finding.code, finding.actual) == ("reference-same", key)
    assert finding.place.line == 2


def test_answers_of_both_members_are_named(tmp_path: Path) -> None:
    other = question()
    other["criteria"] = dict(reversed(other["criteria"].items()))
    (finding,) = said_of(tmp_path, {}, inputs(other, "The gate is shut."))
    assert finding.code == "answers-differ"
    assert_says(finding.expected, "the answers", "answer_0, answer_1, answer_2")
    assert finding.actual == "answer_2, answer_1, answer_0"


def test_a_family_of_three_is_told_at_its_last_member(tmp_path: Path) -> None:
    rows = [record("f1-base"), record("f1-counterfactual"), record("f1-third")]
    write_jsonl(tmp_path / "train.jsonl", rows)
    settings = DataAuditSettings(only=("families",))
    (check,) = audit_data(DatasetSource.of_folder(tmp_path), settings).checks
    (finding,) = check.findings
    assert (finding.code, finding.actual, finding.place.line) == ("family-size", "3", 3)
