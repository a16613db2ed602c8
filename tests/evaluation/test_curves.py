"""What figures show, before it is drawn: curves, bands, temperatures and logs, against numpy."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports.figures.figure_runs import (
    experiment_of,
    name_adapter,
    rows,
    simulated,
    write_calibrator,
)
from run_frames import write_run
from scipy import stats

from pact_eval import metrics
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.calibration.temperatures import write_calibrator as write_calibrator_file
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.figure_results import (
    arm_differences,
    ece_by_kind,
    main_comparison,
    views_sweep,
)
from pact_eval.evaluation.curves.distributions import (
    error_rate_curve,
    risk_coverage,
    run_margins,
    run_risks,
    view_tv_distribution,
)
from pact_eval.evaluation.curves.probabilities import (
    answer_confidence,
    band_resamples,
    curve_band,
    ranked_median,
    recalibrated_curve,
    reliability,
    temperature_by_choices,
    temperature_by_length,
)
from pact_eval.evaluation.curves.training import (
    Trajectory,
    selection_trajectory,
    smoothed,
    training_curves,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.run_comparisons import run_differences
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import Estimate


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Two arms over two seeds and a base model, on 12 families; the arms have calibrators."""
    folder = tmp_path_factory.mktemp("curves")
    runs = simulated(folder, arms=("pact", "other"), seeds=(17, 18), families=12, logs=False)
    return replace(runs, settings=replace(runs.settings, resamples=60))


def test_ties_count_by_their_expected_order() -> None:
    confidence, correct = np.array([0.9, 0.6, 0.6]), np.array([True, True, False])
    curve = error_rate_curve(confidence, correct, np.array([1, 2, 3]) / 3)
    np.testing.assert_allclose(curve(np.ones(3)), [0, 0.25, 1 / 3])
    np.testing.assert_allclose(curve(np.array([1.0, 0.0, 2.0])), [0, 0.5, 2 / 3])


@pytest.mark.parametrize("weights", [[1, 1, 1, 1], [0, 3, 1, 0], [2, 0, 0, 1], [0, 0, 5, 0]])
def test_weighted_median_against_repeated_values(weights: list[int]) -> None:
    values = np.array([0.1, 0.4, 0.6, 0.9])
    repeated = np.repeat(values, weights)
    median = ranked_median(values, np.array(weights, dtype=np.float64))
    assert median == pytest.approx(np.median(repeated))


def test_smoothing_against_weighted_means() -> None:
    values = np.array([1.0, 4.0, -2.0, 0.5])
    weights = 0.9 ** np.arange(4)
    expected = [
        (values[: n + 1] * weights[: n + 1][::-1]).sum() / weights[: n + 1].sum() for n in range(4)
    ]
    np.testing.assert_allclose(smoothed(values), expected)


def test_a_band_is_at_the_expanded_percentiles() -> None:
    """All draws of two families, by hand: the mean is 0, 1/2 or 1."""
    family = np.array([0, 0, 1])
    band = curve_band(
        lambda weights: np.array([weights[2] / 2, np.nan if weights[2] else 1.0]),
        family,
        Settings(seed=1, resamples=400),
    )
    assert (band.low[0], band.high[0]) == (0.0, 1.0)
    assert (band.low[1], band.high[1]) == (1.0, 1.0)  # of the draws where it is defined
    never = curve_band(
        lambda weights: np.full(2, np.nan) * weights[:2],
        family,
        Settings(seed=1, resamples=3),
    )
    assert np.isnan([never.low, never.high]).all()
    two = curve_band(
        lambda weights: weights[:1],
        np.zeros(0, np.int64),
        Settings(seed=1, resamples=3),
    )
    assert two.low.shape == (0,)
    one = curve_band(lambda weights: weights, np.zeros(3, np.int64), Settings(resamples=5))
    assert np.isnan(one.low).all()


