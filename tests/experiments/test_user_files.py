"""Files that an experiment did not write: it neither removes nor replaces them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from commands import refuser
from experiments.plans import HYPOTHESES, opened, write_plan

from pact_cli.main import main
from pact_eval.experiments.preparing import is_refused_registration
from pact_eval.experiments.running import run
from pact_eval.preregistration.registration import lock_path, register

refused = refuser(main)


@pytest.mark.parametrize(
    "place", ["paper/notes.md", "parts/own.jsonl", "adapters/mine-17/notes.md", "page.html"]
)
def test_a_place_that_no_step_wrote_is_refused(tmp_path: Path, place: str) -> None:
    plan = write_plan(tmp_path)
    file = tmp_path / "plan" / place
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    text = refused("experiment", plan, code=1)
    assert str(Path("plan", *place.split("/")[:2]).parts[1]) in text
    assert "not written by this experiment" in text
    assert "--out" in text
    assert file.read_text() == "mine"
    assert not (tmp_path / "plan/receipts").exists()


@pytest.mark.posix
def test_a_place_that_a_step_began_is_not_refused(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    holdout = tmp_path / "data/holdout.jsonl"
    holdout.write_bytes(b"no record\n" + holdout.read_bytes())  # the audit fails: all others wait
    experiment = opened(plan)
    (tmp_path / "plan/parts").mkdir(parents=True)
    split = next(step for step in experiment.steps if step.name == "split")
    experiment.receipts.start_step(experiment.receipts.expected(split))
    assert run(experiment).exit_code == 3


@pytest.mark.parametrize("name", ["data.toml", "base.toml"])
def test_the_folder_of_the_data_or_the_base_is_not_that_of_an_experiment(
    tmp_path: Path, name: str
) -> None:
    plan = write_plan(tmp_path).rename(tmp_path / name)
    assert "--out" in refused("experiment", plan, code=1)
    assert "--out" in refused("experiment", plan, "--dry-run", code=1)
    assert opened(plan, folder=tmp_path / "out").steps


def test_only_other_criteria_or_data_are_a_refused_registration(tmp_path: Path) -> None:
    hypotheses, data = tmp_path / "hypotheses.toml", tmp_path / "holdout.jsonl"
    hypotheses.write_text(HYPOTHESES.format(points=2))
    data.write_text("one")
    files = lock_path(hypotheses), hypotheses, data
    assert not is_refused_registration(*files)
    register(hypotheses, data=[data], now=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    assert not is_refused_registration(*files)
    data.write_text("two")
    assert is_refused_registration(*files)
    data.unlink()
    assert not is_refused_registration(*files)
    data.write_text("one")
    hypotheses.write_text(HYPOTHESES.format(points=1))
    assert is_refused_registration(*files)
    hypotheses.write_text("format = ")
    assert not is_refused_registration(*files)
