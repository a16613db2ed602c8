"""Miscalibration and ECE of a calibrated model by chance alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.report import TopAnswers
from pact_eval.progress import step
from pact_eval.stats.consistency_resampling import calibrated_outcomes, shared_draw_rate
from pact_eval.stats.estimate import LEVEL

_SAMPLES: Final = 300
# Outcomes drawn for one group: more items get fewer samples, but `_FEWEST` at least.
_MOST_OUTCOMES: Final = 10_000_000
_FEWEST: Final = 100
_MOST_ITEMS: Final = 100_000
# Samples whose ECE without bins is computed.
_SMOOTHED: Final = 100
_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class ChanceMiscalibration:
    """Miscalibration of a calibrated model with the same confidences and families.

    Attributes:
        brier: mean miscalibration of the Brier score.
        brier_high: 95% quantile of it.
        log_nats: mean miscalibration of the log score, in nats.
        log_nats_high: 95% quantile of it.
        smooth_ece: mean ECE without bins.
        smooth_ece_high: 95% quantile of it.
        p_value: of the hypothesis that the model is calibrated: how often a calibrated model has a
            miscalibration of the Brier score as large.
        reason: why the numbers are NaN, or None.
    """

    brier: float
    brier_high: float
    log_nats: float
    log_nats_high: float
    smooth_ece: float
    smooth_ece_high: float
    p_value: float
    reason: str | None = None


def chance_miscalibration(
    items: ScoredItems | TopAnswers, *, rng: np.random.Generator
) -> ChanceMiscalibration:
    """Draw outcomes at the confidences, and split their scores as those of the items.

    This is the noise floor of miscalibration. Isotonic regression fits noise, so miscalibration is
    above 0 on a calibrated model too.

    Args:
        items: items with references, under one decoding.
        rng: source of the draws.

    Returns:
        Means and 95% quantiles of 300 draws (100 for many items); NaN with a reason without items,
        or for more than 100,000, where chance is below 0.001.

    References:
        Consistency resampling: Broecker and Smith 2007; Vaicenavicius et al. 2019. Parts of scores:
        Dimitriadis, Gneiting and Jordan 2021.
    """
    n = len(items)
    if not 0 < n <= _MOST_ITEMS:
        reason = "more than 100,000 items: chance is below 0.001" if n else "no items"
        nan = math.nan
        return ChanceMiscalibration(nan, nan, nan, nan, nan, nan, nan, reason)
    samples = max(_FEWEST, min(_SAMPLES, _MOST_OUTCOMES // n))
    c, drawn = items.confidence, []
    smooth: list[npt.NDArray[np.float64]] = []
    with step("Drawing outcomes by chance", samples, "samples") as drawing:
        for outcomes in outcomes_if_calibrated(items, rng=rng, samples=samples):
            drawn.append(metrics.miscalibration_samples(c, outcomes))
            first = outcomes[: max(0, _SMOOTHED - sum(part.size for part in smooth))]
            smooth.append(metrics.smooth_ece_samples(c, first))
            drawing.done += len(outcomes)
    brier, log_nats = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    own = metrics.miscalibration_samples(c, items.correct[None])[0][0]
    p_value = (1 + int((brier >= own - _ROUNDING).sum())) / (samples + 1)
    smooth_ece = _summary(np.concatenate(smooth))
    return ChanceMiscalibration(*_summary(brier), *_summary(log_nats), *smooth_ece, p_value)


def outcomes_if_calibrated(
    items: ScoredItems | TopAnswers, *, rng: np.random.Generator, samples: int
) -> Iterator[npt.NDArray[np.bool_]]:
    """Draw outcomes of a calibrated model; members of a family share draws.

    Args:
        items: one or more items with references, under one decoding.
        rng: source of the draws.
        samples: number of draws.

    Yields:
        (b, n) samples, all draws in parts.
    """
    c, right = items.confidence, items.correct
    rate = shared_draw_rate(c, right, items.cluster, items.n_clusters)
    return calibrated_outcomes(
        c, items.cluster, items.n_clusters, rate=rate, rng=rng, resamples=samples
    )


def _summary(drawn: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(drawn.mean()), float(np.quantile(drawn, 1 - LEVEL))
