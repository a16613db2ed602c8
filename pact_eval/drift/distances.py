"""Distances between the probabilities of two runs on the same items, next to those of noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import FloatArray
from pact_eval.evaluation.conclusions.order import NoiseFloor, noise_floor
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.linearised import linear_inference, linearised_ratio

QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)
"""Quantiles of TV over items that are shown."""

_SAME: Final = 1e-9


@dataclass(frozen=True)
class JointFloor:
    """The largest TV that two runs of one unchanged model can have by noise alone.

    Attributes:
        tv: the floor; NaN if the noise of a run was not measured, or a temperature was applied.
        a: noise floor of the first run.
        b: noise floor of the second run.
    """

    tv: float
    a: NoiseFloor
    b: NoiseFloor


@dataclass(frozen=True)
class Distance:
    """Total variation distance (TV) between the distributions of two runs, per item.

    Attributes:
        mean: mean over items, with its interval over families.
        quantiles: by level of `QUANTILES`.
        floor: what noise alone can move.
        above_floor: share of items beyond it; NaN without a floor.
    """

    mean: Estimate
    quantiles: dict[float, float]
    floor: JointFloor
    above_floor: float


def distance(a: ScoredItems, b: ScoredItems, floor: JointFloor) -> Distance:
    """Measure how far the distribution of each item moved.

    Args:
        a: items of the first run, with their views in memory.
        b: the same items of the second run, in the same order.
        floor: what noise alone can move.
    """
    tv = item_tv(np.exp(a.log_probs), np.exp(b.log_probs))
    linear = linearised_ratio(tv, np.ones(len(tv)), a.cluster, a.n_clusters)
    mean = linear_inference(float(tv.mean()), linear, n=len(tv)).estimate()
    beyond = math.nan if math.isnan(floor.tv) else float((tv > floor.tv + _SAME).mean())
    levels = np.quantile(tv, QUANTILES).tolist()
    return Distance(mean, dict(zip(QUANTILES, levels, strict=True)), floor, beyond)


def item_tv(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return (n,) TV of distributions (n, C); one array may have fewer unused columns.

    Examples:
        >>> item_tv(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25, 0.0]]))
        array([0.25])
    """
    width = max(p.shape[1], q.shape[1])
    p, q = (np.pad(matrix, ((0, 0), (0, width - matrix.shape[1]))) for matrix in (p, q))
    return np.asarray(np.abs(p - q).sum(axis=1) / 2)


def joint_floor(a: Provenance, b: Provenance, *, calibrated: bool, answers: int) -> JointFloor:
    r"""Return the largest TV that noise alone gives two runs.

    Two served runs of one model are repeats of one another: the larger of their repeat floors. A
    local run is at most its rounding floor away from exact arithmetic, so by the triangle
    inequality two floors add up otherwise. Probabilities that were rounded to d decimals are at
    most :math:`C \cdot 10^{-d} / 4` away from the unrounded ones; this is added unless both runs
    were rounded and repeated alike.

    Args:
        a: provenance of the first run.
        b: provenance of the second run.
        calibrated: whether temperatures were applied, which change what noise moves.
        answers: largest number of answers of an item, C.

    Examples:
        >>> runs = [Provenance.of({"settings": {"dtype": "float32"}}) for _ in "ab"]
        >>> joint_floor(*runs, calibrated=False, answers=4).tv < 1e-3
        True
    """
    first, second = noise_floor(a), noise_floor(b)
    if calibrated:
        return JointFloor(math.nan, first, second)
    repeats = {first.source, second.source} == {"repeats"}
    tv = max(first.tv, second.tv) if repeats else first.tv + second.tv
    if not (repeats and a.rounded_to == b.rounded_to):
        tv += sum(
            answers * 10.0**-provenance.rounded_to / 4
            for provenance in (a, b)
            if provenance.rounded_to is not None
        )
    return JointFloor(tv, first, second)
