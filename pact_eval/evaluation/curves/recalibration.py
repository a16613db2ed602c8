"""CORP reliability: accuracy as an increasing function of confidence, with consistency bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval import metrics
from pact_eval.evaluation.curves.bands import Band, FloatArray, band_resamples
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.settings import Settings
from pact_eval.stats import calibrated_outcomes, shared_draw_rate

_POINTS: Final = 101
_TAIL: Final = 0.025
_LEVEL: Final = 0.05
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
        chance: mean miscalibration (Brier) of a calibrated model.
        chance_high: 95% quantile of its miscalibration.
    """

    pools: metrics.Recalibration
    confidence: FloatArray
    accuracy: FloatArray
    band: Band
    scores: metrics.AnswerScores
    chance: float
    chance_high: float


def recalibrated_curve(items: ScoredItems, settings: Settings) -> RecalibratedCurve:
    """Fit isotonic regression to the items, and to outcomes drawn at their confidences.

    Args:
        items: one or more items with references, under one decoding.
        settings: seed and number of the draws.
    """
    c, right = items.confidence, items.correct
    pools = metrics.recalibrate(c, right)
    points = np.linspace(pools.lowest[0], pools.highest[-1], _POINTS)
    # Residuals from the fit, not from confidence: a model need not be calibrated for its families
    # to show how often their members share a draw.
    rate = shared_draw_rate(c, right - pools.at(c), items.cluster, items.n_clusters)
    samples = band_resamples(settings, len(items))
    samples = min(samples, max(_FEWEST_SAMPLES, _MOST_OUTCOMES // len(items)))
    curves, by_chance = [], []
    for outcomes in calibrated_outcomes(
        c, items.cluster, items.n_clusters, rate=rate, rng=settings.rng(), resamples=samples
    ):
        curves.append(metrics.recalibrate_samples(c, outcomes).at(points))
        by_chance.append(metrics.miscalibration_samples(c, outcomes)[0])
    chance = np.concatenate(by_chance)
    low, high = np.quantile(np.concatenate(curves), (_TAIL, 1 - _TAIL), axis=0)
    return RecalibratedCurve(
        pools=pools,
        confidence=points,
        accuracy=pools.at(points),
        band=Band(low, high),
        scores=metrics.answer_scores(c, right),
        chance=float(chance.mean()),
        chance_high=float(np.quantile(chance, 1 - _LEVEL)),
    )
