import numpy as np
import pytest

from pact_eval.metrics import (
    PairOutcomes,
    lead_nats,
    log_softmax,
    pair_accuracy,
    pair_correct,
    pair_margin_nats,
    pair_outcomes,
    pair_rows,
)

FAMILY = np.array(["b", "a", "c", "a", "b", "d", "c", "c", "e", "e"])
IS_BASE = np.array([True, False, True, True, False, True, False, False, True, True])


def test_only_complete_pairs_are_kept() -> None:
    """c has two counterfactuals, d stands alone, e has two bases."""
    pairs = pair_rows(FAMILY, IS_BASE)
    assert pairs.base.tolist() == [3, 0]
    assert pairs.counterfactual.tolist() == [1, 4]
    assert (len(pairs), pairs.rows, pairs.incomplete_families) == (2, 10, 3)


@pytest.mark.parametrize("block_rows", [1, 7, 2**18])
def test_pair_rows_against_naive_loop(block_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of a pair, and repeated ones, lie in one block of rows or in several."""
    monkeypatch.setattr("pact_eval.metrics.pairs._BLOCK_ROWS", block_rows)
    rng = np.random.default_rng(70)
    family, is_base = rng.integers(0, 60, 150), rng.random(150) < 0.5
    expected = []
    for name in sorted(set(family.tolist())):
        rows = np.flatnonzero(family == name)
        if sorted(is_base[rows].tolist()) == [False, True]:
            expected.append((rows[is_base[rows]][0], rows[~is_base[rows]][0]))
    pairs = pair_rows(family, is_base)
    assert list(zip(pairs.base, pairs.counterfactual, strict=True)) == expected
    assert pairs.incomplete_families == len(set(family.tolist())) - len(expected)
    assert len(expected) > 5


def test_integer_labels_and_strings_agree() -> None:
    codes = np.unique(FAMILY, return_inverse=True)[1]
    by_code, by_name = pair_rows(codes, IS_BASE), pair_rows(FAMILY, IS_BASE)
    assert by_code.base.tolist() == by_name.base.tolist()


def test_outcomes_against_hand_computation() -> None:
    family, is_base = np.repeat(np.arange(5), 2), np.tile([True, False], 5)
    reference = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    answers = np.array([0, 1, 0, 0, 1, 1, 1, 0, 2, 2])
    pairs = pair_rows(family, is_base)
    assert pair_outcomes(pairs, answers, reference) == PairOutcomes(
        both_right=1,
        only_base=1,
        only_counterfactual=1,
        neither=2,
        same_answer=3,
        incomplete_families=0,
    )
    right = answers == reference
    assert pair_correct(pairs, right).tolist() == [True, False, False, False, False]
    assert pair_accuracy(pairs, right) == 0.2


def test_no_complete_pair_has_no_accuracy() -> None:
    pairs = pair_rows(["a", "b"], [True, True])
    assert np.isnan(pair_accuracy(pairs, [True, True]))
    assert pair_outcomes(pairs, [0, 0], [0, 0]) == PairOutcomes(0, 0, 0, 0, 0, 2)
    assert len(pair_rows([], [])) == 0


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"variant_is_base: expected bool of shape \(2,\)"):
        pair_rows(["a", "a"], [True])
    with pytest.raises(ValueError, match="variant_is_base: expected bool"):
        pair_rows(["a", "a"], ["base", "counterfactual"])
    with pytest.raises(ValueError, match=r"family: expected shape \(n,\)"):
        pair_rows([["a"]], [[True]])
    pairs = pair_rows(["a", "a"], [True, False])
    with pytest.raises(ValueError, match=r"correct: expected shape \(2,\)"):
        pair_accuracy(pairs, [True])
    with pytest.raises(ValueError, match=r"predicted and reference .*\(2,\)"):
        pair_outcomes(pairs, [0], [0, 1])


def test_margins_against_hand_computation() -> None:
    """Equation (1): (2.0 - 0.5) + (1.0 - 3.0) = -0.5, and (0 - -1) + (4 - 1) = 4."""
    logits = [[2.0, 0.5, 9.0], [3.0, 1.0, 0.0], [0.0, 5.0, -1.0], [1.0, 5.0, 4.0]]
    pairs = pair_rows(["f", "f", "g", "g"], [True, False, True, False])
    lead = lead_nats(logits, [0, 1, 0, 2], [1, 0, 2, 0])
    assert lead.tolist() == [1.5, -2.0, 1.0, 3.0]
    assert pair_margin_nats(pairs, lead).tolist() == [-0.5, 4.0]


def test_an_offset_that_both_members_share_cancels() -> None:
    """Proposition 1 of the paper; a softmax is such an offset too."""
    rng = np.random.default_rng(5)
    logits, offset = rng.normal(size=(40, 4)), rng.normal(size=(20, 4)).repeat(2, axis=0)
    reference = np.tile([0, 2], 20)
    other = np.tile([2, 0], 20)
    pairs = pair_rows(np.arange(20).repeat(2), np.tile([True, False], 20))
    margins = [
        pair_margin_nats(pairs, lead_nats(z, reference, other))
        for z in (logits, logits + offset, log_softmax(logits[:, None], np.full(40, 4))[:, 0])
    ]
    assert margins[1] == pytest.approx(margins[0], abs=1e-12)
    assert margins[2] == pytest.approx(margins[0], abs=1e-12)


def test_a_lead_that_does_not_exist() -> None:
    """No other member, the same right answer, one that is not offered, both impossible."""
    impossible = -np.inf
    logits = [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [impossible] * 2, [0.0, impossible]]
    lead = lead_nats(logits, [0, 0, 0, 0, 0], [-1, 0, 2, 1, 1])
    assert np.isnan(lead[:4]).all()
    assert lead[4] == np.inf


def test_shapes_of_margins_are_checked() -> None:
    with pytest.raises(ValueError, match=r"expected log_probs \(n, C\)"):
        lead_nats([[0.0, 1.0]], [0, 1], [1, 0])
    with pytest.raises(ValueError, match="lead: expected shape"):
        pair_margin_nats(pair_rows(["a"], [True]), [0.0, 1.0])
