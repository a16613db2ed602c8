"""Costs of remedies: prompts and tokens per item.

A prompt is an order that the item had not before: an answer in the same order is not asked again.
Repeats of imported logs are the exception, because each of them was asked.

Tokens are counted in two ways. Through the prefix tree, a prefix that prompts share is counted
once: that is what views cost the fork engine. Sent, every prompt is counted in full: that is what
they cost at a server that shares nothing.

The price of a remedy is what its run pays for: computed tokens of a local run that records them,
else prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._typing import IntArray
from pact_eval.runs.folder import CONTENTS
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance
from pact_eval.stats.permuted_slots import distinct_orders

NoTokens: TypeAlias = Literal["served", "older", "unknown"]
"""Why tokens through the prefix tree are not known: a server scored the run; the run was scored
before they were counted; nothing is known of its prompts, as of most imports."""

Price: TypeAlias = Literal["computed tokens", "prompts"]
"""What remedies are ordered by: tokens through the prefix tree, or prompts, both per item."""

_NONE: Final = math.nan


def prompts_of_views(predictions: Predictions) -> IntArray:
    """Return (n, K) the prompts of the first 1 to K views of each item.

    Examples:
        >>> import polars as pl
        >>> two_answers = Predictions.from_frame(pl.DataFrame({
        ...     "id": "a", "family": "f", "source_family": "s", "domain": "d",
        ...     "kind": "boolean", "variant": "base", "reference": 1, "n_choices": 2,
        ...     "view": [0, 1, 2], "code_order": [[0, 1], [1, 0], [0, 1]],
        ...     "logits": [[0.0, 1.0]] * 3, "prompt_tokens": 9, "answer_mass": 1.0}))
        >>> prompts_of_views(two_answers).tolist()
        [[1, 2, 2]]
    """
    if predictions.repeats:
        return np.tile(np.arange(1, predictions.k + 1), (len(predictions), 1))
    return np.asarray(distinct_orders(predictions.code_order).cumsum(axis=1))


@dataclass(frozen=True)
class ItemTokens:
    """Mean tokens per item of the first views of a run.

    Attributes:
        shared: of 1 to K views, through the prefix tree; empty if not known.
        sent: likewise, in full prompts; empty if not known. A prompt has the length of that of
            view 0 if a server answered.
        no_shared: why `shared` is not known; None if it is.
    """

    shared: tuple[float, ...] = ()
    sent: tuple[float, ...] = ()
    no_shared: NoTokens | None = "unknown"

    @classmethod
    def of_run(cls, provenance: Provenance, predictions: Predictions) -> ItemTokens:
        """Return the tokens of a run, as far as they are known.

        Args:
            provenance: has the counts of a run that was scored here.
            predictions: its views; their prompt lengths in view 0 are those of all of their
                prompts, unless the run counted them.
        """
        counts, records = provenance.view_tokens, provenance.data.records
        prompts = prompts_of_views(predictions)
        lengths = predictions.prompt_tokens[:, np.newaxis]
        if counts is not None and records and len(counts.shared) == predictions.k:
            repeated = np.arange(1, predictions.k + 1) - prompts
            all_sent = np.array(counts.prompts) / records
            sent = all_sent - (lengths * repeated).mean(axis=0)
            return cls(
                tuple(total / records for total in counts.shared), tuple(sent.tolist()), None
            )
        sent = (lengths * prompts).mean(axis=0)
        has_lengths = bool(np.isfinite(sent).all())
        why: NoTokens = "unknown"
        if has_lengths:
            why = "served" if provenance.served else "older"
        return cls((), tuple(sent.tolist()) if has_lengths else (), why)

    def times(self, prompts: int) -> ItemTokens:
        """Return the tokens of items that have several records in the run."""
        shared, sent = (
            tuple(prompts * tokens for tokens in counts) for counts in (self.shared, self.sent)
        )
        return ItemTokens(shared, sent, self.no_shared)

    def of(self, views: int) -> tuple[float, float]:
        """Return tokens per item of some views, through the tree and sent; NaN if not known."""
        return _at(self.shared, views), _at(self.sent, views)


@dataclass(frozen=True)
class RemedyCost:
    """Cost of a remedy; NaN if not known.

    Attributes:
        prompts: per item.
        tokens: per item, through the prefix tree.
        sent_tokens: per item, in full prompts.
    """

    prompts: float
    tokens: float
    sent_tokens: float

    def price(self, price: Price) -> float:
        """Return the cost per item that remedies are ordered by."""
        return self.prompts if price == "prompts" else self.tokens


def cost_of(
    views: int, prompts: Sequence[float], tokens: ItemTokens, content_free: ItemTokens | None = None
) -> RemedyCost:
    """Return the cost of a remedy.

    Args:
        views: views of an item.
        prompts: mean prompts per item of the first 1 to K views.
        tokens: of these views.
        content_free: tokens of the content-free prompts of an item; None if it takes none.

    Examples:
        >>> tokens = ItemTokens((100.0, 120.0), (100.0, 200.0), None)
        >>> cost_of(2, [1.0, 2.0], tokens)
        RemedyCost(prompts=2.0, tokens=120.0, sent_tokens=200.0)
    """
    shared, sent = tokens.of(views)
    if content_free is not None:
        more_shared, more_sent = content_free.of(views)
        shared, sent = shared + more_shared, sent + more_sent
    contents = 0 if content_free is None else len(CONTENTS)
    return RemedyCost(prompts[views - 1] * (1 + contents), shared, sent)


def _at(by_views: Sequence[float], views: int) -> float:
    return by_views[views - 1] if 0 < views <= len(by_views) else _NONE
