"""The logits of the letters, and what all other tokens have together, at the answer position."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch gives it
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pact_losses.batch import PactBatch
from pact_losses.errors import BatchError


@dataclass(frozen=True, eq=False)
class AnswerLogits:
    """The logits of the letters, and of all other tokens together.

    Attributes:
        letters: shape (n, C), in letter order, as `candidate_logits` returns them.
        rest: shape (n,); log of the summed exp of the logits of all other tokens, nats. None if
            only the letters were read: the answer mass is then unknown.

    Examples:
        >>> from pact_losses import PactLoss
        >>> logits = AnswerLogits(torch.zeros(1, 2), rest=torch.zeros(1))  # one more token
        >>> batch = PactBatch.of([[0, 1]], [0])
        >>> mass = PactLoss()(logits, batch, progress=1.0).diagnostics["answer_mass"]
        >>> round(float(mass), 4)
        0.6667
    """

    letters: Tensor
    rest: Tensor | None = None

    @classmethod
    def of(cls, logits: Tensor | AnswerLogits) -> AnswerLogits:
        """Return logits of the letters alone as an object without `rest`."""
        return logits if isinstance(logits, AnswerLogits) else cls(logits)

    @property
    def device(self) -> torch.device:
        """Device of the logits."""
        return self.letters.device


CodeLogits = Callable[[nn.Module, PactBatch], Tensor | AnswerLogits]
"""Reads the logits of a batch in letter order: `candidate_logits`, `answer_logits` or another."""


def candidate_logits(model: nn.Module, batch: PactBatch) -> Tensor:
    """Run the model and read the logits of the letter tokens at the answer position.

    The full model is called, so adapters, autocast, gradient checkpointing and
    `DistributedDataParallel` work as usual. Logits for every token of a prompt are never computed.
    If the output head is a plain linear layer, only its rows for the letters of each prompt are
    multiplied; later changes of the logits by the model (soft-capping, a scale) apply to these. Any
    other head (with LoRA, quantised, sharded) computes all tokens at the last position.

    Args:
        model: a causal language model of transformers (or its multimodal shell), with or without
            PEFT, on one device.
        batch: n rows with `input_ids`, `attention_mask` and `code_tokens`, padded on the left, on
            any device.

    Returns:
        Logits in letter order, shape (n, C), float32 (float64 from a float64 model), on the model's
        device; unused slots are 0 and carry no gradient.

    Raises:
        BatchError: the batch has no token ids, a row ends with padding, or the model returns logits
            of another shape.

    Examples:
        >>> import torch
        >>> from transformers import AutoModelForCausalLM
        >>> from pact_losses import PactCollator, TrainingView
        >>> view = TrainingView(
        ...     record_id="r", family="f", variant="base", view=0, kind="boolean",
        ...     token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=1)
        >>> batch = PactCollator(0, require_pairs=False)([view])
        >>> model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32)
        >>> candidate_logits(model, batch).shape
        torch.Size([1, 2])
    """
    return _read_logits(model, batch, reads_rest=False).letters


def answer_logits(model: nn.Module, batch: PactBatch, *, train_rest: bool = True) -> AnswerLogits:
    """Run the model as `candidate_logits` does, and also read what all other tokens have.

    The letters have the same logits as there. The other tokens cost one product of the last
    position with the full head.

    Args:
        model: as for `candidate_logits`.
        batch: as for `candidate_logits`.
        train_rest: whether `rest` has a gradient; a loss of the answer mass needs it.

    Returns:
        `letters` of shape (n, C) as `candidate_logits` returns them, and `rest` of shape (n,):
        log of the summed exp of the logits of all other tokens, nats, in the same precision.

    Raises:
        BatchError: as for `candidate_logits`.

    Examples:
        >>> import torch
        >>> from transformers import AutoModelForCausalLM
        >>> from pact_losses import PactCollator, TrainingView
        >>> view = TrainingView(
        ...     record_id="r", family="f", variant="base", view=0, kind="boolean",
        ...     token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=1)
        >>> batch = PactCollator(0, require_pairs=False)([view])
        >>> model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.float32)
        >>> both = answer_logits(model, batch)
        >>> both.letters.shape, both.rest.shape
        (torch.Size([1, 2]), torch.Size([1]))
    """
    return _read_logits(model, batch, reads_rest=True, train_rest=train_rest)


def _read_logits(
    model: nn.Module, batch: PactBatch, *, reads_rest: bool, train_rest: bool = False
) -> AnswerLogits:
    batch = batch.to(next(model.parameters()).device)
    inputs, tokens = _inputs(model, batch)
    head = _plain_head(model)
    if head is not None:
        size = len(head.weight) if reads_rest else 0
        with _few_rows(head, tokens, reads_rest=reads_rest, train_rest=train_rest):
            both = model(**inputs).logits[:, -1]
        expected = (len(batch), size + tokens.shape[-1])
        full, logits = both[:, :size], both[:, size:]
        if both.shape != expected and not reads_rest:
            raise BatchError(f"expected logits of shape {expected}, got {tuple(both.shape)}")
        if both.shape != expected:
            head = None  # the model cuts columns off, such as those that pad its vocabulary
    if head is None:
        # Some models lack this argument and return the logits of every position.
        keep = {"logits_to_keep": 1} if _takes(model, "logits_to_keep") else {}
        full = model(**inputs, **keep).logits[:, -1]
        logits = full.gather(-1, tokens)
    dtype = torch.promote_types(logits.dtype, torch.float32)
    letters = logits.to(dtype).masked_fill(~batch.mask, 0.0)
    if not reads_rest:
        return AnswerLogits(letters)
    # An unused slot repeats the first letter, so that no other token is left out.
    used = torch.where(batch.mask, tokens, tokens[:, :1])
    others = (full if train_rest else full.detach()).to(dtype).scatter(-1, used, -math.inf)
    return AnswerLogits(letters, others.logsumexp(-1))


def _inputs(model: nn.Module, batch: PactBatch) -> tuple[dict[str, Any], Tensor]:
    ids, mask, tokens = batch.input_ids, batch.attention_mask, batch.code_tokens
    if ids is None or mask is None or tokens is None:
        message = "expected input_ids, attention_mask and code_tokens in the batch (PactCollator)"
        raise BatchError(message)
    ends_in_padding = mask[:, -1] == 0
    if bool(ends_in_padding.any()):
        row = int(ends_in_padding.nonzero()[0])
        message = f"record {batch.record_ids[row]} (row {row}): expected padding on the left"
        raise BatchError(message)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    # A multimodal shell derives its own positions from the mask.
    if _takes(model, "position_ids") and not _takes(model, "pixel_values"):
        inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    return inputs, tokens


def _takes(model: nn.Module, name: str) -> bool:
    return name in inspect.signature(type(_bare(model)).forward).parameters


def _bare(model: Any) -> Any:
    """Return the transformers model without its wrappers."""
    for inner in ("module", "_orig_mod"):
        if isinstance(getattr(model, inner, None), nn.Module):
            return _bare(getattr(model, inner))
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _plain_head(model: nn.Module) -> nn.Linear | None:
    """Return the output head if it can be restricted to some of its rows, else None."""
    if isinstance(model, DistributedDataParallel):
        model = model.module
    outer: Any = model
    # Compiled code and replicas in threads ignore changes for a single call.
    is_bare = _bare(model) is (
        outer.get_base_model() if hasattr(outer, "get_base_model") else outer
    )
    if not is_bare or getattr(outer, "_compiled_call_impl", None) is not None:
        return None
    get_head = getattr(_bare(model), "get_output_embeddings", None)
    head = None if get_head is None else get_head()
    # Subclasses (quantised, LoRA) multiply in their own way; a custom `forward` is a hook.
    if type(head) is not nn.Linear or "forward" in vars(head):
        return None
    return head if type(head.weight.data) is Tensor else None


@contextlib.contextmanager
def _few_rows(
    head: nn.Linear, tokens: Tensor, *, reads_rest: bool, train_rest: bool
) -> Iterator[None]:
    """Restrict the head to the last position: to the tokens of each row (n, C).

    Args:
        head: the output head.
        tokens: (n, C).
        reads_rest: whether all tokens come before them, in the columns that models know.
        train_rest: whether these have a gradient. Without one, a token that is not finite spoils
            no gradient of the letters.
    """

    def forward(hidden: Tensor) -> Tensor:
        last = hidden[:, -1:]
        logits = torch.einsum("nlh,nch->nlc", last, head.weight[tokens])
        if head.bias is not None:
            logits = logits + head.bias[tokens][:, None]
        if not reads_rest:
            return logits
        with torch.set_grad_enabled(torch.is_grad_enabled() and train_rest):
            everything = F.linear(last, head.weight, head.bias)
        return torch.cat((everything, logits), -1)

    head.forward = forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del head.forward
