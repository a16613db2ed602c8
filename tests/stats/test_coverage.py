"""Coverage of printed intervals, at reduced size; `tests/stats/coverage.py` has the full size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from stats.coverage import METRICS, Setting, coverage

DRAWS = 40


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [Setting(32, (2,), 10), Setting(162, (1, 2, 2, 3, 8), 30)],
    ids=["few families", "families of unequal size"],
)
def test_printed_intervals_cover(setting: Setting) -> None:
    """At least the count that a coverage of 93% falls below once in 10,000 tables."""
    coverages = coverage(setting, DRAWS, np.random.default_rng(1))
    for name, counts in coverages.items():
        assert counts.printed > DRAWS / 2, name
        assert counts.held >= stats.binom.ppf(1e-4 / len(coverages), counts.printed, 0.93), name


@pytest.mark.slow
def test_losses_of_one_expected_error_have_no_interval() -> None:
    coverages = coverage(Setting(32, (2,), 1), DRAWS, np.random.default_rng(2))
    assert coverages["accuracy"].printed == DRAWS
    assert coverages["accuracy"].held >= stats.binom.ppf(1e-4, DRAWS, 0.93)
    for name in METRICS[1:]:
        assert coverages[name].printed <= stats.binom.isf(1e-4, DRAWS, 0.02), name
