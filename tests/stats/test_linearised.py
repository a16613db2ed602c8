"""Student's t over clusters, corrected for skewness: against scipy, roots, and the bootstrap-t."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says
from scipy import optimize, stats

from pact_eval import metrics
from pact_eval.stats.bootstrap import (
    InfluenceStatistic,
    TotalsStatistic,
    mean_statistic,
    ratio_statistic,
    resample,
)
from pact_eval.stats.linearised import (
    LinearInference,
    Linearisation,
    linear_inference,
    linearised_ratio,
)


def of_values(values: np.ndarray, *, outer: bool = False) -> LinearInference:
    linear = linearised_ratio(values, np.ones(values.size))
    return linear_inference(float(values.mean()), linear, n=values.size, outer=outer)


@pytest.mark.parametrize("outer", [False, True])
def test_symmetric_clusters_have_the_t_interval(outer: bool) -> None:
    values = 0.2 + np.array([-3.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    statistic, expected = of_values(values, outer=outer), stats.ttest_1samp(values, 0)
    interval = expected.confidence_interval(0.95)
    estimate = statistic.estimate()
    assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    assert statistic.p_value() == pytest.approx(float(expected.pvalue))


def test_ends_against_roots_of_the_transformation() -> None:
    """Hall 1992: the ends are where g((mean - end) / s) is a quantile."""
    values = np.random.default_rng(1).exponential(size=9)
    estimate = of_values(values).estimate(0.9)
    a = float(stats.skew(values, bias=False)) / 3
    error = float(stats.sem(values))

    def g(end: float) -> float:
        t = (values.mean() - end) / error
        return float(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)

    t = stats.t.ppf(0.95, 8)
    for end, quantile in ((estimate.low, t), (estimate.high, -t)):
        root = optimize.brentq(lambda x, q=quantile: g(x) - q, -50, 50, xtol=1e-12)
        assert end == pytest.approx(root, abs=1e-9)


def test_it_is_the_bootstrap_t_interval_to_second_order() -> None:
    """Efron and Tibshirani 1993, chapter 12, on 60 skewed clusters."""
    rng = np.random.default_rng(2)
    values = rng.exponential(size=60)
    drawn = values[rng.integers(0, 60, size=(40_000, 60))]
    t = (drawn.mean(axis=1) - values.mean()) / (drawn.std(axis=1, ddof=1) / math.sqrt(60))
    error = float(stats.sem(values))
    low, high = (values.mean() - np.quantile(t, [0.975, 0.025]) * error).tolist()
    interval = of_values(values).estimate()
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.12 * error)
    plain = stats.t.interval(0.95, 59, values.mean(), error)
    assert abs(plain[1] - high) > 2 * abs(interval.high - high)


def test_clusters_like_copies_have_satterthwaites_degrees_by_hand() -> None:
    """Five families of 1, 2, 2, 3 and 8 items: (1 + 4 + 4 + 9 + 64)^2 / 4,210 - 1 is below 1."""
    rows = np.tile([1.0, 2.0, 2.0, 3.0, 8.0], 20)
    linear = linearised_ratio(rows * np.resize([0.0, 1.0, 0.4], rows.size), rows)
    alone, difference = (
        linear_inference(0.5, linear, n=320, outer=outer) for outer in (False, True)
    )
    assert alone.degrees == math.floor(20 * 82**2 / 4210) - 1 == 30
    assert difference.degrees == math.floor(20 * 16**2 / 82) - 1 == 61


def test_heavy_tails_have_the_degrees_of_the_estimated_variance_by_hand() -> None:
    """One family adds 4 and eight add -0.5: sums of squares 18, of fourth powers 256.5."""
    influence = np.array([4.0] + 8 * [-0.5])
    linear = Linearisation(influence, np.ones(9), 1.0)
    heavy = linear_inference(1.0, linear, n=9, heavy_tailed=True)
    assert heavy.degrees == math.floor(2 / (256.5 / 18**2 - 1 / 9)) == 2
    assert linear_inference(1.0, linear, n=9).degrees == 8
    level = Linearisation(np.array([1.0, -1.0] * 4), np.ones(8), 1.0)
    assert linear_inference(1.0, level, n=8, heavy_tailed=True).degrees == 7


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-3, 5), min_size=3, max_size=12).filter(
        lambda drawn_values: np.ptp(drawn_values) > 1e-3
    ),
    st.booleans(),
)
def test_the_p_value_inverts_the_interval(values: list[float], outer: bool) -> None:
    statistic = of_values(np.array(values), outer=outer)
    p_value = statistic.p_value()
    for level in (0.001, 0.05, 0.3, 0.8):
        estimate = statistic.estimate(1 - level)
        excludes = estimate.low > 0 or estimate.high < 0
        if abs(p_value - level) > 1e-6:
            assert excludes == (p_value < level)


def test_both_ends_of_a_difference_are_the_outer_ones() -> None:
    values = np.random.default_rng(3).exponential(size=8) - 0.3
    outer, corrected = of_values(values, outer=True).estimate(), of_values(values).estimate()
    plain = stats.t.interval(0.95, 7, values.mean(), stats.sem(values))
    assert outer.low == pytest.approx(min(corrected.low, plain[0]))
    assert outer.high == pytest.approx(max(corrected.high, plain[1]))


def test_influence_against_derivatives_in_the_weights() -> None:
    rng = np.random.default_rng(4)
    cluster = rng.integers(0, 7, 40)
    confidence, correct = rng.random(40), rng.random(40) < 0.7
    ratio = ratio_statistic(rng.random(40), rng.integers(0, 3, 40), cluster, 8)
    aurc = InfluenceStatistic(
        metrics.aurc(confidence, correct),
        lambda rows: metrics.aurc(confidence[rows], correct[rows]),
        lambda: metrics.aurc_influence(confidence, correct),
        cluster,
        8,
    )
    ones = np.ones((1, 8))

    def derivative(f: int) -> float:
        step = np.where(np.arange(8) == f, 1e-6, 0.0)
        return float((ratio(ones + step)[0] - ratio(ones - step)[0]) / 2e-6)

    assert isinstance(ratio, TotalsStatistic)
    linearised = ratio.linearised()
    assert linearised is not None
    assert linearised.influence == pytest.approx([derivative(f) for f in range(8)], abs=1e-8)
    assert (linearised.rows > 0).tolist() == [True] * 7 + [False]
    of_aurc = aurc.linearised()
    assert of_aurc is not None
    assert of_aurc.influence.sum() == pytest.approx(0, abs=1e-12)
    assert (of_aurc.rows > 0).tolist() == [True] * 7 + [False]


@pytest.mark.parametrize("decimals", [1, 6])
def test_influence_on_aurc_against_the_jackknife(decimals: int) -> None:
    rng = np.random.default_rng(5)
    confidence = rng.random(300).round(decimals)
    correct = rng.random(300) < confidence
    without = [
        metrics.aurc(np.delete(confidence, left_out), np.delete(correct, left_out))
        for left_out in range(300)
    ]
    jackknife = (np.mean(without) - np.array(without)) * 299 / 300
    influence = metrics.aurc_influence(confidence, correct)
    assert np.abs(influence - jackknife).max() < 0.01 * np.abs(jackknife).max()


def test_differences_and_means_add_up_their_influence() -> None:
    rng = np.random.default_rng(6)
    runs = rng.random((4, 24))
    cluster = np.arange(12).repeat(2)
    drawn = resample(
        {str(at): mean_statistic(values, cluster, 12) for at, values in enumerate(runs)},
        n_clusters=12,
        n=24,
        rng=rng,
        resamples=5,
    )
    both = type(drawn["0"]).mean([drawn["0"] - drawn["1"], drawn["2"] - drawn["3"]])
    lead = (runs[0] - runs[1] + runs[2] - runs[3]) / 2
    linearised, rows = both.linearised(), both.rows()
    assert linearised is not None
    assert rows is not None
    by_cluster = lead.reshape(12, 2).sum(axis=1)
    assert linearised.influence == pytest.approx((by_cluster - 2 * lead.mean()) / 24)
    assert rows[0] == pytest.approx(lead)


@pytest.mark.parametrize("values", [[0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.3], [0.0] * 5])
def test_clusters_that_agree_have_no_interval(values: list[float]) -> None:
    statistic = of_values(np.array(values))
    estimate = statistic.estimate()
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)
    assert_says(estimate.reason, "all families agree", "not mean certainty", "no interval")
    assert math.isnan(statistic.p_value())
    assert of_values(np.array(values[:1])).estimate().reason == "one family: no interval"


def test_statistics_without_a_finite_influence() -> None:
    infinite = mean_statistic([1.0, math.inf], [0, 1], 2)
    assert isinstance(infinite, TotalsStatistic)
    assert infinite.linearised() is None
    drawn = resample(
        {"other": lambda weights: weights[:, 0]},
        n_clusters=2,
        n=2,
        rng=np.random.default_rng(0),
        resamples=9,
    )
    assert drawn["other"].linearised() is None
    assert drawn["other"].rows() is None


@pytest.mark.slow
@pytest.mark.parametrize("families", [8, 12])
def test_coverage_of_a_skewed_mean(families: int) -> None:
    """Exponential families: Student's t covers 89 to 91%, the corrected interval 93%."""
    rng, tries = np.random.default_rng(7), 2_000
    truth = 1.0
    covered = {"corrected": 0, "t": 0}
    for values in rng.exponential(size=(tries, families)):
        low, high = stats.t.interval(0.95, families - 1, values.mean(), stats.sem(values))
        estimate = of_values(values).estimate()
        covered["t"] += low <= truth <= high
        covered["corrected"] += estimate.low <= truth <= estimate.high
    assert covered["corrected"] > 0.92 * tries
    assert covered["corrected"] > covered["t"] + 0.02 * tries
