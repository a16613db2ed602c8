"""Score encoded views with the fastest engine that agrees with the plain forward pass.

Engines are tried in order on the first views and compared with one plain forward pass per prompt
(the oracle). An engine that disagrees is not used, and the run records why. If memory runs out, the
budget per pass is halved and scoring continues; earlier scores are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch

from pact_eval._json import Json
from pact_eval.errors import AdapterError, MemoryExhaustedError
from pact_eval.prompts.encoding import EncodedView
from pact_eval.runs.provenance import EngineCheck, RecordedEngine
from pact_eval.scoring.cpu import float32_products, matmul_precision
from pact_eval.scoring.engine import BatchedEngine, Engine, NaiveEngine, ScoredView
from pact_eval.scoring.fork_engine import ForkEngine, fork_engine
from pact_eval.scoring.request import EngineName, KernelName
from pact_eval.scoring.shared_prefix_attention import DEFAULT_KERNEL

TOLERANCE: Final = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}
"""Largest accepted difference from the oracle's logits, by dtype: far above rounding errors, far
below the effect of a wrong mask."""

_OUT_OF_MEMORY: Final = (
    "out of memory with one prompt at a time; scores so far are kept: repeat the command on a "
    "device with more memory, or use a smaller --dtype and another folder"
)

_OUT_OF_MEMORY_WORDS: Final = (
    "DefaultCPUAllocator",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
    "bad_alloc",
    "could not create a memory object",
)

# Engines are checked on the first views, which share a prefix, on the last views, which have other
# lengths, and on pieces of them.
_FIRST, _LAST = 4, 2
_CUT: Final = (1, 2, 5)
_TRUNK: Final = 40
_SHORT: Final = 5

OnBatch = Callable[[int], None]
OnScores = Callable[[Sequence[EncodedView], Sequence[ScoredView]], None]
"""Called after every batch with the number of views that are done."""


class Scorer:
    """Scores encoded views.

    Args:
        model: a causal language model (or its multimodal shell), with or without an adapter.
        batch_tokens: limit on the tokens of a pass, padding included; lowered when memory runs out.
        engine: name of the engine; auto takes the first of fork, batched and naive that works.
        kernel: name of the kernel that attends to shared prefixes on a CPU.

    Attributes:
        plain_mass: mean answer mass of the plain passes of `prepare`; 1 before.
    """

    def __init__(
        self,
        model: Any,
        batch_tokens: int,
        engine: EngineName = "auto",
        kernel: KernelName = DEFAULT_KERNEL,
    ) -> None:
        self.model = model
        self.device: torch.device = next(model.parameters()).device
        # Packed four-bit weights are integers; the other layers have the precision of the run.
        floating = (
            parameter.dtype for parameter in model.parameters() if parameter.dtype.is_floating_point
        )
        self.dtype: torch.dtype = next(floating)
        self._batch_tokens = batch_tokens
        self._requested = engine
        self.kernel = kernel
        self._engine: Engine | None = None
        self._checked: Engine | None = None
        self._budget = self._least_budget = batch_tokens
        self._gave_way = False
        self._passed_over: list[str] = []
        self._check = EngineCheck()
        self.plain_mass = 1.0
        self._products = "default"
        self._rope_limit = _rope_limit(model)

    @property
    def facts(self) -> dict[str, Json]:
        """Record of how views were scored, for `run.json`; empty before any were scored."""
        if self._engine is None:
            return {}
        count, gave_way = self._engine.count, self._gave_way
        shares_prefix = False if gave_way else self._engine.shares_prefix
        return RecordedEngine(
            name="batched" if gave_way else self._engine.name,
            shares_prefix=shares_prefix,
            passed_over=tuple(self._passed_over),
            matrix_products=self._products,
            attention_kernel=self.kernel if shares_prefix else None,
            batch_tokens=min(self._least_budget, self._engine.batch_tokens),
            check=self._check,
            tokens={"prompts": count.prompts, "floor": count.floor, "passed": count.passed},
        ).to_json()

    def prepare(self, views: Sequence[EncodedView]) -> None:
        """Choose the engine and check it on a few views; does nothing if called again.

        Args:
            views: views of the data that will be scored, at least one.

        Raises:
            AdapterError: the requested engine or the device does not work with this model, or
                memory runs out with one prompt.
        """
        if self._engine is not None:
            return
        sample = check_views(views)
        try:
            oracle = one_by_one(self.model, sample)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise MemoryExhaustedError(_OUT_OF_MEMORY) from error
            if self.device.type in ("cpu", "cuda"):
                raise
            raise AdapterError(_not_on(self.device, error)) from error
        self.plain_mass = sum(view.answer_mass for view in oracle) / len(oracle)
        for name in self._candidates():
            try:
                reason = self._try_engine(name, sample, oracle)
            except Exception as error:  # noqa: BLE001 -- a model's code may raise anything here
                reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if reason is None:
                return
            if reason:
                self._passed_over.append(f"{name}: {reason}")
        raise AdapterError("no engine works with this model; " + "; ".join(self._passed_over))

    def score(
        self,
        views: Sequence[EncodedView],
        on_batch: OnBatch = lambda _views_done: None,
        on_scores: OnScores = lambda _views, _scores: None,
    ) -> list[ScoredView]:
        """Score views.

        Args:
            views: encoded views.
            on_batch: called after every batch with the number of views that are done.
            on_scores: called after every batch with its views and their scores. If memory runs
                out, views may come again.

        Returns:
            Their scores, in the order of `views`.

        Raises:
            AdapterError: a logit is not a finite number, memory runs out with one prompt, or the
                requested engine does not work with this model.
        """
        if not views:
            return []
        self.prepare(views)
        long = {n for n, view in enumerate(views) if len(view.token_ids) > self._rope_limit}
        done = len(views) - len(long)
        together = [view for n, view in enumerate(views) if n not in long]
        short = self._score_together(together, on_batch, on_scores)
        naive = NaiveEngine(self.model)
        naive.count = self._chosen.count
        alone = self._drain(
            naive,
            [views[n] for n in sorted(long)],
            lambda more: on_batch(done + more),
            on_scores,
        )
        if short is None or alone is None:
            raise MemoryExhaustedError(_OUT_OF_MEMORY)
        rest, apart = iter(short), iter(alone)
        return [next(apart) if n in long else next(rest) for n in range(len(views))]

    def check_adapter_effect(self, views: Sequence[EncodedView]) -> float:
        """Check that the adapter changes the logits.

        Args:
            views: a few views of the data that will be scored.

        Returns:
            The largest absolute difference between a logit with and without the adapter.

        Raises:
            AdapterError: all logits are identical: the adapter is not applied, or is untrained.
        """
        on = self.score(views)
        with self.model.disable_adapter():
            off = self.score(views)
        difference = largest_difference(on, off)
        if difference == 0.0:
            raise AdapterError(
                f"the adapter has no effect: on {len(views)} views all logits are identical with "
                "the adapter switched off (is it untrained?)"
            )
        return difference

    def merge_adapter(self, views: Sequence[EncodedView]) -> dict[str, Json]:
        """Add the adapter to the weights: later passes need no separate products for it.

        Args:
            views: a few views of the data that will be scored.

        Returns:
            The change on these views: number of views, largest difference of a logit, number of
            views whose most probable answer changes.

        Raises:
            AdapterError: a logit changes by more than rounding errors.
        """
        before = self.score(views)
        self.model = self.model.merge_and_unload()
        self._engine, self._passed_over, self._gave_way = None, [], False
        after = self.score(views)
        drift = largest_difference(before, after)
        if not drift <= TOLERANCE[self.dtype]:
            raise AdapterError(
                f"merging the adapter changes a logit by {drift:.2g}, more than rounding errors "
                "would: score without merge"
            )
        flips = sum(
            int(a.logits.argmax() != b.logits.argmax()) for a, b in zip(before, after, strict=True)
        )
        return {"views": len(views), "largest_logit_difference": drift, "flips": flips}

    def reset_counts(self) -> None:
        """Set the token counts to zero, to leave out the passes of the checks."""
        self._chosen.count.reset()

    def start_window(self) -> None:
        """Forget that memory ran out before: return to the engine and the budget of the check.

        Passes, and with them the last bits of logits, then depend on the records of a window alone,
        whoever scored the windows before it.
        """
        if self._engine is None or self._checked is None:
            return
        self._least_budget = min(self._least_budget, self._engine.batch_tokens)
        self._engine = self._checked
        self._engine.batch_tokens = self._budget

    @property
    def _chosen(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("expected prepare() to be called first")
        return self._engine

    def _candidates(self) -> Sequence[str]:
        forks = ("fork", "fork by rows")
        if self._requested == "auto":
            return (*forks, "batched", "naive")
        return forks if self._requested == "fork" else (self._requested,)

    def _make_engine(self, name: str) -> Engine | str:
        """Return an engine, or the reason why it does not work with this model."""
        if name == "batched":
            return BatchedEngine(self.model, self._batch_tokens)
        if name == "naive":
            return NaiveEngine(self.model)
        engine = fork_engine(self.model, self.device, self._batch_tokens)
        if isinstance(engine, ForkEngine):
            engine.passes.kernel = self.kernel
            # Dynamic and long RoPE keep the frequencies of the last pass in the model.
            engine.one_at_a_time = math.isfinite(self._rope_limit)
        if name == "fork by rows":
            # With the model's own attention, which supports options that ours does not.
            if isinstance(engine, str) or not engine.shares_prefix:
                return ""
            engine.passes.shares_prefix = False
        return engine

    def _try_engine(
        self, name: str, sample: Sequence[EncodedView], oracle: Sequence[ScoredView]
    ) -> str | None:
        """Use an engine if it agrees with the oracle; otherwise return why not.

        An empty reason means that this engine would be the same as the previous one.
        """
        engine = self._make_engine(name)
        if isinstance(engine, str):
            return engine
        scored = self._drain(engine, sample)
        if scored is None:
            return "memory ran out"
        difference = largest_difference(scored, oracle)
        if not difference <= TOLERANCE[self.dtype]:
            return f"its logits differ from the plain forward pass by {difference:.2g}"
        off = max(abs(a.answer_mass - b.answer_mass) for a, b in zip(scored, oracle, strict=True))
        if not off <= TOLERANCE[self.dtype] / 5:
            return f"its answer mass differs from the plain forward pass by {off:.2g}"
        self._check = EngineCheck(len(sample), difference)
        self._engine = self._checked = engine
        self._budget = engine.batch_tokens
        return None

    def _score_together(
        self, views: Sequence[EncodedView], on_batch: OnBatch, on_scores: OnScores
    ) -> list[ScoredView] | None:
        scored = self._drain(self._chosen, views, on_batch, on_scores)
        if scored is None and self._chosen.name == "fork" and self._requested == "auto":
            if not self._gave_way:
                self._passed_over.append("fork: memory ran out")
            self._gave_way = True
            count = self._chosen.count
            self._engine = BatchedEngine(self.model, self._batch_tokens)
            self._engine.count = count
            with count.of_prompts_counted_before():
                scored = self._drain(self._engine, views, on_batch, on_scores)
        return scored

    def _drain(
        self,
        engine: Engine,
        views: Sequence[EncodedView],
        on_batch: OnBatch = lambda _views_done: None,
        on_scores: OnScores = lambda _views, _scores: None,
    ) -> list[ScoredView] | None:
        with float32_products(self.device, self.dtype) as self._products:
            return drain(engine, views, on_batch, on_scores)


def _not_on(device: torch.device, error: Exception) -> str:
    reason = str(error).partition("\n")[0].partition(". ")[0]
    return f"--device {device.type}: it cannot run this model ({reason}); give --device cpu"


def one_by_one(model: Any, views: Sequence[EncodedView]) -> list[ScoredView]:
    """Score one unpadded prompt at a time with the plain forward pass (the oracle).

    Its float32 products are float32, without oneDNN and whatever precision the user has set.
    """
    scored: list[ScoredView] = []
    with matmul_precision("highest"):
        NaiveEngine(model).score(views, lambda _numbers, results: scored.extend(results))
    return scored


def sample_views(views: Sequence[EncodedView]) -> list[EncodedView]:
    """Return the real views that engines and precisions are checked on: the first and the last."""
    return [*views[:_FIRST], *views[_FIRST:][-_LAST:]]


def check_views(views: Sequence[EncodedView]) -> list[EncodedView]:
    """Return the views that engines are checked on: some real views, and pieces of them.

    Real prompts are alike: their leaves have similar lengths, and an error in a recurrent state has
    faded at their ends. The pieces differ: a prompt that is a prefix of another, a leaf of one
    token, two branches of which one is padded, and a prompt much shorter than the rest of a batch.

    Args:
        views: views of the data that will be scored, at least one.

    Examples:
        >>> view = EncodedView("a", 0, tuple(range(100)), (7, 8), (0, 1))
        >>> [len(piece.token_ids) for piece in check_views([view])]
        [100, 99, 98, 95, 5, 80, 81, 81, 82]
    """
    sample = sample_views(views)
    first, last = sample[0], sample[-1].token_ids
    prompt, one, other = first.token_ids, first.code_tokens[0], first.code_tokens[1]
    pieces = [prompt[:-cut] for cut in _CUT] + [prompt[:_SHORT]]
    for branch in (last[-_TRUNK + 1 :], last[-_TRUNK:]):
        pieces += [(*prompt[:_TRUNK], *branch, *leaf) for leaf in ((one,), (other, one))]
    return sample + [replace(first, token_ids=piece) for piece in pieces if piece]


def largest_difference(a: Sequence[ScoredView], b: Sequence[ScoredView]) -> float:
    """Return the largest absolute difference between logits in two scores of the same views."""
    return max(
        float(np.abs(mine.logits - theirs.logits).max()) for mine, theirs in zip(a, b, strict=True)
    )


def drain(
    engine: Engine,
    views: Sequence[EncodedView],
    on_batch: OnBatch,
    on_scores: OnScores = lambda _views, _scores: None,
) -> list[ScoredView] | None:
    """Score all views; each time memory runs out, halve the tokens per pass and continue.

    Earlier scores are kept, and the engine keeps the smaller budget.

    Args:
        engine: the engine that runs the views.
        views: the views.
        on_batch: called after every batch with the number of views that are done.
        on_scores: called after every batch with its views and their scores.

    Returns:
        Scores in the order of `views`, or None if memory runs out even at the smallest budget.
    """
    scored: dict[int, ScoredView] = {}
    counting: AbstractContextManager[None] = nullcontext()
    while len(scored) < len(views):
        pending = [number for number in range(len(views)) if number not in scored]
        with counting:
            ran = _ran(engine, views, pending, scored, (on_batch, on_scores))
        if ran:
            continue
        counting = engine.count.of_prompts_counted_before()
        if engine.batch_tokens <= 1:
            return None
        # Only here: within the `except` block, the traceback keeps the tensors of the failed pass.
        engine.batch_tokens //= 2
        release_memory()
    return [scored[number] for number in range(len(views))]


def release_memory() -> None:
    """Let the accelerator give back memory that it keeps, if there is one and it keeps any."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None:
        module: Any = torch.get_device_module(accelerator)
        getattr(module, "empty_cache", lambda: None)()


