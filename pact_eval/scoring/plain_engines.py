"""The two engines that run full prompts through any model that transformers can load."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.batching import length_sorted_batches
from pact_eval.scoring.engine import OnScored, ScoredView, TokenCount, from_next_token_logits
from pact_eval.scoring.prefix_tree import prefix_tree


class NaiveEngine:
    """One unpadded prompt at a time through the plain forward pass; other engines must match it.

    Args:
        model: a causal language model or its multimodal shell, with or without an adapter.
    """

    name = "naive"
    shares_prefix = False

    def __init__(self, model: Any) -> None:
        self.model = model
        self.batch_tokens = 1
        self.count = TokenCount()

    @torch.inference_mode()
    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views; see `Engine`."""
        self.count.add_prompts(prefix_tree([view.token_ids for view in views]))
        device = next(self.model.parameters()).device
        for number, view in enumerate(views):
            ids = torch.tensor([view.token_ids], device=device)
            self.count.passed += ids.numel()
            logits = self.model(input_ids=ids, logits_to_keep=1, use_cache=False).logits[0, -1]
            on_scored([number], [from_next_token_logits(view, logits.float())])


class BatchedEngine:
    """Full prompts in length-sorted batches, padded on the left; the last column is the answer.

    Args:
        model: a causal language model or its multimodal shell, with or without an adapter.
        batch_tokens: limit on the tokens of a batch, padding included; a longer prompt runs alone.
    """

    name = "batched"
    shares_prefix = False

    def __init__(self, model: Any, batch_tokens: int) -> None:
        self.model = model
        self.batch_tokens = batch_tokens
        self.count = TokenCount()
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        # A multimodal shell derives its own positions from the mask.
        self._takes_positions = "pixel_values" not in inspect.signature(inner.forward).parameters

    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views; see `Engine`."""
        self.count.add_prompts(prefix_tree([view.token_ids for view in views]))
        lengths = [len(view.token_ids) for view in views]
        for batch in length_sorted_batches(lengths, self.batch_tokens):
            on_scored(batch, self._forward([views[number] for number in batch]))

    @torch.inference_mode()
    def _forward(self, views: Sequence[EncodedView]) -> list[ScoredView]:
        device = next(self.model.parameters()).device
        width = max(len(view.token_ids) for view in views)
        # Any valid id may pad: the mask hides it.
        ids = torch.zeros((len(views), width), dtype=torch.long)
        mask = torch.zeros((len(views), width), dtype=torch.long)
        for row, view in enumerate(views):
            ids[row, width - len(view.token_ids) :] = torch.tensor(view.token_ids)
            mask[row, width - len(view.token_ids) :] = 1
        self.count.passed += ids.numel()
        inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        if self._takes_positions:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0).to(device)
        output = self.model(**inputs, logits_to_keep=1, use_cache=False)
        last = output.logits[:, -1].float()
        return [from_next_token_logits(view, row) for row, view in zip(last, views, strict=True)]
