"""Rules at their limits, which are typed here again: resamples, bins, views, slices and notes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from reports.figures.figure_runs import experiment_of
from run_frames import frame_of, predictions, write_run

from pact_eval._choices import Bins
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.table_results import ablations
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.curves.distributions import view_tv_distribution
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import (
    check_bins,
    column_labels,
    find_column,
    ordered_groups,
    parse_bins,
)
from pact_eval.evaluation.notes import LowAnswerMass, small_groups
from pact_eval.evaluation.registry import ENSEMBLE, ENSEMBLE_CALIBRATED, SINGLE, SINGLE_CALIBRATED
from pact_eval.evaluation.report import ViewTvQuantiles, evaluate_items, sweep
from pact_eval.evaluation.resampled_groups import default_resamples
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions


@pytest.mark.parametrize(
    ("items", "resamples"),
    [
        (0, 10_000),
        (20_000, 10_000),
        (20_001, 9_999),
        (200_000, 1_000),
        (2_000_000, 1_000),
        (2_000_001, 999),
        (10_000_000, 200),
        (100_000_000, 200),
    ],
)
def test_resamples_fall_with_the_number_of_items(items: int, resamples: int) -> None:
    assert default_resamples(items) == resamples


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["score", "b", "choice", "a"], ["choice", "score", "b", "a"]),
        (["10", "-3", "0", "2.5", "(missing)"], ["-3", "0", "2.5", "10", "(missing)"]),
        (["(missing)", "1e-05", "0"], ["0", "1e-05", "(missing)"]),
        (["[0, 1)", "[-2, 0)", "[1, 3]"], ["[-2, 0)", "[0, 1)", "[1, 3]"]),
        (["10", "b", "2"], ["10", "b", "2"]),
    ],
)
def test_groups_of_numbers_are_in_their_order(names: list[str], expected: list[str]) -> None:
    assert ordered_groups(names) == expected


@pytest.mark.parametrize(
    ("bins", "is_right"),
    [
        (2, True),
        (1, False),
        ((1.0,), True),
        ((1.0, 2.0), True),
        ((1.0, 1.0), False),
        ((2.0, 1.0), False),
        ((), False),
        ((1.0, math.inf), False),
    ],
)
def test_two_bins_or_edges_that_increase(bins: Bins, is_right: bool) -> None:
    if is_right:
        assert check_bins(bins) == bins
    else:
        with pytest.raises(InputError, match="bins: expected"):
            check_bins(bins)


def test_bins_as_typed_and_columns_by_name() -> None:
    assert parse_bins(" 3 ") == 3
    assert parse_bins("1,2.5") == (1.0, 2.5)
    metadata = pl.DataFrame({"stars": [1.0, 2.0]})
    assert find_column(metadata, "stars").to_list() == [1.0, 2.0]
    for absent, columns in ((metadata, "source_family, stars"), (None, "source_family")):
        with pytest.raises(InputError) as refused:
            find_column(absent, "shop", "run A")
        assert_says(refused.value, "--by shop: run A has no such column", columns)
    assert len(column_labels(pl.Series([str(n) for n in range(200)]), "name")) == 200


def test_equal_quantiles_are_one_edge_and_the_lowest_is_none() -> None:
    """Of 0, 0, 0, 1, 2 and 9, the quantiles of four bins are 0, 0 or 1, and 2."""
    values = pl.Series([0.0, 0.0, 0.0, 1.0, 2.0, 9.0])
    labels = column_labels(values, "stars", 4)
    assert [*labels.rows_by_name()] == ["[0, 2)", "[2, 9]"]
    assert labels.names[labels.codes].tolist() == ["[0, 2)"] * 4 + ["[2, 9]"] * 2


@pytest.mark.parametrize(
    ("views", "is_right"),
    [
        (range(1, 4), True),
        (range(3, 4), True),
        (range(1, 5), False),
        (range(4), False),
        (range(2, 2), False),
    ],
)
def test_a_sweep_is_from_one_view_to_all(views: range, is_right: bool) -> None:
    run, settings = predictions(1, families=6, k=3), Settings(seed=1, resamples=20)
    if is_right:
        points = sweep(run, views, settings)
        assert [point.k for point in points] == [*views]
    else:
        with pytest.raises(InputError, match="views from 1 to 3"):
            sweep(run, views, settings)


def shaken(*shifts: float) -> Predictions:
    """Return items of two views of even odds, of which the second moves by these probabilities."""
    logits = [
        row
        for shift in shifts
        for row in ([0.0, 0.0], [math.log((0.5 + shift) / (0.5 - shift)), 0.0])
    ]
    return Predictions.from_frame(
        frame_of(
            id=[f"i{at}" for at in range(len(shifts)) for _ in (0, 1)],
            view=[0, 1] * len(shifts),
            reference=[0] * 2 * len(shifts),
            code_order=[[0, 1], [1, 0]] * len(shifts),
            logits=logits,
        )
    )


def test_quantiles_of_view_tv_by_hand() -> None:
    quantiles = ViewTvQuantiles.of(ScoredItems.of(shaken(0.0, 0.009, 0.011, 0.1, 0.3), "single"))
    assert quantiles is not None
    assert quantiles.items == 5
    assert quantiles.median == pytest.approx(0.011, abs=1e-6)
    assert quantiles.p90 == pytest.approx(0.1 + 0.6 * 0.2, abs=1e-6)
    assert quantiles.largest == pytest.approx(0.3, abs=1e-6)
    assert quantiles.share_below_small == pytest.approx(2 / 5)
    assert not quantiles.recorded
    assert ViewTvQuantiles.of(ScoredItems.of(predictions(1, k=1), "single")) is None


def test_items_that_hardly_move_count_at_the_first_value(tmp_path: Path) -> None:
    run = shaken(0.0, 0.00005, 0.01, 0.2)
    frame = frame_of(
        id=[item for item in run.ids.tolist() for _ in (0, 1)],
        view=[0, 1] * 4,
        reference=[0] * 8,
        code_order=[[0, 1], [1, 0]] * 4,
        logits=run.logits.reshape(8, 2).tolist(),
    )
    folder = write_run(tmp_path / "run", frame, arm="a", seed=1)
    result = view_tv_distribution(experiment_of([folder], resamples=20))
    (share,) = result.arms[0].by_run
    assert share[0] == pytest.approx(0.5)
    assert share[-1] == 1.0
    assert share[result.x >= 0.0101][0] == pytest.approx(0.75)
    assert share[result.x < 0.0099][-1] == pytest.approx(0.5)


def test_groups_below_30_families_are_few() -> None:
    (note,) = small_groups({"a": 29, "b": 30, "c": 2, "d": 1}, "family")
    assert [group.name for group in note.groups] == ["a", "c"]


@pytest.mark.parametrize(("mean", "noted"), [(0.89, True), (0.9, False), (math.nan, False)])
def test_an_answer_mass_below_nine_tenths_is_low(mean: float, noted: bool) -> None:
    assert (LowAnswerMass.of(mean) is not None) == noted


def cell(
    arm: str, seed: int | None, metric: str, decoding: Any, value: float, n: int | None = 9
) -> MetricRow:
    return MetricRow(MetricCell(metric, arm, decoding, "all"), seed, value, n)


def test_each_metric_of_views_has_one_column() -> None:
    table = MetricTable(
        cell(arm, 1, metric, decoding, value)
        for arm, value in (("a", 0.5), ("b", 0.4))
        for metric, decoding in (
            ("accuracy", SINGLE),
            ("accuracy", SINGLE_CALIBRATED),
            ("view_tv", ENSEMBLE),
            ("view_tv", ENSEMBLE_CALIBRATED),
        )
    )
    compared = ablations(ArmMetrics(table), "a")
    assert compared.questions == (("accuracy", SINGLE), ("view_tv", ENSEMBLE))
    assert compared.published
    assert compared.sizes == {"accuracy": (9, 9), "view_tv": (9, 9)}


def test_a_mean_without_a_seed_says_at_how_many() -> None:
    table = MetricTable(
        [
            cell("a", 1, "ece", SINGLE, 0.1),
            cell("a", 2, "ece", SINGLE, math.nan),
            cell("b", 1, "ece", SINGLE, math.nan, None),
        ]
    )
    metrics = ArmMetrics(table)
    summaries = metrics.summaries(("a", "b"), "ece", SINGLE)
    assert math.isnan(summaries["a"].mean)
    assert_says(summaries["a"].reason, "undefined", "(at 1 of 2 seeds)")
    assert "seeds" not in str(summaries["b"].reason)
    assert [run.n for run in summaries["b"].runs] == [0]
    assert metrics.repeated_arms == ("a",)
    assert ArmMetrics(MetricTable(table.rows[:1])).repeated_arms == ("a",)


def test_an_undefined_metric_rests_on_nothing() -> None:
    items = ScoredItems.of(predictions(1, families=6, k=1), "single")
    rng = np.random.default_rng(1)
    group = evaluate_items(items, by="kind", rng=rng, resamples=20).groups[0]
    for name in ("view_tv", "flip_rate", "ensemble_gain"):
        undefined = group.estimates[name]
        assert (undefined.n, undefined.clusters) == (0, 0)
        assert math.isnan(undefined.value)
    assert DataConclusion.without_audit("x").records == 0
