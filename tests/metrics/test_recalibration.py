"""Isotonic recalibration and score decompositions, against scipy, scikit-learn and by hand."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from pact_eval.metrics import _arrays as _ranking
from pact_eval.metrics import (
    answer_scores,
    isotonic_pools,
    miscalibration_samples,
    recalibrate,
    recalibrate_samples,
)

Sample = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]


@st.composite
def samples(draw: st.DrawFn, ties: bool | None = None) -> Sample:
    """Draw 1 to 60 confidences and outcomes that follow them, or do not."""
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    c = rng.uniform(0.05, 0.95, n)
    if draw(st.booleans()) if ties is None else ties:
        c = np.round(c, 1)
    power = draw(st.sampled_from([-1.0, 0.0, 1.0, 3.0]))
    return c, rng.random(n) < c**power / (1 if power >= 0 else 20)


def overconfident(n: int, seed: int = 0) -> Sample:
    rng = np.random.default_rng(seed)
    c = rng.beta(5, 1, n)
    return c, rng.random(n) < c**2


@given(sample=samples())
def test_recalibrated_confidence_against_scikit_learn(sample: Sample) -> None:
    c, right = sample
    oracle = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(c, right)
    grid = np.r_[c, np.linspace(0, 1, 41)]
    np.testing.assert_allclose(recalibrate(c, right).at(grid), oracle.predict(grid), atol=1e-9)


@given(sample=samples(ties=False))
def test_recalibrated_confidence_against_scipy(sample: Sample) -> None:
    c, right = sample
    order = np.argsort(c)
    oracle = isotonic_regression(right[order].astype(float)).x
    np.testing.assert_allclose(recalibrate(c, right).at(c[order]), oracle, atol=1e-12)


@given(sample=samples())
def test_pools_count_items_and_increase(sample: Sample) -> None:
    c, right = sample
    pools = recalibrate(c, right)
    assert pools.count.sum() == c.size
    assert (pools.count * pools.accuracy).sum() == pytest.approx(right.sum())
    assert (np.diff(pools.accuracy) > 0).all()
    assert (pools.lowest <= pools.highest).all()
    assert (pools.lowest[1:] > pools.highest[:-1]).all()


def test_pools_of_weighted_groups_against_scipy() -> None:
    rng = np.random.default_rng(4)
    for size in (1, 2, 50, 400):
        counts = rng.integers(1, 9, size).astype(float)
        sums = counts * rng.random(size)
        starts = isotonic_pools(sums, counts)
        means = np.add.reduceat(sums, starts) / np.add.reduceat(counts, starts)
        expected = isotonic_regression(sums / counts, weights=counts).x
        repeated = np.repeat(means, np.diff(starts, append=size))
        np.testing.assert_allclose(repeated, expected, atol=1e-12)
    assert isotonic_pools(np.empty(0), np.empty(0)).size == 0


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    c, right = overconfident(700)
    c = np.round(c, 2)
    whole = recalibrate(c, right)
    monkeypatch.setattr(_ranking, "_CHUNK", 16)
    chunked = recalibrate(c, right)
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(chunked, name), getattr(whole, name))


@given(sample=samples())
def test_the_three_parts_add_up(sample: Sample) -> None:
    scores = answer_scores(*sample)
    for parts in (scores.brier, scores.log_nats):
        total = parts.miscalibration - parts.discrimination + parts.uncertainty
        assert total == pytest.approx(parts.score, abs=1e-12)
        assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0


@settings(max_examples=10)
@given(sample=samples())
def test_scores_and_parts_against_scikit_learn(sample: Sample) -> None:
    c, right = sample
    fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(c, right).predict(c)
    constant = np.full(c.size, right.mean())
    scores = answer_scores(c, right)

    def log_score(p: npt.NDArray[np.float64]) -> float:
        # scikit-learn clips at 2e-16: events of frequency 0 or 1 cost as little.
        return float(log_loss(right, p, labels=[False, True]))

    def brier(p: npt.NDArray[np.float64]) -> float:
        return float(brier_score_loss(right, p, pos_label=True))

    for parts, oracle in ((scores.brier, brier), (scores.log_nats, log_score)):
        assert parts.score == pytest.approx(oracle(c), abs=1e-9)
        assert parts.miscalibration == pytest.approx(oracle(c) - oracle(fitted), abs=1e-9)
        assert parts.discrimination == pytest.approx(oracle(constant) - oracle(fitted), abs=1e-9)
        assert parts.uncertainty == pytest.approx(oracle(constant), abs=1e-9)


@given(sample=samples())
def test_a_recalibrated_forecast_has_no_miscalibration(sample: Sample) -> None:
    c, right = sample
    again = answer_scores(recalibrate(c, right).at(c), right)
    assert again.brier.miscalibration == pytest.approx(0.0, abs=1e-12)
    assert again.log_nats.miscalibration == pytest.approx(0.0, abs=1e-12)


def test_parts_against_hand_computation() -> None:
    """Pools: 0.6 (1 of 2), 0.8 (2 of 2). Accuracy 3/4."""
    parts = answer_scores([0.8, 0.8, 0.6, 0.6], [True, True, True, False])
    assert parts.items == 4
    assert parts.brier.score == pytest.approx((0.04 + 0.04 + 0.16 + 0.36) / 4)
    assert parts.brier.uncertainty == pytest.approx(3 / 16)
    assert parts.brier.discrimination == pytest.approx(3 / 16 - 1 / 8)
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert parts.log_nats.uncertainty == pytest.approx(entropy)
    assert parts.log_nats.discrimination == pytest.approx(entropy - math.log(2) / 2)
    assert parts.log_nats.score == pytest.approx(
        -(2 * math.log(0.8) + math.log(0.6) + math.log(0.4)) / 4
    )


@pytest.mark.parametrize(("c", "right"), [(1.0, False), (0.0, True)])
def test_an_infinite_log_score_is_undefined_with_a_reason(c: float, right: bool) -> None:
    scores = answer_scores([c, 0.5, 0.75], [right, True, False])
    log_nats = scores.log_nats
    assert math.isnan(log_nats.score)
    assert math.isnan(log_nats.miscalibration)
    assert_says(log_nats.reason, "log score", "infinite")
    assert log_nats.discrimination >= 0
    assert math.isfinite(log_nats.uncertainty)
    assert scores.brier.reason is None
    assert math.isfinite(scores.brier.miscalibration)


def test_no_items_are_undefined() -> None:
    scores = answer_scores([], np.zeros(0, dtype=bool))
    for parts in (scores.brier, scores.log_nats):
        assert math.isnan(parts.score)
        assert parts.reason == "no items"
    assert np.isnan(recalibrate([], np.zeros(0, dtype=bool)).at([0.5])).all()


@pytest.mark.parametrize("bad", [[np.nan], [1.1], [-0.1]])
def test_confidence_outside_0_to_1_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities in"):
        answer_scores(bad, [True])


def test_samples_of_outcomes_are_recalibrated_one_by_one() -> None:
    rng = np.random.default_rng(6)
    c = np.round(rng.uniform(0.3, 1.0, 80), 2)
    outcomes = rng.random((60, 80)) < c
    outcomes[:3] = [[True], [False], [True]]
    grid = np.linspace(0, 1, 31)
    together = recalibrate_samples(c, outcomes)
    brier, log_nats = miscalibration_samples(c, outcomes)
    for row, right in enumerate(outcomes):
        pools, scores = recalibrate(c, right), answer_scores(c, right)
        np.testing.assert_array_equal(together.count[together.sample == row], pools.count)
        np.testing.assert_allclose(together.at(grid)[row], pools.at(grid), atol=1e-9)
        assert brier[row] == pytest.approx(scores.brier.miscalibration, abs=1e-12)
        if scores.log_nats.reason is None:
            assert log_nats[row] == pytest.approx(scores.log_nats.miscalibration, abs=1e-12)
        else:
            assert log_nats[row] == math.inf


def test_samples_need_items() -> None:
    with pytest.raises(ValueError, match="one item or more"):
        recalibrate_samples([], np.zeros((2, 0), dtype=bool))


def test_miscalibration_against_its_expectation() -> None:
    """With accuracy c^2 at confidence c, E (c - c^2)^2 for c ~ Beta(5, 1)."""
    moment = [5 / (5 + k) for k in range(5)]
    truth = moment[2] - 2 * moment[3] + moment[4]
    miscalibration = answer_scores(*overconfident(200_000)).brier.miscalibration
    assert miscalibration == pytest.approx(truth, abs=2e-3)
