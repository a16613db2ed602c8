"""Costs of remedies against hand computations: an order that an item had is not asked again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from remedies.planted_orders import planted_run

from pact_eval.remedies import Remedy, ViewCosts
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
    """1, 2, 2, 2 of the items of two answers, and 1, 2, 3, 4 of that of three."""
    run = _three_items()
    assert ViewCosts.of_run(run).prompts == pytest.approx([1, 2, 7 / 3, 8 / 3])
    assert ViewCosts.of_run(replace(run, repeats=True)).prompts.tolist() == [1, 2, 3, 4]


def test_a_server_is_sent_each_order_once() -> None:
    """100 * 2 + 200 * 2 + 300 * 4 tokens of three items, and 300 * 3 of the last in three views."""
    costs = ViewCosts.of_run(_three_items(), _SERVED)
    assert costs.sent == pytest.approx([600 / 3, 1200 / 3, 1500 / 3, 1800 / 3])
    assert np.isnan(costs.shared).all()
    assert costs.no_shared == "served"


def test_a_local_run_has_its_counts_without_the_prompts_of_repeated_orders() -> None:
    """100 + 200 tokens of view 2 are left out, and as many of view 3."""
    costs = ViewCosts.of_run(_three_items(), _LOCAL)
    assert costs.sent == pytest.approx([200, 401, (1806 - 300) / 3, (2409 - 600) / 3])
    assert costs.shared == pytest.approx([200, 220, 230, 234])
    assert costs.no_shared is None


def test_unknown_lengths_are_no_tokens() -> None:
    unknown = replace(_three_items(), prompt_tokens=np.array([100.0, math.nan, 300.0]))
    costs = ViewCosts.of_run(unknown, Provenance.of({}))
    assert np.isnan(costs.sent).all()
    assert costs.no_shared == "unknown"


def test_a_remedy_costs_its_views_and_its_three_content_free_prompts() -> None:
    prompts = np.array([1.0, 1.5])
    costs = ViewCosts(prompts, np.array([100.0, 120.0]), np.array([100.0, 200.0]))
    contents = ViewCosts(prompts, np.array([5.0, 9.0]), np.array([60.0, 120.0]))
    two, contextual = costs.of(Remedy(2), None), costs.of(Remedy(1, contextual=True), contents)
    assert (two.prompts, two.tokens, two.sent_tokens) == (1.5, 120, 200)
    assert (contextual.prompts, contextual.tokens, contextual.sent_tokens) == (4, 115, 280)
