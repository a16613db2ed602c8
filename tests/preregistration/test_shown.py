"""Shown or by value only: the rule of each relation, of a conjunction, and of a refutation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from messages import assert_says
from preregistration.checks import BASE, MadeUp, row
from preregistration.checks import judged as judged_checks

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.arm_metrics import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.registry import ENSEMBLE, ENSEMBLE_CALIBRATED, SINGLE
from pact_eval.preregistration.criteria import Check, Hypotheses, Hypothesis, Instead, Relation
from pact_eval.preregistration.run_scorecard import holds, judge
from pact_eval.preregistration.scorecard import HypothesisResult, ShownBy, by_interval
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate

NONE, TWO = Margin(0.0, "points"), Margin(2.0, "points")


def interval(low: float, high: float, reason: str | None = None) -> Estimate:
    return Estimate(
        (low + high) / 2, low, high, 324, 162, None, None if reason is None else ClusterText(reason)
    )


def judged(relation: Relation, margin: Margin, low: float, high: float) -> ShownBy:
    """The evidence of the interval's middle value."""
    estimate = interval(low, high)
    held = holds(relation, margin, estimate.value)
    return by_interval(relation, margin, estimate, holds=held)


@pytest.mark.parametrize(
    ("relation", "margin", "low", "high", "shown"),
    [
        # By hand, margin 2 points: "higher" holds from 0.02 on, "not lower" from -0.02 on.
        ("higher", TWO, 0.021, 0.05, True),
        ("higher", TWO, 0.019, 0.05, False),
        ("higher", TWO, -0.05, 0.019, True),  # the failure is shown
        ("higher", TWO, -0.05, 0.021, False),
        ("lower", TWO, -0.05, -0.021, True),
        ("lower", TWO, -0.05, -0.019, False),
        ("lower", TWO, -0.019, 0.05, True),
        ("not higher", TWO, -0.05, 0.019, True),
        ("not higher", TWO, -0.05, 0.021, False),
        ("not higher", TWO, 0.021, 0.05, True),
        ("not lower", TWO, -0.019, 0.05, True),
        ("not lower", TWO, -0.021, 0.05, False),
        ("not lower", TWO, -0.05, -0.021, True),
        ("similar", TWO, -0.019, 0.019, True),
        ("similar", TWO, -0.021, 0.019, False),
        ("similar", TWO, -0.019, 0.021, False),
        ("similar", TWO, 0.021, 0.05, True),
        ("similar", TWO, -0.05, -0.021, True),
        ("similar", TWO, 0.019, 0.05, False),
        ("higher", NONE, 0.001, 0.01, True),
        ("higher", NONE, -0.001, 0.01, False),
        ("lower", NONE, -0.01, -0.001, True),
        # A percentile interval of a rare difference ends at 0: an end that touches shows nothing.
        ("higher", NONE, 0.0, 0.01, False),
        ("not higher", NONE, -0.01, 0.0, False),
        ("not lower", NONE, 0.0, 0.01, False),
        ("similar", NONE, -0.01, 0.01, False),
        ("similar", NONE, 0.001, 0.01, True),
        # An infinite end lies on its side.
        ("higher", NONE, 0.001, math.inf, True),
        ("lower", NONE, -math.inf, -0.001, True),
    ],
)
def test_relations_by_hand(
    relation: Relation, margin: Margin, low: float, high: float, shown: bool
) -> None:
    assert judged(relation, margin, low, high).shown is shown


def test_similar_without_margin_is_never_shown_to_hold() -> None:
    for width in (0.0, 1e-9, 0.1):
        evidence = by_interval("similar", NONE, interval(-width, width), holds=True)
        assert not evidence.shown


def test_no_interval_and_no_width_show_nothing() -> None:
    assert by_interval("higher", NONE, None, holds=True).reason == "no interval"
    unknown = interval(math.nan, math.nan, "one family: no interval")
    assert by_interval("higher", NONE, unknown, holds=True).reason == "one family: no interval"
    point = by_interval("similar", TWO, interval(0.0, 0.0), holds=True)
    assert not point.shown
    assert_says(point.reason, "width 0", "shows nothing")


# One metric for each check; the arms differ by the given number of points at each seed.
METRICS = ("accuracy", "pair_accuracy", "ece")


def claim(differences: Sequence[Mapping[int, float]]) -> list[Check]:
    return [
        replace(BASE, says=metric, metric=metric, seeds=tuple(points_of_seed))
        for metric, points_of_seed in zip(METRICS, differences, strict=False)
    ]


def result_of(*differences: Mapping[int, float]) -> HypothesisResult:
    """Judge "a is higher than b" in every metric; NaN leaves the run out."""
    rows = [
        row(arm, 0.5 + (points if arm == "a" else 0), seed=seed, metric=metric)
        for metric, points_of_seed in zip(METRICS, differences, strict=False)
        for seed, points in points_of_seed.items()
        for arm in ("a", "b")
        if not math.isnan(points)
    ]
    return judged_checks(*claim(differences), rows=rows, half=0.02)


SHOWN, VALUE, FAILS, REFUTES, LACKS = 0.1, 0.01, -0.01, -0.3, math.nan