def test_risks_of_runs_are_those_of_the_metric(experiment: Experiment) -> None:
    result = risk_coverage(experiment)
    assert result.x.tolist() == pytest.approx([place / 24 for place in range(1, 25)])
    assert (result.items, result.families) == (24, 12)
    for arm, runs in experiment.arms.items():
        curve = next(curve for curve in result.arms if curve.arm == arm)
        scored = [run.scored() for run in runs]
        risks = [metrics.risk_coverage(items.confidence, items.correct) for items in scored]
        assert curve.seeds == tuple(run.seed for run in runs)
        assert curve.by_run == pytest.approx(np.array([risk.error_rate for risk in risks]))
        assert curve.mean == pytest.approx(curve.by_run.mean(axis=0))
        areas = [metrics.aurc(items.confidence, items.correct) for items in scored]
        assert curve.summary == pytest.approx(areas)
        assert curve.mean_summary == pytest.approx(np.mean(areas))
        assert curve.band is None
    assert [(lead.a, lead.b) for lead in result.differences] == [
        ("pact", "other"),
        ("pact", "base"),
    ]
    pact, other, base = (curve.by_run for curve in result.arms)
    assert result.differences[0].value == pytest.approx((pact - other).mean(axis=0))
    assert result.differences[1].value == pytest.approx((pact - base).mean(axis=0))
    for lead in result.differences:
        assert (lead.band.low <= lead.value + 1e-9).all()
        assert (lead.value <= lead.band.high + 1e-9).all()
        assert (lead.band.low < lead.band.high).any()
    choices = experiment.runs[0].predictions.n_choices
    assert result.guessing == pytest.approx(np.mean([1 - 1 / n for n in choices]))
    rates = [1 - run.scored().correct.mean() for run in experiment.arms["pact"]]
    assert result.references[0].random == pytest.approx(np.mean(rates))
    assert result.references[0].oracle[-1] == pytest.approx(np.mean(rates))
    assert result.references[0].oracle[0] == 0


def test_risks_at_some_coverages(experiment: Experiment) -> None:
    ((run, errors), *_) = run_risks(experiment, [0.5, 1.0])
    assert run is experiment.runs[0]
    items = run.scored()
    risk = metrics.risk_coverage(items.confidence, items.correct)
    assert [error.value for error in errors] == pytest.approx(
        [risk.error_rate[11], 1 - items.correct.mean()]
    )
    assert all(error.low <= error.value <= error.high for error in errors)
    assert {(error.n, error.clusters) for error in errors} == {(24, 12)}


def test_one_arm_has_a_band_around_its_mean(experiment: Experiment) -> None:
    alone = replace(experiment, runs=experiment.arms["pact"])
    (curve,) = risk_coverage(alone).arms
    assert curve.band is not None
    assert (curve.band.low <= curve.mean + 1e-9).all()
    assert (curve.mean <= curve.band.high + 1e-9).all()
    assert curve.band.low[-1] < curve.mean[-1] < curve.band.high[-1]


def test_shares_of_view_tv_against_numpy(experiment: Experiment) -> None:
    result = view_tv_distribution(experiment)
    assert result.x[[0, -1]].tolist() == pytest.approx([1e-4, 1.0])
    assert result.x.size == 121
    assert np.diff(np.log(result.x)) == pytest.approx(np.full(120, math.log(1e4) / 120))
    for curve, runs in zip(result.arms, experiment.arms.values(), strict=True):
        distances = [run.scored().values["view_tv"] for run in runs]
        for share, tv in zip(curve.by_run, distances, strict=True):
            assert share == pytest.approx([(tv <= x + 1e-12).mean() for x in result.x])
        assert curve.summary == pytest.approx([tv.mean() for tv in distances])
        assert curve.band is not None
        assert (curve.band.low <= curve.mean + 1e-9).all()
    assert (result.items, result.families) == (24, 12)


def test_confidence_of_right_and_wrong_answers(experiment: Experiment) -> None:
    run = experiment.runs[-1]
    result, items = answer_confidence(experiment, run), run.scored()
    assert result.edges == pytest.approx(np.linspace(0, 1, 21))
    for answers, which in ((result.right, items.correct), (result.wrong, ~items.correct)):
        expected = np.histogram(items.confidence[which], result.edges)[0]
        assert answers.count.tolist() == expected.tolist()
        assert answers.items == which.sum()
        assert answers.median == pytest.approx(np.median(items.confidence[which]))
        assert answers.low <= answers.median <= answers.high
    assert (result.items, result.families) == (24, 12)
    share = (items.confidence[~items.correct] >= 0.9).mean()
    assert result.confident_errors.value == pytest.approx(share)


