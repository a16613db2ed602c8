"""The letter orders that two runs have in common: by hand, and against scoring with fewer views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from run_frames import rows

from pact_eval.errors import InputError
from pact_eval.evaluation.comparison import compare, shared_views
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.evaluation.settings import Settings
from pact_eval.prompts.contract import code_orders
from pact_eval.runs.predictions import Predictions

AB, BA = [0, 1], [1, 0]


def chosen(*runs: Any) -> tuple[int, int, Any]:
    """Returns the number of views, of unlike items, and the views of each run."""
    shared = shared_views([np.array(orders) for orders in runs])
    views = None if shared.chosen is None else [orders.tolist() for orders in shared.chosen]
    return shared.k, shared.unlike, views


def test_runs_of_one_seed_share_the_first_views() -> None:
    four = [code_orders(3, item, n, 4) for item, n in (("a", 4), ("b", 4))]
    assert chosen(four, [orders[:2] for orders in four]) == (2, 0, None)
    assert chosen(four, four) == (4, 0, None)


def test_a_server_that_asks_each_boolean_in_one_order() -> None:
    # Item 0 in both orders by both runs; item 1 by the first run only: its view 0 is common.
    local, served = [[AB, BA, AB, BA]] * 2, [[AB, BA, AB, BA], [AB, AB, AB, AB]]
    k, unlike, views = chosen(local, served)
    # The order AB occurs twice in the local run: both times count.
    assert (k, unlike) == (4, 1)
    assert views == [[[0, 1, 2, 3], [0, 2, 0, 2]], [[0, 1, 2, 3], [0, 1, 0, 1]]]


def test_orders_of_another_seed_share_view_0_and_what_happens_to_be_common() -> None:
    abc, bca, cab, acb = [0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1]
    k, unlike, views = chosen([[abc, bca, cab]], [[abc, acb, bca]])
    assert (k, unlike, views) == (2, 1, [[[0, 1]], [[0, 2]]])
    assert chosen([[abc, bca]], [[abc, cab]]) == (1, 1, [[[0]], [[0]]])


def test_views_of_unknown_order_are_those_of_the_same_number() -> None:
    unknown = [-1, -1]
    assert chosen([[AB, BA, AB]], [[unknown, unknown]]) == (2, 0, None)


def test_no_common_order_is_refused() -> None:
    with pytest.raises(InputError, match="other letter orders"):
        shared_views([np.array([[AB, AB]]), np.array([[BA, BA]])])


def test_a_run_against_itself_with_fewer_orders_shows_no_difference() -> None:
    """The second run repeats view 0 of every boolean, as a server that letters them itself."""
    views = np.tile(np.arange(4), (60, 1))
    drawn = Predictions.from_frame(rows(5, families=30, k=4))
    boolean = drawn.kind == "boolean"
    views[boolean] = [0, 1, 0, 1]  # a model answers one prompt alike
    local = ScoredItems.of(drawn.with_views(views), "ensemble")
    views[boolean] = 0
    served = local.with_views(views)
    assert (local.predicted != served.predicted).any()
    comparison = compare(local, served, Settings(seed=0, resamples=60))
    assert comparison.differing == ()
    for group in comparison.groups:
        for name, metric in group.metrics.items():
            assert np.isnan(metric.difference.value) or metric.difference.value == 0, name
            assert not metric.marked
    (note,) = (note for note in comparison.notes if isinstance(note, DifferentViews))
    assert (note.ks, note.common, note.unlike) == ({"A": 4, "B": 4}, 4, boolean.sum())
    flips = comparison.groups[0].metrics["flip_rate"].a
    assert flips.n == (~boolean).sum()
