"""The numbers of a run for every number of views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields

from pact_eval._json import Json
from pact_eval.evaluation.conclusions.data import after_leak
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.sweep import SweepPoint
from pact_eval.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.answers import sweep_answer
from pact_reports.table import Line, Part
from pact_reports.tables.sweep import sweep_table
from pact_reports.writers.json import answer_json, to_json, warnings_json


def present(
    experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint], *, full: bool = True
) -> Presenter:
    """Present a sweep.

    Args:
        experiment: what it was computed with.
        run: the run.
        points: its numbers for each number of views.
        full: show every number with its interval below the answer; otherwise at most twelve lines.
    """

    def headline() -> list[str]:
        answer = sweep_answer(points)
        return [] if answer is None else [after_leak(answer, experiment.data.leak)]

    def tables() -> Iterable[Part]:
        if not full:
            from pact_reports.tables.brief_sweep import brief_sweep

            return brief_sweep(experiment, run.run.title, points, headline())
        return (
            Line(one_line(run.run.title), "strong"),
            sweep_table(points, experiment.settings.calibration_name),
        )

    return Presenter(
        tables=tables,
        to_json=lambda: {
            "answer": answer_json([experiment.data]),
            "run": run.place,
            "decoding": {**experiment.settings.label},
            "points": [*map(_point_json, points)],
            "warnings": warnings_json(experiment.applied_warnings),
        },
        warnings=[*map(str, experiment.applied_warnings)],
        leak=lambda: experiment.data.leak,
        headline=headline,
        headed=not full,
    )


def _point_json(point: SweepPoint) -> Json:
    group = point.group
    values = {
        field.name: to_json(getattr(group, field.name)) for field in fields(group) if field.repr
    }
    scores = {"answer_scores": to_json(group.answer_scores), "chance": to_json(group.chance)}
    return {"k": point.k, "group": values | scores}
