"""Costs of remedies: prompts and tokens per item, those of the fit, and the pay-back of the fit.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from pact_eval._typing import IntArray
from pact_eval.runs.content_free import CONTENTS
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
    prompts: IntArray = distinct_orders(predictions.code_order).cumsum(axis=1)
    return prompts


@dataclass(frozen=True)
class PromptCounts:
    """Mean prompts per item of the first views of a run.

    Attributes:
        all_items: of 1 to K views.
        by_answers: likewise, of the items of each number of answers.
    """

    all_items: tuple[float, ...]
    by_answers: Mapping[int, tuple[float, ...]]

    @classmethod
    def of_run(cls, predictions: Predictions) -> PromptCounts:
        """Count the prompts of a run."""
        prompts, counts = prompts_of_views(predictions), predictions.n_choices
        return cls(
            tuple(prompts.mean(axis=0).tolist()),
            {
                number: tuple(prompts[counts == number].mean(axis=0).tolist())
                for number in np.unique(counts).tolist()
            },
        )

    def of_fit(self, n_choices: int, views: int) -> float:
        """Return prompts per item of a fit on items of some answers.

        A fit on another run may have more views, or other numbers of answers. Its orders repeat
        after all of them, as those of scoring do.

        Examples:
            >>> counts = PromptCounts((1.0, 1.5), {2: (1.0, 2.0), 3: (1.0, 1.0)})
            >>> counts.of_fit(3, 2), counts.of_fit(2, 4), counts.of_fit(3, 4)
            (1.0, 2.0, 4.0)
        """
        prompts = self.by_answers.get(n_choices, ())
        if views <= len(prompts):
            return prompts[views - 1]
        return float(min(views, math.factorial(n_choices)))


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
        fitting_prompts: mean number of prompts of a fit; 0 without one.
        fitting_tokens: likewise, tokens through the prefix tree.
        fitting_sent_tokens: likewise, tokens in full prompts.
        paid_back: number of items from which on the fit and the remedy take no more prompts than
            all K views; None if the remedy takes as many or more.
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

    def price(self, price: Price) -> float:
        """Return the cost per item that remedies are ordered by."""
        return self.prompts if price == "prompts" else self.tokens


def cost_of(
    views: int,
    k: int,
    prompts: PromptCounts,
    tokens: ItemTokens,
    *,
    fitting: Mapping[tuple[int, int], float],
    content_free: ItemTokens | None = None,
) -> RemedyCost:
    """Return the cost of a remedy.

    Args:
        views: views of an item.
        k: views of an item of the run.
        prompts: of the views of the run.
        tokens: of these views.
        fitting: by numbers of answers and of views, the mean number of items that a fit took these
            views of.
        content_free: tokens of the content-free prompts of an item; None if it takes none.

    Examples:
        >>> prompts = PromptCounts((1.0, 2.0), {2: (1.0, 2.0)})
        >>> tokens = ItemTokens((100.0, 120.0), (100.0, 200.0), None)
        >>> cost = cost_of(1, 2, prompts, tokens, fitting={(2, 2): 50})
        >>> cost.tokens, cost.fitting_tokens, cost.paid_back, cost.paid_back_tokens
        (100.0, 6000.0, 100, 300)
    """
    shared, sent = tokens.of(views)
    if content_free is not None:
        more_shared, more_sent = content_free.of(views)
        shared, sent = shared + more_shared, sent + more_sent
    per_item = prompts.all_items[views - 1] * (1 + (0 if content_free is None else len(CONTENTS)))
    fit_prompts = fit_shared = fit_sent = 0.0
    for (n_choices, fit_views), items in fitting.items():
        fit_of_group = items * prompts.of_fit(n_choices, fit_views)
        computed, full = tokens.of(fit_views)
        fit_prompts += fit_of_group
        fit_shared += items * computed
        fit_sent += fit_of_group * full / _at(prompts.all_items, fit_views)
    all_shared, _ = tokens.of(k)
    return RemedyCost(
        prompts=per_item,
        tokens=shared,
        sent_tokens=sent,
        fitting_prompts=fit_prompts,
        fitting_tokens=fit_shared,
        fitting_sent_tokens=fit_sent,
        paid_back=_paid_back(fit_prompts, _at(prompts.all_items, k) - per_item),
        paid_back_tokens=_paid_back(fit_shared, all_shared - shared),
    )


def _paid_back(fit: float, saved: float) -> int | None:
    if not saved > 0 or math.isnan(fit):
        return None
    # A mean over folds of whole numbers: rounding errors must not add an item.
    return math.ceil(round(fit / saved, 6))


def _at(by_views: Sequence[float], views: int) -> float:
    return by_views[views - 1] if 0 < views <= len(by_views) else _NONE
