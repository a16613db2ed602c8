"""Statuses at their limits: better, order and probabilities, from numbers typed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from messages import assert_says
from run_frames import frame_of

from pact_eval.evaluation.calibration_error import CalibrationError, ConfidenceGap
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    BetterStatus,
    Claim,
    not_comparable,
)
from pact_eval.evaluation.conclusions.headline import (
    worst,
)
from pact_eval.evaluation.conclusions.order import (
    NoiseFloor,
    OrderConclusion,
    OrderEffect,
    OrderFinding,
    order_conclusion,
)
from pact_eval.evaluation.conclusions.probabilities import (
    CorpMiscalibration,
    ProbabilitiesConclusion,
    probabilities_conclusion,
)
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import DecodingName
from pact_eval.evaluation.resampled_groups import Evidence
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.letter_preference import GroupPreference, SlotPreference, SlotPreferences
from pact_eval.stats.power import equivalence_verdict

NAN = math.nan


def estimate(value: float, low: float = NAN, high: float = NAN, clusters: int = 200) -> Estimate:
    return Estimate(value, low, high, 400, clusters)


@pytest.mark.parametrize(
    ("difference", "marked", "margin", "status"),
    [
        (estimate(0.1, 0.05, 0.15), True, None, "better"),
        (estimate(-0.1, -0.15, -0.05), True, None, "worse"),
        (estimate(0.01, -0.02, 0.03), False, None, "not shown"),
        (estimate(0.0, -0.01, 0.01), False, 0.02, "equivalent"),
        (estimate(0.0, -0.03, 0.03), False, 0.02, "not shown"),
        (estimate(0.015, 0.011, 0.019), True, 0.02, "better"),
        (estimate(NAN), False, 0.02, "cannot be compared"),
    ],
)
def test_the_finding_on_one_difference(
    difference: Estimate, marked: bool, margin: float | None, status: str
) -> None:
    verdict = None if margin is None else equivalence_verdict(difference, margin)
    test = Evidence("interval", 0.01, marked=marked)
    assert Claim("accuracy", "single", 1, 1, difference, test, verdict).status == status


def claim(
    status: BetterStatus, metric: str = "accuracy", decoding: DecodingName = "single", k: int = 1
) -> Claim:
    lead = {"better": 0.1, "worse": -0.1}.get(status, 0.0)
    ends = estimate(lead, lead - 0.05, lead + 0.05)
    marked = status in ("better", "worse")
    verdict = equivalence_verdict(ends, 0.1) if status == "equivalent" else None
    return Claim(metric, decoding, k, 1, ends, Evidence("interval", 0.01, marked=marked), verdict)


def conclusion(*claims: Claim) -> BetterConclusion:
    return BetterConclusion(left="a", right="b", claims=claims)


@pytest.mark.parametrize(
    ("first", "second", "leading"),
    [
        ("better", "worse", 0),
        ("not shown", "worse", 1),
        ("not shown", "better", 1),
        ("not shown", "not shown", 0),
        ("equivalent", "worse", 0),
        ("worse", "not shown", 0),
    ],
)
def test_the_claim_of_the_settings_leads_unless_only_the_other_is_shown(
    first: BetterStatus, second: BetterStatus, leading: int
) -> None:
    claims = (
        claim(first),
        claim("better", metric="pair_accuracy"),
        claim(second, decoding="ensemble", k=4),
    )
    both = conclusion(*claims)
    assert both.leading is (claims[0], claims[2])[leading]
    assert both.shown == (both.leading.status in ("better", "worse"))
    assert [entry.k for entry in both.of("accuracy")] == [1, 4]
    assert [entry.k for entry in conclusion(*claims[::-1]).of("accuracy")] == [1, 4]
    assert len(both.of("pair_accuracy")) == 1


def test_the_better_one_comes_first() -> None:
    worse = conclusion(claim("worse"), claim("better", metric="pair_accuracy"))
    turned = worse.better_first
    assert (turned.left, turned.right, turned.status) == ("b", "a", "better")
    assert [entry.status for entry in turned.claims] == ["better", "worse"]
    assert turned.claims[0].difference == worse.claims[0].difference.negated
    for status in ("better", "not shown", "equivalent"):
        same = conclusion(claim(status))
        assert same.better_first is same
    none = not_comparable(("a", "b"), "item sets differ")
    assert (none.better_first, none.leading, none.shown) == (none, None, False)
    assert none.tone == "open"


FLOOR = NoiseFloor("rounding", 0.00005, precision="float32")


def effect(
    low: float, high: float, finding: OrderFinding = "shown", clusters: int = 200, **more: Any
) -> OrderEffect:
    flips = estimate((low + high) / 2, low, high, clusters)
    return OrderEffect(finding, 4, more.pop("floor", FLOOR), flips, flips, **more)


def slot(
    number: int, low: float, high: float, shown: int = 400, p_value: float = 0.001
) -> SlotPreference:
    preference = Estimate((low + high) / 2, low, high, shown, 200)
    return SlotPreference(number, shown, 0.5, 0.3, preference, 0.01, *3 * (p_value,))


def slots(
    *letters: SlotPreference, items: int = 400, last: SlotPreference | None = None
) -> SlotPreferences:
    return SlotPreferences(letters, 1600, items, 100, 9999, last)


STEADY = slots(slot(0, -0.1, 0.1))


@pytest.mark.parametrize(
    ("low", "high", "clusters", "status"),
    [
        (0.0, 0.1, 200, "stable"),
        (0.1, 0.2, 200, "cannot tell"),
        (0.1001, 0.2, 200, "unstable"),
        (0.02, 0.03, 4, "cannot tell"),
        (0.02, 0.03, 5, "stable"),
        (NAN, NAN, 200, "cannot tell"),
    ],
)
def test_the_share_that_changes_is_below_or_above_a_tenth(
    low: float, high: float, clusters: int, status: str
) -> None:
    told = order_conclusion("run", effect(low, high, clusters=clusters), STEADY)
    assert told.status == status
    assert (told.reason is None) == (status != "cannot tell")
    assert told.unchecked == ()


def test_noise_that_could_change_as_many_answers_leaves_it_open() -> None:
    for floor, status in ((0.149, "unstable"), (0.15, "cannot tell"), (NAN, "unstable")):
        told = order_conclusion("run", effect(0.15, 0.2), STEADY, flip_floor=floor)
        assert told.status == status
    assert order_conclusion("run", effect(0.01, 0.05), STEADY, flip_floor=1.0).status == "stable"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"finding": "one view"}, "in one order"),
        ({"finding": "one order"}, "in one order"),
        ({"orders_hidden": True}, "sorts the options, or"),
    ],
)
def test_why_the_order_cannot_be_told(options: dict[str, Any], reason: str) -> None:
    told = order_conclusion("run", effect(0.0, 0.05, **options), STEADY)
    assert told.status == "cannot tell"
    assert_says(told.reason, reason)


def test_repeats_say_nothing_without_orders() -> None:
    biased = slots(slot(0, 0.1, 0.2))
    repeats = order_conclusion("run", effect(0.0, 0.05), biased, repeats=True, untested=3)
    assert (repeats.status, repeats.unchecked) == ("cannot tell", ())


def test_what_was_not_measured_is_listed() -> None:
    unmeasured = NoiseFloor("not measured", NAN)
    told = order_conclusion("run", effect(0.0, 0.05, floor=unmeasured), STEADY, untested=1)
    assert [part.name for part in told.unchecked] == ["repeats", "letters"]
    assert_says(told.unchecked[0].reason, "score --probe")
    assert_says(told.unchecked[1].reason, "1 item")
    logged = replace(unmeasured, source="not in the log")
    of_log = order_conclusion("run", effect(0.0, 0.05, floor=logged), STEADY)
    assert_says(of_log.unchecked[0].reason, "the log has no repeats")
    no_letters = order_conclusion("run", effect(0.0, 0.05), slots(items=0), untested=4)
    assert (no_letters.status, no_letters.unchecked) == ("cannot tell", ())


def test_letters_that_are_chosen_come_before_those_that_are_avoided() -> None:
    letters = slots(slot(0, -0.9, -0.8), slot(1, 0.02, 0.04, 100), slot(2, 0.02, 0.04, 300))
    told = order_conclusion("run", effect(0.0, 0.05), letters)
    assert told.status == "follows a letter"
    assert [preference.slot for preference in told.followed] == [2, 1, 0]
    small = order_conclusion("run", effect(0.0, 0.05), slots(slot(1, 0.009, 0.04)))
    assert (small.status, small.followed) == ("stable", ())
    at_limit = order_conclusion("run", effect(0.0, 0.05), slots(slot(1, 0.01, 0.04)))
    assert at_limit.status == "follows a letter"
    without_interval = replace(slot(1, 0.0, 0.0), preference=estimate(0.01))
    at_limit = order_conclusion("run", effect(0.0, 0.05), slots(without_interval))
    assert at_limit.status == "follows a letter"
    avoided = order_conclusion("run", effect(0.0, 0.05), slots(slot(1, -0.04, -0.01)))
    assert avoided.status == "follows a letter"


def order(status: Any, flips: float) -> OrderConclusion:
    return OrderConclusion(
        status=status, run=f"{status} {flips}", flip_rate=estimate(flips), view_tv=estimate(flips)
    )


def test_the_worst_order_is_bad_before_open_and_by_its_changes() -> None:
    stable, unknown = order("stable", 0.4), order("cannot tell", NAN)
    some, many = order("unstable", 0.2), order("follows a letter", 0.3)
    assert worst([stable, unknown, some, many]) is many
    assert worst([stable, some, unknown]) is some
    assert worst([stable, unknown]) is unknown
    assert worst([order("cannot tell", NAN), order("cannot tell", 0.1)]).run.endswith("0.1")


def ece(p_value: float, gap: float = 0.1, of_gap: tuple[float, float, float] | None = None) -> Any:
    """Return an ECE, with a gap, its interval and its p-value."""
    low, high, p_of_gap = of_gap or (-0.2, 0.3, 0.9)
    fields = {"value": 0.05, "low": 0.0, "high": 0.1, "n": 400, "clusters": 200}
    found = ConfidenceGap(gap, low, high, 400, 200, p_value=p_of_gap)
    return CalibrationError(**fields, floor=0.02, p_value=p_value, gap=found)  # type: ignore[arg-type]


def test_the_worst_probabilities_are_bad_before_open_and_by_their_test() -> None:
    def told(status: Any, p_value: float) -> ProbabilitiesConclusion:
        return ProbabilitiesConclusion(
            status=status,
            run="run",
            ece=ece(p_value),
            confidence=0.9,
            accuracy=0.8,
            gap=ece(p_value).gap,
            corp=CorpMiscalibration(),
            adjusted_p_values={"ece": p_value, "gap": NAN, "corp": NAN},
        )

    good, open_ = told("no error shown", 0.001), told("cannot tell", NAN)
    sure, surer = told("over-confident", 0.04), told("under-confident", 0.01)
    assert worst([good, open_, sure, surer]) is surer
    assert worst([good, sure]) is sure
    assert worst([good, open_]) is open_
    assert worst([told("cannot tell", NAN), told("cannot tell", 0.5)]).ece.value


def items(*right: int, sure: float = 0.8) -> ScoredItems:
    """Return families of two items at one confidence, with so many right answers each."""
    outcomes = [number < count for count in right for number in range(2)]
    frame = frame_of(
        id=[f"i{at}" for at in range(len(outcomes))],
        family=[f"f{at // 2}" for at in range(len(outcomes))],
        reference=[0 if outcome else 1 for outcome in outcomes],
        logits=[[math.log(sure), math.log(1 - sure)]] * len(outcomes),
    )
    return ScoredItems.of(Predictions.from_frame(frame), "single")


EVEN, OVER, UNDER = (-0.2, 0.3, 0.9), (0.02, 0.2, 0.02), (-0.2, -0.02, 0.02)


@pytest.mark.parametrize(
    ("p_value", "of_gap", "p_of_corp", "status", "smallest"),
    [
        # Holm by hand: the smallest p-value times 3, the next times 2, the largest times 1.
        (0.001, EVEN, 0.5, "miscalibrated", 0.003),
        (0.001, OVER, 0.5, "over-confident", 0.003),
        (0.001, UNDER, 0.5, "under-confident", 0.003),
        (0.5, EVEN, 0.01, "miscalibrated", 0.03),
        (0.04, OVER, 0.03, "no error shown", 0.06),
        (0.5, (0.01, 0.2, 0.01), 0.5, "over-confident", 0.03),
        (0.03, EVEN, NAN, "no error shown", 0.06),
        (0.02, EVEN, NAN, "miscalibrated", 0.04),
    ],
)
def test_three_tests_are_adjusted_and_the_gap_gives_the_direction(
    p_value: float,
    of_gap: tuple[float, float, float],
    p_of_corp: float,
    status: str,
    smallest: float,
) -> None:
    scored = items(2, 1, 1, 0, 1, 1)
    gap = -0.1 if of_gap is UNDER else 0.1
    corp = CorpMiscalibration(0.01, 0.001, p_of_corp)
    told = probabilities_conclusion("run", scored, ece(p_value, gap, of_gap), corp)
    assert told.status == status
    assert told.p_value == pytest.approx(smallest)
    assert told.shown_alone == (status == "no error shown")
    assert told.only_corp == (p_value == 0.5 and p_of_corp == 0.01)
    assert told.confidence == pytest.approx(0.8)
    assert told.accuracy == pytest.approx(0.5)
    assert told.reason is None


def test_what_cannot_be_told_of_probabilities() -> None:
    corp = CorpMiscalibration(0.01, 0.001, 0.001)
    few = probabilities_conclusion("run", items(2, 1, 1, 0), ece(0.001), corp)
    assert (few.status, few.reason) == (
        "cannot tell",
        "too few: 8 items in 4 groups that belong together",
    )
    untested = probabilities_conclusion("run", items(2, 1, 1, 0, 1), estimate(0.1), replace(corp))
    assert untested.status == "miscalibrated"
    nothing = probabilities_conclusion(
        "run", items(2, 1, 1, 0, 1), estimate(0.1), CorpMiscalibration()
    )
    assert (nothing.status, nothing.reason) == ("cannot tell", "no test of calibration")
    assert math.isnan(nothing.p_value)


def test_one_family_with_half_of_the_items_is_worth_few() -> None:
    """By hand: 20 items in one family, 20 alone: 40^2 / (20^2 + 20) = 3.8."""
    frame = frame_of(
        id=[f"i{at}" for at in range(40)],
        family=["f"] * 20 + [f"f{at}" for at in range(20)],
        reference=[0] * 40,
        logits=[[0.0, 1.0]] * 40,
    )
    scored = ScoredItems.of(Predictions.from_frame(frame), "single")
    told = probabilities_conclusion("run", scored, ece(0.001), CorpMiscalibration())
    assert told.status == "cannot tell"
    assert_says(told.reason, "40 items in 21 groups", "worth 3.8 of one size")


@pytest.mark.parametrize(
    ("low", "p_value", "status"),
    [
        (0.02, 0.001, "follows a letter"),
        (0.009, 0.001, "stable"),  # below one point: a large sample shows any preference
        (0.02, 0.06, "stable"),
        (-0.01, 0.001, "stable"),  # the interval holds 0
    ],
)
def test_a_letter_needs_test_interval_and_size(low: float, p_value: float, status: str) -> None:
    letters = slots(slot(0, low, 0.08, p_value=p_value))
    assert order_conclusion("run", effect(0.01, 0.05), letters).status == status


@pytest.mark.parametrize(
    ("last", "status"), [(0.3, "follows a position"), (0.2, "follows a letter")]
)
def test_the_last_position_must_explain_more_views_than_a_letter(last: float, status: str) -> None:
    """A letter explains 0.2 * 400 = 80 views; the last position needs 1.25 times as many."""
    letters = slots(slot(3, 0.15, 0.25, 400), last=slot(-1, last - 0.05, last + 0.05, 400))
    assert order_conclusion("run", effect(0.3, 0.5), letters).status == status


def test_a_group_and_the_last_place_are_in_every_sentence() -> None:
    inside = Estimate(0.294, 0.168, 0.456, 120, 15)
    outside = Estimate(0.032, -0.008, 0.071, 208, 26)
    everything = slot(4, 0.07, 0.21, 328)
    in_group = replace(everything, group=GroupPreference(6, inside, outside))
    told = order_conclusion("run", effect(0.2, 0.4), slots(in_group))
    finding = "follows the letter E in questions of 6 answers"
    sides = "there +29.4 [+16.8, +45.6], elsewhere +3.2 [-0.8, +7.1]"
    assert_says(told.words, finding[1:], "14.0 points [7.0, 21.0] above chance", sides)
    assert told.line.startswith(f"{finding.upper()}: chosen 14.0 points [7.0, 21.0]")
    assert_says(told.line, sides)
    assert told.mark == f"{finding.upper()} (chosen 29.4 points above chance there)"
    assert told.word == "FOLLOWS E"
    of_kind = replace(in_group, group=GroupPreference("choice", inside, outside))
    kinds = order_conclusion("run", effect(0.2, 0.4), slots(of_kind))
    assert kinds.words.finding == "Follows the letter E in choice questions"
    last = order_conclusion(
        "run",
        effect(0.2, 0.4),
        slots(slot(0, -0.1, 0.1, 400), replace(everything, is_last=True)),
    )
    assert last.words.finding == "Follows E, the last place"
    assert (last.status, len(last.followed)) == ("follows a letter", 1)


def test_what_cannot_be_told_has_its_flip_rate() -> None:
    told = order_conclusion("run", effect(0.09, 0.16), slots(slot(0, -0.1, 0.1, 400)))
    assert told.status == "cannot tell"
    assert_says(told.words, "12.5% [9.0, 16.0] of answers change", "above 10%")
    assert_says(told.line, "12.5% [9.0, 16.0] of answers change; too few items")
    without = order_conclusion("run", effect(math.nan, math.nan, "one view"), slots())
    assert without.line == "not tested: each item was shown in one order"


def test_few_families_follow_nothing() -> None:
    four = replace(slot(0, 0.1, 0.3, 32), preference=Estimate(0.2, 0.1, 0.3, 32, 4))
    assert order_conclusion("run", effect(0.2, 0.4), slots(four)).followed == ()
