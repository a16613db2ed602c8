"""What a model says about one view, read from the logits of its last position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from pact_eval.errors import AdapterError
from pact_eval.prompts import EncodedView, to_canonical

__all__ = ["ScoredView", "from_next_token_logits", "scored_view"]


@dataclass(frozen=True)
class ScoredView:
    """What the model says about one view.

    Attributes:
        logits: shape (C,), float32, canonical order.
        answer_mass: share of the full next-token distribution on the C codes, from 0 to 1.
    """

    logits: npt.NDArray[np.float32]
    answer_mass: float


def scored_view(
    view: EncodedView, code_logits: torch.Tensor, log_normaliser: torch.Tensor
) -> ScoredView:
    """Read one view.

    Args:
        view: the view.
        code_logits: (C,) float32, in code order.
        log_normaliser: (), log-sum-exp of the logits of the whole vocabulary.

    Raises:
        AdapterError: a logit is no finite number; the message names the record and the view.
    """
    if not bool(torch.isfinite(code_logits).all()):
        message = (
            f"record {view.record_id}, view {view.view}: the model gives a logit that is no finite "
            "number (damaged weights, or a dtype that overflows)"
        )
        raise AdapterError(message)
    mass = torch.exp(code_logits.logsumexp(-1) - log_normaliser)
    in_code_order = code_logits.cpu().numpy()
    return ScoredView(
        logits=to_canonical(in_code_order, view.code_order).astype(np.float32),
        answer_mass=float(mass),
    )


def from_next_token_logits(view: EncodedView, logits: torch.Tensor) -> ScoredView:
    """Read one view from the (V,) logits of the whole vocabulary, float32."""
    codes = logits[torch.tensor(view.code_tokens, device=logits.device)]
    return scored_view(view, codes, logits.logsumexp(-1))
