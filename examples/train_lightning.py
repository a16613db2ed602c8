"""Train with PACT in PyTorch Lightning.

    pip install --constraint constraints.txt pytorch-lightning
    python examples/train_lightning.py --steps 8 --learning-rate 1e-3

Here, a training step of Lightning is one optimiser step and gets the list of its batches. The units
of all batches are counted before the first loss. This requires manual optimisation:
`accumulate_grad_batches` would divide by the number of batches, not by their units.
"""

from __future__ import annotations

from typing import Any

import torch
from common import Options, StepLoader, Task
from pytorch_lightning import LightningModule, Trainer

from pact_losses import PACT_SETTINGS, PactBatch, candidate_logits, selection_nll, unit_totals


class PactModule(LightningModule):
    """The model, its loss and its optimiser."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.task = task
        self.model = task.model
        self.losses: list[float] = []

    def configure_optimizers(self) -> Any:
        """LoRA+ and the schedule."""
        return {"optimizer": self.task.optimizer, "lr_scheduler": self.task.schedule}

    def on_train_epoch_start(self) -> None:
        """Use a different order in every epoch."""
        self.task.sampler.set_epoch(self.current_epoch)

    def training_step(self, batches: list[PactBatch], _index: int) -> None:
        """One optimiser step."""
        optimizer: Any = self.optimizers()
        schedule: Any = self.lr_schedulers()
        progress = (self.global_step + 1) / self.trainer.max_steps
        totals = unit_totals(batches)
        loss = 0.0
        for batch in batches:
            logits = candidate_logits(self.model, batch)
            out = self.task.loss(logits, batch, progress=progress, totals=totals)
            self.manual_backward(out.total)
            loss += float(out.total.detach())
        torch.nn.utils.clip_grad_norm_(self.task.weights, PACT_SETTINGS.max_gradient_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        self.losses.append(loss)


def train(task: Task) -> list[float]:
    """Train, and return the loss of every step."""
    module = PactModule(task)
    trainer = Trainer(
        max_steps=task.options.steps,
        accelerator="auto",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, StepLoader(task))
    nll = selection_nll(task.model, task.selection_batches())
    print(f"selection NLL {nll:.4f} nats")  # noqa: T201
    return module.losses


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
    task.save()
