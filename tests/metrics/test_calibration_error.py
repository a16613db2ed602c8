import warnings

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from pact_eval.metrics import (
    bin_index,
    confidence,
    correct,
    ece,
    ece_of_gaps,
    log_softmax,
    reliability,
    smooth_ece,
    smooth_ece_samples,
)

RNG = np.random.default_rng(40)
LOG_PROBS = log_softmax(3 * RNG.standard_normal((500, 4)), np.full(500, 4))
REFERENCE = RNG.integers(0, 4, 500)
SURE = confidence(LOG_PROBS)
RIGHT = correct(LOG_PROBS, REFERENCE)


def test_ece_against_hand_computation() -> None:
    """0.62 and 0.64 share bin 9 (gap |1 - 1.26|), 0.9 is alone in 13 (0.1), 1.0 in 14 (1.0)."""
    value = ece([0.62, 0.64, 0.9, 1.0], [True, False, True, False])
    assert value == pytest.approx((0.26 + 0.1 + 1.0) / 4)


def test_ece_against_naive_loop() -> None:
    total = 0.0
    for b in range(15):
        inside = np.floor(15 * SURE) == b
        if inside.any():
            total += inside.mean() * abs(RIGHT[inside].mean() - SURE[inside].mean())
    assert ece(SURE, RIGHT) == pytest.approx(total, rel=1e-12)


def smooth_by_quadrature(c: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]) -> float:
    """Smooth ECE from the images of a Gaussian kernel at 0 and 1, on a grid of 4,000 points."""
    t, gap = (np.arange(4_000) + 0.5) / 4_000, c - right

    def error(width: float) -> float:
        images = [2 * j + sign * c for j in (-1, 0, 1) for sign in (1, -1)]
        kernel = sum(np.exp(-((t[:, None] - at) ** 2) / (2 * width**2)) for at in images)
        smooth = kernel @ gap / (c.size * width * np.sqrt(2 * np.pi))
        return float(np.abs(smooth).mean())

    low, high = 0.001, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) >= middle else (low, middle)
    return low


@pytest.mark.parametrize(
    ("items", "power"),
    [(50, 1.0), (50, 3.0), (100, 2.0), pytest.param(500, 1.0, marks=pytest.mark.slow)],
)
def test_smooth_ece_against_quadrature(items: int, power: float) -> None:
    rng = np.random.default_rng(7)
    sure = rng.uniform(0.4, 1.0, items)
    right = rng.random(items) < sure**power
    assert smooth_ece(sure, right) == pytest.approx(smooth_by_quadrature(sure, right), abs=5e-4)


def test_smooth_ece_against_hand_computation() -> None:
    """One confidence: a kernel that integrates to 1 leaves the gap itself."""
    assert smooth_ece([0.9] * 10, [True] * 7 + [False] * 3) == pytest.approx(0.2, abs=5e-4)
    # Two gaps of 0.4 with opposite signs, far apart, hardly reach each other.
    far = smooth_ece([0.1] * 10 + [0.9] * 10, [True] * 5 + [False] * 5 + [True] * 5 + [False] * 5)
    assert 0.2 < far < 0.4
    assert np.isnan(smooth_ece([], []))
    both = np.stack([RIGHT, ~RIGHT])
    alone = [smooth_ece(SURE, right) for right in both]
    assert smooth_ece_samples(SURE, both) == pytest.approx(alone)


def test_ece_against_netcal() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from netcal.metrics import ECE

        expected = ECE(bins=15).measure(np.exp(LOG_PROBS), REFERENCE)
    assert ece(SURE, RIGHT) == pytest.approx(expected, rel=1e-12)


def test_ece_against_torchmetrics() -> None:
    expected = multiclass_calibration_error(
        torch.from_numpy(np.exp(LOG_PROBS)),
        torch.from_numpy(REFERENCE),
        num_classes=4,
        n_bins=15,
        norm="l1",
    )
    # torchmetrics keeps the accuracy of each item in float32.
    assert ece(SURE, RIGHT) == pytest.approx(float(expected), rel=1e-6)


def test_confidence_1_belongs_to_the_last_bin() -> None:
    """Where torchmetrics opens a sixteenth: right at 1.0 and wrong at 0.95 must cancel partly."""
    assert bin_index([0.0, 0.95, 1.0]).tolist() == [0, 14, 14]
    assert ece([1.0, 0.95], [True, False]) == pytest.approx((1.95 - 1.0) / 2)


def test_a_bin_includes_its_lower_edge() -> None:
    assert bin_index([0.0, 0.25, 0.5, 0.75, 1.0], bins=4).tolist() == [0, 1, 2, 3, 3]
    assert bin_index([0.2499999, 0.4999999, 0.7499999], bins=4).tolist() == [0, 1, 2]


def test_reliability_adds_up_to_ece() -> None:
    result = reliability(SURE, RIGHT)
    assert result.count.sum() == 500
    assert result.edges.tolist() == np.linspace(0, 1, 16).tolist()
    gap = np.abs(result.accuracy - result.mean_confidence)
    assert np.nansum(result.count * gap) / 500 == pytest.approx(ece(SURE, RIGHT), rel=1e-12)
    # Four answers: the top probability is never below 1/4, so bins 0 to 2 are empty.
    assert np.isnan(result.accuracy[:3]).all()
    assert np.isnan(result.mean_confidence[:3]).all()


def test_ece_of_gaps_over_leading_axes() -> None:
    halves = [np.arange(500) < 250, np.arange(500) >= 250]
    bins, gap = bin_index(SURE), SURE - RIGHT
    gaps = [np.bincount(bins[half], gap[half], minlength=15) for half in halves]
    expected = [ece(SURE[half], RIGHT[half]) for half in halves]
    np.testing.assert_allclose(ece_of_gaps([250, 250], gaps), expected, rtol=1e-12)


def test_no_items_have_no_ece() -> None:
    assert np.isnan(ece([], []))
    assert np.isnan(ece_of_gaps(np.zeros(2), np.zeros((2, 15)))).all()
    assert np.isnan(reliability([], []).accuracy).all()


@pytest.mark.parametrize(
    ("sure", "right", "message"),
    [
        ([1.1], [True], "got 1.1 in row 0"),
        ([0.5, np.nan], [True, True], "got nan in row 1"),
        ([-0.1], [True], "confidence: expected"),
        ([0.5], [1], "correct: expected dtype bool"),
        ([0.5], [True, False], r"correct: expected shape \(1,\)"),
        ([[0.5]], [[True]], r"confidence: expected shape \(n,\)"),
    ],
)
def test_bad_arguments_are_refused(sure: npt.ArrayLike, right: npt.ArrayLike, message: str) -> None:
    for metric in (ece, reliability):
        with pytest.raises(ValueError, match=message):
            metric(sure, right)


def test_bad_bins_are_refused() -> None:
    with pytest.raises(ValueError, match="bins: expected"):
        ece([0.5], [True], bins=0)


def test_the_last_bit_of_a_confidence_on_an_edge_does_not_choose_its_bin() -> None:
    """By hand: 0.2, 0.4, 0.6, 0.8 are the edges 3/15, 6/15, 9/15, 12/15."""
    edges = np.array([0.2, 0.4, 0.6, 0.8])
    through_log = np.exp(np.log(edges))
    for c in (edges, through_log, np.nextafter(edges, 0), np.nextafter(edges, 1)):
        assert bin_index(c).tolist() == [3, 6, 9, 12]
    # Apart from rounding, a confidence below an edge stays below it.
    assert bin_index(edges - 1e-8).tolist() == [2, 5, 8, 11]
