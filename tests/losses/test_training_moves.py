"""What PACT is for, on the tiny model: the pair margin rises, the ablated gap falls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from losses.tiny import tiny_base, views_of_train

from pact_losses import (
    PACT_SETTINGS,
    PactCollator,
    PactLoss,
    candidate_logits,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)

pytestmark = pytest.mark.slow

# Two families that the base model cannot tell apart: d is below 0, and without its evidence the
# base record is still decided by about a nat.
FAMILIES = ("commerce-01-001", "commerce-04-002")
STEPS = 24


def test_the_margin_rises_through_m_and_the_ablated_gap_falls() -> None:
    from peft import get_peft_model

    torch.manual_seed(17)
    model: Any = get_peft_model(tiny_base(), lora_config(dropout=0.0)).train()
    batch = PactCollator(0)([view for view in views_of_train(7) if view.family in FAMILIES])
    loss_fn, lines = PactLoss(), []
    optimizer = lora_plus_optimizer(model, learning_rate=6e-4)
    schedule = learning_rate_schedule(optimizer, n_steps=STEPS)
    for step in range(STEPS):
        out = loss_fn(candidate_logits(model, batch), batch, progress=(step + 1) / STEPS)
        out.total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), PACT_SETTINGS.max_gradient_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        measured = {**out.terms, **out.diagnostics}
        lines.append({name: float(value) for name, value in measured.items()})
    first, last = lines[0], lines[-1]
    assert first["pair_margin"] < 0
    assert last["pair_margin"] > PACT_SETTINGS.margin
    assert (first["pairs_beyond_margin"], last["pairs_beyond_margin"]) == (0.0, 1.0)
    assert first["ablated_gap"] > 0.5
    assert last["ablated_gap"] < first["ablated_gap"] / 2
    assert last["nr"] < first["nr"] / 4
    assert last["ce"] < first["ce"]
