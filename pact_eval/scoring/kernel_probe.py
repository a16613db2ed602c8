"""Choice of the attention kernel: a probe on this processor, with the lengths of the dataset.

Which kernel is faster depends on the processor and on the library of its matrix products. The probe
takes turns between the kernels on two passes through one layer, with random states. One pass is the
longest branch of the first prompts, the other are the leaves of one branch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from pact_eval._json import Json
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.attention_kernels import DEFAULT_KERNEL
from pact_eval.scoring.cpu_tuning import float32_products
from pact_eval.scoring.prefix_tree import Branch, prefix_tree
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.shared_prefix_attention import (
    Segments,
    shared_layer,
    shared_prefix_attention,
)
from pact_eval.scoring.streams import STREAMS, threads_of_stream

PROBE_SECONDS: Final = 0.2
"""Most time of a probe, as far as the times of its first turns predict."""

# Noise must not decide between kernels that are equally fast: then two runs could differ in bits.
_CLEARLY: Final = 0.95

# A turn takes a few milliseconds: the ratio of two kernels depends little on what is left out.
_MOST_TOKENS: Final = 256
_MOST_KEYS: Final = 4096
_MOST_PRODUCTS: Final = 1 << 26
_TURNS: Final = 7
_CPU: Final = torch.device("cpu")


# CPU time: other processes then hardly matter. Windows counts it in steps of 16 ms.
_FINE: Final = time.get_clock_info("process_time").resolution < 1e-4
_work_seconds: Final = time.process_time if _FINE else time.perf_counter


@dataclass(frozen=True)
class HeadShape:
    """Heads of an attention layer.

    Attributes:
        key_heads: heads of keys and values.
        heads_per_key: heads of queries that read the same keys.
        width: numbers of a key.
    """

    key_heads: int
    heads_per_key: int
    width: int

    @classmethod
    def of(cls, config: Mapping[str, Json]) -> HeadShape:
        """Read the shape from a model's configuration; sizes that it lacks get usual values.

        Examples:
            >>> sizes = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}
            >>> HeadShape.of({"text_config": sizes})
            HeadShape(key_heads=8, heads_per_key=4, width=128)
        """
        inner = config.get("text_config")
        text = inner if isinstance(inner, dict) else config
        heads = _size(text.get("num_attention_heads"), 8)
        key_heads = min(_size(text.get("num_key_value_heads"), heads), heads)
        width = _size(text.get("head_dim"), _size(text.get("hidden_size"), 64 * heads) // heads)
        return cls(key_heads, heads // key_heads, max(1, width))

    def within(self, products: int, keys_and_queries: int) -> HeadShape:
        """Return a shape with fewer heads, if one pass would have more multiply-adds."""
        width = min(self.width, 256)
        most = max(1, products // (2 * width * max(1, keys_and_queries)))
        heads_per_key = min(self.heads_per_key, most)
        return HeadShape(min(self.key_heads, max(1, most // heads_per_key)), heads_per_key, width)


def _size(value: Json, default: int) -> int:
    return value if type(value) is int and value > 0 else max(1, default)


def fastest_kernel(
    shape: HeadShape, views: Sequence[EncodedView], dtype: torch.dtype = torch.float32
) -> KernelName:
    """Return the kernel that takes less time on this processor.

    Args:
        shape: heads of the model.
        views: some views of the dataset, at least one.
        dtype: precision of the run, on which the library of its products depends.
    """
    trials = [_trial(shape, ahead, lengths) for ahead, lengths in typical_passes(views)]

    def turn(kernel: KernelName) -> Callable[[], object]:
        return lambda: [trial.run(kernel) for trial in trials]

    turns: dict[KernelName, Callable[[], object]] = {
        "fused": turn("fused"),
        "products": turn("products"),
    }
    with float32_products(_CPU, dtype), threads_of_stream(STREAMS), torch.inference_mode():
        seconds = least_seconds(turns)
    other: KernelName = "products"
    clearly = seconds[other] < _CLEARLY * seconds[DEFAULT_KERNEL]
    return other if clearly else DEFAULT_KERNEL


def typical_passes(views: Sequence[EncodedView]) -> list[tuple[int, list[int]]]:
    """Return two passes of a dataset: tokens ahead, and lengths of the segments behind them.

    Args:
        views: some views of the dataset, at least one.

    Returns:
        The longest branch, and the leaves of the branch with most tokens in them.

    Examples:
        >>> one = EncodedView("a", 0, (*range(100), 7), (7, 8), (0, 1))
        >>> other = EncodedView("a", 1, (*range(100), 8, 9), (7, 8), (0, 1))
        >>> typical_passes([one, other])
        [(0, [100]), (100, [1, 2])]
    """
    branches: list[tuple[int, Branch]] = [(0, prefix_tree([v.token_ids for v in views]).root)]
    for ahead, branch in branches:
        branches += [(ahead + len(branch.ids), child) for child in branch.branches]
    ahead, longest = max(branches, key=lambda pair: len(pair[1].ids))
    before, parent = max(branches, key=lambda pair: sum(len(leaf.ids) for leaf in pair[1].leaves))
    leaves = [len(leaf.ids) for leaf in parent.leaves]
    passes = [(ahead, [len(longest.ids)]), (before + len(parent.ids), leaves)]
    return [(tokens, lengths) for tokens, lengths in passes if sum(lengths)]


@dataclass(frozen=True)
class _Trial:
    """One pass through one layer, to compare kernels.

    Attributes:
        query: (1, heads, S, d).
        key: (1, key heads, S, d).
        value: likewise.
        prefix: keys and values ahead of all segments, (key heads, P, d) both.
        segments: the segments of the pass.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    prefix: tuple[Tensor, Tensor]
    segments: Segments

    def run(self, kernel: KernelName) -> Tensor:
        """Return the output of the layer, (1, S, heads, d)."""
        empty = DynamicLayer()  # type: ignore[no-untyped-call]
        layer = shared_layer(empty, self.segments, unread=False)
        layer.parts = [self.prefix]
        keys, values = layer.update(self.key, self.value)
        output, _ = shared_prefix_attention(None, self.query, keys, values, None, kernel=kernel)
        return output


