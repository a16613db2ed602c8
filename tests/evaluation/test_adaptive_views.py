"""Runs whose views were taken one by one: what is computed of them, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from adaptive_runs import RULE, full_rows, taken_rows, write_adaptive
from commands import refuser, runner
from messages import assert_says
from run_frames import write_run

from pact_cli.main import main
from pact_eval.errors import RunError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import AdaptiveViews, DifferentViews
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import decode_ensemble
from pact_eval.runs.folder import read_run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.view_rule import ViewRule

FULL = full_rows(1)
NO_SAMPLE = ViewRule(threshold=1.5, risk=0.05, full_share=0.0)
SETTINGS = Settings(resamples=40, decoding="ensemble")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_adaptive(tmp_path_factory.mktemp("adaptive") / "adaptive", FULL)


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("full") / "full", FULL)


@pytest.fixture(scope="module")
def other_items(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adaptive run of other families."""
    names = [pl.concat_str(pl.lit("other-"), name).alias(name) for name in ("id", "family")]
    frame = full_rows(3, families=40).with_columns(names)
    return write_adaptive(tmp_path_factory.mktemp("other") / "other", frame)


def test_the_rows_are_those_that_were_taken(run: Path) -> None:
    assert len(pl.read_parquet(run / "predictions.parquet")) < len(FULL)
    predictions = read_run(run).predictions
    assert (predictions.k, len(predictions)) == (4, 180)
    assert predictions.stopped is not None
    assert runner(main, "verify")(run).exit_code == 0


def test_the_ensemble_is_the_mean_of_the_views_taken_against_hand_computation(run: Path) -> None:
    ensemble = read_run(run).predictions.log_probs("ensemble")
    items = taken_rows(FULL, RULE).partition_by("id", maintain_order=True)
    for row, item in enumerate(items):
        logits = np.array(item["logits"].to_list(), dtype=np.float64)
        expected = decode_ensemble(logits[np.newaxis], [logits.shape[1]])[0]
        assert ensemble[row, : logits.shape[1]] == pytest.approx(expected, abs=1e-12)


def test_view_metrics_are_of_the_families_that_got_all_views(run: Path, full_run: Path) -> None:
    sample = RULE.in_sample(read_run(full_run).predictions.family)
    assert 0 < sample.sum() < len(sample)
    items, whole = (
        Experiment.read([folder], SETTINGS).all_runs[0].scored("ensemble")
        for folder in (run, full_run)
    )
    for values, expected in ((items.view_tv, whole.view_tv), (items.flipped, whole.flipped)):
        assert np.isnan(values[~sample]).all()
        assert values[sample] == pytest.approx(expected[sample])


def test_the_letters_are_tested_on_the_sample_and_on_view_0_of_the_others(run: Path) -> None:
    experiment = Experiment.read([run], SETTINGS)
    (adaptive,) = experiment.all_runs
    sample = RULE.in_sample(adaptive.predictions.family)
    assert experiment.order_audit(adaptive).slots.items == sample.sum()
    facts = adaptive.scored("single").facts
    of_others = ~sample[facts.of_item]
    assert len(np.unique(facts.of_item[of_others])) == of_others.sum() == (~sample).sum()


def test_the_report_says_so(run: Path) -> None:
    evaluation = Experiment.read([run], SETTINGS).report().evaluation
    (note,) = (note for note in evaluation.notes if isinstance(note, AdaptiveViews))
    taken = len(taken_rows(FULL, RULE))
    assert (note.most, note.mean, note.full_share) == (4, taken / 180, 0.3)


def test_without_a_sample_the_order_cannot_be_told(tmp_path: Path) -> None:
    run = write_adaptive(tmp_path / "run", FULL, NO_SAMPLE)
    experiment = Experiment.read([run], SETTINGS)
    conclusion = experiment.order(experiment.all_runs[0])
    assert conclusion.status == "cannot tell"
    assert_says(conclusion.reason or "", "one by one", "no family")
    estimates = experiment.report().evaluation.groups[0].estimates
    assert all(math.isnan(estimates[name].value) for name in ("view_tv", "flip_rate"))


