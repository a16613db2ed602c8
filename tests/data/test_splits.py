"""Splitting a training file by source family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import record, write_jsonl
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from spoiled_datasets import audited, counts, healthy

from pact_cli.audit.main import main
from pact_eval.data.splits import HeldOut, assign_roles, split_training_file
from pact_eval.errors import InputError, RecordError, RoleError


@pytest.mark.slow
@given(st.lists(st.text(min_size=1, max_size=4), min_size=5, unique=True), st.integers(0, 99))
def test_roles_depend_on_names_and_seed_alone(names: list[str], seed: int) -> None:
    roles = assign_roles(names, HeldOut(2, 1, seed))
    assert sorted(roles) == sorted(names)
    assert [list(roles.values()).count(r) for r in ("selection", "calibration")] == [2, 1]
    assert roles == assign_roles([*reversed(names), names[0]], HeldOut(2, 1, seed))


def test_roles_alternate_as_in_the_released_code() -> None:
    """Its split of 34 source families by seed 17: published names of each role."""
    roles = assign_roles([f"s{number:02}" for number in range(34)], HeldOut(2, 2, 17))
    names = {role: {name for name in roles if roles[name] == role} for role in roles.values()}
    assert names["selection"] == {"s14", "s20"}
    assert names["calibration"] == {"s18", "s04"}
    assert len(names["train"]) == 30


def test_six_for_selection_start_with_the_two_of_the_released_code() -> None:
    names = [f"s{number:02}" for number in range(34)]
    two, six = (assign_roles(names, HeldOut(select, 2, 17)) for select in (2, 6))
    assert {name for name in names if two[name] == "selection"} < {
        name for name in names if six[name] == "selection"
    }
    assert [name for name in names if six[name] == "calibration"] == ["s04", "s18"]


def test_named_source_families_replace_the_drawn_ones() -> None:
    names = [f"s{number}" for number in range(8)]
    roles = assign_roles(names, HeldOut(3, 2, 1, selection=("s5",)))
    assert [name for name in names if roles[name] == "selection"] == ["s5"]
    assert list(roles.values()).count("calibration") == 2
    both = assign_roles(names, HeldOut(selection=("s5", "s1"), calibration=("s0",)))
    assert [role for role in both.values() if role != "train"] == [
        "calibration",
        "selection",
        "selection",
    ]


@pytest.mark.parametrize(
    ("held_out", "message"),
    [
        (HeldOut(selection=("s9",)), "no source family is named s9; the file has s0, s1, s2, s3"),
        (HeldOut(selection=("s1",), calibration=("s1",)), "selection and for calibration: s1"),
    ],
)
def test_a_name_without_one_role_is_refused(held_out: HeldOut, message: str) -> None:
    with pytest.raises(RoleError, match=message):
        assign_roles(["s0", "s1", "s2", "s3"], held_out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--select", "s9"], "no source family is named s9"),
        (["--select", "s1", "--select", "1"], "expected one number, or names"),
    ],
)
def test_wrong_names_on_the_command_line_are_usage_errors(
    tmp_path: Path, words: list[str], message: str
) -> None:
    rows = [record(f"f{n}-base", source_family=f"s{n}") for n in range(5)]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    result = CliRunner().invoke(main, ["split", str(source), "--out", str(tmp_path / "o"), *words])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "o").exists()


def test_names_on_the_command_line_reach_files_and_manifest(tmp_path: Path) -> None:
    rows = [record(f"f{n}-base", source_family=f"s{n}") for n in range(5)]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    words = ["--select", "s3", "--select", "s1", "--calibrate", "s0"]
    out = tmp_path / "parts"
    result = CliRunner().invoke(main, ["split", str(source), "--out", str(out), *words])
    assert result.exit_code == 0, result.output
    lines = (out / "selection.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["source_family"] for line in lines] == ["s1", "s3"]
    origin = json.loads((out / "manifest.json").read_bytes())["split_from"]
    assert (origin["selection"], origin["calibration"]) == (["s3", "s1"], ["s0"])
    assert (origin["select"], origin["calibrate"], origin["seed"]) == (2, 1, 17)


def test_every_line_is_in_one_part_byte_for_byte(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    parts = split_training_file(source, tmp_path / "out", HeldOut(2, 3, 1))
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
    split_training_file(source, out, HeldOut(2, 2, 17))
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
    parts = split_training_file(source, tmp_path / "out", HeldOut(1, 1, 0))
    assert all(part.path.read_bytes().endswith(b"}\n") for part in parts)


def test_no_selection_no_file(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", [record(f"f{n}-base") for n in range(2)])
    parts = split_training_file(source, tmp_path / "out", HeldOut(0, 0, 0))
    assert [part.role for part in parts] == ["train"]


def test_too_few_source_families_are_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "x.jsonl", [record()])
    with pytest.raises(InputError, match="expected more than 2 source families .*, got 1"):
        split_training_file(source, tmp_path / "out", HeldOut(1, 1, 0))
    assert not (tmp_path / "out").exists()


def test_a_family_of_two_source_families_is_refused(tmp_path: Path) -> None:
    rows = [
        record("a-base", source_family="s1"),
        record("a-counterfactual", source_family="s2"),
        record("b-base", source_family="s3"),
    ]
    source = write_jsonl(tmp_path / "x.jsonl", rows)
    with pytest.raises(
        RecordError, match=r"x.jsonl:2 \(id a-counterfactual\): family a: expected one"
    ):
        split_training_file(source, tmp_path / "out", HeldOut(1, 1, 0))


def test_files_that_are_there_are_not_overwritten(tmp_path: Path) -> None:
    source = healthy().write(tmp_path / "data") / "train.jsonl"
    with pytest.raises(InputError, match=r"found .*train\.jsonl, .*manifest\.json"):
        split_training_file(source, tmp_path / "data", HeldOut(1, 1, 0))
