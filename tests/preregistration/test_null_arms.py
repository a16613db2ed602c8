"""Arms that do not differ: verdicts by value are coin tosses, and almost nothing is shown."""

from __future__ import annotations

import pytest
from null_arms import null_hypotheses, null_scorecard
from scipy import stats

SETS = 24


@pytest.mark.slow
def test_chance_shows_at_most_five_percent_of_verdicts() -> None:
    hypotheses = null_hypotheses("H1", "H2", "H4")
    results = [
        result
        for seed in range(SETS)
        for result in null_scorecard(seed, hypotheses, resamples=500).results
    ]
    decided = sum(hypothesis.verdict in ("SUPPORTED", "CONTRADICTED") for hypothesis in results)
    shown = sum(hypothesis.shown is not None for hypothesis in results)
    assert decided > 0.3 * len(results)
    assert shown <= stats.binom.ppf(0.99, len(results), 0.05)
