"""Caches that several rows go on from: keys and values shared, recurrent states copied.

transformers keeps one layer object per layer in a `DynamicCache`. Attention layers put new keys and
values behind the old ones in a new tensor, so that the old tensor can serve many rows. Linear
attention layers overwrite their convolution and recurrent states in place: these are copied.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import (
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionLayer,
)

from pact_eval.scoring.shared_prefix import Segments, shared_layer

__all__ = ["can_fork", "forked", "forked_in_place", "has_recurrent_or_window_layers", "new_cache"]

# Their own types, not subclasses: a layer that is not known may keep state that is not copied here.
_ATTENTION: Final = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
)
_LINEAR: Final = (LinearAttentionLayer, LinearAttentionAndFullAttentionLayer)


def new_cache(decoder: Any) -> DynamicCache:
    """Return an empty cache for a decoder; without its configuration hybrid models raise."""
    return DynamicCache(config=decoder.config)


def can_fork(cache: DynamicCache) -> bool:
    """Tell whether every layer of a cache is of a type whose state is known here."""
    known = set(_ATTENTION) | set(_LINEAR)
    return bool(cache.layers) and all(type(layer) in known for layer in cache.layers)


def has_recurrent_or_window_layers(cache: DynamicCache) -> bool:
    """Tell whether a cached prefix must have no padding on its right.

    A recurrent state has taken the padding in, and a sliding window counts it.
    """
    return any(type(layer) is not DynamicLayer for layer in cache.layers)


def forked(cache: DynamicCache, rows: Tensor, *, final: bool) -> DynamicCache:
    """Return a cache whose rows are rows of another one, which stays as it is.

    Args:
        cache: of B rows.
        rows: (n,) numbers of rows, in any order and with repetitions.
        final: the new cache serves one pass and is not gone on from; its attention layers then keep
            nothing of that pass.

    Returns:
        A cache of n rows. Keys and values are views where B is 1.
    """
    twin = copy.copy(cache)
    twin.layers = [_with_states(layer, rows) for layer in cache.layers]
    for layer in twin.layers:
        if isinstance(layer, _ATTENTION):
            keys, values = layer.keys, layer.values
            if keys is not None and values is not None and keys.numel():
                layer.keys, layer.values = _rows_of(keys, rows), _rows_of(values, rows)
        if final and type(layer) is DynamicLayer:
            layer.__class__ = _ReadOnlyLayer
    return twin


def forked_in_place(
    cache: DynamicCache, segments: Segments, *, last_unread: bool = False
) -> DynamicCache:
    """Return a cache as `forked` does, for a pass through `shared_prefix_attention`.

    Args:
        cache: an empty one, or one that this function returned and that a pass has gone through.
        segments: of the pass; the prefixes are the rows of `cache`.
        last_unread: what the last layer makes of the pass is not read, but for keys and values.

    Returns:
        A cache of a row for each segment. The keys and values of prefixes are those of `cache`.
    """
    rows, last = torch.tensor(segments.prefixes), len(cache.layers) - 1
    twin = copy.copy(cache)
    twin.layers = [
        shared_layer(layer, segments, unread=last_unread and number == last)
        if isinstance(layer, DynamicLayer)
        else _with_states(layer, rows)
        for number, layer in enumerate(cache.layers)
    ]
    return twin


def _with_states(layer: Any, rows: Tensor) -> Any:
    twin = copy.copy(layer)
    if isinstance(layer, _LINEAR):
        _copy_states(twin, rows)
    return twin


class _ReadOnlyLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """An attention layer that shows old and new keys and values together, and keeps the old.

    So the widest pass holds copies of the prefix for one layer at a time, not for all of them.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if self.keys is None or self.values is None:
            return key_states, value_states
        keys = torch.cat([self.keys, key_states], dim=-2)
        return keys, torch.cat([self.values, value_states], dim=-2)


def _rows_of(tensor: Tensor, rows: Tensor) -> Tensor:
    if tensor.shape[0] == 1:
        return tensor.expand(len(rows), *tensor.shape[1:])
    return tensor.index_select(0, rows.to(tensor.device))


def _copy_states(layer: Any, rows: Tensor) -> None:
    """Give a layer states of its own: selecting copies, also where it selects every row once."""
    for name in ("conv_states", "recurrent_states"):
        states = getattr(layer, name)
        chosen = {
            key: None if state is None else state.index_select(0, rows.to(state.device))
            for key, state in states.items()
        }
        setattr(layer, name, chosen)
    for name in (
        "is_conv_states_initialized",
        "is_recurrent_states_initialized",
        "has_previous_state",
        "conv_kernel_size",
    ):
        setattr(layer, name, dict(getattr(layer, name)))
