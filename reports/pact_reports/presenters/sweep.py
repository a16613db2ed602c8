"""The numbers of a run for every number of views."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.sweep import SweepPoint
from pact_reports.plain_text import one_line
from pact_reports.presenters.presenter import Presenter
from pact_reports.sentences.answers import sweep_answer
from pact_reports.sentences.data import after_leak
from pact_reports.sentences.notes import warning_sentence
from pact_reports.table import Line
from pact_reports.tables.sweep import sweep_table
from pact_reports.writers.json import answer_json, to_json, warnings_json


def present(experiment: Experiment, run: ExperimentRun, points: Sequence[SweepPoint]) -> Presenter:
    """Present a sweep.

    Args:
        experiment: what it was computed with.
        run: the run.
        points: its numbers for each number of views.
    """

    def answers() -> list[str]:
        answer = sweep_answer(points)
        return [] if answer is None else [after_leak(answer, experiment.data.leak)]

    return Presenter(
        tables=lambda: (
            Line(one_line(run.run.title), "strong"),
            sweep_table(points, experiment.settings.calibration_name),
        ),
        to_json=lambda: {
            "answer": answer_json([experiment.data]),
            "run": run.place,
            "decoding": {**experiment.settings.label},
            "points": to_json(points),
            "warnings": warnings_json(experiment.applied_warnings),
        },
        answers=answers,
        warnings=[*map(warning_sentence, experiment.applied_warnings)],
        leak=lambda: experiment.data.leak,
    )
