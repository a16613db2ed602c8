"""The interface of an engine: encoded views in, logits of the answer letters out.

To add an engine (another way through a model, or a server), write a class with the members of
`Engine`. It receives views: `token_ids` is the prompt, `code_tokens` has the letters in the order
shown. It returns one `ScoredView` per view, made with `scored_view`. Then add its name to
`EngineName` (`request.py`), and construct it in `Scorer._made` (`scorer.py`). Before the scorer
uses an engine, it compares the engine with `NaiveEngine` on the first views. When memory runs out,
it halves `batch_tokens`. An engine does neither itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from pact_eval.errors import AdapterError
from pact_eval.prompts.contract import to_canonical
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.prefix_tree import PrefixTree, length_sorted_batches, prefix_tree


@dataclass(frozen=True)
class ScoredView:
    """The result for one view, read at the last position of its prompt.

    Attributes:
        logits: shape (C,), float32, canonical order.
        answer_mass: probability on the C answer letters under the full next-token distribution.
    """

    logits: npt.NDArray[np.float32]
    answer_mass: float


OnScored = Callable[[Sequence[int], Sequence[ScoredView]], None]
"""Called with indices of views and their scores, as soon as these are known."""


@dataclass
class TokenCount:
    """Tokens that went through a model.

    Attributes:
        prompts: tokens of all prompts, each counted in full.
        floor: the minimum number that must pass, if every shared prefix is computed once.
        passed: tokens that passed, padding included.
    """

    prompts: int = 0
    floor: int = 0
    passed: int = 0

    def add_prompts(self, tree: PrefixTree) -> None:
        """Count the prompts of a tree, which are about to be run."""
        self.prompts += tree.prompt_tokens
        self.floor += tree.floor

    def reset(self) -> None:
        """Set all counts to zero."""
        self.prompts = self.floor = self.passed = 0

    @contextmanager
    def of_prompts_counted_before(self) -> Iterator[None]:
        """Count passed tokens inside, but not the prompts: they are run a second time."""
        prompts, floor = self.prompts, self.floor
        try:
            yield
        finally:
            self.prompts, self.floor = prompts, floor


class Engine(Protocol):
    """Runs views through a model.

    Attributes:
        name: name of the engine, recorded in the run.
        batch_tokens: limit on the tokens of a pass, padding included; the scorer lowers it when
            memory runs out.
        shares_prefix: whether attention reads a shared prefix from one copy in memory; recorded in
            the run.
        count: tokens that have gone through the model so far.
    """

    name: str
    batch_tokens: int
    count: TokenCount

    @property
    def shares_prefix(self) -> bool: ...  # noqa: D102 -- see the class

    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views in any order, and call `on_scored` as soon as some are done.

        Args:
            views: the views.
            on_scored: called with indices into `views` and their scores; each view exactly once.

        Raises:
            AdapterError: a logit is not a finite number.
            torch.OutOfMemoryError: memory ran out; scores already passed on remain valid.
        """


def scored_view(
    view: EncodedView, code_logits: torch.Tensor, log_normaliser: torch.Tensor
) -> ScoredView:
    """Turn the logits of one view's letters into its result.

    Args:
        view: the view.
        code_logits: (C,) float32, in letter order.
        log_normaliser: (), log-sum-exp of the logits of the full vocabulary.

    Raises:
        AdapterError: a logit is not a finite number; the message names the record and the view.
    """
    if not bool(torch.isfinite(code_logits).all()):
        raise AdapterError(
            f"record {view.record_id}, view {view.view}: expected finite logits, found "
            "infinity or NaN (damaged weights, or a dtype that overflows: try --dtype fp32)"
        )
    mass = torch.exp(code_logits.logsumexp(-1) - log_normaliser)
    in_code_order = code_logits.cpu().numpy()
    return ScoredView(
        logits=to_canonical(in_code_order, view.code_order).astype(np.float32),
        answer_mass=float(mass),
    )


def from_next_token_logits(view: EncodedView, logits: torch.Tensor) -> ScoredView:
    """Return the result of one view from the (V,) logits of the full vocabulary, float32."""
    codes = logits[torch.tensor(view.code_tokens, device=logits.device)]
    return scored_view(view, codes, logits.logsumexp(-1))


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
