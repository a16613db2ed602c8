"""Remedies compared on planted order effects: what must win, lose, or not be shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from remedies.planted_orders import letter_priors, planted_run

from pact_eval._typing import FloatArray
from pact_eval.errors import InputError
from pact_eval.letter_priors import fit_letter_prior
from pact_eval.remedies import (
    ContentFree,
    Remedy,
    RemedyComparison,
    Scope,
    ViewCosts,
    compare_remedies,
    cross_fitted,
    folds_of,
    remedied,
)
from pact_eval.runs.predictions import Predictions
from pact_reports.views.sweep import remedies_answer

_DRAWS = 100
"""Of 100 draws, more than 5 show false help with probability 94% at a rate of 10%, 99.8% at 15%."""


def _compared(run: Predictions, scope: Scope = "deciding") -> RemedyComparison:
    """Compare remedies by what decides; a test below holds that against the full comparison."""
    rng = np.random.default_rng(0)
    return compare_remedies(run, rng=rng, resamples=200, scope=scope)


def _nll(comparison: RemedyComparison, name: str) -> float:
    return comparison.row(name).metric("nll_nats").value.value


def test_a_pure_letter_prior_is_removed_by_the_prior_remedies() -> None:
    rng = np.random.default_rng(1)
    run = planted_run(rng, k=4, prior=letter_priors(rng, 1.0), choices=(2, 3, 4))
    comparison = _compared(run)
    assert comparison.status == "some help"
    assert comparison.row("k1_additive").helps("k1")
    assert _nll(comparison, "k1_additive") < _nll(comparison, "k2")
    assert comparison.enough == "k1_additive"


def test_order_effects_of_single_items_are_not_removed_by_a_prior() -> None:
    run = planted_run(np.random.default_rng(2), k=4, order_noise=1.5, choices=(3, 4, 5, 6))
    comparison = _compared(run)
    assert comparison.row("k2").helps("k1")
    for name in ("k1_additive", "k1_batch"):
        assert not comparison.row(name).helps("k1")
        assert _nll(comparison, name) > _nll(comparison, "k2")
    of_two = _compared(run.with_views(2))
    for name in ("k1_additive", "k1_batch"):
        assert of_two.row(name).metric("nll_nats").interval_is_worse("k2")


def test_an_interval_on_the_worse_side_is_not_enough_though_holm_leaves_no_mark() -> None:
    """Holm's adjustment over many remedies would hide that fewer views are worse than all."""
    run = planted_run(np.random.default_rng(1), families=100, k=4, order_noise=0.7, choices=(3, 4))
    comparison = _compared(run)
    two = comparison.row("k2")
    against = two.metric("nll_nats").differences["k4"]
    assert two.helps("k1")
    assert against.difference.low > 0
    assert not against.marked
    assert comparison.enough is None
    assert_says(remedies_answer(comparison), "2 orders;", "worse than 4 orders", "95% interval")


def _overconfident(seed: int) -> tuple[Predictions, FloatArray]:
    """Logits are four times too large, alike in all views; p_cf is uniform, which flattens them."""
    run = planted_run(np.random.default_rng(seed), families=120, k=4, choices=(2,))
    run = replace(run, logits=4 * run.logits)
    p_cf = np.zeros((len(run), 2, run.logits.shape[2]))
    p_cf[..., :2] = 0.5
    return run, p_cf


_PROMPTS = np.array([1.0, 2.0, 2.0, 2.0])
_SHARED = np.array([100.0, 190.0, 190.0, 190.0])
_UNKNOWN = np.full(4, np.nan)


