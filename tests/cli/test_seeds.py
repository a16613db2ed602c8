"""Three seeds under three names, and the one name that they shared before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import write_jsonl
from click import Group
from commands import refuser, runner
from run_frames import labels, rows, write_run

from pact_cli.audit.main import main as audit
from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment

run = runner(main)
refused = refuser(main)


@pytest.mark.parametrize("name", ["--train-seed", "--seed"])
def test_a_run_is_labelled_with_its_training_seed(tmp_path: Path, name: str) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl", [{"id": "a", "reference": 0, "probabilities": [0.6, 0.4]}]
    )
    run("import", path, "--out", tmp_path / "run", name, 18)
    assert labels(tmp_path / "run")["seed"] == 18


def test_the_old_name_of_the_bootstrap_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1))
    new, old, other = (
        json.loads(run("report", folder, "--resamples", 100, name, seed, "--json").stdout)
        for name, seed in (("--bootstrap-seed", 4), ("--seed", 4), ("--seed", 5))
    )
    assert new == old
    assert new != other


@pytest.mark.parametrize(
    ("program", "command", "name"),
    [
        *((main, command, "--train-seed") for command in ("score", "import")),
        *((main, command, "--bootstrap-seed") for command in ("report", "compare", "paper")),
        *((main, command, "--bootstrap-seed") for command in ("thresholds", "scorecard")),
        *((main, command, "--order-seed") for command in ("score", "decide")),
        (audit, "data", "--bootstrap-seed"),
    ],
)
def test_help_shows_the_new_name_only(program: Group, command: str, name: str) -> None:
    shown = runner(program)(command, "--help-all").stdout
    assert f"  {name} " in shown
    assert " --seed" not in shown


def test_a_wrong_value_is_reported_under_the_new_name(tmp_path: Path) -> None:
    message = refused("report", tmp_path, "--seed", -1, code=2)
    assert "'--bootstrap-seed'" in message
    assert "'--seed'" not in message


def test_an_arm_without_a_seed_names_the_option(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1))
    with pytest.raises(InputError, match="the run has no seed; name it: --relabel"):
        Experiment.read_arms([f"a={folder}", f"b={folder}"])
