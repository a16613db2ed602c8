"""Costs of remedies: prompts and tokens per item, those of the fit, and when the fit is paid back.

Tokens are counted in two ways. Through the prefix tree, a prefix that prompts share is counted
once: that is what views cost the fork engine. Sent, every prompt is counted in full: that is what
they cost at a server that shares nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance

NoTokens: TypeAlias = Literal["served", "older", "unknown"]
"""Why tokens through the prefix tree are not known: a server scored the run; the run was scored
before they were counted; nothing is known of its prompts, as of most imports."""

_NONE: Final = math.nan


@dataclass(frozen=True)
class ItemTokens:
    """Mean tokens per item of the first views of a run.

    Attributes:
        shared: of 1 to K views, through the prefix tree; empty if not known.
        sent: likewise, in full prompts; empty if not known.
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
            predictions: has the prompt lengths of view 0 otherwise, as a server counted them.
        """
        counts, records = provenance.view_tokens, provenance.data.records
        if counts is not None and records and len(counts.shared) == predictions.k:
            return cls(_per_item(counts.shared, records), _per_item(counts.prompts, records), None)
        mean = float(np.mean(predictions.prompt_tokens))
        sent = tuple(mean * views for views in range(1, predictions.k + 1))
        has_lengths = math.isfinite(mean)
        why: NoTokens = "unknown"
        if has_lengths:
            why = "served" if provenance.served else "older"
        return cls((), sent if has_lengths else (), why)

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
        fitting_prompts: mean number of prompts of a fit; 0 without one.
        fitting_tokens: likewise, tokens through the prefix tree.
        fitting_sent_tokens: likewise, tokens in full prompts.
        paid_back: number of items from which on the fit and the remedy take no more prompts than
            all K views; None if the remedy takes as many.
        paid_back_tokens: likewise, no more tokens through the prefix tree; None also if not known.
    """

    prompts: float
    tokens: float
    sent_tokens: float
    fitting_prompts: float
    fitting_tokens: float
    fitting_sent_tokens: float
    paid_back: int | None
    paid_back_tokens: int | None


def cost_of(
    views: int,
    k: int,
    tokens: ItemTokens,
    *,
    fitting: Mapping[int, float],
    content_free: ItemTokens | None = None,
    contents: int = 0,
) -> RemedyCost:
    """Return the cost of a remedy.

    Args:
        views: views of an item.
        k: views of an item of the run.
        tokens: of these views.
        fitting: by number of views, the mean number of items that a fit took them of.
        content_free: tokens of the content-free prompts of an item; None if it takes none.
        contents: number of content-free prompts per view.

    Examples:
        >>> tokens = ItemTokens((100.0, 120.0), (100.0, 200.0), None)
        >>> cost = cost_of(1, 2, tokens, fitting={2: 50})
        >>> cost.tokens, cost.fitting_tokens, cost.paid_back, cost.paid_back_tokens
        (100.0, 6000.0, 100, 300)
    """
    shared, sent = tokens.of(views)
    if content_free is not None:
        more_shared, more_sent = content_free.of(views)
        shared, sent = shared + more_shared, sent + more_sent
    prompts = views * (1 + (contents if content_free is not None else 0))
    fit_prompts = sum(items * per_item for per_item, items in fitting.items())
    fit_shared, fit_sent = (
        sum(items * tokens.of(per_item)[way] for per_item, items in fitting.items())
        for way in (0, 1)
    )
    all_shared, _ = tokens.of(k)
    return RemedyCost(
        prompts=prompts,
        tokens=shared,
        sent_tokens=sent,
        fitting_prompts=fit_prompts,
        fitting_tokens=fit_shared,
        fitting_sent_tokens=fit_sent,
        paid_back=_paid_back(fit_prompts, k - prompts),
        paid_back_tokens=_paid_back(fit_shared, all_shared - shared),
    )


def _paid_back(fit: float, saved: float) -> int | None:
    if not saved > 0 or math.isnan(fit):
        return None
    # A mean over folds of whole numbers: rounding errors must not add an item.
    return math.ceil(round(fit / saved, 6))


def _per_item(totals: Sequence[int], records: int) -> tuple[float, ...]:
    return tuple(total / records for total in totals)


def _at(by_views: Sequence[float], views: int) -> float:
    return by_views[views - 1] if 0 < views <= len(by_views) else _NONE
