"""Slices: groups of any column, and the search for those that differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_frames import rows

from pact_eval._choices import Bins
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.evaluation.labels import MISSING, column_labels, parse_bins
from pact_eval.evaluation.slice_search import search_slices
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.slice_permutation import slice_permutation_test


def test_small_permutation_against_every_permutation() -> None:
    """Three families of two items: all choices of two families are equally likely."""
    values, cluster = np.array([1.0, 1, 1, 0, 0, 0, 0, 1]), np.repeat(np.arange(4), 2)
    inside = cluster < 2
    rng = np.random.default_rng(0)
    test = slice_permutation_test(values, cluster, inside, rng=rng, permutations=20_000)
    # Sums by family are 2, 1, 0, 1: pairs {0,1}, {0,3} and their complements differ by 0.5.
    assert test.p_value == pytest.approx(4 / 6, abs=0.015)
    assert (test.inside, test.outside, test.clusters) == (0.75, 0.25, 4)


def test_membership_within_families_against_every_permutation() -> None:
    """Families with both kinds of items: in each, one of its two items is inside."""
    values, cluster = np.array([1.0, 0, 1, 0, 1, 0]), np.repeat(np.arange(3), 2)
    inside = np.array([True, False] * 3)
    rng = np.random.default_rng(0)
    test = slice_permutation_test(values, cluster, inside, rng=rng, permutations=20_000)
    assert test.p_value == pytest.approx(2 / 8, abs=0.015)
    with_others = slice_permutation_test(
        np.append(values, 0.0), np.append(cluster, 9), np.append(inside, True), rng=rng
    )
    assert (with_others.inside, with_others.clusters) == (1.0, 3)
    for wrong in (inside | True, inside & False, inside[:2]):
        with pytest.raises(ValueError, match="inside"):
            slice_permutation_test(values, cluster, wrong, rng=rng)


@pytest.fixture(scope="module")
def items() -> ScoredItems:
    return ScoredItems.of(Predictions.from_frame(rows(0, families=120, k=1)), "single")


def with_columns(items: ScoredItems, draw: np.random.Generator, effect: float = 0.0) -> ScoredItems:
    """Items with right answers that depend on their family, and on the column "hard" if at all."""
    family, n = items.cluster, len(items)
    hard = draw.integers(0, 3, items.n_families)[family]
    rate = draw.beta(4, 1.5, items.n_families)[family] * (1 - effect * (hard == 2))
    columns = {
        "hard": np.array(list("abc"))[hard],
        "shop": np.array(list("uvwxy"))[draw.integers(0, 5, items.n_families)][family],
        "row": np.array(list("kl"))[draw.integers(0, 2, n)],
        "length": draw.normal(size=n),
        "stars": draw.integers(1, 4, n).astype(np.float64),
    }
    assert items.views is not None
    return replace(
        items,
        values={**items.values, "accuracy": (draw.random(n) < rate).astype(np.float64)},
        views=replace(items.views, metadata=pl.DataFrame(columns)),
    )


@pytest.mark.slow
def test_without_slices_one_is_reported_in_at_most_5_percent(items: ScoredItems) -> None:
    """The issue's proof: 400 draws."""
    draws = [with_columns(items, np.random.default_rng(seed)) for seed in range(400)]
    searches = [search_slices(draw, seed=seed) for seed, draw in enumerate(draws)]
    assert sum(bool(search.tests) for search in searches) > 200
    assert sum(bool(search.shown) for search in searches) <= 20


def test_a_planted_slice_is_reported(items: ScoredItems) -> None:
    draws = [with_columns(items, np.random.default_rng(seed), 0.7) for seed in range(20)]
    searches = [search_slices(draw, seed=seed) for seed, draw in enumerate(draws)]
    shown = [{(test.column, test.name) for test in search.shown} for search in searches]
    assert sum(("hard", "c") in slices for slices in shown) >= 18
    test = next(test for test in searches[0].tests if test.name == "c")
    assert test.difference < 0
    assert test.adjusted >= test.p_value
    again = search_slices(draws[0], seed=0)
    assert again == searches[0]
    assert searches[0].searched + searches[0].tested == items.n_families


def test_a_slice_that_is_always_wrong_where_all_others_are_right_is_tested(
    items: ScoredItems,
) -> None:
    """Its standard error is 0, and its difference 1."""
    wrong = items.cluster % 3 == 0
    assert items.views is not None
    planted = replace(
        items,
        values={**items.values, "accuracy": (~wrong).astype(np.float64)},
        views=replace(items.views, metadata=pl.DataFrame({"hard": np.where(wrong, "a", "b")})),
    )
    (test,) = search_slices(planted, seed=0).tests
    assert abs(test.difference) == 1
    assert test.shown


@pytest.mark.parametrize(
    ("values", "bins", "names"),
    [
        (["b", None, "a"], None, ["b", MISSING, "a"]),
        ([10.0, 2.0, None], None, ["10", "2", MISSING]),
        ([0.0, 1.0, 2.0, 3.0], 2, ["[0, 1)", "[1, 3]", "[1, 3]", "[1, 3]"]),
        ([0.0, 10.0, 20.0], (10.0, 15.0), ["[0, 10)", "[10, 15)", "[15, 20]"]),
        ([5.0, 5.0, 5.0], 4, ["[5, 5]"] * 3),
    ],
)
def test_groups_of_a_column(values: list[Any], bins: Bins | None, names: list[str]) -> None:
    labels = column_labels(pl.Series(values), "column", bins)
    assert labels.names[labels.codes].tolist() == names


def test_many_values_need_bins() -> None:
    with pytest.raises(InputError, match="21 different numbers.*--by days:4"):
        column_labels(pl.Series([float(n) for n in range(21)]), "days")
    assert len(column_labels(pl.Series([float(n) for n in range(20)]), "days")) == 20
    with pytest.raises(InputError, match="at most 200 different texts, got 201"):
        column_labels(pl.Series([str(n) for n in range(201)]), "name")
    with pytest.raises(InputError, match="text, which has none"):
        column_labels(pl.Series(["a"]), "name", 2)
    for text in ("1", "x", "2,1", "", "nan,1"):
        with pytest.raises(InputError, match="bins"):
            parse_bins(text)


@pytest.mark.parametrize(("by", "bins"), [("days", 3), ("shop", None)])
def test_columns_of_a_file_group_as_columns_in_memory(
    tmp_path: Path, by: str, bins: Bins | None
) -> None:
    frame = rows(1, families=30, k=1)
    number = pl.int_range(len(frame))
    columns = {"metadata.days": number.cast(pl.Float64), "metadata.shop": (number % 3).cast(str)}
    path = tmp_path / "predictions.parquet"
    frame.with_columns(**columns).write_parquet(path)
    from_file = read_items(path, "single", by=by, bins=bins).rows_by_group(by)
    predictions = Predictions.from_frame(pl.read_parquet(path))
    in_memory = ScoredItems.of(predictions, "single").grouped(by, bins).rows_by_group(by)
    assert list(from_file) == list(in_memory)
    assert len(in_memory) == 4
    assert all(np.array_equal(from_file[name], in_memory[name]) for name in in_memory)
    with pytest.raises(InputError, match="shop"):
        read_items(path, "single", by="nope")
