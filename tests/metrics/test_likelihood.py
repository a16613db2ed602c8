import math

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from pact_eval.metrics import brier, item_mean, log_softmax, nll_nats, nll_summary

RNG = np.random.default_rng(30)
LOG_PROBS = log_softmax(2 * RNG.standard_normal((200, 5)), np.full(200, 5))
REFERENCE = RNG.integers(0, 5, 200)


def test_nll_against_sklearn() -> None:
    expected = log_loss(REFERENCE, np.exp(LOG_PROBS), labels=range(5))
    assert item_mean(nll_nats(LOG_PROBS, REFERENCE)) == pytest.approx(expected, rel=1e-12)


def test_brier_against_sklearn() -> None:
    expected = brier_score_loss(
        REFERENCE, np.exp(LOG_PROBS), labels=np.arange(5), scale_by_half=False
    )
    assert item_mean(brier(LOG_PROBS, REFERENCE)) == pytest.approx(expected, rel=1e-12)


def test_likelihood_against_hand_computation() -> None:
    log_probs = np.log([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    np.testing.assert_allclose(nll_nats(log_probs, [1, 2]), [-math.log(0.3), -math.log(0.7)])
    np.testing.assert_allclose(brier(log_probs, [1, 2]), [0.25 + 0.49 + 0.04, 0.01 + 0.04 + 0.09])


def test_padding_costs_nothing() -> None:
    padded = np.pad(LOG_PROBS, ((0, 0), (0, 3)), constant_values=-np.inf)
    np.testing.assert_array_equal(nll_nats(padded, REFERENCE), nll_nats(LOG_PROBS, REFERENCE))
    np.testing.assert_allclose(brier(padded, REFERENCE), brier(LOG_PROBS, REFERENCE), rtol=1e-14)


def test_certainty_is_scored_without_clipping() -> None:
    sure = np.array([[0.0, -np.inf], [0.0, -np.inf]])
    nll = nll_nats(sure, [0, 1])
    assert nll.tolist() == [0.0, np.inf]
    assert not np.signbit(nll).any()
    assert brier(sure, [0, 1]).tolist() == [0.0, 2.0]


def test_brier_keeps_small_errors_to_the_last_digits() -> None:
    """1 - p_y = 1e-9: (1e-9)^2 twice, which sum(p^2) - 2 p_y + 1 would round to 0."""
    log_probs = np.array([[np.log1p(-1e-9), np.log(1e-9)]])
    np.testing.assert_allclose(brier(log_probs, [0]), [2e-18], rtol=1e-6)


def test_nll_summary_against_hand_computation() -> None:
    summary = nll_summary([1.0, np.inf, 3.0, np.inf])
    assert (summary.mean, summary.items, summary.infinite_items) == (np.inf, 4, 2)
    assert summary.finite_mean == 2.0
    assert summary.lower_bound(math.exp(-5)) == pytest.approx((1 + 3 + 5 + 5) / 4)


def test_nll_summary_of_nothing_and_of_infinities_only() -> None:
    empty = nll_summary([])
    assert math.isnan(empty.mean)
    assert math.isnan(empty.lower_bound(0.1))
    hopeless = nll_summary([np.inf])
    assert math.isnan(hopeless.finite_mean)
    assert hopeless.lower_bound(math.exp(-7)) == pytest.approx(7)


def test_nll_summary_refuses_what_is_no_nll() -> None:
    with pytest.raises(ValueError, match="got NaN"):
        nll_summary([1.0, np.nan])
    for smallest in (0.0, 1.5):
        with pytest.raises(ValueError, match="smallest_probability"):
            nll_summary([1.0]).lower_bound(smallest)
