"""The fork engine: one pass for shared tokens, down a prefix tree whose branches fork the cache.

A branch runs once and leaves a cache; the segments after it continue from that cache. Answers are
read at the ends of leaves. Branches and leaves of many records share a pass. Two passes run at once
if the model's layers keep no state of a pass (`cpu.py`). What a pass contains does not depend
on when it runs, so logits do not either.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.cpu import Task, run_tasks, stream_count
from pact_eval.scoring.engine import OnScored, ScoredView, TokenCount, scored_view
from pact_eval.scoring.passes import Passes, Prefixes, can_fork, new_cache
from pact_eval.scoring.prefix_tree import (
    Branch,
    Leaf,
    PrefixTree,
    consecutive_batches,
    prefix_tree,
    tight_batches,
)

_PADDING: Final = 0.05
_ROWS_READ: Final = 8
_CPU_PASS_TOKENS: Final = 2048

# Of fewer passes, the last ones of one stream would often have no others beside them: four records
# of 1,100 tokens took 1.28 times as long.
_FULL_PASSES: Final = 4


class ForkEngine:
    """Scores views down their prefix tree.

    Args:
        decoder: the model without its output head, adapter included.
        head: its output head.
        device: where it runs.
        batch_tokens: limit on the tokens of a pass, padding included, and on those in the cache of
            branches that run together; a single segment may be longer.
        pass_tokens: number of tokens beyond which a wider pass of several segments is not faster.

    Attributes:
        passes: runs segments through the decoder.
        one_at_a_time: never run two passes at once.
    """

    name = "fork"

    def __init__(
        self,
        decoder: Any,
        head: PlainHead,
        device: torch.device,
        *,
        batch_tokens: int,
        pass_tokens: int,
    ) -> None:
        self.head = head
        self.batch_tokens = batch_tokens
        self.pass_tokens = pass_tokens
        self.one_at_a_time = False
        self.count = TokenCount()
        self.passes = Passes(decoder, device)

    @property
    def shares_prefix(self) -> bool:
        """Whether attention reads a shared prefix from one copy in memory."""
        return self.passes.shares_prefix

    @torch.inference_mode()
    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views; see `Engine`."""
        tree = prefix_tree([view.token_ids for view in views])
        self.count.add_prompts(tree)
        with self.passes.ready():
            _Walk(self, views, on_scored).from_root(tree)

    def stream_count(self, passes: int, tree: PrefixTree) -> int:
        """Return on how many streams to run the passes of a tree.

        Args:
            passes: number of those that can start at once.
            tree: the tree.
        """
        full_pass = max(min(self.batch_tokens, self.pass_tokens), tree.root.longest_way)
        few = tree.tokens < _FULL_PASSES * full_pass
        alone = few or self.one_at_a_time or not self.passes.can_overlap
        return 1 if alone else stream_count(passes)

    def leaf_batches(
        self, prefixes: Prefixes, rows: Sequence[int], lengths: Sequence[int]
    ) -> list[list[int]]:
        """Group leaves by number.

        Args:
            prefixes: the prefixes that the leaves continue.
            rows: number of the prefix of each leaf, ascending.
            lengths: tokens of each leaf.
        """
        # Keys of prefixes that are not shared are copied for the pass, one layer at a time.
        cached = math.inf if self.passes.packs else _ROWS_READ * self.batch_tokens
        return self._batches(prefixes, rows, lengths, cached, _PADDING)

    def branch_batches(
        self, prefixes: Prefixes, rows: Sequence[int], lengths: Sequence[int]
    ) -> list[list[int]]:
        """Group branches as `leaf_batches` groups leaves; branches add to the cache."""
        padding = 0.0 if self.passes.exact_prefixes else _PADDING
        return self._batches(prefixes, rows, lengths, self.batch_tokens, padding)

    def _batches(
        self,
        prefixes: Prefixes,
        rows: Sequence[int],
        lengths: Sequence[int],
        cached_tokens: float,
        padding: float,
    ) -> list[list[int]]:
        new_tokens = min(self.batch_tokens, self.pass_tokens)
        if self.passes.packs:
            behind = [prefixes.lengths[row] for row in rows]
            return consecutive_batches(lengths, behind, new_tokens, cached_tokens)
        batches = tight_batches(
            lengths,
            prefix=prefixes.slots,
            new_tokens=new_tokens,
            cached_tokens=cached_tokens,
            padding=padding,
        )
        return [sorted(batch) for batch in batches]


