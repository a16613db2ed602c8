from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluations import evaluate
from messages import assert_says
from run_frames import frame_of
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from logs import read_rows
from pact_eval import metrics
from pact_eval._choices import Decoding, GroupBy
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import InfiniteNll, LowAnswerMass
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import Evaluation
from pact_eval.runs.predictions import Predictions


@pytest.fixture(scope="module")
def published(experiment_files: Path) -> Predictions:
    path = experiment_files / "shipped_holdout_rows.jsonl"
    return Predictions.from_frame(read_rows(path).frame)


def evaluated(
    predictions: Predictions, by: GroupBy = "kind", decoding: Decoding = "single", seed: int = 0
) -> Evaluation:
    return evaluate(
        predictions, decoding=decoding, by=by, rng=np.random.default_rng(seed), resamples=100
    )


@pytest.mark.parametrize("by", ["kind", "domain"])
def test_every_group_against_the_published_summary(
    published: Predictions, experiment_files: Path, aurc_of_ties: float, by: GroupBy
) -> None:
    path = experiment_files / "shipped_summary.json"
    summary: dict[str, Any] = json.loads(path.read_text())
    groups = {group.name: group for group in evaluated(published, by).groups}
    expected = {"all": summary["all"]}
    if by == "kind":
        expected |= {"choice": summary["choice"], "boolean": summary["noul"]}
        expected |= {"score": summary["score"]}
    else:
        expected |= summary["by_domain"]
    assert set(groups) == set(expected)
    for name, figures in expected.items():
        group = groups[name]
        assert group.items == figures["count"]
        for ours, theirs in (
            ("accuracy", "accuracy"),
            ("pair_accuracy", "pair_accuracy"),
            ("nll_nats", "nll"),
            ("brier", "brier"),
            ("ece", "ece"),
            ("score_mae", "expected_score_mae"),
            ("score_level_mae", "level_mae"),
        ):
            if theirs in figures:
                value = group.estimates[ours].value
                assert value == pytest.approx(figures[theirs], abs=1e-9), (name, ours)
    assert groups["all"].estimates["aurc"].value == pytest.approx(aurc_of_ties, abs=5e-8)


def test_pairs_and_confident_errors_against_the_paper(published: Predictions) -> None:
    result = evaluated(published)
    everything, choice, boolean, _ = result.groups
    assert everything.pairs is not None
    assert choice.pairs is not None
    assert boolean.pairs is not None
    assert everything.pairs.both_right == 109
    assert everything.pairs.only_base == 35
    assert everything.pairs.only_counterfactual == 13
    assert everything.pairs.same_answer == 39
    assert choice.pairs.same_answer == 24
    assert (boolean.pairs.only_base, boolean.pairs.only_counterfactual) == (11, 0)
    confident = everything.estimates["confident_errors"]
    assert (confident.value, confident.n) == (16 / 58, 58)


def test_every_estimate_names_what_it_rests_on(published: Predictions) -> None:
    result = evaluated(published)
    for group in result.groups:
        assert set(group.estimates) == {spec.name for spec in registered_metrics()}
        for name, estimate in group.estimates.items():
            if math.isnan(estimate.value):
                assert estimate.reason, (group.name, name)
                assert estimate.n == 0
            else:
                assert estimate.low <= estimate.value <= estimate.high
                assert 0 < estimate.clusters <= estimate.n <= group.items
    everything = result.groups[0]
    assert everything.estimates["score_mae"].n == 64
    assert everything.estimates["score_mae"].clusters == 32
    assert_says(everything.estimates["flip_rate"].reason, "one view", "K is 1")
    assert published.view_tv is not None  # the log states it
    assert everything.estimates["view_tv"].value == pytest.approx(published.view_tv.mean())
    assert result.groups[1].estimates["score_mae"].reason == "no score items"


def test_scores_in_parts_against_isotonic_regression(published: Predictions) -> None:
    rows_by_kind = ScoredItems.of(published, "single").rows_by_group("kind")
    for group, rows in zip(evaluated(published).groups, rows_by_kind.values(), strict=True):
        log_p = published.log_probs("single")[rows]
        # Rounded, because scikit-learn gives NaN for confidences that differ by the last bit.
        c = np.exp(log_p.max(axis=1)).round(12)
        right = log_p.argmax(axis=1) == published.reference[rows]
        fitted = IsotonicRegression().fit(c, right).predict(c)
        scores = group.answer_scores
        assert scores is not None
        assert scores.items == len(rows)
        miscalibration = np.square(c - right).mean() - np.square(fitted - right).mean()
        assert scores.brier.miscalibration == pytest.approx(miscalibration, abs=1e-9)
        assert scores.brier.uncertainty == pytest.approx(right.mean() * (1 - right.mean()))


def of_rows(**columns: Any) -> Predictions:
    return Predictions.from_frame(frame_of(**columns))


def two_views() -> Predictions:
    """Four items, K = 2, worked by hand in the test below."""
    ids = [name for name in ("a1", "a2", "b1", "b2") for _ in (0, 1)]
    return of_rows(
        id=ids,
        family=[name[0] for name in ids],
        kind=["boolean"] * 8,
        variant=["base" if name.endswith("1") else "counterfactual" for name in ids],
        reference=[1, 1, 1, 1, 0, 0, 1, 1],
        view=[0, 1] * 4,
        code_order=[[0, 1], [1, 0]] * 4,
        logits=[
            [2.0, 0.0],
            [0.0, 2.0],
            [0.0, 1.0],
            [0.0, 3.0],
            *[[1.0, 0.0]] * 2,
            *[[0.0, 0.0]] * 2,
        ],
        answer_mass=[0.25] * 8,
    )


