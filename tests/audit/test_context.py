"""Which files a dataset has, by folder, by name and by paths, and how an audit runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from builders import record, write_jsonl
from messages import assert_says

from pact_eval.audit import parts
from pact_eval.audit.context import DataAuditSettings, DataContext, DatasetSource
from pact_eval.audit.dataset import DATA_CHECKS, audit_data
from pact_eval.audit.findings import FamilyCollector
from pact_eval.audit.parts import is_shared, look_at_families, work_on_parts
from pact_eval.data.files import DataFile
from pact_eval.data.index import Located, index_of_records
from pact_eval.data.splits import write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A training, a selection and an evaluation file with their manifest."""
    inside = tmp_path / "data"
    inside.mkdir()
    for name in ("train", "selection", "holdout"):
        rows = [record(f"{name}{n}", family=f"{name}{n // 2}", state=f"{name} {n}")
                for n in range(3)]  # fmt: skip
        write_jsonl(inside / f"{name}.jsonl", rows)
    write_manifest(inside)
    return inside


def files(source: DatasetSource) -> list[tuple[str, str]]:
    return [(file.path.name, file.role) for file in source.files]


WHOLE = [("train.jsonl", "train"), ("selection.jsonl", "selection"), ("holdout.jsonl", "eval")]


def test_a_folder_with_and_without_its_manifest(folder: Path, tmp_path: Path) -> None:
    source = DatasetSource.of_folder(folder)
    assert (files(source), source.manifest_missing) == (WHOLE, None)
    assert source.manifest is not None
    elsewhere = (folder / "manifest.json").rename(tmp_path / "m.json")
    bare = DatasetSource.of_folder(folder)
    assert (files(bare), bare.manifest, bare.manifest_missing) == (WHOLE, None, "manifest.json")
    named = DatasetSource.of_folder(folder, elsewhere)
    assert named.manifest is not None
    assert (named.manifest.folder, named.manifest_missing) == (folder, None)


def test_files_by_name_are_sorted_by_role(folder: Path) -> None:
    evaluation, train = [folder / "holdout.jsonl"], [folder / "train.jsonl"]
    source = DatasetSource.of_paths([], train=train, evaluation=evaluation)
    assert files(source) == [WHOLE[0], WHOLE[2]]
    assert (source.manifest, source.manifest_missing) == (None, None)
    assert DatasetSource.of_paths([], folder / "manifest.json", train=train).manifest is not None
    joined = DatasetSource.of_paths(
        [folder], train=[folder / "x.jsonl"], evaluation=[folder / "y.jsonl"]
    )
    assert files(joined) == [
        WHOLE[0], ("x.jsonl", "train"), WHOLE[1], WHOLE[2], ("y.jsonl", "eval")
    ]  # fmt: skip


def test_paths_stand_for_their_dataset(folder: Path, tmp_path: Path) -> None:
    """A file that the manifest names brings its folder, another one the files to learn from."""
    for paths in ([folder], [folder / "holdout.jsonl"], [folder, folder / "train.jsonl"]):
        source = DatasetSource.of_paths(paths)
        assert files(source) == WHOLE
        assert source.manifest is not None
    unnamed = write_jsonl(folder / "training-notes.jsonl", [record()])
    source = DatasetSource.of_paths([unnamed])
    assert files(source) == [*WHOLE[:2], ("training-notes.jsonl", "eval")]
    assert source.manifest is None
    alone = write_jsonl(tmp_path / "train-x.jsonl", [record()])
    assert files(DatasetSource.of_paths([alone])) == [("train-x.jsonl", "train")]
    other = write_jsonl(tmp_path / "notes.jsonl", [record()])
    both = DatasetSource.of_paths([other, alone, folder, other])
    assert files(both) == [
        ("train-x.jsonl", "train"), *WHOLE[:2], ("notes.jsonl", "eval"), WHOLE[2]
    ]  # fmt: skip


