"""Claims on 16 families of ten items and 146 of one, whose members share their luck.

If a rare error has not hit a large family yet, residuals of the families that were seen are far too
small. Intervals from them alone covered 74.8%, and 24.4% of changes that are as large as the margin
were called equivalent.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pact_eval.stats.equivalence import equivalence_verdict
from pact_eval.stats.proportions import rate_estimate
from pact_eval.stats.rate_differences import paired_rates

DRAWS = 400
ROWS = np.repeat([10, 1], [16, 146])
FAMILY = np.arange(ROWS.size).repeat(ROWS)

pytestmark = pytest.mark.slow


def test_the_interval_of_a_rate_covers() -> None:
    """Theory: at least the count below which a coverage of 93% falls once in 10,000 tests."""
    rng = np.random.default_rng(53)
    right = rng.random((DRAWS, ROWS.size)) < 0.95
    estimates = [rate_estimate(families * ROWS, ROWS) for families in right]
    held = sum(estimate.low <= 0.95 <= estimate.high for estimate in estimates)
    assert held >= stats.binom.ppf(1e-4, DRAWS, 0.93)


def test_a_change_as_large_as_the_margin_is_rarely_equivalent() -> None:
    """Theory: a 95% interval is inside the margin in 2.5%, and more than 6.3% of 400 are rare."""
    margin, rng = 0.05, np.random.default_rng(54)
    verdicts = [
        equivalence_verdict(
            paired_rates(-lost[FAMILY].astype(float), FAMILY, ROWS.size).estimate(), margin
        ).conclusion
        for lost in rng.random((DRAWS, ROWS.size)) < margin
    ]
    within = sum(verdict in ("equivalent", "different within the margin") for verdict in verdicts)
    assert within <= stats.binom.isf(1e-4, DRAWS, 0.025)
