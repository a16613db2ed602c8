"""Scores of "the answer is right", in parts: every run of an experiment, raw and after T(x)."""

from __future__ import annotations

from dataclasses import dataclass

from pact_eval import metrics
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment, ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import Calibration


@dataclass(frozen=True)
class RunAnswerScores:
    """Brier and log score of one run in parts.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        calibration: raw or calibrated.
        families: number of families of the items.
        scores: of all items.
    """

    arm: str
    seed: int | None
    calibration: Calibration
    families: int
    scores: metrics.AnswerScores


def run_answer_scores(experiment: Experiment) -> tuple[RunAnswerScores, ...]:
    """Split the scores of every run, and of every run with a calibrator after T(x) as well.

    A calibrator that needs prompt lengths that the run does not record is left out.

    Raises:
        InputError: a run does not have the decoding.
    """
    found = []
    for runs in experiment.arms.values():
        for run in runs:
            raw = run.scored(experiment.settings.decoding)
            found.append(_scores(run, "raw", raw))
            after = calibrated_items(experiment, run)
            if after is not None:
                found.append(_scores(run, "calibrated", after))
    return tuple(found)


def _scores(run: ExperimentRun, calibration: Calibration, items: ScoredItems) -> RunAnswerScores:
    scores = metrics.answer_scores(items.confidence, items.correct)
    return RunAnswerScores(run.arm, run.seed, calibration, items.n_families, scores)
