"""Two runs on the same items: every metric of both, their difference, and exact tests of accuracy.

Runs are joined on item ids. Both runs use the same resamples of families, so the difference of two
replicates is a replicate of the difference. Accuracy also has exact tests: papers report McNemar
over items; the sign flip over families does not treat the members of a pair as independent.

Runs are compared on their common views: the letter orders of each item that all of them have.
View TV, flip rate and ensemble gain depend on the orders in which an item is shown: with more of
them, more answers change. So does the ensemble: it averages out more of the noise between views,
whatever the model. K is what someone chose to spend on scoring, and some servers show a boolean in
one order only. A difference between runs of different orders would be one of effort.

View 0 is common to all runs (`joins.mismatch` refuses others). Further views count if every run
has the order, as often as all of them have it. For runs of one order seed these are the first views
of each, since letter orders do not depend on K: this is what scoring with fewer views gives. An
item with fewer common orders than others repeats them in turn. Every run then gives an order the
same weight in the ensemble, and view TV counts it once.

Repeats of one order are not views of other orders: of a run of repeats, the mean over them is
compared, also with a run that was asked once (`ScoredItems.with_repeats`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np

from pact_eval import metrics
from pact_eval._choices import ClusterUnit, Decoding, GroupBy
from pact_eval._typing import IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import (
    DifferentViews,
    LargeFamilies,
    OneOrder,
    RoundedProbabilities,
    SeveralRight,
    SmallGroups,
    one_order,
    small_groups,
)
from pact_eval.evaluation.registry import MetricSpec, metric_spec, registered_metrics
from pact_eval.evaluation.resampled_groups import (
    Computed,
    Evidence,
    ResampledGroup,
    mean_estimate,
    metric_difference,
    resample_items,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import step
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED
from pact_eval.stats.bootstrap import same_stream
from pact_eval.stats.clusters import effective_clusters
from pact_eval.stats.estimate import FEW_CLUSTERS, Estimate
from pact_eval.stats.paired_tests import (
    McNemarTest,
    SignFlipTest,
    item_accuracy_difference,
    mcnemar,
    sign_flip_test,
)
from pact_eval.stats.power import EquivalenceVerdict, detectable_difference, equivalence_verdict


@dataclass(frozen=True, eq=False)
class SharedViews:
    """The views that several runs on the same items have in common.

    Attributes:
        k: number of views.
        chosen: for each run, (n, k) the views that show the common orders, in the same order of
            letters; None if they are the first k views of every run.
        unlike: number of items of which the runs have different orders.
    """

    k: int
    chosen: tuple[IntArray, ...] | None = None
    unlike: int = 0

    def note(self, ks: Mapping[str, int], *, ensembles: bool) -> DifferentViews | None:
        """Return a note on unlike views; None if all runs have the same.

        Args:
            ks: number of views by name of the run.
            ensembles: whether the distributions are ensembles.
        """
        if not self.unlike and set(ks.values()) == {self.k}:
            return None
        return DifferentViews(ks, self.k, ensembles, self.unlike)


def shared_views(code_orders: Sequence[IntArray]) -> SharedViews:
    """Return the views of several runs that show the same letter orders, item by item.

    Args:
        code_orders: of each run, (n, K, C) canonical index at each letter, with the items in the
            same order; all -1 in a view of unknown order. If a run lacks an order of an item, its
            views count as those of the same number in the other runs.

    Raises:
        InputError: the runs have no order of an item in common.

    Examples:
        >>> both, one = [[0, 1], [1, 0]], [[0, 1], [0, 1]]
        >>> local, served = np.array([both, both]), np.array([both, one])
        >>> shared = shared_views([local, served])
        >>> shared.k, shared.unlike, [chosen.tolist() for chosen in shared.chosen]
        (2, 1, [[[0, 1], [0, 0]], [[0, 1], [0, 0]]])
    """
    k = min(orders.shape[1] for orders in code_orders)
    # Unused letters: a run may have had items of more answers, which are left out.
    letters = min(orders.shape[2] for orders in code_orders)
    of_runs = [orders[:, :, :letters] for orders in code_orders]
    by_place = np.logical_or(
        np.logical_and.reduce(
            [(of_runs[0][:, :k] == orders[:, :k]).all(axis=(1, 2)) for orders in of_runs]
        ),
        np.logical_or.reduce([(orders[:, :, 0] < 0).any(axis=1) for orders in of_runs]),
    )
    if k == 1 or by_place.all():
        return SharedViews(k)
    unlike = np.flatnonzero(~by_place)
    views_by_orders: dict[tuple[bytes, ...], list[list[int]]] = {}
    of_items: list[list[list[int]]] = []
    for row in unlike.tolist():
        item_orders = [run_orders[row] for run_orders in of_runs]
        key = tuple(order.tobytes() for order in item_orders)
        if key not in views_by_orders:
            views_by_orders[key] = _views_of_common_orders(item_orders)
        of_items.append(views_by_orders[key])
    common = k if by_place.any() else max(len(views[0]) for views in of_items)
    chosen = []
    for run in range(len(of_runs)):
        index = np.tile(np.arange(common), (len(by_place), 1))
        index[unlike] = [np.resize(views[run], common) for views in of_items]
        chosen.append(index)
    return SharedViews(common, tuple(chosen), len(unlike))


def views_in_common(runs: Sequence[Predictions]) -> SharedViews:
    """Return the views that runs have in common: of repeats and other runs, view 0.

    Args:
        runs: runs on the same items in the same order.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    if len({views.repeats for views in runs}) > 1:
        return SharedViews(1)
    return shared_views([views.code_order for views in runs])


