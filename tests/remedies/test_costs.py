"""Costs of remedies against hand computations: an order that an item had is not asked again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from remedies.planted_orders import planted_run

from pact_eval.remedies.costs import ItemTokens, cost_of, prompts_of_views
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
    assert prompts_of_views(replace(run, repeats=True)).tolist() == [[1, 2, 3, 4]] * 3


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


def test_a_remedy_costs_its_views_and_its_content_free_prompts() -> None:
    tokens = ItemTokens((100.0, 120.0), (100.0, 200.0), None)
    contents = ItemTokens((5.0, 9.0), (60.0, 120.0), None)
    two, contextual = cost_of(2, [1, 1.5], tokens), cost_of(1, [1, 1.5], tokens, contents)
    assert (two.prompts, two.tokens, two.sent_tokens) == (1.5, 120, 200)
    assert (contextual.prompts, contextual.tokens, contextual.sent_tokens) == (4, 105, 160)
    served = cost_of(1, [1, 1.5], ItemTokens((), (100.0, 200.0), "served"))
    assert math.isnan(served.tokens)
    assert (served.price("prompts"), served.sent_tokens) == (1, 100)
