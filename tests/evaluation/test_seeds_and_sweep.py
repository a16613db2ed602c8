"""Arms over seeds, and a run at every number of views."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from run_frames import predictions, rows, write_run

from pact_eval._choices import Decoding
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.comparison import compare_arms, compare_seeds
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews, UnmatchedSeeds
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import evaluate
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.sweep import sweep
from pact_eval.runs.predictions import Predictions
from pact_reports.presenters.sweep import present
from pact_reports.writers.json import to_json


def arm(first_seed: int, seeds: tuple[int, ...], skill: float) -> dict[int | None, ScoredItems]:
    return {
        seed: ScoredItems.of(predictions(first_seed + seed, skill=skill), "single")
        for seed in seeds
    }


def test_means_deviations_and_signs_against_direct_computation() -> None:
    arms = {"good": arm(0, (17, 18, 19), 3.0), "poor": arm(50, (18, 17, 20), 0.0)}
    compared = compare_arms(arms, by="kind", rng=np.random.default_rng(1), resamples=100)
    accuracy: dict[str, dict[int | None, float]] = {
        name: {seed: float(run.correct.mean()) for seed, run in runs.items()}
        for name, runs in arms.items()
    }
    good = next(arm for arm in compared.arms if arm.name == "good")
    values = list(accuracy["good"].values())
    assert good.seeds == (17, 18, 19)
    assert good.summaries["all"]["accuracy"].mean == pytest.approx(np.mean(values))
    assert good.summaries["all"]["accuracy"].deviation == pytest.approx(np.std(values, ddof=1))
    (pair,) = compared.pairs
    assert list(pair.seeds) == [17, 18]
    for seed, comparison in pair.seeds.items():
        difference = comparison.groups[0].metrics["accuracy"].difference.value
        assert difference == pytest.approx(accuracy["good"][seed] - accuracy["poor"][seed])
    lead = pair.differences["all"]["accuracy"]
    assert lead.sign.same
    assert lead.same_seeds.value == pytest.approx(
        np.mean([accuracy["good"][seed] - accuracy["poor"][seed] for seed in (17, 18)])
    )
    # Two seeds are too few to say something about others.
    assert lead.generalises_to == "new families, same seeds"
    assert math.isnan(lead.new_seeds.low)
    assert lead.new_seeds.reason is not None
    assert "held fixed" in lead.new_seeds.reason
    assert compared.notes[-1] == UnmatchedSeeds("good", "poor", (19,), (20,), 2)


def test_one_seed_has_no_deviation() -> None:
    arms = {"a": arm(0, (1,), 1.0), "b": arm(5, (1,), 1.0)}
    compared = compare_arms(arms, by="kind", rng=np.random.default_rng(1), resamples=100)
    summary = compared.arms[0].summaries["all"]["accuracy"]
    assert np.isnan(summary.deviation)
    assert summary.reason == "one seed: no deviation"
    assert not compared.pairs[0].differences["all"]["accuracy"].sign.same


@pytest.mark.slow
@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_arms_are_compared_on_the_views_that_all_runs_have(decoding: Decoding) -> None:
    """One run of three views among runs of two: every metric is that of two."""

    def of_views(first_seed: int, *ks: int) -> dict[int | None, ScoredItems]:
        views = [predictions(first_seed + seed, k=3) for seed in range(len(ks))]
        pairs = enumerate(zip(views, ks, strict=True), start=1)
        return {seed: ScoredItems.of(run.first_views(k), decoding) for seed, (run, k) in pairs}

    long = {"a": of_views(0, 3, 2), "b": of_views(50, 2, 2)}
    short = {"a": of_views(0, 2, 2), "b": long["b"]}
    compared_runs, expected = (
        compare_arms(arms, by="kind", rng=np.random.default_rng(1), resamples=100)
        for arms in (long, short)
    )
    assert to_json(compared_runs.arms) == to_json(expected.arms)
    assert to_json(compared_runs.pairs[0].differences) == to_json(expected.pairs[0].differences)
    ks = {"a, seed 1": 3, "a, seed 2": 2, "b, seed 1": 2, "b, seed 2": 2}
    assert compared_runs.notes == (DifferentViews(ks, 2, decoding == "ensemble"), *expected.notes)
    names = ("accuracy", "view_tv")
    pair = compare_seeds(
        *(("a", long["a"]), ("b", long["b"])),
        metrics=names,
        rng=np.random.default_rng(1),
        resamples=100,
    )
    differences = compared_runs.pairs[0].differences["all"]
    expected_pair = {"all": {name: differences[name] for name in names}}
    assert to_json(pair.differences) == to_json(expected_pair)
    assert pair.notes == compared_runs.notes[:1]


def test_arms_without_a_common_seed_have_no_test() -> None:
    arms = {"a": arm(0, (1,), 1.0), "b": arm(50, (2,), 1.0)}
    compared_runs = compare_arms(arms, by="kind", rng=np.random.default_rng(1), resamples=20)
    assert compared_runs.notes[-1] == UnmatchedSeeds("a", "b", (1,), (2,), 0)


@pytest.mark.parametrize("arms", [{}, {"a": {}}, {"a": {}, "b": {}}])
def test_fewer_than_two_arms_are_refused(arms: dict[str, dict[int | None, ScoredItems]]) -> None:
    with pytest.raises(InputError, match="two arms or more"):
        compare_arms(arms, by="kind", rng=np.random.default_rng(1))


def test_every_point_is_the_report_of_a_run_with_so_many_views() -> None:
    """The first k views of a run are those of a run with k views: orders do not depend on K."""
    run = predictions(3, k=3)
    for point in sweep(run, range(1, 4), rng=np.random.default_rng(2), resamples=100):
        shorter = Predictions.from_frame(rows(3, k=3).filter(pl.col("view") < point.k))
        expected = evaluate(
            shorter, decoding="ensemble", by="kind", rng=np.random.default_rng(2), resamples=100
        ).groups[0]
        assert (point.group.answer_scores, point.group.chance) == (
            expected.answer_scores,
            expected.chance,
        )
        for spec in registered_metrics():
            np.testing.assert_equal(
                asdict(point.group.estimates[spec.name]), asdict(expected.estimates[spec.name])
            )
    single = evaluate(
        run, decoding="single", by="kind", rng=np.random.default_rng(2), resamples=100
    ).groups[0]
    first = sweep(run, range(1, 2), rng=np.random.default_rng(2), resamples=100)[0].group
    assert first.estimates["accuracy"] == single.estimates["accuracy"]
    assert_says(first.estimates["view_tv"].reason, "one view only", "K is 1")


def test_the_json_of_a_sweep_has_the_scores_of_the_report(tmp_path: Path) -> None:
    """Parts of scores are computed when they are first asked for, in any order."""
    folder = write_run(tmp_path / "run", rows(3, k=2), arm="a", seed=1)
    settings = Settings(decoding="ensemble", resamples=100)
    experiment = Experiment.read([folder], settings)
    points = experiment.sweep(experiment.runs[0])
    shown: Any = present(experiment, experiment.runs[0], points).to_json()
    report = Experiment.read([folder], settings).report().evaluation.groups[0]
    chance, scores = to_json(report.chance), to_json(report.answer_scores)
    group = shown["points"][1]["group"]
    assert chance is not None
    assert (group["answer_scores"], group["chance"]) == (scores, chance)
    assert "top_answers" not in group


@pytest.mark.parametrize("ks", [range(2), range(1, 5), range(2, 2)])
def test_numbers_of_views_that_the_run_does_not_have(ks: range) -> None:
    with pytest.raises(InputError, match="from 1 to 3"):
        sweep(predictions(3), ks, rng=np.random.default_rng(2))
