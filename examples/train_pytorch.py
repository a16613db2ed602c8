"""Train with PACT in a plain PyTorch loop.

    python examples/train_pytorch.py --steps 8 --learning-rate 1e-3

Without `totals`, every batch would have its own mean, which is exact only if all batches of a step
have the same numbers of units. With `totals`, two batches of two pairs equal one batch of four.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from common import Options, StepLoader, Task

from pact_losses import (
    PACT_SETTINGS,
    BestCheckpoint,
    PactBatch,
    candidate_logits,
    selection_nll,
    unit_totals,
)


def steps(task: Task) -> Iterator[list[PactBatch]]:
    """Yield the batches of every optimiser step, epoch after epoch."""
    loader = StepLoader(task)
    for epoch in count():
        task.sampler.set_epoch(epoch)
        yield from loader


def train(task: Task) -> list[float]:
    """Train, restore the best checkpoint, and return the loss of every step."""
    n_steps = task.options.steps
    select_every = PACT_SETTINGS.select_every(n_steps)
    selection = task.selection_batches()
    losses: list[float] = []
    best = BestCheckpoint()
    for step, batches in zip(range(n_steps), steps(task), strict=False):
        totals = unit_totals(batches)
        loss = 0.0
        for batch in batches:
            logits = candidate_logits(task.model, batch)
            out = task.loss(logits, batch, progress=(step + 1) / n_steps, totals=totals)
            out.total.backward()
            loss += float(out.total.detach())
        torch.nn.utils.clip_grad_norm_(task.weights, PACT_SETTINGS.max_gradient_norm)
        task.optimizer.step()
        task.schedule.step()
        task.optimizer.zero_grad()
        losses.append(loss)
        if (step + 1) % select_every == 0:
            best.offer(task.model, step + 1, selection_nll(task.model, selection))
    best.restore(task.model)
    print(f"best step {best.step}, selection NLL {best.nll:.4f} nats")  # noqa: T201
    return losses


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
    task.save()
