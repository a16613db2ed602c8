import numpy as np
import pytest

from pact_eval.metrics import confident_errors


def test_share_against_hand_computation() -> None:
    sure, right = [0.95, 0.9, 0.89, 0.99, 0.4], [False, False, False, True, False]
    assert confident_errors(sure, right) == pytest.approx(2 / 4)
    assert confident_errors(sure, right, threshold=0.5) == pytest.approx(3 / 4)


def test_without_errors_the_share_is_undefined() -> None:
    assert np.isnan(confident_errors([0.95, 0.6], [True, True]))


def test_a_threshold_that_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold: expected a number"):
        confident_errors([0.95], [False], threshold=90)
