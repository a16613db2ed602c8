from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import transformers
from tolerances import LOGIT

from pact_eval.errors import MemoryExhaustedError
from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.engine import BatchedEngine
from pact_eval.scoring.fork_engine import Passes
from pact_eval.scoring.prefix_tree import prefix_tree
from pact_eval.scoring.scorer import Scorer, largest_difference, one_by_one


@pytest.fixture(scope="module")
def model(qwen3: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()


@pytest.fixture
def views() -> list[EncodedView]:
    generator = torch.Generator().manual_seed(2)
    rows = [torch.randint(10, 900, (40,), generator=generator).tolist() for _ in range(12)]
    shared = rows[0]
    return [
        EncodedView(f"r{n}", 0, tuple(shared + row[: 20 + n]), (5, 6, 7), (0, 1, 2))
        for n, row in enumerate(rows)
    ]


def _limit(patch: pytest.MonkeyPatch, kind: type, method: str, tokens: int) -> list[int]:
    """Let memory run out for passes of more tokens; return the sizes that were tried."""
    tried: list[int] = []
    whole = getattr(kind, method)

    def limited(self: Any, *args: Any, **kwargs: Any) -> Any:
        if method == "_run":  # segments stand side by side
            size = sum(map(len, args[2]))
        else:
            size = len(args[0]) * max(len(view.token_ids) for view in args[0])
        tried.append(size)
        if size > tokens:
            raise torch.OutOfMemoryError
        return whole(self, *args, **kwargs)

    patch.setattr(kind, method, limited)
    return tried


def test_half_the_budget_is_taken_until_it_fits_and_nothing_is_scored_twice(
    model: Any, views: list[EncodedView], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = one_by_one(model, views)
    scorer = Scorer(model, 100_000, "fork")
    scorer.prepare(views)
    scorer.reset_counts()
    tried = _limit(monkeypatch, Passes, "_run", 50)
    done: list[int] = []
    assert largest_difference(scorer.score(views, done.append), plain) < LOGIT
    assert done == sorted(done)
    assert done[-1] == len(views)
    budget = scorer.facts["batch_tokens"]
    assert isinstance(budget, int)
    assert 25 < budget <= 62  # two rows of 31 tokens: halved as often as it had to be
    assert max(tried) > 50
    # Prompts that were run twice are one floor all the same.
    tokens: Any = scorer.facts["tokens"]
    assert tokens["prompts"] == sum(len(view.token_ids) for view in views)
    assert tokens["floor"] == prefix_tree([view.token_ids for view in views]).floor
    assert tokens["passed"] > tokens["floor"]


def test_a_fork_that_never_fits_gives_way_to_whole_prompts_one_by_one(
    model: Any, views: list[EncodedView], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer(model, 4096)
    scorer.prepare(views)
    assert scorer.facts["name"] == "fork"
    scorer.reset_counts()
    _limit(monkeypatch, Passes, "_run", 10)
    _limit(monkeypatch, BatchedEngine, "_forward", 80)
    assert largest_difference(scorer.score(views), one_by_one(model, views)) < LOGIT
    assert scorer.facts["name"] == "batched"
    assert scorer.facts["passed_over"] == ["fork: memory ran out"]
    tokens: Any = scorer.facts["tokens"]
    assert tokens["prompts"] == sum(len(view.token_ids) for view in views)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_other_words_for_memory_that_ran_out_halve_the_budget_too(
    model: Any, views: list[EncodedView], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    scorer = Scorer(model, 4096, "fork")
    scorer.prepare(views)
    whole = Passes._run
    failed: list[Exception] = []

    def once(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(error)
            raise error
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(Passes, "_run", once)
    assert largest_difference(scorer.score(views), one_by_one(model, views)) < LOGIT
    assert scorer.facts["batch_tokens"] == 2048


@pytest.mark.parametrize("engine", [None, "fork"])
def test_memory_that_runs_out_with_one_prompt_is_an_error(
    model: Any,
    views: list[EncodedView],
    monkeypatch: pytest.MonkeyPatch,
    engine: Literal["fork"] | None,
) -> None:
    """A fork that was asked for does not go on as `batched`: the run's settings say fork."""
    scorer = Scorer(model, 4096) if engine is None else Scorer(model, 4096, engine)
    scorer.prepare(views)
    _limit(monkeypatch, Passes, "_run", 10)
    if engine is None:
        _limit(monkeypatch, BatchedEngine, "_forward", 10)
    with pytest.raises(MemoryExhaustedError, match="one prompt at a time"):
        scorer.score(views)


def test_another_runtime_error_is_not_taken_for_memory(
    model: Any, views: list[EncodedView], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer(model, 4096)
    scorer.prepare(views)

    def broken(*_args: Any, **_kwargs: Any) -> Any:
        message = "shapes do not match"
        raise RuntimeError(message)

    monkeypatch.setattr(Passes, "_run", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        scorer.score(views)


LITTLE_MEMORY = """
    import resource, sys
    import torch, transformers
    from pact_eval.prompts.encoding import EncodedView
    from pact_eval.scoring.engine import BatchedEngine
    from pact_eval.scoring.scorer import drain

    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        sys.argv[1], dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = tuple(torch.randint(10, 900, (400,), generator=torch.Generator().manual_seed(1)).tolist())
    views = [EncodedView("r", n, (n + 10, *ids), (5, 6), (0, 1)) for n in range(96)]
    executor = BatchedEngine(model, 200_000)
    drain(BatchedEngine(model, 401), views[:1], lambda _done: None)
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000,) * 2)
    scored = drain(executor, views, lambda _done: None)
    print(len(scored), executor.batch_tokens)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address space cannot be limited here")
def test_a_process_with_little_memory_goes_on_with_smaller_passes(qwen3: Path) -> None:
    """What torch really raises on a CPU: a plain RuntimeError of its allocator."""
    program = textwrap.dedent(LITTLE_MEMORY)
    words = [sys.executable, "-c", program, str(qwen3)]
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    scored, budget = map(int, run.stdout.split())
    assert scored == 96
    assert 401 <= budget < 200_000
