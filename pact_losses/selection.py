"""Choosing a checkpoint by its negative log-likelihood on a split that is not trained on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pact_losses.batch import PactBatch
from pact_losses.candidates import candidate_logits
from pact_losses.errors import BatchError, NonFiniteError, PactLossError
from pact_losses.processes import summed


def selection_nll(
    model: nn.Module,
    batches: Iterable[PactBatch],
    *,
    code_logits: Callable[[nn.Module, PactBatch], Tensor] = candidate_logits,
) -> float:
    """Return the mean NLL of the labelled primary views.

    The model runs in evaluation mode and without gradients; afterwards the mode of every module is
    restored. Permuted views (those that the batch's `views` table links to a primary view) and
    ablated views do not count.

    Args:
        model: a model as for `candidate_logits`.
        batches: batches of the selection split from `PactCollator`; with `require_pairs=False` they
            may have primary views alone.
        code_logits: returns the logits of a batch in letter order, shape (n, C).

    Returns:
        -log p(reference) in nats, the mean over views by their weights, in float64.

    Raises:
        BatchError: the batches have no labelled primary view.
        NonFiniteError: the NLL of a view is not a finite number; the message names the record.

    Examples:
        >>> import torch
        >>> batch = PactBatch.of([[1, 0], [0, 1]], [0, 1])
        >>> round(selection_nll(torch.nn.Identity(), [batch], code_logits=lambda model, batch:
        ...     torch.tensor([[0.0, 0.0], [0.0, 0.0]])), 6)
        0.693147
    """
    return mean_nll(nll_sums(model, batches, code_logits=code_logits))


def shared_selection_nll(model: nn.Module, batches: Iterable[PactBatch]) -> float:
    """Return `selection_nll` of the batches of all processes; each passes its share and calls it.

    Args:
        model: a model as for `candidate_logits`, without `DistributedDataParallel`: the processes
            may have different numbers of batches.
        batches: the share of this process; may be empty.

    Raises:
        BatchError: no process has a labelled primary view.
        NonFiniteError: as for `selection_nll`.
    """
    return mean_nll(summed(nll_sums(model, batches)))


def nll_sums(
    model: nn.Module,
    batches: Iterable[PactBatch],
    *,
    code_logits: Callable[[nn.Module, PactBatch], Tensor] = candidate_logits,
) -> dict[str, float]:
    """Return the weighted sum of the NLL ("nll"), and that of the weights ("weight").

    Arguments and errors are those of `selection_nll`.
    """
    total = weight = 0.0
    with _evaluating(model):
        for batch in batches:
            nll, weights = _nll(code_logits(model, batch), batch)
            total += float((nll * weights).sum())
            weight += float(weights.sum())
    return {"nll": total, "weight": weight}


def mean_nll(sums: Mapping[str, float]) -> float:
    """Return the mean NLL in nats, from the sums of `nll_sums`.

    Raises:
        BatchError: no view counts.
    """
    if sums["weight"] == 0.0:
        message = "expected labelled primary views for checkpoint selection, got none"
        raise BatchError(message)
    return sums["nll"] / sums["weight"]


def _nll(logits: Tensor, batch: PactBatch) -> tuple[Tensor, Tensor]:
    """NLL in nats and weight of each labelled primary view, float64, on the CPU."""
    # Not every device has float64.
    batch, logits = batch.to("cpu"), logits.cpu()
    counts = batch.is_labelled.clone()
    counts[batch.views[:, 1]] = False
    log_p = logits.double().masked_fill(~batch.mask, -math.inf).log_softmax(-1)
    is_reference = batch.code_order == batch.reference[:, None]
    nll = -log_p.masked_fill(~(is_reference & batch.mask), 0.0).sum(-1)
    bad = counts & ~nll.isfinite()
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        message = f"record {batch.record_ids[row]} (row {row}): its NLL is {float(nll[row])}"
        raise NonFiniteError(message)
    return nll[counts], batch.weight[counts].double()


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass
class BestCheckpoint:
    """The checkpoint with the lowest NLL so far; the first one if several are equal.

    Keeps a copy of the trainable weights in main memory (a LoRA adapter is small), or calls `save`
    for every new best checkpoint instead.

    Args:
        save: called with the model and the step of a new best checkpoint; then no copy is kept.

    Attributes:
        step: step of the best checkpoint; None before the first.
        nll: NLL of the best checkpoint, in nats; infinite before the first.
        history: (step, nll) of every offered checkpoint.

    Examples:
        >>> import torch
        >>> model, best = torch.nn.Linear(1, 1), BestCheckpoint()
        >>> [best.offer(model, step, nll) for step, nll in ((146, 0.9), (292, 0.7), (438, 0.7))]
        [True, True, False]
        >>> best.step, best.nll
        (292, 0.7)
        >>> best.restore(model)
    """

    save: Callable[[nn.Module, int], object] | None = None
    step: int | None = field(default=None, init=False)
    nll: float = field(default=math.inf, init=False)
    history: list[tuple[int, float]] = field(default_factory=list, init=False)
    _weights: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    def offer(self, model: nn.Module, step: int, nll: float) -> bool:
        """Keep the model if it is the best so far.

        Args:
            model: the model at this step.
            step: number of completed optimiser steps; ascending.
            nll: NLL on the selection split, in nats.

        Returns:
            Whether it was kept.

        Raises:
            NonFiniteError: `nll` is not a finite number.
            ValueError: the step is not after the previous one.
        """
        if not math.isfinite(nll):
            message = f"step {step}: expected a finite selection NLL, got {nll}"
            raise NonFiniteError(message)
        if self.history and step <= self.history[-1][0]:
            message = f"expected a step after {self.history[-1][0]}, got {step}"
            raise ValueError(message)
        is_best = nll < self.nll
        if is_best:
            if self.save is None:
                self._weights = {
                    name: weight.detach().to("cpu", copy=True) for name, weight in _trainable(model)
                }
            else:
                self.save(model, step)
            self.step, self.nll = step, nll
        self.history.append((step, nll))
        return is_best

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint of the training needs to continue."""
        return {
            "step": self.step,
            "nll": self.nll,
            "history": list(self.history),
            "weights": dict(self._weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.step, self.nll = state["step"], state["nll"]
        self.history = [(step, nll) for step, nll in state["history"]]
        self._weights = dict(state["weights"])

    def restore(self, model: nn.Module) -> None:
        """Restore the kept weights in the model.

        Raises:
            PactLossError: no weights are kept, or the model has other trainable weights.
        """
        weights = dict(_trainable(model))
        if self.step is None or self.save is not None:
            message = "no weights are kept: no checkpoint was offered, or `save` was given"
            raise PactLossError(message)
        other = sorted(set(weights) ^ set(self._weights))
        if other:
            message = f"{len(other)} trainable weights are not in both models: {other[0]}"
            raise PactLossError(message)
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(self._weights[name])


def _trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return (item for item in model.named_parameters() if item[1].requires_grad)
