"""Four questions about the runs of a method, each with a status and a few numbers.

Is it better? Is the data sound? Answers or letters? Probabilities? A reader who sees nothing else
should not be misled, so a status says what is shown, and "not shown" where nothing is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval.errors import InputError
from pact_eval.evaluation.answers import ComparisonAnswer
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.diagnostics import FLIPS
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.seeds import ArmPair
from pact_eval.stats import LEVEL, Estimate, SlotHomogeneity

Better = Literal["better", "worse", "not shown", "nothing to compare"]
Follows = Literal["answers", "letters", "not shown", "unknown"]
Calibrated = Literal["over-confident", "under-confident", "no error shown", "unknown"]

_WORST_FIRST: Final = {"letters": 0, "unknown": 1, "not shown": 2, "answers": 3}


@dataclass(frozen=True)
class Lead:
    """The lead in accuracy of a method over another arm.

    Attributes:
        arm: the other arm.
        difference: method minus arm, with its interval.
        shown: whether it is shown, by its exact test (one seed) or interval (several).
        by_views: by number of views, the difference at view 0 and over K views; empty for several
            seeds, and for runs of one view.
    """

    arm: str
    difference: Estimate
    shown: bool
    by_views: Mapping[int, Estimate]


@dataclass(frozen=True)
class BetterCard:
    """Is it better?

    Attributes:
        status: better or worse than every other arm, as shown; worse if one lead is shown below 0.
        method: name of the arm.
        leads: over each other arm with a seed in common.
    """

    status: Better
    method: str
    leads: tuple[Lead, ...]


@dataclass(frozen=True)
class LettersCard:
    """Does it follow the answers, or their letters?

    Attributes:
        status: letters if the flip rate is shown to be above `FLIPS`, or a letter bias is shown;
            answers if the flip rate is shown to be below and no bias is.
        run: label of the run: of several seeds the one with the worst status.
        flip_rate: share of items whose answer changes with the letters; NaN for one view.
        letters: the test of letter bias.
        biased: whether a bias is shown.
    """

    status: Follows
    run: str
    flip_rate: Estimate
    letters: SlotHomogeneity
    biased: bool


@dataclass(frozen=True)
class ProbabilitiesCard:
    """Can the probabilities be trusted?

    Attributes:
        status: the direction of the error if "calibrated" is rejected.
        run: label of the run: of several seeds the one with the smallest p-value.
        ece: with its noise floor and p-value.
        confidence: mean probability of the chosen answer.
        accuracy: share of right answers.
    """

    status: Calibrated
    run: str
    ece: Estimate
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Cards:
    """The four cards of an experiment."""

    better: BetterCard
    data: DataConclusion
    letters: LettersCard
    probabilities: ProbabilitiesCard


def cards(experiment: Experiment, data: DataConclusion) -> Cards:
    """Answer the four questions for the main arm of an experiment.

    Args:
        experiment: runs on full contexts; those of the main arm are judged.
        data: what an audit found.

    Raises:
        InputError: a run does not have the decoding of the settings.
    """
    method = experiment.main_arm
    runs = experiment.arms[method]
    letters = [_letters(experiment, run) for run in runs]
    return Cards(
        better=_better(experiment, method),
        data=data,
        letters=min(letters, key=lambda card: _WORST_FIRST[card.status]),
        probabilities=min((_probabilities(experiment, run) for run in runs), key=_p_value),
    )


def _better(experiment: Experiment, method: str) -> BetterCard:
    if not experiment.same_items:
        return BetterCard("nothing to compare", method, ())
    leads = tuple(_lead(arm, found) for arm, found in experiment.answers(method).items())
    status: Better = "not shown"
    if not leads:
        status = "nothing to compare"
    elif any(lead.shown and lead.difference.value < 0 for lead in leads):
        status = "worse"
    elif all(lead.shown and lead.difference.value > 0 for lead in leads):
        status = "better"
    return BetterCard(status, method, leads)


def _lead(arm: str, found: ComparisonAnswer | ArmPair) -> Lead:
    if isinstance(found, ArmPair):
        accuracy = found.differences["all"]["accuracy"]
        return Lead(arm, accuracy.same_seeds, accuracy.marked, {})
    metric = found.chosen.accuracy
    views = () if found.other is None else found.by_views
    by_views = {each.k: each.accuracy.difference for each in views}
    return Lead(arm, metric.difference, metric.marked, by_views)


def _letters(experiment: Experiment, run: ExperimentRun) -> LettersCard:
    evaluation = experiment.evaluation(run, calibrated=False)
    flips = evaluation.groups[0].estimates["flip_rate"]
    test = evaluation.letters
    if test is None:
        message = f"{run.label}: expected a run on full contexts"
        raise InputError(message)
    biased = test.p_value < LEVEL
    status: Follows = "not shown"
    if biased or flips.low > FLIPS:
        status = "letters"
    elif math.isnan(flips.value):
        status = "unknown"
    elif flips.high <= FLIPS:
        status = "answers"
    return LettersCard(status, run.label, flips, test, biased)


def _probabilities(experiment: Experiment, run: ExperimentRun) -> ProbabilitiesCard:
    estimates = experiment.evaluation(run, calibrated=False).groups[0].estimates
    items = run.scored(experiment.settings.decoding)
    confidence, accuracy = float(items.confidence.mean()), estimates["accuracy"].value
    ece = estimates["ece"]
    status: Calibrated = "no error shown"
    if not isinstance(ece, CalibrationError) or math.isnan(ece.p_value):
        status = "unknown"
    elif ece.rejected:
        status = "over-confident" if confidence > accuracy else "under-confident"
    return ProbabilitiesCard(status, run.label, ece, confidence, accuracy)


def _p_value(card: ProbabilitiesCard) -> float:
    """Return the p-value of "calibrated", infinity without one: cards without come last."""
    if not isinstance(card.ece, CalibrationError) or math.isnan(card.ece.p_value):
        return math.inf
    return card.ece.p_value
