"""What must not change the objective: codes, masks, order of rows, removed terms, precision."""

import math

import numpy as np
import pytest
import torch
from losses.losses_oracle import Case, family_case

from pact_losses import PactLoss, PactOutput, PactWeights

TERMS = ["cf", "pc", "nr", "emd"]


def measure(
    case: Case, loss_fn: PactLoss | None = None, *, fill: float = 0.0
) -> tuple[PactOutput, torch.Tensor]:
    """The output and the gradient of the total."""
    logits = case.code_logits(fill=fill).requires_grad_()
    out = (loss_fn or PactLoss())(logits, case.batch(), progress=1.0)
    (grad,) = torch.autograd.grad(out.total, logits)
    return out, grad


def assert_same(one: PactOutput, other: PactOutput) -> None:
    torch.testing.assert_close(one.total, other.total, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(one.terms, other.terms, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(one.diagnostics, other.diagnostics, rtol=1e-12, atol=1e-12)


def without(case: Case, name: str) -> Case:
    """The case without the units of a term."""
    table: dict[str, object] = {"cf": {"pairs": []}, "pc": {"views": []}, "nr": {"ablations": []}}
    changes = table.get(name, {"is_score": [False] * len(case.order)})
    assert isinstance(changes, dict)
    return Case(**{**vars(case), **changes})


def test_the_order_of_rows_does_not_matter() -> None:
    case = family_case((3, 2, 5), weighted=True)
    expected, expected_gradient = measure(case)
    place = np.random.default_rng(0).permutation(len(case.order)).tolist()
    new = {old: row for row, old in enumerate(place)}
    moved = Case(
        [case.canonical[row] for row in place],
        [case.order[row] for row in place],
        [case.reference[row] for row in place],
        [case.is_score[row] for row in place],
        [(new[a], new[b]) for a, b in case.pairs],
        [(new[b], new[a]) for a, b in case.views],
        [(new[row], a, b) for row, a, b in case.ablations],
        [case.weights()[row] for row in place],
    )
    moved_output, grad = measure(moved)
    assert_same(moved_output, expected)
    torch.testing.assert_close(grad, expected_gradient[place])


@pytest.mark.parametrize("name", TERMS)
def test_a_weight_of_0_equals_the_term_removed(name: str) -> None:
    case = family_case((3, 2, 5), weighted=True)
    out, grad = measure(case, PactLoss(PactWeights(**{name: 0.0})))
    removed, expected_gradient = measure(without(case, name))
    assert out.total.item() == pytest.approx(removed.total.item(), rel=1e-12)
    torch.testing.assert_close(grad, expected_gradient)
    assert name not in removed.terms
    # It is measured all the same: an ablation run logs what it does not train.
    full, _ = measure(case)
    torch.testing.assert_close(out.terms, full.terms)
    torch.testing.assert_close(out.diagnostics, full.diagnostics)


def test_weights_of_0_equal_cross_entropy_alone() -> None:
    case = family_case((3, 2, 5))
    out, grad = measure(case, PactLoss(PactWeights(0.0, 0.0, 0.0, 0.0)))
    logits = torch.cat(
        [
            torch.nn.functional.pad(z[None], (0, 5 - z.shape[0]), value=-math.inf)
            for z in map(torch.tensor, case.canonical)
        ]
    )
    y = torch.tensor([-1 if k is None else k for k in case.reference])
    expected = torch.nn.functional.cross_entropy(logits, y, ignore_index=-1)
    assert out.total.item() == pytest.approx(expected.item(), rel=1e-12)
    assert (grad[y == -1] == 0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_term_of_weight_0_passes_no_non_finiteness_on(bad: float) -> None:
    """The ablated rows take part in necessity alone; without it they may hold anything."""
    case = family_case((3, 2))
    expected, expected_gradient = measure(case, PactLoss(PactWeights(nr=0.0)))
    for row, _, _ in case.ablations:
        case.canonical[row][:] = bad
    spoilt, grad = measure(case, PactLoss(PactWeights(nr=0.0)))
    torch.testing.assert_close(spoilt.total, expected.total)
    torch.testing.assert_close(grad, expected_gradient)
    assert not spoilt.terms["nr"].isfinite()


def test_at_the_start_of_the_ramp_only_cross_entropy_counts() -> None:
    case = family_case((3, 2))
    for row, _, _ in case.ablations:
        case.canonical[row][:] = math.nan
    logits = case.code_logits().requires_grad_()
    out = PactLoss()(logits, case.batch(), progress=0.0)
    (grad,) = torch.autograd.grad(out.total, logits)
    torch.testing.assert_close(out.total.detach(), out.terms["ce"])
    assert grad.isfinite().all()


def test_terms_without_units_are_absent() -> None:
    case = family_case((3,))
    only_ce = Case(case.canonical, case.order, case.reference, case.is_score)
    out, _ = measure(only_ce)
    assert list(out.terms) == list(out.unit_weights) == ["ce"]
    assert list(out.diagnostics) == ["ramp"]
    torch.testing.assert_close(out.total.detach(), out.terms["ce"])


def test_transport_is_of_labelled_score_rows_alone() -> None:
    case = family_case((3, 4))
    assert case.is_score[-1]
    assert case.reference[-1] is None
    expected, _ = measure(case)
    case.is_score[-1] = False
    torch.testing.assert_close(measure(case)[0].terms["emd"], expected.terms["emd"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_upcast(dtype: torch.dtype) -> None:
    case = family_case((3, 2, 5))
    half = case.code_logits(dtype).requires_grad_()
    full = half.detach().float().requires_grad_()
    out, expected = (PactLoss()(z, case.batch(), progress=1.0) for z in (half, full))
    assert out.total.dtype == torch.float32
    assert out.total.item() == expected.total.item()
    (grad,) = torch.autograd.grad(out.total, half)
    (full_gradient,) = torch.autograd.grad(expected.total, full)
    assert grad.dtype == dtype
    torch.testing.assert_close(grad, full_gradient.to(dtype))


@pytest.mark.parametrize("size", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_equal_and_saturated_logits_are_finite(dtype: torch.dtype, size: float) -> None:
    case = family_case((3, 2, 5), width=7)
    case.canonical = [size * np.sign(z) for z in case.canonical]
    logits = case.code_logits(dtype).requires_grad_()
    out = PactLoss()(logits, case.batch(), progress=1.0)
    (grad,) = torch.autograd.grad(out.total, logits)
    assert out.total.isfinite()
    assert grad.isfinite().all()


def test_only_the_total_has_a_graph() -> None:
    case = family_case((3, 2))
    out, _ = measure(case)
    assert out.total.requires_grad
    for mapping in (out.terms, out.diagnostics, out.unit_weights):
        assert all(value.ndim == 0 and not value.requires_grad for value in mapping.values())


def test_it_measures_without_gradients_too() -> None:
    case = family_case((3, 2))
    with torch.no_grad():
        out = PactLoss()(case.code_logits(), case.batch(), progress=1.0)
    assert not out.total.requires_grad
