r"""Attention of many rows to prefixes that are in memory once, on a CPU.

Rows of a pass that go on from the same prefix need no copy of its keys and values, and no mask over
its positions: their queries attend to the prefix as one long row, and each row to its own new
tokens causally. Both products are written beside each other, so that one softmax runs over all
keys,

.. math:: o = \mathrm{softmax}\left(\left[ q K_p^T \;\; q K^T + M \right]\right)
              \left[ V_p ; V \right]

with :math:`M` the causal mask. (Juravsky et al., "Hydragen: high-throughput LLM inference with
shared prefixes", 2024, for the folding of rows on GPUs.) Queries pass in blocks, so that scores
stay in the processor's cache; keys behind a block are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import DynamicCache, DynamicLayer, LinearAttentionLayer

__all__ = [
    "Prefixes",
    "SharedLayer",
    "can_share",
    "shared_attention",
    "shared_layer",
    "shared_prefix_attention",
]

_NAME: Final = "pact_shared_prefix"
_BEHIND: Final = "_pact_behind"

# Queries that pass together, for each key head: enough for the products to run at full speed.
_BLOCK: Final = 512

_Prefix = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Prefixes:
    """What the rows of a pass have behind them in one layer.

    Attributes:
        parts: keys and values of each prefix, (key heads, length, d) both.
        rows: for each row of the pass the number of its prefix; rows of one prefix stand together.
        unread: nothing reads what the layer makes of the pass but for its keys and values.
    """

    parts: Sequence[tuple[Tensor, Tensor]] = ()
    rows: Sequence[int] = ()
    unread: bool = False


class SharedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """An attention layer that shows new keys and values alone, with the prefixes attached to them.

    Attributes:
        parts: what rows of the cache hold, as in `Prefixes`; empty before the first pass.
        rows: as in `Prefixes`, for the coming pass.
        lengths: tokens of each row in the coming pass, without its padding; None where nothing
            goes on from it, so that nothing of it is kept.
        unread: as in `Prefixes`.
    """

    parts: Sequence[tuple[Tensor, Tensor]] = ()
    rows: Sequence[int] = ()
    lengths: Sequence[int] | None = None
    unread: bool = False

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Attach the prefixes to the new keys; put these behind them if the pass is gone on from.

        Args:
            key_states: (n, key heads, S, d) of the new tokens.
            value_states: likewise.
        """
        behind = Prefixes(self.parts, self.rows, self.unread)
        setattr(key_states, _BEHIND, behind)
        if self.lengths is not None:
            self.parts = [
                (
                    _longer(behind, row, 0, key_states[row, :, :length]),
                    _longer(behind, row, 1, value_states[row, :, :length]),
                )
                for row, length in enumerate(self.lengths)
            ]
        return key_states, value_states

    def get_seq_length(self) -> int:
        """Return the length of the longest prefix."""
        return max((keys.shape[-2] for keys, _ in self.parts), default=0)


def shared_layer(
    layer: DynamicLayer, rows: Sequence[int], lengths: Sequence[int] | None
) -> SharedLayer:
    """Return the layer for a pass: its rows behind those of a layer, which stays as it is.

    Args:
        layer: an empty one, or one that this function returned.
        rows: see `SharedLayer`.
        lengths: see `SharedLayer`.
    """
    shared = SharedLayer()  # type: ignore[no-untyped-call]
    shared.rows, shared.lengths = rows, lengths
    if isinstance(layer, SharedLayer):
        shared.parts = layer.parts
    return shared


def _longer(behind: Prefixes, row: int, which: int, new: Tensor) -> Tensor:
    if not behind.parts:
        return new.contiguous()
    return torch.cat([behind.parts[behind.rows[row]][which], new], dim=-2)


def can_share(cache: DynamicCache, device: torch.device, attention: str) -> bool:
    """Tell whether a model's passes can go through `shared_prefix_attention`.

    Args:
        cache: an empty one of the model.
        device: where the model runs.
        attention: the implementation that the model uses otherwise.
    """
    known = all(type(layer) in (DynamicLayer, LinearAttentionLayer) for layer in cache.layers)
    return known and device.type == "cpu" and attention in ("sdpa", "eager")


@contextmanager
def shared_attention(decoder: Any) -> Iterator[None]:
    """Let a decoder attend through `shared_prefix_attention`, and put things back."""
    before = decoder.config._attn_implementation
    AttentionInterface.register(_NAME, shared_prefix_attention)
    decoder.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)


