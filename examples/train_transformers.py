"""Train with PACT in the Trainer of transformers.

    python examples/train_transformers.py --steps 8 --learning-rate 1e-3

Two things differ from an ordinary Trainer. It has its own data loaders, because a family must not
be split and views are not columns of tensors (`remove_unused_columns=False`). Its `compute_loss`
ignores `num_items_in_batch` (a count of label tokens, None here and in evaluation): the units of
the step are counted when its batches are fetched, so the loss is already scaled for accumulation.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from common import Options, Task
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from pact_losses import PACT_SETTINGS, PactBatch, TrainingView, candidate_logits, unit_totals


class PactTrainer(Trainer):
    """A Trainer whose loss is PACT, and whose evaluation loss is the NLL of the selection views."""

    # The Trainer must not divide by the number of accumulated batches.
    loss_is_scaled_for_ga = True

    def __init__(self, task: Task, args: TrainingArguments, **kwargs: Any) -> None:
        super().__init__(task.model, args, optimizers=(task.optimizer, task.schedule), **kwargs)
        self.task = task
        self.totals: dict[str, float] = {}

    def _collate(self, views: list[TrainingView]) -> dict[str, PactBatch]:
        return {"batch": self.task.collate(views)}

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches of complete families; Accelerate distributes them to the processes."""
        loader = DataLoader(
            self.task.views, batch_sampler=self.task.sampler, collate_fn=self._collate
        )
        return self.accelerator.prepare(loader)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Primary views of the selection split; each batch holds complete pairs."""
        loader = DataLoader(
            eval_dataset or self.task.selection,
            batch_size=self.args.per_device_eval_batch_size,
            collate_fn=self._collate,
        )
        return self.accelerator.prepare(loader)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> Any:
        """Fetch the batches of one optimiser step, and count their units."""
        samples, n_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.totals = unit_totals(sample["batch"] for sample in samples)
        return samples, n_items

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, PactBatch],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,  # noqa: ARG002
    ) -> Any:
        """PACT while training, cross-entropy in evaluation."""
        batch = inputs["batch"]
        logits = candidate_logits(model, batch)
        batch = batch.to(logits.device)
        progress = min(1.0, (self.state.global_step + 1) / max(1, self.state.max_steps))
        out = self.task.loss(
            logits, batch, progress=progress, totals=self.totals if model.training else None
        )
        loss = out.total if model.training else out.terms["ce"]
        return (loss, {"code_logits": logits}) if return_outputs else loss


class _Losses(TrainerCallback):
    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, _args: Any, _state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        self.losses += [logs["loss"]] if "loss" in logs else []


def train(task: Task) -> list[float]:
    """Train, and return the loss of every step."""
    options, losses = task.options, _Losses()
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            folder,
            max_steps=options.steps,
            gradient_accumulation_steps=options.accumulation,
            max_grad_norm=PACT_SETTINGS.max_gradient_norm,
            per_device_eval_batch_size=4,
            remove_unused_columns=False,
            label_names=["batch"],
            prediction_loss_only=True,
            seed=options.seed,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = PactTrainer(task, args, callbacks=[losses])
        trainer.train()
        nll = trainer.evaluate()["eval_loss"]
    print(f"selection NLL {nll:.4f} nats")  # noqa: T201
    return losses.losses


if __name__ == "__main__":
    task = Task(Options.parse())
    print("loss by step:", *(f"{loss:.4f}" for loss in train(task)))  # noqa: T201
    task.save()
