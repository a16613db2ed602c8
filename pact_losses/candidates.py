"""The logits of the letters: one position and a few tokens, not the full vocabulary."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pact_losses.batch import PactBatch
from pact_losses.errors import BatchError


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
    batch = batch.to(next(model.parameters()).device)
    inputs, tokens = _inputs(model, batch)
    head = _plain_head(model)
    logits: Tensor
    if head is None:
        # Some models lack this argument and return the logits of every position.
        keep = {"logits_to_keep": 1} if _takes(model, "logits_to_keep") else {}
        logits = model(**inputs, **keep).logits[:, -1].gather(-1, tokens)
    else:
        with _only_letters(head, tokens):
            logits = model(**inputs).logits[:, -1]
    if logits.shape != tokens.shape:
        message = f"expected logits of shape {tuple(tokens.shape)}, got {tuple(logits.shape)}"
        raise BatchError(message)
    if logits.dtype != torch.float64:
        logits = logits.float()
    return logits.masked_fill(~batch.mask, 0.0)


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
def _only_letters(head: nn.Linear, tokens: Tensor) -> Iterator[None]:
    """Restrict the head to the tokens of each row (n, C) at the last position."""

    def forward(hidden: Tensor) -> Tensor:
        logits = torch.einsum("nlh,nch->nlc", hidden[:, -1:], head.weight[tokens])
        return logits if head.bias is None else logits + head.bias[tokens][:, None]

    head.forward = forward  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        del head.forward
