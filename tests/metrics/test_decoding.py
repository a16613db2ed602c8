import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from pact_eval.metrics import decode_ensemble, decode_single, log_softmax

INF = np.inf


def ragged_logits(n: int, k: int, c: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(20)
    n_choices = rng.integers(2, c + 1, n)
    logits = 4 * rng.standard_normal((n, k, c))
    logits[np.broadcast_to(np.arange(c) >= n_choices[:, None, None], logits.shape)] = -INF
    return logits, n_choices


def test_log_softmax_against_scipy_on_the_used_slots() -> None:
    logits, n_choices = ragged_logits(50, 3, 6)
    decoded = log_softmax(logits, n_choices)
    for item, c in enumerate(n_choices):
        expected = special.log_softmax(logits[item, :, :c], axis=-1)
        np.testing.assert_allclose(decoded[item, :, :c], expected, rtol=1e-14)
        assert (decoded[item, :, c:] == -INF).all()


def test_unused_slots_are_ignored_whatever_they_hold() -> None:
    expected = log_softmax([[1.0, 2.0, -INF]], [2])
    for filler in (0.0, 1e9, np.nan, INF):
        np.testing.assert_array_equal(log_softmax([[1.0, 2.0, filler]], [2]), expected)


def test_float32_logits_are_decoded_in_float64() -> None:
    logits, n_choices = ragged_logits(20, 2, 5)
    single = logits.astype(np.float32)
    decoded = decode_ensemble(single, n_choices)
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, decode_ensemble(single.astype(np.float64), n_choices))


def test_single_reads_view_0_only() -> None:
    logits, n_choices = ragged_logits(20, 3, 5)
    changed = logits.copy()
    changed[:, 1:] = 0.0
    np.testing.assert_array_equal(
        decode_single(logits, n_choices), decode_single(changed, n_choices)
    )
    np.testing.assert_array_equal(
        decode_single(logits, n_choices), log_softmax(logits[:, 0], n_choices)
    )


def test_ensemble_against_hand_computation() -> None:
    """(0.8, 0.2) and (0.5, 0.5): proportional to sqrt(0.4), sqrt(0.1), that is to 2 : 1."""
    views = np.log([[[0.8, 0.2], [0.5, 0.5]]])
    np.testing.assert_allclose(np.exp(decode_ensemble(views, [2])), [[2 / 3, 1 / 3]])


def test_ensemble_against_naive_loop() -> None:
    logits, n_choices = ragged_logits(40, 4, 6)
    decoded = np.exp(decode_ensemble(logits, n_choices))
    for item, c in enumerate(n_choices):
        product = np.ones(c)
        for view in logits[item, :, :c]:
            product *= special.softmax(view) ** (1 / 4)
        np.testing.assert_allclose(decoded[item, :c], product / product.sum(), rtol=1e-12)
        assert (decoded[item, c:] == 0).all()


def test_probability_zero_stays_zero() -> None:
    views = np.array([[[0.0, -INF, 0.0], [0.0, 0.0, 0.0]]])
    single = np.exp(decode_single(views, [3]))
    np.testing.assert_allclose(single, [[0.5, 0.0, 0.5]], rtol=1e-15)
    ensemble = np.exp(decode_ensemble(views, [3]))
    np.testing.assert_allclose(ensemble, [[0.5, 0.0, 0.5]], rtol=1e-15)


def test_disjoint_supports_are_refused_with_their_row() -> None:
    views = np.array([[[0.0, 0.0], [0.0, 0.0]], [[0.0, -INF], [-INF, 0.0]]])
    with pytest.raises(ValueError, match=r"ensemble undefined.*row 1$"):
        decode_ensemble(views, [2, 2])
    np.testing.assert_allclose(np.exp(decode_single(views, [2, 2])), [[0.5, 0.5], [1.0, 0.0]])


def test_no_items_decode_to_no_rows() -> None:
    assert decode_ensemble(np.zeros((0, 4, 3)), []).shape == (0, 3)
    assert decode_single(np.zeros((0, 4, 3)), []).shape == (0, 3)


@pytest.mark.parametrize(
    ("logits", "n_choices", "message"),
    [
        ([[0.0, 1.0]], [3], r"n_choices: expected 1..2, got 3 in row 0"),
        ([[0.0, 1.0]], [0], "n_choices: expected 1..2, got 0"),
        ([[0.0, 1.0]], [2, 2], "expected logits"),
        ([0.0, 1.0], [2], "expected logits"),
        ([[0.0, 1.0]], [1.5], "n_choices: expected integers"),
        ([[0.0, 1.0], [0.0, np.nan]], [2, 2], "got nan in row 1"),
        ([[0.0, INF]], [2], "below [+]inf, got inf"),
        ([[-INF, -INF, 0.0]], [2], "every answer is -inf"),
        ([[[0.0, 1.0]]], [3], "n_choices: expected 1..2, got 3 in row 0"),
    ],
)
def test_bad_logits_are_refused(
    logits: npt.ArrayLike, n_choices: npt.ArrayLike, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        log_softmax(logits, n_choices)


def test_logits_without_a_view_axis_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected shape \(n, K, C\)"):
        decode_single([[0.0, 1.0]], [2])
    with pytest.raises(ValueError, match="K >= 1"):
        decode_ensemble(np.zeros((3, 0, 2)), [2, 2, 2])


def test_the_first_logit_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="got inf in row 0 and 1 more"):
        log_softmax([[INF, 0.0], [np.nan, 0.0], [1.0, 2.0]], [2, 2, 2])


def test_large_logits_neither_overflow_nor_warn() -> None:
    np.testing.assert_allclose(log_softmax([[1e4, 0.0], [-1e4, 0.0]], [2, 2])[:, 1], [-1e4, 0.0])
