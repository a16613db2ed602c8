from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from losses.made_views import family
from losses.tiny import short_views, tiny_base, with_lora
from scipy.special import log_softmax
from tolerances import NLL
from torch import Tensor, nn

from pact_eval.evaluation.notes import VERY_LOW_ANSWER_MASS
from pact_losses import (
    AnswerLogits,
    BatchError,
    BestCheckpoint,
    NonFiniteError,
    PactBatch,
    PactCollator,
    PactLossError,
    candidate_logits,
    selection_nll,
    selection_score,
)


def test_against_scipy_whatever_the_batches() -> None:
    model = with_lora(tiny_base())
    views = [view for view in short_views(3) if view.role == "primary"]
    collate = PactCollator(0, require_pairs=False)
    whole = collate(views)
    with torch.no_grad():
        logits = candidate_logits(model, whole).double().numpy()
    expected = -np.mean(
        [
            log_softmax(row[: view.n_choices])[view.code_order.index(view.reference)]
            for row, view in zip(logits, views, strict=True)
            if view.reference is not None
        ]
    )
    assert selection_nll(model, [whole]) == pytest.approx(expected, abs=NLL)
    cut = [collate(views[:1]), collate(views[1:4]), collate(views[4:])]
    assert selection_nll(model, iter(cut)) == pytest.approx(expected, abs=NLL)


def test_permuted_and_ablated_views_do_not_count() -> None:
    views = family("a", n_choices=3)
    batch = PactCollator(0)(views)
    logits = torch.zeros(5, 3)
    logits[2:] = torch.tensor([50.0, -50.0, 0.0])
    assert _nll_of(logits, batch) == pytest.approx(math.log(3))


def test_weights_count_and_unused_slots_do_not() -> None:
    views = [
        replace(view, weight=weight) for view, weight in zip(family("a"), (1, 3), strict=False)
    ]
    batch = PactCollator(0, n_codes=3)(views)
    logits = torch.tensor([[0.0, 0.0, 99.0], [-1.0, 1.0, math.nan]])
    expected = (math.log(2) + 3 * math.log1p(math.exp(-2))) / 4
    assert _nll_of(logits, batch) == pytest.approx(expected)


def test_every_module_is_left_in_the_mode_that_it_was_in() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    model.train()
    model[1].eval()
    seen: list[bool] = []

    def logits(module: nn.Module, batch: PactBatch) -> Tensor:
        seen.append(any(part.training for part in module.modules()) or torch.is_grad_enabled())
        return torch.zeros(len(batch), 2)

    selection_nll(model, [PactBatch.of([[0, 1]], [0])], code_logits=logits)
    assert seen == [False]
    assert [module.training for module in model.modules()] == [True, True, False, False]
    with pytest.raises(ZeroDivisionError):
        selection_nll(model, [PactBatch.of([[0, 1]], [0])], code_logits=lambda *_: 1 / 0)  # type: ignore[arg-type]
    assert model.training
    assert torch.is_grad_enabled()


def test_nothing_to_select_by_is_refused() -> None:
    with pytest.raises(BatchError, match="expected labelled primary views"):
        selection_nll(nn.Identity(), [])
    with pytest.raises(BatchError, match="expected labelled primary views"):
        _nll_of(torch.zeros(1, 2), PactBatch.of([[0, 1]], [None], ablations=[[0, 0, 1]]))


@pytest.mark.parametrize("logit", [math.nan, math.inf])
def test_a_logit_that_is_no_number_is_named(logit: float) -> None:
    batch = PactBatch.of([[0, 1], [0, 1]], [0, 1], record_ids=("good", "bad"))
    with pytest.raises(NonFiniteError, match=r"record bad \(row 1\): its NLL is"):
        _nll_of(torch.tensor([[0.0, 0.0], [logit, 0.0]]), batch)


def test_the_lowest_is_kept_and_of_equal_ones_the_earlier() -> None:
    model, best = nn.Linear(2, 1), BestCheckpoint()
    offers = [(2, 0.9), (4, 0.5), (6, 0.5), (8, 0.7)]
    kept = []
    for step, nll in offers:
        nn.init.constant_(model.weight, step)
        kept.append(best.offer(model, step, nll))
    assert kept == [True, True, False, False]
    assert (best.step, best.nll) == (4, 0.5)
    assert best.history == offers
    best.restore(model)
    assert model.weight.tolist() == [[4.0, 4.0]]


