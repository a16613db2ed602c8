"""Runs under another arm or seed. Source of truth: the same runs, recorded with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import edit_run, rows, write_run

from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Relabel, Settings

run, refused = runner(main), refuser(main)
FAST = ("--resamples", 100)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Runs of the arm `old` with one seed, and runs of the arms `ours` and `base` with two."""
    for seed, name in ((1, "ours-1"), (2, "ours-2")):
        write_run(tmp_path / "recorded" / name, rows(seed, families=9), arm="ours", seed=seed)
        write_run(tmp_path / name, rows(seed, families=9), arm="old", seed=7)
        for folder in (tmp_path, tmp_path / "recorded"):
            write_run(folder / f"base-{seed}", rows(seed + 9, families=9), arm="base", seed=seed)
    return tmp_path


def relabelled(home: Path) -> tuple[object, ...]:
    """Returns the options that give the runs `ours-*` what those in `recorded` record."""
    return (
        *("--relabel", f"{home}/ours-*=ours", "--relabel", f"{home / 'ours-1'}=ours:1"),
        *("--relabel", f"{home / 'ours-2'}=ours:2"),
    )


def numbers(*words: object) -> Any:
    """Returns the object of a command without what names folders and what warns of labels."""
    value = json.loads(run(*words, *FAST, "--json").stdout)
    value["warnings"] = [one for one in value["warnings"] if one["kind"] != "RelabelledRun"]
    return value


@pytest.mark.slow
def test_arms_over_seeds_are_those_of_runs_recorded_so(home: Path) -> None:
    folders = [home / name for name in ("ours-1", "ours-2", "base-1", "base-2")]
    recorded = [home / "recorded" / folder.name for folder in folders]
    settings = Settings(
        resamples=100,
        relabels=(Relabel(str(folders[0]), "ours", 1), Relabel(str(folders[1]), "ours", 2)),
    )
    experiment, expected = Experiment.read(folders, settings), Experiment.read(recorded)
    assert [run.label for run in experiment.runs] == [run.label for run in expected.runs]
    assert list(experiment.arms) == ["ours", "base"]
    words = ("compare", "--arms", f"ours={home}/ours-*", f"base={home}/base-*")
    twin = home / "recorded"
    plain = ("compare", "--arms", f"ours={twin}/ours-*", f"base={twin}/base-*")
    assert "two runs with seed 7" in refused(*words, *FAST)
    assert numbers(*words, *relabelled(home)) == numbers(*plain)


def test_folders_keep_what_they_record_and_outputs_say_so(home: Path) -> None:
    before = (home / "ours-1" / "run.json").read_bytes()
    words = ("report", home / "ours-1", "--relabel", "ours-1=new:18", *FAST)
    value = json.loads(run(*words, "--json").stdout)
    assert (value["run"]["arm"], value["run"]["seed"], value["arm_name"]) == ("old", 7, "new")
    (warning,) = value["warnings"]
    assert (warning["recorded"], warning["used"]) == (["old", 7], ["new", 18])
    result = run(*words)
    assert "new, seed 18" in result.stdout
    assert_says(result.stderr, "ours-1", "arm old, seed 7")
    assert (home / "ours-1" / "run.json").read_bytes() == before
    run("verify", home / "ours-1")


def test_a_run_without_a_seed_gets_one(home: Path) -> None:
    edit_run(home / "ours-1", seed=None)
    arms = ("compare", "--arms", f"a={home / 'ours-1'}", f"b={home / 'base-1'}")
    message = refused(*arms, *FAST)
    assert f"--relabel {home / 'ours-1'}=:SEED" in message
    assert "1 shared" in run(*arms, *FAST, "--relabel", f"{home / 'ours-1'}=:1").stdout


@pytest.mark.parametrize("text", ["runs/a", "runs/a=", "=ours", "runs/a=:", "runs/a=:x:", " =a"])
def test_labels_of_another_form_are_refused(home: Path, text: str) -> None:
    with pytest.raises(InputError, match="RUN=ARM"):
        Relabel.parse(text)
    assert "RUN=ARM:SEED" in refused("report", home / "ours-1", "--relabel", text, code=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r=a:-1", Relabel("r", "a", -1)),
        ("r=:-1", Relabel("r", None, -1)),
        ("r = a : 2 ", Relabel("r", "a", 2)),
        ("r=a:b", Relabel("r", "a:b")),
        ("r=a:b:3", Relabel("r", "a:b", 3)),
    ],
)
def test_labels_may_have_colons_spaces_and_negative_seeds(text: str, expected: Relabel) -> None:
    assert Relabel.parse(text) == expected


def test_runs_with_fewer_items_or_views_keep_their_labels(home: Path) -> None:
    relabels = (Relabel("ours-1", "new", 18),)
    (only,) = Experiment.read([home / "ours-1"], Settings(relabels=relabels)).runs
    assert (only.asked_once().label, only.with_views(1).label) == 2 * ("new, seed 18",)
    family = only.predictions.family.tolist()[0]
    assert only.without_families([family], None).label == "new, seed 18"


def test_a_label_of_no_run_is_refused(home: Path) -> None:
    message = refused("report", home / "ours-1", "--relabel", "ours-3=new", *FAST)
    assert_says(message, "--relabel", "ours-3")
    gate = ("compare", home / "ours-1", home / "base-1", "--gate", "--margin", "0.5")
    assert_says(refused(*gate, "--relabel", "x=y", code=2), "--relabel", "--gate")
