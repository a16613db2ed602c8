"""The five hypotheses of the paper on the numbers that it was written from."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import assert_says

from pact_eval.evaluation.arms.arm_metrics import MetricTable
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.preregistration.criteria import read_hypotheses
from pact_eval.preregistration.run_scorecard import judge
from pact_eval.preregistration.scorecard import CheckComparison, JudgedCheck, Scorecard
from pact_fixtures.paper import HYPOTHESES


@pytest.fixture(scope="module")
def table(experiment_files: Path) -> MetricTable:
    return read_metric_table(experiment_files / "run_metrics.csv")


@pytest.fixture(scope="module")
def scorecard(table: MetricTable) -> Scorecard:
    return judge(read_hypotheses(HYPOTHESES), table)


def check(scorecard: Scorecard, hypothesis: str, says: str) -> JudgedCheck:
    result = scorecard[hypothesis]
    return next(
        result_of_check
        for result_of_check in (*result.checks, *result.beside)
        if result_of_check.check.says == says
    )


def points(comparison: CheckComparison) -> tuple[float, float, float]:
    """First quantity, second quantity and difference, in percent or points, one decimal."""
    values = (comparison.left.value, comparison.right.value, comparison.difference)
    return tuple(round(100 * value, 1) for value in values)  # type: ignore[return-value]


def test_the_five_verdicts(scorecard: Scorecard) -> None:
    assert scorecard.verdicts == {
        "H1": "INCONCLUSIVE",
        "H2": "SUPPORTED",
        "H3": "PARTLY TESTED",
        "H4": "PARTLY SUPPORTED",
        "H5": "SUPPORTED",
    }


def test_h1_single_as_predicted_and_ensemble_reversed(scorecard: Scorecard) -> None:
    single, ensemble = check(scorecard, "H1", "it falls by more than accuracy").comparisons
    assert points(single)[:2] == (-1.2, 0.3)
    assert points(ensemble)[:2] == (2.5, 1.5)
    assert (single.holds, ensemble.holds) == (True, False)
    assert single.seeds == ensemble.seeds == (17,)
    assert [row.n for row in single.left.rows] == [162]
    single, ensemble = check(scorecard, "H1", "pair accuracy falls without L_CF").comparisons
    assert (points(single)[2], points(ensemble)[2]) == (-1.2, 2.5)


def test_h5_nine_of_nine_and_the_ablation_that_rises(scorecard: Scorecard) -> None:
    ece, accuracy = scorecard["H5"].checks
    assert (ece.summary, accuracy.summary) == ("holds in 9 of 9", "holds in 9 of 9")
    assert {comparison.difference for comparison in accuracy.comparisons} == {0.0}
    ablations, aurc = scorecard["H5"].beside
    assert_says(ablations.summary, "holds in 4 of 5", "fails in 1")
    (rising,) = (comparison for comparison in ablations.comparisons if comparison.holds is False)
    assert rising.question.left.cell.arm == "no_emd"
    assert points(rising)[:2] == (8.1, 5.8)
    (means,) = aurc.comparisons
    assert (round(100 * means.right.value, 2), round(100 * means.left.value, 2)) == (3.95, 4.21)
    assert not means.holds


def test_without_single_arms_the_verdicts_lack_data(table: MetricTable) -> None:
    def without(arm: str) -> Scorecard:
        rows = (row for row in table.rows if row.cell.arm != arm)
        return judge(read_hypotheses(HYPOTHESES), MetricTable(rows))

    assert without("no_cf").verdicts["H1"] == "UNTESTED"
    assert without("ce_only").verdicts["H2"] == "UNTESTED"
    assert without("nimble_recipe").verdicts["H5"] == "PARTLY TESTED"
    of_ece = check(without("nimble_recipe"), "H5", "ECE falls under T(x)")
    assert_says(of_ece.summary, "holds in 6 of 6", "3 without data")


def test_a_dropped_seed_is_noticed(table: MetricTable) -> None:
    rows = (row for row in table.rows if (row.cell.arm, row.seed) != ("ce_only", 17))
    verdicts = judge(read_hypotheses(HYPOTHESES), MetricTable(rows)).verdicts
    assert (verdicts["H2"], verdicts["H5"]) == ("UNTESTED", "PARTLY TESTED")
