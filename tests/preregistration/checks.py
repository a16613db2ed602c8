"""A check that tests change, a hypothesis made of checks, and evidence made up from values."""

from __future__ import annotations

import math

from pact_eval.evaluation.arms.arm_metrics import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.registry import SINGLE, MetricDecoding
from pact_eval.preregistration.criteria import Check, Hypotheses, Hypothesis, Instead
from pact_eval.preregistration.run_scorecard import RunDifferences, judge
from pact_eval.preregistration.scorecard import HypothesisResult, WeightedRow
from pact_eval.stats.estimate import Estimate

BASE = Check(
    says="a above b",
    metric="accuracy",
    arms=("a",),
    decodings=(SINGLE,),
    groups=("all",),
    relation="higher",
    than=Instead(arm="b"),
    judged_on="matched",
)


def criteria(
    metric: str = "accuracy",
    than: str = '{ arm = "b" }',
    *,
    arm: str = "a",
    decoding: str = '"single"',
    relation: str = "higher",
    more: str = "",
) -> str:
    """Returns a file of one hypothesis with one check, seed by seed."""
    return f"""
format = "pact-hypotheses-1"
[[hypothesis]]
id = "H1"
title = "A | B"
claim = "a is better than b."
[[hypothesis.check]]
says = "{metric} is {relation}"
metric = "{metric}"
arm = "{arm}"
decoding = {decoding}
is = "{relation}"
than = {than}
judged_on = "matched"
{more}
"""


def row(
    arm: str,
    value: float,
    *,
    seed: int | None = 17,
    metric: str = "accuracy",
    decoding: MetricDecoding = SINGLE,
    k: int | None = None,
) -> MetricRow:
    return MetricRow(MetricCell(metric, arm, decoding, "all"), seed, value, k=k)


def judged(*checks: Check, rows: list[MetricRow], half: float | None = None) -> HypothesisResult:
    """Judges one hypothesis; with intervals of a half width at 95% if there is one."""
    hypotheses = Hypotheses((Hypothesis("H", "t", "c", checks),))
    differences = None if half is None else MadeUp(half)
    return judge(hypotheses, MetricTable(rows), differences=differences)["H"]


class MadeUp(RunDifferences):
    """Intervals of a half width at 95%, wider at a higher confidence."""

    def __init__(self, half: float) -> None:
        self.half = half
        self.requests: list[tuple[tuple[WeightedRow, ...], float]] = []

    def interval(self, terms: tuple[WeightedRow, ...], confidence: float) -> Estimate:
        self.requests.append((terms, confidence))
        value = math.fsum(term.weight * term.row.value for term in terms)
        half = self.half * 0.05 / (1 - confidence)
        return Estimate(value, value - half, value + half, 324, 162)
