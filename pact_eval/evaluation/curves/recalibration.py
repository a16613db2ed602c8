"""CORP reliability: accuracy as an increasing function of confidence, with consistency bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval.evaluation.chance_miscalibration import (
    ChanceMiscalibration,
    chance_miscalibration,
    outcomes_if_calibrated,
)
from pact_eval.evaluation.curves.bands import Band, FloatArray, band_resamples
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.settings import Settings
from pact_eval.progress import step

_POINTS: Final = 101
_TAIL: Final = 0.025
# Outcomes drawn for a band: beyond this, many items get fewer samples, but 100 at least.
_MOST_OUTCOMES: Final = 20_000_000
_FEWEST_SAMPLES: Final = 100


@dataclass(frozen=True, eq=False)
class RecalibratedCurve:
    """Accuracy by isotonic regression on confidence, and what chance would make of calibration.

    Attributes:
        pools: the bins that isotonic regression finds, with their counts; fractions.
        confidence: (101,) points from the lowest to the highest confidence.
        accuracy: (101,) the regression at these points.
        band: its pointwise 95% consistency band: where the regressions of a calibrated model with
            these confidences and families lie.
        scores: Brier and log score of "the answer is right" in parts.
        chance: miscalibration of a calibrated model.
    """

    pools: metrics.Recalibration
    confidence: FloatArray
    accuracy: FloatArray
    band: Band
    scores: metrics.AnswerScores
    chance: ChanceMiscalibration


def recalibrated_curve(items: ScoredItems, settings: Settings) -> RecalibratedCurve:
    """Fit isotonic regression to the items, and to outcomes drawn at their confidences.

    Args:
        items: one or more items with references, under one decoding.
        settings: seed and number of the draws.
    """
    c, right = items.confidence, items.correct
    pools = metrics.recalibrate(c, right)
    points = np.linspace(pools.lowest[0], pools.highest[-1], _POINTS)
    samples = band_resamples(settings, len(items))
    samples = min(samples, max(_FEWEST_SAMPLES, _MOST_OUTCOMES // len(items)))
    curves = []
    with step("Drawing outcomes by chance", samples, "samples") as drawing:
        for outcomes in outcomes_if_calibrated(items, rng=settings.rng(), samples=samples):
            curves.append(metrics.recalibrate_samples(c, outcomes).at(points))
            drawing.done += len(outcomes)
    low, high = np.quantile(np.concatenate(curves), (_TAIL, 1 - _TAIL), axis=0)
    return RecalibratedCurve(
        pools=pools,
        confidence=points,
        accuracy=pools.at(points),
        band=Band(low, high),
        scores=metrics.answer_scores(c, right),
        chance=chance_miscalibration(items, rng=settings.rng()),
    )