def test_reliability_in_bins_against_numpy(experiment: Experiment) -> None:
    run = experiment.runs[0]
    raw, after = reliability(experiment, run, binned=True).curves
    assert (raw.calibrated, after.calibrated) == (False, True)
    for curve, calibrated in ((raw, False), (after, True)):
        items = run.scored(calibrated=calibrated)
        bins = np.minimum((items.confidence * 15).astype(int), 14)
        assert curve.bins.count.tolist() == np.bincount(bins, minlength=15).tolist()
        assert curve.ece.value == pytest.approx(metrics.ece(items.confidence, items.correct))
        for place in np.unique(bins):
            inside = bins == place
            assert curve.bins.accuracy[place] == pytest.approx(items.correct[inside].mean())
            families = len(np.unique(items.cluster[inside]))
            assert np.isfinite(curve.low[place]) == (families > 1)
            if families > 1:
                assert curve.low[place] <= curve.bins.accuracy[place] <= curve.high[place]
        assert np.isnan(curve.low[curve.bins.count == 0]).all()
    base = experiment.arms["base"][0]
    full = reliability(experiment, base)
    assert [curve.calibrated for curve in full.curves] == [False]
    assert (full.items, full.families, full.arm) == (24, 12, "base")


def test_points_of_the_isotonic_curve(experiment: Experiment) -> None:
    items = experiment.runs[0].scored()
    curve = recalibrated_curve(items, experiment.settings)
    assert curve.confidence.size == 101
    ends = [items.confidence.min(), items.confidence.max()]
    assert curve.confidence[[0, -1]].tolist() == pytest.approx(ends)
    assert (np.diff(curve.accuracy) >= -1e-12).all()
    assert (curve.band.low <= curve.band.high).all()
    at_items = curve.pools.at(items.confidence)
    assert at_items.sum() == pytest.approx(items.correct.sum())  # isotonic fits keep the mean


def test_margins_of_pairs_by_hand(experiment: Experiment) -> None:
    run = experiment.runs[0]
    margins, p = run_margins(experiment, run), run.predictions
    log_p = p.log_probs("single")
    base, other = np.arange(0, 24, 2), np.arange(1, 24, 2)
    leads = [
        log_p[own, p.reference[own]] - log_p[own, p.reference[twin]]
        for own, twin in ((base, other), (other, base))
    ]
    rank = np.argsort(p.family[base], kind="stable")  # pairs are in the order of the families
    assert margins.base == pytest.approx(leads[0][rank])
    assert margins.counterfactual == pytest.approx(leads[1][rank])
    assert margins.margins == pytest.approx((leads[0] + leads[1])[rank])
    assert margins.mean.value == pytest.approx((leads[0] + leads[1]).mean())
    assert margins.not_positive.value == pytest.approx((leads[0] + leads[1] <= 0).mean())
    assert margins.below_trained.value == pytest.approx(
        (leads[0] + leads[1] < margins.trained).mean()
    )
    assert margins.families == 12


def test_temperatures_by_length_and_by_answers(experiment: Experiment) -> None:
    run = experiment.runs[0]
    assert run.calibrator is not None
    weights, p = run.calibrator.weights, run.predictions

    def temperature(c: float, tokens: Any) -> Any:
        u = weights.bias[0] + weights.log_choices * np.log(c)
        return np.log1p(np.exp(u + weights.log_tokens * np.log(np.asarray(tokens) / 1000)))

    result = temperature_by_length(run)
    assert [curve.n_choices for curve in result.curves] == sorted(set(p.n_choices.tolist()))
    assert result.identified is None
    assert result.items == sum(curve.items for curve in result.curves) == 24
    for curve in result.curves:
        lengths = p.prompt_tokens[p.n_choices == curve.n_choices]
        assert curve.temperature == pytest.approx(temperature(curve.n_choices, curve.tokens))
        assert curve.middle == pytest.approx(np.percentile(lengths, [5, 95]))
        assert curve.middle is not None
        assert set(curve.middle) <= set(curve.tokens.tolist())
        assert (curve.tokens[0], curve.tokens[-1]) == (lengths.min(), lengths.max())
        assert (np.diff(curve.tokens) > 0).all()
        assert 60 <= curve.tokens.size <= 62
    by_choices = temperature_by_choices(experiment)
    assert by_choices.tokens == np.median(p.prompt_tokens)
    assert len(by_choices.runs) == 4  # the base model has no calibrator
    first = by_choices.runs[0]
    assert (first.arm, first.seed) == (run.arm, run.seed)
    assert first.temperature == pytest.approx(
        [temperature(c, by_choices.tokens) for c in first.n_choices]
    )
    without = replace(experiment, runs=experiment.arms["base"])
    with pytest.raises(InputError, match="no run has a calibrator"):
        temperature_by_choices(without)


