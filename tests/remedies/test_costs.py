"""Costs of remedies against hand computations: an order that an item had is not asked again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from remedies.planted_orders import planted_run

from pact_eval.remedies.costs import ItemTokens, PromptCounts, cost_of, prompts_of_views
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import Provenance

_SERVED = Provenance.of({"settings": {"server": {"wire": "systemone"}}})
_LOCAL = Provenance.of(
    {
        "settings": {"data": {"records": 3}},
        "view_tokens": {"prompts": [600, 1203, 1806, 2409], "shared": [600, 660, 690, 702]},
    }
)
_LENGTHS = (100.0, 200.0, 300.0)


def _three_items() -> Predictions:
    """Two items of two answers and one of three, of 100, 200 and 300 tokens, in four views."""
    two = planted_run(np.random.default_rng(1), families=1, choices=(2,))
    three = planted_run(np.random.default_rng(2), families=1, choices=(3,)).taken(np.array([0]))
    return replace(
        two.taken(np.array([0, 1, 0])),
        logits=np.concatenate([two.logits, three.logits]),
        code_order=np.concatenate([two.code_order, three.code_order]),
        n_choices=np.concatenate([two.n_choices, three.n_choices]),
        references=np.concatenate([two.reference, three.reference]),
        prompt_tokens=np.array(_LENGTHS),
    )


def test_prompts_are_the_distinct_orders_of_the_first_views() -> None:
    run = _three_items()
    assert prompts_of_views(run).tolist() == [[1, 2, 2, 2], [1, 2, 2, 2], [1, 2, 3, 4]]
    counts = PromptCounts.of_run(run)
    assert counts.all_items == pytest.approx((1, 2, 7 / 3, 8 / 3))
    assert counts.by_answers == {2: (1, 2, 2, 2), 3: (1, 2, 3, 4)}
    repeats = PromptCounts.of_run(replace(run, repeats=True))
    assert repeats.all_items == (1, 2, 3, 4)


def test_a_server_is_sent_each_order_once() -> None:
    """100 * 2 + 200 * 2 + 300 * 4 tokens of three items, and 300 * 3 of the last in three views."""
    tokens = ItemTokens.of_run(_SERVED, _three_items())
    assert tokens.sent == pytest.approx((600 / 3, 1200 / 3, 1500 / 3, 1800 / 3))
    assert (tokens.shared, tokens.no_shared) == ((), "served")


def test_a_local_run_has_its_counts_without_the_prompts_of_repeated_orders() -> None:
    """100 + 200 tokens of view 2 are left out, and as many of view 3."""
    tokens = ItemTokens.of_run(_LOCAL, _three_items())
    assert tokens.sent == pytest.approx((200, 401, (1806 - 300) / 3, (2409 - 600) / 3))
    assert tokens.shared == pytest.approx((200, 220, 230, 234))
    assert tokens.no_shared is None


def test_unknown_lengths_are_no_tokens() -> None:
    unknown = replace(_three_items(), prompt_tokens=np.array([100.0, math.nan, 300.0]))
    tokens = ItemTokens.of_run(Provenance.of({}), unknown)
    assert (tokens.sent, tokens.no_shared) == ((), "unknown")


def test_a_fit_takes_each_order_of_its_items_once() -> None:
    """Four views of 10 items of two answers and of 5 of three: 10 * 2 + 5 * 4 prompts.

    All views save 8/3 - 1 prompts per item: 40 / (5/3) = 24 items pay the fit back. A prompt has
    600 / (8/3) = 225 tokens on average.
    """
    run = _three_items()
    counts, tokens = PromptCounts.of_run(run), ItemTokens.of_run(_SERVED, run)
    cost = cost_of(1, 4, counts, tokens, fitting={(2, 4): 10, (3, 4): 5})
    assert (cost.prompts, cost.fitting_prompts, cost.paid_back) == (1, 40, 24)
    assert cost.fitting_sent_tokens == pytest.approx(40 * 225)
    assert math.isnan(cost.fitting_tokens)
    all_views = cost_of(4, 4, counts, tokens, fitting={})
    assert all_views.prompts == pytest.approx(8 / 3)
    assert all_views.sent_tokens == pytest.approx(600)
    assert all_views.paid_back is None
