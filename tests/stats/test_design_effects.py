"""Families of unequal size: design effects, coverage and false equivalence with known truth."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pact_eval.stats.clusters import concentration, pooled_design_effect, pooled_variance
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.letter_preference import slot_preferences
from pact_eval.stats.linearised import linear_inference, linearised_ratio
from pact_eval.stats.power import equivalence_verdict
from pact_eval.stats.rate_differences import GroupedOutcomes, mix_shift, paired_rates
from pact_eval.stats.rates import effective_rows, rate_estimate

TEN_AND_ONE = np.array([10] * 16 + [1] * 146)
LISTED = np.resize([1, 2, 2, 3, 8], 162)


def test_the_design_effect_against_hand_computation() -> None:
    """Clusters {0}, {2} and {0, 0, 1, 1}: sum n_f^2 / n = 3."""
    rows = np.array([1.0, 1.0, 4.0])
    sums = np.array([0.0, 2.0, 2.0])
    squares = np.array([0.0, 4.0, 2.0])
    between = (4 * (0.5 - 2 / 3) ** 2 + (0 - 2 / 3) ** 2 + (2 - 2 / 3) ** 2) / 2
    within = (2 - 4 / 4) / 3
    n_0 = (6 - 18 / 6) / 2
    icc = (between - within) / (between + (n_0 - 1) * within)
    assert pooled_design_effect(sums, squares, rows) == pytest.approx(1 + 2 * icc, abs=1e-12)


def test_the_intraclass_correlation_against_a_regression_of_mean_squares() -> None:
    """The mean squares of scipy's F test of one factor."""
    rng = np.random.default_rng(5)
    rows = np.array([1, 2, 2, 3, 8, 5, 1, 4])
    cluster = np.repeat(np.arange(rows.size), rows)
    values = rng.normal(size=cluster.size) + rng.normal(size=rows.size)[cluster]
    f = stats.f_oneway(*(values[cluster == code] for code in range(rows.size))).statistic
    n_0 = (rows.sum() - (rows**2).sum() / rows.sum()) / (rows.size - 1)
    effect = 1 + ((rows**2).sum() / rows.sum() - 1) * max(0.0, (f - 1) / (f + n_0 - 1))
    sums, squares = (np.bincount(cluster, weights).astype(float) for weights in (values, values**2))
    assert pooled_design_effect(sums, squares, rows.astype(float)) == pytest.approx(effect)
    variance = values.size * values.var(ddof=1) * effect
    assert pooled_variance(values, cluster, rows.size) == pytest.approx(variance)


@given(st.integers(1, 6), st.lists(st.integers(0, 6), min_size=2, max_size=30))
def test_families_of_one_size_keep_their_intervals(size: int, right: list[int]) -> None:
    """Their variance is that of residuals, to the last bit."""
    positive = np.minimum(right, size).astype(float)
    rows = np.full(positive.size, float(size))
    assert pooled_design_effect(positive, positive, rows) == 1.0
    values = np.concatenate([np.arange(size) < count for count in positive]).astype(float)
    cluster = np.repeat(np.arange(positive.size), size)
    by_row = linearised_ratio(values, np.ones(values.size), cluster, positive.size)
    by_cluster = linearised_ratio(positive, rows)
    for outer in (False, True):
        assert linear_inference(0.5, by_row, n=values.size, outer=outer) == linear_inference(
            0.5, by_cluster, n=values.size, outer=outer
        )


def test_a_large_family_without_an_error_is_worth_few_rows() -> None:
    """Members of the small families agree, so those of the large one may."""
    rows = np.array([40.0] + [2.0] * 30)
    right = np.where(np.arange(31) % 6 == 5, 0.0, rows)
    assert right[0] == 40
    of_squares = float((rows**2).sum() / rows.sum())
    assert effective_rows(right, rows) == pytest.approx(rows.sum() / of_squares)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([30] + [2] * 35, "1 family has 30% of the items"),
        ([9, 9, 9] + [1] * 73, "3 families have 27% of the items"),
        ([25] + [1] * 75, "2 families have 26% of the items"),
        (list(LISTED), None),
        ([2] * 12, None),
        ([3, 1, 1, 1], None),
        ([], None),
    ],
)
def test_few_families_with_a_quarter_of_the_rows_by_hand(
    rows: list[int], expected: str | None
) -> None:
    assert concentration(np.array(rows, dtype=float)) == expected


