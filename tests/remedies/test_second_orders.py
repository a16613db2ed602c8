"""Reverse second orders against a search by hand, and planted preferences for early letters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from remedies.planted_orders import planted_run

from pact_eval.errors import InputError
from pact_eval.prompts.code_orders import code_orders, with_reverse_second
from pact_eval.remedies.comparison import RemedyComparison, compare_remedies
from pact_eval.remedies.decodings import Remedy, remedied
from pact_eval.remedies.second_orders import second_orders
from pact_eval.runs.predictions import Predictions


@pytest.mark.parametrize("k", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("n_choices", [2, 3, 4, 6])
def test_orders_have_the_reverse_second_and_repeat_as_late_as_before(
    n_choices: int, k: int
) -> None:
    usual = code_orders(0, "item", n_choices, k)
    orders = with_reverse_second(usual)
    assert len(orders) == k
    assert orders[0] == usual[0]
    if k > 1:
        assert orders[1] == usual[0][::-1]
    assert len(set(orders)) >= len(set(usual))
    rest = [order for order in usual[1:] if order != usual[0][::-1]]
    assert [order for order in orders[2:] if order != orders[1]] == rest[: len(orders[2:])]


def test_fewer_views_are_the_first_of_more() -> None:
    many = with_reverse_second(code_orders(3, "item", 4, 24))
    for k in range(2, 24):
        assert with_reverse_second(code_orders(3, "item", 4, k)) == many[:k]


def test_second_orders_against_a_search_by_hand() -> None:
    run = planted_run(np.random.default_rng(1), families=40, k=8)
    orders = second_orders(run)
    for item, count in enumerate(run.n_choices.tolist()):
        views = [tuple(order[:count].tolist()) for order in run.code_order[item]]
        reverse = views[0][::-1]
        expected = views.index(reverse) if reverse in views else -1
        others = [
            number
            for number, order in enumerate(views)
            if order != views[0] and (order != reverse or count == 2)
        ]
        assert orders.reverse[item] == expected
        assert orders.other[item] == (others[0] if others else -1)
    counts = orders.counts
    assert counts.items == len(run)
    assert counts.with_reverse == int((orders.reverse >= 0).sum()) < len(run)
    assert counts.with_other == len(run)
    assert not orders.complete


def test_a_preference_for_early_letters_cancels_in_reverse_orders() -> None:
    run = _antithetic(planted_run(np.random.default_rng(2), families=100, k=3, choices=(3, 4, 5)))
    places = np.argsort(np.where(run.code_order < 0, 99, run.code_order), axis=2)
    liking = np.where(np.isfinite(run.logits), -0.6 * places, 0.0)
    liked = replace(run, logits=run.logits + liking)
    two = remedied(liked, Remedy(2, second="reverse"), None)
    assert np.exp(two.logits[:, 0]) == pytest.approx(np.exp(run.log_probs_by_view[:, 0]), abs=1e-9)
    comparison = _compared(liked)
    assert comparison.row("k2_reverse").helps("k1")
    against = comparison.reverse_against_other["nll_nats"]
    assert against.difference.value < 0
    nll = [comparison.row(f"k2_{name}").metric("nll_nats").value.value for name in _SECONDS]
    assert against.difference.value == pytest.approx(nll[0] - nll[1])
    assert comparison.row("k2_other").cost.prompts == 2


def test_runs_without_all_reverse_orders_have_no_such_row() -> None:
    run = planted_run(np.random.default_rng(3), families=30, k=4)
    comparison = _compared(run)
    assert comparison.reverse_against_other == {}
    assert all(row.remedy.second == "next" for row in comparison.rows)
    counts = comparison.second_orders
    assert counts is not None
    assert counts.several == int((run.n_choices > 2).sum())
    assert counts.with_reverse < counts.with_other == counts.items == len(run)
    with pytest.raises(InputError) as error:
        remedied(run, Remedy(2, second="reverse"), None)
    assert_says(error.value, "reverse", "--orders antithetic")


def test_two_answers_have_one_second_order() -> None:
    run = planted_run(np.random.default_rng(4), families=10, k=2, choices=(2,))
    orders = second_orders(run)
    assert orders.reverse.tolist() == orders.other.tolist() == [1] * 20
    assert not orders.complete  # nothing to compare


_SECONDS = ("reverse", "other")


def _antithetic(run: Predictions) -> Predictions:
    """Returns a run in the orders of `--orders antithetic`; its logits do not depend on orders."""
    orders = run.code_order.copy()
    for item, count in enumerate(run.n_choices.tolist()):
        usual = [tuple(order[:count].tolist()) for order in run.code_order[item]]
        orders[item, :, :count] = with_reverse_second(usual)
    return replace(run, code_order=orders)


def _compared(run: Predictions) -> RemedyComparison:
    rng = np.random.default_rng(0)
    return compare_remedies(run, rng=rng, resamples=200, scope="deciding")
