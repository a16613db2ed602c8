"""What the paper proves or claims of the terms, as properties."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pact_losses import (
    ablated_gap,
    answer_mass_loss,
    counterfactual_margin_loss,
    cross_entropy,
    jensen_shannon,
    necessity_loss,
    ordinal_transport_loss,
    pair_margin,
)

LOGIT = st.floats(-1e4, 1e4, width=32)
MILD = st.floats(-20, 20, width=32)


def vectors(count: int, elements: st.SearchStrategy[float] = LOGIT) -> st.SearchStrategy[Any]:
    """Draws `count` vectors of 2 to 6 logits, float64 tensors of shape (count, C)."""
    return st.integers(2, 6).flatmap(
        lambda n: hnp.arrays(np.float64, (count, n), elements=elements).map(torch.from_numpy)
    )


def at(*index: int) -> torch.Tensor:
    return torch.tensor(index)


@given(vectors(3, MILD))
def test_proposition_1_an_offset_of_both_members_leaves_d_unchanged(z: torch.Tensor) -> None:
    base, other, offset = z
    d = pair_margin(base, other, at(0)[0], at(1)[0])
    moved = pair_margin(base + offset, other + offset, at(0)[0], at(1)[0])
    torch.testing.assert_close(moved, d, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        counterfactual_margin_loss(moved), counterfactual_margin_loss(d), rtol=1e-9, atol=1e-9
    )


@given(vectors(2))
def test_proposition_1_both_right_implies_positive_d(z: torch.Tensor) -> None:
    base, other = z
    y_a, y_b = 0, z.shape[1] - 1
    right = bool(base[y_a] > base[y_b]) and bool(other[y_b] > other[y_a])
    d = pair_margin(base, other, torch.tensor(y_a), torch.tensor(y_b))
    assert not right or d > 0
    # Both wrong is the mirror image, so that the test does not hold for want of right pairs.
    mirrored = pair_margin(other, base, torch.tensor(y_a), torch.tensor(y_b))
    assert not right or mirrored < 0


@given(vectors(2))
def test_jensen_shannon_is_symmetric_and_bounded_by_log_2(z: torch.Tensor) -> None:
    for dtype in (torch.float64, torch.float32):
        one, other = z.to(dtype)
        value = jensen_shannon(one, other)
        assert 0.0 <= value.item() <= torch.tensor(math.log(2.0), dtype=dtype).item()
        assert jensen_shannon(other, one).item() == value.item()


@given(vectors(1), st.floats(-100, 100))
def test_jensen_shannon_of_equal_distributions_is_0(z: torch.Tensor, shift: float) -> None:
    assert jensen_shannon(z[0], z[0]).item() == 0.0
    assert jensen_shannon(z[0], z[0] + shift).item() == pytest.approx(0.0, abs=1e-12)


@given(vectors(2, MILD))
def test_jensen_shannon_of_other_distributions_is_above_0(z: torch.Tensor) -> None:
    p, q = z.softmax(-1)
    distance = (p - q).abs().sum().item() / 2
    # Pinsker's inequality for each half. The terms are rounded to 1e-16 each, so distributions
    # that are 1e-8 apart or less may have any JSD up to 1e-15.
    assert jensen_shannon(*z).item() >= distance**2 / 2 - 1e-15
    assert distance < 1e-6 or jensen_shannon(z[0], z[1]).item() > 0


def test_jensen_shannon_stays_in_its_bounds_under_rounding() -> None:
    """The masses of 26 answers need not add up to 1 in float32, nor logarithms cancel to 0."""
    generator = torch.Generator().manual_seed(5)
    one, other = torch.randn(2, 2000, 26, generator=generator)
    one[:, ::2] -= 300
    other[:, 1::2] -= 300
    assert (jensen_shannon(one, other) <= torch.tensor(math.log(2.0))).all()
    close = one + 1e-7 * other
    assert (jensen_shannon(one, close) >= 0).all()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_ordinal_transport_of_one_hot_is_its_distance_and_0_at_the_reference_alone(n: int) -> None:
    for y in range(n):
        sure = torch.full((n, n), -200.0, dtype=torch.float64).fill_diagonal_(200.0)
        values = ordinal_transport_loss(sure, torch.full((n,), y))
        distances = [float(abs(j - y)) for j in range(n)]
        np.testing.assert_allclose(values, distances, atol=1e-12)


@given(vectors(1, MILD), st.integers(0, 5))
def test_ordinal_transport_is_above_0_off_the_one_hot_reference(
    z: torch.Tensor, level: int
) -> None:
    y = level % z.shape[1]
    p = z[0].softmax(-1)
    missing = p[:y].sum() + p[y + 1 :].sum()
    # At least half of the missing mass lies on one side, and is counted beside the reference.
    value = ordinal_transport_loss(z[0], torch.tensor(y))
    assert value.item() >= (missing.item() / 2) ** 2 * (1 - 1e-6)
    assert value.item() <= (z.shape[1] - 1) * (1 + 1e-12)


@given(vectors(1, st.floats(-5, 5)), st.floats(0.05, 0.95))
def test_moving_mass_to_a_farther_level_costs_more(z: torch.Tensor, share: float) -> None:
    """Beyond the reference, a share of the mass of a level is moved one level outwards."""
    p = torch.nn.functional.pad(z[0], (0, 1)).softmax(-1)
    y = 0
    for j in range(1, len(p) - 1):
        farther = p.clone()
        farther[j], farther[j + 1] = p[j] * (1 - share), p[j + 1] + p[j] * share
        before, after = (ordinal_transport_loss(q.log(), torch.tensor(y)) for q in (p, farther))
        assert after > before


@given(vectors(1, MILD), st.floats(0, 3))
def test_necessity_is_silent_about_other_answers(z: torch.Tensor, eps: float) -> None:
    logits = z[0].clone().requires_grad_()
    n = len(logits)
    loss = necessity_loss(ablated_gap(logits, torch.tensor(0), torch.tensor(n - 1)), eps)
    (grad,) = torch.autograd.grad(loss, logits)
    assert (grad[1:-1] == 0).all()
    torch.testing.assert_close(grad[0], -grad[-1])
    if n > 2:
        other = z[0].clone()
        other[1:-1] += 7.0
        again = necessity_loss(ablated_gap(other, torch.tensor(0), torch.tensor(n - 1)), eps)
        assert again.item() == loss.item()


def test_necessity_costs_nothing_up_to_epsilon() -> None:
    gap = torch.tensor([0.0, 0.4, 0.5, 0.6], dtype=torch.float64, requires_grad=True)
    loss = necessity_loss(gap, 0.5)
    np.testing.assert_allclose(loss.detach(), [0, 0, 0, 0.01], atol=1e-15)
    (grad,) = torch.autograd.grad(loss.sum(), gap)
    np.testing.assert_allclose(grad, [0, 0, 0, 0.2], atol=1e-15)


@given(vectors(2, MILD), st.integers(0, 1))
def test_cross_entropy_and_answer_mass_are_cross_entropy_over_the_vocabulary(
    z: torch.Tensor, y: int
) -> None:
    letters, others = z
    reference = torch.tensor(y)
    both = cross_entropy(letters, reference) + answer_mass_loss(letters, others.logsumexp(-1))
    plain = torch.nn.functional.cross_entropy(torch.cat((letters, others)), reference)
    torch.testing.assert_close(both, plain, rtol=1e-9, atol=1e-9)


@given(vectors(2, MILD), st.floats(-50, 50))
def test_no_other_term_sees_that_all_letters_fall_together(z: torch.Tensor, c: float) -> None:
    one, other = z
    y, y2 = torch.tensor(0), torch.tensor(z.shape[1] - 1)

    def terms(fall: float) -> torch.Tensor:
        a, b = one - fall, other - fall
        margin = counterfactual_margin_loss(pair_margin(a, b, y, y2))
        gap = necessity_loss(ablated_gap(a, y, y2))
        transport = ordinal_transport_loss(a, y)
        return torch.stack((cross_entropy(a, y), margin, gap, jensen_shannon(a, b), transport))

    torch.testing.assert_close(terms(c), terms(0.0), rtol=1e-9, atol=1e-9)
    falling = answer_mass_loss(one - abs(c), torch.tensor(0.0, dtype=torch.float64))
    assert falling >= answer_mass_loss(one, torch.tensor(0.0, dtype=torch.float64))


def test_answer_mass_keeps_its_digits_at_both_ends() -> None:
    """-log m is e^(R - L) at leading order if m rounds to 1, and R - L if m rounds to 0."""
    letters = torch.tensor([[60.0, -1e4], [-1e4, -1e4 - 60]], dtype=torch.float64)
    loss = answer_mass_loss(letters, torch.zeros(2, dtype=torch.float64))
    assert loss.tolist() == pytest.approx([math.exp(-60), 1e4], rel=1e-12)
    single = answer_mass_loss(letters.float(), torch.zeros(2))
    assert single.tolist() == pytest.approx([math.exp(-60), 1e4], rel=1e-5)