def common_repeats(runs: Iterable[ExperimentRun], decoding: Decoding) -> int:
    """Return how many repeats a number of several runs is of; 1 if it is of views.

    Args:
        runs: runs that are compared.
        decoding: single is the mean over all repeats of each run; ensemble is of the repeats that
            every run has.
    """
    repeats = [run.predictions.k if run.predictions.repeats else 1 for run in runs]
    return max(repeats) if decoding == "single" else min(repeats)


def _views_of_common_orders(orders: Sequence[IntArray]) -> list[list[int]]:
    """Return the views of each run that show the orders of one item which all runs have.

    Args:
        orders: of each run, (K, C) the orders of the item.
    """
    numbered = [_number_orders(run_orders.tolist()) for run_orders in orders]
    common = [key for key in numbered[0] if all(key in views for views in numbered[1:])]
    if not common:
        message = "an item is shown in other letter orders by every run: it cannot be compared"
        raise InputError(message)
    return [[views[key] for key in common] for views in numbered]


def _number_orders(orders: Sequence[Sequence[int]]) -> dict[tuple[int, ...], int]:
    """Return the view of each order; the key also counts its earlier occurrences."""
    views: dict[tuple[int, ...], int] = {}
    for view, order in enumerate(orders):
        views[*order, sum(order == earlier for earlier in orders[:view])] = view
    return views


