"""Passes through a decoder: segments of prompts, each behind a cached prefix.

Where all layers are plain attention over shared prefixes, segments stand side by side in one row
and nothing is padding. Elsewhere they are rows, padded on their right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from pact_eval.scoring.caches import (
    forked,
    forked_in_place,
    has_recurrent_or_window_layers,
    new_cache,
)
from pact_eval.scoring.last_layer import LastLayer
from pact_eval.scoring.shared_prefix import Segments, can_share, shared_attention

__all__ = ["Passes", "Prefixes"]


@dataclass(frozen=True)
class Prefixes:
    """What is cached: prompts up to somewhere, a row each.

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
        """Tokens that a row of the cache has room for."""
        return max(self.lengths) if self.mask is None else self.mask.shape[1]


class Passes:
    """Runs segments through a decoder.

    Args:
        decoder: the model without its output head, adapter included.
        device: where it runs.
        pad_token_id: any valid id.

    Attributes:
        shares_prefix: whether attention reads a prefix that is in memory once.
        exact_prefixes: whether a prefix that is gone on from must have no padding.
    """

    def __init__(self, decoder: Any, device: torch.device, pad_token_id: int = 0) -> None:
        self.decoder = decoder
        self.device = device
        self.pad_token_id = pad_token_id
        empty = new_cache(decoder)
        self._last_layer = LastLayer(decoder, len(empty.layers))
        attention = str(getattr(decoder.config, "_attn_implementation", ""))
        self.exact_prefixes = has_recurrent_or_window_layers(empty)
        self.shares_prefix = can_share(empty, device, attention)

    @property
    def packs(self) -> bool:
        """Whether segments of a pass stand side by side, without padding."""
        return self.shares_prefix and not self.exact_prefixes

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Have the decoder attend as these passes need it, and put things back."""
        if not self.shares_prefix:
            yield
            return
        with shared_attention(self.decoder):
            yield

    def nothing(self) -> Prefixes:
        """Return one empty prefix."""
        return Prefixes(new_cache(self.decoder), [0])

    def extend(
        self, prefixes: Prefixes, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[Prefixes, int]:
        """Run segments, each behind a prefix.

        Args:
            prefixes: what is cached; stays as it is.
            rows: the prefix that each segment goes on from; those of one stand together.
            segments: token ids.

        Returns:
            The longer prefixes, and the tokens that passed, padding included.
        """
        _, longer, passed = self._run(prefixes, rows, segments, final=False)
        return longer, passed

    def last_states(
        self, prefixes: Prefixes, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[Tensor, int]:
        """Run segments as `extend` does; return (n, H) states at their ends, and tokens passed."""
        states, _, passed = self._run(prefixes, rows, segments, final=True)
        return states, passed

    def _run(
        self,
        prefixes: Prefixes,
        rows: Sequence[int],
        segments: Sequence[Sequence[int]],
        *,
        final: bool,
    ) -> tuple[Tensor, Prefixes, int]:
        new = [len(segment) for segment in segments]
        behind = [prefixes.lengths[row] for row in rows]
        where = Segments(new, rows, None if self.packs else max(new), final)
        cache, mask = self._behind(prefixes, where)
        ids, positions = self._laid_out(where, segments, behind)
        starts = torch.tensor(where.starts[:-1])
        ends = (starts + torch.tensor(new) - 1).to(self.device)
        with self._last_layer.read_at(ends if final else None):
            output = self.decoder(
                input_ids=ids.to(self.device),
                attention_mask=None if mask is None else mask.long().to(self.device),
                position_ids=positions.to(self.device),
                past_key_values=cache,
                use_cache=True,
            )
        states = output.last_hidden_state
        lengths = [start + length for start, length in zip(behind, new, strict=True)]
        longer = Prefixes(cache, lengths, mask)
        return states.reshape(-1, states.shape[-1])[ends], longer, ids.numel()

    def _behind(self, prefixes: Prefixes, where: Segments) -> tuple[DynamicCache, Tensor | None]:
        """Return the cache of a pass and the mask over its slots."""
        if self.shares_prefix:
            unread = self._last_layer.known and not where.final
            return forked_in_place(prefixes.cache, where, last_unread=unread), None
        rows = torch.tensor(where.prefixes)
        cache = forked(prefixes.cache, rows, final=where.final)
        return cache, _joined_mask(prefixes, rows, where)

    def _laid_out(
        self, where: Segments, segments: Sequence[Sequence[int]], behind: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Return the token ids and the positions of a pass, (rows, tokens) both."""
        tokens = where.starts[-1]
        ids = torch.full((tokens,), self.pad_token_id)
        positions = torch.zeros(tokens, dtype=torch.long)
        for start, segment, first in zip(where.starts, segments, behind, strict=False):
            stop = start + (where.width or len(segment))
            ids[start : start + len(segment)] = torch.tensor(segment)
            positions[start:stop] = torch.arange(first, first + stop - start)
        shape = (1 if where.width is None else len(segments), -1)
        return ids.view(shape), positions.view(shape)


def _joined_mask(prefixes: Prefixes, rows: Tensor, where: Segments) -> Tensor | None:
    """Return the mask of old and new slots, or None where every slot that is looked at is real."""
    width = max(where.lengths)
    # Padding behind a leaf's last token is never looked back at.
    padded = not where.final and min(where.lengths) < width
    if prefixes.mask is None and not padded:
        return None
    before = torch.ones((len(rows), prefixes.slots), dtype=torch.bool)
    if prefixes.mask is not None:
        before = prefixes.mask[rows]
    after = torch.arange(width) < torch.tensor(where.lengths)[:, None]
    return torch.cat([before, after], dim=1)