@pytest.mark.parametrize(
    ("parameters", "identified"),
    [
        ([{"name": "log_choices", "identified": True}], (True, None)),
        ([{"name": "log_tokens", "identified": False}], (None, False)),
        ([{"name": "log_tokens", "identified": 1}, 3], (None, None)),
        ("none", (None, None)),
    ],
)
def test_whether_a_slope_is_identified_is_in_its_file(
    tmp_path: Path, parameters: Any, identified: tuple[bool | None, bool | None]
) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    fit = {"parameters": parameters}
    calibrator = Calibrator("contextual", Weights((1.0,) * 3, 0.5, -0.7), fit)
    write_calibrator_file(folder / "calibration.json", calibrator)
    experiment = experiment_of([folder])
    by_choices = temperature_by_choices(experiment)
    by_length = temperature_by_length(experiment.runs[0])
    assert (by_choices.runs[0].identified, by_length.identified) == identified


def test_without_lengths_or_slopes_there_is_no_curve_of_lengths(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    with pytest.raises(InputError, match="no calibrator"):
        temperature_by_length(experiment_of([folder]).runs[0])
    write_calibrator(folder, b=0.5, c=0.0)
    with pytest.raises(InputError, match="does not depend on prompt length"):
        temperature_by_length(experiment_of([folder]).runs[0])


def logged(tmp_path: Path, lines: Sequence[dict[str, float]]) -> Experiment:
    """Return an experiment of one run whose adapter has this training log."""
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    name_adapter(folder, tmp_path / "adapter")
    return experiment_of([folder])


def test_a_training_log_is_read_as_it_is(tmp_path: Path) -> None:
    experiment = logged(
        tmp_path,
        [
            {"step": 1, "ce": 1.0, "pair_margin": 0.5},
            {"step": 2, "ce": 0.5, "selection_nll_nats": 0.7},
            {"step": 4, "ce": 0.25, "pair_margin": 1.5, "selection_nll_nats": 0.4},
            {"step": 5, "ce": 0.2, "selection_nll_nats": 0.6},
        ],
    )
    curves = training_curves(experiment.runs[0])
    assert curves.steps == 4
    assert [*curves.terms] == ["ce"]
    assert curves.distances["pair_margin"].steps.tolist() == [1, 4]
    assert curves.distances["pair_margin"].values.tolist() == [0.5, 1.5]
    assert curves.distances["pair_margin"].average.tolist() == pytest.approx([0.5, 1.95 / 1.9])
    trajectory = selection_trajectory(experiment, experiment.runs[0])
    assert trajectory.steps.tolist() == [2, 4, 5]
    assert trajectory.nll_nats.tolist() == [0.7, 0.4, 0.6]
    # The lowest NLL is selected, not the last and not the highest.
    assert (trajectory.selected_step, trajectory.selected_nll_nats) == (4, 0.4)
    assert trajectory.selected_accuracy is None
    assert trajectory.accuracy.value == experiment.runs[0].scored().correct.mean()


def test_a_log_without_these_numbers_is_refused(tmp_path: Path) -> None:
    experiment = logged(tmp_path, [{"step": 1, "total": 1.0, "reward": 3.0}])
    with pytest.raises(InputError, match="no loss terms"):
        training_curves(experiment.runs[0])


def test_every_two_runs_are_compared_once(experiment: Experiment) -> None:
    table = run_differences(experiment, [0, 2])
    right = [run.scored().correct.mean() for run in experiment.runs]
    assert [len(row) for row in table] == [5, 5]
    assert (table[0][0], table[1][2]) == (None, None)
    for reference, row in zip((0, 2), table, strict=True):
        for place, lead in enumerate(row):
            if lead is not None:
                assert lead.difference.value == pytest.approx(right[place] - right[reference])
                assert lead.shown == (lead.status in ("better", "worse"))
    ahead, behind = table[0][2], table[1][0]
    assert ahead is not None
    assert behind is not None
    assert (behind.difference.low, behind.difference.high) == (
        -ahead.difference.high,
        -ahead.difference.low,
    )
    assert behind.evidence.p_value == ahead.evidence.p_value


def test_differences_of_arms_by_group(experiment: Experiment) -> None:
    result = arm_differences(experiment, "pact", "other")
    assert (result.a, result.b, result.seeds) == ("pact", "other", (17, 18))
    assert (result.items, result.families) == (24, 12)
    assert [group.by for group in result.groups] == ["all"] + ["kind"] * 3 + ["domain"] * 4
    p = experiment.runs[0].predictions
    column = {"kind": p.kind, "domain": p.domain}
    for group in result.groups:
        inside = np.full(24, True) if group.by == "all" else column[group.by] == group.name
        values = [
            a.scored().correct[inside].mean() - b.scored().correct[inside].mean()
            for a, b in zip(experiment.arms["pact"], experiment.arms["other"], strict=True)
        ]
        assert group.values == pytest.approx(values)
        assert group.mean.value == pytest.approx(np.mean(values))
        assert group.items == inside.sum()


def test_calibration_of_kinds_is_that_of_their_items(experiment: Experiment) -> None:
    result = ece_by_kind(experiment)
    kind = experiment.runs[0].predictions.kind
    assert [*result.kinds] == ["all", "choice", "boolean", "score"]
    assert (result.items, result.families) == (24, 12)
    for name, (items, arms) in result.kinds.items():
        inside = np.full(24, True) if name == "all" else kind == name
        assert items == inside.sum()
        for arm, runs in zip(arms, experiment.arms.values(), strict=True):
            for summary, calibrated in ((arm, False), (arm.calibrated, True)):
                if summary is None:
                    assert arm.arm == "base"
                    continue
                scored = [run.scored(calibrated=calibrated) for run in runs]
                errors = [metrics.ece(s.confidence[inside], s.correct[inside]) for s in scored]
                assert summary.values == pytest.approx(errors)
                assert summary.mean == pytest.approx(np.mean(errors))


def test_rates_of_arms_are_means_over_their_runs(experiment: Experiment) -> None:
    results = {result.spec.name: result for result in main_comparison(experiment)}
    assert all(result.spec.unit == "percent" for result in results.values())
    accuracy = results["accuracy"]
    assert (accuracy.items, accuracy.families) == (24, 12)
    for arm, runs in zip(accuracy.arms, experiment.arms.values(), strict=True):
        right = [run.scored().correct.mean() for run in runs]
        assert arm.seeds == tuple(run.seed for run in runs)
        assert arm.values == pytest.approx(right)
        assert arm.low <= arm.mean <= arm.high
    assert results["ece"].arms[0].calibrated is not None
    assert accuracy.arms[0].calibrated is None


def test_a_sweep_ends_with_the_views_of_the_run(experiment: Experiment) -> None:
    accuracy, view_tv = views_sweep(replace(experiment, runs=experiment.arms["pact"]))
    assert (accuracy.spec.name, view_tv.spec.name) == ("accuracy", "view_tv")
    (arm,) = accuracy.arms
    assert arm.views == (1, 2, 3, 4)
    runs = experiment.arms["pact"]
    for k, summary in zip(arm.views, arm.means, strict=True):
        single = [run.scored("single").correct.mean() for run in runs]
        ensemble = [run.scored("ensemble").correct.mean() for run in runs]
        if k in (1, 4):
            assert summary.values == pytest.approx(single if k == 1 else ensemble)
    (distance,) = view_tv.arms
    assert distance.views == (2, 3, 4)
    assert distance.means[-1].values == pytest.approx(
        [run.scored().values["view_tv"].mean() for run in runs]
    )


@pytest.mark.parametrize(
    ("settings", "items", "resamples"),
    [
        (Settings(), 324, 1_000),
        (Settings(resamples=999), 324, 999),
        (Settings(resamples=1_001), 324, 1_000),
    ],
)
def test_a_band_has_at_most_a_thousand_resamples(
    settings: Settings, items: int, resamples: int
) -> None:
    assert band_resamples(settings, items) == resamples


def test_normal_quantiles_are_not_used_for_bands() -> None:
    """The tail of few families is wider than 2.5%, as Student's t is than the normal."""
    rng = np.random.default_rng(5)
    values, family = rng.normal(size=8), np.arange(8)
    band = curve_band(
        lambda weights: np.array([weights @ values / weights.sum()]),
        family,
        Settings(resamples=1_000),
    )
    draws = values[rng.integers(0, 8, (20_000, 8))].mean(axis=1)
    # Hesterberg (2015): the percentile interval is as wide as t with n - 1 in place of n.
    tail = stats.norm.cdf(-math.sqrt(8 / 7) * stats.t.ppf(0.975, 7))
    expected = np.quantile(draws, [tail, 1 - tail])
    assert [band.low[0], band.high[0]] == pytest.approx(expected, abs=0.05)


def test_the_accuracy_of_the_selected_step() -> None:
    trajectory = Trajectory(
        *("pact", 1, np.array([10, 20, 30]), np.array([0.5, 0.3, 0.4]), 20, 0.3),
        Estimate(0.8, 0.7, 0.9, 324, 162),
        np.array([0.6, 0.9, 0.7]),
    )
    assert trajectory.selected_accuracy == 0.9
