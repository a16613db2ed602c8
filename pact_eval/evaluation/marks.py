"""Marks: which differences are shown at the 5% level, each alone or many of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from pact_eval.evaluation.calibration_error import CalibrationError, joint_calibration_p_value
from pact_eval.evaluation.registry import Metric, percentile_difference
from pact_eval.stats import (
    Estimate,
    McNemarTest,
    Resampled,
    SignFlipTest,
    holm,
    inverted_p_value,
    replicates_p_value,
)

LEVEL: Final = 0.05
"""A difference is marked if chance alone shows one as large less than once in 20 times."""

TestName = Literal[
    "sign flip over families",
    "McNemar over pairs",
    "bootstrap interval",
    "t over seeds and families",
]
"""What decides whether a difference is marked."""


@dataclass(frozen=True)
class Evidence:
    """Whether a difference is shown, and by which test.

    Attributes:
        test: the test behind the mark.
        p_value: its two-sided p-value; NaN if there is none.
        adjusted_p_value: the same adjusted by Holm for all tests of an output, or None.
        tests: number of tests that were adjusted together; 0 if not asked for.
        marked: whether the difference is shown at the 5% level: after adjustment if it was asked
            for. False for metrics of which neither direction is better.
    """

    test: TestName
    p_value: float
    adjusted_p_value: float | None
    tests: int
    marked: bool


def evidence(test: TestName, p_value: float, *, marked: bool) -> Evidence:
    """Return the evidence of one difference, not adjusted for others."""
    return Evidence(test, p_value, None, 0, marked)


def exact_evidence(test: SignFlipTest | McNemarTest) -> Evidence:
    """Return the evidence of an exact test."""
    name: TestName = "McNemar over pairs"
    if isinstance(test, SignFlipTest):
        name = "sign flip over families"
    return evidence(name, test.p_value, marked=test.p_value <= LEVEL)


def interval_evidence(metric: Metric, drawn: Resampled, difference: Estimate) -> Evidence:
    """Return the evidence of a bootstrap interval.

    Args:
        metric: entry of the registry.
        drawn: the difference on resamples.
        difference: the same with its 95% interval.
    """
    if metric.difference is percentile_difference:
        p_value = replicates_p_value(drawn.replicates, drawn.n_clusters)
    else:
        p_value = inverted_p_value(
            lambda confidence: metric.difference(drawn, confidence),
            len(drawn.replicates),
            drawn.n_clusters,
        )
    beyond = difference.low > 0 or difference.high < 0
    marked = bool(beyond and metric.spec.better)
    return evidence("bootstrap interval", p_value, marked=marked)


def calibration_gate(found: Evidence, runs: Sequence[Estimate]) -> Evidence:
    """Return the evidence of a difference of ECE, which asks that some run is miscalibrated.

    See `joint_calibration_p_value` for the reason.

    Args:
        found: evidence of the difference alone.
        runs: ECE of each run; other metrics pass unchanged.
    """
    p_values = [each.p_value for each in runs if isinstance(each, CalibrationError)]
    if not p_values:
        return found
    smallest = joint_calibration_p_value(p_values)
    return replace(
        found,
        p_value=max(found.p_value, smallest),
        marked=found.marked and smallest < LEVEL,
    )


def adjusted(found: Sequence[Evidence]) -> list[Evidence]:
    """Adjust the p-values of several differences together, by Holm's procedure.

    Args:
        found: those of one output; a p-value of NaN is no test.

    Example:
        >>> one, two = (evidence("McNemar over pairs", p, marked=p <= 0.05) for p in (0.03, 0.01))
        >>> [(each.adjusted_p_value, each.marked) for each in adjusted([one, two])]
        [(0.03, True), (0.02, True)]
    """
    together = holm(np.array([each.p_value for each in found], dtype=np.float64))
    return [
        replace(
            each,
            adjusted_p_value=p_value,
            tests=together.tests,
            marked=bool(each.marked and p_value <= LEVEL),
        )
        for each, p_value in zip(found, together.adjusted.tolist(), strict=True)
    ]
