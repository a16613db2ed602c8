"""Two runs on the same items: every metric of both, their difference, and exact tests of accuracy.

Runs are joined on item ids. Both runs use the same resamples of families, so the difference of two
replicates is a replicate of the difference. Accuracy also has exact tests: papers report McNemar
over items; the sign flip over families does not treat the members of a pair as independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from pact_eval import metrics
from pact_eval._choices import ClusterUnit, GroupBy
from pact_eval.evaluation.combined_differences import Evidence
from pact_eval.evaluation.common_views import at_common_views
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_differences import metric_difference
from pact_eval.evaluation.metric_specs import MetricSpec
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
from pact_eval.evaluation.registry import find_metric, registered_metrics
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_groups
from pact_eval.progress import step, tracked
from pact_eval.results import Framed
from pact_eval.stats.bootstrap import same_stream
from pact_eval.stats.clusters import effective_clusters
from pact_eval.stats.equivalence import (
    EquivalenceVerdict,
    detectable_difference,
    equivalence_verdict,
)
from pact_eval.stats.estimate import FEW_CLUSTERS, Estimate
from pact_eval.stats.paired_tests import (
    McNemarTest,
    SignFlipTest,
    item_accuracy_difference,
    mcnemar,
    sign_flip_test,
)

if TYPE_CHECKING:  # a comparison without a calibrator need not load scipy.optimize
    from pact_eval.calibration.notes import CalibrationWarning
    from pact_eval.evaluation.conclusions.better import BetterConclusion
    from pact_eval.notes import Note

_RATES = ("percent", "points")

_AnyGroup = TypeVar("_AnyGroup")


@dataclass(frozen=True)
class MetricComparison:
    """One metric of both runs.

    Attributes:
        spec: the metric.
        a: its value in the first run.
        b: its value in the second run.
        difference: a minus b, with the same resamples.
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
    """

    id: str
    correct: Literal["a", "b"]
    reference: int | None
    other: int | None


@dataclass(frozen=True, repr=False)
class Comparison(Framed):
    """Two runs on the same items.

    Attributes:
        by: grouping after all items: kind, domain or source_family.
        unit: units of intervals and sign flips: families, or source families.
        groups: all items first, then the groups.
        only_a: ids of the items that only the first run answers correctly, in its order.
        only_b: ids of the items that only the second run answers correctly.
        notes: number of views of each run, if they differ; groups of few families.
        differing: the items of `only_a` and then of `only_b`, with the answers.
        warnings: warnings on the runs and their calibrators; `pact_eval.compare` fills them.
        conclusion: whether the first run is better; `pact_eval.compare` fills it.
    """

    by: GroupBy
    groups: tuple[GroupComparison, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
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
    warnings: tuple[CalibrationWarning | Note, ...] = ()
    conclusion: BetterConclusion | None = None


def compare(
    a: ScoredItems,
    b: ScoredItems,
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int | None = None,
    margin: float | None = None,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Compare two runs.

    Args:
        a: the first run under its decoding.
        b: the second run under its decoding, with the items in the same order (see `align`).
        by: kind, domain or source_family.
        rng: source of the resamples.
        resamples: bootstrap resamples of families; None uses `default_resamples`.
        margin: largest difference in a rate that does not matter, as a fraction; without it, there
            are no verdicts.
        names: names of the metrics, over all items alone; None takes all, over every group.

    Returns:
        The comparison; differences are a minus b.
    """
    resamples = resamples or default_resamples(len(a))
    runs, notes = at_common_views({"A": a, "B": b})
    entries = None if names is None else [find_metric(name) for name in names]
    groups = by if names is None else None
    drawn = [
        resampled_groups(run, groups, rng=rng, resamples=resamples, entries=entries)
        for run in runs.values()
    ]
    comparison = compare_groups(*drawn, by=by, rng=rng, resamples=resamples, margin=margin)
    return replace(comparison, notes=(*notes, *one_order(runs["A"]), *comparison.notes))


