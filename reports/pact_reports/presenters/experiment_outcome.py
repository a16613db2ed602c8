"""The outcome of an experiment, or of its dry run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pact_eval._json import Json
from pact_eval.errors import counted
from pact_eval.experiments.costs import Cost
from pact_eval.experiments.outcome import ExperimentOutcome, StepOutcome, StepState
from pact_eval.experiments.tuning import ArmTuning
from pact_eval.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Cell, Column, Line, Part, Row, Table, Tone
from pact_reports.tables.tuning import tuning_table

_TONES: Final[dict[str, Tone]] = {"failed": "bad", "not run": "caution", "up to date": "faint"}
_ENDED: Final[tuple[StepState, ...]] = ("done", "up to date", "failed", "not run")
_RESULTS: Final = ("scorecard", "page", "paper")


def present(outcome: ExperimentOutcome) -> Presenter:
    """Present an experiment.

    Args:
        outcome: what became of its steps, or what would.
    """
    return Presenter(
        tables=lambda: _planned(outcome) if outcome.is_dry else _results(outcome),
        to_json=lambda: _json(outcome),
        warnings=[
            f"{one_line(str(outcome.plan))}: {text}" for text in (*outcome.missing, *outcome.notes)
        ],
        answers=lambda: _answers(outcome),
    )


def _planned(outcome: ExperimentOutcome) -> tuple[Part, ...]:
    columns = (Column("#"), Column("step", "left"), Column("why", "left"))
    rows = [
        Row(
            (
                Cell(str(number)),
                Cell(step.step.name),
                Cell(one_line(step.why or step.state), tone=_TONES.get(step.state)),
            )
        )
        for number, step in enumerate(outcome.steps, start=1)
    ]
    where = f"on Ray {outcome.ray}" if outcome.ray else f"with {counted(outcome.slots, 'slot')}"
    title = one_line(f"Steps of {outcome.plan} {where}")
    return (Table("steps", title, "", columns, tuple(rows), keys=2),)


def _results(outcome: ExperimentOutcome) -> Iterator[Part]:
    for failure in outcome.of_state("failed"):
        yield from _failure(outcome, failure)
    reasons: dict[str, list[str]] = {}
    for step in outcome.of_state("not run"):
        reasons.setdefault(step.why, []).append(step.step.name)
    for why, names in reasons.items():
        yield Line(f"Not run ({one_line(why)}): {', '.join(names)}", "caution")
    yield from _lacking_results(outcome)
    for note, names in _notes(outcome).items():
        yield Line(f"{one_line(note)}: {', '.join(names)}", "info")
    if any(tuning.tuned for tuning in outcome.tuning):
        yield tuning_table(outcome.tuning)
    else:
        yield Line("No arm was tuned.", "info")
    for step in outcome.of_state("done", "up to date"):
        if _is_result(step):
            path = outcome.folder / step.step.outputs[0].name
            yield Line(one_line(str(path)), unbroken=True)


def _failure(outcome: ExperimentOutcome, failure: StepOutcome) -> Iterator[Part]:
    yield Line(f"{failure.step.name} failed: {one_line(failure.why)}", "bad")
    if failure.log_lines:
        yield Line(f"  the last lines of {one_line(str(failure.log))}:", unbroken=True)
        yield from (Line(f"    {one_line(line)}", unbroken=True) for line in failure.log_lines)
    command = outcome.repeat_command(failure.step)
    yield Line(f"  repeat it alone: {one_line(command)}", unbroken=True)


def _lacking_results(outcome: ExperimentOutcome) -> Iterator[Part]:
    """Yield why there is no scorecard, page or paper, and how to report what is scored."""
    lacking = [step.step.name for step in outcome.of_state("not run") if _is_result(step)]
    if not lacking or outcome.report_command is None:
        return
    yield Line(f"No {', '.join(lacking)}: they compare all arms, and some are not scored.")
    yield Line(
        f"  report those that are: {one_line(outcome.report_command)}",
        unbroken=True,
    )


def _is_result(step: StepOutcome) -> bool:
    return step.step.stage in _RESULTS


def _notes(outcome: ExperimentOutcome) -> dict[str, list[str]]:
    """Return the steps of each note."""
    notes: dict[str, list[str]] = {}
    for step in outcome.steps:
        for note in step.notes:
            notes.setdefault(note, []).append(step.step.model or step.step.name)
    return notes


def _answers(outcome: ExperimentOutcome) -> Iterator[str]:
    total = counted(len(outcome.steps), "step")
    if outcome.is_dry:
        trainings = counted(outcome.count(["train"]), "training")
        scorings = outcome.count(["score", "calibrate"])
        yield (
            f"{total}, among them {trainings}, and {scorings:,} scorings and calibrations; "
            f"{len(outcome.of_state('to do')):,} to do."
        )
        yield from _cost(outcome)
        return
    counts = {state: len(outcome.of_state(state)) for state in _ENDED}
    parts = [f"{count:,} {state}" for state, count in counts.items() if count]
    yield f"{total}: {', '.join(parts)}."
    if outcome.exit_code:
        yield "The same command runs what failed and what was not run."


def _cost(outcome: ExperimentOutcome) -> Iterator[str]:
    """Yield what the steps to do would take, and what is not known of it."""
    cost = outcome.cost
    if cost is None:
        yield "Cost: not measured; --measure times ten training steps and one scoring of each arm."
        return
    least = "at least " if cost.not_measured else ""
    stages = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in cost.by_stage.items())
    slots = counted(cost.slots, "slot") if cost.slots else "room for all steps at once"
    of_stages = f" Processes together: {stages}." if stages else ""
    yield (
        f"Cost with {slots}: {least}{duration(cost.seconds)}, estimated from times on "
        f"{one_line(cost.processor)}.{of_stages}"
    )
    for arm, reason in cost.not_measured.items():
        yield f"Not measured: {one_line(arm)}: {one_line(reason)}."


def duration(seconds: float) -> str:
    """Write an estimated time with two digits.

    Examples:
        >>> duration(20), duration(250), duration(9_000), duration(452_000)
        ('under a minute', '4 min', '2.5 h', '130 h')
    """
    if seconds < 60:
        return "under a minute"
    value, unit = (seconds / 60, "min") if seconds < 3600 else (seconds / 3600, "h")
    if value >= 100:
        return f"{round(value, -1):,.0f} {unit}"
    return f"{value:.0f} {unit}" if unit == "min" or value >= 10 else f"{value:.1f} {unit}"


def _cost_json(cost: Cost | None) -> Json:
    if cost is None:
        return None
    return {
        "processor": cost.processor,
        "slots": cost.slots,
        "seconds": cost.seconds,
        "seconds_by_stage": {str(stage): time for stage, time in cost.by_stage.items()},
        "not_measured": {**cost.not_measured},
    }


def _json(outcome: ExperimentOutcome) -> dict[str, Json]:
    return {
        "plan": str(outcome.plan),
        "folder": str(outcome.folder),
        "dry_run": outcome.is_dry,
        "slots": None if outcome.ray else outcome.slots,
        "ray": outcome.ray,
        "exit_code": outcome.exit_code,
        "trainings": outcome.count(["train"]),
        "scorings_and_calibrations": outcome.count(["score", "calibrate"]),
        "cost": _cost_json(outcome.cost),
        "missing": [*outcome.missing],
        "notes": [*outcome.notes],
        "tuning": [_tuning_json(tuning) for tuning in outcome.tuning],
        "steps": [_step_json(outcome, step) for step in outcome.steps],
    }


def _tuning_json(tuning: ArmTuning) -> Json:
    chosen = None if tuning.selection is None else tuning.selection.to_json()
    return {
        "arm": tuning.arm,
        "tuned": {name: [*values] for name, values in tuning.tuned.items()},
        "trainings": tuning.trainings,
        "selection": chosen,
    }


def _step_json(outcome: ExperimentOutcome, step: StepOutcome) -> Json:
    return {
        "step": step.step.name,
        "stage": step.step.stage,
        "model": step.step.model,
        "state": step.state,
        "why": step.why,
        "exit_code": step.exit_code,
        "seconds": step.seconds,
        "command": [*step.step.words],
        "repeat": outcome.repeat_command(step.step),
        "needs": [*step.step.needs],
        "log": None if step.log is None else str(step.log),
        "log_lines": [*step.log_lines],
        "notes": [*step.notes],
    }
