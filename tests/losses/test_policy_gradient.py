"""policy_gradient against hand computations, finite sums over actions, and autograd."""

from __future__ import annotations

import math

import pytest
import torch

from pact_losses import MASKED_LOGIT, BatchError, NonFiniteError, policy_gradient

SCORES = torch.tensor([[1.0, 4.0, -2.0], [0.5, 0.5, 0.5]], dtype=torch.float64)


def _logits() -> torch.Tensor:
    values = torch.tensor([[0.3, -1.2, 2.0], [1.0, 0.0, -1.0]], dtype=torch.float64)
    return values.requires_grad_()


def test_loss_against_a_hand_computation() -> None:
    logits = torch.tensor([[math.log(1.0), math.log(3.0)]], dtype=torch.float64)
    result = policy_gradient(logits, torch.tensor([[2.0, 6.0]]), torch.tensor([0]))
    # p = (1/4, 3/4); the baseline is 4, so the advantage of the first is -2.
    entropy = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    assert result.advantage.tolist() == [-2.0]
    assert result.entropy.item() == pytest.approx(entropy)
    assert result.loss.item() == pytest.approx(2 * math.log(0.25) - 0.01 * entropy)


def test_expected_gradient_against_autograd_of_the_expected_score() -> None:
    # Summed over actions with their probabilities, REINFORCE is the gradient of -E[r] - beta H.
    logits = _logits()
    p = torch.softmax(logits, -1)
    objective = -(p * SCORES).sum() + 0.05 * (p * p.log()).sum()
    (expected,) = torch.autograd.grad(objective, logits)
    summed = torch.zeros_like(logits)
    for action in range(3):
        again = _logits()
        sampled = torch.full((2,), action)
        result = policy_gradient(again, SCORES, sampled, entropy_weight=0.05)
        weights = torch.softmax(again.detach(), -1)[:, action]
        (gradient,) = torch.autograd.grad((weights * result.loss).sum(), again)
        summed += gradient
    torch.testing.assert_close(summed, expected)


def test_gradient_against_finite_differences() -> None:
    def total(logits: torch.Tensor) -> torch.Tensor:
        return policy_gradient(logits, SCORES, torch.tensor([2, 0]), entropy_weight=0.3).loss

    assert torch.autograd.gradcheck(total, (_logits(),))


@pytest.mark.parametrize("empty", [MASKED_LOGIT, -math.inf])
def test_unused_slots_change_neither_value_nor_gradient(empty: float) -> None:
    narrow = _logits()
    wide = torch.cat([narrow.detach(), torch.full((2, 2), empty)], -1).requires_grad_()
    padded = torch.cat([SCORES, torch.full((2, 2), math.nan)], -1)
    sampled = torch.tensor([1, 2])
    one, other = policy_gradient(narrow, SCORES, sampled), policy_gradient(wide, padded, sampled)
    torch.testing.assert_close(one.loss, other.loss)
    one.loss.sum().backward()  # type: ignore[no-untyped-call]
    other.loss.sum().backward()  # type: ignore[no-untyped-call]
    assert narrow.grad is not None
    assert wide.grad is not None
    torch.testing.assert_close(wide.grad[:, :3], narrow.grad)
    assert not wide.grad[:, 3:].any()


def test_equal_scores_leave_the_entropy_alone() -> None:
    result = policy_gradient(_logits(), SCORES, torch.tensor([0, 1]), entropy_weight=0.0)
    assert result.loss[1].item() == 0.0


def test_extreme_logits_have_finite_values_and_gradients() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    policy_gradient(logits, SCORES[:1], torch.tensor([1])).loss.sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_refusals_name_the_row() -> None:
    masked = torch.tensor([[0.0, 1.0], [0.0, MASKED_LOGIT]])
    with pytest.raises(BatchError, match="row 1: the sampled index 1 is not a candidate"):
        policy_gradient(masked, torch.zeros(2, 2), torch.tensor([0, 1]))
    with pytest.raises(NonFiniteError, match="row 0: the score of candidate 1 is nan"):
        policy_gradient(masked, torch.tensor([[0.0, math.nan], [0.0, 0.0]]), torch.tensor([0, 0]))
    with pytest.raises(BatchError, match="shape"):
        policy_gradient(masked, torch.zeros(2, 3), torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="entropy_weight"):
        policy_gradient(masked, torch.zeros(2, 2), torch.tensor([0, 0]), entropy_weight=-1.0)
