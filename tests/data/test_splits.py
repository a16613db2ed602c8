"""Splitting a training file by source family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import record, write_jsonl
from datasets import audited, counts, healthy
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.data.splits import assign_roles, split_training_file
from pact_eval.errors import InputError, RecordError


@pytest.mark.slow
@given(st.lists(st.text(min_size=1, max_size=4), min_size=5, unique=True), st.integers(0, 99))
def test_roles_depend_on_names_and_seed_alone(names: list[str], seed: int) -> None:
    roles = assign_roles(names, select=2, calibrate=1, seed=seed)
    assert sorted(roles) == sorted(names)
    assert [list(roles.values()).count(r) for r in ("selection", "calibration")] == [2, 1]
    assert roles == assign_roles([*reversed(names), names[0]], select=2, calibrate=1, seed=seed)


def test_every_line_is_in_one_part_byte_for_byte(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    parts = split_training_file(source, tmp_path / "out", select=2, calibrate=3, seed=1)
    lines = {part.role: part.path.read_bytes().splitlines(keepends=True) for part in parts}
    assert [len(part.source_families) for part in parts] == [7, 2, 3]
    for part in parts:
        assert len(lines[part.role]) == part.records == 2 * part.families
        assert sum(part.kinds.values()) == part.records
    together = [line for part in lines.values() for line in part]
    assert sorted(together) == sorted(source.read_bytes().splitlines(keepends=True))
    for of_part in lines.values():  # in the order of the file
        assert of_part == [line for line in source.read_bytes().splitlines(True) if line in of_part]


def test_the_parts_pass_the_audit_against_their_manifest(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    out = tmp_path / "out"
    split_training_file(source, out, select=2, calibrate=2, seed=17)
    only: tuple[str, ...] = ("hashes", "schema", "families", "certificates", "separation")
    audit = audited(out, only)
    assert counts(audit) == {"no-eval-file": 1}  # a note: nothing here is for evaluation
    assert [file.role for file in audit.files] == ["train", "selection", "calibration"]
    manifest = json.loads((out / "manifest.json").read_bytes())
    assert manifest["split_from"]["seed"] == 17
    assert manifest["rows"]["selection.jsonl"] == audit.facts[1].rows


def test_a_last_line_without_line_feed_does_not_join_the_next(tmp_path: Path) -> None:
    rows = [record(f"f{n}-base", source_family=f"s{n}") for n in range(4)]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    source.write_bytes(source.read_bytes().rstrip(b"\n"))
    parts = split_training_file(source, tmp_path / "out", select=1, calibrate=1, seed=0)
    assert all(part.path.read_bytes().endswith(b"}\n") for part in parts)


def test_no_selection_no_file(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", [record(f"f{n}-base") for n in range(2)])
    parts = split_training_file(source, tmp_path / "out", select=0, calibrate=0, seed=0)
    assert [part.role for part in parts] == ["train"]


def test_too_few_source_families_are_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", [record()])
    with pytest.raises(InputError, match="more than 2 source families .*, got 1"):
        split_training_file(source, tmp_path / "out", select=1, calibrate=1, seed=0)
    assert not (tmp_path / "out").exists()


def test_a_family_of_two_source_families_is_refused(tmp_path: Path) -> None:
    rows = [
        record("a-base", source_family="s1"),
        record("a-counterfactual", source_family="s2"),
        record("b-base", source_family="s3"),
    ]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    with pytest.raises(RecordError, match=r"x.jsonl:2 \(id a-counterfactual\): expected family a"):
        split_training_file(source, tmp_path / "out", select=1, calibrate=1, seed=0)


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    with pytest.raises(InputError, match=r"found .*train\.jsonl, .*manifest\.json"):
        split_training_file(source, tmp_path / "data", select=1, calibrate=1, seed=0)
