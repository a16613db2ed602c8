"""The released recipe: margins of all views, the ramp, and records without a pair."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from losses import losses_oracle as oracle
from losses.made_views import family, unpaired

from pact_losses import (
    PactBatch,
    PactCollator,
    PactLoss,
    PactWeights,
    TrainingView,
)


def made_families() -> list[TrainingView]:
    """Three families of 2, 3 and 5 answers with 1, 2 and 3 permuted views, in mixed order."""
    views = [
        *family("a", n_choices=2, permuted=1),
        *family("b", n_choices=3, permuted=2, references=(2, 0)),
        *family("c", n_choices=5, permuted=3, references=(1, 4), ablated=False),
    ]
    random.Random(5).shuffle(views)
    return views


def margin_gradients(
    views: list[TrainingView], logits: np.ndarray[Any, Any], m: float
) -> tuple[float, np.ndarray[Any, Any], int]:
    """L_CF and its gradient by letter, from the equations: every view with that of its number."""
    rows = {
        (view.family, view.variant, view.view): row
        for row, view in enumerate(views)
        if view.reference is not None
    }
    linked = [
        (row, rows[key, "counterfactual", number])
        for (key, variant, number), row in rows.items()
        if variant == "base"
    ]
    gradient, loss = np.zeros_like(logits), 0.0
    for one, other in linked:
        y_a, y_b = views[one].reference, views[other].reference
        assert y_a is not None
        assert y_b is not None
        signs = [
            (one, views[one].code_order.index(y_a), 1.0),
            (one, views[one].code_order.index(y_b), -1.0),
            (other, views[other].code_order.index(y_b), 1.0),
            (other, views[other].code_order.index(y_a), -1.0),
        ]
        d = sum(sign * logits[row, letter] for row, letter, sign in signs)
        loss += math.log1p(math.exp(m - d)) / len(linked)
        for row, letter, sign in signs:
            gradient[row, letter] -= sign / (1 + math.exp(d - m)) / len(linked)
    return loss, gradient, len(linked)


def margin_alone(logits: torch.Tensor, batch: PactBatch, m: float) -> torch.Tensor:
    """Gradient of the weighted margin: that of the total without the part of cross-entropy."""
    parts = []
    for cf in (1.0, 0.0):
        loss_fn = PactLoss(PactWeights(cf=cf, pc=0.0, nr=0.0, emd=0.0), margin=m)
        total = loss_fn(logits, batch, progress=1.0).total
        parts.append(torch.autograd.grad(total, logits)[0])
    return parts[0] - parts[1]


def test_gradients_of_the_margin_over_all_views_against_the_equations() -> None:
    views = made_families()
    batch = PactCollator(0, n_codes=7)(views)  # padded: 2, 3 and 5 of 7 columns are used
    values = np.random.default_rng(3).normal(scale=2.0, size=(len(views), 7))
    logits = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    loss, expected, linked = margin_gradients(views, values, 1.5)
    assert linked == 2 + 3 + 4 == len(batch.pairs)
    out = PactLoss(margin=1.5)(logits, batch, progress=1.0)
    assert float(out.terms["cf"]) == pytest.approx(loss, abs=1e-12)
    np.testing.assert_allclose(margin_alone(logits, batch, 1.5).numpy(), expected, atol=1e-12)


def test_the_margin_of_primary_views_does_not_reach_permuted_ones() -> None:
    views = made_families()
    torch.manual_seed(1)
    logits = torch.randn(len(views), 5, dtype=torch.float64, requires_grad=True)
    for pair_views, roles in (("primary", {"primary"}), ("all", {"primary", "permuted"})):
        batch = PactCollator(0, pair_views=pair_views)(views)  # type: ignore[arg-type]
        moved = (margin_alone(logits, batch, 2.0).abs() > 1e-12).any(-1).tolist()
        assert {view.role for view, moves in zip(views, moved, strict=True) if moves} == roles


def mixed_views() -> list[TrainingView]:
    """Nine rows of pairs and one unpaired row in ten."""
    return [
        *family("a", permuted=1, ablated=True),
        *family("b", permuted=0, n_choices=3, references=(2, 1), kind="score", ablated=False),
        *family("c", permuted=0, ablated=False),
        *unpaired("u"),
    ]


def test_the_loss_with_one_unpaired_row_in_ten_against_the_equations() -> None:
    views = mixed_views()
    batch = PactCollator(0)(views)
    assert len(views) == 10
    rng = np.random.default_rng(8)
    canonical = [rng.normal(size=view.n_choices) for view in views]
    shown = np.zeros((10, 3))
    for row, view in enumerate(views):
        shown[row, : view.n_choices] = canonical[row][list(view.code_order)]
    out = PactLoss()(torch.tensor(shown, dtype=torch.float64), batch, progress=1.0)
    labelled = [row for row, view in enumerate(views) if view.reference is not None]
    nll = {row: oracle.ce(canonical[row], views[row].reference or 0) for row in labelled}
    weight = {row: 0.3 if views[row].variant == "unpaired" else 1.0 for row in labelled}
    ce = sum(weight[row] * nll[row] for row in labelled) / sum(weight.values())
    margins = [
        oracle.did(canonical[a], canonical[b], views[a].reference or 0, views[b].reference or 0)
        for a, b in [(0, 1), (2, 3), (5, 6), (7, 8)]
    ]
    cf = np.mean([oracle.cf(d) for d in margins])
    pc = np.mean([oracle.jsd(canonical[0], canonical[2]), oracle.jsd(canonical[1], canonical[3])])
    nr = oracle.nr(oracle.gap(canonical[4], 0, 1))
    emd = np.mean([oracle.emd(canonical[5], 2), oracle.emd(canonical[6], 1)])
    total = ce + 0.5 * cf + 0.5 * pc + 0.2 * nr + 0.3 * emd
    assert float(out.total) == pytest.approx(float(total), rel=1e-7)
    assert float(out.terms["ce"]) == pytest.approx(ce, rel=1e-7)


def test_a_permuted_view_of_an_unpaired_row_counts_with_its_weight() -> None:
    """Consistency for unpaired rows is an option: the mean is weighted as every other mean."""
    views = [*family("a", ablated=False), *unpaired("u", permuted=1)]
    batch = PactCollator(0)(views)
    rng = np.random.default_rng(2)
    logits = torch.tensor(rng.normal(size=(6, 2)), dtype=torch.float64)
    out = PactLoss()(logits, batch, progress=1.0)
    canonical = [logits[row].numpy()[np.argsort(view.code_order)] for row, view in enumerate(views)]
    jsd = [oracle.jsd(canonical[a], canonical[b]) for a, b in [(0, 2), (1, 3), (4, 5)]]
    expected = (jsd[0] + jsd[1] + 0.3 * jsd[2]) / 2.3
    assert float(out.terms["pc"]) == pytest.approx(expected, rel=1e-6)
