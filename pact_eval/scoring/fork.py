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
from pact_eval.scoring.caches import (
    can_fork,
    forked,
    forked_in_place,
    has_recurrent_or_window_layers,
    new_cache,
)
from pact_eval.scoring.executors import OnScored, TokenCount
from pact_eval.scoring.heads import PlainHead, plain_head
from pact_eval.scoring.last_layer import LastLayer
from pact_eval.scoring.prefix_tree import Branch, Leaf, PrefixTree, prefix_tree
from pact_eval.scoring.shared_prefix import can_share, shared_attention

__all__ = ["ForkExecutor", "fork_executor"]

_PADDING: Final = 0.05
_ROWS_READ: Final = 8
_CPU_PASS_TOKENS: Final = 2048


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
        pass_tokens: tokens beyond which a wider pass of several rows is no faster.
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
        pass_tokens: int,
        pad_token_id: int = 0,
    ) -> None:
        self.decoder = decoder
        self.head = head
        self.device = device
        self.batch_tokens = batch_tokens
        self.pass_tokens = pass_tokens
        self.pad_token_id = pad_token_id
        self.count = TokenCount()
        empty = new_cache(decoder)
        self._last_layer = LastLayer(decoder, len(empty.layers))
        self._exact_prefixes = has_recurrent_or_window_layers(empty)
        attention = str(getattr(decoder.config, "_attn_implementation", ""))
        self.shares_prefix = can_share(empty, device, attention)

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
        self, prefix: _Prefix, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> _Prefix:
        """Run segments, each behind a row of a prefix, and return the longer prefix.

        Args:
            prefix: what is cached; stays as it is.
            rows: the row of the prefix that each segment goes on from.
            segments: token ids.
        """
        return self._run(prefix, rows, segments, final=False)[1]

    def last_states(
        self, prefix: _Prefix, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> Tensor:
        """Run segments as `extend` does, and return (n, H) states at the end of each."""
        states, _ = self._run(prefix, rows, segments, final=True)
        return states[torch.arange(len(segments), device=self.device), self._ends(segments)]

    def _ends(self, segments: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([len(segment) - 1 for segment in segments], device=self.device)

    def _run(
        self,
        prefix: _Prefix,
        rows: Sequence[int],
        segments: Sequence[Sequence[int]],
        *,
        final: bool,
    ) -> tuple[Tensor, _Prefix]:
        """Return (n, S, H) states, of use at the ends of a final pass only, and the prefix."""
        new = [len(segment) for segment in segments]
        width = max(new)
        ids = torch.full((len(segments), width), self.pad_token_id, dtype=torch.long)
        for row, segment in enumerate(segments):
            ids[row, : len(segment)] = torch.tensor(segment)
        behind = [prefix.lengths[row] for row in rows]
        positions = torch.tensor(behind)[:, None] + torch.arange(width)
        cache, mask = self._behind(prefix, torch.tensor(rows), new, width, final=final)
        with self._last_layer.read_at(self._ends(segments) if final else None):
            output = self.decoder(
                input_ids=ids.to(self.device),
                attention_mask=None if mask is None else mask.long().to(self.device),
                position_ids=positions.to(self.device),
                past_key_values=cache,
                use_cache=True,
            )
        self.count.passed += ids.numel()
        lengths = [start + length for start, length in zip(behind, new, strict=True)]
        return output.last_hidden_state, _Prefix(cache, lengths, mask)

    def _behind(
        self, prefix: _Prefix, index: Tensor, new: Sequence[int], width: int, *, final: bool
    ) -> tuple[DynamicCache, Tensor | None]:
        """Return the cache of a pass and the mask over its slots."""
        if self.shares_prefix:
            unread = self._last_layer.known and not final
            return forked_in_place(
                prefix.cache, index, None if final else new, last_unread=unread
            ), None
        mask = _joined_mask(prefix, index, new, width, final=final)
        return forked(prefix.cache, index, final=final), mask

    def leaf_batches(self, prefix: _Prefix, lengths: Sequence[int]) -> list[list[int]]:
        """Group leaves behind a prefix, by number."""
        # The keys that a pass reads are copies, a layer at a time, unless rows share them.
        read = (
            sum(lengths) + len(lengths) * prefix.slots
            if self.shares_prefix
            else _ROWS_READ * self.batch_tokens
        )
        return self._batches(prefix, lengths, cached_tokens=read, padding=_PADDING)

    def branch_batches(self, prefix: _Prefix, lengths: Sequence[int]) -> list[list[int]]:
        """Group branches behind a prefix, by number."""
        padding = 0.0 if self._exact_prefixes else _PADDING
        return self._batches(prefix, lengths, cached_tokens=self.batch_tokens, padding=padding)

    def _batches(
        self, prefix: _Prefix, lengths: Sequence[int], *, cached_tokens: int, padding: float
    ) -> list[list[int]]:
        batches = tight_batches(
            lengths,
            prefix=prefix.slots,
            new_tokens=min(self.batch_tokens, self.pass_tokens),
            cached_tokens=cached_tokens,
            padding=padding,
        )
        # Rows behind one prefix stand together.
        return [sorted(batch) for batch in batches]


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
            start = self.executor.extend(start, [0], [tree.root.ids])
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
            longer = self.executor.extend(prefix, rows, segments)
            self._down(longer, [child for _, child in chosen])

    def _read(self, prefix: _Prefix, leaves: Sequence[tuple[int, Leaf]]) -> None:
        rows, segments = [row for row, _ in leaves], [leaf.ids for _, leaf in leaves]
        hidden = self.executor.last_states(prefix, rows, segments)
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
    pass_tokens = _CPU_PASS_TOKENS if device.type == "cpu" else batch_tokens
    return ForkExecutor(decoder, head, device, batch_tokens=batch_tokens, pass_tokens=pass_tokens)


def _joined_mask(
    prefix: _Prefix, index: Tensor, new: Sequence[int], width: int, *, final: bool
) -> Tensor | None:
    """Return the mask of old and new slots, or None where every slot that is looked at is real."""
    # Padding behind a leaf's last token is never looked back at.
    padded = not final and min(new) < width
    if prefix.mask is None and not padded:
        return None
    slots = prefix.slots
    before = torch.ones((len(new), slots), dtype=torch.bool)
    if prefix.mask is not None:
        before = prefix.mask[index]
    after = torch.arange(width) < torch.tensor(new)[:, None]
    return torch.cat([before, after], dim=1)
