import numpy as np
import pytest

from pact_eval.metrics import picked_slot, reference_slot

ORDERS = np.array([[[0, 1, 2], [2, 0, 1]], [[0, 1, -1], [1, 0, -1]]])


def test_slots_against_hand_computation() -> None:
    """Answer 2 stands at C in canonical order, and at A where the codes are shuffled to 2, 0, 1."""
    assert reference_slot([2, 1], ORDERS).tolist() == [[2, 0], [1, 0]]
    assert picked_slot([[1, 1], [0, 1]], ORDERS).tolist() == [[1, 2], [0, 0]]


def test_slots_against_inverse_permutations() -> None:
    rng = np.random.default_rng(80)
    orders = rng.permuted(np.tile(np.arange(6), (40, 4, 1)), axis=-1)
    answers = rng.integers(0, 6, (40, 4))
    inverse = np.argsort(orders, axis=-1)
    expected = np.take_along_axis(inverse, answers[..., None], axis=-1)[..., 0]
    np.testing.assert_array_equal(picked_slot(answers, orders), expected)


def test_an_answer_without_a_code_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly one code, got row 1"):
        reference_slot([0, 2], ORDERS)
    with pytest.raises(ValueError, match="exactly one code, got row 0"):
        picked_slot([[0]], [[[0, 0]]])


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected predicted \(n, K\)"):
        picked_slot([0, 1], ORDERS)
    with pytest.raises(ValueError, match=r"expected reference \(n,\)"):
        reference_slot([[0, 1], [0, 1]], ORDERS)
