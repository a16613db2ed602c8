"""The fork engine: one pass for shared tokens, down a prefix tree whose branches fork the cache.

A branch runs once and leaves a cache; the segments after it continue from that cache. Answers are
read at the ends of leaves. Branches and leaves of many records share a pass. Two passes run at once
if the model's layers keep no state of a pass (`cpu.py`). What a pass contains does not depend
on when it runs, so logits do not either.

A pass runs segments of prompts, each of which continues a cached prefix. If all layers are plain
attention over shared prefixes, segments are concatenated in one row without padding. Otherwise each
segment is a row, padded on the right.

The cache of a prefix serves several rows. transformers keeps one layer object per layer in a
`DynamicCache`. Attention layers append new keys and values in a new tensor, so the old tensor can
serve many rows. Linear attention layers overwrite their convolution and recurrent states in place,
so these are copied.

The last layer stores keys and values of every position, but its output is read at answers only. The
MLP and the output projection of that layer treat each position separately, so they run only at the
positions that are read. That saves most of one layer for nearly all tokens.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
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

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.cpu import Task, run_tasks, stream_count
from pact_eval.scoring.engine import OnScored, ScoredView, TokenCount, scored_view
from pact_eval.scoring.prefix_tree import (
    Branch,
    Leaf,
    PrefixTree,
    consecutive_batches,
    prefix_tree,
    tight_batches,
)
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.shared_prefix_attention import (
    DEFAULT_KERNEL,
    Segments,
    can_share,
    shared_attention,
    shared_layer,
)


@dataclass(frozen=True)
class Prefixes:
    """Cached beginnings of prompts, one per row.

    Attributes:
        cache: their keys, values and states.
        lengths: tokens of each row.
        mask: (rows, slots) of the cache, False at padding; None without padding.
    """

    cache: DynamicCache
    lengths: list[int]
    mask: Tensor | None = None

    @property
    def slots(self) -> int:
        """Number of token slots in a row of the cache."""
        return max(self.lengths) if self.mask is None else self.mask.shape[1]


class Passes:
    """Runs segments through a decoder.

    Args:
        decoder: the model without its output head, adapter included.
        device: device that runs it.
        pad_token_id: any valid id.

    Attributes:
        shares_prefix: whether attention reads a shared prefix from one copy in memory.
        kernel: name of the kernel of this attention.
        exact_prefixes: whether prefixes that are continued must have no padding.
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
        self.kernel: KernelName = DEFAULT_KERNEL

    @property
    def packs(self) -> bool:
        """Whether the segments of a pass are concatenated without padding."""
        return self.shares_prefix and not self.exact_prefixes

    @property
    def can_overlap(self) -> bool:
        """Whether passes can run at once: all layers are plain attention with an MLP.

        Recurrent layers write their states in place, and a mixture of experts keeps counts.
        """
        return self.packs and self._last_layer.supported

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Switch the decoder to the attention that these passes need; restore it afterwards."""
        with ExitStack() as stack:
            stack.enter_context(self._last_layer.installed())
            if self.shares_prefix:
                stack.enter_context(shared_attention(self.decoder, self.kernel))
            yield

    def nothing(self) -> Prefixes:
        """Return one empty prefix."""
        return Prefixes(new_cache(self.decoder), [0])

    def extend(
        self, prefixes: Prefixes, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[Prefixes, int]:
        """Run segments, each of which continues a prefix.

        Args:
            prefixes: the cached prefixes; not changed.
            rows: the prefix that each segment continues; segments of one prefix are adjacent.
            segments: token ids.

        Returns:
            The extended prefixes, and the number of tokens that passed, padding included.
        """
        _, longer, passed = self._run(prefixes, rows, segments, final=False)
        return longer, passed

    def last_states(
        self, prefixes: Prefixes, rows: Sequence[int], segments: Sequence[Sequence[int]]
    ) -> tuple[Tensor, int]:
        """Run segments as `extend` does; return the (n, H) states at their ends, and the tokens."""
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
        """Return the cache for a pass, and the mask over its slots."""
        if self.shares_prefix:
            unread = self._last_layer.supported and not where.final
            return forked_in_place(prefixes.cache, where, last_unread=unread), None
        rows = torch.tensor(where.prefixes)
        cache = forked(prefixes.cache, rows, final=where.final)
        return cache, _join_masks(prefixes, rows, where)

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


def _join_masks(prefixes: Prefixes, rows: Tensor, where: Segments) -> Tensor | None:
    """Return the mask of old and new slots, or None if every slot that is read is real."""
    width = max(where.lengths)
    # No token attends to the padding after the last token of a leaf.
    padded = not where.final and min(where.lengths) < width
    if prefixes.mask is None and not padded:
        return None
    before = torch.ones((len(rows), prefixes.slots), dtype=torch.bool)
    if prefixes.mask is not None:
        before = prefixes.mask[rows]
    after = torch.arange(width) < torch.tensor(where.lengths)[:, None]
    return torch.cat([before, after], dim=1)


# These exact types, not subclasses: an unknown type may have state that is not copied here.
_ATTENTION: Final = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
)
_LINEAR: Final = (LinearAttentionLayer, LinearAttentionAndFullAttentionLayer)


def new_cache(decoder: Any) -> DynamicCache:
    """Return an empty cache for a decoder; hybrid models need its configuration."""
    return DynamicCache(config=decoder.config)


def can_fork(cache: DynamicCache) -> bool:
    """Return whether every layer of a cache has a type whose state is known here."""
    layer_types = set(_ATTENTION) | set(_LINEAR)
    return bool(cache.layers) and all(type(layer) in layer_types for layer in cache.layers)


def has_recurrent_or_window_layers(cache: DynamicCache) -> bool:
    """Return whether a cached prefix must not have padding on its right.

    A recurrent state would include the padding; a sliding window would count it.
    """
    return any(type(layer) is not DynamicLayer for layer in cache.layers)


def forked(cache: DynamicCache, rows: Tensor, *, final: bool) -> DynamicCache:
    """Return a cache made of rows of another cache, which is not changed.

    Args:
        cache: a cache of B rows.
        rows: (n,) row numbers, in any order and with repetitions.
        final: the new cache serves one pass and is not continued. Its attention layers then do not
            store the keys and values of that pass.

    Returns:
        A cache of n rows. Keys and values are views if B is 1.
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
        cache: an empty cache, or one that this function returned and that a pass has used.
        segments: segments of the pass; the prefixes are the rows of `cache`.
        last_unread: only the keys and values of the last layer are read.

    Returns:
        A cache with one row per segment. It shares the keys and values of prefixes with `cache`.
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
    """An attention layer that returns old and new keys and values but stores the old ones only.

    The widest pass then holds copies of the prefix for one layer at a time, not for all layers.
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
    """Give a layer its own states: selecting rows copies them."""
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


class LastLayer:
    """The parts of a decoder's last layer that treat every position separately.

    Args:
        decoder: a model without its output head, adapter included.
        cached: number of layers in its cache; if the decoder has more layers, some of them read the
            keys of others.

    Attributes:
        supported: whether the layer is attention followed by an MLP, as in Llama, Qwen and Gemma;
            other layers run in full.
    """

    def __init__(self, decoder: Any, cached: int) -> None:
        layers = getattr(decoder, "layers", None)
        layer: Any = None if not layers or len(layers) != cached else layers[-1]
        mlp: Any = getattr(layer, "mlp", None)
        # A mixture of experts returns more than a tensor, or keeps counts.
        self.supported = all(hasattr(mlp, name) for name in ("gate_proj", "up_proj", "down_proj"))
        self._read = threading.local()
        self._parts: list[tuple[Any, int]] = []
        if self.supported:
            self._parts.append((mlp, mlp.down_proj.out_features))
            output: Any = getattr(getattr(layer, "self_attn", None), "o_proj", None)
            if output is not None:
                self._parts.append((output, output.out_features))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let `read_at` choose the positions at which the parts run; restore them afterwards."""
        with ExitStack() as stack:
            for part, width in self._parts:
                stack.enter_context(
                    _replace_forward(part, self._narrow_output(part.forward, width))
                )
            yield

    @contextmanager
    def read_at(self, ends: Tensor | None) -> Iterator[None]:
        """Run the parts of this thread's pass at some positions only, with zeros elsewhere.

        Args:
            ends: indices of positions, row after row; None for no position.
        """
        self._read.ends = ends
        try:
            yield
        finally:
            del self._read.ends

    def _narrow_output(
        self, forward: Callable[[Tensor], Tensor], width: int
    ) -> Callable[[Tensor], Tensor]:
        def narrow(states: Tensor) -> Tensor:
            ends: Tensor | None = self._read.ends
            shape = torch.Size((*states.shape[:-1], width))
            if ends is None:
                return states.new_zeros(()).expand(shape)
            read = forward(states.reshape(-1, states.shape[-1])[ends])
            output = read.new_zeros((shape[:-1].numel(), width))
            output[ends] = read
            return output.view(shape)

        return narrow


@contextmanager
def _replace_forward(module: Any, forward: Callable[[Tensor], Tensor]) -> Iterator[None]:
    own = module.__dict__.get("forward")  # set by libraries that hook into modules
    module.forward = forward
    try:
        yield
    finally:
        if own is None:
            del module.forward
        else:
            module.forward = own


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