def test_views_and_gain_against_hand_computation() -> None:
    single, ensemble = (
        evaluated(two_views(), decoding=decoding).groups[0].estimates
        for decoding in ("single", "ensemble")
    )
    # a1 flips (0 then 1); its ensemble ties at 0 and goes to the lowest index, wrong. b2 ties too.
    assert single["accuracy"].value == 0.5
    assert ensemble["accuracy"].value == 0.5
    assert single["ensemble_gain"].value == 0.0
    assert single["flip_rate"].value == 0.25
    p = [1 / (1 + math.exp(-z)) for z in (2.0, 1.0, 3.0)]
    tv = [2 * p[0] - 1, p[2] - p[1], 0.0, 0.0]
    assert single["view_tv"].value == pytest.approx(sum(tv) / 4, abs=1e-12)
    assert ensemble["nll_nats"].value == pytest.approx(
        (math.log(2) - math.log(1 / (1 + math.exp(-2.0))) - math.log(p[1]) + math.log(2)) / 4,
        abs=1e-12,
    )


def test_views_that_exclude_every_answer_leave_the_single_view_readable() -> None:
    columns: dict[str, Any] = {
        "id": ["a", "a"],
        "family": ["a", "a"],
        "reference": [0, 0],
        "view": [0, 1],
        "logits": [[0.0, -math.inf], [-math.inf, 0.0]],
    }
    single = evaluated(of_rows(**columns)).groups[0].estimates
    assert single["accuracy"].value == 1.0
    assert single["view_tv"].value == 1.0
    assert_says(single["ensemble_gain"].reason, "views of an item", "rule out all")
    with pytest.raises(ValueError, match="row 0"):
        evaluated(of_rows(**columns), decoding="ensemble")


def test_letters_of_unknown_order_are_left_out() -> None:
    columns: dict[str, Any] = {
        "id": ["a", "a", "b", "b"],
        "reference": [0, 0, 1, 1],
        "view": [0, 1, 0, 1],
        "logits": [[1.0, 0.0]] * 4,
        "code_order": [[0, 1], [], [0, 1], [1, 0]],
    }
    letters = evaluated(of_rows(**columns)).letters
    assert letters is not None
    assert letters.units == 3
    assert letters.observed.tolist() == [2, 1]


def test_letters_are_counted_over_items_and_views() -> None:
    letters = evaluated(two_views()).letters
    # a1 picks A then A (answer 1 stands at A in view 1), a2 B then A, b1 A then B, b2 A then B.
    assert letters is not None
    assert letters.observed.tolist() == [5, 3]
    assert letters.expected.tolist() == [4, 4]
    assert letters.units == 8


def test_an_infinite_nll_is_reported_with_its_count_and_bound() -> None:
    logits = [[0.0, -math.inf], [0.0, -math.inf], [math.log(0.9), math.log(0.1)]]
    result = evaluated(of_rows(id=["a", "b", "c"], reference=[0, 1, 0], logits=logits))
    everything = result.groups[0]
    assert everything.estimates["nll_nats"].value == math.inf
    assert everything.nll is not None
    assert everything.nll.infinite_items == 1
    assert everything.nll.finite_mean == pytest.approx(-math.log(0.9) / 2)
    bound = (-math.log(0.9) - math.log(0.1)) / 3
    (note,) = (note for note in result.notes if isinstance(note, InfiniteNll))
    assert (note.infinite_items, note.items) == (1, 3)
    assert note.lower_bound == pytest.approx(bound)
    assert everything.estimates["pair_accuracy"].reason == "no complete pairs"


def test_intervals_depend_on_the_seed_alone(published: Predictions) -> None:
    """ECE is the metric whose interval is drawn; all others have formulas."""
    first, again, other = (
        evaluated(published, seed=seed).groups[0].estimates for seed in (3, 3, 4)
    )
    assert first["ece"] == again["ece"]
    assert (first["ece"].low, first["ece"].high) != (other["ece"].low, other["ece"].high)
    assert first["nll_nats"] == other["nll_nats"]
    by_domain = evaluated(published, "domain", seed=3).groups[0].estimates["ece"]
    assert by_domain == first["ece"]


def test_the_interval_of_accuracy_against_the_items(published: Predictions) -> None:
    """From the definition: residuals by family, a loop, scipy's t."""
    estimate = evaluated(published).groups[0].estimates["accuracy"]
    right = metrics.correct(published.log_probs("single"), published.reference)
    rate, n = right.mean(), len(right)
    families = sorted(set(published.family.tolist()))
    squares = sum((right[published.family == name] - rate).sum() ** 2 for name in families)
    deff = len(families) / (len(families) - 1) * squares / n / (rate * (1 - rate))
    kappa = stats.t.ppf(0.975, len(families) - 1) ** 2 * max(deff, 1) / n
    half = math.sqrt(kappa * rate * (1 - rate) + kappa**2 / 4)
    expected = [(rate + kappa / 2 + sign * half) / (1 + kappa) for sign in (-1, 1)]
    assert [estimate.low, estimate.high] == pytest.approx(expected)
    assert (estimate.n, estimate.clusters) == (n, len(families))


def test_low_answer_mass_is_noted() -> None:
    result = evaluated(two_views())
    assert result.mean_answer_mass == 0.25
    assert LowAnswerMass(0.25) in result.notes
    assert "rarely answers" in str(LowAnswerMass(0.25))
    assert_says(str(LowAnswerMass(0.7)), "letters", "90% or more", "expected")
