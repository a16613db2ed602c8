"""No mutation of a healthy dataset passes unnoticed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from spoiled_datasets import Data, audited, counts, healthy

MEANING: tuple[str, ...] = ("schema", "families", "certificates")
"""The checks that see a mutation although the manifest was written anew after it."""

UNSEEN = (
    # Any id will do that is no other record's.
    ("id",),
    # Where a record comes from cannot be known from it.
    ("provenance",),
    ("reference", "source"),
    ("reference", "human_reviewed"),
    ("reference", "distribution"),
    # What the checks were is not told by the format, only whether they passed.
    ("evidence_certificate", "necessity_checks"),
    # Optional: its absence says nothing.
    ("evidence_certificate", "necessity_checks_passed"),
)
"""Places of which no check of one file's meaning could say anything."""

Path_ = tuple[str | int, ...]


def leaves(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, (*path, number))
    else:
        yield path


def seen(record: dict[str, Any], path: Path_) -> bool:
    if any(path[: len(unseen)] == unseen for unseen in UNSEEN):
        return False
    if path == ("reference", "target"):
        # Among three answers or more a wrong one may still differ from the other member's.
        return bool(record["input"]["questions"]["decision"]["type"] == "noul")
    if path[:2] == ("evidence_certificate", "fact_states"):
        focus = record["evidence_certificate"]["spec"]["focus_atom"]
        return bool(path[2] == focus)
    return True


def mutate(record: dict[str, Any], path: Path_, how: str) -> None:
    *parents, last = path
    holder: Any = record
    for step in parents:
        holder = holder[step]
    value = holder[last]
    if how == "deleted":
        del holder[last]
    elif how == "null":
        holder[last] = None
    elif how == "other type":
        holder[last] = [value]
    elif isinstance(value, bool):
        holder[last] = not value
    elif isinstance(value, int):
        holder[last] = value + 1
    else:
        holder[last] = f"{value} indeed"


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_change_of_one_record_passes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    spoilt = healthy(families=3)
    records = data.draw(st.sampled_from([spoilt.train, spoilt.holdout]))
    record = data.draw(st.sampled_from(records))
    path = data.draw(st.sampled_from([leaf for leaf in leaves(record) if seen(record, leaf)]))
    how = data.draw(st.sampled_from(["changed", "deleted", "null", "other type"]))
    before = copy.deepcopy(record)
    mutate(record, path, how)
    assume(record != before)
    folder = spoilt.write(tmp_path_factory.mktemp("mutated"))
    assert counts(audited(folder, MEANING)), f"{record['id']}: {path} {how}"


@pytest.mark.parametrize("how", ["deleted", "twice", "moved"])
@pytest.mark.parametrize("row", [0, 1, 6])
def test_no_change_of_lines_passes_unnoticed(tmp_path: Path, how: str, row: int) -> None:
    data: Data = healthy(families=6)
    record = data.train[row]
    if how == "twice":
        data.train.insert(row, record)
    else:
        data.train.remove(record)
    if how == "moved":
        data.holdout.insert(row, record)
    assert counts(audited(data.write(tmp_path), (*MEANING, "separation")))


@given(data=st.data())
def test_no_change_of_bytes_passes_the_manifest(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = healthy(families=2).write(tmp_path_factory.mktemp("bytes"))
    path = folder / data.draw(st.sampled_from(["train.jsonl", "holdout.jsonl"]))
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    audit = audited(folder, ("hashes",))
    assert audit.tampering
    assert counts(audit)["hash-mismatch"] == 1


def test_no_change_of_the_manifest_passes_unnoticed(tmp_path: Path) -> None:
    folder = healthy(families=2).write(tmp_path)
    path = folder / "manifest.json"
    healthy_text = path.read_text()
    manifest = json.loads(healthy_text)
    for leaf in leaves(manifest):
        changed = copy.deepcopy(manifest)
        mutate(changed, leaf, "changed")
        path.write_text(json.dumps(changed))
        assert counts(audited(folder, ("hashes",))), leaf