def at_common_views(runs: Sequence[_Viewed]) -> tuple[list[_Viewed], SharedViews]:
    """Return runs as if each had been scored with the views that all of them have.

    Args:
        runs: runs, or their items under one decoding, with the same items in the same order.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    shared = views_in_common([run.predictions for run in runs])
    if shared.chosen is None:
        return [run.with_views(shared.k) for run in runs], shared
    chosen = zip(runs, shared.chosen, strict=True)
    return [run.with_views(views) for run, views in chosen], shared


def items_at_common_views(
    runs: Sequence[ScoredItems], names: Sequence[str]
) -> tuple[list[ScoredItems], tuple[DifferentViews, ...]]:
    """Return the items of runs at their common views, shown in several orders in all of them.

    If the orders of a run are unknown, only those of the others say which items these are.

    Args:
        runs: as for `at_common_views`.
        names: of the runs, for the note.

    Returns:
        The items of every run, and a note if the views of the runs differ.

    Raises:
        InputError: the runs have no order of an item in common.
    """
    alike, shared = at_common_views(runs)
    masks = [run.reordered for run in alike if run.reordered is not None]
    if masks:
        common = np.logical_and.reduce(masks)
        alike = [
            run
            if run.reordered is not None and np.array_equal(run.reordered, common)
            else replace(run, reordered=common)
            for run in alike
        ]
    ensembles = any(run.decoding == "ensemble" for run in alike)
    ks = {name: run.k for name, run in zip(names, runs, strict=True)}
    note = shared.note(ks, ensembles=ensembles)
    return alike, () if note is None else (note,)


_RATES = ("percent", "points")

_AnyGroup = TypeVar("_AnyGroup")
_Viewed = TypeVar("_Viewed", ScoredItems, ExperimentRun)


GroupPairs = Sequence[tuple[ResampledGroup, ResampledGroup]]
"""The same group of items in two runs; of two arms, one pair of runs per shared seed."""


@dataclass(frozen=True)
class MetricComparison:
    """One metric of both runs; of two arms, its means over the seeds that both have.

    Attributes:
        spec: the metric.
        a: its value in the first run.
        b: its value in the second run.
        difference: a minus b, with the same resamples of families; seeds are held fixed.
        evidence: whether the difference is shown at the 5% level, and by which test.
        verdict: the difference compared with the margin; None without a margin, or if the metric is
            not a rate.
    """

    spec: MetricSpec
    a: Estimate
    b: Estimate
    difference: Estimate
    evidence: Evidence
    verdict: EquivalenceVerdict | None

    @property
    def marked(self) -> bool:
        """Whether the difference is marked: shown at the 5% level."""
        return self.evidence.marked


@dataclass(frozen=True)
class AccuracyTests:
    """The exact tests of a difference in accuracy, as papers print them; its interval decides.

    Attributes:
        items: McNemar over items.
        families: sign flip over families.
        pairs: McNemar over complete pairs, for pair accuracy; None without complete pairs, and for
            repeats, which are not independent.
        item_interval: bootstrap of the difference over items, for comparison with papers.
        detectable: smallest difference that this holdout shows with 80% power, a fraction; NaN
            without an interval, and if the families are worth fewer than 30 of equal size.
    """

    items: McNemarTest
    families: SignFlipTest
    pairs: McNemarTest | None
    item_interval: Estimate
    detectable: float


@dataclass(frozen=True)
class GroupComparison:
    """Both runs on one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        answers: number of answers per run: items, times repeats if there are any.
        families: number of families.
        clusters: number of units of intervals and sign flips: families, or source families.
        metrics: by name, in the order of the report.
        accuracy: the exact tests of accuracy.
    """

    name: str
    items: int
    answers: int
    families: int
    clusters: int
    metrics: Mapping[str, MetricComparison]
    accuracy: AccuracyTests


@dataclass(frozen=True, slots=True)
class DifferingItem:
    """An item that only one of two runs answers correctly.

    Attributes:
        id: its id.
        correct: "a" or "b": the run that answers correctly.
        reference: canonical index of the correct answer; None if its run does not name answers.
        other: canonical index of the answer of the run that is wrong; None likewise.
        confidence: probability that this run gives to its answer; NaN if it is not known.
        row: number of the item in both runs; its repeats have the same.
    """

    id: str
    correct: Literal["a", "b"]
    reference: int | None
    other: int | None
    confidence: float = math.nan
    row: int = field(default=0, repr=False)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two runs on the same items.

    Attributes:
        by: grouping after all items: kind, domain or source_family.
        unit: units of intervals and sign flips: families, or source families.
        groups: all items first, then the groups.
        notes: number of views of each run, if they differ; groups of few families.
        differing: the items that only one run answers correctly: those of the first, first.
    """

    by: GroupBy
    groups: tuple[GroupComparison, ...]
    unit: ClusterUnit = "family"
    notes: tuple[
        DifferentViews
        | LargeFamilies
        | OneOrder
        | RoundedProbabilities
        | SeveralRight
        | SmallGroups,
        ...,
    ] = ()
    differing: tuple[DifferingItem, ...] = ()


