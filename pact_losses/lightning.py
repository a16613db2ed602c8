"""PACT in PyTorch Lightning: a mixin for a module, and the data module that goes with it.

    class PactModule(PactModuleMixin, LightningModule): ...

    module = PactModule(model, optimizer, schedule)
    trainer = Trainer(max_epochs=2, precision="bf16-true")
    trainer.fit(module, PactDataModule(data, seed=17))
    data.save(model, "adapter")

A training step of Lightning is one optimiser step, with all of its batches. The units of all
batches and processes are counted before the first loss, so optimisation is manual. Leave
`accumulate_grad_batches` at 1: `PactDataModule(accumulation=...)` takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pact_losses.data import PactData, rank_and_count, summed
from pact_losses.errors import PactLossError
from pact_losses.objective import PactLoss
from pact_losses.optimisation import PACT_SETTINGS
from pact_losses.selection import score_of, selection_sums
from pact_losses.steps import StepBatches, StepSampler, pact_step

if TYPE_CHECKING:
    from pytorch_lightning import LightningModule

try:
    from pytorch_lightning import LightningDataModule
except ModuleNotFoundError as error:
    message = (
        f"pact_losses.lightning needs {error.name}, which is not installed; install it: "
        "pip install pytorch-lightning"
    )
    raise ModuleNotFoundError(message, name=error.name) from error

if TYPE_CHECKING:
    _Module = LightningModule
else:
    _Module = object  # so that the mixin comes before any module


class PactModuleMixin(_Module):
    """The PACT objective for a `LightningModule`: inherit from this class and from it.

    It logs the loss ("loss"), the terms and diagnostics of every step by their names in
    `PactOutput`, among them "pair_margin" (mean d, nats), "pairs_beyond_margin" and "answer_mass".
    Validation logs "selection_nll", the exact NLL of the selection split, for `EarlyStopping` and
    `ModelCheckpoint`, and "selection_answer_mass", which these do not look at.

    Args:
        model: a causal language model, usually with PEFT.
        optimizer: optimiser of the model, such as `lora_plus_optimizer(model)`.
        schedule: its schedule by optimiser steps; none by default.
        loss: the objective; the paper's settings by default.
        max_gradient_norm: gradients are clipped to this global norm; None does not clip them.

    Attributes:
        model: the model.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
        *,
        loss: PactLoss | None = None,
        max_gradient_norm: float | None = PACT_SETTINGS.max_gradient_norm,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self._pact_loss = PactLoss() if loss is None else loss
        self._optimizer, self._schedule = optimizer, schedule
        self._max_gradient_norm = max_gradient_norm
        self._selection_sums: dict[str, float] = {}

    def configure_optimizers(self) -> Any:
        """Return the optimiser, and the schedule if there is one."""
        if self._schedule is None:
            return self._optimizer
        return {"optimizer": self._optimizer, "lr_scheduler": self._schedule}

    def training_step(self, step: StepBatches, _index: int) -> None:
        """Make one optimiser step."""
        optimizer: Any = self.optimizers()
        out = pact_step(self.model, step, self._pact_loss, backward=self.manual_backward)
        if self._max_gradient_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._max_gradient_norm)
        optimizer.step()
        schedule: Any = self.lr_schedulers()
        if schedule is not None:
            schedule.step()
        self.log_dict({"loss": out.loss, **out.terms, **out.diagnostics})

    def validation_step(self, step: StepBatches, _index: int) -> None:
        """Add up the NLL and the answer mass of a batch of the selection split."""
        for name, value in selection_sums(self.model, step.batches).items():
            self._selection_sums[name] = self._selection_sums.get(name, 0.0) + value

    def on_validation_epoch_end(self) -> None:
        """Log the NLL and the answer mass of the selection split."""
        sums, self._selection_sums = summed(self._selection_sums), {}
        score = score_of(sums)
        self.log_dict({"selection_nll": score.nll, "selection_answer_mass": score.answer_mass})


class PactDataModule(LightningDataModule):
    """Loaders of optimiser steps and of the selection split, for `PactModuleMixin`.

    Each process gets its share, and a resumed training continues at its step. Set neither a
    `DistributedSampler` nor `accumulate_grad_batches`.

    Args:
        data: the views of the training.
        seed: seed of the order of families.
        families_per_batch: families per forward pass.
        accumulation: forward passes of a process per optimiser step.
        selection_rows: views per batch of the selection split.
        loader: options of `torch.utils.data.DataLoader`: num_workers, pin_memory, ...
    """

    def __init__(
        self,
        data: PactData,
        *,
        seed: int,
        families_per_batch: int = PACT_SETTINGS.pairs_per_batch,
        accumulation: int = PACT_SETTINGS.accumulation,
        selection_rows: int = 8,
        **loader: Any,
    ) -> None:
        super().__init__()
        self._pact_data, self._rows, self._loader = data, selection_rows, loader
        self._sampler = StepSampler(
            data, families_per_batch=families_per_batch, accumulation=accumulation, seed=seed
        )

    def train_dataloader(self) -> Any:
        """Return the steps of an epoch."""
        if self._trainer.accumulate_grad_batches != 1:
            raise PactLossError(
                "expected accumulate_grad_batches of 1, got "
                f"{self._trainer.accumulate_grad_batches}; set PactDataModule(accumulation=)"
            )
        return _Epoch(self._sampler, self._trainer, self._loader)

    def val_dataloader(self) -> Any:
        """Return this process's share of the selection batches; nothing without selection views."""
        return _Selection(self._pact_data, self._rows) if self._pact_data.selection else []

    @property
    def _trainer(self) -> Any:
        return self.trainer


class _Epoch:
    """Steps of the current epoch from the trainer's global step on: a loader that can resume."""

    def __init__(self, sampler: StepSampler, trainer: Any, loader: dict[str, Any]) -> None:
        self._sampler, self._trainer, self._loader = sampler, trainer, loader

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[StepBatches]:
        epoch, first = divmod(self._trainer.global_step, len(self))
        n_steps = int(self._trainer.estimated_stepping_batches)
        yield from self._sampler.epoch(epoch, first=first, n_steps=n_steps, **self._loader)

    def state_dict(self) -> dict[str, Any]:
        """Tell Lightning that this loader can resume; the step is the trainer's."""
        return {}

    def load_state_dict(self, _state: dict[str, Any]) -> None:
        """Nothing is kept here."""


class _Selection:
    """Batches of the selection split, equally many in every process; some may be empty."""

    def __init__(self, data: PactData, rows: int) -> None:
        self._data, self._rows = data, rows

    def __len__(self) -> int:
        return -(-len(self._data.primary_views) // (self._rows * rank_and_count()[1]))

    def __iter__(self) -> Iterator[StepBatches]:
        rank, processes = rank_and_count()
        batches = self._data.selection_batches(self._rows, rank=rank, processes=processes)
        for number in range(len(self)):
            yield StepBatches(number, 1.0, list(islice(batches, 1)))
