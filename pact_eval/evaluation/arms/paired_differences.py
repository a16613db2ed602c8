"""Paired differences of a method from every other arm, at view 0 and over K views, for one plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.answers import ComparisonAnswer
from pact_eval.evaluation.arms.comparison import ArmPair
from pact_eval.evaluation.arms.differences import ArmDifference, arm_difference
from pact_eval.evaluation.common_views import runs_at_common_views
from pact_eval.evaluation.comparison import MetricComparison
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import default_resamples
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.evaluation.run_rates import other_decoding
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:
    from pact_eval._choices import Decoding
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.evaluation.experiment_run import ExperimentRun

_METRICS: Final = ("accuracy", "pair_accuracy")

_RateDifference = MetricComparison | ArmDifference


@dataclass(frozen=True)
class PairedDifference:
    """The difference between a method and another arm in one rate, under one decoding.

    Attributes:
        arm: the other arm.
        seeds: number of shared seeds, or 1 if neither arm has a seed.
        metric: title of the rate, such as "Accuracy".
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        difference: method minus arm, with the interval behind the mark: over families, and over
            seeds too if there are three or more.
        marked: whether it is shown at the 5% level.
        p_value: of the test behind the mark, adjusted if the settings ask for it; NaN without one.
    """

    arm: str
    seeds: int
    metric: str
    k: int
    difference: Estimate
    marked: bool
    repeats: int = 1
    p_value: float = math.nan


def paired_differences(experiment: Experiment, method: str) -> tuple[PairedDifference, ...]:
    """Return the differences of a method from each other arm: accuracy and pair accuracy.

    Args:
        experiment: runs on the same items.
        method: name of the arm.

    Returns:
        By other arm, metric and number of views, in this order. Pair accuracy is left out without
        pairs, and K views without them. Over several shared seeds, a difference is the mean.

    Raises:
        InputError: items differ.
    """
    differences: list[PairedDifference] = []
    for arm, answer in experiment.comparisons.answers(method).items():
        seeds = len(answer.seeds) if isinstance(answer, ArmPair) else 1
        repeats = 1 if isinstance(answer, ArmPair) else answer.chosen.repeats
        by_views = dict(sorted(_by_views(experiment, answer)))
        for at in range(len(_METRICS)):
            for k, metrics in by_views.items():
                rate, value = metrics[at], _difference(metrics[at])
                if not math.isnan(value.value):
                    differences.append(
                        PairedDifference(
                            *(arm, seeds, rate.spec.title, k, value, rate.marked, repeats),
                            p_value=_p_value(rate),
                        )
                    )
    return tuple(differences)


def _difference(rate: _RateDifference) -> Estimate:
    return rate.difference if isinstance(rate, MetricComparison) else rate.tested


def _p_value(rate: _RateDifference) -> float:
    adjusted = rate.evidence.adjusted_p_value
    return rate.evidence.p_value if adjusted is None else adjusted


def _by_views(
    experiment: Experiment, answer: ComparisonAnswer | ArmPair
) -> Iterator[tuple[int, Sequence[_RateDifference]]]:
    """Return number of views, and the differences in both rates."""
    if isinstance(answer, ComparisonAnswer):
        for decoded in answer.by_views:
            yield decoded.k, (decoded.accuracy, decoded.pair_accuracy)
        return
    settings = experiment.settings
    matches = experiment.comparisons.against(answer.a)[answer.b]
    runs = [run for match in matches for run in (match.a, match.b)]
    of_common_views, shared = runs_at_common_views(runs)
    chosen = answer.differences["all"]
    k = {"single": 1, "ensemble": shared.k}
    yield k[settings.decoding], [chosen[name] for name in _METRICS]
    if shared.k > 1:
        decoding = other_decoding(settings.decoding)
        used = runs if decoding == "single" else of_common_views
        drawn = {
            run: _drawn(experiment, cut, decoding) for run, cut in zip(runs, used, strict=True)
        }
        pairs = [(drawn[match.a], drawn[match.b]) for match in matches]
        yield k[decoding], [arm_difference(name, pairs) for name in _METRICS]


def _drawn(experiment: Experiment, run: ExperimentRun, decoding: Decoding) -> ResampledGroup:
    """Resample both rates of a run under a decoding."""
    settings = experiment.settings
    items = run.scored(decoding).over(settings.unit)
    return resampled_group(
        "all",
        items,
        rng=settings.rng(),
        resamples=settings.resamples or default_resamples(len(items)),
        entries=[find_metric(name) for name in _METRICS],
    )