def compare(
    a: ScoredItems,
    b: ScoredItems,
    settings: Settings,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Compare two runs.

    Args:
        a: the first run under its decoding.
        b: the second run under its decoding, with the items in the same order (see `align`).
        settings: grouping, bootstrap and margin.
        names: names of the metrics, over all items alone; None takes all, over every group.

    Returns:
        The comparison; differences are a minus b.
    """
    runs, notes = items_at_common_views((a, b), "AB")
    by = settings.by if names is None else None
    first, second = (resample_items(run, settings, by, names) for run in runs)
    comparison = compare_groups(first, second, settings)
    return replace(comparison, notes=(*notes, *one_order(runs[0]), *comparison.notes))


def compare_groups(
    a: Sequence[ResampledGroup],
    b: Sequence[ResampledGroup],
    settings: Settings,
) -> Comparison:
    """Compare two runs whose groups are already resampled; see `compare`."""
    groups = tuple(_group(*pair, settings.margin) for pair in zip(a, b, strict=True))
    first, second = a[0].items, b[0].items
    return Comparison(
        by=settings.by,
        groups=groups,
        unit=first.unit,
        notes=(
            *LargeFamilies.of(first),
            *small_groups({group.name: group.items.n_clusters for group in a}, first.unit),
        ),
        differing=differing_of(first, second),
    )


def only_first(first: ScoredItems, second: ScoredItems) -> tuple[str, ...]:
    """Return the ids of the items that only the first of two runs answers correctly."""
    return tuple(first.predictions.ids[first.correct & ~second.correct].tolist())


def differing_of(a: ScoredItems, b: ScoredItems) -> tuple[DifferingItem, ...]:
    """Return the items that only one of two runs answers correctly: those of the first, first."""
    return (*_differing(a, b, "a"), *_differing(b, a, "b"))


def _differing(
    right: ScoredItems, wrong: ScoredItems, correct: Literal["a", "b"]
) -> Iterator[DifferingItem]:
    """Yield the items that one run answers correctly and the other does not."""
    ids, repeats = right.predictions.ids, right.asked
    for row in np.flatnonzero(right.correct & ~wrong.correct).tolist():
        # The run that is right answers with the reference.
        reference, other = (
            None if items.known in UNNAMED else int(items.predicted[row])
            for items in (right, wrong)
        )
        sure, item = float(wrong.confidence[row]), row // repeats
        yield DifferingItem(str(ids[row]), correct, reference, other, sure, item)


def same_as_all(groups: Sequence[_AnyGroup]) -> Sequence[_AnyGroup]:
    """Return the groups of all items: the first, and a single further one."""
    return groups if len(groups) == 2 else groups[:1]


def _group(a: ResampledGroup, b: ResampledGroup, margin: float | None) -> GroupComparison:
    names = [spec.name for spec in registered_metrics(a.items.contexts) if spec.name in a.drawn]
    compared = Computed(names, lambda name: compare_metric(name, [(a, b)], margin))
    return GroupComparison(
        name=a.name,
        items=a.items.n_items,
        answers=len(a.items),
        families=len(a.items.families),
        clusters=a.items.n_clusters,
        metrics=compared,
        accuracy=_accuracy_tests(a, b, compared["accuracy"].difference),
    )


def compare_metric(metric: str, pairs: GroupPairs, margin: float | None = None) -> MetricComparison:
    """Compare one metric in a group of items.

    Args:
        metric: its name.
        pairs: the group in both runs; of arms, one pair per seed, whose means are compared.
        margin: largest difference in a rate that does not matter, as a fraction, or None.
    """
    spec = metric_spec(metric)
    with step(f"Comparing {spec.title}"):
        difference, test = metric_difference(metric, pairs)
    a, b = (mean_estimate(side, metric) for side in zip(*pairs, strict=True))
    return MetricComparison(spec, a, b, difference, test, rate_verdict(spec, difference, margin))


def rate_verdict(
    spec: MetricSpec, difference: Estimate, margin: float | None
) -> EquivalenceVerdict | None:
    """Compare a difference with a margin; None without one, or if the metric is not a rate."""
    if margin is None or spec.unit not in _RATES:
        return None
    return equivalence_verdict(difference, margin, better=spec.better)


def detectable_accuracy(difference: Estimate, items: ScoredItems) -> float:
    """Return what the items show with 80% power; NaN if few families say how wide intervals are.

    It takes the width to be the same at every difference. With few families, or with large ones,
    that does not hold: a larger difference may have a wider interval, and not be shown.
    """
    if effective_clusters(np.bincount(items.cluster).astype(np.float64)) < FEW_CLUSTERS:
        return math.nan
    return detectable_difference(difference)


def _accuracy_tests(
    group: ResampledGroup, other: ResampledGroup, difference: Estimate
) -> AccuracyTests:
    a, b = group.items, other.items
    items, resamples = mcnemar(a.correct, b.correct), group.drawn["accuracy"].resamples
    return AccuracyTests(
        items=items,
        families=sign_flip_test(a.correct, b.correct, a.cluster),
        pairs=mcnemar(*(metrics.pair_correct(a.pairs, run.correct) for run in (a, b)))
        if len(a.pairs) and a.asked == 1
        else None,
        item_interval=item_accuracy_difference(
            items.b, items.c, items.n, rng=same_stream(group.rng), resamples=resamples
        ),
        detectable=detectable_accuracy(difference, a),
    )
