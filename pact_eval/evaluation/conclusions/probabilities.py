"""Conclusion on the probabilities: confidence against accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Tone
from pact_eval.evaluation.conclusions.order import FEWEST_FAMILIES
from pact_eval.evaluation.ece_results import CalibrationError
from pact_eval.stats.bootstrap import cluster_sums
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import linear_inference, linearised_ratio

if TYPE_CHECKING:
    from pact_eval.evaluation.items import ScoredItems

ProbabilitiesStatus = Literal[
    "over-confident",
    "under-confident",
    "miscalibrated otherwise",
    "no error shown",
    "cannot tell",
]


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbabilitiesConclusion(Conclusion):
    """Conclusion on whether the probabilities of a run can be trusted.

    Attributes:
        status: an error is shown if calibration is rejected; its direction is that of the gap, or
            "otherwise" if its interval includes 0, which shows no direction, and not that there is
            none.
        run: label of the run.
        ece: with its noise floor, p-value, and the interval of the true error.
        confidence: mean probability of the chosen answer.
        accuracy: share of right answers.
        gap: confidence minus accuracy, with its interval over families.
        reason: why nothing can be told, or None.
    """

    question: ClassVar[Question] = "probabilities"
    tones: ClassVar[Mapping[str, Tone]] = {
        "over-confident": "bad",
        "under-confident": "bad",
        "miscalibrated otherwise": "bad",
        "no error shown": "good",
        "cannot tell": "open",
    }

    status: ProbabilitiesStatus
    run: str
    ece: Estimate
    confidence: float
    accuracy: float
    gap: Estimate
    reason: str | None = None

    @property
    def hidden(self) -> float:
        """The largest calibration error that the data do not rule out; NaN if unknown."""
        return self.ece.high


def probabilities_conclusion(
    run: str, items: ScoredItems, ece: Estimate
) -> ProbabilitiesConclusion:
    """Return whether the probabilities of a run are right.

    Args:
        run: label of the run.
        items: its items under a decoding, with references.
        ece: of all of these items.
    """
    gap = confidence_gap(items)
    tested = isinstance(ece, CalibrationError) and not math.isnan(ece.p_value)
    status: ProbabilitiesStatus = "no error shown"
    reason = None
    if items.known == "answers":
        status, reason = "cannot tell", "only the answers are known"
    elif items.n_clusters < FEWEST_FAMILIES:
        status, reason = "cannot tell", f"too few families: {items.n_clusters:,}"
    elif not tested:
        status, reason = "cannot tell", str(ece.reason or "no test of calibration")
    elif isinstance(ece, CalibrationError) and ece.rejected:
        status = "miscalibrated otherwise"
        # There is no interval if all families have the same gap.
        if not gap.low <= 0 <= gap.high:
            status = "over-confident" if gap.value > 0 else "under-confident"
    elif math.isnan(ece.high):
        status, reason = "cannot tell", str(ece.reason or "no interval of the calibration error")
    return ProbabilitiesConclusion(
        status=status,
        run=run,
        ece=ece,
        confidence=float(items.confidence.mean()) if len(items) else math.nan,
        accuracy=float(items.correct.mean()) if len(items) else math.nan,
        gap=gap,
        reason=reason,
    )


def confidence_gap(items: ScoredItems) -> Estimate:
    """Return mean confidence minus accuracy, with its interval over families.

    Args:
        items: under a decoding, with references.
    """
    gaps = items.confidence - items.correct
    families = items.n_clusters
    if not len(items) or np.isnan(gaps).any() or families < 2:
        value = float(gaps.mean()) if len(items) else math.nan
        return Estimate(value, math.nan, math.nan, len(items), families)
    sums = cluster_sums(gaps, items.cluster, families)
    sizes = cluster_sums(np.ones(len(items)), items.cluster, families)
    linear = linearised_ratio(sums, sizes)
    return linear_inference(float(gaps.mean()), linear, n=len(items)).estimate()