def test_no_equivalence_rests_on_few_families() -> None:
    text = ClusterText("1 {cluster} has 30% of the items")
    inside = Estimate(0.0, -0.01, 0.01, 100, 36, concentration=text)
    verdict = equivalence_verdict(inside, 0.02)
    assert (verdict.conclusion, verdict.reason) == ("inconclusive", text)
    assert "1 group has 30%" in verdict.sentence
    lead = np.zeros(2_000)
    family = np.concatenate([np.zeros(1_000, dtype=np.int64), np.arange(1, 1_001)])
    assert equivalence_verdict(paired_rates(lead, family, 1_001).estimate(), 0.5).conclusion == (
        "inconclusive"
    )
    assert equivalence_verdict(Estimate(0.05, 0.01, 0.3, 9, 9, concentration=text), 0.1).direction


@pytest.mark.parametrize(
    ("rows", "before", "draws"),
    [(TEN_AND_ONE, 0.75, 200), pytest.param(LISTED, 0.92, 1_000, marks=pytest.mark.slow)],
)
def test_the_interval_of_accuracy_covers_with_families_of_ten_and_one(
    rows: npt.NDArray[np.int64], before: float, draws: int
) -> None:
    """95% right, members copies. Residuals alone gave the second number (1,000 draws)."""
    rng, held, rate = np.random.default_rng(3), 0, 0.95
    for _ in range(draws):
        estimate = rate_estimate(rows * (rng.random(rows.size) < rate), rows)
        held += estimate.low <= rate <= estimate.high
    assert stats.binom.ppf(1e-4, draws, 0.95) <= held
    assert held > stats.binom.isf(1e-4, draws, before)


def test_the_interval_of_a_loss_covers_with_families_of_ten_and_one() -> None:
    """Losses of 0.05 if right and of 3 if wrong, 90% right, members copies; 82% before."""
    rng, draws, held = np.random.default_rng(4), 300, 0
    rows, cluster = TEN_AND_ONE, np.repeat(np.arange(TEN_AND_ONE.size), TEN_AND_ONE)
    for _ in range(draws):
        losses = np.where(rng.random(rows.size) < 0.9, 0.05, 3.0)[cluster]
        linear = linearised_ratio(losses, np.ones(losses.size), cluster, rows.size)
        estimate = linear_inference(float(losses.mean()), linear, n=losses.size).estimate()
        held += estimate.low <= 0.345 <= estimate.high
    assert held >= stats.binom.ppf(1e-4, draws, 0.95)


@pytest.mark.parametrize("rows", [TEN_AND_ONE, LISTED])
def test_false_equivalence_with_families_of_ten_and_one(rows: npt.NDArray[np.int64]) -> None:
    """The true change is the margin of 4 points, members copies; 28% before in tens and ones."""
    rng, draws, claims, covered = np.random.default_rng(6), 200, 0, 0
    cluster = np.repeat(np.arange(rows.size), rows)
    for _ in range(draws):
        lead = (rng.random(rows.size) < 0.04).astype(float)[cluster]
        estimate = paired_rates(lead, cluster, rows.size).estimate()
        claims += estimate.high < 0.04
        covered += estimate.low <= 0.04 <= estimate.high
    assert claims <= stats.binom.isf(1e-3, draws, 0.025)
    assert covered >= stats.binom.ppf(1e-3, draws, 0.95)


def test_the_effective_rows_of_fractions_by_hand() -> None:
    """Families {1, 1, 1/2, 1/2}, {0} and {1}: p = 2/3, s^2 = 7/12 - 4/9 = 5/36, deff of squares."""
    rows = np.array([4.0, 1.0, 1.0])
    sums, squares = np.array([3.0, 0.0, 1.0]), np.array([2.5, 0.0, 1.0])
    between = (4 * (3 / 4 - 2 / 3) ** 2 + (0 - 2 / 3) ** 2 + (1 - 2 / 3) ** 2) / 2
    within = (2.5 - 9 / 4) / 3
    icc = (between - within) / (between + (6 - 18 / 6) / 2 * within - within)
    assert pooled_design_effect(sums, squares, rows) == pytest.approx(1 + 2 * icc, abs=1e-12)
    pooled = 5 / 36 / (2 / 9) * (1 + 2 * icc)
    residuals = (sums - 2 / 3 * rows) * (2 / 3) / (1 - rows / 6)
    seen = 3 / 2 * float((residuals**2).sum()) / 6 / (2 / 9)
    assert pooled > seen
    assert effective_rows(sums, rows, squares) == pytest.approx(6 / pooled, rel=1e-12)
    # As counts of 0 and 1, they would seem worth more.
    assert effective_rows(sums, rows) > 6 / pooled


