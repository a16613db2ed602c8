"""The interface of an engine: encoded views in, logits of the answer letters out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from pact_eval.errors import AdapterError
from pact_eval.prompts import EncodedView, to_canonical


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


OnScored = Callable[[Sequence[int], Sequence[ScoredView]], None]
"""Called with numbers of views and their scores, as soon as they are known."""


@dataclass
class TokenCount:
    """What went through a model.

    Attributes:
        prompts: tokens of all prompts, each by itself.
        floor: what must pass at least, if every prefix is computed once.
        passed: what did pass, padding included.
    """

    prompts: int = 0
    floor: int = 0
    passed: int = 0

    def reset(self) -> None:
        """Count from nothing again."""
        self.prompts = self.floor = self.passed = 0

    @contextmanager
    def of_prompts_counted_before(self) -> Iterator[None]:
        """Count what passes inside, but not the prompts: they are run another time."""
        prompts, floor = self.prompts, self.floor
        try:
            yield
        finally:
            self.prompts, self.floor = prompts, floor


class Executor(Protocol):
    """Runs views through a model.

    Attributes:
        name: of the way it does it.
        batch_tokens: tokens that a pass may have, padding included.
        count: what has gone through the model so far.
    """

    name: str
    batch_tokens: int
    count: TokenCount

    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views, in any order, and hand the scores over as they come.

        Raises:
            AdapterError: a logit is no finite number.
            torch.OutOfMemoryError: memory runs out; what was handed over is good.
        """