def _ran(
    engine: Engine,
    views: Sequence[EncodedView],
    pending: Sequence[int],
    scored: dict[int, ScoredView],
    told: tuple[OnBatch, OnScores],
) -> bool:
    """Run the pending views; return whether memory sufficed."""
    on_batch, on_scores = told

    def keep(numbers: Sequence[int], results: Sequence[ScoredView]) -> None:
        scored.update(zip((pending[number] for number in numbers), results, strict=True))
        on_scores([views[pending[number]] for number in numbers], results)
        on_batch(len(scored))

    try:
        engine.score([views[number] for number in pending], keep)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out.

    Examples:
        >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))
        True
    """
    # On a CPU torch raises a plain RuntimeError, and the libraries below it use other messages.
    is_memory_error = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return is_memory_error or any(words in str(error) for words in _OUT_OF_MEMORY_WORDS)


def _rope_limit(model: Any) -> float:
    """Return the longest prompt, in tokens, that may share a pass with others.

    Beyond this length, dynamic and long RoPE use other frequencies, which depend on the longest
    prompt of a pass.
    """
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, dict))]
    if not any(kind.get("rope_type") in ("dynamic", "longrope") for kind in kinds):
        return math.inf
    lengths = [kind.get("original_max_position_embeddings") for kind in kinds]
    lengths.append(getattr(config, "original_max_position_embeddings", None))
    return float(min([n for n in lengths if n] or [config.max_position_embeddings]))
