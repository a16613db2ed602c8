"""Receipts: when a step runs again, and the reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pact_eval.experiments.receipts import Receipts, Standing
from pact_eval.experiments.steps import Step

STEP = Step(
    "copy",
    "audit",
    ("copy", "a", "b"),
    (),
    inputs=(Path("a"), Path("folder")),
    outputs=(Path("b"),),
    extras=(Path("c"),),
)


@pytest.fixture
def receipts(tmp_path: Path) -> Receipts:
    """The receipt of a step that is done."""
    (tmp_path / "folder").mkdir()
    for name in ("a", "b", "folder/x"):
        (tmp_path / name).write_text(name)
    receipts = Receipts(tmp_path, tmp_path / "receipts")
    receipts.finish_step(STEP, receipts.expected(STEP))
    return receipts


def standing(receipts: Receipts, step: Step = STEP) -> Standing:
    return receipts.standing(step, receipts.expected(step))


def test_a_step_that_is_done_is_not_repeated(receipts: Receipts) -> None:
    assert standing(receipts) == Standing("done")


def test_a_receipt_has_hashes_by_path_and_no_times(receipts: Receipts) -> None:
    value = json.loads(receipts.path(STEP).read_text())
    # SHA-256 of "a", from coreutils.
    sha256 = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert value["inputs"]["a"] == sha256
    assert set(value["inputs"]) == {"a", "folder/x"}
    assert set(value["outputs"]) == {"b"}
    assert set(value) == {"format", "step", "stage", "command", "inputs", "versions", "outputs"}


@pytest.mark.parametrize("changed", ["a", "folder/x", "folder/new"])
def test_an_input_that_changed_is_named(receipts: Receipts, changed: str) -> None:
    (receipts.start / changed).write_text("other")
    assert standing(receipts) == Standing("changed", f"{changed} changed")


def test_an_input_that_is_written_again_as_it_was_changes_nothing(receipts: Receipts) -> None:
    (receipts.start / "a").write_text("a")
    assert standing(receipts).state == "done"


def test_an_output_that_is_missing_or_edited_is_named(receipts: Receipts) -> None:
    (receipts.start / "b").write_text("edited")
    edited = standing(receipts)
    assert edited.state == "changed"
    assert edited.why.startswith("b ")
    (receipts.start / "b").unlink()
    assert standing(receipts) == Standing("missing", "b is missing")


def test_a_new_command_and_a_new_version_are_reasons(receipts: Receipts) -> None:
    other = replace(STEP, words=("copy", "a", "b", "--fast"))
    assert standing(receipts, other) == Standing("changed", "its command changed")
    value = json.loads(receipts.path(STEP).read_text())
    value["versions"]["pact-eval"] = "0.0.1"
    receipts.path(STEP).write_text(json.dumps(value))
    assert standing(receipts).state == "changed"
    assert standing(receipts).why.startswith("pact-eval 0.0.1 is now ")


def test_a_step_that_was_killed_is_not_finished(receipts: Receipts) -> None:
    receipts.start_step(receipts.expected(STEP))
    assert standing(receipts) == Standing("missing", "not finished")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "pact-step-0"}'])
def test_a_file_that_is_no_receipt_counts_as_none(receipts: Receipts, text: str) -> None:
    receipts.path(STEP).write_text(text)
    assert standing(receipts) == Standing("missing", "new")


def test_a_file_that_somebody_adds_to_an_output_changes_nothing(receipts: Receipts) -> None:
    folder = replace(STEP, inputs=(Path("a"),), outputs=(Path("folder"),))
    receipts.finish_step(folder, receipts.expected(folder))
    for added in ("folder/new", "c"):
        (receipts.start / added).write_text("a note")
    assert standing(receipts, folder) == Standing("done")
    (receipts.start / "folder/x").unlink()
    assert standing(receipts, folder) == Standing("missing", "folder/x is missing")
