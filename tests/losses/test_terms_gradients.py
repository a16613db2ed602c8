"""Gradients against finite differences, and finite where values saturate or slots are unused."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch

from pact_losses import (
    ablated_gap,
    answer_mass_loss,
    counterfactual_margin_loss,
    cross_entropy,
    jensen_shannon,
    necessity_loss,
    ordinal_transport_loss,
    pair_margin,
    to_canonical,
)

GENERATOR = torch.Generator().manual_seed(5)
ROWS = 3**6
FIRST, LAST = torch.arange(ROWS) % 3, (torch.arange(ROWS) + 2) % 3

# Of two tensors (rows, 3) of canonical logits, one value a row.
TERMS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "ce": lambda z, _: cross_entropy(z, FIRST[: len(z)]),
    "d": lambda z, z2: pair_margin(z, z2, FIRST[: len(z)], LAST[: len(z)]),
    "cf": lambda z, z2: counterfactual_margin_loss(
        pair_margin(z, z2, FIRST[: len(z)], LAST[: len(z)])
    ),
    "pc": jensen_shannon,
    "gap": lambda z, _: ablated_gap(z, FIRST[: len(z)], LAST[: len(z)]),
    "nr": lambda z, _: necessity_loss(ablated_gap(z, FIRST[: len(z)], LAST[: len(z)]), 0.25),
    "emd": lambda z, _: ordinal_transport_loss(z, FIRST[: len(z)]),
    "am": lambda z, z2: answer_mass_loss(z, z2.logsumexp(-1)),  # z2: all tokens but the letters
}


def logits(scale: float = 2.0) -> torch.Tensor:
    return scale * torch.randn(3, 3, dtype=torch.float64, generator=GENERATOR)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("scale", [0.1, 2.0])
def test_gradient_against_finite_differences(name: str, scale: float) -> None:
    z, z2 = logits(scale).requires_grad_(), logits(scale).requires_grad_()
    assert torch.autograd.gradcheck(TERMS[name], (z, z2))


@pytest.mark.parametrize("name", TERMS)
def test_gradient_through_the_scatter_against_finite_differences(name: str) -> None:
    order = torch.tensor([[1, 2, 0, -1], [0, 2, 1, -1], [2, 1, 0, -1]])

    def term(code: torch.Tensor, code2: torch.Tensor) -> torch.Tensor:
        return TERMS[name](to_canonical(code, order), to_canonical(code2, order.flip(0)))

    shown = [torch.nn.functional.pad(logits(), (0, 1)).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradcheck(term, tuple(shown))


def test_gradient_of_jensen_shannon_vanishes_at_equal_distributions() -> None:
    for dtype in (torch.float32, torch.float64):
        z, z2 = logits().to(dtype).requires_grad_(), logits().to(dtype).requires_grad_()
        z2.data.copy_(z.data)
        grads = torch.autograd.grad(jensen_shannon(z, z2).sum(), (z, z2))
        for grad in grads:
            torch.testing.assert_close(grad, torch.zeros_like(grad), rtol=0, atol=1e-7)


def test_gradient_of_jensen_shannon_close_to_equal_distributions_against_theory() -> None:
    """Two answers, logits (0, 0) and (s, 0): JSD = s^2 / 32 at leading order, its slope s / 16."""
    s = 1e-3
    z2 = torch.tensor([s, 0.0], requires_grad=True)
    (grad,) = torch.autograd.grad(jensen_shannon(torch.zeros(2), z2), z2)
    assert grad.tolist() == pytest.approx([s / 16, -s / 16], rel=1e-2)


def test_gradient_of_jensen_shannon_is_bounded() -> None:
    """No slot of it exceeds log 2 + 1, however confident and however wrong a view is."""
    for size in (1.0, 10.0, 50.0, 100.0, 1e3, 1e4):
        z = torch.tensor([size, -size], requires_grad=True)
        (grad,) = torch.autograd.grad(jensen_shannon(z, torch.tensor([-size, size])), z)
        assert grad.isfinite().all()
        assert grad.abs().max() <= 1 + math.log(2)


def test_gradient_of_the_answer_mass_against_its_formula() -> None:
    """-(1 - m) p_j of a letter, (1 - m) q_v of another token; they add up to 0."""
    letters, others = logits().requires_grad_(), logits().requires_grad_()
    loss = answer_mass_loss(letters, others.logsumexp(-1))
    of_letters, of_others = torch.autograd.grad(loss.sum(), (letters, others))
    outside = 1 - torch.cat((letters, others), -1).softmax(-1)[:, :3].sum(-1, keepdim=True)
    torch.testing.assert_close(of_letters, -outside * letters.softmax(-1))
    torch.testing.assert_close(of_others, outside * others.softmax(-1))
    torch.testing.assert_close(of_letters.sum(-1), -of_others.sum(-1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", TERMS)
def test_saturated_logits_have_finite_values_and_gradients(name: str, dtype: torch.dtype) -> None:
    """All 27 x 27 pairs of rows of -1e4, 0 and 1e4: every probability underflows somewhere."""
    corners = torch.tensor(list(itertools.product((-1e4, 0.0, 1e4), repeat=6)), dtype=dtype)
    one, other = corners[:, :3].clone().requires_grad_(), corners[:, 3:].clone().requires_grad_()
    assert len(one) == ROWS
    value = TERMS[name](one, other)
    assert value.isfinite().all()
    grads = torch.autograd.grad(value.sum(), (one, other), allow_unused=True)
    assert all(grad.isfinite().all() for grad in grads if grad is not None)


@pytest.mark.parametrize("garbage", [0.0, 1e4, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("offset", [0.0, -1e4, 1e4])
@pytest.mark.parametrize("name", TERMS)
def test_unused_slots_reach_neither_value_nor_gradient(
    name: str, garbage: float, offset: float
) -> None:
    z, z2 = logits().float() + offset, logits().float() + offset
    order = torch.tensor([[1, 2, 0], [0, 2, 1], [2, 1, 0]])
    alone = (z.clone().requires_grad_(), z2.clone().requires_grad_())
    masked = tuple(
        torch.nn.functional.pad(logit_rows, (0, 2), value=garbage).requires_grad_()
        for logit_rows in (z, z2)
    )
    wide = torch.nn.functional.pad(order, (0, 2), value=-1)
    expected = TERMS[name](*(to_canonical(logit_rows, order) for logit_rows in alone))
    value = TERMS[name](*(to_canonical(logit_rows, wide) for logit_rows in masked))
    torch.testing.assert_close(value, expected)
    expected_gradients = torch.autograd.grad(expected.sum(), alone, allow_unused=True)
    got = torch.autograd.grad(value.sum(), masked, allow_unused=True)
    for grad, padded in zip(expected_gradients, got, strict=True):
        assert (grad is None) == (padded is None)
        if grad is not None and padded is not None:
            torch.testing.assert_close(padded[:, :3], grad)
            assert (padded[:, 3:] == 0).all()


@pytest.mark.parametrize("name", TERMS)
def test_masks_of_minus_infinity_are_taken_as_well(name: str) -> None:
    """Canonical logits of another origin, masked as the paper writes it."""
    z, z2 = logits(), logits()
    padded = [
        torch.nn.functional.pad(logit_rows, (0, 2), value=-math.inf).requires_grad_()
        for logit_rows in (z, z2)
    ]
    value = TERMS[name](*padded)
    torch.testing.assert_close(value, TERMS[name](z, z2))
    for grad in torch.autograd.grad(value.sum(), padded, allow_unused=True):
        assert grad is None or (grad.isfinite().all() and (grad[:, 3:] == 0).all())


def test_an_nan_in_a_used_slot_stays_loud() -> None:
    z = torch.tensor([[math.nan, 0.0, 0.0]])
    for value in (
        cross_entropy(z, FIRST[:1]),
        jensen_shannon(z, torch.zeros(1, 3)),
        ordinal_transport_loss(z, FIRST[:1]),
        necessity_loss(ablated_gap(z, FIRST[:1], LAST[:1])),
        answer_mass_loss(z, torch.zeros(1)),
        counterfactual_margin_loss(pair_margin(z, z, FIRST[:1], LAST[:1])),
    ):
        assert value.isnan().all()
