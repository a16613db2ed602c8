"""Optimiser steps for any trainer: one function for the sampler, one for the gradients of a step.

    for step in pact_steps(data, n_steps=584, seed=17):
        out = pact_step(model, step, PactLoss())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

A step has the same families for any number of processes, if `accumulation` times their number is
the same. The gradients are those of its batches as one batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from pact_losses.batch import PactBatch
from pact_losses.candidates import CodeLogits, answer_logits
from pact_losses.data import PactData, rank_and_count, summed
from pact_losses.errors import PactLossError
from pact_losses.families import FamilyBatchSampler
from pact_losses.objective import PactLoss, PactOutput, unit_totals
from pact_losses.optimisation import PACT_SETTINGS

_UNITS: Final = {
    "pair_margin": "cf",
    "pairs_beyond_margin": "cf",
    "jsd": "pc",
    "ablated_gap": "nr",
    "answer_mass": "am",
}
"""The term whose units each diagnostic is a mean over."""


class StepBatches:
    """The batches of one optimiser step in this process.

    Trainers take dataclasses, lists and mappings apart. This is none of them: they call its `to`.

    Attributes:
        number: number of the step, from 0.
        progress: share of the training up to and with this step, above 0 and up to 1.
        batches: one batch per forward pass.
    """

    def __init__(self, number: int, progress: float, batches: Sequence[PactBatch]) -> None:
        self.number = number
        self.progress = progress
        self.batches = tuple(batches)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> StepBatches:
        """Return the step with all batches on a device."""
        moved = [batch.to(device, non_blocking=non_blocking) for batch in self.batches]
        return StepBatches(self.number, self.progress, moved)

    def pin_memory(self) -> StepBatches:
        """Return the step with all batches in page-locked memory."""
        return StepBatches(
            self.number, self.progress, [batch.pin_memory() for batch in self.batches]
        )


@dataclass(frozen=True)
class StepMeans:
    """The exact means of one or more steps, over all batches and processes.

    Attributes:
        loss: total of the step; the mean over steps if there are several.
        terms: raw means of the terms without weight or ramp, as in `PactOutput`.
        diagnostics: "pair_margin" (mean d, nats), "pairs_beyond_margin" (share of pairs with
            d > m), "jsd" and "ablated_gap" (nats) and "answer_mass", as in `PactOutput`.
    """

    loss: float
    terms: Mapping[str, float]
    diagnostics: Mapping[str, float]


class TermSums:
    """Adds up the outputs of batches, for `StepMeans`.

    Examples:
        >>> batch = PactBatch.of([[0, 1], [0, 1]], [0, 1], pairs=[[0, 1]])
        >>> sums, loss = TermSums(), PactLoss()
        >>> for logits in ([[1.0, 0.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]):
        ...     sums.add(loss(torch.tensor(logits), batch, progress=1.0))
        >>> means = sums.take(steps=2)
        >>> means.diagnostics
        {'pair_margin': 1.5, 'pairs_beyond_margin': 0.5}
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}

    def add(self, out: PactOutput) -> None:
        """Add the output of one batch."""
        self._add("loss", float(out.total.detach()))
        for name, term in out.terms.items():
            weight = float(out.unit_weights[name])
            self._add(f"weight {name}", weight)
            self._add(name, float(term) * weight)
        for name, value in out.diagnostics.items():
            if name in _UNITS:
                self._add(name, float(value) * float(out.unit_weights[_UNITS[name]]))

    def take(self, steps: int = 1) -> StepMeans:
        """Return the means over all processes, which must all call it, and start anew.

        Args:
            steps: number of steps that were added, for the mean loss.
        """
        sums = summed(self._sums)
        self._sums = {}
        terms = {
            name.removeprefix("weight "): sums[name.removeprefix("weight ")] / weight
            for name, weight in sums.items()
            if name.startswith("weight ")
        }
        diagnostics = {
            name: sums[name] / sums[f"weight {term}"]
            for name, term in _UNITS.items()
            if name in sums
        }
        return StepMeans(sums.get("loss", 0.0) / steps, terms, diagnostics)

    def _add(self, name: str, value: float) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + value