def test_cheapest_is_by_computed_tokens_if_they_are_known_and_else_by_prompts() -> None:
    """One contextual view: 100 + 5 tokens of 190, but 4 prompts, which is more than the 2 of K."""
    run, p_cf = _overconfident(3)
    of_content = ViewCosts(_PROMPTS[:2], np.array([5.0, 9.0]) / 3, _SHARED[:2], None)
    nothing = ContentFree(p_cf, of_content)

    def compared(shared: FloatArray) -> RemedyComparison:
        return compare_remedies(
            run,
            rng=np.random.default_rng(0),
            resamples=200,
            costs=ViewCosts(_PROMPTS, shared, _SHARED),
            content_free=nothing,
            scope="deciding",
        )

    local, served = compared(_SHARED), compared(_UNKNOWN)
    for comparison in (local, served):
        assert comparison.row("k1_contextual").helps("k1")
        assert comparison.helping == ("k1_contextual",)
    assert (local.price, local.enough) == ("computed tokens", "k1_contextual")
    assert (served.price, served.enough) == ("prompts", None)
    names = [[row.remedy.name for row in comparison.rows] for comparison in (local, served)]
    assert names[0].index("k1_contextual") < names[0].index("k2")
    assert names[1].index("k1_contextual") > names[1].index("k4")
    assert_says(
        remedies_answer(local),
        "Cheapest in computed tokens",
        "1 order, contextual (105 per item; 4 orders: 190)",
    )
    answer = remedies_answer(served)
    assert_says(answer, "Shown to help over one order", "1 order, contextual")
    assert "cost less" not in answer


def test_worse_accuracy_by_its_interval_is_no_help_though_holm_leaves_no_mark() -> None:
    """p_cf turns eight right answers into wrong ones; all other items have a lower NLL."""
    run, p_cf = _overconfident(3)
    p = np.exp(run.log_probs_by_view[:, :2])
    right = p[:, 0, :2].argmax(axis=1) == run.reference
    turned = np.flatnonzero(right & (run.variant == "base"))[:8]
    for row in turned.tolist():
        wrong = 1 - run.reference[row]
        p_cf[row, :, wrong] = p[row, :, wrong] / 2
        p_cf[row, :, run.reference[row]] = 1 - p_cf[row, :, wrong]
    comparison = compare_remedies(
        run,
        rng=np.random.default_rng(0),
        resamples=200,
        content_free=ContentFree(p_cf, ViewCosts(_PROMPTS, _UNKNOWN, _UNKNOWN)),
        scope="deciding",
    )
    row = comparison.row("k1_contextual")
    accuracy = row.metric("accuracy").differences["k1"]
    assert accuracy.difference.value == pytest.approx(-8 / 240)
    assert accuracy.difference.high < 0
    assert not accuracy.marked
    assert row.metric("nll_nats").is_better("k1")
    assert not row.helps("k1")
    assert "k1_contextual" not in comparison.helping


@pytest.mark.slow
def test_without_order_effects_none_is_shown_to_help_in_95_of_100_draws() -> None:
    """The views of an item are equal here, so this guards against false help of what is fitted."""
    runs = (_null_run(seed, order_noise=1e-6) for seed in range(_DRAWS))
    statuses = [_compared(run, "deciding").status for run in runs]
    assert statuses.count("some help") <= 0.05 * _DRAWS
    assert set(statuses) <= {"some help", "none shown"}


@pytest.mark.slow
def test_views_that_differ_by_noise_alone_are_not_shown_to_help_accuracy() -> None:
    """References are drawn at random: every decoding is right once in C items, whatever it costs.

    Two views do help the NLL then, as they always do (see `test_decodings.py`). About 23 of 100
    draws show it: the test could find help if there was any.
    """
    better, lower_nll = 0, 0
    for seed in range(_DRAWS):
        run = _null_run(seed, order_noise=1.5)
        rng = np.random.default_rng([seed, 1])
        at_random = (rng.random(len(run)) * run.n_choices).astype(np.int64)
        comparison = _compared(replace(run, references=at_random), "deciding")
        better += any(row.metric("accuracy").is_better("k1") for row in comparison.rows)
        lower_nll += comparison.row("k2").metric("nll_nats").is_better("k1")
    assert better <= 0.05 * _DRAWS
    assert lower_nll > 0.1 * _DRAWS


def _null_run(seed: int, *, order_noise: float) -> Predictions:
    return planted_run(np.random.default_rng(seed), families=60, k=2, order_noise=order_noise)


def test_batch_calibration_does_not_help_where_right_answers_are_at_a() -> None:
    run = planted_run(np.random.default_rng(4), k=2, share_at_a=0.5)
    comparison = _compared(run)
    row = comparison.row("k1_batch")
    assert not row.helps("k1")
    assert row.metric("nll_nats").interval_is_worse("k1")


