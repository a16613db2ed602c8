"""Steps of plans: their number, their order, and what they need."""

from __future__ import annotations

import json
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from commands import runner
from experiments.plans import write_plan

from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.experiments.plan import Plan, PlanFiles, check_files, check_plan
from pact_eval.experiments.steps import Step, chosen_steps, open_experiment, planned_steps
from pact_fixtures.paper import PLAN

run = runner(main)


@pytest.fixture(scope="module")
def plan() -> Plan:
    plan, problems = check_plan(PLAN)
    assert not problems
    return plan


@pytest.fixture(scope="module")
def files(plan: Plan) -> PlanFiles:
    return check_files(plan, [])


@pytest.fixture(scope="module")
def paper(plan: Plan, files: PlanFiles) -> tuple[Step, ...]:
    return planned_steps(plan, files, Path("out"))


def test_the_dry_run_of_the_paper_lists_its_steps_in_order(tmp_path: Path) -> None:
    words = ("experiment", PLAN, "--dry-run", "--jobs", 8, "--out", tmp_path / "out", "--json")
    value = json.loads(run(*words).stdout)
    # Two runs for each of 15 models; for each of 14 trained ones one run more, and a calibrator.
    assert value["trainings"] == 14
    assert value["scorings_and_calibrations"] == 2 * 15 + 2 * 14 == 58
    assert value["jobs"] == 8
    names = [step["step"] for step in value["steps"]]
    assert names[:4] == ["audit", "split", "ablate", "register"]
    assert names[-3:] == ["scorecard", "page", "paper"]
    assert all(
        names.index(need) < n for n, step in enumerate(value["steps"]) for need in step["needs"]
    )
    assert {step["state"] for step in value["steps"]} == {"to do"}
    assert not (tmp_path / "out").exists()


def test_hypotheses_are_registered_before_any_model_runs(paper: tuple[Step, ...]) -> None:
    graph = {step.name: step.needs for step in paper}
    order = [*TopologicalSorter(graph).static_order()]
    models = [step for step in paper if step.stage in ("train", "score")]
    assert len(models) == 14 + 30 + 14
    assert all("register" in step.needs for step in models)
    assert all(order.index("register") < order.index(step.name) for step in models)


def test_only_an_arm_has_its_steps_and_what_they_need(paper: tuple[Step, ...]) -> None:
    names = [step.name for step in chosen_steps(paper, arm="no_nr")]
    assert names == [
        *("audit", "split", "ablate", "register", "train-no_nr-17", "check-no_nr-17"),
        *("score-no_nr-17-holdout", "score-no_nr-17-ablated", "score-no_nr-17-calibration"),
        "calibrate-no_nr-17",
    ]


def test_splits_of_the_dataset_are_used_as_they_are(plan: Plan, files: PlanFiles) -> None:
    splits = replace(files, selection=Path("data/s.jsonl"), calibration=Path("data/c.jsonl"))
    steps = planned_steps(plan, splits, Path("out"))
    assert "split" not in {step.stage for step in steps}
    train = next(step for step in steps if step.stage == "train")
    assert "data/s.jsonl" in train.words
    with pytest.raises(InputError, match="no step of stage split"):
        chosen_steps(steps, stage="split")


def test_without_hypotheses_and_evidence_less_is_done(tmp_path: Path) -> None:
    steps = open_experiment(write_plan(tmp_path)).steps
    assert [step.name for step in steps] == [
        *("audit", "split", "score-base-holdout", "train-mine-17", "check-mine-17"),
        *(
            "score-mine-17-holdout",
            "score-mine-17-calibration",
            "calibrate-mine-17",
            "page",
            "paper",
        ),
    ]
