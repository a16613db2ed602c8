"""Opening a dataset: the manifest around the file, and the files that a model is made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from spoiled_datasets import Data, healthy

from pact_eval.data.opening import manifest_check, open_dataset
from pact_eval.data.splits import write_manifest
from pact_eval.errors import GateError, InputError, TamperedError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A sound dataset of 20 pairs in each file, under a name with brackets.

    Brackets found a bug: polars took them for a pattern, and compared with no family at all.
    """
    dataset = healthy()
    return Data(dataset.train[:40], dataset.holdout[:40]).write(tmp_path / "data [1]")


def test_a_sound_file_is_compared_and_opened(data: Path) -> None:
    opened = open_dataset(data / "holdout.jsonl")
    assert opened.manifest is not None
    assert (opened.manifest.changed, opened.manifest.families) == (False, ())
    assert opened.manifest.expected == opened.sha256


@pytest.mark.parametrize("role", ["train", "selection", "calibration"])
def test_a_family_of_a_file_to_make_models_from_is_a_leak(data: Path, role: str) -> None:
    lines = (data / "holdout.jsonl").read_text("utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    name = f"{role}-part.jsonl"
    family = rows[4]["family"].upper()
    copy = {**rows[4], "id": "other", "family": f" {family} "}
    (data / name).write_text(json.dumps(copy) + "\n", "utf-8")
    write_manifest(data)
    with pytest.raises(GateError, match=name):
        open_dataset(data / "holdout.jsonl")
    check = open_dataset(data / "holdout.jsonl", allow=["trained-on"]).manifest
    assert check is not None
    assert (check.families, check.files) == ((rows[4]["family"],), (name,))


def test_files_of_the_same_or_a_later_role_are_no_leak(data: Path) -> None:
    shutil.copy(data / "holdout.jsonl", data / "test.jsonl")
    write_manifest(data)
    assert open_dataset(data / "holdout.jsonl").manifest is not None
    check = open_dataset(data / "train.jsonl").manifest
    assert check is not None
    assert check.families == ()


def test_a_file_in_a_folder_below_the_manifest(data: Path) -> None:
    (data / "parts").mkdir()
    shutil.move(data / "holdout.jsonl", data / "parts" / "holdout.jsonl")
    manifest = json.loads((data / "manifest.json").read_text("utf-8"))
    for key in ("file_sha256", "roles", "rows"):
        manifest[key]["parts/holdout.jsonl"] = manifest[key].pop("holdout.jsonl")
    (data / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert open_dataset(data / "parts" / "holdout.jsonl").manifest is not None
    with (data / "parts" / "holdout.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n")
    with pytest.raises(TamperedError):
        open_dataset(data / "parts" / "holdout.jsonl")


def test_a_file_that_no_manifest_names_is_opened_as_it_is(data: Path, tmp_path: Path) -> None:
    other = shutil.copy(data / "holdout.jsonl", data / "mine.jsonl")
    assert open_dataset(Path(other)).manifest is None
    alone = shutil.copy(data / "holdout.jsonl", tmp_path / "alone.jsonl")
    assert open_dataset(Path(alone)).manifest is None


def test_a_manifest_that_cannot_be_read_is_an_error(data: Path) -> None:
    (data / "manifest.json").write_text("{", "utf-8")
    with pytest.raises(InputError, match=r"manifest\.json"):
        open_dataset(data / "holdout.jsonl")


def test_a_training_file_that_cannot_be_read_is_named(data: Path) -> None:
    (data / "train.jsonl").write_text('{"family": "x"\n', "utf-8")
    check = manifest_check(data / "holdout.jsonl", ["x"])
    assert check is not None
    assert check.families == ()
    assert "train.jsonl: cannot be read" in check.unchecked
