"""The statistics that need more than a mean equal the metric of the resampled rows."""

import numpy as np
import numpy.typing as npt

from pact_eval.metrics import aurc, aurc_weighted, bin_index, ece, ece_from_bin_sums
from pact_eval.stats import cluster_sums, rows_statistic, totals_statistic

RNG = np.random.default_rng(90)
FAMILIES, ROWS, BINS = 30, 70, 15
CLUSTER = RNG.integers(0, FAMILIES, ROWS)
SURE = np.round(RNG.uniform(0.3, 1.0, ROWS), 1)
RIGHT = RNG.random(ROWS) < SURE
WEIGHTS = RNG.multinomial(FAMILIES, np.full(FAMILIES, 1 / FAMILIES), 40).astype(np.float64)


def resampled(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(ROWS), weights[CLUSTER].astype(int))


def test_aurc_against_resampled_rows() -> None:
    statistic = rows_statistic(lambda weights: aurc_weighted(SURE, RIGHT, weights), CLUSTER)
    expected = [aurc(SURE[resampled(row)], RIGHT[resampled(row)]) for row in WEIGHTS]
    np.testing.assert_allclose(statistic(WEIGHTS), expected, rtol=0, atol=1e-12)


def test_ece_against_resampled_rows() -> None:
    cell = CLUSTER * BINS + bin_index(SURE)
    totals = [
        cluster_sums(values, cell, FAMILIES * BINS).reshape(FAMILIES, BINS)
        for values in (np.ones(ROWS), SURE, RIGHT)
    ]
    statistic = totals_statistic(ece_from_bin_sums, *totals)
    expected = [ece(SURE[resampled(row)], RIGHT[resampled(row)]) for row in WEIGHTS]
    np.testing.assert_allclose(statistic(WEIGHTS), expected, rtol=0, atol=1e-12)
