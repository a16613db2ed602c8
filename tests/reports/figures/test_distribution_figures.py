"""Reliability, risk-coverage, TV and confidence: what is drawn, against numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from matplotlib.patches import StepPatch
from reports.figures.drawn_axes import all_text, drawn, legend_texts, points
from run_frames import frame_of
from scipy.special import log_softmax
from sklearn.isotonic import IsotonicRegression

from pact_eval import metrics
from pact_eval.evaluation.curves.distributions import (
    risk_coverage,
)
from pact_eval.evaluation.curves.probabilities import (
    recalibrated_curve,
    reliability,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.labels import Labels
from pact_eval.evaluation.report import chance_miscalibration
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions
from pact_reports.figures.curves import (
    draw_risk_coverage,
    draw_risk_difference,
)
from pact_reports.figures.probabilities import draw_reliability
from pact_reports.figures.style import Looks


def test_reliability_against_numpy(experiment: Experiment, looks: Looks) -> None:
    run = experiment.runs[0]
    result = reliability(experiment, run)
    ax = drawn(partial(draw_reliability, [result], looks=looks))
    p = run.predictions
    log_p = log_softmax(p.logits[:, 0], axis=1)
    confidence, right = np.exp(log_p.max(axis=1)), log_p.argmax(axis=1) == p.reference
    bins = np.minimum((confidence * 15).astype(int), 14)
    filled = np.unique(bins)
    markers = next(collection for collection in ax.collections if collection.get_gid() == "bins-0")
    x, y = np.asarray(markers.get_offsets()).T
    np.testing.assert_allclose(x, [100 * confidence[bins == b].mean() for b in filled])
    np.testing.assert_allclose(y, [100 * right[bins == b].mean() for b in filled])
    counts = np.array([(bins == b).sum() for b in filled])
    areas = markers.get_sizes()  # type: ignore[attr-defined]
    np.testing.assert_allclose((areas - 3) / 26, counts / counts.max())
    (strip,) = ax.child_axes
    (stairs,) = (patch for patch in strip.patches if isinstance(patch, StepPatch))
    np.testing.assert_array_equal(stairs.get_data()[0], np.bincount(bins, minlength=15))
    ece = sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in filled) / len(p)
    before, after = legend_texts(ax)[0].splitlines()
    # Of fewer than five families with an error, no interval.
    assert before == f"pact, seed 17: ECE {100 * ece:.1f}%"
    assert after.startswith("after T(x): ECE ")
    assert "n = 48 items, 24 families" in {text.get_text() for text in strip.texts}
    assert ax.get_box_aspect() == 1
    assert ax.get_xlim() == ax.get_ylim() == (0, 100)


def test_lines_are_isotonic_regressions(experiment: Experiment, looks: Looks) -> None:
    run = experiment.runs[0]
    result = reliability(experiment, run)
    ax = drawn(partial(draw_reliability, [result], looks=looks))
    items = run.scored()
    oracle = IsotonicRegression(out_of_bounds="clip").fit(items.confidence, items.correct)
    raw = next(line for line in ax.lines if line.get_color() == looks.arms["pact"].colour)
    x, y = points(raw) / 100
    np.testing.assert_allclose(y, oracle.predict(x), atol=1e-9)
    isotonic = result.curves[0].isotonic
    assert isotonic is not None
    low, high = isotonic.band.low, isotonic.band.high
    assert (low <= high).all()
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    (outline,) = (path.to_polygons()[0] for path in ax.collections[0].get_paths())
    assert np.isclose(np.asarray(outline)[:, 1].max(), 100 * high[-1])


def calibrated_items(families: int, *, members: int, seed: int) -> ScoredItems:
    """Items of two answers whose members agree: one uniform number decides for the family."""
    rng = np.random.default_rng(seed)
    n = families * members
    c = rng.uniform(0.5, 1.0, n)
    right = rng.random(families).repeat(members) < c
    frame = frame_of(
        id=[f"i{at}" for at in range(n)],
        family=[f"f{at // members}" for at in range(n)],
        kind=["boolean"] * n,
        reference=np.where(right, 0, 1),
        logits=[[value, 0.0] for value in np.log(c / (1 - c)).tolist()],
    )
    return ScoredItems.of(Predictions.from_frame(frame), "single")


@pytest.mark.slow
def test_consistency_bands_against_independent_draws() -> None:
    items = calibrated_items(150, members=1, seed=5)
    curve = recalibrated_curve(items, Settings())
    rng = np.random.default_rng(6)
    fits, misses = [], []
    for _ in range(600):
        outcomes = (rng.random(len(items)) < items.confidence).astype(float)
        fit = IsotonicRegression(out_of_bounds="clip").fit(items.confidence, outcomes)
        fits.append(fit.predict(curve.confidence))
        gained = np.square(fit.predict(items.confidence) - outcomes).mean()
        misses.append(np.square(items.confidence - outcomes).mean() - gained)
    low, high = np.quantile(fits, [0.025, 0.975], axis=0)
    assert np.abs(curve.band.low - low).mean() < 0.02
    assert np.abs(curve.band.high - high).mean() < 0.02
    chance = chance_miscalibration(items, rng=Settings().rng())
    assert chance.brier == pytest.approx(np.mean(misses), abs=0.001)
    assert chance.brier_high == pytest.approx(np.quantile(misses, 0.95), abs=0.003)


@pytest.mark.slow
def test_calibrated_runs_lie_in_their_bands_and_families_widen_them() -> None:
    """Four members that share every draw: as few independent outcomes as families."""
    inside, wider = [], []
    for seed in range(40):
        items = calibrated_items(60, members=4, seed=seed)
        curve = recalibrated_curve(items, Settings(resamples=200))
        low, high = curve.band.low - 1e-9, curve.band.high + 1e-9
        inside.append(((low <= curve.accuracy) & (curve.accuracy <= high)).mean())
        alone = replace(items, families=Labels.of(np.arange(240).astype(str)))
        narrow = recalibrated_curve(alone, Settings(resamples=200)).band
        wider.append((high - low).mean() / (narrow.high - narrow.low).mean())
    assert 0.90 < np.mean(inside) <= 0.99
    assert np.mean(wider) > 1.15  # all data sets share one stream of 200 draws


def test_risk_coverage_against_the_metric(experiment: Experiment, looks: Looks) -> None:
    result = risk_coverage(experiment)
    runs = experiment.arms["pact"]
    curves = [metrics.risk_coverage(r.scored().confidence, r.scored().correct) for r in runs]
    np.testing.assert_allclose(result.x, curves[0].coverage)
    for curve, expected in zip(result.arms[0].by_run, curves, strict=True):
        np.testing.assert_allclose(curve, expected.error_rate, atol=1e-12)
    ax = drawn(partial(draw_risk_coverage, result, looks=looks))
    area = 100 * np.mean([curve.error_rate.mean() for curve in curves])
    assert legend_texts(ax)[0] == f"pact: AURC {area:.1f}%"
    thick = [line for line in ax.lines if line.get_marker() != "None"]
    np.testing.assert_allclose(points(thick[0])[1], 100 * result.arms[0].mean)
    assert thick[0].get_color() == looks.arms["pact"].colour
    assert (ax.get_xlabel()[-3:], ax.get_ylabel()[-3:]) == ("(%)", "(%)")
    assert "n = 48 items, 24 families" in all_text(ax)


def test_risk_lies_between_random_and_oracle_order(experiment: Experiment, looks: Looks) -> None:
    """The references against the metric itself, on confidences that are shuffled or know all."""
    result = risk_coverage(experiment)
    right = experiment.runs[0].scored().correct
    knows = metrics.risk_coverage(np.where(right, 0.9, 0.1), right).error_rate
    first = result.arms[0].by_run[0]
    oracle = metrics.oracle_error_rate(1 - right.mean(), result.x)
    np.testing.assert_allclose(oracle, knows, atol=1e-12)
    assert (oracle <= first + 1e-12).all()
    rng = np.random.default_rng(0)
    shuffled = [
        metrics.risk_coverage(rng.permutation(len(right)) / len(right), right).error_rate
        for _ in range(2000)
    ]
    assert np.abs(np.mean(shuffled, axis=0) - (1 - right.mean())).max() < 0.04
    rates = [1 - run.scored().correct.mean() for run in experiment.arms["pact"]]
    assert result.references[0].random == pytest.approx(np.mean(rates))
    both = [metrics.oracle_error_rate(rate, result.x) for rate in rates]
    np.testing.assert_allclose(result.references[0].oracle, np.mean(both, axis=0))
    choices = experiment.runs[0].predictions.n_choices
    assert result.guessing == pytest.approx(np.mean(1 - 1 / choices))
    ax = drawn(partial(draw_risk_coverage, result, looks=looks))
    assert legend_texts(ax)[-3:] == [
        *("random order", "oracle order"),
        f"guessing: {100 * result.guessing:.1f}%",
    ]


def test_difference_of_risk_against_its_own_resamples(experiment: Experiment, looks: Looks) -> None:
    """At full coverage, the band is the interval of the difference in error rate."""
    result = risk_coverage(experiment)
    other, base = result.differences
    assert (other.a, other.b, other.seeds) == ("pact", "other", (17, 18))
    assert (base.b, base.seeds) == ("base", (17, 18))
    assert all(arm.band is None for arm in result.arms)
    np.testing.assert_allclose(other.value, result.arms[0].mean - result.arms[1].mean)
    wrong = [
        np.mean([~run.scored().correct for run in experiment.arms[arm]], axis=0)
        for arm in ("pact", "other")
    ]
    lead = (wrong[0] - wrong[1]).reshape(-1, 2).mean(axis=1)
    draws = np.random.default_rng(1).integers(0, 24, (20_000, 24))
    ends = np.percentile(lead[draws].mean(axis=1), [2.5, 97.5])
    np.testing.assert_allclose([other.band.low[-1], other.band.high[-1]], ends, atol=0.025)
    ax = drawn(partial(draw_risk_difference, result, looks=looks))
    np.testing.assert_allclose(points(ax.lines[0])[1][-1], 100 * other.value[-1])
    assert legend_texts(ax) == ["pact − other", "pact − base", "95% over families"]
    assert {"↑ other arm better", "↓ pact better"} <= set(all_text(ax).splitlines())
