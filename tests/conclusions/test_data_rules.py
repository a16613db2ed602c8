"""Rules of the conclusion on data, on findings that are typed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from messages import assert_says
from msgspec.structs import replace as replaced

from pact_eval.audit.findings import SEVERITIES, TAMPERED, CheckResult
from pact_eval.errors import InputError, Place
from pact_eval.evaluation.conclusions.data import (
    TRAINING_NOT_STATED,
    DataConclusion,
    DataLeak,
)
from pact_eval.runs.custody import Custody, OtherData, StatedTraining, TrainedOn

STATED = Custody(training=StatedTraining("0" * 64, {}))
ERROR, WARNING, NOTE = {"malformed": 3}, {"descriptions-alike": 2}, {"server-only": 5}
"""Codes of the check "schema", and how often they are found."""


def check(name: str, *codes: dict[str, int], skipped: str | None = None) -> dict[str, Any]:
    entries = {code: {"count": n} for found in codes for code, n in found.items()}
    return {"check": name, "scope": "", "codes": entries, "findings": [], "skipped": skipped}


def read(tmp_path: Path, *checks: dict[str, Any], **changes: Any) -> DataConclusion:
    """Return the conclusion of the JSON of an audit of two files, for runs on the first."""
    content: dict[str, Any] = {
        "files": [{"sha256": "1" * 64, "rows": 40}, {"sha256": "2" * 64, "rows": 2}],
        "checks": [*checks],
        "leaks": [],
    }
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(content | changes))
    return DataConclusion.read(path, ["1" * 64, None])


@pytest.mark.parametrize(
    ("checks", "status", "errors", "warnings", "failed"),
    [
        ((("schema", ERROR, WARNING), ("schema", WARNING)), "problems", 3, 4, ("schema",)),
        ((("schema", WARNING), ("schema", NOTE)), "doubts", 0, 2, ("schema",)),
        ((("schema", NOTE), ("b",)), "sound as far as checked", 0, 0, ()),
        ((("schema", NOTE, WARNING), ("schema", WARNING)), "doubts", 0, 4, ("schema", "schema")),
    ],
)
def test_the_worst_finding_decides(
    tmp_path: Path,
    checks: tuple[Any, ...],
    status: str,
    errors: int,
    warnings: int,
    failed: tuple[str, ...],
) -> None:
    conclusion = read(tmp_path, *(check(name, *codes) for name, *codes in checks))
    assert conclusion.status == status
    assert (conclusion.errors, conclusion.warnings, conclusion.failed) == (errors, warnings, failed)
    assert conclusion.records == 42
    assert conclusion.unchecked == ()


def test_checks_that_were_skipped_do_not_make_data_sound(tmp_path: Path) -> None:
    skipped = check("a", skipped="one source family")
    assert read(tmp_path, skipped).status == "not checked"
    partly = read(tmp_path, skipped, check("b"))
    assert partly.status == "sound as far as checked"
    assert [(part.name, part.reason) for part in partly.unchecked] == [("a", "one source family")]
    assert read(tmp_path).status == "not checked"


def test_codes_and_places_are_read(tmp_path: Path) -> None:
    several = check("schema", NOTE, ERROR, WARNING)
    several["findings"] = [
        {"code": "malformed", "file": "eval.jsonl", "line": 3, "id": "i3"},
        {"code": "server-only", "file": "eval.jsonl", "line": None, "id": 7},
    ]
    (audited,) = read(tmp_path, several).checks
    assert audited.counts == NOTE | ERROR | WARNING
    places = [(found.code, found.place) for found in audited.findings]
    assert places == [
        ("malformed", Place("eval.jsonl", 3, "i3")),
        ("server-only", Place("eval.jsonl", None, None)),
    ]
    assert [audited.count(severity) for severity in SEVERITIES] == [3, 2, 5]


def leak(file: str, digest: str, *items: str) -> dict[str, Any]:
    families = [item.partition("-")[0] for item in items]
    return {
        "file": file,
        "sha256": digest * 64,
        "sources": ["train.jsonl"],
        "items": [*items],
        "families": families,
    }


def test_leaks_count_for_the_dataset_of_the_run(tmp_path: Path) -> None:
    leaks = [leak("eval.jsonl", "1", "f1-a", "f1-b"), leak("other.jsonl", "2", "f2-a", "f1-a")]
    path = tmp_path / "audit.json"
    content = {
        "files": [{"sha256": "1" * 64, "rows": 1}, {"sha256": "2" * 64, "rows": 2}],
        "checks": [check("separation", {"shared-id": 3})],
        "leaks": leaks,
    }
    path.write_text(json.dumps(content))
    of_first = DataConclusion.read(path, ["1" * 64])
    assert of_first.status == "leak"
    assert of_first.items == ("f1-a", "f1-b")
    # Without the hash of a run, the leaks of every file count; each item once.
    for hashes in ([None], ["1" * 64, "2" * 64]):
        both = DataConclusion.read(path, hashes)
        assert both.items == ("f1-a", "f1-b", "f2-a")
        assert both.leak is not None
        assert both.leak.families == ("f1", "f2")
        assert both.leak.files == ("train.jsonl",)
    foreign = DataConclusion.read(path, ["3" * 64])
    assert foreign.status == "not checked"
    assert_says(foreign.unchecked[0].reason, "audit.json", "other files than the runs", "33333")


@pytest.mark.parametrize(
    "changes",
    [
        {"files": 3},
        {"files": [{"sha256": "1" * 64}]},
        {"files": [{"sha256": "1" * 64, "rows": True}]},
        {"checks": [{"check": "a"}]},
        {"checks": [{"check": "a", "scope": "", "codes": {"x": {"count": 1}}}]},
        {"leaks": None},
        {"leaks": [{"file": "x"}]},
        {"leaks": [{"file": "x", "sha256": "1", "sources": [1], "items": [], "families": []}]},
    ],
)
def test_what_is_no_audit_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected the output of `pact-audit data --json`"):
        read(tmp_path, **changes)


def leaking() -> DataConclusion:
    overlap = DataLeak(("i1", "i2"), ("f1", "f2"), ("train.jsonl",))
    separation = CheckResult("separation", "", counts={"shared-id": 3})
    shortcuts = CheckResult("shortcuts", "", counts={"shortcut-suspected": 2})
    return DataConclusion(checks=(separation, shortcuts), leak=overlap)


SOUND = DataConclusion(checks=(CheckResult("schema", ""),))


def test_a_leak_is_limited_to_the_items_of_runs() -> None:
    some = leaking().of_items({"i9": "f9", "i2": "f2"})
    assert (some.status, some.items) == ("leak", ("i2",))
    assert some.leak is not None
    assert (some.leak.items, some.leak.families) == (("i2",), ("f2",))
    none = leaking().of_items({"i9": "f9"})
    assert (none.status, none.items, none.leak) == ("problems", (), None)


def test_without_the_leaking_families_the_other_checks_decide() -> None:
    rest = leaking().leaving_out()
    assert (rest.status, rest.items) == ("doubts", ())
    assert rest.leak is not None
    assert rest.leak.left_out
    assert rest.leak.items == ("i1", "i2")
    changed = replace(leaking(), changed=("manifest.json",)).leaving_out()
    assert changed.status == "problems"
    assert SOUND.leaving_out() is SOUND


def test_what_runs_record_of_their_training_is_added() -> None:
    assert SOUND.with_custody([STATED, STATED]) == SOUND
    assert SOUND.with_custody([STATED, Custody()]).unchecked == (TRAINING_NOT_STATED,)
    overlap = TrainedOn(("i1",), ("f1",), ("train.jsonl",))
    twice = SOUND.with_custody([replaced(STATED, trained_on=overlap)] * 2)
    assert (twice.status, twice.items) == ("leak", ("i1",))
    more = TrainedOn(("i2", "i3"), ("f2", "f3"), ("more.jsonl",))
    joined = leaking().with_custody([replaced(STATED, trained_on=more)])
    assert joined.leak is not None
    assert joined.items == joined.leak.items == ("i1", "i2", "i3")
    assert joined.leak.files == ("train.jsonl", "more.jsonl")


def test_a_changed_file_is_a_problem_and_a_leak_is_worse() -> None:
    other = replaced(STATED, other_data=OtherData("manifest.json", "1", "2"))
    changed = SOUND.with_custody([other, other])
    assert (changed.status, changed.changed) == ("problems", ("manifest.json",))
    assert changed.tampered
    assert not SOUND.tampered
    both = leaking().with_custody([other])
    assert (both.status, both.changed) == ("leak", ("manifest.json",))
    blind = SOUND.with_custody([replaced(STATED, unchecked="train.jsonl: cannot be read")] * 2)
    assert [part.reason for part in blind.unchecked] == ["train.jsonl: cannot be read"]
    (reason,) = blind.open_reasons
    assert_says(reason, "files of the manifest", "train.jsonl: cannot be read")
    without = DataConclusion.without_audit("give --data")
    assert without.open_reasons == ("give --data",)
    assert not without.tampered


def test_a_check_that_was_tampered_with_is_found_by_its_code() -> None:
    for code, expected in ((min(TAMPERED), True), ("path-outside", False)):
        audited = CheckResult("hashes", "", counts={code: 1})
        assert DataConclusion(checks=(audited,)).tampered == expected
