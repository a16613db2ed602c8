r"""Attention of many prompts to shared prefixes that are stored once, on a CPU.

A pass concatenates segments: runs of tokens, each of which continues a prefix. Segments of the same
prefix share its keys and values without a copy, and need no mask over its positions: their queries
attend to it as one long row. After the prefix, a query attends to the earlier tokens of its own
segment,

.. math:: o = \mathrm{softmax}\left(q \, [K_p ; K]^T + [0 ; M]\right) [V_p ; V]

with :math:`M` zero there and minus infinity elsewhere. (Juravsky et al., "Hydragen: high-throughput
LLM inference with shared prefixes", 2024, fold rows in this way on GPUs.) Queries are processed in
blocks by one of two kernels: torch's fused attention, or explicit products. Both read no key after
the end of a block, and compute in float32. They differ in rounding, and in speed: fused attention
is faster with MKL on Intel, and explicit products are faster with oneDNN on AMD. `cpu.py` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import DynamicCache, DynamicLayer, LinearAttentionLayer

from pact_eval.scoring.request import KernelName


class Kernel(Protocol):
    """Attention of the queries of one chunk to the keys of its prefix and of the chunk."""

    def block_tokens(self, heads_per_key: int) -> int:
        """Return the most tokens of a block of queries.

        Args:
            heads_per_key: number of heads that read the same keys.
        """

    def chunk(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        scale: float,
        output: Tensor,
    ) -> None:
        """Attend for one chunk, block by block. All tensors are float32.

        Args:
            queries: (key heads, heads per key head, T, d).
            keys: (key heads, P + T, d).
            values: (key heads, P + T, width of a value).
            mask: (T, T) to be added to scores after the prefix; None for a causal mask.
            scale: factor of the products.
            output: (T, key heads, heads per key head, width of a value), written to.
        """


def causal_mask(length: int) -> Tensor:
    """Return the (length, length) mask that hides later tokens: 0 if a query reads a key, or -inf.

    Examples:
        >>> causal_mask(2).tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """
    return torch.full((length, length), -torch.inf).triu(1)


@dataclass(frozen=True)
class FusedAttention:
    """torch's fused attention, which keeps no scores.

    Attributes:
        tokens: tokens of a block. 64 to 512 took within 15% of the same time, and keys that no
            query of a smaller block reads are left out.
    """

    tokens: int = 256

    def block_tokens(self, heads_per_key: int) -> int:
        """Return the most tokens of a block; see `Kernel`."""
        del heads_per_key
        return self.tokens

    def chunk(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        scale: float,
        output: Tensor,
    ) -> None:
        """Attend for one chunk; see `Kernel`."""
        heads_per_key = queries.shape[1]
        # Views: no key is copied for the heads that read it.
        keys, values = (
            part.unsqueeze(1).expand(-1, heads_per_key, -1, -1) for part in (keys, values)
        )
        ahead = keys.shape[2] - queries.shape[2]
        for start, stop, inside in _blocks(queries.shape[2], self.tokens, mask):
            seen = ahead + stop
            added = torch.zeros((stop - start, seen))
            added[:, ahead + start :] = inside
            mixed = scaled_dot_product_attention(
                queries[:, :, start:stop],
                keys[:, :, :seen],
                values[:, :, :seen],
                attn_mask=added,
                scale=scale,
            )
            output[start:stop] = mixed.permute(2, 0, 1, 3)


@dataclass(frozen=True)
class ExplicitProducts:
    """Two matrix products and a softmax per block, with one row per query and head.

    Attributes:
        rows: rows of a block. Its scores then stay in the cache of the processor: 512 rows took up
            to 1.2 times, 1,024 up to 1.6 times as long as 256.
    """

    rows: int = 256

    def block_tokens(self, heads_per_key: int) -> int:
        """Return the most tokens of a block; see `Kernel`."""
        return max(1, self.rows // heads_per_key)

    def chunk(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        scale: float,
        output: Tensor,
    ) -> None:
        """Attend for one chunk; see `Kernel`."""
        key_heads, heads_per_key, tokens, width = queries.shape
        ahead, turned = keys.shape[1] - tokens, keys.transpose(1, 2)
        step = self.block_tokens(heads_per_key)
        largest = step if mask is None else tokens
        memory = torch.empty(key_heads * heads_per_key * largest * keys.shape[1])
        for start, stop, inside in _blocks(tokens, step, mask):
            size, seen = stop - start, ahead + stop
            rows = heads_per_key * size
            scores = memory[: key_heads * rows * seen].view(key_heads, rows, seen)
            block = (queries[:, :, start:stop] * scale).reshape(key_heads, rows, width)
            torch.bmm(block, turned[:, :, :seen], out=scores)
            by_head = scores.view(key_heads, heads_per_key, size, seen)
            by_head[..., ahead + start :] += inside
            torch.softmax(scores, dim=-1, out=scores)
            mixed = torch.bmm(scores, values[:, :seen])
            output[start:stop] = mixed.view(key_heads, heads_per_key, size, -1).permute(2, 0, 1, 3)


def _blocks(tokens: int, step: int, mask: Tensor | None) -> Iterator[tuple[int, int, Tensor]]:
    """Yield the start and the end of each block, and the mask of its queries over its own tokens.

    A chunk with a mask is one block.
    """
    if mask is not None:
        yield 0, tokens, mask
        return
    mask = causal_mask(min(step, tokens))
    for start in range(0, tokens, step):
        stop = min(start + step, tokens)
        yield start, stop, mask[: stop - start, : stop - start]


KERNELS: Final[Mapping[KernelName, Kernel]] = MappingProxyType(
    {"fused": FusedAttention(), "products": ExplicitProducts()}
)
"""The kernels by name."""

DEFAULT_KERNEL: Final[KernelName] = "fused"
"""The kernel that is kept unless the other one is clearly faster."""


_NAME: Final = "pact_shared_prefix"
_LAYER: Final = "_pact_layer"

# Soft-capping, sinks and other options of models that change the attention weights.
_UNKNOWN: Final = ("softcap", "s_aux", "sinks", "sliding_window", "position_bias")


@dataclass(frozen=True)
class Chunk:
    """Segments of one prefix whose queries are processed together.

    Attributes:
        segments: range of segments: the first, and the one after the last.
        tokens: range of their tokens in the pass, likewise.
        mask: (tokens, tokens) to be added to the scores of several segments; None for one segment,
            which is causal.
    """

    segments: tuple[int, int]
    tokens: tuple[int, int]
    mask: Tensor | None


@dataclass(frozen=True)
class Segments:
    """The segments of a pass, in the order of their tokens.

    Attributes:
        lengths: tokens of each segment.
        prefixes: number of the prefix that each segment continues; segments of one prefix are
            adjacent.
        width: tokens from the start of one segment to the next, if segments are rows padded on the
            right; None if they are concatenated without padding.
        final: nothing continues from this pass, so its keys and values are not stored.
    """

    lengths: Sequence[int]
    prefixes: Sequence[int]
    width: int | None = None
    final: bool = False
    _chunks: dict[int, list[Chunk]] = field(default_factory=dict)

    @property
    def starts(self) -> list[int]:
        """The first token of each segment, and the end of the last one."""
        if self.width is not None:
            return [self.width * number for number in range(len(self.lengths) + 1)]
        return [0, *accumulate(self.lengths)]

    def chunks(self, at_once: int) -> list[Chunk]:
        """Group the segments. All layers use the same groups, so these are computed once.

        Args:
            at_once: limit on the tokens of a chunk of several segments.
        """
        if at_once not in self._chunks:
            self._chunks[at_once] = list(self._group_chunks(at_once))
        return self._chunks[at_once]

    def _group_chunks(self, at_once: int) -> Iterator[Chunk]:
        starts, first = self.starts, 0
        for number in range(1, len(self.lengths) + 1):
            ends = number == len(self.lengths) or (
                self.prefixes[number] != self.prefixes[first]
                or starts[number + 1] - starts[first] > at_once
            )
            if ends:
                inside = [start - starts[first] for start in starts[first : number + 1]]
                mask = _ahead_or_elsewhere(inside) if number - first > 1 else None
                yield Chunk((first, number), (starts[first], starts[number]), mask)
                first = number


def _ahead_or_elsewhere(starts: Sequence[int]) -> Tensor:
    """Return the mask of segments between `starts`: 0 if a query reads a position, else -inf."""
    mask = torch.full((starts[-1], starts[-1]), -torch.inf)
    for start, stop in pairwise(starts):
        mask[start:stop, start:stop] = causal_mask(stop - start)
    return mask


class SharedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """An attention layer that returns new keys and values with itself attached to them.

    Attributes:
        parts: keys and values of each prefix, (key heads, length, d) both; empty before the first
            pass. After a pass that is not final, those of each segment.
        before: the value of `parts` before the pass.
        segments: segments of the pass.
        unread: only the keys and values of the layer are read, not its output.
    """

    parts: Sequence[tuple[Tensor, Tensor]] = ()
    before: Sequence[tuple[Tensor, Tensor]] = ()
    segments: Segments
    unread: bool = False

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Attach the layer; append keys and values to the prefixes unless the pass is final.

        Args:
            key_states: (n, key heads, S, d), keys of the new tokens.
            value_states: likewise, values.
        """
        setattr(key_states, _LAYER, self)
        self.before = self.parts
        if not self.segments.final:
            keys, values = _flat(key_states), _flat(value_states)
            self.parts = [
                self.joined(
                    number, keys[:, start : start + length], values[:, start : start + length]
                )
                for number, (start, length) in enumerate(
                    zip(self.segments.starts, self.segments.lengths, strict=False)
                )
            ]
        return key_states, value_states

    def joined(self, number: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, with those of the segment's prefix in front.

        Args:
            number: number of the segment.
            keys: (key heads, length, d).
            values: likewise.
        """
        if not self.before:
            return keys.contiguous(), values.contiguous()
        old_keys, old_values = self.before[self.segments.prefixes[number]]
        return torch.cat([old_keys, keys], dim=1), torch.cat([old_values, values], dim=1)

    def get_seq_length(self) -> int:
        """Return the length of the longest prefix."""
        return max((values.shape[1] for _, values in self.parts), default=0)


def shared_layer(layer: DynamicLayer, segments: Segments, *, unread: bool) -> SharedLayer:
    """Return a layer for a pass that continues `layer`, which is not changed.

    Args:
        layer: an empty layer, or one that this function returned.
        segments: segments of the pass.
        unread: see `SharedLayer`.
    """
    shared = SharedLayer()  # type: ignore[no-untyped-call]
    shared.segments, shared.unread = segments, unread
    if isinstance(layer, SharedLayer):
        shared.parts = layer.parts
    return shared


def can_share(cache: DynamicCache, device: torch.device, attention: str) -> bool:
    """Return whether a model's passes can use `shared_prefix_attention`.

    Args:
        cache: an empty cache of the model.
        device: device that runs the model.
        attention: the attention implementation that the model uses otherwise.
    """
    supported = all(type(layer) in (DynamicLayer, LinearAttentionLayer) for layer in cache.layers)
    return supported and device.type == "cpu" and attention in ("sdpa", "eager")


@contextmanager
def shared_attention(decoder: Any, kernel: KernelName = DEFAULT_KERNEL) -> Iterator[None]:
    """Switch a decoder to `shared_prefix_attention` with a kernel; restore it afterwards."""
    before = decoder.config._attn_implementation
    name = f"{_NAME}_{kernel}"
    AttentionInterface.register(name, partial(shared_prefix_attention, kernel=kernel))
    decoder.set_attn_implementation(name)
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
    *,
    kernel: KernelName = DEFAULT_KERNEL,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend to the prefix of each segment, and causally to the segment.

    Products and softmax are computed in float32, whatever the dtype of the model.

    Args:
        query: (n, heads, S, d).
        key: (n, key heads, S, d), as a `SharedLayer` returns them.
        value: (n, key heads, S, width of a value).
        attention_mask: None; a mask would be ignored.
        scaling: factor of the products; None for 1/sqrt(d).
        kernel: name of the kernel that attends for one block.
        more: other arguments that models pass to attention functions.

    Returns:
        (n, S, heads, width of a value), zeros if nothing reads them; and None in place of the
        attention weights, which are not kept.

    Raises:
        RuntimeError: a mask is given, or an option that changes the attention weights.
    """
    if attention_mask is not None:
        raise RuntimeError("shared-prefix attention takes no mask")
    changed = [name for name in _UNKNOWN if more.get(name) is not None]
    if changed:
        raise RuntimeError(f"shared-prefix attention does not support {', '.join(changed)}")
    n, heads, length, width = query.shape
    layer: SharedLayer = getattr(key, _LAYER)
    value_width = value.shape[-1]
    if layer.unread:
        return query.new_zeros(()).expand(n, length, heads, value_width), None
    keys, values = _flat(key), _flat(value)
    key_heads, tokens, _ = keys.shape
    heads_per_key = heads // key_heads
    # Heads that read the same keys are adjacent: (key heads, heads per key head, tokens, d).
    queries = query.float().transpose(0, 1).reshape(key_heads, heads_per_key, tokens, width)
    output = torch.empty((tokens, key_heads, heads_per_key, value_width))
    scale = width**-0.5 if scaling is None else scaling
    attend = KERNELS[kernel]
    for chunk in layer.segments.chunks(attend.block_tokens(heads_per_key)):
        here = slice(*chunk.tokens)
        seen = _seen(layer, chunk, keys[:, here], values[:, here])
        attend.chunk(queries[:, :, here], *seen, chunk.mask, scale, output[here])
    return output.view(n, length, heads, value_width).to(query.dtype), None


def _flat(states: Tensor) -> Tensor:
    """Return (n, key heads, S, d) as (key heads, n * S, d)."""
    n, key_heads, length, width = states.shape
    return states.transpose(0, 1).reshape(key_heads, n * length, width)


def _seen(layer: SharedLayer, chunk: Chunk, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the keys and the values of a chunk's prefix followed by the chunk."""
    first, last = chunk.segments
    kept = not layer.segments.final and last - first == 1
    # Stored keys end with the segment; the row of a padded segment has further queries.
    if kept and layer.segments.lengths[first] == keys.shape[1]:
        all_keys, all_values = layer.parts[first]
    else:
        all_keys, all_values = layer.joined(first, keys, values)
    return all_keys.float(), all_values.float()