def test_only_what_is_trained_is_kept_and_comes_back_exactly() -> None:
    model = with_lora(tiny_base())
    batch = PactCollator(0)(short_views(1))
    before = candidate_logits(model, batch).detach()
    best = BestCheckpoint()
    best.offer(model, 1, 0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    assert not torch.equal(candidate_logits(model, batch), before)
    best.restore(model)
    assert torch.equal(candidate_logits(model, batch), before)


def test_a_saver_is_called_for_every_new_best_instead() -> None:
    saved: list[int] = []
    best = BestCheckpoint(save=lambda _model, step: saved.append(step))
    model = nn.Linear(1, 1)
    for step, nll in ((1, 0.9), (2, 0.95), (3, 0.1)):
        best.offer(model, step, nll)
    assert saved == [1, 3]
    with pytest.raises(PactLossError, match="`save` was given"):
        best.restore(model)


def test_the_answer_mass_of_the_primary_views_against_hand_computation() -> None:
    """Two equal letters against 6 (25%) and 2 (50%) other tokens, with weights 1 and 3."""
    views = [
        replace(view, weight=weight) for view, weight in zip(family("a"), (1, 3), strict=False)
    ]
    batch = PactCollator(0, n_codes=3)(views)
    read = AnswerLogits(torch.zeros(2, 3), torch.tensor([math.log(6.0), math.log(2.0)]))
    score = selection_score(nn.Identity(), [batch], code_logits=lambda *_: read)
    assert score.nll == pytest.approx(math.log(2))
    assert score.answer_mass == pytest.approx((0.25 + 3 * 0.5) / 4)
    assert math.isnan(
        selection_score(nn.Identity(), [batch], code_logits=lambda *_: read.letters).answer_mass
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_checkpoint_with_too_little_answer_mass_loses_to_any_that_has_enough(seed: int) -> None:
    """Against the rule, written as a minimum over all: enough mass first, then the lowest NLL."""
    rng = np.random.default_rng(seed)
    nlls = rng.choice([0.1, 0.2, 0.3, 0.4], 6)
    masses = rng.choice([0.00008, 0.49, 0.5, 0.9, math.nan], 6, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    offers = [(step, *pair) for step, pair in enumerate(zip(nlls, masses, strict=True), 1)]
    model, best = nn.Linear(1, 1), BestCheckpoint()
    for at, (step, nll, mass) in enumerate(offers):
        if at == 3:  # a training that is continued
            state, best = best.state_dict(), BestCheckpoint()
            best.load_state_dict(state)
        best.offer(model, step, nll, mass)
    expected = min(offers, key=lambda offer: (offer[2] < 0.5, offer[1], offer[0]))
    assert (best.step, best.nll) == expected[:2]
    assert best.low_mass == [(step, mass) for step, _, mass in offers if mass < 0.5]
    assert best.has_low_mass == (expected[2] < 0.5)
    anything = BestCheckpoint(least_answer_mass=0.0)
    for step, nll, mass in offers:
        anything.offer(model, step, nll, mass)
    assert anything.nll == min(nlls)
    assert anything.low_mass == []


def test_what_is_enough_is_what_reports_do_not_call_critical() -> None:
    assert BestCheckpoint().least_answer_mass == VERY_LOW_ANSWER_MASS
    with pytest.raises(PactLossError, match=r"least_answer_mass: expected 0 to 1, got 1.5"):
        BestCheckpoint(least_answer_mass=1.5)


@pytest.mark.parametrize("nll", [math.nan, math.inf])
def test_no_number_is_refused(nll: float) -> None:
    best = BestCheckpoint()
    with pytest.raises(NonFiniteError, match="step 146: expected a finite selection NLL, got"):
        best.offer(nn.Linear(1, 1), 146, nll)
    assert best.step is None


def test_misuse_is_refused() -> None:
    model, best = nn.Linear(1, 1), BestCheckpoint()
    with pytest.raises(PactLossError, match="no checkpoint was offered"):
        best.restore(model)
    best.offer(model, 2, 1.0)
    with pytest.raises(ValueError, match="expected a step after 2, got 2"):
        best.offer(model, 2, 0.5)
    with pytest.raises(PactLossError, match="4 trainable weights are not in both models: 0.bias"):
        best.restore(nn.Sequential(nn.Linear(1, 1)))


def _nll_of(logits: Tensor, batch: PactBatch) -> float:
    def stored(_model: Any, _batch: PactBatch) -> Tensor:
        return logits

    return selection_nll(nn.Identity(), [batch], code_logits=stored)