def test_a_narrower_scope_has_the_same_status_and_values() -> None:
    rng = np.random.default_rng(1)
    run = planted_run(rng, families=24, k=2, prior=letter_priors(rng, 1.0), choices=(2, 3))
    full, narrow = _compared(run, "all"), _compared(run, "deciding")
    for name in ("status", "helping", "enough"):
        assert getattr(narrow, name) == getattr(full, name)
    assert [row.remedy for row in narrow.rows] == [row.remedy for row in full.rows]
    for row in narrow.rows:
        assert [(metric.spec.name, metric.tempered) for metric in row.metrics] == [
            (name, False) for name in ("accuracy", "nll_nats")
        ]
        for metric in row.metrics:
            other = full.row(row.remedy.name).metric(metric.spec.name)
            assert repr(metric.value) == repr(other.value)  # NaN is not NaN
            assert repr(metric.differences) == repr(other.differences)


def test_a_run_of_one_view_cannot_tell() -> None:
    comparison = _compared(planted_run(np.random.default_rng(5), families=40, k=1))
    assert comparison.status == "cannot tell"
    assert [row.remedy.name for row in comparison.rows] == ["k1", "k1_batch"]


def test_folds_keep_source_families_together_and_priors_come_from_the_others() -> None:
    rng = np.random.default_rng(6)
    run = planted_run(rng, families=60, k=2, prior=letter_priors(rng, 1.0))
    folds = folds_of(run)
    assert folds.unit == "source family"
    for name in np.unique(run.source_family):
        assert len(set(folds.fold[run.source_family == name].tolist())) == 1
    remedy = Remedy(1, prior="additive")
    fitted = cross_fitted(run, remedy, folds)
    for fold in range(folds.number):
        rows = np.flatnonzero(folds.fold == fold)
        others = fit_letter_prior(run.taken(np.flatnonzero(folds.fold != fold)), "additive")
        expected = remedied(run.taken(rows), remedy, others).logits
        assert np.array_equal(fitted.predictions.logits[rows], expected)


def test_fewer_than_five_source_families_are_dealt_by_family() -> None:
    run = planted_run(np.random.default_rng(7), families=30, k=2)
    few = replace(run, source_family=np.array(["a", "b"])[np.arange(60) // 2 % 2])
    folds = folds_of(few)
    assert (folds.unit, folds.number) == ("family", 10)
    assert all(len(set(folds.fold[run.family == name].tolist())) == 1 for name in run.family)


def test_one_family_is_refused() -> None:
    run = planted_run(np.random.default_rng(8), families=1, k=2)
    with pytest.raises(InputError) as error:
        compare_remedies(run, rng=np.random.default_rng(0))
    assert_says(error.value, "two families or more")


def test_two_answers_have_two_prompts_for_four_views() -> None:
    run = planted_run(np.random.default_rng(9), families=60, k=4, choices=(2,))
    comparison = _compared(run)
    assert [comparison.row(f"k{k}").cost.prompts for k in (1, 2, 4)] == [1, 2, 2]


def test_repeats_of_one_order_are_compared_too() -> None:
    """Two repeats of four are two rows of an item; all four are one, their mean log-probability."""
    run = replace(planted_run(np.random.default_rng(4), k=4, order_noise=0.5), repeats=True)
    comparison = _compared(run)
    assert all(row.remedy.prior in (None, "batch") for row in comparison.rows)
    log_probs = run.logits - np.logaddexp.reduce(run.logits, axis=-1, keepdims=True)
    mean, rows = log_probs.mean(axis=1), np.arange(len(run))
    alone = -log_probs[rows, :2, run.references].mean(axis=1)
    together = np.logaddexp.reduce(mean, axis=1) - mean[rows, run.references]
    one = comparison.row("k1").metric("nll_nats")
    assert one.value.value == pytest.approx(alone.mean(), rel=1e-9)
    assert _nll(comparison, "k4") == pytest.approx(together.mean(), rel=1e-9)
    difference = one.differences["k4"].difference
    assert difference.value == pytest.approx((alone - together).mean(), rel=1e-9)
