"""Files that an experiment did not write: it neither removes nor replaces them."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from commands import refuser, runner
from experiments.plans import HYPOTHESES, opened, write_plan

from pact_cli.main import main
from pact_eval.experiments.preparing import is_refused_registration
from pact_eval.experiments.running import run
from pact_eval.preregistration.registration import lock_path, register

run_command, refused = runner(main), refuser(main)


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
    assert "not written by" in text
    assert "--out" in text
    assert file.read_text() == "mine"
    assert not (tmp_path / "plan/receipts").exists()


@pytest.mark.slow
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
    ablated = tmp_path / "ablated.jsonl"  # not registered, and not changed
    ablated.write_text("three")
    assert not is_refused_registration(*files, ablated)
    hypotheses.write_text(HYPOTHESES.format(points=1))
    assert is_refused_registration(*files)
    hypotheses.write_text("format = ")
    assert not is_refused_registration(*files)


@pytest.mark.slow
@pytest.mark.posix
def test_a_registration_of_the_holdout_alone_says_what_it_lacks(tmp_path: Path) -> None:
    arms = ("mine = {}", "weak = {}")
    plan = write_plan(tmp_path, arms=arms, hypotheses=True, ablated=True)
    holdout = tmp_path / "data/holdout.jsonl"
    now = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    lock = register(tmp_path / "hypotheses.toml", data=[holdout], now=now)
    words = ("experiment", plan, "--stage", "register", "--json")
    steps = json.loads(run_command(*words, code=1).stdout)["steps"]
    log = " ".join(next(step for step in steps if step["step"] == "register")["log_lines"])
    assert "without ablated.jsonl" in log
    assert f"registered data: holdout.jsonl {lock.data[0].sha256[:12]}" in log
    # Without ablated contexts, the lock covers all that is judged, and is kept.
    plan.write_text(plan.read_text().replace("ablated = true", "ablated = false"))
    before = lock_path(tmp_path / "hypotheses.toml").read_bytes()
    run_command(*words)
    assert lock_path(tmp_path / "hypotheses.toml").read_bytes() == before


@pytest.mark.slow
@pytest.mark.posix
def test_a_registration_of_more_than_is_judged_is_kept(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("mine = {}", "weak = {}"), hypotheses=True)
    data = [tmp_path / "data/holdout.jsonl", tmp_path / "data/train.jsonl"]
    register(tmp_path / "hypotheses.toml", data=data, now=dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    run_command("experiment", plan, "--stage", "register")
