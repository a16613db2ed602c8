r"""Attention of many rows to one prefix that is in memory once, on a CPU.

All rows of a pass go on from the same prefix, so that its keys and values need not be copied for
each of them, nor its positions masked: the queries of all rows attend to the prefix as one long
row, and each row to its own new tokens causally. Two softmaxes over parts of the keys are joined
by their log-sum-exps,

.. math:: o = \frac{e^{l_1} o_1 + e^{l_2} o_2}{e^{l_1} + e^{l_2}}
            = o_2 + \sigma(l_1 - l_2)\,(o_1 - o_2)

which is the softmax over all keys. (Juravsky et al., "Hydragen: high-throughput LLM inference with
shared prefixes", 2024, for the same identity on GPUs.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.cache_utils import DynamicCache, DynamicLayer, LinearAttentionLayer

__all__ = ["SharedLayer", "can_share", "shared_attention", "shared_prefix_attention"]

_NAME: Final = "pact_shared_prefix"
_PREFIX: Final = "_pact_prefix"


class SharedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """An attention layer that shows new keys and values alone, with the prefix attached to them.

    Attributes:
        final: nothing goes on from this pass, so that nothing of it is kept.
    """

    final: bool

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Attach the prefix to the new keys, and put them behind it unless the pass is final."""
        old = None if self.keys is None or self.values is None else (self.keys, self.values)
        setattr(key_states, _PREFIX, old)
        if not self.final:
            self.is_initialized = True
            self.keys = key_states if old is None else torch.cat([old[0], key_states], dim=-2)
            self.values = value_states if old is None else torch.cat([old[1], value_states], dim=-2)
        return key_states, value_states


def can_share(cache: DynamicCache, device: torch.device, attention: str) -> bool:
    """Tell whether a model's passes can go through `shared_prefix_attention`.

    Args:
        cache: an empty one of the model.
        device: where the model runs; torch's flash attention for CPUs is what gives log-sum-exps.
        attention: the implementation that the model uses otherwise.
    """
    known = all(type(layer) in (DynamicLayer, LinearAttentionLayer) for layer in cache.layers)
    kernel = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
    return known and kernel and device.type == "cpu" and attention in ("sdpa", "eager")


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
    """Attend to the prefix that is attached to the keys, and causally to the keys.

    Args:
        query: (n, heads, S, d).
        key: (n, key heads, S, d), as a `SharedLayer` returns them.
        value: likewise.
        attention_mask: None; a mask would be ignored.
        scaling: of the products; None for 1/sqrt(d).

    Returns:
        (n, S, heads, d), and None for the weights, which are not kept.

    Raises:
        RuntimeError: there is a mask.
    """
    if attention_mask is not None:
        message = "shared-prefix attention takes no mask"
        raise RuntimeError(message)
    rows, heads, length, width = query.shape
    key_heads = key.shape[1]
    each = heads // key_heads
    own_keys, own_values = (part.repeat_interleave(each, dim=1) for part in (key, value))
    output, own = _flash(query, own_keys, own_values, scaling, causal=True)
    prefix = getattr(key, _PREFIX, None)
    if prefix is not None:
        # Queries of all rows, and of all heads that share a key head, as one row.
        apart = (rows, key_heads, each, length)
        folded = query.reshape(*apart, width).transpose(0, 1).reshape(1, key_heads, -1, width)
        seen, before = _flash(folded, prefix[0], prefix[1], scaling, causal=False)
        turned = (key_heads, rows, each, length)
        seen = seen.reshape(*turned, width).transpose(0, 1).reshape(query.shape)
        before = before.reshape(turned).transpose(0, 1).reshape(rows, heads, length)
        share = torch.sigmoid(before - own).unsqueeze(-1).to(output.dtype)
        output = torch.lerp(output, seen, share)
    return output.transpose(1, 2).contiguous(), None


def _flash(
    query: Tensor, key: Tensor, value: Tensor, scaling: float | None, *, causal: bool
) -> tuple[Tensor, Tensor]:
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    output, log_sum_exp = attention(query, key, value, is_causal=causal, scale=scaling)
    return output, log_sum_exp
