"""Tokens that the first views of every record cost: full prompts, and through the prefix tree."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.runs.provenance import ViewTokens
from pact_eval.scoring.prefix_tree import shared_tokens
from pact_eval.scoring.windows import WINDOW_RECORDS


class ViewTokenCounter:
    """Counts the tokens of one view of every record, of two views, and so on up to K.

    Prompts share prefixes within a window of records, as they do when they are scored. Counts do
    not depend on the engine, on memory, or on where a run was interrupted.

    Args:
        k: views per record.

    Examples:
        >>> counter = ViewTokenCounter(2)
        >>> counter.add([(1, 2, 3), (1, 2, 4), (1, 5, 6), (1, 5, 6)])  # two records
        >>> counter.counts
        ViewTokens(prompts=(6, 12), shared=(5, 6))
    """

    def __init__(self, k: int) -> None:
        self._k = k
        self._prompts = [0] * k
        self._shared = [0] * k

    def add(self, prompts: Sequence[Sequence[int]]) -> None:
        """Count the prompts of some windows of records: K of each record, record by record."""
        step = WINDOW_RECORDS * self._k
        for start in range(0, len(prompts), step):
            self._add_window([tuple(ids) for ids in prompts[start : start + step]])

    def _add_window(self, prompts: Sequence[tuple[int, ...]]) -> None:
        for views in range(1, self._k + 1):
            first = [ids for number, ids in enumerate(prompts) if number % self._k < views]
            self._prompts[views - 1] += sum(map(len, first))
            self._shared[views - 1] += shared_tokens(first)

    @property
    def counts(self) -> ViewTokens:
        """The counts so far."""
        return ViewTokens(tuple(self._prompts), tuple(self._shared))
