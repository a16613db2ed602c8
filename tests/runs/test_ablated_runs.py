"""Runs on ablated contexts: read, refused where references are needed, and reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from evaluations import evaluate
from interval_oracles import skewed_interval
from messages import assert_says
from run_frames import ablated_predictions, ablated_rows, frame_of, rows, write_run

from pact_eval.calibration.runs import fit_on_run
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.errors import RunError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.runs.folder import read_any_run, read_run
from pact_eval.runs.predictions import Predictions


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_run(tmp_path / "whole", rows(1), arm="a", seed=1)


@pytest.fixture
def ablated(tmp_path: Path) -> Path:
    return write_run(tmp_path / "ablated", ablated_rows(1), arm="a", seed=1)


def test_either_sort_is_read_as_what_it_is(whole: Path, ablated: Path) -> None:
    run = read_any_run(ablated)
    assert run.ablated
    assert run.predictions.ablated
    assert len(run.predictions) == 30
    assert run.predictions.answers is not None
    assert run.predictions.answers.shape == (30, 2)
    assert run.settings["k"] == 3
    assert set(run.predictions.variant.tolist()) == {"ablated"}
    assert not read_any_run(whole).ablated
    assert read_any_run(whole).predictions.answers is None


def test_ablated_views_have_no_reference_that_a_metric_could_read() -> None:
    predictions = ablated_predictions(1)
    assert predictions.references is None
    with pytest.raises(RunError, match="have no references"):
        _ = predictions.reference


NEEDS_REFERENCES: dict[str, Callable[[Path, Path], object]] = {
    "read_run": lambda _, ablated: read_run(ablated),
    "compare --arms": lambda _, ablated: Experiment.read_arms([f"a={ablated}"]),
    "calibrate": lambda _, ablated: fit_on_run(ablated, mode="scalar", decoding="single"),
    "calibrate --holdout": lambda whole, ablated: fit_on_run(
        whole, [ablated], mode="scalar", decoding="single"
    ),
}


@pytest.mark.parametrize("name", NEEDS_REFERENCES)
def test_what_needs_references_refuses_in_one_sentence(
    name: str, whole: Path, ablated: Path
) -> None:
    words = "ablated: a run on ablated contexts has no references.*use it with `pact-eval report`"
    with pytest.raises(RunError, match=words):
        NEEDS_REFERENCES[name](whole, ablated)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.lit([1, 1]).alias("answers"), "two different answers"),
        (pl.lit([0, 7]).alias("answers"), "two different answers"),
        (pl.lit([0, 1, 2]).alias("answers"), "two different answers"),
        (pl.lit(None, pl.List(pl.Int16)).alias("answers"), "two different answers"),
        (pl.lit("0, 1").alias("answers"), "expected a column answers"),
        (pl.lit(0).alias("reference"), "without references, 30 have one"),
    ],
)
def test_damaged_rows_are_refused(tmp_path: Path, change: pl.Expr, words: str) -> None:
    folder = write_run(tmp_path / "run", ablated_rows(1).with_columns(change))
    with pytest.raises(RunError, match=f"predictions.parquet: .*{words}"):
        read_any_run(folder)


def test_a_run_without_the_answers_or_of_both_sorts_is_refused() -> None:
    frame = ablated_rows(1)
    with pytest.raises(RunError, match="expected a column answers"):
        Predictions.from_frame(frame.drop("answers"))
    both = pl.concat([frame, rows(1)], how="diagonal")
    with pytest.raises(RunError, match="got 90 in 270 rows"):
        Predictions.from_frame(both)
    # Rows that lack references for no known reason are no ablated contexts.
    nameless = rows(1).with_columns(pl.lit(None, pl.Int16).alias("reference"))
    with pytest.raises(RunError, match="60 of 60 items"):
        Predictions.from_frame(nameless)


def _three() -> Predictions:
    """Two booleans and a choice of three, two views each."""
    frame = frame_of(
        id=["a", "a", "b", "b", "c", "c"],
        family=["f-a", "f-a", "f-b", "f-b", "f-c", "f-c"],
        kind=["boolean"] * 4 + ["choice"] * 2,
        variant=["ablated"] * 6,
        view=[0, 1] * 3,
        logits=[
            *([0.0, np.log(3)], [np.log(3), 0.0]),
            *([0.0, 0.0], [0.0, 0.0]),
            *([np.log(6), np.log(3), 0.0], [np.log(6), np.log(3), 0.0]),
        ],
        prompt_tokens=[50] * 6,
        answer_mass=[0.5, 0.75] * 3,
        answers=[[1, 0]] * 4 + [[0, 2]] * 2,
    )
    return Predictions.from_frame(frame)


def test_the_evaluation_against_hand_computation() -> None:
    rng = np.random.default_rng(0)
    single = evaluate(_three(), decoding="single", by="kind", rng=rng, resamples=200)
    everything, choice, boolean = single.groups
    assert [group.name for group in single.groups] == ["all", "choice", "boolean"]
    assert (everything.items, everything.families) == (3, 3)
    # Confidence 3/4, 1/2, 6/10; gaps log 3, 0, log 6; TV 1/2, 0, 0; the views of a disagree.
    values = {name: estimate.value for name, estimate in everything.estimates.items()}
    assert set(values) == {spec.name for spec in registered_metrics("ablated")}
    assert values == pytest.approx(
        {
            "ablated_confidence": (0.75 + 0.5 + 0.6) / 3,
            "ablated_gap": (np.log(3) + np.log(6)) / 3,
            "view_tv": 0.5 / 3,
            "flip_rate": 1 / 3,
            "answer_mass": 0.625,
        },
        abs=1e-6,
    )
    assert boolean.estimates["ablated_gap"].value == pytest.approx(np.log(3) / 2, abs=1e-6)
    assert choice.estimates["ablated_confidence"].value == pytest.approx(0.6, abs=1e-6)
    assert choice.estimates["ablated_confidence"].reason == "one family: no interval"
    # Together the two views of a cancel: 1/2, and no gap.
    ensemble = evaluate(_three(), decoding="ensemble", by="kind", rng=rng, resamples=200)
    estimates = ensemble.groups[0].estimates
    assert estimates["ablated_confidence"].value == pytest.approx((0.5 + 0.5 + 0.6) / 3, abs=1e-6)
    assert estimates["ablated_gap"].value == pytest.approx(np.log(6) / 3, abs=1e-6)
    assert estimates["view_tv"].value == pytest.approx(0.5 / 3, abs=1e-6)


def test_a_temperature_divides_the_gap() -> None:
    half = Calibrator("scalar", Weights(bias=(float(np.log(np.expm1(2.0))), 0.0, 0.0)))
    predictions = ablated_predictions(1)
    raw, calibrated = (
        ScoredItems.of(predictions, "single", calibrator) for calibrator in (None, half)
    )
    np.testing.assert_allclose(
        calibrated.values["ablated_gap"], raw.values["ablated_gap"] / 2, atol=1e-9
    )
    assert (calibrated.confidence <= raw.confidence + 1e-12).all()
    assert (calibrated.values["view_tv"] == raw.values["view_tv"]).all()


def test_intervals_are_over_families_against_scipy() -> None:
    predictions = ablated_predictions(1)
    twins = predictions.taken(np.repeat(np.arange(30), 2))
    rng = np.random.default_rng(5)
    estimate = (
        evaluate(twins, decoding="single", by="kind", rng=rng, resamples=400)
        .groups[0]
        .estimates["ablated_gap"]
    )
    gap = ScoredItems.of(predictions, "single").values["ablated_gap"][
        np.argsort(predictions.family)
    ]
    expected = skewed_interval(gap)
    assert (estimate.n, estimate.clusters) == (60, 30)
    np.testing.assert_allclose([estimate.low, estimate.high], expected, atol=1e-9)


def test_one_view_has_no_tv_and_says_so() -> None:
    rng = np.random.default_rng(0)
    one = ablated_predictions(1, k=1)
    group = evaluate(one, decoding="single", by="kind", rng=rng, resamples=100).groups[0]
    for name in ("view_tv", "flip_rate"):
        assert np.isnan(group.estimates[name].value)
        assert_says(group.estimates[name].reason, "one view", "K is 1")
    assert np.isfinite(group.estimates["ablated_gap"].low)