def shared_prefix_attention(
    _module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **_kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend to the prefixes that are attached to the keys, and causally to the keys.

    Products and softmax are float32, whatever the model is.

    Args:
        query: (n, heads, S, d).
        key: (n, key heads, S, d), as a `SharedLayer` returns them.
        value: likewise.
        attention_mask: None; a mask would be ignored.
        scaling: of the products; None for 1/sqrt(d).

    Returns:
        (n, S, heads, d), zeros where nothing reads them; and None for the weights, which are not
        kept.

    Raises:
        RuntimeError: there is a mask.
    """
    if attention_mask is not None:
        message = "shared-prefix attention takes no mask"
        raise RuntimeError(message)
    n, heads, length, width = query.shape
    behind: Prefixes = getattr(key, _BEHIND, Prefixes())
    if behind.unread:
        return query.new_zeros(()).expand(n, length, heads, width), None
    key_heads = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    # Heads that read the same keys stand beside each other, as if they were tokens.
    apart = query.float().transpose(1, 2).reshape(n, length, key_heads, -1, width)
    queries = torch.empty((key_heads, n, length, heads // key_heads, width))
    torch.mul(apart.permute(2, 0, 1, 3, 4), scale, out=queries)
    keys, values = (part.float().transpose(0, 1).contiguous() for part in (key, value))
    output = torch.empty_like(apart, memory_format=torch.contiguous_format)
    for start, stop, prefix in _batches(behind, n, length * queries.shape[3]):
        rows = slice(start, stop)
        attend = _attend_row if stop - start == 1 else _attend_rows
        attend(queries[:, rows], keys[:, rows], values[:, rows], prefix, output[rows])
    return output.view(n, length, heads, width).to(query.dtype), None


def _batches(behind: Prefixes, n: int, queries: int) -> Iterator[tuple[int, int, _Prefix | None]]:
    """Yield (first row, row after the last, their prefix) for rows that attend together.

    Args:
        behind: the prefixes.
        n: rows of the pass.
        queries: of a row, for each key head.
    """
    at_once = max(1, _BLOCK // queries)
    numbers = behind.rows if behind.parts else [None] * n
    for number, members in groupby(range(n), key=lambda row: numbers[row]):
        rows = list(members)
        prefix = None
        if number is not None:
            keys, values = behind.parts[number]
            prefix = keys.float(), values.float()
        for start in range(0, len(rows), at_once):
            batch = rows[start : start + at_once]
            yield batch[0], batch[-1] + 1, prefix


def _attend_row(
    queries: Tensor, keys: Tensor, values: Tensor, prefix: _Prefix | None, output: Tensor
) -> None:
    """Attend for one row, block by block.

    Args:
        queries: (key heads, 1, S, heads a key head, d), scaled.
        keys: (key heads, 1, S, d).
        values: likewise.
        prefix: its keys and values, (key heads, P, d) both.
        output: (1, S, key heads, heads a key head, d), written to.
    """
    key_heads, _, length, each, width = queries.shape
    keys, values = keys[:, 0], values[:, 0]
    if prefix is not None:
        keys, values = torch.cat([prefix[0], keys], dim=1), torch.cat([prefix[1], values], dim=1)
    before = keys.shape[1] - length
    turned = keys.transpose(1, 2).contiguous()
    step = min(length, max(1, _BLOCK // each))
    memory = torch.empty(key_heads * step * each * keys.shape[1])
    ahead = _ahead(step)
    for start in range(0, length, step):
        stop = min(start + step, length)
        size, seen = stop - start, before + stop
        scores = memory[: key_heads * size * each * seen].view(key_heads, -1, seen)
        block = queries[:, 0, start:stop].reshape(key_heads, -1, width)
        torch.bmm(block, turned[:, :, :seen], out=scores)
        scores.view(key_heads, size, each, seen)[..., seen - size :] += ahead[:size, None, :size]
        torch.softmax(scores, dim=-1, out=scores)
        mixed = torch.bmm(scores, values[:, :seen]).view(key_heads, size, each, width)
        output[0, start:stop] = mixed.transpose(0, 1)


def _attend_rows(
    queries: Tensor, keys: Tensor, values: Tensor, prefix: _Prefix | None, output: Tensor
) -> None:
    """Attend for n short rows behind one prefix.

    Args:
        queries: (key heads, n, S, heads a key head, d), scaled.
        keys: (key heads, n, S, d).
        values: likewise.
        prefix: its keys and values, (key heads, P, d) both.
        output: (n, S, key heads, heads a key head, d), written to.
    """
    key_heads, n, length, each, width = queries.shape
    before = 0 if prefix is None else prefix[0].shape[1]
    scores = torch.empty(key_heads, n * length * each, before + length)
    row_scores = scores.view(key_heads * n, length * each, before + length)
    row_keys, row_values = (part.reshape(key_heads * n, length, width) for part in (keys, values))
    row_queries = queries.reshape(key_heads * n, length * each, width)
    if prefix is not None:
        folded = queries.reshape(key_heads, -1, width)
        torch.bmm(folded, prefix[0].transpose(1, 2), out=scores[..., :before])
    torch.bmm(row_queries, row_keys.transpose(1, 2), out=row_scores[..., before:])
    row_scores.view(-1, length, each, before + length)[..., before:] += _ahead(length)[:, None]
    torch.softmax(scores, dim=-1, out=scores)
    mixed = torch.bmm(row_scores[..., before:], row_values)
    if prefix is not None:
        mixed.view(key_heads, -1, width).baddbmm_(scores[..., :before], prefix[1])
    output.copy_(mixed.view(key_heads, n, length, each, width).permute(1, 2, 0, 3, 4))


def _ahead(length: int) -> Tensor:
    """Return what is added to scores so that no query looks ahead, (length, length)."""
    return torch.full((length, length), -torch.inf).triu(1)
