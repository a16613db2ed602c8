import numpy as np
import numpy.typing as npt
import pytest

from pact_eval.metrics import expected_level_error, level_error, rps


def test_level_errors_against_hand_computation() -> None:
    """Expected levels 0.1 + 2 * 0.8 + 0 = 1.7 and 0.6."""
    log_probs = np.log([[0.1, 0.1, 0.8], [0.6, 0.2, 0.2]])
    np.testing.assert_allclose(expected_level_error(log_probs, [0, 2]), [1.7, 1.4])
    assert level_error(log_probs, [0, 2]).tolist() == [2.0, 2.0]
    np.testing.assert_allclose(expected_level_error(log_probs, [2, 1]), [0.3, 0.4])
    assert level_error(log_probs, [2, 1]).tolist() == [0.0, 1.0]


def test_unused_levels_weigh_nothing() -> None:
    log_probs = np.array([[np.log(0.5), np.log(0.5), -np.inf, -np.inf]])
    np.testing.assert_allclose(expected_level_error(log_probs, [1]), [0.5])
    np.testing.assert_allclose(rps(log_probs, [1]), [0.25])


def test_a_two_sided_distribution_can_be_right_on_average_only() -> None:
    log_probs = np.log([[0.5, 1e-300, 0.5]])
    np.testing.assert_allclose(expected_level_error(log_probs, [1]), [0.0], atol=1e-12)
    assert level_error(log_probs, [1]).tolist() == [1.0]
    np.testing.assert_allclose(rps(log_probs, [1]), [0.5])


def test_rps_against_a_loop_over_thresholds() -> None:
    rng = np.random.default_rng(1)
    for c in range(1, 7):
        p = rng.dirichlet(np.ones(c), 50)
        y = rng.integers(0, c, 50)
        expected_rps = [
            sum((sum(row[: j + 1]) - (j >= right)) ** 2 for j in range(c))
            for row, right in zip(p.tolist(), y.tolist(), strict=True)
        ]
        np.testing.assert_allclose(rps(np.log(p), y), expected_rps, atol=1e-12)


def test_rps_against_the_energy_form() -> None:
    """E|X - y| - E|X - X'| / 2, the continuous ranked probability score of Gneiting and Raftery."""
    p = np.random.default_rng(2).dirichlet(np.ones(5), 40)
    distance = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    for y in range(5):
        expected_rps = p @ distance[y] - np.einsum("ni,nj,ij->n", p, p, distance) / 2
        np.testing.assert_allclose(rps(np.log(p), np.full(40, y)), expected_rps, atol=1e-12)


def test_certainty_on_one_level_scores_its_distance() -> None:
    certain = np.full((4, 4), -np.inf)
    np.fill_diagonal(certain, 0.0)
    assert rps(certain, [3, 3, 3, 0]).tolist() == [3.0, 2.0, 1.0, 3.0]


def test_rps_is_strictly_proper() -> None:
    """Under true probabilities q, forecasting p costs sum (F - G)^2 more than forecasting q."""
    rng = np.random.default_rng(3)
    for c in (2, 3, 6):
        q = rng.dirichlet(np.ones(c), 200)
        p = rng.dirichlet(np.ones(c), 200)
        excess = np.square(np.cumsum(p, axis=1) - np.cumsum(q, axis=1)).sum(axis=1)
        difference = expected(rps, p, q) - expected(rps, q, q)
        np.testing.assert_allclose(difference, excess, atol=1e-12)
        assert (excess > 0).all()


@pytest.mark.parametrize("sharper", [1.8, 3.0])
def test_the_expected_level_error_rewards_over_confidence_and_rps_does_not(sharper: float) -> None:
    """Expectations under the true probabilities, which multiplied logits exaggerate."""
    logits = 1.5 * np.random.default_rng(4).standard_normal((2_000, 5))
    true, over = softmax(logits), softmax(sharper * logits)

    def rises(metric: object) -> float:
        return float((expected(metric, over, true) - expected(metric, true, true)).mean())

    assert rises(expected_level_error) < -0.02
    assert rises(rps) > 0.01


def softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    weights = np.exp(logits)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def expected(
    metric: object, forecast: npt.NDArray[np.float64], true: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return (n,) the expectation of a per-item metric over references drawn from `true`."""
    n, c = true.shape
    assert callable(metric)
    values = [metric(np.log(forecast), np.full(n, y)) for y in range(c)]
    return np.asarray((true * np.transpose(values)).sum(axis=1))
