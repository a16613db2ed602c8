"""The gap of two answers where nothing tells them apart."""

import numpy as np
import pytest

from pact_eval.metrics import answer_gap_nats, decode_ensemble, decode_single


def test_against_hand_computation() -> None:
    # Two answers 8 to 2, 1 to 1, 1 to 4: log 4, 0, log 4.
    p = np.array([[0.8, 0.2, 0.0], [0.3, 0.4, 0.3], [0.15, 0.25, 0.6]])
    with np.errstate(divide="ignore"):
        gap = answer_gap_nats(np.log(p), [[0, 1], [2, 0], [0, 2]])
    np.testing.assert_allclose(gap, [np.log(4), 0.0, np.log(4)], atol=1e-12)


def test_against_the_distance_of_the_logits() -> None:
    rng = np.random.default_rng(1)
    logits = 3 * rng.standard_normal((50, 4, 5))
    n_choices = rng.integers(2, 6, 50)
    first = rng.integers(0, n_choices)
    answers = np.column_stack([first, (first + 1) % n_choices])
    rows = np.arange(50)
    z = logits[rows[:, None], 0, answers]
    gap = answer_gap_nats(decode_single(logits, n_choices), answers)
    np.testing.assert_allclose(gap, np.abs(z[:, 0] - z[:, 1]), atol=1e-12)
    np.testing.assert_allclose(
        answer_gap_nats(decode_single(logits, n_choices), answers[:, ::-1]), gap
    )
    # Mean log-probabilities of the views: the views' own constants cancel.
    mean = logits.mean(axis=1)[rows[:, None], answers]
    together = answer_gap_nats(decode_ensemble(logits, n_choices), answers)
    np.testing.assert_allclose(together, np.abs(mean[:, 0] - mean[:, 1]), atol=1e-12)


def test_impossible_answers() -> None:
    with np.errstate(divide="ignore"):
        log_probs = np.log([[1.0, 0.0, 0.0]] * 2)
    gap = answer_gap_nats(log_probs, [[0, 1], [1, 2]])
    assert gap[0] == np.inf
    assert np.isnan(gap[1])


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([[0, 1]], r"shape \(2, 2\), got \(1, 2\)"),
        ([0, 1], r"shape \(2, 2\)"),
        ([[0, 1], [0, 2]], "indices in 0..1, got 2 in row 1"),
        ([[0, 1], [-1, 0]], "got -1 in row 1"),
        ([[0, 1], [0.5, 1]], "integers"),
    ],
)
def test_answers_that_are_none(answers: list[object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        answer_gap_nats(np.log([[0.5, 0.5]] * 2), answers)  # type: ignore[arg-type]
