"""Train with PACT in PyTorch Lightning.

    pip install --constraint constraints.txt pytorch-lightning
    python examples/train_lightning.py --steps 8 --learning-rate 1e-3

A training step of Lightning is one optimiser step. `PactDataModule(accumulation=)` takes the place
of `accumulate_grad_batches`, which would divide by the number of batches, not by their units.
"""

from __future__ import annotations

from typing import Any

from common import Options, Task, shown
from pytorch_lightning import Callback, LightningModule, Trainer

from pact_losses import selection_nll
from pact_losses.lightning import PactDataModule, PactModuleMixin


class PactModule(PactModuleMixin, LightningModule): ...  # noqa: D101 - the base classes say it


class Losses(Callback):
    """The loss of every step, for the last line that the example prints."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Keep the loss of a step."""
        self.losses.append(float(trainer.callback_metrics["loss"]))


def train(task: Task) -> list[float]:
    """Train, and return the loss of every step."""
    losses, quiet = Losses(), {"logger": False, "enable_checkpointing": False}
    module = PactModule(task.model, task.optimizer, task.schedule, loss=task.loss)
    trainer = Trainer(max_steps=task.options.steps, devices=1, callbacks=[losses], **quiet)
    trainer.fit(module, PactDataModule(task.data, **task.batching))
    task.data.save(task.model, task.options.out, task.facts)
    shown(selection_nll(task.model, task.data.selection_batches()))
    return losses.losses


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
