"""What makes scoring on a CPU faster: settings, passes on two streams, and a probe of kernels.

benchmarks/performance.md has what was measured and what was not kept.

**Settings.** Products of float32 tensors use oneDNN if they stay float32. glibc keeps freed memory:
up to half of a pass went into faults of pages that it had given back.

**Streams.** Each is a thread with its share of torch's threads. The threads of one pass wait for
each other at every operation, and for its Python code. Passes on two streams fill each other's
gaps, and each needs half as many threads. On an AMD EPYC with two cores, two streams of one thread
took 0.74 to 0.98 of the time of one stream of two threads. The gain is largest with small models.
A task does some work and returns the tasks that it makes possible. The newest task runs first: one
stream then goes down a tree as recursion would, and few intermediate results stay in memory.

**Probe.** Which kernel of attention is faster depends on the processor and on the library of its
matrix products: explicit products took 0.80 of the time on AMD, and longer on Intel. The probe
takes turns between the kernels on two passes through one layer, with the lengths of the dataset and
random states. One pass is the longest branch of the first prompts, the other are the leaves of one
branch.
"""

from __future__ import annotations

import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from pact_eval._json import Json
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.prefix_tree import Branch, prefix_tree
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.shared_prefix_attention import (
    DEFAULT_KERNEL,
    Segments,
    shared_layer,
    shared_prefix_attention,
)

FLOAT32_ERROR: Final = 5e-6
"""Largest error of a product, relative to its largest entry, that counts as float32.

On the probe's sums of 1,024 products, the error of float32 was 4e-7 (MKL) and 6e-7 (oneDNN), which
leaves room for other orders of summation. With factors rounded to TF32 it was 3e-4, and with
factors rounded to bfloat16 2e-3.
"""

_SHAPE: Final = (192, 1024, 160)


@cache
def onednn_stays_float32() -> bool:
    """Return whether oneDNN's products on this CPU are float32."""
    return onednn_error() <= FLOAT32_ERROR


def onednn_error() -> float:
    """Measure the largest error of oneDNN's products, relative to their largest entry.

    The inner dimension is that of small models. The shapes are not powers of two. Processors with
    AMX or the bfloat16 instructions of AVX-512 round the factors to bfloat16.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return math.inf
    rows, inner, columns = _SHAPE
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(rows, inner, generator=generator)
    b = torch.randn(columns, inner, generator=generator)
    exact = a.double() @ b.double().T
    with matmul_precision("medium"):
        product = torch.nn.functional.linear(a, b).double()
    return float((product - exact).abs().max() / exact.abs().max())


@contextmanager
def float32_products(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """Compute products of float32 tensors as float32, whatever precision the user has set.

    Scores are measurements: a precision that was set for training does not change them. A model of
    another dtype has such products too, as in the angles of its rotary embedding. On a CPU,
    float32 models use oneDNN if the probe allows it.

    Yields:
        The backend: "oneDNN, float32 by probe", or "default".
    """
    fast = device.type == "cpu" and dtype == torch.float32 and onednn_stays_float32()
    with matmul_precision("medium" if fast else "highest"):
        yield "oneDNN, float32 by probe" if fast else "default"


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Set the precision of float32 products; then restore what either interface of torch had.

    Args:
        name: "highest", "high" or "medium", as `torch.set_float32_matmul_precision` takes it.
    """
    name_before = _precision_name()
    before = []
    for operation, parent in _settings():
        inherits = operation.fp32_precision == parent.fp32_precision
        before.append((operation, "none" if inherits else operation.fp32_precision))
    torch.set_float32_matmul_precision(name)
    for operation, _precision in before[2:]:
        operation.fp32_precision = "ieee"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(name_before)
        for operation, precision in before:
            operation.fp32_precision = precision


def _precision_name() -> str:
    """Return the precision that was set by name; the default if torch's interfaces disagree."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _settings() -> list[tuple[Any, Any]]:
    """Return torch's settings by operation, each with the one that it inherits from.

    Setting a precision by name changes the first two. torch before 2.9 has names only.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):
        return []
    cpu: Any = torch.backends.mkldnn
    cuda: Any = torch.backends.cudnn
    return [(cpu.matmul, cpu), (torch.backends.cuda.matmul, cuda), (cpu.conv, cpu)]


# <malloc.h>: blocks up to the first size come from the heap, which is trimmed at the second.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 1 << 30
_NEVER: Final = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks of up to 1 GiB until the process ends.

    The peak memory in use does not change; freed memory stays with the process.

    Returns:
        Whether the C library accepted the setting; False on systems without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, _NEVER))


STREAMS: Final = 2
"""Streams of a model: more would hold more passes in memory."""