def test_compare_is_on_the_orders_that_both_runs_have(run: Path, full_run: Path) -> None:
    experiment = Experiment.read([run, full_run], SETTINGS)
    for compared in experiment.comparisons.at_common_views.runs:
        assert compared.predictions.stopped is None
    one, other = (item.scored("ensemble") for item in experiment.comparisons.at_common_views.runs)
    # The orders are the same, so the same logits give the same answers.
    assert np.array_equal(one.log_probs, other.log_probs)
    comparison = experiment.comparisons.of_first[0]
    difference = comparison.groups[0].metrics["accuracy"].difference
    assert difference.value == 0.0
    (note,) = (note for note in comparison.notes if isinstance(note, DifferentViews))
    assert note.adaptive == ("A",)


def test_further_views_are_compared_in_the_sample_alone(run: Path, full_run: Path) -> None:
    adaptive, whole = Experiment.read([run, full_run], SETTINGS).comparisons.at_common_views.runs
    sample = RULE.in_sample(whole.predictions.family)
    orders = whole.predictions.code_order
    assert whole.predictions.k == 4
    assert np.array_equal(orders[sample], read_run(full_run).predictions.code_order[sample])
    assert (orders[~sample] == orders[~sample][:, :1]).all()
    for compared in (adaptive, whole):
        assert np.isnan(compared.scored("ensemble").view_tv[~sample]).all()


def test_two_adaptive_runs_are_compared_at_view_0_and_where_both_got_all_views(
    tmp_path: Path,
) -> None:
    """Two models whose difference depends on the views: those that each took give another one."""
    frames, rules = (FULL, full_rows(2)), (RULE, ViewRule(3.0, 0.05, full_share=0.5, full_seed=2))
    folders = [
        write_adaptive(tmp_path / name, frame, rule)
        for name, frame, rule in zip("ab", frames, rules, strict=True)
    ]
    runs, models = (
        [read_run(folder).predictions for folder in folders],
        [Predictions.from_frame(frame) for frame in frames],
    )
    in_both = np.logical_and(*(rule.in_sample(runs[0].family) for rule in rules))
    assert 0 < in_both.sum() < len(in_both)
    views = np.where(in_both[:, np.newaxis], np.arange(4), 0)
    experiment = Experiment.read(folders, SETTINGS)
    for run, model in zip(experiment.comparisons.at_common_views.runs, models, strict=True):
        assert np.array_equal(run.predictions.logits, model.chosen_views(views).logits)
    difference = experiment.comparisons.of_first[0].groups[0].metrics["nll_nats"].difference
    assert difference.value == pytest.approx(nll_difference(models, [views, views]))
    stopped = [np.zeros((180, 4), bool) if run.stopped is None else run.stopped for run in runs]
    taken = [np.where(mask, 0, np.arange(4)) for mask in stopped]
    for other_views in (taken, [np.zeros_like(views)] * 2, [np.tile(np.arange(4), (180, 1))] * 2):
        assert abs(nll_difference(models, other_views) - difference.value) > 0.005


