"""Summary of an experiment in which one training failed: what was not run, and what to do."""

from __future__ import annotations

import shlex
from pathlib import Path

from experiments.plans import opened, write_plan
from messages import assert_says

from pact_eval.experiments.outcome import ExperimentOutcome, StepOutcome
from pact_eval.experiments.preparing import PreparedExperiment
from pact_eval.experiments.steps import Step


def outcome(experiment: PreparedExperiment, failed: str) -> ExperimentOutcome:
    """What a run gives of which one step fails."""
    states: dict[str, StepOutcome] = {}
    for step in experiment.steps:
        states[step.name] = _outcome(step, failed, states)
    return experiment.outcome([*states.values()])


def _outcome(step: Step, failed: str, before: dict[str, StepOutcome]) -> StepOutcome:
    if step.name == failed:
        return StepOutcome(step, "failed", "exit code 7", 1, log_lines=("line 1", "line 2"))
    if any(before[name].state in ("failed", "not run") for name in step.needs):
        return StepOutcome(step, "not run", f"needs {failed}")
    return StepOutcome(step, "done", seconds=1.0)


def test_the_summary_names_the_failure_and_reports_what_is_scored(tmp_path: Path) -> None:
    plan = write_plan(tmp_path, arms=("mine = {}", "weak = {}"))
    result = outcome(opened(plan), "train-weak-17")
    assert result.exit_code == 1
    text = str(result)
    assert "train-weak-17 failed: exit code 7" in text
    assert "    line 2" in text
    words = shlex.split(str(result.report_command))
    folder, *runs = words[1], *words[5:-2]
    assert (words[0], Path(folder), words[2:5]) == ("cd", tmp_path, ["&&", "pact-eval", "report"])
    assert runs == ["plan/runs/base", "plan/runs/mine-17"]
    assert f"report those that are: {result.report_command}" in text
    assert_says(text, "No page, paper", "all arms")


def test_nothing_is_said_of_reports_if_none_is_lacking_or_nothing_is_scored(tmp_path: Path) -> None:
    experiment = opened(write_plan(tmp_path))
    assert "No page" not in str(outcome(experiment, "no step"))
    without_runs = outcome(experiment, "audit")
    assert without_runs.report_command is None
    assert "No page" not in str(without_runs)
