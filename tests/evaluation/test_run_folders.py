"""What folders of runs hold: the list of runs, the splits that they scored, and a digest."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import question, record, write_jsonl
from messages import assert_says
from run_frames import ablated_rows, edit_run, labels, other_items, rows, write_run

from pact_eval._files import sha256_of_file
from pact_eval._json import sha256_of_json
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    calibrator_sha256,
    write_calibrator,
)
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import data_splits, run_splits, splits_of_folder
from pact_eval.evaluation.report import report_digest
from pact_eval.evaluation.run_list import list_runs
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.seal import seal_digest


def test_runs_are_listed_by_name_with_what_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "b", rows(1, families=6), arm="pact", seed=17)
    write_run(tmp_path / "a", ablated_rows(1, families=6), seed=0)
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").touch()
    ablated, run = list_runs([tmp_path])
    assert (run.folder, run.state, run.reason) == (tmp_path / "b", "complete", None)
    assert (run.arm, run.seed, run.role) == ("pact", 17, "evaluation")
    assert (run.items, run.k, run.views, run.views_wanted) == (12, 3, 36, 36)
    assert run.data_sha256 == "0" * 64
    experiment = Experiment.read([tmp_path / "b"])
    (only,) = experiment.runs
    assert run.accuracy is not None
    assert run.accuracy.value == only.scored().correct.mean()
    assert run.order == experiment.order(only)
    assert run.digest == seal_digest(only.run.seal)
    assert (ablated.arm, ablated.seed, ablated.state) == ("a", 0, "complete")
    assert ablated.accuracy is not None
    assert math.isnan(ablated.accuracy.value)
    assert_says(ablated.accuracy.reason, "no references")
    assert ablated.pair_accuracy is None
    # A run folder itself is one run, and folders come in the order given.
    assert [entry.folder.name for entry in list_runs([tmp_path / "b", tmp_path])] == ["b", "a", "b"]


@pytest.mark.parametrize("name", ["none", "file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError) as refused:
        list_runs([tmp_path / name])
    expected = {"none": "no such folder", "file": "expected a folder, got a file"}[name]
    assert_says(refused.value, str(tmp_path / name), expected)


def test_runs_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    changed = write_run(tmp_path / "changed", rows(1, families=6))
    text = (changed / "run.json").read_text()
    (changed / "run.json").write_text(text.replace('"seed": null', '"seed": 3'))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    broken, tampered = list_runs([tmp_path])
    assert (broken.state, tampered.state) == ("unreadable", "tampered")
    assert broken.reason
    assert tampered.reason
    assert broken.items is None


def test_an_unfinished_run_can_be_resumed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=17)
    recorded = labels(run)
    del recorded["seal"]
    recorded["status"] = "running"
    recorded["settings"]["data"]["records"] = 20
    folder = tmp_path / "unfinished" / "run"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(recorded))
    (unfinished,) = list_runs([tmp_path / "unfinished"])
    assert (unfinished.state, unfinished.arm, unfinished.seed) == ("resumable", "pact", 17)
    assert (unfinished.items, unfinished.k, unfinished.views) == (20, 3, 0)
    assert unfinished.views_wanted == 60


def test_splits_of_runs_by_hand(tmp_path: Path) -> None:
    """6 families of two members, in 6 source families; three runs on two files."""
    folders = [
        write_run(tmp_path / name, frame, arm="a", seed=seed)
        for name, frame, seed in (
            ("r1", rows(1, families=6), 1),
            ("r2", rows(2, families=6), 2),
        )
    ]
    for folder in folders:
        edit_run(folder, data=r"C:\data\eval.jsonl")
    (split,) = run_splits(Experiment.read(folders))
    assert (split.name, split.role, split.runs, split.sha256) == ("eval.jsonl", "", 2, "0" * 64)
    assert (split.records, split.families, split.pairs, split.source_families) == (12, 6, 6, 6)
    assert split.kinds == (4, 4, 4)
    edit_run(folders[0], data=None)
    (unnamed,) = run_splits(Experiment.read(folders[:1]))
    assert unnamed.name == f"SHA-256 {'0' * 12}"


def dataset(folder: Path, *records: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    return write_jsonl(folder / "eval.jsonl", records)


def test_pairs_are_families_of_one_base_and_one_counterfactual(tmp_path: Path) -> None:
    dataset(
        tmp_path / "data",
        record("f1-base"),
        record("f1-counterfactual"),
        record("f2-base"),
        record("f3-base", decision=question("noul")),
        record("f3-other", family="f3", variant="base", decision=question("score")),
        record("f4-base", source_family="travel-02"),
    )
    (split,) = splits_of_folder(tmp_path / "data")
    assert (split.records, split.families, split.pairs, split.source_families) == (6, 4, 1, 2)
    assert split.kinds == (4, 1, 1)
    assert (split.role, split.runs) == ("test", 0)
    assert split.sha256 == sha256_of_file(tmp_path / "data" / "eval.jsonl")


def test_a_scored_file_is_listed_once_with_its_runs(tmp_path: Path) -> None:
    path = dataset(tmp_path / "data", record("f1-base"), record("f1-counterfactual"))
    run = write_run(tmp_path / "run", rows(1, families=6), arm="a", seed=1)
    experiment = Experiment.read([run])
    apart = data_splits(experiment, [tmp_path / "data"])
    assert [(split.name, split.runs) for split in apart] == [
        ("eval.jsonl", 0),
        (f"SHA-256 {'0' * 12}", 1),
    ]
    edit_run(run, settings={"data": {"sha256": sha256_of_file(path)}})
    same = data_splits(Experiment.read([run]), [tmp_path / "data"])
    assert [(split.name, split.role, split.runs, split.records) for split in same] == [
        ("eval.jsonl", "test", 1, 2)
    ]
    dataset(tmp_path / "more", record("f9-base"))
    both = data_splits(Experiment.read([run]), [tmp_path / "data", tmp_path / "more"])
    assert [(split.name, split.runs) for split in both] == [
        ("data/eval.jsonl", 1),
        ("more/eval.jsonl", 0),
    ]


@pytest.fixture
def sealed(tmp_path: Path) -> Experiment:
    frames = (rows(1, families=6), rows(2, families=6))
    folders = [
        write_run(tmp_path / f"r{seed}", frame, arm="pact", seed=seed)
        for seed, frame in enumerate(frames)
    ]
    return Experiment.read(folders)


def test_a_digest_covers_runs_settings_and_other_files(sealed: Experiment) -> None:
    digest = report_digest(sealed.runs, sealed.settings, {"criteria": "1" * 64})
    assert digest.runs == tuple(
        {"arm": "pact", "run": seal_digest(run.run.seal), "calibrator": None} for run in sealed.runs
    )
    assert digest.content["inputs"] == {"criteria": "1" * 64}
    assert digest.sha256 == sha256_of_json(digest.content)
    assert digest.json == {"sha256": digest.sha256, **digest.content}
    assert report_digest(sealed.runs, sealed.settings).inputs == {}
    reverse = report_digest(sealed.runs[::-1], sealed.settings)
    assert reverse.sha256 != report_digest(sealed.runs, sealed.settings).sha256


@pytest.mark.parametrize(
    ("settings", "name", "value"),
    [
        (Settings(decoding="ensemble"), "decoding", "ensemble"),
        (Settings(margin=0.02), "margin", 0.02),
        (Settings(allow=("other-data", "other-base", "other-data")), "allow", None),
        (Settings(bins=4), "bins", 4),
        (Settings(bins=(0.5, 1.0)), "bins", [0.5, 1.0]),
        (Settings(without_leaks=True), "without_leaks", True),
        (Settings(target_error=0.05), "target_error", 0.05),
    ],
)
def test_a_setting_that_is_chosen_changes_the_digest(
    sealed: Experiment, settings: Settings, name: str, value: Any
) -> None:
    plain = report_digest(sealed.runs, Settings())
    chosen = report_digest(sealed.runs, settings)
    assert chosen.sha256 != plain.sha256
    expected = ["other-base", "other-data"] if name == "allow" else value
    assert chosen.settings[name] == expected
    if name in ("bins", "without_leaks", "target_error"):
        assert name not in plain.settings


def test_the_calibrator_of_a_run_is_in_its_digest(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    calibrator = Calibrator("scalar", Weights((1.0, 1.0, 1.0)))
    write_calibrator(run / "calibration.json", calibrator)
    experiment = Experiment.read([run], Settings(calibrated=True))
    digest = report_digest(experiment.runs, experiment.settings)
    assert digest.runs[0]["calibrator"] == calibrator_sha256(calibrator)


def test_items_of_other_runs_are_another_split(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / name, frame, arm=name, seed=1)
        for name, frame in (
            ("a", rows(1, families=6)),
            ("b", other_items(rows(2, families=9))),
        )
    ]
    splits = run_splits(replace(Experiment.read(folders), settings=Settings()))
    assert [(split.records, split.runs) for split in splits] == [(12, 1), (18, 1)]
