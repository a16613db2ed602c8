"""Scores encoded views with the fastest engine that agrees with the oracle, within the memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
import torch

from pact_eval._json import Json
from pact_eval.errors import AdapterError
from pact_eval.prompts import EncodedView
from pact_eval.scoring.cpu_tuning import fast_float32
from pact_eval.scoring.engine import Executor, ScoredView
from pact_eval.scoring.fork_engine import fork_executor
from pact_eval.scoring.plain_engines import BatchedExecutor, NaiveExecutor

EngineName = Literal["auto", "fork", "batched", "naive"]

ENGINES: Final[tuple[EngineName, ...]] = ("auto", "fork", "batched", "naive")
"""Names of engines; auto is the first of the others that the model allows."""

TOLERANCE: Final = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.5}
"""Largest difference of a logit from the oracle's that passes, by dtype: far above rounding, below
what a wrong mask does."""

_OUT_OF_MEMORY: Final = (
    "out of memory with one prompt at a time; what was scored is kept: run the command again on a "
    "device with more memory, or with a smaller --dtype in another folder"
)

OnBatch = Callable[[int], None]


class Engine:
    """Scores encoded views.

    Args:
        model: a causal language model (or its multimodal shell), with or without an adapter.
        batch_tokens: tokens that a pass may have, padding included; less where memory runs out.
        engine: how views pass through the model.
    """

    def __init__(self, model: Any, batch_tokens: int, engine: EngineName = "auto") -> None:
        self.model = model
        self.batch_tokens = batch_tokens
        self.engine = engine
        self.device: torch.device = next(model.parameters()).device
        self.dtype: torch.dtype = next(model.parameters()).dtype
        self._executor: Executor | None = None
        self._passed_over: list[str] = []
        self._check: dict[str, Json] = {}
        self._products = "default"
        self._rope_limit = _rope_limit(model)

    @property
    def facts(self) -> dict[str, Json]:
        """How views were scored, for `run.json`; empty before the first were."""
        if self._executor is None:
            return {}
        count = self._executor.count
        return {
            "name": self._executor.name,
            "shares_prefix": bool(getattr(self._executor, "shares_prefix", False)),
            "passed_over": [*self._passed_over],
            "matrix_products": self._products,
            "batch_tokens": self._executor.batch_tokens,
            "check": dict(self._check),
            "tokens": {"prompts": count.prompts, "floor": count.floor, "passed": count.passed},
        }

    def prepare(self, views: Sequence[EncodedView]) -> None:
        """Choose the executor, and check it on a few views; does nothing the second time.

        Args:
            views: of the data that will be scored, one at least.

        Raises:
            AdapterError: the engine that was asked for does not work with this model, or memory
                runs out with one prompt.
        """
        if self._executor is not None:
            return
        sample = check_views(views)
        try:
            oracle = one_by_one(self.model, sample)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise AdapterError(_OUT_OF_MEMORY) from error
        for name in self._candidates():
            try:
                reason = self._tried(name, sample, oracle)
            except Exception as error:  # noqa: BLE001 -- whatever a model's code does with a cache
                reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            if reason is None:
                return
            if reason:
                self._passed_over.append(f"{name}: {reason}")
        message = "no engine works with this model; " + "; ".join(self._passed_over)
        raise AdapterError(message)

    def _tried(
        self, name: str, sample: Sequence[EncodedView], oracle: Sequence[ScoredView]
    ) -> str | None:
        """Take an executor if it agrees with the oracle, or return why it was not taken.

        An empty reason says that this model has no such executor beside the one before it.
        """
        executor = self._made(name)
        if isinstance(executor, str):
            return executor
        scored = self._drained(executor, sample)
        if scored is None:
            return "memory ran out"
        difference = largest_difference(scored, oracle)
        if not difference <= TOLERANCE[self.dtype]:
            return f"its logits differ from the plain forward pass by {difference:.2g}"
        off = largest_mass_difference(scored, oracle)
        if not off <= TOLERANCE[self.dtype] / 5:
            return f"its answer mass differs from the plain forward pass by {off:.2g}"
        self._check = {"views": len(sample), "largest_logit_difference": difference}
        self._executor = executor
        return None

    def score(
        self, views: Sequence[EncodedView], on_batch: OnBatch = lambda _views_done: None
    ) -> list[ScoredView]:
        """Score views.

        Args:
            views: encoded views.
            on_batch: told after every batch how many of the views are done.

        Returns:
            Their scores, in the order of `views`.

        Raises:
            AdapterError: a logit is no finite number, memory runs out with one prompt, or the
                engine that was asked for does not work with this model.
        """
        if not views:
            return []
        self.prepare(views)
        long = {n for n, view in enumerate(views) if len(view.token_ids) > self._rope_limit}
        done = len(views) - len(long)
        short = self._scored([view for n, view in enumerate(views) if n not in long], on_batch)
        naive = NaiveExecutor(self.model)
        naive.count = self._chosen.count
        alone = self._drained(
            naive, [views[n] for n in sorted(long)], lambda more: on_batch(done + more)
        )
        if short is None or alone is None:
            raise AdapterError(_OUT_OF_MEMORY)
        rest, apart = iter(short), iter(alone)
        return [next(apart) if n in long else next(rest) for n in range(len(views))]

    def _scored(self, views: Sequence[EncodedView], on_batch: OnBatch) -> list[ScoredView] | None:
        scored = self._drained(self._chosen, views, on_batch)
        if scored is None and self._chosen.name == "fork" and self.engine == "auto":
            self._passed_over.append("fork: memory ran out")
            count = self._chosen.count
            self._executor = BatchedExecutor(self.model, self.batch_tokens)
            self._executor.count = count
            with count.of_prompts_counted_before():
                scored = self._drained(self._executor, views, on_batch)
        return scored

    def prove_adapter(self, views: Sequence[EncodedView]) -> float:
        """Prove that the adapter changes the logits.

        Args:
            views: a few views of the data that will be scored.

        Returns:
            The largest absolute difference of a logit with the adapter on and off.

        Raises:
            AdapterError: every logit is identical: the adapter is not applied or never trained.
        """
        on = self.score(views)
        with self.model.disable_adapter():
            off = self.score(views)
        difference = largest_difference(on, off)
        if difference == 0.0:
            message = (
                f"the adapter changes nothing: on {len(views)} views every logit is identical with "
                "the adapter switched off (is it untrained?)"
            )
            raise AdapterError(message)
        return difference

    def merge_adapter(self, views: Sequence[EncodedView]) -> dict[str, Json]:
        """Add the adapter to the weights, which spares its own products from now on.

        Args:
            views: a few views of the data that will be scored.

        Returns:
            What that changed on the views: number of views, largest difference of a logit, number
            of views whose most probable answer is another one.

        Raises:
            AdapterError: a logit changes by more than rounding does.
        """
        before = self.score(views)
        self.model = self.model.merge_and_unload()
        self._executor, self._passed_over = None, []
        after = self.score(views)
        drift = largest_difference(before, after)
        if not drift <= TOLERANCE[self.dtype]:
            message = (
                f"merging the adapter changes a logit by {drift:.2g}, which is more than rounding "
                "does: score without --merge"
            )
            raise AdapterError(message)
        flips = sum(
            int(a.logits.argmax() != b.logits.argmax()) for a, b in zip(before, after, strict=True)
        )
        return {
            "views": len(views),
            "largest_logit_difference": drift,
            "flips": flips,
        }

    def forget_counts(self) -> None:
        """Count tokens from nothing again: what came before was for proofs."""
        if self._executor is not None:
            self._executor.count.reset()

    @property
    def _chosen(self) -> Executor:
        if self._executor is None:
            message = "prepare() chooses the executor first"
            raise RuntimeError(message)
        return self._executor

    def _candidates(self) -> Sequence[str]:
        forks = ("fork", "fork by rows")
        if self.engine == "auto":
            return (*forks, "batched", "naive")
        return forks if self.engine == "fork" else (self.engine,)

    def _made(self, name: str) -> Executor | str:
        if name == "batched":
            return BatchedExecutor(self.model, self.batch_tokens)
        if name == "naive":
            return NaiveExecutor(self.model)
        executor = fork_executor(self.model, self.device, self.batch_tokens)
        if name == "fork by rows":
            # With the model's own attention: what ours does not know, it does.
            if isinstance(executor, str) or not executor.shares_prefix:
                return ""
            executor.passes.shares_prefix = False
        return executor

    def _drained(
        self,
        executor: Executor,
        views: Sequence[EncodedView],
        on_batch: OnBatch = lambda _views_done: None,
    ) -> list[ScoredView] | None:
        with fast_float32(self.device, self.dtype) as self._products:
            return drain(executor, views, on_batch)


def one_by_one(model: Any, views: Sequence[EncodedView]) -> list[ScoredView]:
    """Score one unpadded prompt at a time with the plain forward pass: the oracle for engines."""
    scored: dict[int, ScoredView] = {}
    NaiveExecutor(model).score(
        views, lambda numbers, results: scored.update(zip(numbers, results, strict=True))
    )
    return [scored[number] for number in range(len(views))]


def _rope_limit(model: Any) -> float:
    """Return up to how many tokens a prompt may share a pass with others.

    Beyond it, dynamic and long RoPE take other frequencies, for all of a pass by its longest
    prompt.
    """
    config = model.config.get_text_config()
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope, *(kind for kind in rope.values() if isinstance(kind, dict))]
    if not any(kind.get("rope_type") in ("dynamic", "longrope") for kind in kinds):
        return math.inf
    given = [kind.get("original_max_position_embeddings") for kind in kinds]
    given.append(getattr(config, "original_max_position_embeddings", None))
    return float(min([n for n in given if n] or [config.max_position_embeddings]))


# Views of the first record share a prefix; the last ones have other lengths.
_FIRST, _LAST = 4, 2
_CUT: Final = (1, 2, 5)
_TRUNK: Final = 40
_SHORT: Final = 5


def check_views(views: Sequence[EncodedView]) -> list[EncodedView]:
    """Return views to compare on: some as they are, and pieces of them.

    Args:
        views: of the data that will be scored, one at least.

    Example:
        >>> view = EncodedView("a", 0, tuple(range(100)), (7, 8), (0, 1))
        >>> [len(piece.token_ids) for piece in check_views([view])]
        [100, 99, 98, 95, 5, 80, 81, 81, 82]
    """
    sample = [*views[:_FIRST], *views[_FIRST:][-_LAST:]]
    first, last = sample[0], sample[-1].token_ids
    prompt, one, other = first.token_ids, first.code_tokens[0], first.code_tokens[1]
    pieces = [prompt[:-cut] for cut in _CUT] + [prompt[:_SHORT]]
    for branch in (last[-_TRUNK + 1 :], last[-_TRUNK:]):
        pieces += [(*prompt[:_TRUNK], *branch, *leaf) for leaf in ((one,), (other, one))]
    return sample + [replace(first, token_ids=piece) for piece in pieces if piece]


def largest_difference(a: Sequence[ScoredView], b: Sequence[ScoredView]) -> float:
    """Return the largest absolute difference of a logit between two scores of the same views."""
    return max(
        float(np.abs(mine.logits - theirs.logits).max()) for mine, theirs in zip(a, b, strict=True)
    )


def largest_mass_difference(a: Sequence[ScoredView], b: Sequence[ScoredView]) -> float:
    """Return the largest difference of answer mass between two scores of the same views."""
    return max(
        abs(mine.answer_mass - theirs.answer_mass) for mine, theirs in zip(a, b, strict=True)
    )


_WORDS: Final = (
    "DefaultCPUAllocator",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "bad_alloc",
    "could not create a memory object",
)


def drain(
    executor: Executor, views: Sequence[EncodedView], on_batch: Callable[[int], None]
) -> list[ScoredView] | None:
    """Score all views, with half the tokens a pass each time that memory runs out.

    What was scored before stays; the executor keeps the smaller budget.

    Args:
        executor: runs the views.
        views: what is scored.
        on_batch: told after every batch how many of the views are done.

    Returns:
        Scores in the order of `views`, or None where memory runs out at the least budget, too.
    """
    scored: dict[int, ScoredView] = {}
    counting: AbstractContextManager[None] = nullcontext()
    while len(scored) < len(views):
        pending = [number for number in range(len(views)) if number not in scored]
        with counting:
            ran = _ran(executor, views, pending, scored, on_batch)
        if ran:
            continue
        counting = executor.count.of_prompts_counted_before()
        if executor.batch_tokens <= 1:
            return None
        # Here, where no traceback holds the tensors of the pass that failed.
        executor.batch_tokens //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return [scored[number] for number in range(len(views))]


def _ran(
    executor: Executor,
    views: Sequence[EncodedView],
    pending: Sequence[int],
    scored: dict[int, ScoredView],
    on_batch: Callable[[int], None],
) -> bool:
    """Run the pending views; tell whether memory held out."""

    def keep(numbers: Sequence[int], results: Sequence[ScoredView]) -> None:
        scored.update(zip((pending[number] for number in numbers), results, strict=True))
        on_batch(len(scored))

    try:
        executor.score([views[number] for number in pending], keep)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that memory ran out.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))
        True
    """
    # On a CPU torch raises a plain RuntimeError, and libraries below it have words of their own.
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or any(words in str(error) for words in _WORDS)