class StepSampler:
    """The families of every optimiser step, the same for any number of processes.

    An epoch is divided into steps of `accumulation` batches per process. If the last step has too
    few batches for all processes, batches from the front of the epoch fill it up.

    Args:
        data: the data of the training.
        families_per_batch: families per forward pass.
        accumulation: forward passes of a process per optimiser step.
        seed: seed of the order of families.

    Raises:
        FamilyError: as for `group_families`.
        ValueError: an argument is out of range, or there are no families.
    """

    def __init__(
        self, data: PactData, *, families_per_batch: int, accumulation: int, seed: int
    ) -> None:
        if accumulation < 1:
            raise ValueError(f"expected accumulation of 1 or more, got {accumulation}")
        self.data = data
        self.accumulation = accumulation
        self.families = FamilyBatchSampler(data.train, families_per_batch, seed=seed)

    def __len__(self) -> int:
        """Optimiser steps of an epoch."""
        return -(-len(self.families) // (self.accumulation * rank_and_count()[1]))

    def epoch(
        self, epoch: int, *, first: int = 0, n_steps: int, **loader: Any
    ) -> Iterator[StepBatches]:
        """Yield the steps of an epoch in this process.

        Args:
            epoch: number of the epoch, from 0.
            first: first step of the epoch to yield, from 0.
            n_steps: steps of the training, for the progress of a step.
            loader: options of `torch.utils.data.DataLoader`: num_workers, pin_memory, ...
        """
        steps = self._rows(epoch)[first:]
        views: Any = self.data.train
        batches = iter(
            DataLoader(
                views,
                batch_sampler=[rows for step in steps for rows in step],
                collate_fn=self.data.collate,
                # Otherwise every epoch would draw from the generator that dropout uses.
                generator=torch.Generator().manual_seed(0),
                **loader,
            )
        )
        start = epoch * len(self) + first
        for number, step in enumerate(steps, start):
            progress = min(1.0, (number + 1) / n_steps)
            yield StepBatches(number, progress, list(islice(batches, len(step))))

    def _rows(self, epoch: int) -> list[list[list[int]]]:
        """Rows of each batch of this process, step by step."""
        rank, processes = rank_and_count()
        self.families.set_epoch(epoch)
        batches = list(self.families)
        size = self.accumulation * processes
        steps = [batches[start : start + size] for start in range(0, len(batches), size)]
        filled = -(-len(steps[-1]) // processes) * processes
        steps[-1] += islice(cycle(batches), filled - len(steps[-1]))
        return [step[rank::processes] for step in steps]


def pact_steps(
    data: PactData,
    n_steps: int,
    *,
    seed: int,
    first: int = 0,
    families_per_batch: int = PACT_SETTINGS.pairs_per_batch,
    accumulation: int = PACT_SETTINGS.accumulation,
    **loader: Any,
) -> Iterator[StepBatches]:
    """Yield the batches of every optimiser step of a training: the sampler for any loop.

    Every epoch has another order, by the seed. In a distributed training, each process gets its
    share; initialise the processes first (`Accelerator()` does). Do not pass the result to
    `accelerator.prepare`.

    Args:
        data: the data of the training.
        n_steps: optimiser steps of the whole training; `PaperSettings.n_steps` computes them.
        seed: seed of the order of families.
        first: first step to yield; to resume, the number of completed steps.
        families_per_batch: families per forward pass.
        accumulation: forward passes of a process per optimiser step.
        loader: options of `torch.utils.data.DataLoader`: num_workers, pin_memory, ...

    Raises:
        FamilyError: as for `group_families`.
        PactLossError: `first` is not among the steps.
        ValueError: an argument is out of range, or there are no families.

    Examples:
        >>> from pact_losses import PactCollator, TrainingView
        >>> def view(family, variant, reference):
        ...     return TrainingView(
        ...         record_id=f"{family}-{variant}", family=family, variant=variant, view=0,
        ...         kind="boolean", token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1),
        ...         reference=reference)
        >>> views = [view(family, *member) for family in "abc"
        ...          for member in (("base", 0), ("counterfactual", 1))]
        >>> data = PactData(views, PactCollator(0))
        >>> steps = pact_steps(data, 3, seed=17, families_per_batch=1, accumulation=2)
        >>> [(step.number, len(step.batches)) for step in steps]
        [(0, 2), (1, 1), (2, 2)]
    """
    if not 0 <= first <= n_steps:
        raise PactLossError(f"first: expected 0 to n_steps = {n_steps}, got {first}")
    sampler = StepSampler(
        data, families_per_batch=families_per_batch, accumulation=accumulation, seed=seed
    )
    return _steps(sampler, first, n_steps, loader)


def _steps(
    sampler: StepSampler, first: int, n_steps: int, loader: Mapping[str, Any]
) -> Iterator[StepBatches]:
    step = first
    while step < n_steps:
        epoch, within = divmod(step, len(sampler))
        steps = sampler.epoch(epoch, first=within, n_steps=n_steps, **loader)
        for batches in islice(steps, n_steps - step):
            yield batches
            step += 1


def pact_step(
    model: nn.Module,
    step: StepBatches,
    loss: PactLoss,
    *,
    backward: Callable[[Tensor], Any] = Tensor.backward,
    code_logits: CodeLogits | None = None,
) -> StepMeans:
    """Replace the gradients of a model by those of one optimiser step.

    The units of all batches and processes are counted first, so the gradients are those of all of
    them as one batch. Clip them, and let the optimiser step.

    Args:
        model: as for `candidate_logits`, in training mode; also in `DistributedDataParallel`, which
            averages gradients over the processes.
        step: from `pact_steps`, on any device.
        loss: the objective.
        backward: computes the gradients of a scalar: `accelerator.backward` (of an `Accelerator`
            without gradient accumulation), `self.manual_backward` of Lightning.
        code_logits: returns the logits of a batch in letter order, shape (n, C), or
            `AnswerLogits`; such as `answer_logits` under autocast. By default, it is
            `answer_logits`, whose `rest` has a gradient if the loss weights the answer mass.

    Returns:
        The total, terms and diagnostics of the step, the same in every process.

    Raises:
        BatchError: as for `candidate_logits` and `PactLoss`.
        NonFiniteError: as for `PactLoss`.

    Examples:
        >>> import torch
        >>> from pact_losses import PactCollator, TrainingView
        >>> views = [
        ...     TrainingView(
        ...         record_id=variant, family="a", variant=variant, view=0, kind="boolean",
        ...         token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=reference)
        ...     for variant, reference in (("base", 0), ("counterfactual", 1))]
        >>> (step,) = pact_steps(PactData(views, PactCollator(0)), 1, seed=17)
        >>> model = torch.nn.Linear(2, 2, bias=False)  # in place of a language model
        >>> _ = torch.nn.init.zeros_(model.weight)
        >>> logits = lambda model, batch: model(torch.eye(2)[batch.reference])
        >>> means = pact_step(model, step, PactLoss(), code_logits=logits)
        >>> {name: round(value, 3) for name, value in means.terms.items()}
        {'ce': 0.693, 'cf': 2.127}
        >>> model.weight.grad.abs().sum() > 0
        tensor(True)
    """
    if code_logits is None:
        code_logits = partial(answer_logits, train_rest=loss.weights.am > 0)
    totals = summed(unit_totals(step.batches))
    processes = rank_and_count()[1]
    sums = TermSums()
    model.zero_grad()
    for batch in step.batches:
        with _gradients_kept_here(model, batch is not step.batches[-1]):
            logits = code_logits(model, batch)
            out = loss(logits, batch.to(logits.device), progress=step.progress, totals=totals)
            backward(out.total * processes)
        sums.add(out)
    return sums.take()


def _gradients_kept_here(model: Any, keep: bool) -> contextlib.AbstractContextManager[Any]:
    """Leave the exchange of gradients between processes to a later batch."""
    if keep and isinstance(model, DistributedDataParallel):
        return model.no_sync()
    return contextlib.nullcontext()
