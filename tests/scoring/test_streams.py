"""Passes on two streams against the same work on one: the theory of trees, and equal bits."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import LOGIT

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.cpu import Task, run_tasks, stream_count
from pact_eval.scoring.fork_engine import ForkEngine, Passes, fork_engine
from pact_eval.scoring.scorer import Scorer, largest_difference, one_by_one
from scoring.conftest import SMALL, random_model

PATIENCE = 60
"""Seconds after which a stream that waits for another one gives up."""

Tree = tuple["Tree", ...]
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.just(()), lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=20
)


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Torch has two threads here, as many as streams; an interrupt is not ignored."""
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    signal.signal(signal.SIGINT, interrupted)


def _visits(tree: Tree, place: tuple[int, ...], seen: list[tuple[int, ...]]) -> Task:
    """Return the task that notes a place in a tree, and then visits what is below."""

    def visit() -> Sequence[Task]:
        seen.append(place)
        return [_visits(below, (*place, n), seen) for n, below in enumerate(tree)]

    return visit


def _recursion(tree: Tree, place: tuple[int, ...]) -> list[tuple[int, ...]]:
    below = [_recursion(inner, (*place, n)) for n, inner in enumerate(tree)]
    return [place, *(one for way in below for one in way)]


@given(TREES)
def test_one_stream_visits_a_tree_as_recursion_does(tree: Tree) -> None:
    seen: list[tuple[int, ...]] = []
    run_tasks([_visits(tree, (), seen)])
    assert seen == _recursion(tree, ())


@given(TREES, st.integers(2, 3))
def test_streams_visit_every_place_once_and_parents_before_children(
    tree: Tree, streams: int
) -> None:
    seen: list[tuple[int, ...]] = []
    run_tasks([_visits(tree, (), seen)], streams)
    assert sorted(seen) == sorted(_recursion(tree, ()))
    assert all(place == () or place[:-1] in seen[:n] for n, place in enumerate(seen))


def test_a_stream_waits_for_tasks_that_the_other_one_makes() -> None:
    """The second stream has nothing to do until the first task ends with two that need both."""
    both = threading.Barrier(2, timeout=PATIENCE)

    def last() -> Sequence[Task]:
        both.wait()
        return ()

    run_tasks([lambda: [last, last]], 2)


def test_streams_share_the_threads_and_the_context() -> None:
    setting: ContextVar[str] = ContextVar("setting", default="lost")
    setting.set("kept")
    seen: set[tuple[int, str, bool]] = set()
    threads: set[int] = set()
    both = threading.Barrier(2, timeout=PATIENCE)

    def look() -> Sequence[Task]:
        both.wait()
        seen.add((torch.get_num_threads(), setting.get(), torch.is_inference_mode_enabled()))
        threads.add(threading.get_ident())
        return ()

    run_tasks([look, look], 2)
    assert seen == {(1, "kept", True)}
    assert len(threads) == 2


@pytest.mark.parametrize(
    ("tasks", "threads", "streams"), [(1, 2, 1), (2, 1, 1), (2, 2, 2), (9, 8, 2)]
)
def test_streams_need_tasks_and_threads(tasks: int, threads: int, streams: int) -> None:
    torch.set_num_threads(threads)
    assert stream_count(tasks) == streams
    torch.set_num_threads(2)


def _noting(seen: list[str]) -> Task:
    """Return a task that must not run."""

    def note() -> Sequence[Task]:
        seen.append("never")
        return ()

    return note


class _Tensors:
    """Stands for the memory of a pass."""


@pytest.mark.parametrize("streams", [1, 2])
def test_the_first_error_ends_all_and_nothing_of_its_pass_is_kept(streams: int) -> None:
    """The scorer frees the memory of a pass that had too little before it repeats it."""
    kept: list[weakref.ref[_Tensors]] = []
    seen: list[str] = []
    failed = threading.Event()

    def fail() -> Sequence[Task]:
        tensors = _Tensors()
        kept.append(weakref.ref(tensors))
        failed.set()
        raise MemoryError(id(tensors))

    def wait() -> Sequence[Task]:
        assert failed.wait(PATIENCE)
        seen.append("waited")
        return [_noting(seen)]

    gc.disable()
    try:
        with pytest.raises(MemoryError):
            run_tasks([fail, wait, wait, wait], streams)
        assert kept[0]() is None
    finally:
        gc.enable()
    assert "never" not in seen
    assert len(seen) < 2  # the task that ran beside it, if it had begun


