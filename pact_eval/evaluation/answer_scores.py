"""Decomposed scores of correctness of every run of an experiment, raw and after T(x)."""

from __future__ import annotations

from dataclasses import dataclass

from pact_eval import metrics
from pact_eval.evaluation.chance_miscalibration import ChanceMiscalibration
from pact_eval.evaluation.diagnostics import calibrated_items
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
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
    scores = []
    for runs in experiment.arms.values():
        for run in runs:
            scores.append(_scores(experiment, run, calibrated=False))
            if calibrated_items(experiment, run) is not None:
                scores.append(_scores(experiment, run, calibrated=True))
    return tuple(run_scores for run_scores in scores if run_scores is not None)


def _scores(
    experiment: Experiment, run: ExperimentRun, *, calibrated: bool
) -> RunAnswerScores | None:
    """Return the numbers of the report of the run; None for ablated contexts."""
    decoding = experiment.settings.decoding
    everything = experiment.evaluation(run, decoding, calibrated=calibrated).groups[0]
    if everything.answer_scores is None or everything.chance is None:
        return None
    return RunAnswerScores(
        arm=run.arm,
        seed=run.seed,
        calibration="calibrated" if calibrated else "raw",
        families=everything.families,
        scores=everything.answer_scores,
        chance=everything.chance,
    )
