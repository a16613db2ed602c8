"""A change against a margin: by hand, by theory, and by simulation with known truth."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from paired_runs import Pairs
from scipy import stats

from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.power import MarginTest, clusters_needed, margin_test
from pact_eval.stats.rate_differences import paired_rates


def normal(value: float, error: float, clusters: int = 100_000) -> MarginTest:
    """Tests a change whose estimate is normal, against a margin of 0.02."""

    reach = error * float(stats.norm.ppf(0.975))
    change = Estimate(value, value - reach, value + reach, clusters, clusters)
    return margin_test(change, 0.02)


@pytest.mark.parametrize(
    ("value", "error", "finding"),
    [
        (0.010, 0.0050, "equivalent"),  # up to 0.0198
        (0.010, 0.0052, "cannot tell"),  # up to 0.0202
        (0.033, 0.0066, "changed"),  # from 0.0201
        (-0.033, 0.0066, "changed"),
        (0.033, 0.0068, "cannot tell"),  # from 0.0197
        (0.015, 0.0010, "equivalent"),  # not 0, and within the margin
    ],
)
def test_the_finding_by_hand(value: float, error: float, finding: str) -> None:
    assert normal(value, error).finding == finding


def test_without_an_interval_nothing_is_found() -> None:
    nothing = Estimate(
        0.0, math.nan, math.nan, 4, 1, None, ClusterText("one {cluster}: no interval")
    )
    margin = margin_test(nothing, 0.02)
    assert (margin.finding, margin.needed) == ("cannot tell", None)


@pytest.mark.parametrize("change", [0.0, 0.008, 0.016, 0.05])
def test_the_clusters_needed_find_it_in_four_of_five_cases(change: float) -> None:
    error = 0.03
    here = Estimate(change, change - 1.96 * error, change + 1.96 * error, 500, 500)
    needed = clusters_needed(here, 0.02)
    assert needed is not None
    error *= math.sqrt(500 / needed)
    drawn = np.random.default_rng(1).normal(change, error, 500)
    decided = sum(normal(float(value), error).finding != "cannot tell" for value in drawn)
    assert decided / 500 == pytest.approx(0.8, abs=0.06)


def test_a_change_of_the_margin_needs_more_than_any_number() -> None:
    assert clusters_needed(Estimate(0.02, 0.01, 0.03, 500, 500), 0.02) is None


@pytest.mark.parametrize(("share", "change"), [(0.05, 0.05), (0.2, 0.05), (0.2, 0.0), (0.0, 0.0)])
def test_errors_are_at_most_five_percent(share: float, change: float) -> None:
    """At the margin, 0 and 3 are errors; without a change, 3 is; identical runs are equivalent."""
    rng, sets, families = np.random.default_rng(3), 200, 162
    findings: Counter[str] = Counter()
    for _ in range(sets):
        runs = Pairs(families, share, change, copies=0.5).draw(rng)
        lead = runs.b.astype(np.int64) - runs.a
        rates = paired_rates(lead, runs.family, families)
        findings[margin_test(rates.estimate(), 0.05).finding] += 1
    most = 0.05 * sets + 2.5 * math.sqrt(0.05 * 0.95 * sets)
    assert findings["changed"] <= most
    if change:
        assert findings["equivalent"] <= most
    if not share:
        assert findings["equivalent"] == sets
