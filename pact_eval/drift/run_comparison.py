"""Comparisons of runs, with the changes by serving and quantising."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from pact_eval.drift.prior_removal import PriorRemoval, prior_removal
from pact_eval.drift.quantising import QuantisingCost, quantising_cost
from pact_eval.drift.tempering import ServedTempering, served_tempering
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun


@dataclass(frozen=True, kw_only=True, repr=False)
class RunComparison(Comparison):
    """Two runs on the same items, with all that `pact-eval compare` shows of them.

    Attributes:
        experiment: the runs that were read together, with the settings of all numbers.
        runs: the first run and the second; differences are the first minus the second.
        conclusion: whether the first run is better.
        tempering: the temperatures of a served run and of a local one; None for other runs.
        quantising: what quantising the base model cost; None unless the runs differ by that.
        prior_removal: the letter prior that was removed from one of the runs; None if they do not
            differ by one.
    """

    experiment: Experiment = field(repr=False, compare=False)
    runs: tuple[ExperimentRun, ExperimentRun] = field(repr=False, compare=False)
    conclusion: BetterConclusion
    tempering: ServedTempering | None = None
    quantising: QuantisingCost | None = None
    prior_removal: PriorRemoval | None = None

    @property
    def data(self) -> DataConclusion:
        """Whether the data of the runs is sound."""
        return self.experiment.data

    @property
    def orders(self) -> tuple[OrderConclusion, OrderConclusion]:
        """Of the first run and the second, whether it follows the order of the answers."""
        first, second = self.runs
        return self.experiment.order(first), self.experiment.order(second)

    @property
    def probabilities(self) -> tuple[ProbabilitiesConclusion, ProbabilitiesConclusion]:
        """Of the first run and the second, whether its probabilities are right."""
        first, second = self.runs
        return self.experiment.probabilities(first), self.experiment.probabilities(second)


def compare_runs(experiment: Experiment) -> tuple[RunComparison, ...]:
    """Compare the first run of an experiment with each of the others.

    Args:
        experiment: two or more runs on the same items, with references.

    Returns:
        One comparison per further run; what the first line may name is adjusted together.

    Raises:
        RunError: a run is on ablated contexts, which have no references.
        InputError: there are fewer than two runs, their items differ, or a run lacks the decoding
            or a calibrator.
    """
    comparisons, conclusions = experiment.comparisons.of_first, experiment.comparisons.better_runs
    first, *others = experiment.runs
    return tuple(
        RunComparison(
            **{column.name: getattr(comparison, column.name) for column in fields(comparison)}
            | {
                "warnings": (*experiment.leaks, *experiment.applied_warnings),
                "conclusion": conclusion,
            },
            experiment=experiment,
            runs=(first, run),
            tempering=served_tempering(first, run, experiment.settings),
            quantising=quantising_cost(first, run, experiment.settings),
            prior_removal=prior_removal(first, run),
        )
        for run, comparison, conclusion in zip(others, comparisons, conclusions, strict=True)
    )
