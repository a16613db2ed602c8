"""Score many views, each shared token once: down a prefix tree, forking the cache at branches.

A branch runs once and leaves a cache; what follows it goes on from that cache. Answers are read at
the leaves, which run together: padding on their right comes after every answer position, where
nothing looks back at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from pact_eval.encoding import EncodedView
from pact_eval.scoring.batching import tight_batches
from pact_eval.scoring.caches import can_fork, forked, has_recurrent_or_window_layers, new_cache
from pact_eval.scoring.executors import OnScored, TokenCount
from pact_eval.scoring.heads import PlainHead, plain_head
from pact_eval.scoring.prefix_tree import Branch, Leaf, PrefixTree, prefix_tree
from pact_eval.scoring.shared_prefix import can_share, shared_attention

__all__ = ["ForkExecutor", "fork_executor"]

_PADDING: Final = 0.05
_ROWS_READ: Final = 8


@dataclass
class _Prefix:
    """What rows have behind them.

    Attributes:
        cache: their keys, values and states.
        lengths: tokens of each row.
        mask: (rows, slots) of the cache, False where a slot is padding; None where none is.
    """

    cache: DynamicCache
    lengths: list[int]
    mask: Tensor | None = None

    @property
    def slots(self) -> int:
        return max(self.lengths) if self.mask is None else self.mask.shape[1]


class ForkExecutor:
    """Scores views down their prefix tree.

    Args:
        decoder: the model without its output head, adapter included.
        head: its output head.
        device: where it runs.
        batch_tokens: tokens that a pass may have, padding included, and that the cache of a branch
            batch may hold; a single row may be longer.
        branch_rows: branches that run together; 1 on a CPU, where a wider pass is no faster.
        pad_token_id: any valid id.

    Attributes:
        shares_prefix: whether passes attend to a prefix that is in memory once.
    """

    name = "fork"

    def __init__(
        self,
        decoder: Any,
        head: PlainHead,
        device: torch.device,
        *,
        batch_tokens: int,
        branch_rows: int,
        pad_token_id: int = 0,
    ) -> None:
        self.decoder = decoder
        self.head = head
        self.device = device
        self.batch_tokens = batch_tokens
        self.branch_rows = branch_rows
        self.pad_token_id = pad_token_id
        self.count = TokenCount()
        empty = new_cache(decoder)
        self._exact_prefixes = has_recurrent_or_window_layers(empty)
        attention = str(getattr(decoder.config, "_attn_implementation", ""))
        self.shares_prefix = branch_rows == 1 and can_share(empty, device, attention)

    @torch.inference_mode()
    def score(self, views: Sequence[EncodedView], on_scored: OnScored) -> None:
        """Score views; see `executors.Executor`."""
        tree = prefix_tree([view.token_ids for view in views])
        self.count.prompts += tree.prompt_tokens
        self.count.floor += tree.floor
        walk = _Walk(self, views, on_scored)
        with shared_attention(self.decoder) if self.shares_prefix else nullcontext():
            walk.from_root(tree)

    def extend(
        self,
        prefix: _Prefix,
        rows: Sequence[int],
        segments: Sequence[Sequence[int]],
        *,
        final: bool,
    ) -> tuple[Tensor, _Prefix]:
        """Run segments, each behind a row of a prefix.

        Args:
            prefix: what is cached; stays as it is.
            rows: the row of the prefix that each segment goes on from.
            segments: token ids.
            final: nothing goes on from here.

        Returns:
            (n, H) last hidden states at the end of each segment, and the longer prefix.
        """
        width = max(map(len, segments))
        ids = torch.full((len(segments), width), self.pad_token_id, dtype=torch.long)
        for row, segment in enumerate(segments):
            ids[row, : len(segment)] = torch.tensor(segment)
        index = torch.tensor(rows, dtype=torch.long)
        behind = [prefix.lengths[row] for row in rows]
        lengths = [start + len(segment) for start, segment in zip(behind, segments, strict=True)]
        mask = _joined_mask(prefix, index, segments, width, final=final)
        cache = forked(prefix.cache, index, final=final, shared=self.shares_prefix)
        positions = torch.tensor(behind)[:, None] + torch.arange(width)
        output = self.decoder(
            input_ids=ids.to(self.device),
            attention_mask=None if mask is None else mask.long().to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=cache,
            use_cache=True,
        )
        self.count.passed += ids.numel()
        ends = torch.tensor([len(segment) - 1 for segment in segments], device=self.device)
        states = output.last_hidden_state
        hidden = states[torch.arange(len(segments), device=self.device), ends]
        return hidden, _Prefix(cache, lengths, mask)

    def leaf_batches(self, prefix: _Prefix, lengths: Sequence[int]) -> list[list[int]]:
        """Group leaves behind a prefix, by number."""
        return tight_batches(
            lengths,
            prefix=prefix.slots,
            new_tokens=self.batch_tokens,
            cached_tokens=_ROWS_READ * self.batch_tokens,
            padding=_PADDING,
        )

    def branch_batches(self, prefix: _Prefix, lengths: Sequence[int]) -> list[list[int]]:
        """Group branches behind a prefix, by number."""
        if self.branch_rows == 1:
            return [[number] for number in range(len(lengths))]
        batches = tight_batches(
            lengths,
            prefix=prefix.slots,
            new_tokens=self.batch_tokens,
            cached_tokens=self.batch_tokens,
            padding=0.0 if self._exact_prefixes else _PADDING,
        )
        return [
            batch[start : start + self.branch_rows]
            for batch in batches
            for start in range(0, len(batch), self.branch_rows)
        ]


class _Walk:
    """One walk down one tree."""

    def __init__(
        self, executor: ForkExecutor, views: Sequence[EncodedView], on_scored: OnScored
    ) -> None:
        self.executor = executor
        self.views = views
        self.on_scored = on_scored

    def from_root(self, tree: PrefixTree) -> None:
        start = _Prefix(new_cache(self.executor.decoder), [0])
        if tree.root.ids:
            _, start = self.executor.extend(start, [0], [tree.root.ids], final=False)
        self._down(start, [tree.root])

    def _down(self, prefix: _Prefix, branches: Sequence[Branch]) -> None:
        """Run what follows branches; branch number i is behind row i of the prefix."""
        leaves = [(row, leaf) for row, branch in enumerate(branches) for leaf in branch.leaves]
        for batch in self.executor.leaf_batches(prefix, [len(leaf.ids) for _, leaf in leaves]):
            self._read(prefix, [leaves[number] for number in batch])
        inner = [(row, child) for row, branch in enumerate(branches) for child in branch.branches]
        for batch in self.executor.branch_batches(prefix, [len(child.ids) for _, child in inner]):
            chosen = [inner[number] for number in batch]
            rows, segments = [row for row, _ in chosen], [child.ids for _, child in chosen]
            _, longer = self.executor.extend(prefix, rows, segments, final=False)
            self._down(longer, [child for _, child in chosen])

    def _read(self, prefix: _Prefix, leaves: Sequence[tuple[int, Leaf]]) -> None:
        rows, segments = [row for row, _ in leaves], [leaf.ids for _, leaf in leaves]
        hidden, _ = self.executor.extend(prefix, rows, segments, final=True)
        ends = [
            (row, number) for row, (_, leaf) in enumerate(leaves) for number in leaf.prompts
        ]  # identical prompts are read with the codes and the order of each view
        numbers = [number for _, number in ends]
        repeated = hidden[[row for row, _ in ends]]
        self.on_scored(
            numbers, self.executor.head.read([self.views[number] for number in numbers], repeated)
        )


def fork_executor(model: Any, device: torch.device, batch_tokens: int) -> ForkExecutor | str:
    """Return the executor for a model, or why there is none.

    Args:
        model: a causal language model or its multimodal shell, with or without an adapter.
        device: where it runs.
        batch_tokens: see `ForkExecutor`.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    head = plain_head(inner)
    if head is None:
        return "the output head is not a plain linear layer"
    decoder = inner.get_decoder()
    if decoder is inner or not can_fork(new_cache(decoder)):
        return "the model keeps a cache of a kind that is not known here"
    branch_rows = 1 if device.type == "cpu" else batch_tokens
    return ForkExecutor(decoder, head, device, batch_tokens=batch_tokens, branch_rows=branch_rows)


def _joined_mask(
    prefix: _Prefix, index: Tensor, segments: Sequence[Sequence[int]], width: int, *, final: bool
) -> Tensor | None:
    """Return the mask of old and new slots, or None where every slot that is looked at is real."""
    # Padding behind a leaf's last token is never looked back at.
    padded = not final and any(len(segment) < width for segment in segments)
    if prefix.mask is None and not padded:
        return None
    slots = prefix.slots
    before = torch.ones((len(segments), slots), dtype=torch.bool)
    if prefix.mask is not None:
        before = prefix.mask[index]
    lengths = torch.tensor([len(segment) for segment in segments])
    new = torch.arange(width) < lengths[:, None]
    return torch.cat([before, new], dim=1)
