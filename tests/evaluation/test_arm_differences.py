"""Arms compared over seeds and families, and which of them are best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from messages import assert_says
from run_frames import predictions

from pact_eval.evaluation.arms.arm_differences import (
    ArmsComparison,
    compare_arms,
    standings,
)
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.settings import Settings


def arm(first_seed: int, skill: float, seeds: int = 3) -> dict[int | None, ScoredItems]:
    return {
        seed: ScoredItems.of(predictions(first_seed + seed, skill=skill, k=2), "single")
        for seed in range(1, seeds + 1)
    }


def compared(*, seeds: int = 3, **skills: float) -> ArmsComparison:
    arms = {name: arm(100 * at, skill, seeds) for at, (name, skill) in enumerate(skills.items())}
    return compare_arms(arms, Settings(seed=1, resamples=50))


@pytest.fixture(scope="module")
def unequal() -> ArmsComparison:
    return compared(good=4.0, poor=0.5)


@pytest.fixture(scope="module")
def equal() -> ArmsComparison:
    """Two arms of equal skill."""
    return compared(poor=0.5, other=0.5)


def test_one_difference_over_three_seeds(unequal: ArmsComparison) -> None:
    """Both intervals are of the same mean, and the one for new seeds is marked."""
    pair = unequal.pairs[0]
    for name, difference in pair.differences["all"].items():
        values = [
            comparison.groups[0].metrics[name].difference.value
            for comparison in pair.seeds.values()
        ]
        np.testing.assert_allclose(difference.difference.value, np.mean(values), atol=1e-12)
        np.testing.assert_equal(difference.new_seeds.value, difference.difference.value)
        assert difference.new_seeds.n == difference.difference.n
    accuracy = pair.differences["all"]["accuracy"]
    assert_says(accuracy.generalises_to, "new families", "new seeds")
    assert accuracy.marked
    assert accuracy.new_seeds.low > 0
    assert_says(accuracy.evidence.test, "t over", "seeds", "families")
    wide, narrow = (
        estimate.high - estimate.low for estimate in (accuracy.new_seeds, accuracy.difference)
    )
    assert wide > 0.9 * narrow


def test_one_seed_has_the_evidence_of_its_runs() -> None:
    pair = compared(seeds=1, good=4.0, poor=0.5).pairs[0]
    difference = pair.differences["all"]["accuracy"]
    assert difference.generalises_to == "new families, same seeds"
    assert difference.evidence == pair.seeds[1].groups[0].metrics["accuracy"].evidence
    assert math.isnan(difference.new_seeds.low)


def test_an_arm_is_best_only_if_that_is_shown(
    unequal: ArmsComparison, equal: ArmsComparison
) -> None:
    """The arm of more skill is; two arms of equal skill are tied when nothing else is there."""

    def found(comparison: ArmsComparison, metric: str) -> list[str | None]:
        return [arm.summaries["all"][metric].standing for arm in comparison.arms]

    assert found(unequal, "accuracy") == ["best", None]
    assert found(unequal, "ensemble_gain") == [None, None]
    for name in ("accuracy", "nll_nats", "brier"):
        assert found(equal, name) == ["tied", "tied"], name


def test_standings_by_hand(unequal: ArmsComparison, equal: ArmsComparison) -> None:
    shown = unequal.pairs[0].differences["all"]["accuracy"]
    hidden = next(
        difference
        for by_metric in equal.pairs[0].differences.values()
        for difference in by_metric.values()
        if not difference.marked
    )
    spec = metric_spec("accuracy")
    means = {"a": 0.9, "b": 0.5, "c": 0.4}

    assert standings(means, spec, {"b": shown, "c": shown}) == {"a": "best"}
    assert standings(means, spec, {"b": shown, "c": hidden}) == {"a": "tied", "c": "tied"}
    # Arms without a common seed are not compared.
    assert standings(means, spec, {"b": shown}) == {"a": "tied", "c": "tied"}
    assert standings(means, spec, {}) == {"a": "tied", "b": "tied", "c": "tied"}
    assert standings({"a": 0.9}, spec, {}) == {}
    assert standings({"a": 0.9, "b": math.nan}, spec, {}) == {}
    assert standings({"a": math.inf, "b": 0.1}, spec, {}) == {}