class _Walk:
    """One walk down one tree."""

    def __init__(
        self, engine: ForkEngine, views: Sequence[EncodedView], on_scored: OnScored
    ) -> None:
        self.engine = engine
        self.passes = engine.passes
        self.views = views
        self.on_scored = on_scored
        self.reporting = threading.Lock()

    def from_root(self, tree: PrefixTree) -> None:
        start = self.passes.nothing()
        if tree.root.ids:
            start = self._extend_prefix(start, [0], [tree.root])
        tasks = self._schedule(start, [tree.root])
        run_tasks(tasks, self.engine.stream_count(len(tasks), tree))

    def _schedule(self, prefixes: Prefixes, branches: Sequence[Branch]) -> list[Task]:
        """Return the passes of the children of branches; prefix i ends with branch i."""
        leaves = [(row, leaf) for row, branch in enumerate(branches) for leaf in branch.leaves]
        rows, lengths = [row for row, _ in leaves], [len(leaf.ids) for _, leaf in leaves]
        reads: list[Task] = [
            partial(
                self._score_leaves,
                prefixes,
                [rows[n] for n in batch],
                [leaves[n][1] for n in batch],
            )
            for batch in self.engine.leaf_batches(prefixes, rows, lengths)
        ]
        inner = [(row, child) for row, branch in enumerate(branches) for child in branch.branches]
        rows, lengths = [row for row, _ in inner], [len(child.ids) for _, child in inner]
        batches = self.engine.branch_batches(prefixes, rows, lengths)
        # A long way that starts last would keep one stream busy after the others have ended.
        batches.sort(key=lambda batch: -max(inner[n][1].longest_way for n in batch))
        return reads + [
            partial(
                self._run_children, prefixes, [rows[n] for n in batch], [inner[n][1] for n in batch]
            )
            for batch in batches
        ]

    def _run_children(
        self, prefixes: Prefixes, rows: Sequence[int], branches: Sequence[Branch]
    ) -> list[Task]:
        """Extend prefixes by branches; return the passes that follow."""
        return self._schedule(self._extend_prefix(prefixes, rows, branches), branches)

    def _extend_prefix(
        self, prefixes: Prefixes, rows: Sequence[int], branches: Sequence[Branch]
    ) -> Prefixes:
        longer, passed = self.passes.extend(prefixes, rows, [branch.ids for branch in branches])
        with self.reporting:
            self.engine.count.passed += passed
        return longer

    def _score_leaves(
        self, prefixes: Prefixes, rows: Sequence[int], leaves: Sequence[Leaf]
    ) -> tuple[Task, ...]:
        """Read answers at the ends of leaves; nothing follows."""
        hidden, passed = self.passes.last_states(prefixes, rows, [leaf.ids for leaf in leaves])
        ends = [
            (row, number) for row, leaf in enumerate(leaves) for number in leaf.prompts
        ]  # identical prompts are read with the letters and the order of each view
        numbers = [number for _, number in ends]
        repeated = hidden[[row for row, _ in ends]]
        scored = self.engine.head.read([self.views[number] for number in numbers], repeated)
        with self.reporting:
            self.engine.count.passed += passed
            self.on_scored(numbers, scored)
        return ()


def fork_engine(model: Any, device: torch.device, batch_tokens: int) -> ForkEngine | str:
    """Return the engine for a model, or the reason why the model cannot be forked.

    Args:
        model: a causal language model or its multimodal shell, with or without an adapter.
        device: where it runs.
        batch_tokens: see `ForkEngine`.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    head = plain_head(inner)
    if head is None:
        return "the output head is not a plain linear layer, or the model changes its logits"
    decoder = inner.get_decoder()
    if decoder is inner or not can_fork(new_cache(decoder)):
        return "the model's cache has a layer type that cannot be forked"
    pass_tokens = _CPU_PASS_TOKENS if device.type == "cpu" else batch_tokens
    return ForkEngine(decoder, head, device, batch_tokens=batch_tokens, pass_tokens=pass_tokens)


_BLOCK_ROWS: Final = 16_384


class PlainHead:
    """An output head that is one linear layer: logits in float32, the vocabulary in blocks.

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
            AdapterError: a logit is not a finite number.
        """
        normalisers = self._log_normalisers(hidden)
        widest = max(views, key=lambda view: len(view.code_tokens)).code_tokens
        rows = torch.tensor(widest, device=self.weight.device)
        # The letters of fewer answers are the first of these: one product serves all views.
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
            # In float32, as the letters are: a 16-bit sum could be less than one of its terms.
            bias = None if self.bias is None else self.bias[block].float()
            weight = self.weight[block].float()
            logits = torch.nn.functional.linear(hidden.float(), weight, bias)
            total = torch.logaddexp(total, logits.logsumexp(-1))
        return total


def plain_head(inner: Any) -> PlainHead | None:
    """Return a model's output head if it is a linear layer and nothing else.

    None if an adapter wraps the head, or if the model caps or scales its logits. Other steps after
    the head are not detected here: the scorer compares the engine with the full model before it
    uses the engine.

    Args:
        inner: a causal language model, or its multimodal shell, without PEFT around it.
    """
    head = inner.get_output_embeddings()
    if type(head) is not torch.nn.Linear or _changes_logits(inner.config.get_text_config()):
        return None
    return PlainHead(head.weight, head.bias)


def _changes_logits(config: Any) -> bool:
    """Return whether a model's configuration caps its logits (Gemma 2) or scales them (Cohere)."""
    scales = (getattr(config, name, None) for name in ("logits_scaling", "logit_scale"))
    capped = getattr(config, "final_logit_softcapping", None) is not None
    return capped or any(scale not in (None, 1.0) for scale in scales)
