"""The answer that a comparison of two runs gives first.

It is given at view 0 and over K views, because the two can differ: an ensemble of views hides
what the letters do to a single answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._choices import Decoding
from pact_eval.evaluation.comparison import (
    GroupComparison,
    MetricComparison,
    compare_groups,
)
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_specs import DecodingName, decoding_name
from pact_eval.evaluation.registry import ANSWER_MASS
from pact_eval.evaluation.run_rates import resampled_rates

PLANNED_DIFFERENCE: Final = 0.02
"""The difference in accuracy for which an answer says how many items would show it."""


@dataclass(frozen=True)
class DecodedComparison:
    """Accuracy and pair accuracy of two runs under one decoding.

    Attributes:
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        accuracy: of both runs, with the difference.
        pair_accuracy: likewise; undefined without pairs.
        answer_mass: mean probability on the answer letters over all views, whatever the decoding.
        detectable: smallest difference in accuracy that this holdout shows with 80% power; NaN
            without an interval, and if the families are worth fewer than 30 of equal size.
        needed: number of such items that would show a difference of `PLANNED_DIFFERENCE` with 80%
            power; None without `detectable`.
    """

    decoding: DecodingName
    k: int
    repeats: int
    accuracy: MetricComparison
    pair_accuracy: MetricComparison
    answer_mass: MetricComparison
    detectable: float
    needed: int | None


@dataclass(frozen=True)
class ComparisonAnswer:
    """Comparison of A and B at view 0, and over K views if both runs have them.

    Attributes:
        chosen: under the decoding of the settings.
        other: under the other decoding; None if a run has one view.
    """

    chosen: DecodedComparison
    other: DecodedComparison | None

    @property
    def by_views(self) -> tuple[DecodedComparison, ...]:
        """View 0 first, then K views."""
        comparisons = (self.chosen, *(() if self.other is None else (self.other,)))
        return tuple(sorted(comparisons, key=lambda comparison: comparison.k))


def decoded_comparison(
    group: GroupComparison, decoding: Decoding, k: int, repeats: int = 1
) -> DecodedComparison:
    """Return the answer in the comparison of all items.

    Args:
        group: all items of both runs.
        decoding: the decoding of both.
        k: number of views of both.
        repeats: number of repeats per item that are compared.
    """
    detectable, accuracy = group.accuracy.detectable, group.metrics["accuracy"]
    needed = None
    if not math.isnan(detectable):
        needed = math.ceil(group.items * (detectable / PLANNED_DIFFERENCE) ** 2)
    return DecodedComparison(
        decoding=decoding_name(decoding, repeats),
        k=1 if decoding == "single" else k,
        repeats=repeats,
        accuracy=accuracy,
        pair_accuracy=group.metrics["pair_accuracy"],
        answer_mass=group.metrics[ANSWER_MASS],
        detectable=detectable,
        needed=needed,
    )


def compare_rates(
    a: ScoredItems,
    b: ScoredItems,
    *,
    rng: np.random.Generator,
    resamples: int,
    margin: float | None = None,
) -> GroupComparison:
    """Compare accuracy, pair accuracy and answer mass alone, of all items.

    Args:
        a: the first run under its decoding.
        b: the second run, with the items in the same order and the same number of views.
        rng: source of the resamples.
        resamples: bootstrap resamples of families.
        margin: largest difference that does not matter; see `compare`.
    """
    groups = [[resampled_rates(items, rng=rng, resamples=resamples)] for items in (a, b)]
    comparison = compare_groups(*groups, by="kind", rng=rng, resamples=resamples, margin=margin)
    return comparison.groups[0]
