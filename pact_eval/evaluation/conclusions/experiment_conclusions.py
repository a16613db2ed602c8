"""Conclusions on every run, and every arm, of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pact_eval.evaluation.arms.comparison import ArmSummary
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Tone
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.conclusions.where import WhereConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.stats.estimate import Estimate

_Judged = TypeVar("_Judged", bound=Conclusion)
_WORST_FIRST: Final[tuple[Tone, ...]] = ("bad", "open", "good")


@dataclass(frozen=True)
class RunConclusions:
    """Conclusions on one of several runs.

    Attributes:
        run: its label.
        accuracy: of all items, with its interval.
        where: in which groups of items it is wrong, or wrongly sure.
        data: what an audit found of the data that the run scored, and of its training data.
        order: whether it follows the order of the answers.
        probabilities: whether they are right, under the decoding of the settings.
    """

    run: str
    accuracy: Estimate
    where: WhereConclusion
    data: DataConclusion
    order: OrderConclusion
    probabilities: ProbabilitiesConclusion


def conclude_runs(experiment: Experiment, data: DataConclusion) -> tuple[RunConclusions, ...]:
    """Answer the questions of a reader for every run of an experiment.

    Args:
        experiment: runs on full contexts.
        data: what an audit found; that of the experiment itself is concluded for each run.

    Raises:
        InputError: a run does not have the decoding of the settings.
    """
    return tuple(
        RunConclusions(
            run=run.label,
            accuracy=experiment.evaluation(run).groups[0].estimates["accuracy"],
            where=experiment.where(run),
            data=experiment.data_of(run) if data is experiment.data else data,
            order=experiment.order(run),
            probabilities=experiment.probabilities(run),
        )
        for run in experiment.runs
    )


@dataclass(frozen=True)
class ArmConclusions:
    """Conclusions on one of several arms.

    Attributes:
        arm: its name.
        seeds: seeds of its runs, ascending; None for a run without a seed.
        accuracy: of all items, over the seeds.
        order: of the run with the worst status.
        probabilities: of the run with the worst status, under the decoding of the settings.
    """

    arm: str
    seeds: tuple[int | None, ...]
    accuracy: ArmSummary
    order: OrderConclusion
    probabilities: ProbabilitiesConclusion


def conclude_arms(experiment: Experiment) -> tuple[ArmConclusions, ...]:
    """Answer the questions of a reader for every arm of an experiment.

    Args:
        experiment: runs of two or more arms on the same items.

    Raises:
        InputError: there are fewer than two arms, items differ, or a run does not have the
            decoding of the settings.
    """
    return tuple(
        ArmConclusions(
            arm=arm.name,
            seeds=arm.seeds,
            accuracy=arm.summaries["all"]["accuracy"],
            order=worst([*map(experiment.order, experiment.arms[arm.name])]),
            probabilities=worst([*map(experiment.probabilities, experiment.arms[arm.name])]),
        )
        for arm in experiment.comparisons.of_arms.arms
    )


def worst(conclusions: Sequence[_Judged]) -> _Judged:
    """Return the worst of one or more conclusions: of those of the worst tone, the surest.

    That is the one with the most answers that change, or with the smallest p-value.
    """

    def badness(conclusion: Conclusion) -> tuple[int, float]:
        number = math.nan
        if isinstance(conclusion, OrderConclusion):
            number = -conclusion.flip_rate.value
        elif isinstance(conclusion, ProbabilitiesConclusion):
            number = conclusion.p_value
        tone = _WORST_FIRST.index(conclusion.tone)
        return tone, math.inf if math.isnan(number) else number

    return min(conclusions, key=badness)
