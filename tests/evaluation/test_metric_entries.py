"""Entries of the registry against docs/metrics.md, and their reductions by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from messages import assert_says
from run_frames import ablated_predictions, frame_of, predictions

from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import (
    TRAINED_MARGIN,
    Summary,
    find_metric,
    metric_names,
    metrics_for,
    registered_metrics,
)
from pact_eval.evaluation.report import evaluate_items
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.rates import rate_estimate

INFINITE = math.inf
# Unit, direction, smallest and largest value; whether few errors leave it without an interval, and
# whether it depends on the most probable answer only.
ENTRIES: dict[str, tuple[str, int, float, float, bool, bool]] = {
    "accuracy": ("percent", 1, 0, 1, False, True),
    "pair_accuracy": ("percent", 1, 0, 1, False, True),
    "pair_margin": ("nats", 1, -INFINITE, INFINITE, False, False),
    "margin_not_positive": ("percent", 0, 0, 1, False, False),
    "margin_below_trained": ("percent", 0, 0, 1, False, False),
    "nll_nats": ("nats", -1, 0, INFINITE, True, False),
    "brier": ("score", -1, 0, 2, True, False),
    "ece": ("percent", -1, 0, 1, True, False),
    "aurc": ("percent", -1, 0, 1, True, False),
    "score_mae": ("levels", -1, 0, 25, True, False),
    "score_rps": ("levels", -1, 0, 25, True, False),
    "score_level_mae": ("levels", -1, 0, 25, True, True),
    "ablated_confidence": ("percent", -1, 0, 1, False, False),
    "ablated_gap": ("nats", -1, 0, INFINITE, False, False),
    "view_tv": ("percent", -1, 0, 1, False, False),
    "flip_rate": ("percent", -1, 0, 1, False, True),
    "order_accuracy": ("percent", 1, 0, 1, False, True),
    "ensemble_gain": ("points", 0, -1, 1, False, True),
    "confident_errors": ("percent", -1, 0, 1, False, False),
    "answer_mass": ("percent", 1, 0, 1, False, False),
    "mean_confidence": ("percent", 0, 0, 1, False, False),
}
SHOWN: dict[Summary, set[str]] = {
    "main results": {
        *("accuracy", "pair_accuracy", "nll_nats", "brier", "ece", "aurc", "score_mae"),
        "score_rps",
    },
    "every run": {
        *("accuracy", "pair_accuracy", "nll_nats", "ece", "aurc", "view_tv", "flip_rate"),
        "order_accuracy",
        "answer_mass",
    },
    "sweep": {
        *("accuracy", "pair_accuracy", "nll_nats", "ece", "view_tv", "flip_rate"),
        "ensemble_gain",
    },
    "ablations": {
        *("accuracy", "pair_accuracy", "nll_nats", "ece", "aurc", "score_mae", "view_tv"),
        "flip_rate",
    },
    "figure of arms": {"accuracy", "pair_accuracy", "ece", "view_tv"},
}


@pytest.mark.parametrize("name", metric_names())
def test_every_entry_has_the_unit_direction_and_range_of_its_definition(name: str) -> None:
    entry = find_metric(name)
    assert ENTRIES[name] == (
        *(entry.spec.unit, entry.spec.better, *entry.bounds),
        *(entry.driven_by_errors, entry.argmax_only),
    )
    assert entry.noise_floor == (name == "ece")
    assert entry.reported == (name != "mean_confidence")


@pytest.mark.parametrize("summary", SHOWN)
def test_tables_and_figures_show_the_metrics_of_their_question(summary: Summary) -> None:
    assert {spec.name for spec in registered_metrics("full", summary)} == SHOWN[summary]


def test_contexts_have_their_own_metrics() -> None:
    full = {metric.name for metric in metrics_for("full")}
    ablated = {metric.name for metric in metrics_for("ablated")}
    assert ablated == {
        *("ablated_confidence", "ablated_gap", "answer_mass", "view_tv", "flip_rate"),
    }
    assert full & ablated == {"view_tv", "flip_rate", "answer_mass"}
    assert full | ablated == {*metric_names()} - {"mean_confidence"}


def test_what_a_mean_is_over() -> None:
    counts = {name: find_metric(name).counts for name in metric_names()}
    assert {name for name, unit in counts.items() if unit == "error"} == {"confident_errors"}
    assert {name for name, unit in counts.items() if unit == "pair"} == {
        *("pair_accuracy", "pair_margin", "margin_not_positive", "margin_below_trained"),
    }
    views = {name for name in metric_names() if find_metric(name).uses_all_views}
    assert views == {"view_tv", "flip_rate", "order_accuracy", "ensemble_gain"}
    answers = {name for name in metric_names() if find_metric(name).defined_for("answers")}
    assert answers == {
        *("accuracy", "pair_accuracy", "score_level_mae", "flip_rate", "order_accuracy"),
    }
    confidences = {name for name in metric_names() if find_metric(name).defined_for("confidences")}
    assert confidences - answers == {"ece", "aurc", "confident_errors", "mean_confidence"}


def estimate(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 10, 5)


def test_intervals_end_at_the_range_of_the_metric() -> None:
    accuracy, nll = find_metric("accuracy"), find_metric("nll_nats")
    assert accuracy.within_bounds(estimate(-0.1, 1.2)) == replace(
        estimate(-0.1, 1.2), low=0, high=1
    )
    assert accuracy.within_bounds(estimate(0.2, 0.8)) == estimate(0.2, 0.8)
    assert nll.within_bounds(estimate(-0.1, 1.2)).high == 1.2
    assert nll.within_bounds(estimate(-0.1, 1.2)).low == 0
    brier = find_metric("brier").within_difference(estimate(-2.5, 2.2))
    assert (brier.low, brier.high) == (-2, 2)
    rate = accuracy.within_difference(estimate(-1.5, 0.5))
    assert (rate.low, rate.high) == (-1, 0.5)
    gain = find_metric("ensemble_gain").within_difference(estimate(-3, 1.5))
    assert (gain.low, gain.high) == (-2, 1.5)
    for ends in ((math.nan, 2.0), (-2.0, math.nan)):
        half_open = Estimate(0.0, *ends, 10, 5)
        assert accuracy.within_bounds(half_open) is half_open
        assert accuracy.within_difference(half_open) is half_open


def items(**changes: Any) -> ScoredItems:
    """Return two pairs and a base alone, with two answers and one view."""
    columns: dict[str, Any] = {
        "id": list("abcde"),
        "family": ["f1", "f1", "f2", "f2", "f3"],
        "variant": ["base", "counterfactual", "base", "counterfactual", "base"],
        "reference": [0, 1, 0, 1, 0],
        "logits": [[math.log(p), math.log(1 - p)] for p in (0.9, 0.2, 0.6, 0.7, 0.92)],
    }
    return ScoredItems.of(Predictions.from_frame(frame_of(**columns | changes)), "single")


def estimates(scored: ScoredItems) -> Mapping[str, Estimate]:
    """Return the estimates of all items, as a report has them."""
    rng = np.random.default_rng(1)
    return evaluate_items(scored, by="kind", rng=rng, resamples=50).groups[0].estimates


def values(scored: ScoredItems) -> dict[str, float]:
    return {name: one.value for name, one in point_estimates(scored)["all"].items()}


def test_rates_and_losses_by_hand() -> None:
    by_name = values(items())
    p = np.array([0.9, 0.8, 0.6, 0.3, 0.92])  # of the references
    assert by_name["accuracy"] == pytest.approx(0.8)
    assert by_name["pair_accuracy"] == pytest.approx(0.5)
    assert by_name["nll_nats"] == pytest.approx(-np.log(p).mean())
    assert by_name["brier"] == pytest.approx((2 * (1 - p) ** 2).mean())
    # The one error has confidence 0.7.
    assert by_name["confident_errors"] == 0.0
    confidence, right = np.array([0.9, 0.8, 0.6, 0.7, 0.92]), p > 0.5
    # 0.9 and 0.92 share a bin of fifteenths; the others are alone.
    gaps = [abs(0.1 + 0.08), 0.2, 0.4, 0.7]
    assert by_name["ece"] == pytest.approx(sum(gaps) / 5)
    ranked = right[np.argsort(-confidence)]
    risk = np.cumsum(~ranked) / np.arange(1, 6)
    assert by_name["aurc"] == pytest.approx(risk.mean())


@pytest.mark.parametrize(
    ("margin", "not_positive", "below"),
    [(0.0, 1.0, 1.0), (1e-9, 0.0, 1.0), (TRAINED_MARGIN, 0.0, 0.0), (-1.0, 1.0, 1.0)],
)
def test_a_margin_of_0_is_not_positive_and_of_2_is_not_below(
    margin: float, not_positive: float, below: float
) -> None:
    """The base is ahead by the margin, and the counterfactual by nothing."""
    pair: dict[str, Any] = {
        "id": ["a", "b"],
        "family": ["f", "f"],
        "variant": ["base", "counterfactual"],
        "reference": [0, 1],
    }
    by_name = values(items(**pair, logits=[[margin, 0.0], [0.0, 0.0]]))
    assert by_name["pair_margin"] == pytest.approx(margin, abs=1e-6)
    if margin != 1e-9:  # logits are float32 in a frame
        assert (by_name["margin_not_positive"], by_name["margin_below_trained"]) == (
            not_positive,
            below,
        )


def test_a_confident_error_is_a_share_of_the_errors() -> None:
    wrong = items(reference=[1, 0, 0, 1, 1])
    # Wrong: 0.9, 0.8, 0.7 and 0.92, of which two are at 0.9 or more.
    assert values(wrong)["confident_errors"] == pytest.approx(2 / 4)
    assert estimates(wrong)["confident_errors"].n == 4
    undefined = estimates(items(reference=[0, 1, 0, 0, 0]))["confident_errors"]
    assert math.isnan(undefined.value)
    assert undefined.reason == "no errors"


def test_what_is_undefined_says_why() -> None:
    group = estimates(items())
    assert_says(group["view_tv"].reason, "K is 1")
    assert_says(group["score_mae"].reason, "no score items")
    unpaired = estimates(items(variant=["base"] * 5))
    for name in ("pair_accuracy", "pair_margin"):
        assert unpaired[name].reason == "no complete pairs"
        assert (unpaired[name].n, unpaired[name].clusters) == (0, 0)
    same = estimates(items(reference=[0] * 5))
    assert_says(same["pair_margin"].reason, "no pair", "finite margin")
    assert same["pair_accuracy"].n == 2


def test_level_errors_of_score_items_by_hand() -> None:
    scores = items(
        id=["a", "b", "c"],
        family=["f1", "f2", "f3"],
        variant=["base"] * 3,
        kind=["score", "score", "choice"],
        reference=[2, 0, 0],
        logits=[np.log(p).tolist() for p in ([0.1, 0.2, 0.7], [0.2, 0.5, 0.3], [0.8, 0.1, 0.1])],
    )
    by_name = values(scores)
    # Expected levels 1.6 and 1.1; the most probable ones are 2 and 1.
    assert by_name["score_mae"] == pytest.approx((0.4 + 1.1) / 2)
    assert by_name["score_level_mae"] == pytest.approx((0 + 1) / 2)
    rps = [0.1**2 + 0.3**2, 0.8**2 + 0.3**2]
    assert by_name["score_rps"] == pytest.approx(sum(rps) / 2)
    assert estimates(scores)["score_mae"].n == 2


def test_views_of_a_run_by_hand() -> None:
    scored = ScoredItems.of(predictions(1, families=9, k=3), "single")
    by_name, views = values(scored), scored.predictions
    p = np.exp(views.log_probs_by_view)
    tv = [np.abs(p[:, a] - p[:, b]).sum(axis=1) / 2 for a, b in ((0, 1), (0, 2), (1, 2))]
    repeated = views.n_choices == 2  # with two answers, the third view has the order of the first
    expected = np.where(repeated, tv[0], np.mean(tv, axis=0))
    assert by_name["view_tv"] == pytest.approx(expected.mean())
    tops = metrics.predicted(views.log_probs_by_view)
    flips = (tops != tops[:, :1]).any(axis=1)
    assert by_name["flip_rate"] == pytest.approx(flips.mean())
    of_orders = [np.mean(tops[:, view] == views.reference) for view in range(3)]
    assert by_name["order_accuracy"] == pytest.approx(np.mean(of_orders))
    together = metrics.predicted(views.log_probs("ensemble")) == views.reference
    single = tops[:, 0] == views.reference
    assert by_name["ensemble_gain"] == pytest.approx(together.mean() - single.mean())


def test_the_share_of_views_is_a_rate_of_fractions() -> None:
    """Its interval, over families of unequal size, knows how much items differ."""
    views = predictions(1, families=30, k=3)
    shares = (metrics.predicted(views.log_probs_by_view) == views.reference[:, None]).mean(axis=1)
    # Members of a family agree; those of the large one are near the mean.
    code = np.argsort(np.argsort(shares)) // 2
    code[np.argsort(np.abs(shares - shares.mean()))[:16]] = 30
    code = np.unique(code, return_inverse=True)[1]
    scored = ScoredItems.of(replace(views, family=code.astype(str)), "single")
    sums, squares = np.bincount(code, shares), np.bincount(code, shares**2)
    expected = rate_estimate(sums, np.bincount(code), squares=squares)
    found = estimates(scored)["order_accuracy"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    as_counts = rate_estimate(sums, np.bincount(code))
    assert abs(found.high - as_counts.high) + abs(found.low - as_counts.low) > 1e-3


def test_ablated_contexts_by_hand() -> None:
    scored = ScoredItems.of(ablated_predictions(1, families=9, k=1), "single")
    by_name, views = values(scored), scored.predictions
    log_p, answers = views.log_probs("single"), views.answers
    assert answers is not None
    rows = np.arange(len(views))
    gap = np.abs(log_p[rows, answers[:, 0]] - log_p[rows, answers[:, 1]])
    assert by_name["ablated_gap"] == pytest.approx(gap.mean())
    assert by_name["ablated_confidence"] == pytest.approx(np.exp(log_p).max(axis=1).mean())
    assert by_name["answer_mass"] == pytest.approx(0.9, abs=1e-6)