def compare_groups(
    a: Sequence[ResampledGroup],
    b: Sequence[ResampledGroup],
    *,
    by: GroupBy,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None,
) -> Comparison:
    """Compare two runs whose groups are already resampled; see `compare`."""
    with step("Comparing runs", sum(len(group.items) for group in a), "items"):
        groups = tuple(
            _group(group, other, rng, resamples, margin) for group, other in zip(a, b, strict=True)
        )
    first, second = a[0].items, b[0].items
    return Comparison(
        by=by,
        groups=groups,
        only_a=only_first(first, second),
        only_b=only_first(second, first),
        unit=first.unit,
        notes=(
            *LargeFamilies.of(first),
            *small_groups({group.name: group.items.n_clusters for group in a}, first.unit),
        ),
        differing=(*_differing(first, second, "a"), *_differing(second, first, "b")),
    )


def only_first(first: ScoredItems, second: ScoredItems) -> tuple[str, ...]:
    """Return the ids of the items that only the first of two runs answers correctly."""
    return tuple(first.predictions.ids[first.correct & ~second.correct].tolist())


def _differing(
    right: ScoredItems, wrong: ScoredItems, correct: Literal["a", "b"]
) -> Iterator[DifferingItem]:
    """Yield the items that one run answers correctly and the other does not."""
    ids = right.predictions.ids
    for row in np.flatnonzero(right.correct & ~wrong.correct).tolist():
        # The run that is right answers with the reference.
        reference, other = (
            None if items.known == "outcomes" else int(items.predicted[row])
            for items in (right, wrong)
        )
        yield DifferingItem(str(ids[row]), correct, reference, other)


def same_as_all(groups: Sequence[_AnyGroup]) -> Sequence[_AnyGroup]:
    """Return the groups of all items: the first, and a single further one."""
    return groups if len(groups) == 2 else groups[:1]


def _group(
    a: ResampledGroup,
    b: ResampledGroup,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None,
) -> GroupComparison:
    specs = registered_metrics(a.items.contexts)
    specs_left = tracked(specs, "Computing metrics", "metrics", counts=len(a.items))
    metrics_by_name = {
        spec.name: _metric(spec, a, b, margin) for spec in specs_left if spec.name in a.drawn
    }
    difference = metrics_by_name["accuracy"].difference
    return GroupComparison(
        name=a.name,
        items=a.items.n_items,
        answers=len(a.items),
        families=a.items.n_families,
        clusters=a.items.n_clusters,
        metrics=metrics_by_name,
        accuracy=_accuracy_tests(a.items, b.items, difference, rng, resamples),
    )


def _metric(
    spec: MetricSpec,
    a: ResampledGroup,
    b: ResampledGroup,
    margin: float | None,
) -> MetricComparison:
    difference, test = metric_difference(spec.name, [(a, b)])
    verdict = None
    if margin is not None and spec.unit in _RATES:
        verdict = equivalence_verdict(difference, margin, better=spec.better)
    sides = a.estimate(spec.name), b.estimate(spec.name)
    return MetricComparison(spec, *sides, difference, test, verdict)


def detectable_accuracy(difference: Estimate, items: ScoredItems) -> float:
    """Return what the items show with 80% power; NaN if few families say how wide intervals are.

    It takes the width to be the same at every difference. With few families, or with large ones,
    that does not hold: a larger difference may have a wider interval, and not be shown.
    """
    if effective_clusters(np.bincount(items.cluster).astype(np.float64)) < FEW_CLUSTERS:
        return math.nan
    return detectable_difference(difference)


def _accuracy_tests(
    a: ScoredItems,
    b: ScoredItems,
    difference: Estimate,
    rng: np.random.Generator,
    resamples: int,
) -> AccuracyTests:
    items = mcnemar(a.correct, b.correct)
    return AccuracyTests(
        items=items,
        families=sign_flip_test(a.correct, b.correct, a.cluster),
        pairs=mcnemar(*(metrics.pair_correct(a.pairs, run.correct) for run in (a, b)))
        if len(a.pairs) and a.repeat is None
        else None,
        item_interval=item_accuracy_difference(
            items.b, items.c, items.n, rng=same_stream(rng), resamples=resamples
        ),
        detectable=detectable_accuracy(difference, a),
    )
