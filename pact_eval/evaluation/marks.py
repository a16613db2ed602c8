"""Marks of differences that are significant at 5%, alone or adjusted together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pact_eval.evaluation.registry import Inference, Metric
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.multiplicity import holm

TestName = Literal["interval", "t over seeds and families"]
"""What decides whether a difference is marked."""


@dataclass(frozen=True)
class Evidence:
    """Test of a difference, and its mark.

    Attributes:
        test: the test behind the mark.
        p_value: its two-sided p-value; NaN if there is none.
        adjusted_p_value: the same adjusted by Holm for all tests that are named together, or None
            if it is tested alone.
        tests: number of tests that were adjusted together; 0 if it is tested alone.
        marked: whether the difference is shown at the 5% level, after the adjustment. False for
            metrics of which neither direction is better.
    """

    test: TestName
    p_value: float
    adjusted_p_value: float | None
    tests: int
    marked: bool

    @property
    def deciding(self) -> float:
        """The p-value that decides: adjusted if other tests are adjusted with it."""
        return self.p_value if self.adjusted_p_value is None else self.adjusted_p_value


def evidence(test: TestName, p_value: float, *, marked: bool) -> Evidence:
    """Return the evidence of one difference, not adjusted for others."""
    return Evidence(test, p_value, None, 0, marked)


def sign_of(difference: Estimate) -> int:
    """Return the sign of a difference: of its interval if that excludes 0, else of its value.

    The difference of two published ECE can lie outside the interval of the true difference.

    Examples:
        >>> sign_of(Estimate(0.01, -0.09, -0.02, 324, 162))
        -1
        >>> sign_of(Estimate(0.01, -0.02, 0.04, 324, 162))
        1
    """
    if difference.excludes_zero:
        return 1 if difference.low > 0 else -1
    return (difference.value > 0) - (difference.value < 0)


def interval_evidence(metric: Metric, inference: Inference, difference: Estimate) -> Evidence:
    """Return the evidence of an interval.

    Args:
        metric: entry of the registry.
        inference: on the difference.
        difference: with the interval that is shown; there is no evidence without one.
    """
    if math.isnan(difference.low):
        return evidence("interval", math.nan, marked=False)
    marked = bool(difference.excludes_zero and metric.spec.better)
    return evidence("interval", inference.p_value(), marked=marked)


def adjusted(tests: Sequence[Evidence]) -> list[Evidence]:
    """Adjust the p-values of several differences together, by Holm's procedure.

    Args:
        tests: those that are named together; a p-value of NaN is no test.

    Examples:
        >>> one, two = (evidence("interval", p, marked=p <= 0.05) for p in (0.03, 0.01))
        >>> [(test.adjusted_p_value, test.marked) for test in adjusted([one, two])]
        [(0.03, True), (0.02, True)]
    """
    together = holm(np.array([test.p_value for test in tests], dtype=np.float64))
    return [
        replace(
            test,
            adjusted_p_value=math.nan if math.isnan(p_value) else p_value,
            tests=together.tests,
            marked=bool(test.marked and p_value <= LEVEL),
        )
        for test, p_value in zip(tests, together.adjusted.tolist(), strict=True)
    ]
