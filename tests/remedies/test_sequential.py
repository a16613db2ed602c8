"""Views one by one, replayed on planted order effects, and the choice of their threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from remedies.planted_orders import planted_run

from pact_eval.errors import InputError
from pact_eval.metrics.stopping import views_taken
from pact_eval.remedies.cross_fitting import folds_of
from pact_eval.remedies.sequential import (
    SequentialReplay,
    ViewSequence,
    fit_threshold,
    replay_views,
)
from pact_eval.runs.predictions import Predictions
from pact_reports.sentences.remedies import sequential_answer


def _replayed(run: Predictions) -> SequentialReplay:
    return replay_views(run, rng=np.random.default_rng(0), resamples=200)


def test_without_order_effects_one_view_is_enough() -> None:
    replay = _replayed(planted_run(np.random.default_rng(1), k=8, order_noise=1e-6))
    assert replay.status == "saves views"
    point = replay.point(0.02)
    assert (point.views.value, point.agreement.value) == (1.0, 1.0)
    assert point.stopped_at[0] == 1.0
    assert_says(sequential_answer(replay), "2%", "1.00", "100.0")


def test_strong_order_effects_of_items_need_more_views() -> None:
    weak, strong = (
        _replayed(planted_run(np.random.default_rng(2), k=8, order_noise=noise))
        for noise in (0.3, 1.5)
    )
    assert strong.point(0.02).views.low > weak.point(0.02).views.high > 1
    assert strong.point(0.02).agreement.value >= 0.97
    # Less risk takes more views, and agrees more often.
    views = [point.views.value for point in strong.points]
    assert views == sorted(views, reverse=True)
    agreement = [point.agreement.value for point in strong.points]
    assert agreement == sorted(agreement, reverse=True)


def test_margins_that_say_nothing_of_the_next_view_save_none() -> None:
    run = planted_run(np.random.default_rng(3), families=60, k=2, choices=(2,))
    logits = np.full(run.logits.shape, -np.inf)
    logits[:, :, :2] = [[1.0, 0.0], [0.0, 0.0]]
    logits[::2, 1, 1] = 3.0  # the second view overrules half of these equal margins
    replay = _replayed(replace(run, logits=logits))
    assert replay.status == "none saved"
    assert replay.point(0.02).agreement.value == 1.0
    assert_says(sequential_answer(replay), "not shown", "2.00")


def test_no_threshold_above_the_critical_firmness_changes_an_answer() -> None:
    run = planted_run(np.random.default_rng(4), families=60, k=6, order_noise=1.0)
    sequence = ViewSequence.of(run)
    critical = sequence.critical_firmness()
    rows = np.arange(len(critical))
    thresholds = np.unique(sequence.firm[np.isfinite(sequence.firm)])
    changed = np.zeros((len(thresholds), len(critical)), dtype=bool)
    for at, threshold in enumerate(thresholds):
        taken = views_taken(sequence.firm, threshold)
        changed[at] = sequence.means[rows, taken - 1].argmax(axis=1) != sequence.final
    largest = np.where(changed, thresholds[:, None], -np.inf).max(axis=0)
    assert np.array_equal(largest, critical)
    assert np.isfinite(critical).any()


def test_thresholds_keep_the_risk_on_new_families_against_theory() -> None:
    rng = np.random.default_rng(5)
    losses = []
    for _ in range(600):
        # Families of two alike items: their losses are dependent.
        critical = np.repeat(rng.exponential(size=100), 2) + rng.normal(0, 0.1, 200)
        threshold = fit_threshold(critical[:-20], (np.arange(180) // 2).astype(np.str_), 0.1)
        losses.append(np.mean(critical[-20:] >= threshold))
    assert np.mean(losses) <= 0.1 + 3 * np.std(losses) / math.sqrt(len(losses))
    assert np.mean(losses) > 0.08  # nearly all of the risk is used


def test_threshold_against_hand_computation() -> None:
    families = np.array(["a", "a", "b", "c", "d"])
    critical = np.array([4.0, 3.0, 2.0, 1.0, -np.inf])
    # Of four families, a risk of 0.4 leaves 0.4 x 5 - 1 = 1 changed family: both items of "a".
    assert fit_threshold(critical, families, 0.4) == np.nextafter(2.0, np.inf)
    # A risk of 0.3 leaves one half: the first item of "a".
    assert fit_threshold(critical, families, 0.3) == np.nextafter(3.0, np.inf)
    assert math.isinf(fit_threshold(critical, families, 0.19))
    assert fit_threshold(critical, families, 0.9) == 0.0


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1])
def test_a_risk_outside_0_and_1_is_refused(risk: float) -> None:
    with pytest.raises(InputError) as error:
        fit_threshold(np.zeros(2), np.array(["a", "b"]), risk)
    assert_says(error.value, "risk", "above 0", "below 1")


def test_a_fold_has_the_threshold_of_the_others() -> None:
    run = planted_run(np.random.default_rng(6), families=80, k=4, order_noise=1.0)
    folds, sequence = folds_of(run), ViewSequence.of(run)
    point = _replayed(run).point(0.05)
    for fold, threshold in enumerate(point.thresholds):
        others = folds.fold != fold
        critical = sequence.critical_firmness()[others]
        assert threshold == fit_threshold(critical, run.family[others], 0.05)
    assert len(set(point.thresholds)) > 1


def test_two_answers_have_two_views_and_repeats_are_not_taken() -> None:
    run = planted_run(np.random.default_rng(7), families=80, k=5, order_noise=1.0, choices=(2, 3))
    sequence = ViewSequence.of(run)
    assert sequence.most.tolist() == np.where(run.n_choices == 2, 2, 5).tolist()
    assert views_taken(sequence.firm, math.inf).max() == 5
    assert _replayed(run).most == pytest.approx(sequence.most.mean())


def test_all_views_are_the_ensemble_of_the_run() -> None:
    run = planted_run(np.random.default_rng(8), families=20, k=4, order_noise=1.0, choices=(3, 4))
    sequence = ViewSequence.of(run)
    all_views = sequence.stopped(sequence.most)
    assert all_views.log_probs("single") == pytest.approx(run.log_probs("ensemble"), abs=1e-12)


def test_too_few_families_for_the_risk_cannot_tell() -> None:
    replay = _replayed(planted_run(np.random.default_rng(9), families=40, k=4, order_noise=1.0))
    assert replay.status == "cannot tell"
    assert (replay.least_families, replay.fitted_families) == (49, 35)
    assert replay.point(0.02).views.value == pytest.approx(replay.most)
    assert_says(sequential_answer(replay), "cannot tell", "49", "35")


def test_repeats_of_one_order_cannot_tell() -> None:
    run = planted_run(np.random.default_rng(10), families=60, k=4, order_noise=1.0)
    replay = _replayed(replace(run, repeats=True))
    assert (replay.status, replay.points) == ("cannot tell", ())
    assert_says(sequential_answer(replay), "cannot tell", "one order", "--k 4")


def test_the_status_is_that_of_the_paired_interval() -> None:
    """The interval of the views holds all of them; that of what an item saves excludes 0."""
    family = [f"f{number}" for number in range(60)]
    run = planted_run(np.random.default_rng(7), families=60, k=6, choices=(2, 6), order_noise=1e-6)
    replay = _replayed(replace(run, family=np.repeat(family, 2)))
    point = replay.point(0.02)
    assert (point.views.value, point.same_saving) == (1.0, False)
    assert replay.status == "saves views"
    saved = np.where(run.n_choices == 2, 1, 5)
    assert point.saved.value == pytest.approx(saved.mean())
    assert 0 < point.saved.low < point.saved.value < point.saved.high
    assert_says(sequential_answer(replay), f"{point.saved.value:.2f} [{point.saved.low:.2f}")


def test_differences_from_fixed_views_against_hand_computation() -> None:
    """Each risk is compared with the fewest views that cost as much, item by item."""
    run = planted_run(np.random.default_rng(2), k=8, order_noise=1.5)
    replay, sequence, folds = _replayed(run), ViewSequence.of(run), folds_of(run)
    rows = np.arange(len(run))
    numbers_of_views = set()
    for point in replay.points:
        thresholds = np.array(point.thresholds)[folds.fold]
        taken = np.array(
            [
                views_taken(sequence.firm[[row]], threshold)[0]
                for row, threshold in zip(rows, thresholds, strict=True)
            ]
        )
        against = point.against_fixed
        k = against.fixed.k
        fixed = np.minimum(sequence.most, k)
        assert fixed.mean() >= taken.mean() > np.minimum(sequence.most, k - 1).mean()
        answers, fixed_answers = (
            sequence.means[rows, views - 1].argmax(axis=1) for views in (taken, fixed)
        )
        agrees, fixed_agrees = answers == sequence.final, fixed_answers == sequence.final
        assert against.views.value == pytest.approx((taken - fixed).mean())
        assert against.fixed.views.value == pytest.approx(fixed.mean())
        assert against.fixed.agreement.value == pytest.approx(fixed_agrees.mean())
        assert against.agreement.value == pytest.approx(agrees.mean() - fixed_agrees.mean())
        # The ends against resamples of families, drawn here: they are pairs of items in order.
        families = (agrees.astype(float) - fixed_agrees).reshape(-1, 2).mean(axis=1)
        drawn = np.random.default_rng(1).choice(families, (4000, len(families))).mean(axis=1)
        ends = (against.agreement.low, against.agreement.high)
        assert ends == pytest.approx(np.percentile(drawn, [2.5, 97.5]), abs=0.008)
        assert against.views.low < against.views.value < against.views.high
        numbers_of_views.add(k)
    assert len(numbers_of_views) > 2
    point = replay.point(0.02)
    shares = np.array(point.stopped_at)
    assert shares.shape == (8,)
    assert (shares * np.arange(1, 9)).sum() == pytest.approx(point.views.value)
