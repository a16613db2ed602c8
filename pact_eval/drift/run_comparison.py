"""Comparisons of runs, with the changes by serving and quantising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.drift.drift import AnswerChanges, answer_changes
from pact_eval.drift.pairs import (
    Distance,
    PairedRuns,
    ServedTempering,
    item_tv,
    served_tempering,
    small_percent,
)
from pact_eval.errors import InputError
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
from pact_eval.metrics import log_softmax
from pact_eval.numbers import estimate_text
from pact_eval.remedies.priors import fit_letter_prior, letters_of_answers
from pact_eval.results import Framed, Note
from pact_eval.runs.identity import RunIdentity
from pact_eval.runs.predictions import Predictions

PriorSide = Literal["first", "second", "cannot tell"]
"""Which run has the prior removed; cannot tell: neither has views that show its preference."""

_FEWEST: Final = 10
"""Items of a number of answers; a prior of C letters fits fewer by chance."""

_LEAST_TV: Final = 0.005
_LEFT: Final = 0.2


@dataclass(frozen=True)
class PriorRemoval:
    """A letter prior by which two runs differ.

    Attributes:
        removed_from: the run that lacks it.
        log_prior: by number of answers, the log-preference of letters A, B, ... in nats that the
            run without it lacks, with a mean of 0.
        items: number of items with such a number of answers.
        tv: mean TV between the runs on these items, at view 0.
        tv_left: mean TV once the prior is put back.
    """

    removed_from: PriorSide
    log_prior: Mapping[int, tuple[float, ...]]
    items: int
    tv: float
    tv_left: float

    @property
    def largest(self) -> tuple[str, float]:
        """The letter with the largest preference, and its size in nats."""
        sizes = [
            (abs(value), chr(ord("A") + at), value)
            for values in self.log_prior.values()
            for at, value in enumerate(values)
        ]
        _, letter, value = max(sizes)
        return letter, value

    def sentence(self, names: tuple[str, str]) -> str:
        """Say which of two runs has a letter prior removed, and what that explains."""
        letter, size = self.largest
        explained = (
            f"mean TV {small_percent(self.tv)}, {small_percent(self.tv_left)} once it is put back; "
            f"largest at letter {letter}, {size:+.2f} nats"
        )
        if self.removed_from == "cannot tell":
            return (
                f"A letter prior lies between the runs ({explained}). Which of them has it removed "
                "cannot be told: neither has views in other orders."
            )
        without, other = names if self.removed_from == "first" else reversed(names)
        return f"{without} has a letter prior removed, {other} has not ({explained})."


def prior_removal(first: ExperimentRun, second: ExperimentRun) -> PriorRemoval | None:
    """Return the letter prior by which a local run and one from elsewhere differ.

    Args:
        first: a run; the items of both are in the same order.
        second: another run.

    Returns:
        None if the runs do not differ by a letter prior, if both were scored here, or if letters or
        probabilities are not known.
    """
    elsewhere = [
        run.provenance.served or run.provenance.source != "score" for run in (first, second)
    ]
    sides = (first, second)
    if not any(elsewhere) or any(
        run.ablated or run.provenance.known != "probabilities" for run in sides
    ):
        return None
    a, b = first.predictions, second.predictions
    try:
        letters = letters_of_answers(a.with_views(1))[:, 0]
        p, q = (views.with_views(1).log_probs("single") for views in (a, b))
    except (InputError, ValueError):
        return None
    width = min(p.shape[1], q.shape[1])
    return _between(p[:, :width], q[:, :width], letters[:, :width], (a, b))


def _between(
    p: FloatArray, q: FloatArray, letters: np.ndarray, views: tuple[Predictions, Predictions]
) -> PriorRemoval | None:
    n_choices = views[0].n_choices
    log_prior: dict[int, tuple[float, ...]] = {}
    distances: list[FloatArray] = []
    left: list[FloatArray] = []
    for count in np.unique(n_choices).tolist():
        rows = n_choices == count
        of_p, of_q = p[rows, :count], q[rows, :count]
        finite = np.isfinite(of_p).all(axis=1) & np.isfinite(of_q).all(axis=1)
        if finite.sum() < _FEWEST:
            continue
        of_p, of_q, at = of_p[finite], of_q[finite], letters[rows][finite, :count]
        by_letter = np.empty(of_p.shape)
        np.put_along_axis(by_letter, at, of_p - of_q, axis=1)
        by_letter -= by_letter.mean(axis=1, keepdims=True)
        prior = by_letter.mean(axis=0)
        without = log_softmax(of_p - prior[at], np.full(len(of_p), count))
        log_prior[count] = tuple(prior.tolist())
        distances.append(item_tv(np.exp(of_p), np.exp(of_q)))
        left.append(item_tv(np.exp(without), np.exp(of_q)))
    if not log_prior:
        return None
    tv, tv_left = (float(np.concatenate(parts).mean()) for parts in (distances, left))
    if tv < _LEAST_TV or tv_left > _LEFT * tv:
        return None
    side, sign = _side(views, log_prior)
    signed = {count: tuple(sign * value for value in row) for count, row in log_prior.items()}
    return PriorRemoval(side, signed, sum(map(len, distances)), tv, tv_left)


def _side(
    views: tuple[Predictions, Predictions], log_prior: Mapping[int, tuple[float, ...]]
) -> tuple[PriorSide, int]:
    """Return the run that has less of the preference, and the sign of what it lacks."""
    for number, own in enumerate(views):
        if own.k == 1 or own.repeats:
            continue
        try:
            fitted = fit_letter_prior(own, "additive").log_prior
        except InputError:
            continue
        counts = [count for count in log_prior if count in fitted]
        if not counts:
            continue
        here = np.concatenate([fitted[count] for count in counts])
        apart = np.concatenate([np.array(log_prior[count]) for count in counts])
        # The preference of the first run is that of the second plus what lies between them.
        first, second = (here, here - apart) if number == 0 else (here + apart, here)
        if np.square(second).sum() < np.square(first).sum():
            return "second", 1
        return "first", -1
    return "cannot tell", 1


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
        prior_removal: the letter prior that was removed from one of the runs; None if they do not
            differ by one.
    """

    experiment: Experiment = field(repr=False, compare=False)
    runs: tuple[ExperimentRun, ExperimentRun] = field(repr=False, compare=False)
    conclusion: BetterConclusion
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    tempering: ServedTempering | None = None
    quantising: QuantisingCost | None = None
    prior_removal: PriorRemoval | None = None

    @property
    def data(self) -> DataConclusion:
        """Whether the data of the runs is sound."""
        return self.experiment.data

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is said of a served run and a local one, of quantising and of a letter prior."""
        served = () if self.tempering is None else self.tempering.sentences
        quantised = () if self.quantising is None else self.quantising.sentences
        if self.prior_removal is None:
            return (*served, *quantised)
        names = (self.runs[0].title, self.runs[1].title)
        return (*served, *quantised, self.prior_removal.sentence(names))

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
            prior_removal=prior_removal(first, run),
        )
        for run, comparison, conclusion in zip(others, comparisons, conclusions, strict=True)
    )
