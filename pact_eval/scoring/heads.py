"""The output head, met by nothing but the hidden states of answer positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from pact_eval.prompts import EncodedView
from pact_eval.scoring.scored import ScoredView, scored_view

__all__ = ["PlainHead", "plain_head"]

_BLOCK_ROWS: Final = 16_384


class PlainHead:
    """An output head that is one linear map: logits in float32, those of the vocabulary in blocks.

    Args:
        weight: (V, H).
        bias: (V,) or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.bias = bias

    def read(self, views: Sequence[EncodedView], hidden: Tensor) -> list[ScoredView]:
        """Read views.

        Args:
            views: n views.
            hidden: (n, H), the last hidden state at each view's last position.

        Raises:
            AdapterError: a logit is no finite number.
        """
        normalisers = self._log_normalisers(hidden)
        widest = max(views, key=lambda view: len(view.code_tokens)).code_tokens
        rows = torch.tensor(widest, device=self.weight.device)
        # The codes of fewer answers are the first of these: one product serves all views.
        codes = self._logits(hidden, rows).cpu()
        return [
            scored_view(view, row[: len(view.code_tokens)], normaliser)
            if view.code_tokens == widest[: len(view.code_tokens)]
            else scored_view(view, self._own(hidden[index], view), normaliser)
            for index, (view, row, normaliser) in enumerate(
                zip(views, codes, normalisers.cpu(), strict=True)
            )
        ]

    def _own(self, hidden: Tensor, view: EncodedView) -> Tensor:
        rows = torch.tensor(view.code_tokens, device=self.weight.device)
        return self._logits(hidden.unsqueeze(0), rows)[0].cpu()

    def _logits(self, hidden: Tensor, rows: Tensor) -> Tensor:
        logits = hidden.float() @ self.weight[rows].float().T
        return logits if self.bias is None else logits + self.bias[rows].float()

    def _log_normalisers(self, hidden: Tensor) -> Tensor:
        total = torch.full((len(hidden),), -torch.inf, device=hidden.device)
        for start in range(0, len(self.weight), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            # In float32, as codes are: rounded to 16 bits, the whole came out less than its part.
            bias = None if self.bias is None else self.bias[block].float()
            weight = self.weight[block].float()
            logits = torch.nn.functional.linear(hidden.float(), weight, bias)
            total = torch.logaddexp(total, logits.logsumexp(-1))
        return total


def plain_head(inner: Any) -> PlainHead | None:
    """Return a model's output head where it is a linear layer and nothing else.

    A head that an adapter wraps is none, nor is one behind which the model caps or scales its
    logits. What else a model may do there cannot be seen from here: the engine compares with the
    whole model before it relies on this.

    Args:
        inner: a causal language model, or its multimodal shell, without PEFT around it.
    """
    head = inner.get_output_embeddings()
    if type(head) is not torch.nn.Linear or _changes_logits(inner.config.get_text_config()):
        return None
    return PlainHead(head.weight, head.bias)


def _changes_logits(config: Any) -> bool:
    """Tell whether a model's configuration has its logits capped (Gemma 2) or scaled (Cohere)."""
    scales = (getattr(config, name, None) for name in ("logits_scaling", "logit_scale"))
    capped = getattr(config, "final_logit_softcapping", None) is not None
    return capped or any(scale not in (None, 1.0) for scale in scales)
