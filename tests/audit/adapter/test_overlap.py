"""The audit of an adapter against data, by hand: which records it was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import record, write_jsonl
from custody.adapters import FIXTURES, HOLDOUT, adapter_trained_on
from messages import assert_says

from pact_eval.audit.adapter.audit import AdapterAudit, MeasuredOverlap, audit_adapter
from pact_eval.audit.findings import CheckResult
from pact_eval.data.splits import HeldOut, split_training_file, write_manifest
from pact_fixtures.generator.dataset import generate_dataset, write_dataset
from pact_fixtures.replicate.experiment import MINIATURE, read_plan_of

TEXTS = (
    "The clerk of the harbour office noted on Monday that the seal of the crate was intact.",
    "A lamp above the north gate burned from dusk until the second bell of the watch.",
    "Two barrels of lime were delivered late, so masons waited by the unfinished wall.",
    "Every ferry to the island was cancelled because fog had covered the whole strait.",
)


def checked(audit: AdapterAudit, name: str) -> CheckResult:
    return next(check for check in audit.checks if check.check == name)


def overlap(adapter: Path, *data: Path, near_duplicate: float = 0.8) -> CheckResult:
    audit = audit_adapter(adapter, data=data, near_duplicate=near_duplicate, keep=20)
    return checked(audit, "overlap")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two files: families f0 to f3 to train on, g0 to g3 to evaluate with."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name, letter in (("train", "f"), ("holdout", "g")):
        rows = [
            record(
                f"{letter}{n}-base",
                state=TEXTS[n] if letter == "g" else f"Note {n} of the archive.",
            )
            for n in range(4)
        ]
        write_jsonl(folder / f"{name}.jsonl", rows)
    write_manifest(folder)
    return folder


def test_without_a_record_there_is_a_note_and_no_error(tmp_path: Path, data: Path) -> None:
    audit = audit_adapter(adapter_trained_on(tmp_path / "a"), data=[data], keep=5)
    assert checked(audit, "training").counts == {"training-not-stated": 1}
    assert_says(checked(audit, "overlap").skipped, "no training_data.json", "can be read")


def test_families_contexts_and_texts_are_counted_apart(tmp_path: Path, data: Path) -> None:
    """g0 by its family, g1 by its context, g2 by its text; g3 was not seen."""
    rows = [
        record("x-base", family="g0", state="Something else entirely, about tides and ropes."),
        record("y-base", family="y", state=TEXTS[1]),
        record("z-base", family="z", state=TEXTS[2].replace("late", "early")),
    ]
    seen = write_jsonl(data / "notes.jsonl", rows)
    result = overlap(adapter_trained_on(tmp_path / "a", train=[seen]), data, near_duplicate=0.75)
    assert result.counts == {
        "trained-family": 1,
        "trained-context": 1,
        "trained-near-duplicate": 1,
    }
    assert [(finding.code, finding.place.record_id) for finding in result.findings] == [
        ("trained-family", "g0-base"),
        ("trained-context", "g1-base"),
        ("trained-near-duplicate", "g2-base"),
    ]
    assert result.measured == MeasuredOverlap(4, 4, 3, at_hand=3, recorded=3, threshold=0.75)
    assert result.scope == "4 families to evaluate with"
    assert [finding.actual for finding in result.findings[:2]] == ["the family g0", "the family g1"]
    (leak,) = result.leaks
    assert (leak.items, leak.sources) == (("g0-base", "g1-base", "g2-base"), ("notes.jsonl",))


def test_texts_need_the_files_of_the_training(tmp_path: Path, data: Path) -> None:
    row = record("z-base", family="z", state=TEXTS[2].replace("late", "early"))
    seen = write_jsonl(tmp_path / "notes.jsonl", [row])
    adapter = adapter_trained_on(tmp_path / "a", train=[seen])
    assert overlap(adapter, data).counts == {"training-not-at-hand": 1}
    assert overlap(adapter, data, seen, near_duplicate=0.75).counts == {"trained-near-duplicate": 1}


def test_files_of_the_training_are_not_evaluated(tmp_path: Path, data: Path) -> None:
    """A file without a role counts as training data if the adapter was trained on it."""
    seen = (data / "train.jsonl").rename(tmp_path / "records.jsonl")
    adapter = adapter_trained_on(tmp_path / "a", train=[seen])
    assert overlap(adapter, seen, data / "holdout.jsonl").counts == {}
    assert overlap(adapter, seen).measured.evaluated == 0


def test_lines_that_are_no_records_are_left_out(tmp_path: Path, data: Path) -> None:
    holdout = data / "holdout.jsonl"
    holdout.write_text("{}\n" + holdout.read_text("utf-8") + "[1]\n", "utf-8")
    adapter = adapter_trained_on(tmp_path / "a", train=[data / "train.jsonl"])
    result = overlap(adapter, holdout, data / "train.jsonl")
    assert (result.counts, result.measured.evaluated) == ({}, 4)


@pytest.mark.slow
def test_no_alarm_on_the_adapters_of_the_miniature(tmp_path: Path) -> None:
    """Records of its seventeen adapters, from its generated and divided data, meet no holdout."""
    write_dataset(generate_dataset("small", 17), tmp_path / "data")
    parts = tmp_path / "parts"
    split_training_file(tmp_path / "data" / "train.jsonl", parts, HeldOut())
    roles = {
        "train": [parts / "train.jsonl"],
        "selection": [parts / "selection.jsonl"],
        "calibration": [parts / "calibration.jsonl"],
    }
    trainings = list(read_plan_of(MINIATURE).trainings())
    assert len(trainings) == 17
    for training in trainings:
        facts = {"recipe": training.arm.name}
        adapter = adapter_trained_on(tmp_path / training.name, facts, **roles)
        audit = audit_adapter(adapter, data=[parts, tmp_path / "data"], keep=5)
        assert checked(audit, "training").counts == {}
        result = checked(audit, "overlap")
        assert result.counts == {}
        assert result.measured.at_hand > 0


@pytest.mark.parametrize("arm", ["pact", "nimble_recipe"])
def test_no_alarm_on_the_bundled_adapters(arm: str) -> None:
    audit = audit_adapter(FIXTURES / "adapters" / arm, data=[HOLDOUT.parent], keep=5)
    assert not any(check.counts for check in audit.checks)
    measured = checked(audit, "overlap").measured
    assert (measured.evaluated, measured.families, measured.learnt_families) == (324, 162, 0)
    stated = json.loads((FIXTURES / "adapters" / arm / "training_data.json").read_text("utf-8"))
    assert stated["roles"]["train"]["files"][0]["rows"] == 1440
