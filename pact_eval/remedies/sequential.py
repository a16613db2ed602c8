r"""Views one by one, replayed on a run of K views: stop when more of them can hardly matter.

The rule has one number, a threshold of the firmness (`metrics.stopping`). It is chosen on other
families than those it is applied to, such that a stated risk is kept: the share of answers that
differ from those of all views. For each item let :math:`c_i` be the largest firmness at which a
threshold could stop it with another answer. A threshold above it is safe. The smallest threshold c
with

.. math:: \frac{1}{F + 1} \Big(1 + \sum_f \frac{1}{|f|} \sum_{i \in f} 1[c_i \ge c]\Big) \le risk

keeps the risk on average over families, if they are exchangeable (conformal risk control). Fewer
than 1 / risk - 1 families cannot keep it: all views are taken.

An order that an item had before says nothing new, so repeats are left out: an item of two answers
has two views. The same number of views for every item is replayed next to the rule. Each risk is
compared, item by item, with the fewest views of every item that cost as much or more. So the rule
has no advantage in price, and a difference in its favour is a gain.

References:
    Angelopoulos, Bates, Fisch, Lei and Schuster, "Conformal risk control", ICLR 2024.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._choices import ClusterUnit
from pact_eval._typing import FloatArray, IntArray, TextArray
from pact_eval.errors import InputError, missing_probabilities
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.registry import find_metric, mean_interval
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.metrics.decoding import NONE_LEFT, normalise
from pact_eval.metrics.stopping import firmness, running_means, views_taken
from pact_eval.progress import tracked
from pact_eval.remedies.cross_fitting import Folds, folds_of
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.bootstrap import mean_statistic, resample, same_stream
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.permuted_slots import distinct_orders

RISKS: Final = (0.01, 0.02, 0.05, 0.1)
"""Shares of changed answers for which a run is replayed."""

RISK: Final = 0.02
"""The share that the answer is about."""

FIXED_VIEWS: Final = (1, 2, 4, 8)
"""Numbers of views that every item takes, with which the rule is compared."""

# Shares of families of unlike sizes, and mean views, are equal only within rounding.
_ROUNDING: Final = 1e-9

SequentialStatus: TypeAlias = Literal["saves views", "none saved", "cannot tell"]
"""saves views: at `RISK`, fewer views than all are shown to be taken; none saved: they are not;
cannot tell: the views of the run repeat one order, or it has too few families for the risk or for
an interval."""


@dataclass(frozen=True, eq=False)
class ViewSequence:
    """The views of a run in the order in which they are taken, repeats last.

    Attributes:
        predictions: the views; those of index `most` and beyond repeat an order.
        most: (n,) number of distinct orders of each item.
        means: (n, K, C) mean log-probability after 1, 2, ... views.
        firm: (n, K) firmness after 1, 2, ... views.
    """

    predictions: Predictions
    most: IntArray
    means: FloatArray
    firm: FloatArray

    @classmethod
    def of(cls, predictions: Predictions) -> ViewSequence:
        """Order the views of a run.

        Raises:
            ValueError: a view has no possible answer.
        """
        distinct = distinct_orders(predictions.code_order)
        ordered = predictions.chosen_views(np.argsort(~distinct, axis=1, kind="stable"))
        most: IntArray = distinct.sum(axis=1)
        means = running_means(ordered.logits, ordered.n_choices)
        return cls(ordered, most, means, firmness(means, most))

    @property
    def final(self) -> IntArray:
        """(n,) canonical index of the answer of all distinct orders."""
        last: IntArray = self.means[np.arange(len(self.most)), self.most - 1].argmax(axis=1)
        return last

    def critical_firmness(self) -> FloatArray:
        """Return (n,) the largest firmness that stops an item with another answer; -inf if none.

        A threshold stops an item at the first view that reaches it, so only views that are firmer
        than all before them count.
        """
        before = np.maximum.accumulate(self.firm, axis=1)[:, :-1]
        firmest = np.ones(self.firm.shape, dtype=np.bool_)
        firmest[:, 1:] = self.firm[:, 1:] > before
        early = np.arange(self.firm.shape[1]) < self.most[:, np.newaxis] - 1
        differs = self.means.argmax(axis=2) != self.final[:, np.newaxis]
        critical: FloatArray = np.where(firmest & early & differs, self.firm, -np.inf).max(axis=1)
        return critical

    def stopped(self, taken: IntArray) -> Predictions:
        """Return the items with one distribution: the ensemble of the views that were taken.

        Args:
            taken: (n,) number of views, from 1.

        Raises:
            ValueError: the views of an item leave no answer possible.
        """
        at = np.arange(len(taken)), taken - 1
        first = self.predictions.first_views(1)
        return replace(
            first, logits=normalise(self.means[at], NONE_LEFT)[:, np.newaxis], censored=None
        )


def fit_threshold(critical: FloatArray, families: TextArray, risk: float) -> float:
    """Return the smallest threshold that keeps a risk; see the module.

    Args:
        critical: (n,) from `ViewSequence.critical_firmness`.
        families: (n,) family of each item.
        risk: share of answers that may differ from those of all views, above 0 and below 1.

    Returns:
        A number from 0; infinity if the families are too few, or too many answers change late.

    Raises:
        InputError: the risk is out of range.

    Examples:
        >>> families = np.array([f"f{number}" for number in range(9)])
        >>> critical = np.array([5.0, 3.0, 1.0, *[-np.inf] * 6])
        >>> [round(fit_threshold(critical, families, risk), 6) for risk in (0.05, 0.1, 0.2, 0.5)]
        [inf, 5.0, 3.0, 0.0]
    """
    _check_risk(risk)
    _, code, sizes = np.unique(families, return_inverse=True, return_counts=True)
    budget = risk * (len(sizes) + 1) - 1 + _ROUNDING
    if budget < 0:
        return math.inf
    firmest_first = np.argsort(-critical, kind="stable")
    spent = np.cumsum(1 / sizes[code[firmest_first]])
    too_much = np.flatnonzero((spent > budget) & np.isfinite(critical[firmest_first]))
    if not too_much.size:
        return 0.0
    return float(np.nextafter(critical[firmest_first[too_much[0]]], np.inf))


def _check_risk(risk: float) -> None:
    if not 0 < risk < 1:
        message = f"risk: expected a share above 0 and below 1, got {risk:g}"
        raise InputError(message)


def least_families(risk: float) -> int:
    """Return the number of families that a fit needs to keep a risk.

    Raises:
        InputError: the risk is out of range.

    Examples:
        >>> least_families(0.02), least_families(0.05)
        (49, 19)
    """
    _check_risk(risk)
    return math.ceil(1 / risk - _ROUNDING) - 1


@dataclass(frozen=True)
class FixedPoint:
    """A run of which every item takes its first views, whatever its answers.

    Attributes:
        k: number of views; an item of fewer orders takes all of them.
        views: mean number of views per item.
        agreement: share of the items with the answer of all views.
    """

    k: int
    views: Estimate
    agreement: Estimate


@dataclass(frozen=True)
class FixedDifference:
    """The rule minus the same number of views for every item, on the same items.

    The number of views is chosen by the mean views of the rule; resamples hold it fixed.

    Attributes:
        fixed: the fewest views of every item whose mean is not below that of the rule. They are
            all views of the run if no fewer cost as much.
        views: mean number of views, 0 or below.
        agreement: share of the items with the answer of all views.
    """

    fixed: FixedPoint
    views: Estimate
    agreement: Estimate


@dataclass(frozen=True)
class SequentialPoint:
    """A run whose views are taken one by one at one risk.

    Attributes:
        risk: share of changed answers for which thresholds were chosen.
        thresholds: that of each fold, chosen on the others; infinity takes all views.
        views: mean number of views per item.
        saved: mean number of views that an item saves: its distinct orders minus its views. The
            interval is that of these differences.
        same_saving: whether every item saves as many: there is no interval then, for lack of
            spread.
        agreement: share of the items with the answer of all views.
        against_fixed: the difference from the same number of views for every item.
        accuracy: share of right answers.
        nll_nats: NLL.
        accuracy_difference: accuracy minus that of all views.
        nll_difference: NLL minus that of all views.
        stopped_at: (K,) share of the items that took 1, 2, ... views.
    """

    risk: float
    thresholds: tuple[float, ...]
    views: Estimate
    saved: Estimate
    same_saving: bool
    agreement: Estimate
    against_fixed: FixedDifference
    accuracy: Estimate
    nll_nats: Estimate
    accuracy_difference: Estimate
    nll_difference: Estimate
    stopped_at: tuple[float, ...]


@dataclass(frozen=True)
class SequentialReplay:
    """Views one by one, against all views of a run.

    Attributes:
        status: whether views are saved at `RISK`.
        risk: that risk.
        points: the curve, the smallest risk first; empty if views repeat one order.
        fixed: those of `FIXED_VIEWS` that are fewer than all; empty if views repeat one order.
        items: number of items.
        families: number of families.
        k: views per item of the run.
        most: mean number of distinct orders per item: what all views are.
        least_families: number of families that a fit needs for the risk.
        fitted_families: fewest families of a fit.
    """

    status: SequentialStatus
    risk: float
    points: tuple[SequentialPoint, ...]
    fixed: tuple[FixedPoint, ...]
    items: int
    families: int
    k: int
    most: float
    least_families: int
    fitted_families: int

    def point(self, risk: float) -> SequentialPoint:
        """Return the point of a risk.

        Raises:
            KeyError: the run was not replayed for it.
        """
        for point in self.points:
            if point.risk == risk:
                return point
        raise KeyError(risk)


def replay_views(
    predictions: Predictions,
    *,
    rng: np.random.Generator,
    resamples: int | None = None,
    unit: ClusterUnit = "family",
    risks: tuple[float, ...] = RISKS,
) -> SequentialReplay:
    """Replay a run as if its views had been taken one by one.

    Thresholds are held fixed in the resamples.

    Args:
        predictions: the views of a run with references and probabilities.
        rng: source of the resamples; its state does not change.
        resamples: bootstrap resamples of each interval; None uses `default_resamples`.
        unit: units of intervals: families, or source families.
        risks: shares of changed answers; `RISK`, which the status is about, is one of them.

    Raises:
        InputError: the run has one family, or a risk is out of range.
        ValueError: the views of an item leave no answer possible.
    """
    folds = folds_of(predictions)
    sequence = ViewSequence.of(predictions)
    fitted_families = min(
        len(np.unique(predictions.family[folds.fold != fold])) for fold in range(folds.number)
    )
    replay = SequentialReplay(
        status="cannot tell",
        risk=RISK,
        points=(),
        fixed=(),
        items=len(predictions),
        families=len(np.unique(predictions.family)),
        k=predictions.k,
        most=float(sequence.most.mean()),
        least_families=least_families(RISK),
        fitted_families=fitted_families,
    )
    if predictions.repeats or (sequence.most == 1).all():
        return replay
    sampled = _Replayed(
        sequence, folds, rng, resamples or default_resamples(len(predictions)), unit
    )
    in_order = tracked(sorted(risks), "Replaying views", "risks", counts=len(predictions))
    replay = replace(
        replay,
        points=tuple(map(sampled.point, in_order)),
        fixed=tuple(sampled.fixed(k) for k in FIXED_VIEWS if k < predictions.k),
    )
    return replace(replay, status=_status(replay))


def replay_run(experiment: Experiment, run: ExperimentRun) -> SequentialReplay:
    """Replay a run of an experiment, with its resamples, seed and units.

    Args:
        experiment: the runs and their settings.
        run: a run on full contexts.

    Raises:
        InputError: it has one view per item, repeats one order, has answers and no probabilities,
            or its views were taken one by one; or see `replay_views`.
        RunError: the run is on ablated contexts, which have no references.
    """
    run.run.require_references()
    predictions, settings = run.predictions, experiment.settings
    predictions.require_all_views(f"{run.label}: views one by one")
    if predictions.known != "probabilities":
        raise missing_probabilities(f"{run.label}: views one by one", predictions.known)
    replay = replay_views(
        predictions, rng=settings.rng(), resamples=settings.resamples, unit=settings.unit
    )
    if not replay.points:
        message = f"{run.label}: no item is shown in two orders; score the data with --k 16"
        raise InputError(message)
    return replay


def _status(replay: SequentialReplay) -> SequentialStatus:
    point = replay.point(replay.risk)
    if replay.fitted_families < replay.least_families:
        return "cannot tell"
    if point.same_saving:
        return "saves views" if point.saved.value > 0 else "none saved"
    if math.isnan(point.saved.low):
        return "cannot tell"
    return "saves views" if point.saved.low > 0 else "none saved"


@dataclass(frozen=True, eq=False)
class _Replayed:
    """A run that is replayed at several risks, with the same resamples."""

    sequence: ViewSequence
    folds: Folds
    rng: np.random.Generator
    resamples: int
    unit: ClusterUnit
    _fixed: dict[int, tuple[FixedPoint, ResampledGroup]] = field(default_factory=dict, init=False)

    def point(self, risk: float) -> SequentialPoint:
        critical, families = self.sequence.critical_firmness(), self.sequence.predictions.family
        taken = np.empty(len(critical), dtype=np.int64)
        thresholds: list[float] = []
        for fold in range(self.folds.number):
            held = self.folds.fold == fold
            thresholds.append(fit_threshold(critical[~held], families[~held], risk))
            taken[held] = views_taken(self.sequence.firm[held], thresholds[-1])
        saved = self.sequence.most - taken
        stopped = self.sequence.stopped(taken)
        stopped_at = np.bincount(taken, minlength=self.sequence.predictions.k + 1)
        group, all_views = self._group(stopped), self._all_views
        agreement = self._agreement(stopped)
        return SequentialPoint(
            risk=risk,
            thresholds=tuple(thresholds),
            views=self._mean(taken),
            saved=self._mean(saved),
            same_saving=bool((saved == saved[0]).all()),
            agreement=agreement.estimate("accuracy"),
            against_fixed=self._against_fixed(taken, agreement),
            accuracy=group.estimate("accuracy"),
            nll_nats=group.estimate("nll_nats"),
            accuracy_difference=metric_difference("accuracy", [(group, all_views)])[0],
            nll_difference=metric_difference("nll_nats", [(group, all_views)])[0],
            stopped_at=tuple((stopped_at[1:] / len(taken)).tolist()),
        )

    def fixed(self, k: int) -> FixedPoint:
        if k not in self._fixed:
            taken = self._first(k)
            agreement = self._agreement(self.sequence.stopped(taken))
            point = FixedPoint(k, self._mean(taken), agreement.estimate("accuracy"))
            self._fixed[k] = point, agreement
        return self._fixed[k][0]

    def _against_fixed(self, taken: IntArray, agreement: ResampledGroup) -> FixedDifference:
        price = taken.mean() - _ROUNDING
        prices = [self._first(k).mean() for k in range(1, self.sequence.predictions.k + 1)]
        k = 1 + int(np.argmax(np.greater_equal(prices, price)))
        fixed = self.fixed(k)
        return FixedDifference(
            fixed=fixed,
            views=self._mean(taken - self._first(k)),
            agreement=metric_difference("accuracy", [(agreement, self._fixed[k][1])])[0],
        )

    def _first(self, k: int) -> IntArray:
        """Return (n,) the views of each item if all take k of them."""
        return np.minimum(self.sequence.most, k)

    def _agreement(self, stopped: Predictions) -> ResampledGroup:
        """Return the answers compared with those of all views: their accuracy is the agreement."""
        as_reference = replace(stopped, references=self.sequence.final, accepted=None)
        return self._group(as_reference, ("accuracy",))

    @cached_property
    def _all_views(self) -> ResampledGroup:
        return self._group(self.sequence.stopped(self.sequence.most))

    @cached_property
    def _items(self) -> ScoredItems:
        """The items, for their families or source families."""
        predictions = self.sequence.predictions.first_views(1)
        return ScoredItems.of(predictions, "single").over(self.unit).with_sorted_families()

    def _group(
        self, predictions: Predictions, names: tuple[str, ...] = ("accuracy", "nll_nats")
    ) -> ResampledGroup:
        return resampled_group(
            "all",
            ScoredItems.of(predictions, "single").over(self.unit),
            rng=self.rng,
            resamples=self.resamples,
            entries=[find_metric(name) for name in names],
        )

    def _mean(self, views: IntArray) -> Estimate:
        items = self._items
        statistic = mean_statistic(views, items.cluster, items.n_clusters)
        drawn = resample(
            {"views": statistic},
            n_clusters=items.n_clusters,
            n=len(views),
            rng=same_stream(self.rng),
            resamples=self.resamples,
        )
        return mean_interval(items, drawn["views"], same_stream(self.rng))
