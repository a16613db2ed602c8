"""Steps of a plan, and their outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import counted
from pact_eval.experiments.steps import ExperimentOutcome, StepOutcome, StepState
from pact_eval.plain_text import one_line
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import attributes

_TONES: Final[dict[str, Tone]] = {"failed": "bad", "not run": "caution", "up to date": "faint"}
_ENDED: Final[tuple[StepState, ...]] = ("done", "up to date", "failed", "not run")
_RESULTS: Final = ("scorecard", "page", "paper")


def present_experiment_outcome(outcome: ExperimentOutcome) -> Presenter:
    """Present an experiment.

    Args:
        outcome: what became of its steps, or what would.
    """
    return Presenter(
        tables=lambda: [_plan_table(outcome)] if outcome.is_dry else _results(outcome),
        to_json=lambda: _json(outcome),
        answers=lambda: _answers(outcome),
    )


def _plan_table(outcome: ExperimentOutcome) -> Table:
    def state(step: StepOutcome) -> Cell:
        text = f"{step.state}: {step.why}" if step.why else step.state
        return Cell(one_line(text), tone=_TONES.get(step.state))

    where = f"on Ray {outcome.ray}" if outcome.ray else f"with {counted(outcome.jobs, 'job')}"
    return make_table(
        "steps",
        enumerate(outcome.steps, start=1),
        ("#", lambda row: str(row[0])),
        (Column("step", "left"), lambda row: row[1].step.name),
        (Column("state", "left"), lambda row: state(row[1])),
        title=one_line(f"Steps of {outcome.plan} {where}"),
        keys=2,
    )


def _results(outcome: ExperimentOutcome) -> Iterator[Part]:
    for failure in outcome.of_state("failed"):
        yield Line(f"{failure.step.name} failed: {one_line(failure.why)}", "bad")
        if failure.log_lines:
            yield Line(f"  the last lines of {one_line(str(failure.log))}:", unbroken=True)
            yield from (Line(f"    {one_line(line)}", unbroken=True) for line in failure.log_lines)
        command = outcome.repeat_command(failure.step)
        yield Line(f"  repeat it alone: {one_line(command)}", unbroken=True)
    reasons: dict[str, list[str]] = {}
    for step in outcome.of_state("not run"):
        reasons.setdefault(f"Not run ({step.why})", []).append(step.step.name)
    for step in outcome.of_state("up to date"):
        if step.why:  # whatever wrote the input anew: the step keeps what it has
            reasons.setdefault(f"Kept, though {step.why}", []).append(step.step.name)
    for why, names in reasons.items():
        yield Line(f"{one_line(why)}: {', '.join(names)}", "caution")
    for step in outcome.of_state("done", "up to date"):
        if step.step.stage in _RESULTS:
            path = outcome.folder / step.step.place.name
            yield Line(one_line(str(path)), unbroken=True)


def _answers(outcome: ExperimentOutcome) -> Iterator[str]:
    total = counted(len(outcome.steps), "step")
    if outcome.is_dry:
        trainings = counted(outcome.count("train"), "training")
        scorings = outcome.count("score", "calibrate")
        yield (
            f"{total}, among them {trainings}, and {scorings:,} scorings and calibrations; "
            f"{len(outcome.of_state('to do')):,} to do."
        )
        return
    counts = {state: len(outcome.of_state(state)) for state in _ENDED}
    parts = [f"{count:,} {state}" for state, count in counts.items() if count]
    yield f"{total}: {', '.join(parts)}."
    if outcome.exit_code:
        yield "The same command runs what failed and what was not run."


def _json(outcome: ExperimentOutcome) -> dict[str, Json]:
    def step_json(step: StepOutcome) -> Json:
        return {
            **attributes(step.step, "stage", "model", "needs", step="name", command="words"),
            **attributes(step, "state", "why", "exit_code", "seconds", "log_lines"),
            "repeat": outcome.repeat_command(step.step),
            "outputs": [str(path) for path in step.step.outputs],
            "log": None if step.log is None else str(step.log),
        }

    return {
        "plan": str(outcome.plan),
        "folder": str(outcome.folder),
        "dry_run": outcome.is_dry,
        "jobs": None if outcome.ray else outcome.jobs,
        **attributes(outcome, "ray", "exit_code"),
        "trainings": outcome.count("train"),
        "scorings_and_calibrations": outcome.count("score", "calibrate"),
        "steps": [*map(step_json, outcome.steps)],
    }
