"""Conclusion on the probabilities: three tests of calibration, adjusted together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pact_eval.evaluation.calibration_error import CalibrationError, ConfidenceGap
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Sentence
from pact_eval.evaluation.conclusions.order import FEWEST_FAMILIES
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import Group
from pact_eval.numbers import interval_text, p_value_text, sample_text, value_text
from pact_eval.plain_text import one_line
from pact_eval.stats.clusters import few_worth
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.multiplicity import holm

ProbabilitiesStatus = Literal[
    "over-confident", "under-confident", "miscalibrated", "no error shown", "cannot tell"
]
_UNDIRECTED: Final = ("miscalibrated", "no error shown")

LOOKS: Final = ("ece", "gap", "corp")
"""The tests, in the order of `ProbabilitiesConclusion.p_values`."""


@dataclass(frozen=True)
class CorpMiscalibration:
    """Miscalibration of the Brier score by isotonic regression, which has no bins.

    Attributes:
        value: of the run; see `metrics.answer_scores`.
        floor: mean of a calibrated model with the same confidences and families.
        p_value: of the hypothesis that the model is calibrated; NaN if there is no test.
    """

    value: float = math.nan
    floor: float = math.nan
    p_value: float = math.nan

    @classmethod
    def of(cls, group: Group) -> CorpMiscalibration:
        """Return that of a group of items; NaN without confidences."""
        scores, chance = group.answer_scores, group.chance
        if scores is None or chance is None:
            return cls()
        return cls(scores.brier.miscalibration, chance.brier, chance.p_value)


@dataclass(frozen=True, kw_only=True, repr=False)
class ProbabilitiesConclusion(Conclusion):
    """Conclusion on whether the probabilities of a run can be trusted.

    Three tests ask whether outcomes drawn at the confidences look like those of the run: ECE sees
    gaps of both signs, unless they cancel in a bin; the gap sees a common direction best; CORP sees
    what the bins of ECE hide. Their p-values are adjusted by Holm.

    Attributes:
        status: an error is shown if an adjusted p-value is at most 5%. It has a direction if the
            interval of the gap excludes 0 as well.
        run: label of the run.
        confidence: mean probability of the chosen answer.
        accuracy: share of right answers.
        gap: confidence minus accuracy, with its interval and test.
        ece: with its noise floor, p-value, and the interval of the true error in its bins.
        corp: miscalibration without bins.
        adjusted_p_values: by name in `LOOKS`; NaN for a test that could not be made.
        reason: why nothing can be told, or None.
    """

    question: ClassVar[Question] = "probabilities"

    status: ProbabilitiesStatus
    run: str
    confidence: float
    accuracy: float
    gap: ConfidenceGap
    ece: Estimate
    corp: CorpMiscalibration
    adjusted_p_values: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None

    @property
    def p_value(self) -> float:
        """Smallest adjusted p-value; NaN without a test."""
        known = (p for p in self.adjusted_p_values.values() if not math.isnan(p))
        return min(known, default=math.nan)

    @property
    def only_corp(self) -> bool:
        """Whether CORP shows an error, and ECE none: gaps cancel in its bins."""
        return self.adjusted_p_values["corp"] <= LEVEL and not self.ece_shown

    @property
    def ece_shown(self) -> bool:
        """Whether ECE shows an error, after adjustment for the three tests."""
        return self.adjusted_p_values["ece"] <= LEVEL

    @property
    def shown_alone(self) -> bool:
        """Whether one test alone would show an error that the three together do not show."""
        ece = self.ece.p_value if isinstance(self.ece, CalibrationError) else math.nan
        alone = any(p <= LEVEL for p in (ece, self.gap.p_value, self.corp.p_value))
        return alone and not self.p_value <= LEVEL

    @property
    def words(self) -> Sentence:
        """The finding with its numbers: with the gap and CORP where these say more than ECE.

        Examples:
            "Over-confident: says 78.7%, is 63.5% right (ECE 15.6, chance 4.7; p < 0.001)."
            "Miscalibrated: says 70.0%, is 65.4% right (gap +4.6 [-1.2, +9.9] points; ECE ...)."
        """
        if self.status == "cannot tell":
            return Sentence("Cannot tell", f"{one_line(str(self.reason))}.")
        details, ece, corp = [], self.ece, self.corp
        if self.status in _UNDIRECTED:
            details.append(f"gap {interval_text(self.gap, 'points', ' points')}")
        text = f"ECE {value_text(ece.value, 'percent')}"
        if isinstance(ece, CalibrationError):
            text += f", chance {value_text(ece.floor, 'percent')}"
            if ece.bins != CalibrationError.bins:
                text = text.replace("ECE", f"ECE ({ece.bins} bins)", 1)
        details.append(text)
        if self.only_corp:
            details.append(f"CORP miscalibration {corp.value:.4f}, chance {corp.floor:.4f}")
        if self.shown_alone:
            p_value = p_value_text(self.p_value)
            details.append(f"{p_value} after adjustment for three tests")
        elif self.tone == "bad":
            details.append(p_value_text(self.p_value))
        return Sentence(self.status.capitalize(), f"{self._rates} ({'; '.join(details)}).")

    @property
    def _rates(self) -> str:
        says, right = (value_text(share, "percent") for share in (self.confidence, self.accuracy))
        return f"says {says}%, is {right}% right"

    @property
    def mark(self) -> str:
        """The same beside other runs.

        Example:
            "OVER-CONFIDENT (says 78.7%, is 63.5% right)"
        """
        if self.status == "cannot tell":
            return self.line
        return self.word if self.tone == "good" else f"{self.word} ({self._rates})"

    @property
    def word(self) -> str:
        """The same in a cell of a table.

        Example:
            "OVER-CONFIDENT"
        """
        return self.emphasise(self.status)


def probabilities_conclusion(
    run: str, items: ScoredItems, ece: Estimate, corp: CorpMiscalibration
) -> ProbabilitiesConclusion:
    """Return whether the probabilities of a run are right.

    Args:
        run: label of the run.
        items: its items under a decoding, with references.
        ece: of all of these items.
        corp: of the same items.
    """
    gap, ece_p_value = ConfidenceGap(math.nan, math.nan, math.nan, 0, 0), math.nan
    if isinstance(ece, CalibrationError):
        gap, ece_p_value = ece.gap or gap, ece.p_value
    adjusted = holm([ece_p_value, gap.p_value, corp.p_value])
    status: ProbabilitiesStatus = "no error shown"
    reason = _untold(items, ece, tested=not np.isnan(adjusted).all())
    if reason is not None:
        status = "cannot tell"
    elif np.nanmin(adjusted) <= LEVEL:
        status = "miscalibrated"
        if not gap.low <= 0 <= gap.high and gap.p_value <= LEVEL:
            status = "over-confident" if gap.value > 0 else "under-confident"
    return ProbabilitiesConclusion(
        status=status,
        run=run,
        confidence=float(items.confidence.mean()) if len(items) else math.nan,
        accuracy=float(items.correct.mean()) if len(items) else math.nan,
        gap=gap,
        ece=ece,
        corp=corp,
        adjusted_p_values=dict(zip(LOOKS, adjusted.tolist(), strict=True)),
        reason=reason,
    )


def _untold(items: ScoredItems, ece: Estimate, *, tested: bool) -> str | None:
    """Return why nothing can be told; None if something can.

    Families of unequal size count as the number of equal ones that is worth as much: of one family
    with half of the items, nobody knows how far its luck may carry it.
    """
    if not find_metric("ece").defined_for(items.known):
        return str(ece.reason)
    families = items.n_clusters
    if families < FEWEST_FAMILIES:
        return f"too few: {sample_text(items.n_items, families, items.unit)}"
    if not tested:
        return str(ece.reason or "no test of calibration")
    worth = few_worth(np.bincount(items.cluster).astype(np.float64))
    if worth is not None:
        sample = sample_text(items.n_items, families, items.unit)
        return f"too few: {sample}, of unequal size, worth {worth:.1f} of one size"
    return None