def _trial(shape: HeadShape, ahead: int, lengths: Sequence[int]) -> _Trial:
    kept, tokens = [], 0
    for length in lengths:
        if tokens < _MOST_TOKENS:
            kept.append(min(length, _MOST_TOKENS - tokens))
            tokens += kept[-1]
    # The last queries of a long segment read the most keys.
    before = min(ahead + max(0, lengths[0] - kept[0]), _MOST_KEYS)
    heads = shape.within(_MOST_PRODUCTS, tokens * (before + tokens))
    generator = torch.Generator().manual_seed(0)

    def drawn(count: int, length: int) -> Tensor:
        return torch.randn(1, count, length, heads.width, generator=generator)

    return _Trial(
        drawn(heads.key_heads * heads.heads_per_key, tokens),
        drawn(heads.key_heads, tokens),
        drawn(heads.key_heads, tokens),
        (drawn(heads.key_heads, before)[0], drawn(heads.key_heads, before)[0]),
        Segments(kept, [0] * len(kept), final=True),
    )


def least_seconds(
    turns: Mapping[KernelName, Callable[[], object]],
    seconds: float = PROBE_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
    work_clock: Callable[[], float] = _work_seconds,
) -> dict[KernelName, float]:
    """Return the least time of each kernel; they take turns.

    The first turn of each makes the library of the products ready. It counts only if no time is
    left for more.

    Args:
        turns: the work of one turn, by kernel.
        seconds: no turn starts that would probably end later than this.
        clock: seconds of the time limit.
        work_clock: seconds of the work of this process.

    Examples:
        >>> ticks = iter(range(100))
        >>> turns = {"fused": lambda: next(ticks), "products": lambda: None}
        >>> least_seconds(turns, 20, lambda: next(ticks), lambda: next(ticks))
        {'fused': 2, 'products': 1}
    """
    begun = clock()
    times: dict[KernelName, list[float]] = {name: [] for name in turns}
    for turn in range(1 + _TURNS):
        started = clock()
        # A first turn takes longer than the next ones, so that this rather stops too early.
        if turn and started + (started - begun) / turn > begun + seconds:
            break
        for name, work in turns.items():
            before = work_clock()
            work()
            times[name].append(work_clock() - before)
    return {name: min(spent[1:] or spent) for name, spent in times.items()}