def test_an_interrupt_waits_for_the_running_pass_and_starts_no_other() -> None:
    begun, interrupted = threading.Event(), threading.Event()
    seen: list[str] = []

    def work() -> Sequence[Task]:
        """In the helper, last until the first thread was interrupted."""
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(PATIENCE)
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                interrupted.set()
        begun.set()
        assert interrupted.wait(PATIENCE)
        seen.append("ended")
        return [_noting(seen)]

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run_tasks([work, work], 2)
    assert seen == ["ended"]
    assert threading.active_count() == before


def test_an_interrupt_of_a_stream_that_waits_ends_the_other_one_too() -> None:
    seen: list[str] = []
    both = threading.Barrier(2, timeout=PATIENCE)

    def work() -> Sequence[Task]:
        """In the first thread, end at once, and then wait for tasks of the helper."""
        both.wait()
        if threading.current_thread() is threading.main_thread():
            return ()
        _wait_until(main, ("wait",))
        time.sleep(0.2)  # a signal just before the lock would be noticed when the lock is free
        signal.pthread_kill(main, signal.SIGINT)
        _wait_until(main, ("join", "_wait_for_tstate_lock"))
        seen.append("ended")
        return [_noting(seen)]

    main = threading.get_ident()
    with pytest.raises(KeyboardInterrupt):
        run_tasks([work, work], 2)
    assert seen == ["ended"]


def _wait_until(thread: int, functions: Sequence[str]) -> None:
    """Wait until a thread is within one of these functions."""
    for _ in range(PATIENCE * 100):
        if sys._current_frames()[thread].f_code.co_name in functions:
            return
        time.sleep(0.01)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads that run passes."""
    running: set[int] = set()
    extend = Passes.extend

    def noted(self: Passes, *args: Any) -> Any:
        running.add(threading.get_ident())
        return extend(self, *args)

    monkeypatch.setattr(Passes, "extend", noted)
    return running


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["fused", "products"])
def test_two_streams_have_the_bits_of_one(kernel: Any, streams: set[int]) -> None:
    """Passes are the same, whichever stream runs them, and a stream of two has one thread too."""
    model = random_model("Qwen3", vocab_size=900, num_hidden_layers=2, **SMALL)
    logits = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        streams.clear()
        engine = fork_engine(model, torch.device("cpu"), batch_tokens=100)
        assert isinstance(engine, ForkEngine)
        engine.passes.kernel = kernel
        logits.append(_logits(engine, _views()))
        assert len(streams) == threads
    torch.set_num_threads(2)
    for one, two in zip(*logits, strict=True):
        np.testing.assert_array_equal(one, two)


_DYNAMIC = {
    "max_position_embeddings": 128,
    "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Qwen3", _DYNAMIC),
        ("Qwen3", {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1}),
        ("Qwen3Moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}),
    ],
    ids=["frequencies", "windows", "experts"],
)
def test_models_that_keep_states_run_one_pass_at_a_time(
    kind: str, config: dict[str, Any], streams: set[int]
) -> None:
    model = random_model(kind, vocab_size=900, num_hidden_layers=2, **SMALL, **config)
    scorer = Scorer(model, batch_tokens=100, engine="fork")
    views = _views()
    ours, plain = scorer.score(views), one_by_one(model, views)
    assert len(streams) == 1
    assert largest_difference(ours, plain) < LOGIT


def _views() -> list[EncodedView]:
    """Eight trunks of 39 tokens that share nothing, each with three ends and a branch of two."""
    drawn = torch.Generator().manual_seed(4)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(10, 900, (count,), generator=drawn).tolist())

    prompts = []
    for _ in range(8):
        trunk, branch = ids(39), ids(12)
        prompts += [trunk + ids(5) for _ in range(3)] + [trunk + branch + ids(6) for _ in range(2)]
    codes = tuple(range(5, 8))
    return [EncodedView(f"r{n}", 0, row, codes, (0, 1, 2)) for n, row in enumerate(prompts)]


def _logits(engine: ForkEngine, views: Sequence[EncodedView]) -> list[Any]:
    scored: dict[int, Any] = {}
    engine.score(views, lambda numbers, results: scored.update(zip(numbers, results, strict=True)))
    assert engine.count.passed == engine.count.floor
    return [scored[number].logits for number in range(len(views))]
