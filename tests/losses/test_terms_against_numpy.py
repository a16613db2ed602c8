"""Every term against the paper's equations in numpy, and JSD against scipy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from losses import losses_oracle as oracle
from scipy.spatial.distance import jensenshannon

from pact_eval.metrics import rps
from pact_losses import (
    MASKED_LOGIT,
    ablated_gap,
    counterfactual_margin_loss,
    cross_entropy,
    jensen_shannon,
    necessity_loss,
    ordinal_transport_loss,
    pair_margin,
    to_canonical,
)

RNG = np.random.default_rng(5)
SIZES = [2, 3, 6, 26]


def rows(n: int, count: int = 40, scale: float = 3.0) -> tuple[list[oracle.Row], torch.Tensor]:
    values = scale * RNG.standard_normal((count, n))
    return list(values), torch.tensor(values)


def two_answers(n: int, count: int = 40) -> torch.Tensor:
    return torch.tensor(np.array([RNG.permutation(n)[:2] for _ in range(count)]))


@pytest.mark.parametrize("n", SIZES)
def test_cross_entropy_against_numpy(n: int) -> None:
    z, tensor = rows(n)
    y = two_answers(n)[:, 0]
    expected = [oracle.ce(row, int(k)) for row, k in zip(z, y, strict=True)]
    np.testing.assert_allclose(cross_entropy(tensor, y), expected, rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [0.0, 2.0, 3.5])
def test_margin_and_its_loss_against_numpy(n: int, m: float) -> None:
    za, ta = rows(n)
    zb, tb = rows(n)
    y = two_answers(n)
    expected = [
        oracle.did(a, b, int(k), int(j)) for a, b, (k, j) in zip(za, zb, y.tolist(), strict=True)
    ]
    d = pair_margin(ta, tb, y[:, 0], y[:, 1])
    np.testing.assert_allclose(d, expected, rtol=1e-12, atol=1e-12)
    loss = counterfactual_margin_loss(d, m)
    np.testing.assert_allclose(loss, [oracle.cf(margin, m) for margin in expected], rtol=1e-8)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0])
def test_jensen_shannon_against_numpy_and_scipy(n: int, scale: float) -> None:
    z, one = rows(n, scale=scale)
    z2, other = rows(n, scale=scale)
    ours = jensen_shannon(one, other)
    expected = [oracle.jsd(a, b) for a, b in zip(z, z2, strict=True)]
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-15)
    distance = jensenshannon(one.softmax(-1).numpy(), other.softmax(-1).numpy(), axis=-1)
    np.testing.assert_allclose(ours, distance**2, rtol=1e-9, atol=1e-15)


def test_jensen_shannon_of_nearly_equal_distributions_against_theory() -> None:
    """JSD is 1/8 the variance of log q - log p at leading order; 0 digits are lost in float32."""
    step = 1e-3
    one = torch.zeros(1, 2)
    other = torch.tensor([[step, -step]])
    assert jensen_shannon(one, other).item() == pytest.approx(step**2 / 8, rel=1e-2)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("eps", [0.0, 1.5])
def test_gap_and_its_loss_against_numpy(n: int, eps: float) -> None:
    z, tensor = rows(n)
    y = two_answers(n)
    expected = [oracle.gap(row, a, b) for row, (a, b) in zip(z, y.tolist(), strict=True)]
    value = ablated_gap(tensor, y[:, 0], y[:, 1])
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    loss = necessity_loss(value, eps)
    np.testing.assert_allclose(loss, [oracle.nr(gap, eps) for gap in expected], rtol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_ordinal_transport_against_numpy(n: int) -> None:
    z, tensor = rows(n)
    y = two_answers(n)[:, 0]
    expected = [oracle.emd(row, int(k)) for row, k in zip(z, y, strict=True)]
    np.testing.assert_allclose(ordinal_transport_loss(tensor, y), expected, rtol=1e-10, atol=1e-15)


def test_ordinal_transport_is_the_ranked_probability_score() -> None:
    z = torch.from_numpy(np.random.default_rng(5).standard_normal((40, 5)))
    y = torch.arange(40) % 5
    np.testing.assert_allclose(
        ordinal_transport_loss(z, y), rps(z.log_softmax(-1).numpy(), y.numpy()), rtol=1e-10
    )


def test_ordinal_transport_near_the_reference_keeps_its_digits() -> None:
    """All but 1e-6 of the mass is on level 1 of 3; the rest is shared by its neighbours."""
    p = torch.tensor([[5e-7, 1 - 1e-6, 5e-7]], dtype=torch.float64)
    value = ordinal_transport_loss(p.log().float(), torch.tensor([1])).item()
    assert value == pytest.approx(2 * (5e-7) ** 2, rel=1e-4, abs=0)


def test_to_canonical_against_a_loop() -> None:
    orders = [RNG.permutation(4).tolist() for _ in range(20)]
    shown = RNG.standard_normal((20, 4))
    expected = np.zeros((20, 4))
    for row, order in enumerate(orders):
        for position, answer in enumerate(order):
            expected[row, answer] = shown[row, position]
    canonical = to_canonical(torch.tensor(shown), torch.tensor(orders))
    np.testing.assert_array_equal(canonical, expected)


def test_to_canonical_fills_unused_slots() -> None:
    order = torch.tensor([[1, 0, -1], [2, 0, 1]])
    canonical = to_canonical(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), order)
    assert canonical.tolist() == [[2.0, 1.0, torch.tensor(MASKED_LOGIT).item()], [5.0, 6.0, 4.0]]


TERMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ce": lambda z: cross_entropy(z, torch.zeros(z.shape[:-1], dtype=torch.long)),
    "d": lambda z: pair_margin(
        z,
        z.flip(-1),
        torch.zeros(z.shape[:-1], dtype=torch.long),
        torch.ones(z.shape[:-1], dtype=torch.long),
    ),
    "jsd": lambda z: jensen_shannon(z, z.flip(-1)),
    "gap": lambda z: ablated_gap(
        z,
        torch.zeros(z.shape[:-1], dtype=torch.long),
        torch.ones(z.shape[:-1], dtype=torch.long),
    ),
    "emd": lambda z: ordinal_transport_loss(z, torch.ones(z.shape[:-1], dtype=torch.long)),
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_take_any_leading_shape_and_upcast_half_precision(name: str) -> None:
    """The value is that of the same numbers in float32, and not that of half-precision sums."""
    term, z = TERMS[name], torch.tensor(RNG.standard_normal((2, 3, 4)))
    assert term(z).shape == (2, 3)
    assert term(z).dtype == torch.float64
    torch.testing.assert_close(term(z).flatten(), term(z.reshape(6, 4)))
    torch.testing.assert_close(term(z[0, 0]), term(z)[0, 0])
    for dtype in (torch.bfloat16, torch.float16):
        half = z.to(dtype)
        assert term(half).dtype == torch.float32
        torch.testing.assert_close(term(half), term(half.float()), rtol=0, atol=0)


def test_losses_of_margins_default_to_two_nats_and_are_upcast() -> None:
    value = torch.tensor([300.0], dtype=torch.float16)
    two_nats = torch.tensor([2.0], dtype=torch.float64)
    assert counterfactual_margin_loss(two_nats).item() == pytest.approx(np.log(2), rel=1e-12)
    assert necessity_loss(value).tolist() == [90000.0]  # beyond the range of float16
    assert counterfactual_margin_loss(-value - 2000).tolist() == [2302.0]  # float16: in steps of 2
    assert counterfactual_margin_loss(value).dtype == torch.float32
    assert counterfactual_margin_loss(value.double()).dtype == torch.float64
    assert to_canonical(value[None], torch.tensor([[0]])).dtype == torch.float32
