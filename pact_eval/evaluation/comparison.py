"""Two runs on the same items: what differs, how surely, and by how much it could.

Runs are joined on item ids. Every metric of the report is drawn for both runs, and for their
difference, under the same resamples of families. Accuracy has exact tests beside that: McNemar over
items, as papers report it, and a sign flip over families, which does not take the two members of a
pair for independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems, group_rows
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.specs import METRICS, GroupBy, MetricSpec
from pact_eval.evaluation.statistics import GroupStatistics, group_statistics
from pact_eval.runs import ScoredViews
from pact_eval.stats import (
    DesignEffect,
    DetectableDifference,
    Estimate,
    HolmAdjustment,
    McNemarTest,
    SignFlipTest,
    Statistic,
    Verdict,
    bootstrap_intervals,
    design_effect,
    detectable_difference,
    difference_statistics,
    equivalence_verdict,
    holm,
    item_accuracy_difference,
    mcnemar,
    sign_flip_test,
)

__all__ = [
    "AccuracyTests",
    "Comparison",
    "GroupComparison",
    "MetricComparison",
    "align",
    "compare",
]

Views = TypeVar("Views", bound=ScoredViews)

_SHOWN = 5
_SAME = ("reference", "answers", "n_choices", "kind", "family")
_RATES = ("percent", "points")


@dataclass(frozen=True)
class MetricComparison:
    """One metric of both runs.

    Attributes:
        spec: which metric.
        a: of the first run.
        b: of the second run.
        difference: a minus b, under the same resamples.
        verdict: what its interval says of the margin, where one was given and the metric is a rate.
    """

    spec: MetricSpec
    a: Estimate
    b: Estimate
    difference: Estimate
    verdict: Verdict | None


@dataclass(frozen=True)
class AccuracyTests:
    """The exact tests of a difference in accuracy.

    Attributes:
        items: McNemar over items.
        families: sign flip over families; the one to believe where families are larger than one.
        pairs: McNemar over complete pairs, for pair accuracy; None where there are none.
        item_interval: bootstrap of the difference over items, for comparison with papers.
        design_effect: variance of the difference over families relative to independent items.
        detectable: smallest difference that such a holdout shows with 80% power.
    """

    items: McNemarTest
    families: SignFlipTest
    pairs: McNemarTest | None
    item_interval: Estimate
    design_effect: DesignEffect
    detectable: DetectableDifference


@dataclass(frozen=True)
class GroupComparison:
    """Both runs on one group of items.

    Attributes:
        name: "all", or the kind, domain or source family.
        items: number of items.
        families: number of families.
        metrics: by name, in the order of the report.
        accuracy: the exact tests.
    """

    name: str
    items: int
    families: int
    metrics: Mapping[str, MetricComparison]
    accuracy: AccuracyTests


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same items.

    Attributes:
        by: what the groups after the first are.
        groups: all items first, then the groups.
        only_a: ids of the items that only the first run gets right, in its order.
        only_b: ids of those that only the second gets right.
        holm: p-values over families of the groups after the first, adjusted together.
    """

    by: GroupBy
    groups: tuple[GroupComparison, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    holm: HolmAdjustment


def align(a: Views, b: Views, *, names: tuple[str, str] = ("A", "B")) -> Views:
    """Return the second run's items in the order of the first.

    Args:
        a: the first run.
        b: the second run, of the same sort: on whole contexts, or on ablated ones.
        names: what messages call them.

    Returns:
        The items of `b`, one for each item of `a`; domains, source families and variants, which an
        import may lack, are those that `a` says.

    Raises:
        InputError: the runs hold other items, or an item has another reference (two other answers
            where it is ablated), number of answers, kind or family in the two.
    """
    row_of = {item: row for row, item in enumerate(b.ids.tolist())}
    missing = [item for item in a.ids.tolist() if item not in row_of]
    surplus = set(row_of) - set(a.ids.tolist())
    if missing or surplus:
        message = (
            f"the runs hold other items: {len(missing):,} only in {names[0]} "
            f"({_some(missing)}), {len(surplus):,} only in {names[1]} ({_some(sorted(surplus))})"
        )
        raise InputError(message)
    aligned = b.taken(np.array([row_of[item] for item in a.ids.tolist()], dtype=np.int64))
    for column in (name for name in _SAME if name in {field.name for field in fields(a)}):
        unlike = getattr(a, column) != getattr(aligned, column)
        differs = np.flatnonzero(unlike.any(axis=1) if unlike.ndim == 2 else unlike)
        if differs.size:
            listed = _some(a.ids[differs].tolist())
            message = f"the runs differ in {column} at {differs.size:,} items: {listed}"
            raise InputError(message)
    return replace(aligned, source_family=a.source_family, domain=a.domain, variant=a.variant)


def compare(
    a: ScoredItems,
    b: ScoredItems,
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    margin: float | None = None,
) -> Comparison:
    """Compare two runs.

    Args:
        a: the first run under its decoding.
        b: the second run under its own, its items in the same order (see `align`).
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of families; None takes `default_resamples`.
        margin: largest difference in a rate that does not matter, as a fraction; None makes no
            verdicts.

    Returns:
        The comparison; differences are a minus b.
    """
    resamples = resamples or default_resamples(len(a.predictions))
    groups = tuple(
        _group(name, a.taken(rows), b.taken(rows), rng, resamples, margin)
        for name, rows in group_rows(a.predictions, by).items()
    )
    ids = a.predictions.ids
    return Comparison(
        by=by,
        groups=groups,
        only_a=tuple(ids[a.correct & ~b.correct].tolist()),
        only_b=tuple(ids[b.correct & ~a.correct].tolist()),
        holm=holm([group.accuracy.families.p_value for group in groups[1:]]),
    )


def _group(
    name: str,
    a: ScoredItems,
    b: ScoredItems,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None,
) -> GroupComparison:
    groups = group_statistics(a), group_statistics(b)
    estimates = _estimates(groups, rng, resamples)
    accuracy = _accuracy_tests(a, b, groups[0], rng, resamples)
    return GroupComparison(
        name=name,
        items=len(a.predictions),
        families=groups[0].sets[0].n_clusters,
        metrics={spec.name: _metric(spec, estimates, accuracy, margin) for spec in METRICS},
        accuracy=accuracy,
    )


def _estimates(
    groups: tuple[GroupStatistics, GroupStatistics], rng: np.random.Generator, resamples: int
) -> dict[tuple[str, str], Estimate]:
    """Return estimates by (run or difference, metric); all see the same resamples."""
    estimates: dict[tuple[str, str], Estimate] = {}
    for of_a, of_b in zip(groups[0].sets, groups[1].sets, strict=True):
        a, b = (
            {name: _remembered(statistic) for name, statistic in each.statistics.items()}
            for each in (of_a, of_b)
        )
        drawn = {"a": a, "b": b, "difference": difference_statistics(a, b)}
        found = bootstrap_intervals(
            {f"{run} {metric}": each for run, s in drawn.items() for metric, each in s.items()},
            n_clusters=of_a.n_clusters,
            n=of_a.n,
            rng=deepcopy(rng),
            resamples=resamples,
        )
        for key, estimate in found.items():
            run, _, metric = key.partition(" ")
            estimates[run, metric] = estimate
    for run, group in zip("ab", groups, strict=True):
        for metric, basis in group.bases.items():
            estimates[run, metric] = basis.judge(estimates[run, metric])
            if not basis.units:
                difference = estimates["difference", metric]
                estimates["difference", metric] = replace(difference, reason=basis.reason_if_none)
    return estimates


def _remembered(statistic: Statistic) -> Statistic:
    """Return a statistic that is computed once for the same weights: a difference asks again."""
    last: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]] = []

    def remembered(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if not last or last[0][0] is not weights:
            last[:] = [(weights, statistic(weights))]
        return last[0][1]

    return remembered


def _metric(
    spec: MetricSpec,
    estimates: Mapping[tuple[str, str], Estimate],
    accuracy: AccuracyTests,
    margin: float | None,
) -> MetricComparison:
    difference = estimates["difference", spec.name]
    verdict = None
    if margin is not None and spec.unit in _RATES:
        verdict = equivalence_verdict(
            difference,
            margin,
            better=spec.better,
            discordant_clusters=_discordant(spec, accuracy),
        )
    return MetricComparison(
        spec, estimates["a", spec.name], estimates["b", spec.name], difference, verdict
    )


def _discordant(spec: MetricSpec, accuracy: AccuracyTests) -> int | None:
    """Clusters that differ, for the rates whose interval could be too short without it."""
    if spec.name == "accuracy":
        return accuracy.families.discordant_clusters
    if spec.name == "pair_accuracy" and accuracy.pairs is not None:
        return accuracy.pairs.b + accuracy.pairs.c
    return None


def _accuracy_tests(
    a: ScoredItems,
    b: ScoredItems,
    group: GroupStatistics,
    rng: np.random.Generator,
    resamples: int,
) -> AccuracyTests:
    items = mcnemar(a.correct, b.correct)
    lead: npt.NDArray[np.int64] = a.correct.astype(np.int64) - b.correct
    spread = design_effect(lead, group.cluster)
    pairs = None
    if len(group.pairs):
        pairs = mcnemar(
            metrics.pair_correct(group.pairs, a.correct),
            metrics.pair_correct(group.pairs, b.correct),
        )
    return AccuracyTests(
        items=items,
        families=sign_flip_test(a.correct, b.correct, group.cluster),
        pairs=pairs,
        item_interval=item_accuracy_difference(
            items.b, items.c, items.n, rng=deepcopy(rng), resamples=resamples
        ),
        design_effect=spread,
        detectable=detectable_difference(
            items.n,
            (items.b + items.c) / items.n,
            design_effect=1.0 if np.isnan(spread.value) else spread.value,
        ),
    )


def _some(items: list[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return f"{shown}, ..." if len(items) > _SHOWN else shown or "none"
