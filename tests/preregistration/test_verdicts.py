"""The precedence of verdicts: every cell of the table, and tables of numbers that reach them."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations, product

import pytest
from preregistration.checks import BASE, judged, row

from pact_eval.preregistration.scorecard import (
    OUTCOMES,
    VERDICTS,
    Outcome,
    Verdict,
    outcomes_of,
    verdict_on,
)

SUBSETS = [
    frozenset(outcomes)
    for outcomes in chain.from_iterable(combinations(OUTCOMES, size) for size in range(1, 5))
]

# A metric each for a check that holds, fails, points both ways, lacks data, or lacks some.
METRIC_OF: dict[Outcome, str] = {
    "holds": "accuracy",
    "fails": "pair_accuracy",
    "mixed": "ece",
    "lacks": "brier",
}
VALUES = {
    ("accuracy", 17): 0.2,
    ("accuracy", 18): 0.2,
    ("pair_accuracy", 17): -0.2,
    ("pair_accuracy", 18): -0.2,
    ("ece", 17): 0.2,
    ("ece", 18): -0.2,
}


def verdict_of(*metrics: str) -> Verdict:
    rows = [
        row(arm, 0.5 + (advantage if arm == "a" else 0), seed=seed, metric=metric)
        for (metric, seed), advantage in VALUES.items()
        for arm in ("a", "b")
    ]
    checks = (replace(BASE, says=metric, metric=metric) for metric in metrics)
    return judged(*checks, rows=rows).verdict


def by_rules(shown: frozenset[Outcome]) -> Verdict:
    """The rules in the module's documentation, first match first."""
    if shown == {"lacks"}:
        return "UNTESTED"
    if {"holds", "fails"} <= shown:
        return "PARTLY SUPPORTED"
    if "mixed" in shown:
        return "INCONCLUSIVE"
    if "fails" in shown:
        return "CONTRADICTED"
    return "PARTLY TESTED" if "lacks" in shown else "SUPPORTED"


def test_the_table_has_every_cell() -> None:
    assert set(VERDICTS) == set(SUBSETS)
    assert len(VERDICTS) == 15


@pytest.mark.parametrize("shown", SUBSETS, ids=lambda shown: "+".join(sorted(shown)))
def test_every_cell_against_the_rules_and_a_table_of_numbers(shown: frozenset[Outcome]) -> None:
    assert VERDICTS[shown] == by_rules(shown)
    assert verdict_of(*(METRIC_OF[outcome] for outcome in shown)) == VERDICTS[shown]


def test_outcomes_of_all_short_lists() -> None:
    for size in range(1, 5):
        for comparisons in product((True, False, None), repeat=size):
            shown = outcomes_of(comparisons)
            assert ("lacks" in shown) == (None in comparisons)
            assert ("mixed" in shown) == ({True, False} <= {*comparisons})
            assert len(shown - {"lacks"}) == (0 if {*comparisons} == {None} else 1)
    assert outcomes_of([]) == {"lacks"}


def test_a_hypothesis_without_checks_has_no_verdict() -> None:
    with pytest.raises(ValueError, match="at least one check"):
        verdict_on([])
