"""README's own sequence: runs of the calibration split lie next to those of the holdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner
from run_frames import edit_run, other_items, rows, write_run

import pact_eval
from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.runs.folder import read_run

FAST = ("--resamples", "200")
run = runner(main)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two runs of the holdout, and one of the calibration split."""
    for arm in ("a", "b"):
        write_run(tmp_path / arm, rows(len(arm), families=20), arm=arm, seed=1)
    fitted = write_run(tmp_path / "c", other_items(rows(9, families=20)), arm="a", seed=1)
    edit_run(fitted, role="calibration")
    return [tmp_path / name for name in ("c", "a", "b")]


def test_runs_of_another_role_are_left_out_with_a_note(runs: list[Path]) -> None:
    experiment = Experiment.read(runs)
    assert [run.name for run in experiment.runs] == ["a", "b"]
    (skipped,) = experiment.skipped
    assert (skipped.run, skipped.role, skipped.kept) == (str(runs[0]), "calibration", "evaluation")
    assert skipped in experiment.warnings
    assert experiment.same_items


def test_runs_that_all_have_another_role_are_kept(runs: list[Path]) -> None:
    experiment = Experiment.read(runs[:1])
    assert [run.name for run in experiment.runs] == ["c"]
    assert experiment.skipped == ()


def test_a_comparison_with_such_a_run_names_its_role(runs: list[Path]) -> None:
    message = run("compare", runs[1], runs[0], *FAST, code=1).output
    assert f"{runs[0]} has the role calibration" in message
    with pytest.raises(InputError, match="two or more runs of one role"):
        pact_eval.compare(runs[1], runs[0])
    run("compare", runs[0], runs[0], *FAST)


def test_imports_have_a_role_too(tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    row = {"id": "a", "reference": 0, "logits": [1.0, 0.0]}
    source.write_text(json.dumps(row) + "\n")
    run("import", source, "--out", tmp_path / "run", "--role", "selection")
    assert read_run(tmp_path / "run").role == "selection"
    assert read_run(write_run(tmp_path / "other", rows(1))).role == "evaluation"
