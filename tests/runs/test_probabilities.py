"""Recorded probabilities: what is rounded, and sums that no distribution has."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from pact_eval.runs.predictions import (
    decimals,
    mass_of_log_probabilities,
    rounding_unit,
    sent_decimals,
)


@pytest.mark.parametrize("between", [1e-46, 1e-320, 1e-10, 0.3333333333, 0.9999999999])
def test_a_value_between_two_decimals_was_not_rounded(between: float) -> None:
    values = [1.0, 0.25, between, 0.0]
    assert decimals(values) is None
    assert rounding_unit(values) == 0.0
    assert sent_decimals(pl.Series([np.log(values[:3]).tolist()])) is None


@pytest.mark.parametrize("digits", [2, 3, 4, 5, 6])
def test_rounded_values_are_found_through_their_logs(digits: int) -> None:
    rng = np.random.default_rng(digits)
    values = np.round(rng.dirichlet(np.ones(4), size=200), digits)
    with np.errstate(divide="ignore"):
        logs = pl.Series(np.log(values).tolist())
    assert decimals(values.ravel()) == sent_decimals(logs) == digits
    assert rounding_unit(values.ravel().tolist()) == pytest.approx(10.0**-digits)


def test_disjoint_tokens_have_at_most_a_probability_of_one() -> None:
    assert mass_of_log_probabilities([math.log(0.6), math.log(0.4005)]) == pytest.approx(1.0005)
    for values in ([math.log(0.7), math.log(0.4)], [0.5, -3.0]):
        with pytest.raises(ValueError, match="log-probabilities: expected"):
            mass_of_log_probabilities(values)
