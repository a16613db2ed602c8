"""Experiments with a base model on the Hub: a branch that moves repeats what reads the base."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.plans import opened, write_plan
from messages import assert_says
from remote.hub_server import Hub

from pact_eval.experiments.preparing import PreparedExperiment
from pact_eval.experiments.receipts import Standing

BASE = "owner/base@main"


@pytest.fixture
def plan(tmp_path: Path, hub: Hub) -> Path:
    repository = hub.add("models/owner/base")
    (tmp_path / "files").mkdir()
    repository.add(tmp_path / "files")
    plan = write_plan(tmp_path / "plans")
    plan.write_text(plan.read_text().replace('base = "base"', f'base = "{BASE}"'))
    return plan


def standings(experiment: PreparedExperiment, *, finish: bool = False) -> dict[str, Standing]:
    """The standing of the training and a scoring; with `finish`, after their end."""
    standings: dict[str, Standing] = {}
    for step in experiment.steps:
        if step.name in ("train-mine-17", "score-base-holdout"):
            expected = experiment.receipts.expected(step)
            if finish:
                experiment.receipts.finish_step(step, expected)
            standings[step.stage] = experiment.receipts.standing(step, expected)
    return standings


def test_a_branch_that_moves_is_a_reason(plan: Path, tmp_path: Path, hub: Hub) -> None:
    repository = hub.repositories["models/owner/base"]
    before = repository.revisions["main"]
    done = standings(opened(plan), finish=True)
    assert {standing.state for standing in done.values()} == {"done"}
    assert {standing.state for standing in standings(opened(plan)).values()} == {"done"}
    now = repository.add(tmp_path / "files")
    changed = Standing("changed", f"{BASE} {before} is now {now}")
    assert standings(opened(plan)) == {"score": changed, "train": changed}


def test_without_the_hub_the_recorded_commit_counts(
    plan: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    standings(opened(plan), finish=True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    experiment = opened(plan)
    assert {standing.state for standing in standings(experiment).values()} == {"done"}
    assert_says(experiment.notes[0], "model: base", "commit", BASE, "not known")


def test_a_commit_is_not_looked_up(plan: Path, hub: Hub) -> None:
    commit = hub.repositories["models/owner/base"].revisions["main"]
    plan.write_text(plan.read_text().replace("@main", f"@{commit}"))
    before = len(hub.requests)
    assert all(not step.commits for step in opened(plan).steps)
    assert len(hub.requests) == before
