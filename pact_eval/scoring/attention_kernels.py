"""Two kernels of attention for one chunk of queries: torch's fused attention, or explicit products.

Both process a chunk in blocks of queries, read no key after the end of a block, and compute in
float32. They differ in rounding, and in speed: fused attention is faster with MKL on Intel, and
explicit products are faster with oneDNN on AMD. `cpu.py` chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

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
