"""Means of arms next to each other: the main results, and K-view decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval._choices import Decoding
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricQuestion
from pact_eval.evaluation.arms.arm_summary import ArmSummary
from pact_eval.evaluation.decoding import ENSEMBLE, ENSEMBLE_CALIBRATED, MetricDecoding
from pact_eval.evaluation.registry import find_metric, registered_metrics

_OF_VIEWS: Final[tuple[MetricQuestion, ...]] = (
    ("accuracy", ENSEMBLE),
    ("pair_accuracy", ENSEMBLE),
    ("ece", ENSEMBLE),
    ("ece", ENSEMBLE_CALIBRATED),
    ("view_tv", ENSEMBLE),
    ("view_tv", ENSEMBLE_CALIBRATED),
    ("flip_rate", ENSEMBLE),
    ("ensemble_gain", ENSEMBLE),
)


@dataclass(frozen=True)
class ArmSummaries:
    """Metrics of arms over seeds.

    Attributes:
        questions: metric and decoding of each column.
        arms: by arm, one summary per question.
        sizes: of `ArmMetrics.sizes`, what the numbers rest on.
        published: whether these are published numbers, without intervals and tests.
        left_out: arms with one seed, where others have several: no mean to compare.
    """

    questions: tuple[MetricQuestion, ...]
    arms: Mapping[str, tuple[ArmSummary, ...]]
    sizes: Mapping[str, tuple[int, int]]
    published: bool
    left_out: tuple[str, ...] = ()


def main_results(metrics: ArmMetrics, decoding: Decoding = "single") -> ArmSummaries:
    """Summarise the metrics of the main comparison.

    Args:
        metrics: the numbers.
        decoding: single or ensemble; ECE is taken raw and, where a run is calibrated, calibrated.

    Returns:
        Mean and deviation over the seeds of each arm.
    """
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    questions: list[MetricQuestion] = []
    for spec in registered_metrics("full", "main results"):
        questions.append((spec.name, raw))
        if find_metric(spec.name).noise_floor:
            questions.append((spec.name, calibrated))
    return _summaries(metrics, questions)


def k_views(metrics: ArmMetrics) -> ArmSummaries:
    """Summarise the ensemble of the K views of runs.

    Accuracy, flips and gain rest on the argmax, which no temperature changes; ECE and TV are taken
    raw and, where the table has them, calibrated.

    Args:
        metrics: the numbers.

    Returns:
        Mean and deviation over the seeds of each arm.

    Raises:
        InputError: no run has more views than one.
    """
    if not metrics.known_decodings("accuracy", (ENSEMBLE, ENSEMBLE_CALIBRATED)):
        message = "no run has the probabilities of more views than one"
        raise InputError(message)
    return _summaries(metrics, _OF_VIEWS)


def _summaries(metrics: ArmMetrics, questions: Sequence[MetricQuestion]) -> ArmSummaries:
    """Summarise metrics of arms with several seeds; metrics that no run has are left out."""
    available = tuple(
        (metric, decoding)
        for metric, decoding in questions
        if metrics.known_decodings(metric, (decoding,))
        or (metric == "ensemble_gain" and metrics.known_decodings("accuracy", (decoding,)))
    )
    arms = metrics.repeated_arms
    columns = [metrics.summaries(arms, metric, decoding) for metric, decoding in available]
    return ArmSummaries(
        questions=available,
        arms={arm: tuple(column[arm] for column in columns) for arm in arms},
        sizes=metrics.sizes,
        published=metrics.published,
        left_out=tuple(arm for arm in metrics.arms if arm not in arms),
    )
