"""The rules of conclusions at their limits, against computations by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from conclusions.planted import Plan
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval.evaluation.conclusions.better import better_of_runs
from pact_eval.evaluation.conclusions.order import order_conclusion
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.order_effect import NoiseFloor, OrderEffect, OrderFinding
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.permuted_slots import GroupPreference, SlotPreference, SlotPreferences
from pact_reports.sentences.better import better_words
from pact_reports.sentences.brief import order_mark, order_text, order_word
from pact_reports.sentences.conclusions import order_words

FLOOR = NoiseFloor("rounding", 0.00005, precision="float32")


def effect(low: float, high: float, finding: OrderFinding = "shown") -> OrderEffect:
    flips = Estimate((low + high) / 2, low, high, 400, 200)
    return OrderEffect(finding, 4, FLOOR, flips, flips)


def slot(
    number: int, low: float, high: float, shown: int, p_value: float = 0.001
) -> SlotPreference:
    preference = Estimate((low + high) / 2, low, high, shown, 200)
    return SlotPreference(number, shown, 0.5, 0.3, preference, 0.01, *3 * (p_value,))


def of_slots(*slots: SlotPreference, last: SlotPreference | None = None) -> SlotPreferences:
    return SlotPreferences(slots, 1600, 400, 100, 9999, last)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.0, 0.099, "stable"),
        (0.101, 0.2, "unstable"),
        (0.05, 0.15, "cannot tell"),
    ],
)
def test_the_interval_of_the_flip_rate_decides(low: float, high: float, status: str) -> None:
    assert (
        order_conclusion("run", effect(low, high), of_slots(slot(0, -0.1, 0.1, 400))).status
        == status
    )


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
    slots = of_slots(slot(0, low, 0.08, 400, p_value))
    assert order_conclusion("run", effect(0.01, 0.05), slots).status == status


@pytest.mark.parametrize(
    ("last", "status"), [(0.3, "follows a position"), (0.2, "follows a letter")]
)
def test_the_last_position_must_explain_more_views_than_a_letter(last: float, status: str) -> None:
    """A letter explains 0.2 * 400 = 80 views; the last position needs 1.25 times as many."""
    slots = of_slots(slot(3, 0.15, 0.25, 400), last=slot(-1, last - 0.05, last + 0.05, 400))
    assert order_conclusion("run", effect(0.3, 0.5), slots).status == status


def test_hidden_orders_and_noise_are_named_first() -> None:
    slots = of_slots(slot(0, -0.1, 0.1, 400))
    hidden = replace(effect(0.0, 0.01, "identical"), orders_hidden=True)
    sorts = order_conclusion("run", hidden, slots)
    assert sorts.status == "cannot tell"
    assert "sorts the options" in str(sorts.reason)
    noisy = order_conclusion("run", effect(0.2, 0.3), slots, flip_floor=0.25)
    assert "asking again" in str(noisy.reason)
    assert order_conclusion("run", effect(0.2, 0.3), slots, flip_floor=0.1).status == "unstable"


def test_a_group_and_the_last_place_are_in_every_sentence() -> None:
    inside = Estimate(0.294, 0.168, 0.456, 120, 15)
    outside = Estimate(0.032, -0.008, 0.071, 208, 26)
    everything = slot(4, 0.07, 0.21, 328)
    in_group = replace(everything, group=GroupPreference(6, inside, outside))
    told = order_conclusion("run", effect(0.2, 0.4), of_slots(in_group), unit="source_family")
    finding = "follows the letter E in questions of 6 answers"
    sides = "there +29.4 [+16.8, +45.6] (15 source families), elsewhere +3.2 [-0.8, +7.1]"
    assert_says(order_words(told), finding[1:], "+14.0 [+7.0, +21.0] points", sides)
    assert order_text(told).startswith(f"{finding.upper()}: chosen 14.0 points [7.0, 21.0]")
    assert_says(order_text(told), sides)
    assert order_mark(told) == f"{finding.upper()} (chosen 29.4 points above chance there)"
    assert order_word(told) == "FOLLOWS E"
    of_kind = replace(in_group, group=GroupPreference("choice", inside, outside))
    kinds = order_conclusion("run", effect(0.2, 0.4), of_slots(of_kind))
    assert order_words(kinds).finding == "Follows the letter E in choice questions"
    last = order_conclusion(
        "run",
        effect(0.2, 0.4),
        of_slots(slot(0, -0.1, 0.1, 400), replace(everything, is_last=True)),
    )
    assert order_words(last).finding == "Follows E, the last place"
    assert (last.status, len(last.followed)) == ("follows a letter", 1)


def test_what_cannot_be_told_has_its_flip_rate() -> None:
    told = order_conclusion("run", effect(0.09, 0.16), of_slots(slot(0, -0.1, 0.1, 400)))
    assert told.status == "cannot tell"
    assert_says(order_words(told), "12.5 [9.0, 16.0]% of the answers change", "above 10%")
    assert_says(order_text(told), "12.5% [9.0, 16.0] of answers change; too few items")
    without = order_conclusion("run", effect(math.nan, math.nan, "one view"), of_slots())
    assert order_text(without) == "cannot tell: every item was shown in one order (K is 1)"


def test_few_families_follow_nothing() -> None:
    four = replace(slot(0, 0.1, 0.3, 32), preference=Estimate(0.2, 0.1, 0.3, 32, 4))
    assert order_conclusion("run", effect(0.2, 0.4), of_slots(four)).followed == ()


def test_the_adjustment_is_named_if_it_takes_a_mark_away(tmp_path: Path) -> None:
    """An interval without 0 that is not shown says why; with one view, it is shown."""
    folders = Plan(skill=1.8).write(tmp_path / "a", 100), Plan().write(tmp_path / "b", 200)
    (adjusted,) = Experiment.read(folders, Settings(resamples=500)).comparisons.better_runs
    claim = adjusted.claims[0]
    assert claim.difference.excludes_zero
    assert adjusted.status == "not shown"
    p_values = [claim.evidence.p_value for claim in adjusted.of("accuracy")]
    assert 0.025 < min(p_values) < 0.05
    assert claim.evidence.deciding == pytest.approx(2 * min(p_values))
    assert_says(better_words(adjusted).finding, "No accuracy difference shown (p = ", "adjusted)")
    assert "for 2 tests (Holm)" in better_words(adjusted).numbers
    assert_says(better_words(adjusted).numbers, "(view 0, not shown after adjustment, p = ")


def test_an_undefined_difference_has_a_reason(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, rows(at), arm=name) for at, name in enumerate("ab")]
    experiment = Experiment.read(runs, Settings(resamples=200))
    answer = experiment.comparisons.answer(*experiment.runs)
    reason = ClusterText("no {cluster} is left")
    nothing = Estimate(math.nan, math.nan, math.nan, 0, 0, None, reason)
    accuracy = replace(answer.chosen.accuracy, difference=nothing)
    undefined = replace(answer, chosen=replace(answer.chosen, accuracy=accuracy))
    conclusion = better_of_runs(undefined, ("a", "b"))
    assert (conclusion.status, conclusion.reason) == ("cannot be compared", "no family is left")
    assert_says(better_words(conclusion), "a and b", "cannot be compared", "no family is left")


def test_one_planted_family_is_counted_in_the_singular_and_detects_nothing(tmp_path: Path) -> None:
    one = Plan(families=1)
    runs = [one.write(tmp_path / name, seed) for seed, name in enumerate("ab", 3)]
    result = CliRunner().invoke(main, ["compare", *map(str, runs), "--resamples", "100"])
    assert result.exit_code == 0, result.output
    assert "of 2 items in 1 family" in result.output
    assert "Smallest difference" not in result.output