@pytest.mark.parametrize("points", list(product((SHOWN, VALUE, FAILS, REFUTES, LACKS), repeat=3)))
def test_the_truth_table_of_three_comparisons(points: tuple[float, float, float]) -> None:
    """Half widths are 2 points, 6 for a failure among three: what is beyond them is shown."""
    result = result_of({17: points[0], 18: points[1]}, {17: points[2]})
    tested = [point for point in points if not math.isnan(point)]
    if REFUTES in points:
        evidence = "refuted"
    elif tested and set(tested) == {SHOWN}:
        evidence = "supported" if len(tested) == 3 else "tested part"
    else:
        evidence = None
    assert result.shown == evidence
    words = {
        "SUPPORTED": {"supported": "shown"},
        "PARTLY TESTED": {"tested part": "shown where tested"},
        "CONTRADICTED": {"refuted": "shown"},
    }
    if not tested:
        assert result.conclusion == "UNTESTED"
    elif evidence is None:
        assert result.conclusion == f"{result.verdict}, by value only"
    elif evidence in words.get(result.verdict, {}):
        assert result.conclusion == f"{result.verdict}, {words[result.verdict][evidence]}"
    else:
        assert result.conclusion.startswith(f"{result.verdict}, refuted as shown by ")


def test_one_failing_run_that_is_shown_refutes_a_claim_about_every_run() -> None:
    seeds = dict.fromkeys(range(1, 10), 0.05)
    result = result_of(seeds | {7: -0.35})
    assert result.verdict == "INCONCLUSIVE"
    assert result.shown == "refuted"
    assert_says(result.conclusion, "INCONCLUSIVE, refuted", "accuracy of a", "at seed 7")
    (failing,) = result.refuted_by
    assert failing.evidence is not None
    assert failing.evidence.level == pytest.approx(0.05 / 9)
    # Half of 2 x 9 points: a failure by less is not shown among nine comparisons.
    by_value = result_of(seeds | {7: -0.17})
    assert by_value.verdict == "INCONCLUSIVE"
    assert by_value.conclusion == "INCONCLUSIVE, by value only"
    assert result_of(seeds | {7: -0.35, 8: -0.4}).conclusion.endswith("at seed 7 and 1 more")


def test_checks_beside_the_verdict_are_judged_one_by_one() -> None:
    decisive, aside = claim([{17: 0.1}, {17: 0.1}])
    hypothesis = Hypothesis("H", "t", "c", (decisive,), beside=(aside,))
    rows = [
        *(row(arm, value) for arm, value in (("a", 0.9), ("b", 0.8))),
        *(row(arm, value, metric="pair_accuracy") for arm, value in (("a", 0.5), ("b", 0.53))),
    ]
    result = judge(Hypotheses((hypothesis,)), MetricTable(rows), differences=MadeUp(0.02))["H"]
    (beside,) = result.beside[0].comparisons
    assert (beside.holds, beside.shown) == (False, True)
    assert beside.evidence is not None
    assert beside.evidence.level == LEVEL
    assert result.conclusion == "SUPPORTED, shown"


def test_without_intervals_nothing_is_shown() -> None:
    result = judged_checks(*claim([{17: 0.8}]), rows=[row("a", 0.9), row("b", 0.1)])
    assert result.conclusion == "SUPPORTED, by value only"
    (comparison,) = result.comparisons
    assert comparison.evidence == ShownBy(shown=False, reason="no interval")


@pytest.mark.parametrize(
    ("metric", "certain"),
    [("accuracy", True), ("pair_accuracy", True), ("flip_rate", True), ("ece", False)],
)
def test_no_temperature_changes_the_top_answer(metric: str, certain: bool) -> None:
    check = replace(
        BASE, metric=metric, decodings=(ENSEMBLE_CALIBRATED,), relation="similar",
        than=Instead(decoding=ENSEMBLE),
    )  # fmt: skip
    after = row("a", 0.25, metric=metric, decoding=ENSEMBLE_CALIBRATED)
    rows = [row("a", 0.25, metric=metric, decoding=ENSEMBLE), after]
    assert (judged_checks(check, rows=rows, half=0.02).shown == "supported") is certain
    # A table whose numbers differ does not show that they are equal.
    differing = judged_checks(check, rows=[rows[0], replace(after, value=0.26)], half=0.02)
    assert differing.conclusion == "CONTRADICTED, by value only"


def test_tables_that_count_other_items_are_refused() -> None:
    def counted(
        arm: str, n: int, metric: str = "accuracy", source: str | None = "t.csv:2"
    ) -> MetricRow:
        return MetricRow(MetricCell(metric, arm, SINGLE, "all"), 17, 0.5, n, source=source)

    hypotheses = Hypotheses((Hypothesis("H", "t", "c", tuple(claim([{17: 0.0}] * 2))),))
    pairs = [counted("a", 162, "pair_accuracy"), counted("b", 162, "pair_accuracy")]
    judge(hypotheses, MetricTable([counted("a", 324), counted("b", 324), *pairs]))
    with pytest.raises(InputError) as caught:
        judge(
            hypotheses,
            MetricTable([counted("a", 324), counted("b", 100, source="u.csv:9"), *pairs]),
        )
    place, other = "t.csv:2: accuracy of a seed 17", "u.csv:9: accuracy of b seed 17"
    assert_says(caught.value, place, "n = 324", other, "n = 100", "the same items")
    with pytest.raises(InputError, match=r"n = 324, .* b seed 17 \(all\) is of n = 9"):
        judge(hypotheses, MetricTable([counted("a", 324), counted("b", 9, source=None)]))


def test_ensembles_of_different_k_lack_data() -> None:
    check = replace(BASE, metric="flip_rate", decodings=(ENSEMBLE,))
    rows = [
        row(arm, 0.1, metric="flip_rate", decoding=ENSEMBLE, k=k) for arm, k in (("a", 4), ("b", 2))
    ]
    result = judged_checks(check, rows=rows)
    assert result.verdict == "UNTESTED"
    assert result.checks[0].reasons == ("K differs: 4 and 2; score with the same --k",)
