"""Two runs on the same items, against what each says alone and against direct counts."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from evaluations import evaluate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import assert_says
from run_frames import predictions

from pact_eval._choices import Decoding
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.evaluation.comparison import Comparison, compare
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.notes import DifferentViews
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.paired_tests import mcnemar
from pact_reports.writers.json import to_json


def items(seed: int, decoding: Decoding = "single", **options: float) -> ScoredItems:
    return ScoredItems.of(predictions(seed, **options), decoding)


def compared(a: ScoredItems, b: ScoredItems, margin: float | None = None) -> Comparison:
    return compare(a, b, Settings(seed=4, resamples=60, margin=margin))


def views_notes(comparison: Comparison) -> list[DifferentViews]:
    return [note for note in comparison.notes if isinstance(note, DifferentViews)]


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_both_runs_are_what_the_report_says_of_each(decoding: Decoding) -> None:
    runs = items(1, decoding), items(2, decoding, skill=2.0)
    comparison = compared(*runs)
    for side, run in zip("ab", runs, strict=True):
        alone = evaluate(
            run.predictions,
            decoding=decoding,
            by="kind",
            rng=np.random.default_rng(4),
            resamples=60,
        )
        for group, expected in zip(comparison.groups, alone.groups, strict=True):
            assert (group.name, group.items) == (expected.name, expected.items)
            for spec in registered_metrics():
                estimate = getattr(group.metrics[spec.name], side)
                np.testing.assert_equal(asdict(estimate), asdict(expected.estimates[spec.name]))


def test_differences_are_those_of_the_values() -> None:
    comparison = compared(items(1), items(2))
    for group in comparison.groups:
        for metric in group.metrics.values():
            np.testing.assert_allclose(
                metric.difference.value, metric.a.value - metric.b.value, atol=1e-12
            )


def test_item_lists_and_tests_against_direct_counts() -> None:
    a, b = items(1), items(2, skill=2.0)
    comparison = compared(a, b)
    ids = a.predictions.ids
    only = {side: [i.id for i in comparison.differing if i.correct == side] for side in "ab"}
    assert only["a"] == ids[a.correct & ~b.correct].tolist()
    assert only["b"] == ids[b.correct & ~a.correct].tolist()
    everything = comparison.groups[0]
    assert everything.accuracy.items == mcnemar(a.correct, b.correct)
    assert everything.accuracy.items.b == len(only["a"])
    pair_a, pair_b = (
        run.correct.reshape(-1, 2).all(axis=1) for run in (a, b)
    )  # the members of a family stand together
    assert everything.accuracy.pairs == mcnemar(pair_a, pair_b)


def test_marks_p_values_and_intervals_agree() -> None:
    """One inference per number: a mark, p of at most 5% and an interval without 0 are one fact."""
    marks = []
    for seed, skill in itertools.product((2, 4), (2.0, 6.0)):
        for group in compared(items(1), items(seed, skill=skill)).groups:
            for name, metric in group.metrics.items():
                interval, p_value = metric.difference, metric.evidence.p_value
                beyond = interval.low > 0 or interval.high < 0
                assert (p_value <= 0.05) == beyond, name
                assert math.isnan(p_value) == math.isnan(interval.low), name
                assert metric.marked == (beyond and metric.spec.better != 0), name
                marks.append(metric.marked)
    assert 10 < sum(marks) < len(marks) - 10


def test_swapped_runs_mirror_every_difference() -> None:
    one, other = compared(items(1), items(2)), compared(items(2), items(1))
    for group, mirrored in zip(one.groups, other.groups, strict=True):
        for name, metric in group.metrics.items():
            mirror = mirrored.metrics[name].difference
            np.testing.assert_allclose(
                [metric.difference.low, metric.difference.high],
                [-mirror.high, -mirror.low],
                atol=1e-12,
            )
        assert group.accuracy.families.p_value == mirrored.accuracy.families.p_value


def test_a_run_and_itself_differ_in_nothing_and_are_not_called_the_same() -> None:
    """With 30 families an identical run is inside 20 points and not shown to be inside 3."""
    run = items(1)
    for margin, conclusion in ((0.2, "equivalent"), (0.03, "inconclusive")):
        everything = compared(run, run, margin).groups[0]
        assert everything.metrics["accuracy"].difference.value == 0
        assert everything.accuracy.items.p_value == 1
        verdict = everything.metrics["accuracy"].verdict
        assert verdict is not None
        assert verdict.conclusion == conclusion
    assert everything.metrics["nll_nats"].verdict is None  # a margin in points says nothing of nats


def test_calibrated_runs_keep_their_accuracy() -> None:
    raw = predictions(1)
    hot = Calibrator("scalar", Weights(bias=(3.0, 0.0, 0.0)))
    comparison = compared(ScoredItems.of(raw, "single"), ScoredItems.of(raw, "single", hot))
    metrics = comparison.groups[0].metrics
    assert metrics["accuracy"].difference.value == 0
    assert metrics["nll_nats"].difference.value != 0


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_runs_with_different_k_are_compared_on_the_common_views(
    decoding: Decoding,
) -> None:
    """The first views of a run do not depend on K, so the comparison is that of shorter runs."""
    two, four = predictions(1, k=2), predictions(2, k=4)
    compared_runs = compared(ScoredItems.of(two, decoding), ScoredItems.of(four, decoding))
    of_two = compared(ScoredItems.of(two, decoding), ScoredItems.of(four.with_views(2), decoding))
    assert to_json(compared_runs.groups) == to_json(of_two.groups)
    (note,) = views_notes(compared_runs)
    assert note == DifferentViews({"A": 2, "B": 4}, 2, decoding == "ensemble")
    assert views_notes(of_two) == []
    text = str(note)
    assert "(2: A; 4: B)" in text
    assert ("Ensembles" in text) == (decoding == "ensemble")


def test_differences_say_how_many_items_pairs_or_errors_they_rest_on() -> None:
    a, b = items(1), items(2, skill=2.0)
    everything = compared(a, b).groups[0].metrics
    differences = {name: metric.difference for name, metric in everything.items()}
    counted = {
        name: (difference.n, difference.clusters) for name, difference in differences.items()
    }
    assert counted["accuracy"] == (60, 30)
    assert counted["pair_accuracy"] == (30, 30)
    score = a.labels["kind"].rows_by_name()["score"]
    assert counted["score_mae"] == (len(score), len(score) // 2)
    wrong = ~a.correct | ~b.correct
    families = set(a.families.codes[wrong].tolist())
    assert counted["confident_errors"] == (int(wrong.sum()), len(families))
    one = compared(items(1, k=1), items(2, k=1)).groups[0].metrics["view_tv"].difference
    assert (one.n, one.clusters) == (0, 0)


def test_a_rate_over_the_errors_of_three_families_has_no_interval() -> None:
    """Planted errors: the other run has enough of them, and both together have too."""
    views = predictions(1, k=1)
    few, many = (ScoredItems.of(planted_errors(views, families), "single") for families in (3, 20))
    for a, b in ((few, many), (many, few)):
        difference = compared(a, b).groups[0].metrics["confident_errors"].difference
        assert math.isfinite(difference.value)
        assert math.isnan(difference.low)
        assert_says(difference.reason, "3 families", "fewer than 5", "no interval")
    enough = compared(many, many).groups[0].metrics["confident_errors"].difference
    assert math.isfinite(enough.low)


def planted_errors(views: Predictions, families: int) -> Predictions:
    """Every item of the first families is wrong and sure, or not sure; every other one is right."""
    logits = np.where(np.isfinite(views.logits), 0.0, -np.inf)
    rows = np.arange(len(views))
    sure = np.where(rows % 2, 5.0, 0.5)
    wrong = rows < 2 * families
    answer = np.where(wrong, (views.reference + 1) % views.n_choices, views.reference)
    logits[rows, 0, answer] = sure
    return replace(views, logits=logits)


OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=24, max_size=24)


@pytest.mark.slow
@settings(max_examples=20)
@given(OUTCOMES)
@example([(True, False), (False, True)] + [(True, True)] * 22)
@example([(True, False)] * 24)
@example([(True, True)] * 24)
def test_any_outcomes_can_be_compared(outcomes: list[tuple[bool, bool]]) -> None:
    """Also if the leads within every family that differs cancel: its design effect is 0."""
    run = items(1, families=12, k=1)
    a, b = (with_outcomes(run, [outcome[side] for outcome in outcomes]) for side in (0, 1))
    chosen = Settings(by="source_family", seed=4, resamples=20, margin=0.02)
    for group in compare(a, b, chosen).groups:
        lead = group.metrics["accuracy"].difference.value
        tests = group.accuracy
        assert lead == pytest.approx(tests.items.difference, abs=1e-12)
        assert math.isnan(tests.detectable) or 0 < tests.detectable <= 1
        assert 0 < tests.families.p_value <= 1


def with_outcomes(run: ScoredItems, right: list[bool]) -> ScoredItems:
    """Returns the items with other answers: those that are right as told."""
    views = run.predictions
    reference = np.asarray(run.reference)
    wrong = (reference + 1) % views.n_choices
    answers = replace(run, predicted=np.where(right, reference, wrong))
    return replace(answers, values={**answers.values, "accuracy": np.array(right)})
