"""The objective against the paper's equations in numpy: weighted means, weights, ramp."""

import numpy as np
import pytest
import torch
from losses import losses_oracle as oracle
from losses.losses_oracle import Case, expected_terms, family_case

from pact_losses import PactLoss, PactOutput, PactWeights, unit_totals

NAMES = ["ce", "cf", "pc", "nr", "emd"]


def measure(case: Case, loss_fn: PactLoss | None = None, progress: float = 1.0) -> PactOutput:
    return (loss_fn or PactLoss())(case.code_logits(), case.batch(), progress=progress)


def values(mapping: object) -> dict[str, float]:
    assert isinstance(mapping, dict)
    return {name: float(value) for name, value in mapping.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_terms_and_total_against_numpy(seed: int, weighted: bool) -> None:
    """Mixed C in one batch, Score and other fields, with and without weights of rows."""
    case = family_case((3, 2, 5, 4), seed=seed, weighted=weighted)
    expected = expected_terms(case)
    out = measure(case)
    assert list(out.terms) == NAMES
    assert values(out.terms) == pytest.approx(expected, rel=1e-7)
    total = (
        expected["ce"]
        + 0.5 * expected["cf"]
        + 0.5 * expected["pc"]
        + 0.2 * expected["nr"]
        + 0.3 * expected["emd"]
    )
    assert out.total.item() == pytest.approx(total, rel=1e-7)


def test_settings_against_numpy() -> None:
    case = family_case((3, 2, 4), seed=9)
    expected = expected_terms(case, m=3.5, eps=0.75)
    loss_fn = PactLoss(PactWeights(1.0, 2.0, 3.0, 4.0), margin=3.5, epsilon=0.75, ramp=0.5)
    out = measure(case, loss_fn, progress=0.125)
    assert values(out.terms) == pytest.approx(expected, rel=1e-7)
    factors = dict(zip(NAMES, (1.0, 0.25, 0.5, 0.75, 1.0), strict=True))
    total = sum(factor * expected[name] for name, factor in factors.items())
    assert out.total.item() == pytest.approx(total, rel=1e-7)


def test_diagnostics_against_numpy() -> None:
    case = family_case((3, 2, 5, 4), seed=1, weighted=True)
    z, w = case.canonical, case.weights()
    d, pair_weight = [], []
    for a, b in case.pairs:
        y_a, y_b = (oracle.known_reference(case, row) for row in (a, b))
        d.append(oracle.did(z[a], z[b], y_a, y_b))
        pair_weight.append((w[a] + w[b]) / 2)
    gaps = [oracle.gap(z[row], a, b) for row, a, b in case.ablations]
    margin = 0.25
    assert any(margin < value < 2.0 for value in d)  # the default must not do as well
    expected = {
        "pair_margin": oracle.mean(d, pair_weight),
        "pairs_beyond_margin": oracle.mean([float(value > margin) for value in d], pair_weight),
        "jsd": expected_terms(case)["pc"],
        "ablated_gap": oracle.mean(gaps, [w[row] for row, _, _ in case.ablations]),
        "ramp": 0.5,
    }
    assert 0 < expected["pairs_beyond_margin"] < 1
    out = measure(case, PactLoss(margin=margin), progress=0.05)
    assert values(out.diagnostics) == pytest.approx(expected, rel=1e-7)


def test_a_margin_of_exactly_m_is_not_beyond_it() -> None:
    case = Case(
        [np.array([2.0, 0.0]), np.array([1.0, 1.0])], [[0, 1]] * 2, [0, 1], [False] * 2, [(0, 1)]
    )
    out = measure(case)
    assert out.diagnostics["pair_margin"].item() == 2.0
    assert out.diagnostics["pairs_beyond_margin"].item() == 0.0


@pytest.mark.parametrize(
    ("ramp", "progress", "expected"),
    [
        (0.1, 0.0, 0.0),
        (0.1, 0.025, 0.25),
        (0.1, 0.1, 1.0),
        (0.1, 0.4, 1.0),
        (0.1, 1.0, 1.0),
        (1.0, 0.4, 0.4),
        (0.0, 0.0, 1.0),
        (0.0, 1.0, 1.0),
    ],
)
def test_ramp_by_hand(ramp: float, progress: float, expected: float) -> None:
    loss_fn = PactLoss(ramp=ramp)
    assert loss_fn.ramp_at(progress) == pytest.approx(expected)
    case = family_case((3, 4))
    out = measure(case, loss_fn, progress)
    assert out.diagnostics["ramp"].item() == pytest.approx(expected)
    terms = expected_terms(case)
    extra = 0.5 * terms["cf"] + 0.5 * terms["pc"] + 0.2 * terms["nr"] + 0.3 * terms["emd"]
    assert out.total.item() == pytest.approx(terms["ce"] + expected * extra, rel=1e-7)


def test_gradient_of_the_total_against_finite_differences() -> None:
    case = family_case((3, 2), seed=3, weighted=True, width=4)
    batch, loss_fn = case.batch(), PactLoss()
    logits = case.code_logits().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: loss_fn(z, batch, progress=0.07).total, (logits,))