Task = Callable[[], Sequence[Any]]
"""Does some work and returns the tasks, of this type, that follow it. The first of them runs first.
"""


def stream_count(tasks: int) -> int:
    """Return on how many streams to run tasks: one if they are few, or torch has one thread.

    Args:
        tasks: number of tasks that can start at once.
    """
    return STREAMS if min(tasks, torch.get_num_threads()) >= STREAMS else 1


def run_tasks(tasks: Sequence[Task], streams: int = 1) -> None:
    """Run tasks and all that follow from them, in inference mode.

    Args:
        tasks: the tasks; the first starts first.
        streams: number of tasks that run at once, one of them in this thread.

    Raises:
        BaseException: the first error of a task. It is raised when the tasks that run have ended;
            no other starts.

    Examples:
        >>> def task(name: str, *following: Task) -> Task:
        ...     return lambda: print(name) or following
        >>> run_tasks([task("trunk", task("left", task("leaf")), task("right")), task("other")])
        trunk
        left
        leaf
        right
        other
    """
    stack = _Stack(tasks)
    helpers = [
        threading.Thread(target=copy_context().run, args=(stack.drain,)) for _ in range(streams - 1)
    ]
    with threads_of_stream(streams):
        for helper in helpers:
            helper.start()
        try:
            stack.drain()
        finally:
            stack.stop()
            for helper in helpers:
                helper.join()
    stack.raise_error()


class _Stack:
    """Tasks that wait for a stream."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._waiting = [*reversed(tasks)]
        self._running = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    @torch.inference_mode()
    def drain(self) -> None:
        """Run tasks until none waits and none runs, or until one fails."""
        while self._ran():
            pass

    def stop(self) -> None:
        """Start no other task."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def raise_error(self) -> None:
        """Raise the first error, if there is one, and forget it: it keeps the tensors of a pass."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    def _ran(self) -> bool:
        """Run one task; return whether there was one. Nothing of it is kept while others wait."""
        task = self._take()
        if task is None:
            return False
        try:
            following = task()
        except BaseException as error:  # noqa: BLE001 -- raised again by `raise_error`
            self._finish((), error)
        else:
            self._finish(following, None)
        return True

    def _take(self) -> Task | None:
        """Wait for a task; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopped or not self._running)
            if self._stopped or not self._waiting:
                return None
            self._running += 1
            return self._waiting.pop()

    def _finish(self, following: Sequence[Task], error: BaseException | None) -> None:
        with self._changed:
            self._running -= 1
            self._waiting += reversed(following)
            self._error = self._error or error
            self._stopped = self._stopped or error is not None
            self._changed.notify_all()


@contextmanager
def threads_of_stream(streams: int) -> Iterator[None]:
    """Give operations of this thread, and of those that it starts, their share of torch's threads.

    Args:
        streams: number of streams that share them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // streams))
    try:
        yield
    finally:
        torch.set_num_threads(before)


PROBE_SECONDS: Final = 0.2
"""Most time of a probe, as far as the times of its first turns predict."""

# Noise must not decide between kernels that are equally fast: then two runs could differ in bits.
_CLEARLY: Final = 0.95

# A turn takes a few milliseconds: the ratio of two kernels depends little on what is left out.
_MOST_TOKENS: Final = 256
_MOST_KEYS: Final = 4096
_MOST_PRODUCTS: Final = 1 << 26
_TURNS: Final = 7
_OTHER: Final = "products"
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

    def turn(kernel: KernelName) -> None:
        for run in trials:
            run(kernel)

    with float32_products(_CPU, dtype), threads_of_stream(STREAMS), torch.inference_mode():
        seconds = least_seconds({name: partial(turn, name) for name in (DEFAULT_KERNEL, _OTHER)})
    return _OTHER if seconds[_OTHER] < _CLEARLY * seconds[DEFAULT_KERNEL] else DEFAULT_KERNEL


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


def _trial(shape: HeadShape, ahead: int, lengths: Sequence[int]) -> Callable[[KernelName], Tensor]:
    """Return one pass through one layer: with a kernel, it gives the output, (1, S, heads, d)."""
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

    query = drawn(heads.key_heads * heads.heads_per_key, tokens)
    key, value = drawn(heads.key_heads, tokens), drawn(heads.key_heads, tokens)
    prefix = drawn(heads.key_heads, before)[0], drawn(heads.key_heads, before)[0]
    segments = Segments(kept, [0] * len(kept), final=True)

    def run(kernel: KernelName) -> Tensor:
        empty = DynamicLayer()  # type: ignore[no-untyped-call]
        layer = shared_layer(empty, segments, unread=False)
        layer.parts = [prefix]
        keys, values = layer.update(key, value)
        return shared_prefix_attention(None, query, keys, values, None, kernel=kernel)[0]

    return run


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
