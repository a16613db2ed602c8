"""Comparisons of runs, with the changes by serving and quantising."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.drift.drift import AnswerChanges, answer_changes
from pact_eval.drift.pairs import Distance, PairedRuns, ServedTempering, served_tempering
from pact_eval.evaluation.comparison import Comparison
from pact_eval.evaluation.conclusions.better import BetterConclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.conclusions.probabilities import ProbabilitiesConclusion
from pact_eval.evaluation.conclusions.where import WhereConclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.spending import Spending, compare_spending
from pact_eval.numbers import estimate_text
from pact_eval.results import Framed, Note
from pact_eval.runs.identity import RunIdentity


@dataclass(frozen=True)
class QuantisingCost:
    """Two runs of one adapter on one base, which differ in how the base is quantised.

    Attributes:
        before: precision of the first run, such as "bfloat16".
        after: precision of the second run, such as "bfloat16 (nf4)".
        answers: how many answers changed from the first to the second, of all items.
        distance: how far probabilities moved.
    """

    before: str | None
    after: str | None
    answers: AnswerChanges
    distance: Distance

    @property
    def sentences(self) -> tuple[str, str]:
        """The changes by quantising the base model: answers, then probabilities."""
        changed, directions = self.answers, ""
        if changed.worse is not None:
            directions = (
                f": {changed.worse} from right to wrong, {changed.better} from wrong to right, "
                f"{changed.both_wrong} from wrong to wrong"
            )
        share = estimate_text(changed.changed, "percent")
        return (
            f"Quantising: {changed.count:,} of {changed.items:,} answers differ between "
            f"{self.before} and {self.after}, {share}%{directions}.",
            f"Probabilities: {self.distance.text}",
        )


def quantising_cost(
    first: ExperimentRun, second: ExperimentRun, settings: Settings
) -> QuantisingCost | None:
    """Measure what quantising changed, in either order of the runs.

    Args:
        first: a run.
        second: another run on the same items.
        settings: decoding, calibration and units.

    Returns:
        None unless the runs differ in quantisation and not in the adapter.

    Raises:
        InputError: an item has another reference, kind or family in the other run.
    """
    identities = (RunIdentity.of(run.provenance) for run in (first, second))
    facts = {difference.fact for difference in next(identities).differences(next(identities))}
    if "quantisation" not in facts or facts & {"adapter", "base"} or first.ablated:
        return None
    plain, packed = (second, first) if second.provenance.quantisation is None else (first, second)
    pair = PairedRuns.of(plain, packed, settings)
    if not pair.pairing.paired:
        return None
    return QuantisingCost(
        plain.provenance.precision,
        packed.provenance.precision,
        answer_changes(pair.a, pair.b, settings.by)[0],
        pair.distance(calibrated=settings.calibrated),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class RunComparison(Comparison, Framed):
    """Two runs on the same items, with all that `pact-eval compare` shows of them.

    Attributes:
        experiment: the runs that were read together, with the settings of all numbers.
        runs: the first run and the second; differences are the first minus the second.
        conclusion: whether the first run is better.
        warnings: warnings on the data, on the runs, and on their calibrators if they are applied.
        tempering: the temperatures of a served run and of a local one; None for other runs.
        quantising: what quantising the base model cost; None unless the runs differ by that.
    """

    experiment: Experiment = field(repr=False, compare=False)
    runs: tuple[ExperimentRun, ExperimentRun] = field(repr=False, compare=False)
    conclusion: BetterConclusion
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    tempering: ServedTempering | None = None
    quantising: QuantisingCost | None = None

    @property
    def data(self) -> DataConclusion:
        """Whether the data of the runs is sound."""
        return self.experiment.data

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is said of a served run and a local one, and of quantising."""
        served = () if self.tempering is None else self.tempering.sentences
        quantised = () if self.quantising is None else self.quantising.sentences
        return (*served, *quantised)

    @cached_property
    def spending(self) -> Spending | None:
        """Which run is cheaper or faster; None if their logs do not say."""
        return compare_spending(self.experiment, *self.runs)

    @property
    def orders(self) -> tuple[OrderConclusion, ...]:
        """Of the first run and the second, whether it follows the order of the answers."""
        return tuple(map(self.experiment.order, self.runs))

    @property
    def where(self) -> tuple[WhereConclusion, ...]:
        """Of the first run and the second, in which groups of items it is wrong."""
        return tuple(map(self.experiment.where, self.runs))

    @property
    def probabilities(self) -> tuple[ProbabilitiesConclusion, ...]:
        """Of the first run and the second, whether its probabilities are right."""
        return tuple(map(self.experiment.probabilities, self.runs))


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
            **vars(comparison),
            experiment=experiment,
            runs=(first, run),
            conclusion=conclusion,
            warnings=(*experiment.leaks, *experiment.applied_warnings),
            tempering=served_tempering(first, run, experiment.settings),
            quantising=quantising_cost(first, run, experiment.settings),
        )
        for run, comparison, conclusion in zip(others, comparisons, conclusions, strict=True)
    )