def test_means_over_batches_from_the_weights_of_their_units() -> None:
    cases = [family_case((3, 2), seed=1, weighted=True), family_case((4,), seed=2, weighted=True)]
    both = joined(cases)
    outs = [measure(case) for case in cases]
    for name, expected in expected_terms(both).items():
        present = [out for out in outs if name in out.terms]
        top = sum(out.terms[name] * out.unit_weights[name] for out in present)
        bottom = sum(out.unit_weights[name] for out in present)
        assert float(top / bottom) == pytest.approx(expected, rel=1e-6)


def test_accumulation_with_totals_equals_one_batch() -> None:
    """Micro-batches of unequal families, and one without a Score field."""
    cases = [
        family_case((3, 2, 4), seed=1, weighted=True),
        family_case((5,), seed=2, weighted=True),
        family_case((2, 6), seed=3, weighted=True),
    ]
    loss_fn, both = PactLoss(), joined(cases)
    whole = both.code_logits().requires_grad_()
    expected = loss_fn(whole, both.batch(), progress=1.0).total
    (expected_gradient,) = torch.autograd.grad(expected, whole)
    totals = unit_totals(case.batch() for case in cases)
    assert totals == pytest.approx(unit_totals([both.batch()]), rel=1e-6)
    total, grads = 0.0, []
    for case in cases:
        logits = case.code_logits().requires_grad_()
        out = loss_fn(logits, case.batch(), progress=1.0, totals=totals)
        (grad,) = torch.autograd.grad(out.total, logits)
        grads.append(torch.nn.functional.pad(grad, (0, 6 - logits.shape[1])))
        total += out.total.item()
        assert values(out.terms) == pytest.approx(expected_terms(case), rel=1e-6)
    assert total == pytest.approx(expected.item(), rel=1e-6)
    torch.testing.assert_close(torch.cat(grads), expected_gradient, rtol=1e-5, atol=1e-8)


def test_unit_totals_by_hand() -> None:
    case = family_case((3, 2))
    assert unit_totals([case.batch()]) == {"ce": 8.0, "cf": 2.0, "pc": 4.0, "nr": 2.0, "emd": 4.0}
    assert values(measure(case).unit_weights) == unit_totals([case.batch()])
    assert unit_totals([]) == {}
    case.weight = [1.0, 3.0, 5.0, 7.0, 9.0] + [2.0] * 5
    expected = {"ce": 16.0 + 8, "cf": 2.0 + 2, "pc": 3.0 + 5 + 4, "nr": 9.0 + 2, "emd": 8.0}
    assert unit_totals([case.batch()]) == expected


def joined(cases: list[Case]) -> Case:
    both = Case([], [], [], [], weight=[])
    for case in cases:
        start = len(both.order)
        both.canonical += case.canonical
        both.order += case.order
        both.reference += case.reference
        both.is_score += case.is_score
        both.pairs += [(a + start, b + start) for a, b in case.pairs]
        both.views += [(a + start, b + start) for a, b in case.views]
        both.ablations += [(row + start, a, b) for row, a, b in case.ablations]
        both.weight = [*(both.weight or []), *case.weights()]
    return both
