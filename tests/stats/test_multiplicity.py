import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pact_eval.stats.estimate import Estimate
from pact_eval.stats.multiplicity import LEAST_CHANGE, holm, shown_increases

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_against_statsmodels() -> None:
    rng = np.random.default_rng(0)
    some, many = (rng.random(m) ** 3 for m in (2, 12))
    ties_and_ends = [0.02, 0.02, 0.5, 0.0, 1.0, 0.0, 1.0]
    for p in ([1.0], some, many, ties_and_ends):
        expected = multipletests(p, method="holm")[1]
        np.testing.assert_allclose(holm(p), expected, rtol=1e-12, atol=0)


@given(p_values)
def test_holm_against_its_definition(p: list[float]) -> None:
    """The adjusted p-value is the largest m_q q of the q up to it, with m_q p-values from q on."""
    expected = [min(1.0, max(q * sum(r >= q for r in p) for q in p if q <= own)) for own in p]
    np.testing.assert_allclose(holm(p), expected, rtol=1e-12, atol=0)


def test_holm_by_hand() -> None:
    """The seeds of the published table: 3 x 0.008, 2 x 0.035, 1 x 0.099."""
    result = holm([0.099, 0.008, 0.035])
    np.testing.assert_allclose(result, [0.099, 0.024, 0.070])
    # A later product below an earlier one is lifted to it.
    np.testing.assert_allclose(holm([0.03, 0.04]), [0.06, 0.06])


@given(p_values, st.integers(0, 5))
def test_nan_is_no_test(p: list[float], missing: int) -> None:
    places = np.random.default_rng(0).permutation(len(p) + missing)
    mixed = np.array([*p, *[np.nan] * missing])[places]
    result = holm(mixed)
    assert (np.isnan(result) == np.isnan(mixed)).all()
    np.testing.assert_array_equal(result[~np.isnan(mixed)], holm(mixed[~np.isnan(mixed)]))


@given(st.data())
def test_the_order_does_not_matter(data: st.DataObject) -> None:
    p = np.array(data.draw(p_values))
    order = data.draw(st.permutations(range(p.size)))
    np.testing.assert_array_equal(holm(p[order]), holm(p)[order])


@given(p_values)
def test_adjusted_lies_between_the_p_value_and_bonferroni(p: list[float]) -> None:
    adjusted, raw = holm(p), np.array(p)
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(1, raw * len(p))).all()
    assert adjusted.min() == min(1, raw.min() * len(p))


def test_no_tests_at_all() -> None:
    assert holm([]).shape == (0,)
    assert np.isnan(holm([np.nan])).all()


def test_bad_arguments_are_refused() -> None:
    for p in ([-0.1, 0.5], [1.1], [np.inf]):
        with pytest.raises(ValueError, match="expected numbers in"):
            holm(p)
    with pytest.raises(ValueError, match=r"p_values: .*\(m,\), got \(1, 1\)"):
        holm([[0.5]])


def test_a_change_that_no_table_shows_raises_no_alarm() -> None:
    # "Brier of all items got worse: 0.1681 to 0.1681".
    tiny, small = (
        Estimate(value, value / 2, 2 * value, 10**6, 10**5)
        for value in (LEAST_CHANGE / 2, 2 * LEAST_CHANGE)
    )
    shown = shown_increases({"tiny": tiny, "small": small}, {"tiny": 1e-9, "small": 1e-9})
    assert shown == {"small"}


@pytest.mark.parametrize(
    ("low", "p_value", "looks", "shown"),
    [
        (0.1, 0.02, 2, True),
        (0.1, 0.02, 3, False),  # 3 x 0.02 is above 5%
        (0.0, 0.02, 1, False),
        (-0.1, 0.02, 1, False),
        (0.1, math.nan, 1, False),
    ],
)
def test_an_increase_is_shown_by_its_interval_and_its_p_value(
    low: float, p_value: float, looks: int, shown: bool
) -> None:
    change = Estimate(0.3, low, 0.5, 324, 162)
    assert bool(shown_increases({"x": change}, {"x": p_value}, looks=looks)) == shown
