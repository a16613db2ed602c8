"""Choosing a checkpoint by its negative log-likelihood on a split that is not trained on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn

from pact_losses.batch import PactBatch
from pact_losses.candidates import AnswerLogits, CodeLogits, answer_logits, candidate_logits
from pact_losses.data import summed
from pact_losses.errors import BatchError, NonFiniteError, PactLossError

LEAST_ANSWER_MASS: Final = 0.5
"""Below it, a model that generates begins its answers with another token more often than with any
of the letters: a checkpoint that decides well cannot be served so. Reports call it critical."""


@dataclass(frozen=True)
class SelectionScore:
    """What a checkpoint reaches on the selection split.

    Attributes:
        nll: mean NLL of the labelled primary views among the letters, nats.
        answer_mass: mean probability of the letters together in the whole vocabulary; NaN if only
            the letters were read.
    """

    nll: float
    answer_mass: float = math.nan


def selection_score(
    model: nn.Module, batches: Iterable[PactBatch], *, code_logits: CodeLogits = answer_logits
) -> SelectionScore:
    """Return `selection_nll` and the mean answer mass of the same views.

    Arguments and errors are those of `selection_nll`.

    Examples:
        >>> batch = PactBatch.of([[1, 0], [0, 1]], [0, 1])
        >>> logits = AnswerLogits(torch.zeros(2, 2), rest=torch.full((2,), math.log(6)))
        >>> score = selection_score(nn.Identity(), [batch], code_logits=lambda *_: logits)
        >>> round(score.nll, 4), round(score.answer_mass, 4)
        (0.6931, 0.25)
    """
    return score_of(selection_sums(model, batches, code_logits=code_logits))


def selection_nll(
    model: nn.Module, batches: Iterable[PactBatch], *, code_logits: CodeLogits = candidate_logits
) -> float:
    """Return the mean NLL of the labelled primary views.

    The model runs in evaluation mode and without gradients; afterwards the mode of every module is
    restored. Permuted views (those that the batch's `views` table links to a primary view) and
    ablated views do not count.

    Args:
        model: a model as for `candidate_logits`.
        batches: batches of the selection split from `PactCollator`; with `require_pairs=False` they
            may have primary views alone.
        code_logits: returns the logits of a batch in letter order, shape (n, C), or
            `AnswerLogits`.

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
    return score_of(selection_sums(model, batches, code_logits=code_logits)).nll


def shared_selection_score(model: nn.Module, batches: Iterable[PactBatch]) -> SelectionScore:
    """Return `selection_score` of the batches of all processes; each passes its share and calls it.

    Args:
        model: a model as for `candidate_logits`, without `DistributedDataParallel`: the processes
            may have different numbers of batches.
        batches: the share of this process; may be empty.

    Raises:
        BatchError: no process has a labelled primary view.
        NonFiniteError: as for `selection_nll`.
    """
    return score_of(summed(selection_sums(model, batches)))


def selection_sums(
    model: nn.Module, batches: Iterable[PactBatch], *, code_logits: CodeLogits = answer_logits
) -> dict[str, float]:
    """Return weighted sums over views: of NLL ("nll"), answer mass ("mass"), and 1 ("weight").

    Arguments and errors are those of `selection_nll`.
    """
    sums = {"nll": 0.0, "mass": 0.0, "weight": 0.0}
    with _evaluating(model):
        for batch in batches:
            for name, values in _measures(
                AnswerLogits.of(code_logits(model, batch)), batch
            ).items():
                sums[name] += float(values.sum())
    return sums


def score_of(sums: Mapping[str, float]) -> SelectionScore:
    """Return the means, from the sums of `selection_sums`.

    Raises:
        BatchError: no view counts.
    """
    if sums["weight"] == 0.0:
        raise BatchError("expected labelled primary views for checkpoint selection, got none")
    return SelectionScore(sums["nll"] / sums["weight"], sums["mass"] / sums["weight"])


def _measures(read: AnswerLogits, batch: PactBatch) -> dict[str, Tensor]:
    """NLL in nats and answer mass, both weighted, and weight of each labelled primary view."""
    # Not every device has float64.
    batch, logits = batch.to("cpu"), read.letters.cpu().double()
    counts = batch.is_labelled.clone()
    counts[batch.views[:, 1]] = False
    logits = logits.masked_fill(~batch.mask, -math.inf)
    log_p = logits.log_softmax(-1)
    is_reference = batch.code_order == batch.reference[:, None]
    nll = -log_p.masked_fill(~(is_reference & batch.mask), 0.0).sum(-1)
    bad = counts & ~nll.isfinite()
    if bool(bad.any()):
        row = int(bad.nonzero()[0])
        message = f"record {batch.record_ids[row]} (row {row}): its NLL is {float(nll[row])}"
        raise NonFiniteError(message)
    mass = torch.full_like(nll, math.nan)
    if read.rest is not None:
        mass = (logits.logsumexp(-1) - read.rest.cpu().double()).sigmoid()
    weight = batch.weight[counts].double()
    return {"nll": nll[counts] * weight, "mass": mass[counts] * weight, "weight": weight}


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

    One whose answer mass is too low loses to any that has enough, and counts only among its like.
    Keeps a copy of the trainable weights in main memory (a LoRA adapter is small), or calls `save`
    for every new best checkpoint instead.

    Args:
        save: called with the model and the step of a new best checkpoint; then no copy is kept.
        least_answer_mass: mean answer mass that is enough, 0 to 1; 0 for no condition.

    Attributes:
        step: step of the best checkpoint; None before the first.
        nll: NLL of the best checkpoint, in nats; infinite before the first.
        answer_mass: that of the best checkpoint; NaN if it is not known.
        history: (step, nll) of every offered checkpoint.
        low_mass: (step, answer mass) of every offered checkpoint that has too little.

    Raises:
        PactLossError: `least_answer_mass` is outside [0, 1].

    Examples:
        >>> import torch
        >>> model, best = torch.nn.Linear(1, 1), BestCheckpoint()
        >>> [best.offer(model, step, nll) for step, nll in ((146, 0.9), (292, 0.7), (438, 0.7))]
        [True, True, False]
        >>> best.step, best.nll
        (292, 0.7)
        >>> best.restore(model)
        >>> best.offer(model, 584, 0.1, answer_mass=0.00008), best.low_mass
        (False, [(584, 8e-05)])
    """

    save: Callable[[nn.Module, int], object] | None = None
    least_answer_mass: float = LEAST_ANSWER_MASS
    step: int | None = field(default=None, init=False)
    nll: float = field(default=math.inf, init=False)
    answer_mass: float = field(default=math.nan, init=False)
    history: list[tuple[int, float]] = field(default_factory=list, init=False)
    low_mass: list[tuple[int, float]] = field(default_factory=list, init=False)
    _weights: dict[str, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.least_answer_mass <= 1:
            raise PactLossError(f"least_answer_mass: expected 0 to 1, got {self.least_answer_mass}")

    @property
    def has_low_mass(self) -> bool:
        """Whether the best checkpoint has too little answer mass, like all that were offered."""
        return self.step in dict(self.low_mass)

    def offer(self, model: nn.Module, step: int, nll: float, answer_mass: float = math.nan) -> bool:
        """Keep the model if it is the best so far.

        Args:
            model: the model at this step.
            step: number of completed optimiser steps; ascending.
            nll: NLL on the selection split, in nats.
            answer_mass: mean answer mass on it; NaN, if it is not known, is enough.

        Returns:
            Whether it was kept.

        Raises:
            NonFiniteError: `nll` is not a finite number.
            ValueError: the step is not after the previous one.
        """
        if not math.isfinite(nll):
            raise NonFiniteError(f"step {step}: expected a finite selection NLL, got {nll}")
        if self.history and step <= self.history[-1][0]:
            raise ValueError(f"expected a step after {self.history[-1][0]}, got {step}")
        is_low = answer_mass < self.least_answer_mass
        is_best = self.step is None or (is_low, nll) < (self.has_low_mass, self.nll)
        if is_best:
            if self.save is None:
                self._weights = {
                    name: weight.detach().to("cpu", copy=True) for name, weight in _trainable(model)
                }
            else:
                self.save(model, step)
            self.step, self.nll, self.answer_mass = step, nll, answer_mass
        self.history.append((step, nll))
        if is_low:
            self.low_mass.append((step, answer_mass))
        return is_best

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint of the training needs to continue."""
        return {
            "step": self.step,
            "nll": self.nll,
            "answer_mass": self.answer_mass,
            "history": list(self.history),
            "low_mass": list(self.low_mass),
            "weights": dict(self._weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.step, self.nll, self.answer_mass = state["step"], state["nll"], state["answer_mass"]
        self.history = [(step, nll) for step, nll in state["history"]]
        self.low_mass = [(step, mass) for step, mass in state["low_mass"]]
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
