"""Train with PACT in a plain PyTorch loop, or with accelerate.

    python examples/train_pytorch.py --steps 8 --learning-rate 1e-3

`pact_step` counts the units of all batches of a step first: two batches of two pairs equal one
batch of four. With accelerate, pass model and optimiser to `accelerator.prepare`, and
`accelerator.backward` to `pact_step`.
"""

from __future__ import annotations

import torch
from common import Options, Task, shown

from pact_losses import PACT_SETTINGS, BestCheckpoint, pact_step, pact_steps, selection_score


def train(task: Task) -> list[float]:
    """Train, save the best checkpoint, and return the loss of every step."""
    n_steps, losses, best = task.options.steps, [], BestCheckpoint()
    select_every = PACT_SETTINGS.select_every(n_steps)
    for step in pact_steps(task.data, n_steps, **task.batching):
        losses.append(pact_step(task.model, step, task.loss).loss)
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), PACT_SETTINGS.max_gradient_norm)
        task.optimizer.step()
        task.schedule.step()
        if (step.number + 1) % select_every == 0:
            score = selection_score(task.model, task.data.selection_batches())
            best.offer(task.model, step.number + 1, score.nll, score.answer_mass)
    best.restore(task.model)
    task.data.save(task.model, task.options.out, task.facts | {"selected_step": best.step})
    shown(best.nll)
    return losses


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
