"""Scores of "the answer is right", in parts: every run of an experiment, raw and after T(x)."""

from __future__ import annotations

from dataclasses import dataclass

from pact_eval import metrics
from pact_eval.evaluation.chance_miscalibration import (
    ChanceMiscalibration,
    chance_miscalibration,
)
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment, ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import Calibration
from pact_eval.evaluation.settings import Settings


@dataclass(frozen=True)
class RunAnswerScores:
    """Brier and log score of one run in parts.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        calibration: raw or calibrated.
        families: number of families of the items.
        scores: of all items.
        chance: miscalibration of a calibrated model.
    """

    arm: str
    seed: int | None
    calibration: Calibration
    families: int
    scores: metrics.AnswerScores
    chance: ChanceMiscalibration


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
            found.append(_scores(run, "raw", raw, experiment.settings))
            after = calibrated_items(experiment, run)
            if after is not None:
                found.append(_scores(run, "calibrated", after, experiment.settings))
    return tuple(found)


def _scores(
    run: ExperimentRun, calibration: Calibration, items: ScoredItems, settings: Settings
) -> RunAnswerScores:
    items = items.over(settings.unit).with_sorted_families()
    return RunAnswerScores(
        arm=run.arm,
        seed=run.seed,
        calibration=calibration,
        families=items.n_families,
        scores=metrics.answer_scores(items.confidence, items.correct),
        chance=chance_miscalibration(items, rng=settings.rng()),
    )