def nll_difference(models: list[Predictions], views: list[np.ndarray]) -> float:
    """The mean NLL of the ensemble of the first model at its views, minus that of the second."""
    first, second = (
        -model.chosen_views(chosen).log_probs("ensemble")[np.arange(len(model)), model.reference]
        for model, chosen in zip(models, views, strict=True)
    )
    return float((first - second).mean())


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("report", "RUN", "--remedies"), ("remedies", "all 4 views", "--views adaptive")),
        (("report", "RUN", "--views"), ("--views", "all 4 views")),
        (("calibrate", "RUN", "--remedy", "k1_additive"), ("remedy", "all 4 views")),
        (
            ("thresholds", "RUN", "--target-error", "0.2", "--decoding", "ensemble"),
            ("thresholds", "all 4 views"),
        ),
        (("thresholds", "RUN", "--sets", "--decoding", "ensemble"), ("all 4 views",)),
        (("calibrate", "RUN", "--decoding", "ensemble"), ("calibrator", "all 4 views")),
        (
            ("compare", "FULL", "RUN", "--margin", "0.05", "--gate", "--decoding", "ensemble"),
            ("change", "all 4 views"),
        ),
        (
            ("compare", "RUN", "OTHER", "--margin", "0.05", "--gate", "--decoding", "ensemble"),
            ("change", "all 4 views"),
        ),
    ],
)
def test_what_needs_all_views_is_refused(
    run: Path, full_run: Path, other_items: Path, words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    places = {"RUN": run, "FULL": full_run, "OTHER": other_items}
    refused = refuser(main)(*(places.get(word, word) for word in words))
    assert_says(refused, *parts)


def test_a_calibrator_of_one_view_is_of_view_0(
    run: Path, full_run: Path, other_items: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "adaptive.json", tmp_path / "full.json"]
    for folder, file in zip((run, full_run), files, strict=True):
        runner(main, "calibrate")(folder, "--force", "--mode", "scalar", "--out", file)
    weights = [json.loads(file.read_text())["weights"] for file in files]
    assert weights[0] == weights[1]
    runner(main, "report")(other_items, "--calibration", files[0], "--resamples", 100)


def test_a_calibrator_of_all_views_is_refused_on_views_one_by_one(
    full_run: Path, other_items: Path, tmp_path: Path
) -> None:
    file = tmp_path / "ensemble.json"
    calibrate = ("--force", "--mode", "scalar", "--decoding", "ensemble", "--out", file)
    runner(main, "calibrate")(full_run, *calibrate)
    words = (other_items, "--calibration", file, "--decoding", "ensemble")
    assert_says(refuser(main)("report", *words), "calibrator", "all 4 views")


def test_rows_that_are_not_the_first_views_are_refused() -> None:
    taken = taken_rows(FULL, RULE)
    without_first = taken.filter(~((pl.col("id") == "f0-base") & (pl.col("view") == 0)))
    for frame in (without_first, FULL.filter(pl.col("view") != 2)):
        with pytest.raises(RunError) as error:
            Predictions.from_frame(frame, RULE, 4)
        assert_says(error.value, "first views", "at most 4")
    with pytest.raises(RunError) as error:
        Predictions.from_frame(FULL, RULE, 3)
    assert_says(error.value, "at most 3")


def test_views_of_one_item_that_differ_are_refused() -> None:
    taken = taken_rows(FULL, RULE)
    other = pl.when((pl.col("id") == "f0-base") & (pl.col("view") == 1)).then(pl.lit("f1"))
    frame = FULL.with_columns(family=other.otherwise("family"))
    assert len(frame) > len(taken)
    with pytest.raises(RunError) as error:
        Predictions.from_frame(frame, ViewRule(1.0, 0.02), 4)
    assert_says(error.value, "family", "same value")


@pytest.mark.parametrize(
    "change", [{"risk": 0}, {"full_share": 2}, {"threshold": -1}, {"fit": None}, {"full_seed": "a"}]
)
def test_a_rule_that_is_none_is_refused(change: dict[str, Any]) -> None:
    recorded = {**RULE.to_json(), **change}
    with pytest.raises(RunError) as error:
        ViewRule.of_json(recorded, "run.json: settings: views")
    assert_says(error.value, "run.json", "views")


def test_the_sample_has_its_share_of_families() -> None:
    rule = ViewRule(1.0, 0.02, full_share=0.1, full_seed=3)
    share = rule.in_sample(f"f{number}" for number in range(5_000)).mean()
    assert share == pytest.approx(0.1, abs=3 * math.sqrt(0.09 / 5_000))
