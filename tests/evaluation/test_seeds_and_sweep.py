"""Arms over seeds, and a run at every number of views."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
from evaluations import evaluate
from messages import assert_says
from run_frames import predictions, rows

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import compare_arms
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import UnmatchedSeeds
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import sweep
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions


def arm(first_seed: int, seeds: tuple[int, ...], skill: float) -> dict[int | None, ScoredItems]:
    return {
        seed: ScoredItems.of(predictions(first_seed + seed, skill=skill), "single")
        for seed in seeds
    }


def test_means_deviations_and_signs_against_direct_computation() -> None:
    arms = {"good": arm(0, (17, 18, 19), 3.0), "poor": arm(50, (18, 17, 20), 0.0)}
    compared = compare_arms(arms, Settings(seed=1, resamples=40))
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
    assert lead.difference.value == pytest.approx(
        np.mean([accuracy["good"][seed] - accuracy["poor"][seed] for seed in (17, 18)])
    )
    # Two seeds are too few to say something about others.
    assert lead.generalises_to == "new families, same seeds"
    assert math.isnan(lead.new_seeds.low)
    assert lead.new_seeds.reason is not None
    assert "held fixed" in lead.new_seeds.reason
    assert compared.notes[-1] == UnmatchedSeeds("good", "poor", (19,), (20,), 2)
    assert_says(compared.notes[-1], "good has", "poor lacks: 19.", "poor has", "good lacks: 20.")


@pytest.mark.parametrize("arms", [{}, {"a": {}}, {"a": {}, "b": {}}])
def test_fewer_than_two_arms_are_refused(arms: dict[str, dict[int | None, ScoredItems]]) -> None:
    with pytest.raises(InputError, match="two arms or more"):
        compare_arms(arms, Settings(seed=1))


def test_every_point_is_the_report_of_a_run_with_so_many_views() -> None:
    """The first k views of a run are those of a run with k views: orders do not depend on K."""
    run = predictions(3, k=3)
    for point in sweep(run, range(1, 4), Settings(seed=2, resamples=40)):
        shorter = Predictions.from_frame(rows(3, k=3).filter(pl.col("view") < point.k))
        expected = evaluate(
            shorter, decoding="ensemble", by="kind", rng=np.random.default_rng(2), resamples=40
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
        run, decoding="single", by="kind", rng=np.random.default_rng(2), resamples=40
    ).groups[0]
    first = sweep(run, range(1, 2), Settings(seed=2, resamples=40))[0].group
    assert first.estimates["accuracy"] == single.estimates["accuracy"]
    assert_says(first.estimates["view_tv"].reason, "one view only", "K is 1")


def test_arms_without_a_common_seed_have_no_test() -> None:
    arms = {"a": arm(0, (1,), 1.0), "b": arm(50, (2,), 1.0)}
    compared_runs = compare_arms(arms, Settings(seed=1, resamples=20))
    assert compared_runs.notes[-1] == UnmatchedSeeds("a", "b", (1,), (2,), 0)
