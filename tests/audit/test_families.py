"""What the check "families" says of a pair: the expectation, what was found, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import question, record, write_jsonl
from messages import assert_says

from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult, Finding


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


def check_of(folder: Path, rows: list[Any], **settings: Any) -> CheckResult:
    write_jsonl(folder / "train.jsonl", rows)
    audit = audit_data(
        DatasetSource.of_folder(folder), DataAuditSettings(only=("families",), **settings)
    )
    (check,) = audit.checks
    return check


def contexts(folder: Path, base: Any, other: Any, **settings: Any) -> list[tuple[str, str, str]]:
    """Return code, expectation and text of the findings of a pair with these contexts."""
    rows = [
        record("f1-base", state=base, reference={"target": "answer_0"}),
        record("f1-counterfactual", state=other, reference={"target": "answer_1"}),
    ]
    result = check_of(folder, rows, **settings)
    assert {finding.place.line for finding in result.findings} <= {2}
    return [(finding.code, finding.expected, finding.actual) for finding in result.findings]


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ({"a": 1, "b": "x"}, {"a": 1.0, "b": "y"}),
        ({"a": 1, "b": "x"}, {"a": True, "b": "y"}),
        ({"a": "x", "b": "y"}, {"b": "y", "a": "z"}),
        ({"a": "x"}, {"a": "z", "b": "y"}),
        (["x", "y"], ["z"]),
        (["x"], {"0": "z"}),
        ([["x"], 1], ["x", 1]),
        (["x", None], ["z", []]),
    ],
)
def test_contexts_differ_in_text_alone(tmp_path: Path, base: Any, other: Any) -> None:
    ((code, _, text),) = contexts(tmp_path, base, other)
    assert code == "context-shape"
    assert_says(text, "other keys", "items", "values", "are not text")


@pytest.mark.parametrize(
    ("base", "other"),
    [
        ({"a": [1, 2.5, None, True], "b": "x"}, {"a": [1, 2.5, None, True], "b": "z"}),
        ([{}, [], "x"], [{}, [], "z"]),
    ],
)
def test_one_leaf_differs(tmp_path: Path, base: Any, other: Any) -> None:
    assert contexts(tmp_path, base, other) == []


def test_each_leaf_that_differs_is_named(tmp_path: Path) -> None:
    base, other = {"turns": ["a", "b", "c"]}, {"turns": ["a", "d", "e"]}
    ((code, expected, text),) = contexts(tmp_path, base, other)
    assert (code, text) == ("context-shape", "2: turns.1, turns.2")
    assert "one string leaf" in expected


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ("The gate is open.", "the same text"),
        ("the GATE is open!", "only punctuation, case or spaces differ"),
    ],
)
def test_a_context_without_an_edited_word(tmp_path: Path, other: str, text: str) -> None:
    ((code, _, actual),) = contexts(tmp_path, "The gate is open.", other)
    assert (code, actual) == ("context-same", text)


@pytest.mark.parametrize(("limit", "told"), [(3, False), (2, True), (1, True)])
def test_the_longest_edit(tmp_path: Path, limit: int, told: bool) -> None:
    """Three words are added."""
    reported = contexts(
        tmp_path, "The gate is open.", "The gate is not yet fully open.", max_edit_words=limit
    )
    expected = [("edit-too-long", f"an edit of {limit} words at most", "3")]
    assert reported == expected * told


@pytest.mark.parametrize("label", ["split", "domain", "source_family"])
def test_labels_of_both_members(tmp_path: Path, label: str) -> None:
    value = "train" if label == "split" else "elsewhere"
    rows = [
        record("f1-base", state="It is open.", reference={"target": "answer_0"}),
        record("f1-counterfactual", state="It is shut.", **{label: value}),
    ]
    (finding,) = check_of(tmp_path, rows).findings
    assert (finding.code, finding.actual, finding.place.line) == ("family-labels", value, 2)
    assert finding.expected == f"{label} {rows[0][label]}"


def test_another_wording_of_the_question_is_shown(tmp_path: Path) -> None:
    rows = [
        record("f1-base", state="It is open.", reference={"target": "answer_0"}),
        record("f1-counterfactual", state="It is shut.", decision=question(instructions="Which?")),
    ]
    (finding,) = check_of(tmp_path, rows).findings
    assert (finding.code, finding.place.line) == ("question-differs", 2)
    assert finding.comparison is not None


def test_variants_of_a_family(tmp_path: Path) -> None:
    one = [record("f1-base"), record("f1-other", variant="base")]
    two = [record("f2-x", variant="counterfactual"), record("f2-counterfactual")]
    result = check_of(tmp_path, [*one, *two, record("f3-base")])
    assert [(finding.code, finding.place.line, finding.actual) for finding in result.findings] == [
        ("family-size", 5, "1"),
        ("family-variants", 2, "base and base"),
        ("family-variants", 4, "counterfactual and counterfactual"),
    ]
    assert (result.scope, result.skipped) == ("3 families", None)


@pytest.mark.parametrize(
    ("paired", "skipped"),
    [
        (0, "no record says that it belongs to a pair"),
        (1, "1 group of which none says that it belongs to a pair"),
    ],
)
def test_records_of_no_pair_are_not_judged(tmp_path: Path, paired: int, skipped: str) -> None:
    """A labelled file whose records name no variant."""
    provenance = {"source_id": "s", "labelled": {"defaults": ["variant"]}}
    rows = [record("a-base", provenance=provenance)]
    pair = [
        record("f1-base", state="It is open.", reference={"target": "answer_0"}),
        record("f1-counterfactual", state="It is shut.", reference={"target": "answer_1"}),
    ]
    result = check_of(tmp_path, rows + pair * paired)
    assert (result.skipped, result.counts) == (skipped, {})
    assert result.scope == ("2 families" if paired else "1 family")


def test_a_pair_of_which_one_member_names_its_variant_is_judged(tmp_path: Path) -> None:
    provenance = {"source_id": "s", "labelled": {"defaults": ["variant"]}}
    rows = [record("f1-base", provenance=provenance), record("f1-counterfactual")]
    result = check_of(tmp_path, rows)
    assert result.skipped is None
    assert set(result.counts) == {"reference-same", "context-same"}
