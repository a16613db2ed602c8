"""The forward pass: encoded views in, code logits out.

Prompts are padded on the left, so that the last position of every row is the answer position, and
only that position's logits are computed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from pact_eval.encoding import EncodedView
from pact_eval.errors import AdapterError
from pact_eval.scoring.batching import length_sorted_batches
from pact_eval.views import to_canonical

__all__ = ["Engine", "ScoredView", "one_by_one"]


@dataclass(frozen=True)
class ScoredView:
    """What the model says about one view.

    Attributes:
        logits: shape (C,), float32, canonical order.
        code_mass: share of the full next-token distribution on the C codes, from 0 to 1.
    """

    logits: npt.NDArray[np.float32]
    code_mass: float


class Engine:
    """Scores encoded views in length-sorted batches within a token budget.

    Args:
        model: a causal language model (or its multimodal shell), with or without an adapter.
        batch_tokens: padded tokens a batch may hold.
        pad_token_id: any valid id; padding is masked out.
    """

    def __init__(self, model: Any, batch_tokens: int, pad_token_id: int = 0) -> None:
        self.model = model
        self.batch_tokens = batch_tokens
        self.pad_token_id = pad_token_id
        self.device = next(model.parameters()).device
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        # A multimodal shell derives positions of its own from the mask.
        self._takes_positions = "pixel_values" not in inspect.signature(inner.forward).parameters

    def score(
        self,
        views: Sequence[EncodedView],
        on_batch: Callable[[int], None] = lambda _views_done: None,
    ) -> list[ScoredView]:
        """Score views.

        Args:
            views: encoded views.
            on_batch: told after every batch how many of the views are done.

        Returns:
            Their scores, in the order of `views`.

        Raises:
            AdapterError: a logit is no finite number, or memory runs out.
        """
        batches = length_sorted_batches([len(view.token_ids) for view in views], self.batch_tokens)
        scored: dict[int, ScoredView] = {}
        for batch in batches:
            try:
                results = self._forward([views[index] for index in batch])
            except torch.OutOfMemoryError as error:
                message = (
                    f"out of memory at {self.batch_tokens:,} tokens a batch; what was scored is "
                    "kept, go on with a smaller --batch-tokens in another run folder"
                )
                raise AdapterError(message) from error
            scored |= dict(zip(batch, results, strict=True))
            on_batch(len(scored))
        return [scored[index] for index in range(len(views))]

    def prove_adapter(self, views: Sequence[EncodedView]) -> float:
        """Prove that the adapter changes the logits.

        Args:
            views: a few views of the data that will be scored.

        Returns:
            The largest absolute difference of a logit with the adapter on and off.

        Raises:
            AdapterError: every logit is identical: the adapter is not applied or never trained.
        """
        on = self.score(views)
        with self.model.disable_adapter():
            off = self.score(views)
        difference = max(
            float(np.abs(a.logits - b.logits).max()) for a, b in zip(on, off, strict=True)
        )
        if difference == 0.0:
            message = (
                f"the adapter changes nothing: on {len(views)} views every logit is identical with "
                "the adapter switched off (is it untrained?)"
            )
            raise AdapterError(message)
        return difference

    @torch.inference_mode()
    def _forward(self, views: Sequence[EncodedView]) -> list[ScoredView]:
        width = max(len(view.token_ids) for view in views)
        ids = torch.full((len(views), width), self.pad_token_id, dtype=torch.long)
        mask = torch.zeros((len(views), width), dtype=torch.long)
        for row, view in enumerate(views):
            ids[row, width - len(view.token_ids) :] = torch.tensor(view.token_ids)
            mask[row, width - len(view.token_ids) :] = 1
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if self._takes_positions:
            inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0).to(self.device)
        output = self.model(**inputs, logits_to_keep=1, use_cache=False)
        last = output.logits[:, -1].float()
        return [_read_codes(row, view) for row, view in zip(last, views, strict=True)]


@torch.inference_mode()
def one_by_one(model: Any, views: Sequence[EncodedView]) -> list[ScoredView]:
    """Score one unpadded prompt at a time with the plain forward pass: the oracle for engines."""
    device = next(model.parameters()).device
    return [
        _read_codes(
            model(input_ids=torch.tensor([view.token_ids], device=device)).logits[0, -1].float(),
            view,
        )
        for view in views
    ]


def _read_codes(next_token_logits: torch.Tensor, view: EncodedView) -> ScoredView:
    codes = next_token_logits[torch.tensor(view.code_tokens, device=next_token_logits.device)]
    if not bool(torch.isfinite(codes).all()):
        message = (
            f"record {view.record_id}, view {view.view}: the model gives a logit that is no finite "
            "number (damaged weights, or a dtype that overflows)"
        )
        raise AdapterError(message)
    mass = torch.exp(codes.logsumexp(-1) - next_token_logits.logsumexp(-1))
    in_code_order = codes.cpu().numpy()
    return ScoredView(
        logits=to_canonical(in_code_order, view.code_order).astype(np.float32),
        code_mass=float(mass),
    )
