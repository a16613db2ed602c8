"""The precedence of verdicts: every cell of the table, and tables of numbers that reach them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from preregistration.checks import BASE, judged, row

from pact_eval.preregistration.scorecard import (
    Outcome,
    Verdict,
    outcomes_of,
    verdict_on,
)

VERDICTS: dict[frozenset[Outcome], Verdict] = {
    frozenset({"holds"}): "SUPPORTED",
    frozenset({"holds", "fails"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "lacks"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "mixed"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "mixed", "lacks"}): "PARTLY SUPPORTED",
    frozenset({"mixed"}): "INCONCLUSIVE",
    frozenset({"holds", "mixed"}): "INCONCLUSIVE",
    frozenset({"fails", "mixed"}): "INCONCLUSIVE",
    frozenset({"mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"holds", "mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"fails", "mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"fails"}): "CONTRADICTED",
    frozenset({"fails", "lacks"}): "CONTRADICTED",
    frozenset({"holds", "lacks"}): "PARTLY TESTED",
    frozenset({"lacks"}): "UNTESTED",
}
"""The table in the module's documentation."""

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


@pytest.mark.parametrize("shown", VERDICTS, ids=lambda shown: "+".join(sorted(shown)))
def test_every_cell_of_the_table_from_numbers(shown: frozenset[Outcome]) -> None:
    assert len(VERDICTS) == 2 ** len(METRIC_OF) - 1  # every cell
    assert verdict_on([shown]) == VERDICTS[shown]
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
