"""Score within the memory that there is: halve the budget where it runs out, and go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import torch

from pact_eval.prompts import EncodedView
from pact_eval.scoring.executors import Executor
from pact_eval.scoring.scored import ScoredView

__all__ = ["drain", "is_out_of_memory"]

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