def test_a_manifest_of_another_kind_names_nothing(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")
    source = DatasetSource.of_paths([folder / "holdout.jsonl"])
    assert files(source) == [("holdout.jsonl", "eval")]


@pytest.mark.parametrize(
    ("digests", "changed"),
    [
        ({"holdout.jsonl": None}, False),
        ({"holdout.jsonl": "0" * 64}, True),
        ({}, False),
        ([], False),
    ],
)
def test_a_file_that_changed(folder: Path, digests: object, changed: bool) -> None:
    path = folder / "holdout.jsonl"
    if isinstance(digests, dict) and None in digests.values():
        digests = {path.name: sha256(path.read_bytes()).hexdigest()}
    value = json.loads((folder / "manifest.json").read_bytes()) | {"file_sha256": digests}
    (folder / "m.json").write_text(json.dumps(value))
    source = DatasetSource.of_paths([], folder / "m.json", evaluation=[path])
    assert source.has_changed(DataFile(path.name, "eval", path)) is changed
    assert not DatasetSource((), None).has_changed(source.files[0])


def test_what_a_context_lacks(folder: Path, tmp_path: Path) -> None:
    context = DataContext.read(DatasetSource.of_folder(folder), DataAuditSettings(seed=3, keep=2))
    assert [context.lacks(need) for need in ("records", "manifest", "tokenizer")] == [
        None, None, "no --tokenizer given"
    ]  # fmt: skip
    assert context.rng().random() == np.random.default_rng(3).random()
    assert context.collector("schema").keep == 2
    assert DataAuditSettings().seed == 0
    empty = write_jsonl(tmp_path / "x.jsonl", [])
    source = DatasetSource.of_paths([], train=[empty])
    bare = DataContext.read(source, DataAuditSettings())
    assert_says(bare.lacks("records"), "no record", "read")
    assert bare.lacks("manifest") == "no --manifest given"
    missing = DatasetSource(source.files, None, "manifest.json")
    assert DataContext.read(missing, DataAuditSettings()).lacks("manifest") is None


def test_checks_run_in_their_order(folder: Path) -> None:
    source = DatasetSource.of_folder(folder)
    audit = audit_data(source, DataAuditSettings(only=("balance", "families", "hashes")))
    order = [name for name in DATA_CHECKS if name in ("balance", "families", "hashes")]
    assert [check.check for check in audit.checks] == order
    assert audit.families == (2, 2, 2)
    assert (audit.tampering, audit.leaks) == (None, ())
    path = folder / "holdout.jsonl"
    path.write_bytes(path.read_bytes() + b"{")
    audit = audit_data(source, DataAuditSettings(only=("balance", "hashes")))
    # Nobody asked for the schema, but a line is not JSON.
    assert {check.check for check in audit.checks} == {"schema", "balance", "hashes"}
    assert audit.checks[0].check == "schema"
    assert audit.tampering


def test_families_are_looked_at_once_in_parts_of_their_order(folder: Path) -> None:
    class Look(FamilyCollector):
        def family(self, members: Sequence[Located]) -> None:
            self.numbers[f"families of {len(members)}"] += 1

    index = index_of_records(list(DatasetSource.of_folder(folder).files))
    looks = {name: Look(name, 1) for name in ("schema", "families")}
    look_at_families(index, looks)
    for look in looks.values():
        assert look.numbers == {"families of 1": 3, "families of 2": 3}
    slices = index.in_slices(4)
    assert [(len(part), n) for part, n in work_on_parts(len, slices)] == [(4, 4), (4, 4), (1, 1)]


@pytest.mark.parametrize(
    ("n_records", "n_cores", "shared"),
    [(10, 2, True), (9, 2, False), (10, 1, False)],
)
def test_large_datasets_are_shared_by_several_cores(
    n_records: int, n_cores: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "FEWEST_RECORDS", 10)
    monkeypatch.setattr(parts, "usable_cores", lambda: n_cores)
    assert is_shared(n_records) is shared
