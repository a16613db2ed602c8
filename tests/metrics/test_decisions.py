import numpy as np
import pytest

from pact_eval.metrics import confidence, correct, decode_ensemble, item_mean, predicted
from pact_eval.metrics.decoding import tied_answers


def test_ties_go_to_the_lowest_canonical_index() -> None:
    log_probs = np.log([[0.2, 0.4, 0.4], [0.25, 0.25, 0.5], [0.4, 0.2, 0.4]])
    assert predicted(log_probs).tolist() == [1, 2, 0]


def test_rounding_does_not_break_ties() -> None:
    """A model that answers the letter: two views against two, whatever the last digits say."""
    margin = np.random.default_rng(25).normal(0, 2, 1000)
    logits = np.zeros((1000, 4, 2))
    logits[:, [0, 2], 0] = logits[:, [1, 3], 1] = margin[:, None]
    log_probs = decode_ensemble(logits, np.full(1000, 2))
    assert (log_probs[:, 0] != log_probs[:, 1]).any()
    assert not predicted(log_probs).any()


def test_a_small_lead_is_no_tie() -> None:
    assert predicted(np.log([[0.5 - 1e-9, 0.5 + 1e-9]])).tolist() == [1]


def test_leading_axes_are_free() -> None:
    by_view = np.log([[[0.9, 0.1], [0.4, 0.6]]])
    assert predicted(by_view).tolist() == [[0, 1]]
    np.testing.assert_allclose(confidence(by_view), [[0.9, 0.6]])
    with_tie = np.log([[[0.4, 0.4, 0.2], [0.2, 0.3, 0.5]]])
    assert tied_answers(with_tie).tolist() == [[[0, 1], [2, -1]]]


def test_a_sure_answer_has_confidence_1() -> None:
    assert confidence([[0.0, -np.inf], [-np.inf, 0.0]]).tolist() == [1.0, 1.0]


def test_correct_against_hand_computation() -> None:
    log_probs = np.log([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])
    assert correct(log_probs, [1, 1, 0]).tolist() == [True, False, True]
    assert item_mean(correct(log_probs, [1, 1, 0])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("log_probs", "reference", "message"),
    [
        ([[-0.5, 1.0]], [0], "got 1.0 in row 0; decode logits first"),
        ([[-0.5, -1.0], [np.nan, -1.0]], [0, 0], "got nan in row 1"),
        ([-0.5, -1.0], [0], "expected 2 dimensions"),
        ([[-0.5, -1.0]], [2], r"reference: expected indices in 0..1, got 2 in row 0"),
        ([[-0.5, -1.0]], [-1], "reference: expected indices"),
        ([[-0.5, -1.0]], [0.5], "reference: expected integers"),
        ([[-0.5, -1.0]], [0, 0], r"reference: expected shape \(1,\), got \(2,\)"),
    ],
)
def test_bad_arguments_are_refused(
    log_probs: list[list[float]], reference: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        correct(log_probs, reference)


def test_no_answer_slot_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        predicted(np.zeros((3, 0)))


def test_item_mean_is_loud_about_what_is_undefined() -> None:
    assert np.isnan(item_mean([]))
    assert np.isnan(item_mean([1.0, np.nan]))
    assert item_mean([1.0, np.inf]) == np.inf
    with pytest.raises(ValueError, match=r"expected shape \(n,\)"):
        item_mean([[1.0]])
