import numpy as np

from pact_eval.metrics import expected_level_error, level_error


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


def test_a_two_sided_distribution_can_be_right_on_average_only() -> None:
    log_probs = np.log([[0.5, 1e-300, 0.5]])
    np.testing.assert_allclose(expected_level_error(log_probs, [1]), [0.0], atol=1e-12)
    assert level_error(log_probs, [1]).tolist() == [1.0]
