"""Columns of a few items by hand: pairs, repeats, groups, views, letters and facts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import assert_says
from run_frames import frame_of, predictions, rows

from pact_eval import metrics
from pact_eval.errors import InputError, RunError
from pact_eval.evaluation.item_scores import counted_views
from pact_eval.evaluation.items import ScoredItems, pair_partners, read_items
from pact_eval.evaluation.registry import confident_errors, find_metric, pair_margins
from pact_eval.runs.predictions import Predictions


def few(**changes: Any) -> Predictions:
    """Return five items of two answers: two pairs, and a base alone; view 0 of probability p."""
    columns: dict[str, Any] = {
        "id": ["a", "b", "c", "d", "e"],
        "family": ["f2", "f2", "f1", "f1", "f3"],
        "source_family": ["s1", "s1", "s2", "s2", "s1"],
        "kind": ["boolean", "boolean", "score", "score", "choice"],
        "variant": ["base", "counterfactual", "counterfactual", "base", "base"],
        "reference": [0, 1, 0, 1, 0],
        "logits": [[math.log(p), math.log(1 - p)] for p in (0.9, 0.9, 0.6, 0.2, 0.95)],
    }
    return Predictions.from_frame(frame_of(**columns | changes))


@pytest.mark.parametrize("orders", [[[0, 0], [1, 1]], [[0, 0], [0, 1]], [[1, 1], [1, 1]]])
def test_answers_without_one_code_each_are_refused_in_a_file(
    tmp_path: Path, orders: list[list[int]]
) -> None:
    path = tmp_path / "predictions.parquet"
    logits = [[1.0, 0.0]] * 2
    frame_of(
        id=["a", "a"], view=[0, 1], reference=[0, 0], code_order=orders, logits=logits
    ).write_parquet(path)
    with pytest.raises(RunError, match="code_order"):
        read_items(path, "single")


def test_items_of_one_view_by_hand() -> None:
    items = ScoredItems.of(few(), "single")
    assert items.predicted.tolist() == [0, 0, 0, 1, 0]
    assert items.correct.tolist() == [True, False, True, True, True]
    assert items.confidence == pytest.approx([0.9, 0.9, 0.6, 0.8, 0.95])
    assert items.values["nll_nats"] == pytest.approx(-np.log([0.9, 0.1, 0.6, 0.8, 0.95]))
    # 0.9 is confident, and only the second of these is wrong.
    assert confident_errors(items).tolist() == [False, True, False, False, False]
    assert (len(items), items.n_items, items.k, items.repeats) == (5, 5, 1, 1)
    assert items.contexts == "full"
    assert items.families.names[items.families.codes].tolist() == ["f2", "f2", "f1", "f1", "f3"]
    assert (len(items.families), items.n_clusters) == (3, 3)
    assert items.reordered is None
    assert np.isnan(items.values["view_tv"]).all()
    assert np.isnan(items.values["flip_rate"]).all()
    assert np.isnan(items.values["ensemble_gain"]).all()
    assert items.facts.logit_gap == pytest.approx(np.log([9, 9, 1.5, 4, 19]), rel=1e-6)
    assert items.facts.smallest_probability == pytest.approx(0.05, rel=1e-6)
    assert math.isnan(items.facts.answer_mass)


def test_pairs_and_their_margins_by_hand() -> None:
    items = ScoredItems.of(few(), "single")
    assert items.pairs.base.tolist() == [3, 0]
    assert items.pairs.counterfactual.tolist() == [2, 1]
    assert items.pairs.incomplete_families == 1
    # The lead of the right answer over that of the other member, summed over both members.
    f1 = math.log(0.8 / 0.2) + math.log(0.6 / 0.4)
    f2 = math.log(0.9 / 0.1) + math.log(0.1 / 0.9)
    assert pair_margins(items) == pytest.approx([f1, f2], abs=1e-6)
    basis = find_metric("pair_margin").reduction(items, "pair_margin").basis
    assert basis is not None
    assert (basis.units, basis.families, basis.rows) == (2, 2, None)
    assert pair_partners(few()).tolist() == [1, 0, 3, 2, -1]
    same = ScoredItems.of(few(reference=[0, 0, 0, 1, 0]), "single")
    assert np.isfinite(pair_margins(same)).tolist() == [True, False]
    basis = find_metric("pair_margin").reduction(same, "pair_margin").basis
    assert basis is not None
    assert (basis.units, basis.families) == (1, 1)
    assert basis.rows is not None
    assert basis.rows.tolist() == [False, False, False, True, False]


def test_units_of_rows_and_of_masks() -> None:
    items = ScoredItems.of(few(), "single")
    assert items.clusters.count(np.array([0, 1])) == 1
    assert items.clusters.count(np.array([0, 2, 4])) == 3
    assert items.clusters.count(np.array([True, True, False, False, True])) == 2
    assert items.clusters.count(np.zeros(5, dtype=np.bool_)) == 0
    sources = items.over("source_family")
    assert (sources.n_clusters, len(sources.families), sources.unit) == (2, 3, "source_family")
    assert sources.clusters.count(np.array([0, 1, 4])) == 1
    assert items.over("family") is items
    assert sources.over("family").n_clusters == 3
    assert sources.pairs.base.tolist() == items.pairs.base.tolist()
    one = ScoredItems.of(few(source_family=["s"] * 5), "single")
    with pytest.raises(InputError) as refused:
        one.over("source_family")
    assert_says(refused.value, "two or more source families, got 1", "--unit family")


def test_some_rows_have_codes_of_their_own() -> None:
    items = ScoredItems.of(few(), "single")
    taken = items.taken(np.array([4, 1]))
    assert len(taken.families) == 2
    assert taken.families.names[taken.families.codes].tolist() == ["f3", "f2"]
    assert taken.confidence == pytest.approx([0.95, 0.9])
    assert taken.predictions.ids.tolist() == ["e", "b"]
    assert taken.taken(np.array([1])).predictions.ids.tolist() == ["b"]
    assert len(taken.pairs) == 0
    assert items.score_items.predictions.ids.tolist() == ["c", "d"]
    assert len(ScoredItems.of(few(kind=["choice"] * 5), "single").score_items) == 0


def test_groups_begin_with_all_items() -> None:
    items = ScoredItems.of(few(), "single")
    groups = {name: where.tolist() for name, where in items.rows_by_group("kind").items()}
    assert groups == {"all": [0, 1, 2, 3, 4], "choice": [4], "boolean": [0, 1], "score": [2, 3]}
    assert [*groups] == ["all", "choice", "boolean", "score"]
    by_source = {name: at.tolist() for name, at in items.rows_by_group("source_family").items()}
    assert by_source == {"all": [0, 1, 2, 3, 4], "s1": [0, 1, 4], "s2": [2, 3]}
    assert items.grouped("domain") is items


def two_orders() -> Predictions:
    """Return three items of two views: two orders, one order twice, and unknown orders."""
    probabilities = [[0.8, 0.3], [0.7, 0.6], [0.9, 0.6]]
    return Predictions.from_frame(
        frame_of(
            id=[name for name in "abc" for _ in (0, 1)],
            view=[0, 1] * 3,
            reference=[0, 0, 1, 1, 0, 0],
            code_order=[[0, 1], [1, 0], [0, 1], [0, 1], [], []],
            logits=[[math.log(p), math.log(1 - p)] for row in probabilities for p in row],
            answer_mass=[0.5, 0.7, None, 0.9, None, None],
        )
    )


def test_views_are_compared_between_different_orders() -> None:
    items = ScoredItems.of(two_orders(), "single")
    assert items.reordered is not None
    assert items.reordered.tolist() == [True, False, True]
    assert items.values["view_tv"] == pytest.approx([0.5, np.nan, 0.3], nan_ok=True, abs=1e-6)
    assert items.values["flip_rate"].tolist()[::2] == [1.0, 0.0]
    assert math.isnan(items.values["flip_rate"][1])
    assert items.facts.answer_mass == pytest.approx(0.7, abs=1e-6)
    # Canonical answers 0 and 1 of item a are at letters 0 and 0; a view that repeats an order
    # does not count, and unknown orders have no letters.
    assert items.facts.of_item.tolist() == [0, 0, 1]
    assert items.facts.picked.tolist() == [0, 0, 0]
    assert items.facts.held.tolist() == [0, 1, 1]
    ensemble = ScoredItems.of(two_orders(), "ensemble")
    u = np.sqrt([[0.8 * 0.3, 0.2 * 0.7], [0.7 * 0.6, 0.3 * 0.4], [0.9 * 0.6, 0.1 * 0.4]])
    together = u / u.sum(axis=1, keepdims=True)
    assert ensemble.confidence == pytest.approx(together.max(axis=1), abs=1e-6)
    first = ensemble.with_views(1)
    assert (first.k, ensemble.with_views(2)) == (1, ensemble)
    assert first.confidence == pytest.approx([0.8, 0.7, 0.9], abs=1e-6)
    second = ensemble.with_views(np.array([[1], [1], [1]]))
    assert second.confidence == pytest.approx([0.7, 0.6, 0.6], abs=1e-6)


def test_which_views_count_for_the_distance_of_orders() -> None:
    distinct = np.array([[True, True, False], [True, False, False], [True, True, True]])
    assert counted_views(distinct).tolist() == [[True, True, False], [True] * 3, [True] * 3]


def test_rows_are_repeated_without_new_families() -> None:
    items = ScoredItems.of(few(), "single")
    assert items.with_repeats(1) is items
    twice = items.with_repeats(2)
    assert (len(twice), twice.n_items, twice.repeats, len(twice.families)) == (10, 5, 2, 3)
    assert twice.confidence == pytest.approx(np.repeat(items.confidence, 2))
    assert (items.asked, twice.asked) == (1, 2)
    assert len(twice.pairs) == 4
    assert twice.pairs.incomplete_families == 1
    four = twice.with_repeats(4)
    assert (len(four), four.n_items, four.repeats) == (20, 5, 4)
    assert four.confidence == pytest.approx(np.repeat(items.confidence, 4))
    assert twice.taken(np.array([2, 3])).predictions.ids.tolist() == ["b", "b"]


def test_what_is_derived_is_kept_for_items_in_memory() -> None:
    items = ScoredItems.of(few(), "single")
    made: list[int] = []

    def derive() -> int:
        made.append(1)
        return len(made)

    assert [items.once("a", derive), items.once("a", derive), items.once("b", derive)] == [1, 1, 2]
    assert items.with_sorted_families() is items.with_sorted_families()


def test_columns_of_ablated_contexts_have_no_reference() -> None:
    from run_frames import ablated_predictions

    items = ScoredItems.of(ablated_predictions(1, families=6), "single")
    assert (items.contexts, items.reference) == ("ablated", None)
    with pytest.raises(ValueError, match="no reference"):
        _ = items.correct
    assert (items.values["ablated_gap"] >= 0).all()
    assert items.facts.of_item.size == 0


def test_items_of_a_file_keep_no_views(tmp_path: Any) -> None:
    path = tmp_path / "predictions.parquet"
    rows(1, families=6, k=3).write_parquet(path)
    items = read_items(path, "single", by="kind")
    in_memory = ScoredItems.of(predictions(1, families=6), "single")
    assert items.confidence == pytest.approx(in_memory.confidence)
    assert items.facts.picked.tolist() == in_memory.facts.picked.tolist()
    assert items.facts.held.tolist() == in_memory.facts.held.tolist()
    assert items.facts.answer_mass == pytest.approx(0.9, abs=1e-6)
    assert set(items.labels) == {"kind"}
    assert set(read_items(path, "single", unit="source_family").labels) == {"kind", "source_family"}
    quick = read_items(path, "single", letters=False)
    assert quick.facts.picked.size == 0
    assert quick.confidence == pytest.approx(in_memory.confidence)
    with pytest.raises(ValueError, match="read from a file"):
        _ = items.predictions
    assert metrics.BINS == 15