def test_the_interval_of_fractions_covers_with_families_of_ten_and_one() -> None:
    """Each of four views is right in 25% or 98%, by family; as counts they covered 89%."""
    rng, draws, held = np.random.default_rng(7), 400, 0
    rows, cluster = TEN_AND_ONE, np.repeat(np.arange(TEN_AND_ONE.size), TEN_AND_ONE)
    for _ in range(draws):
        rate = np.where(rng.random(rows.size) < 0.1, 0.25, 0.98)[cluster]
        shares = rng.binomial(4, rate) / 4
        sums, squares = (np.bincount(cluster, weights) for weights in (shares, shares**2))
        estimate = rate_estimate(sums, rows, squares=squares)
        held += estimate.low <= 0.1 * 0.25 + 0.9 * 0.98 <= estimate.high
    assert held >= stats.binom.ppf(1e-3, draws, 0.95)


LARGE = np.array([10] * 3 + [2] * 60)
"""Items of families: what the small ones show of their dependence, the large ones do not."""


def pooled_error(values: npt.NDArray[np.float64], cluster: npt.NDArray[np.int64]) -> float:
    """Returns the standard error of a sum of rows with mean 0, by scipy's F test of one factor."""
    rows = np.bincount(cluster)
    f = stats.f_oneway(*(values[cluster == code] for code in range(rows.size))).statistic
    n, squares = rows.sum(), (rows**2).sum()
    typical = (n - squares / n) / (rows.size - 1)
    icc = 1.0 if np.isinf(f) else (f - 1) / (f + typical - 1)
    return float(np.sqrt(n * values.var(ddof=1) * (1 + (squares / n - 1) * icc)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # scipy: rows of a family do not differ
def test_the_interval_of_a_letter_has_the_design_effect() -> None:
    """Two orders of two answers. Large families never follow a letter; 30 small ones follow each.

    An item that follows A chooses it in both views, once more than by chance, of 300 views.
    """
    follows = np.repeat([0, 1, -1], [3, 30, 30])  # by family: no letter, A, B
    cluster = np.repeat(np.arange(LARGE.size), LARGE)
    extra = follows[cluster]
    orders = np.tile([[0, 1], [1, 0]], (cluster.size, 1, 1))
    picked = np.where(extra[:, None] == 0, 0, np.where(extra[:, None] > 0, [0, 1], [1, 0]))
    letter = slot_preferences(orders, picked, cluster, rng=np.random.default_rng(0)).slots[0]
    error = pooled_error(extra / 300, cluster)
    residual = 2 / 300 * np.sqrt(60)
    assert error > 1.3 * residual
    # Degrees of copies: (sum n^2)^2 / sum n^4 = 540^2 / 30,960 = 9.4 families, less one.
    assert letter.preference.high == pytest.approx(stats.t.ppf(0.975, 8) * error, rel=1e-9)
    assert letter.preference.low == pytest.approx(-letter.preference.high, rel=1e-9)


def test_the_interval_of_a_mix_shift_has_the_design_effect() -> None:
    """Two samples of other families; half of a large one is right, and all or none of a small."""
    of_small = np.repeat([1.0, 0.0], 60)
    right = np.concatenate([np.tile([1.0, 0.0], 15), of_small])
    cluster = np.repeat(np.arange(LARGE.size), LARGE)
    group = np.zeros(right.size, dtype=np.int64)
    a = GroupedOutcomes(right, group, cluster)
    b = GroupedOutcomes(right, group, cluster + LARGE.size)
    within = mix_shift(a, b).within
    added = np.concatenate([0.5 - right, right - 0.5]) / 150
    error = pooled_error(added, np.concatenate([a.cluster, b.cluster]))
    residual = 1 / 150 * np.sqrt(120)
    assert error > 1.25 * residual
    # 300^2 / (2 * 540) = 83.3 families of one size, less one.
    assert within.high == pytest.approx(stats.t.ppf(0.975, 82) * error, rel=1e-9)
    assert within.low == pytest.approx(-within.high, rel=1e-9)
