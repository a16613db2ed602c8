"""Encoded views in, code logits out: chooses how, checks it against the oracle, keeps in memory.

The fastest executor that the model allows is checked on the first views against one plain forward
pass a prompt. One that disagrees is not used; the difference that was found is kept with the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import torch

from pact_eval._json import Json
from pact_eval.errors import AdapterError
from pact_eval.prompts import EncodedView
from pact_eval.scoring.check import check_views, largest_difference, largest_mass_difference
from pact_eval.scoring.executors import BatchedExecutor, Executor, NaiveExecutor
from pact_eval.scoring.fork import fork_executor
from pact_eval.scoring.memory import drain, is_out_of_memory
from pact_eval.scoring.precision import fast_float32
from pact_eval.scoring.scored import ScoredView

__all__ = ["ENGINES", "TOLERANCE", "Engine", "EngineName", "one_by_one"]

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
