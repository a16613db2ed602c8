from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from calibration.simulated import constant, simulate, unsure
from interval_oracles import outer_interval
from messages import assert_says
from scipy import special

from pact_eval._choices import Decoding, Mode
from pact_eval._json import Json
from pact_eval.calibration.effect import calibration_effect, calibration_notes
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    neutral_calibrator,
)
from pact_eval.errors import InputError
from pact_eval.evaluation.calibration_error import calibration_error


def hot(temperature: float) -> Calibrator:
    return Calibrator("scalar", Weights((inverse_softplus(temperature), 0.0, 0.0)))


def test_scores_against_direct_computation() -> None:
    items = simulate(400, np.random.default_rng(1), constant(2.0))
    effect = calibration_effect(items, hot(2.0))
    for group in effect.groups:
        rows = np.full(400, True) if group.name == "all" else items.kind == group.name
        reference = items.reference[rows]
        for scores, temperature in ((group.before, 1.0), (group.after, 2.0)):
            p = special.softmax(items.log_probs[rows] / temperature, axis=1)
            onehot = np.eye(6)[reference]
            top, right = p.max(axis=1), p.argmax(axis=1) == reference
            bins = np.minimum((15 * top).astype(int), 14)
            gaps = [abs((right[bins == b] - top[bins == b]).sum()) for b in range(15)]
            assert scores.nll_nats == pytest.approx(-np.log((p * onehot).sum(axis=1)).mean())
            assert scores.brier == pytest.approx(((p - onehot) ** 2).sum(axis=1).mean())
            assert scores.ece == pytest.approx(sum(gaps) / len(reference))
            assert scores.accuracy == right.mean()
            risk = (~right[np.argsort(-top)]).cumsum() / np.arange(1, len(right) + 1)
            assert scores.aurc == pytest.approx(risk.mean())
    assert [group.name for group in effect.groups] == ["all", "choice", "boolean", "score"]
    assert sum(group.items for group in effect.groups[1:]) == effect.groups[0].items == 400
    assert effect.groups[0].families == 200
    assert effect.decoding == "single"


def test_the_noise_floor_is_that_of_a_report() -> None:
    items = simulate(400, np.random.default_rng(4), constant(2.0))
    group = calibration_effect(items, hot(2.0)).groups[0]
    _, family = np.unique(items.family, return_inverse=True)
    for scores, temperature in ((group.before, 1.0), (group.after, 2.0)):
        p = special.softmax(items.log_probs / temperature, axis=1)
        right = p.argmax(axis=1) == items.reference
        rng = np.random.default_rng(5)
        reported = calibration_error(p.max(axis=1), right, family, 200, rng=rng)
        assert scores.ece == pytest.approx(reported.value)
        # 1,000 and 2,000 draws with a deviation of about a quarter of their mean.
        assert scores.ece_floor == pytest.approx(reported.floor, rel=0.04)


def test_a_temperature_that_is_shown_to_harm_is_flagged_and_said() -> None:
    effect = calibration_effect(unsure(0.75, right=300, wrong=100), hot(3.0))
    assert effect.groups[0].worse == ("nll_nats", "brier")
    assert_says(str(effect.warnings[0]), "all items got worse", "0.5623 to 0.6183", "[0.")
    assert len(effect.warnings) == 4


def test_a_neutral_calibrator_changes_nothing_to_the_last_digit() -> None:
    effect = calibration_effect(
        simulate(90, np.random.default_rng(3), constant(2.0)), neutral_calibrator("contextual")
    )
    assert all(group.before == group.after for group in effect.groups)
    assert effect.warnings == ()
    assert effect.notes[0].kind == "NeutralTemperatures"


def test_unknown_lengths_are_refused_where_they_matter() -> None:
    items = replace(unsure(0.9, right=3, wrong=1), prompt_tokens=np.full(4, np.nan))
    slope = Calibrator("contextual", Weights((0.5, 0.5, 0.5), 0.0, 0.3))
    with pytest.raises(InputError, match="unknown .*row 0 and 3 more"):
        calibration_effect(items, slope)
    assert calibration_effect(items, hot(2.0)).groups[0].items == 4


def test_infinite_nll_is_neither_better_nor_worse() -> None:
    items = unsure(0.9, right=2, wrong=1)
    rows = items.log_probs.copy()
    rows[2] = [0.0, -np.inf]
    effect = calibration_effect(replace(items, log_probs=rows), hot(1.5))
    assert effect.groups[0].before.nll_nats == effect.groups[0].after.nll_nats == np.inf
    assert "nll_nats" not in effect.groups[0].worse


@pytest.mark.parametrize(("right", "wrong"), [(200, 4), (4, 200)])
def test_a_change_of_few_errors_has_no_interval_by_the_rule_of_reports(
    right: int, wrong: int
) -> None:
    effect = calibration_effect(unsure(0.75, right=right, wrong=wrong), hot(3.0))
    of_what = "an error" if wrong == 4 else "a right answer"
    for name, change in effect.groups[0].changes.items():
        assert change.value != 0
        assert np.isnan([change.low, change.high, effect.groups[0].p_values[name]]).all()
        assert change.reason == f"4 families with {of_what}, fewer than 5: no interval"
    assert effect.warnings == ()
    enough = calibration_effect(unsure(0.75, right=200, wrong=5), hot(3.0))
    assert np.isfinite(enough.groups[0].changes["nll_nats"].low)


def test_harm_is_adjusted_for_every_group_and_score_by_holm() -> None:
    """P-values near 0.015: with two tests they are shown, with six they are not."""
    one_kind = unsure(0.75, right=60, wrong=10)
    effect = calibration_effect(one_kind, hot(1.5))
    assert min(effect.groups[0].p_values.values()) > 0.05 / 6
    assert 0.05 / 4 < max(effect.groups[0].p_values.values()) < 0.05 / 2
    # A single kind is all items once more: it needs no test of its own and shares the answer.
    assert [group.worse for group in effect.groups] == [("nll_nats", "brier")] * 2
    two_kinds = replace(one_kind, kind=np.array(["boolean", "choice"] * 35))
    groups = calibration_effect(two_kinds, hot(1.5)).groups
    assert groups[0].changes == effect.groups[0].changes
    assert [group.worse for group in groups] == [()] * 3


def test_a_warning_holds_the_numbers_of_its_group() -> None:
    effect = calibration_effect(unsure(0.75, right=60, wrong=10), hot(1.5))
    group = effect.groups[1]
    change = group.changes["brier"]
    assert effect.warnings[3].numbers == {
        "group": "boolean",
        "score": "brier",
        "before": group.before.brier,
        "after": group.after.brier,
        "low": change.low,
        "high": change.high,
    }
    assert change.value == pytest.approx(group.after.brier - group.before.brier)


def test_families_of_which_few_are_known_count_once_each() -> None:
    """Items of unknown family are families of their own, beside the named ones."""
    items = unsure(0.75, right=6, wrong=6)
    names = np.array(["f1", "f1", "", "", "f2", "", "", "", "", "f1", "f2", ""])
    effect = calibration_effect(replace(items, family=names), hot(2.0))
    distinct = np.array(["f1", "f1", *"uv", "f2", *"wxyz", "f1", "f2", "z1"])
    assert effect == calibration_effect(replace(items, family=distinct), hot(2.0))
    assert effect.groups[0].families == 9


def notes(
    mode: Mode, fit: dict[str, Json] | None, decoding: Decoding | None = "single"
) -> list[tuple[str, Any]]:
    """Return the notes on three items of 2, 3 and 6 answers and of 200, 900 and unknown tokens."""
    items = CalibrationItems(
        np.log(np.full((3, 6), 1 / 6)),
        np.zeros(3, np.int64),
        np.array(["choice", "choice", "score"]),
        np.array([2, 3, 6]),
        np.array([200.0, 900.0, np.nan]),
        np.array(["", "", ""]),
        np.array(["", "", ""]),
    )
    calibrator = Calibrator(mode, Weights((1.0, 1.0, 1.0)), fit)
    return [(note.kind, note.numbers) for note in calibration_notes(calibrator, items, decoding)]


def outside_fit(quantity: str, outside: int, low: float, high: float) -> list[tuple[str, Any]]:
    numbers = {"quantity": quantity, "outside": outside, "items": 3, "low": low, "high": high}
    return [("OutsideFit", numbers)] if outside else []


@pytest.mark.parametrize(
    ("answers", "outside"), [((2, 6), 0), ((3, 6), 1), ((2, 5), 1), ((3, 5), 2), ((7, 9), 3)]
)
def test_answers_at_the_ends_of_the_fit_are_inside(answers: tuple[int, int], outside: int) -> None:
    seen: dict[str, Json] = {"n_choices": [*answers]}
    assert notes("contextual", seen) == outside_fit("answers", outside, *answers)
    assert notes("scalar", seen) == []


@pytest.mark.parametrize(
    ("tokens", "outside"), [((200, 900), 0), ((200.5, 900), 1), ((200, 899.5), 1), ((1, 2), 2)]
)
def test_unknown_lengths_are_not_outside(tokens: tuple[float, float], outside: int) -> None:
    seen: dict[str, Json] = {"prompt_tokens": [*tokens]}
    assert notes("contextual", seen) == outside_fit("prompt tokens", outside, *tokens)


@pytest.mark.parametrize("fit", [None, {}, {"n_choices": None}, {"n_choices": [9]}, {"kinds": 3}])
def test_a_file_that_records_no_range_gives_no_note(fit: dict[str, Json] | None) -> None:
    modes: tuple[Mode, ...] = ("scalar", "per-kind", "contextual")
    assert [notes(mode, fit) for mode in modes] == [[]] * 3


def test_only_temperatures_by_kind_can_lack_a_kind() -> None:
    counts: dict[str, Json] = {"kinds": {"choice": 3, "boolean": 2, "score": 0}}
    unseen = [("UnseenKind", {"field_kind": kind}) for kind in ("choice", "score")]
    assert notes("per-kind", counts) == unseen[1:]
    assert notes("per-kind", {"kinds": {}}) == unseen
    assert notes("scalar", counts) == notes("contextual", counts) == []


@pytest.mark.parametrize(
    ("fitted", "applied", "differs"),
    [
        ("single", "single", False),
        ("single", "ensemble", True),
        ("single", None, False),
        ("", "single", False),
        (None, "single", False),
        (7, "single", False),
    ],
)
def test_decodings_differ_only_if_both_are_known(
    fitted: Json, applied: Decoding | None, differs: bool
) -> None:
    different = ("DifferentDecoding", {"fitted": "single", "applied": "ensemble"})
    assert notes("scalar", {"decoding": fitted}, applied) == [different] * differs


def test_scores_are_in_the_order_of_their_definition() -> None:
    """Two items at 80%, one right: by hand."""
    group = calibration_effect(unsure(0.8, right=1, wrong=1), neutral_calibrator()).groups[0]
    scores = dataclasses.asdict(group.before)
    assert scores.pop("ece_floor") > 0
    assert scores == pytest.approx(
        {
            "nll_nats": -np.log(0.16) / 2,
            "brier": (0.08 + 1.28) / 2,
            "ece": 0.3,
            # Both are equally sure: the expected error of either order is 1/2 at both depths.
            "aurc": 0.5,
            "accuracy": 0.5,
        }
    )


def test_the_interval_of_a_change_is_the_outer_one_of_student_and_hall() -> None:
    """Families of two items each: the mean of items is the mean of family means."""
    items = simulate(80, np.random.default_rng(6), constant(2.0))
    group = calibration_effect(items, hot(2.0)).groups[0]
    rows = np.arange(80)
    p, q = (special.softmax(items.log_probs / t, axis=1) for t in (1.0, 2.0))
    onehot = np.eye(6)[items.reference]
    changes = {
        "nll_nats": np.log(p[rows, items.reference]) - np.log(q[rows, items.reference]),
        "brier": ((q - onehot) ** 2).sum(axis=1) - ((p - onehot) ** 2).sum(axis=1),
    }
    for name, change in group.changes.items():
        expected = outer_interval(changes[name].reshape(40, 2).mean(axis=1))
        assert [change.low, change.high] == pytest.approx(expected, rel=1e-6)
        assert (change.n, change.clusters) == (80, 40)
        assert (group.p_values[name] < 0.05) == (not change.low <= 0 <= change.high)


def test_no_items() -> None:
    items = unsure(0.9, right=1, wrong=0).take(np.array([False]))
    group = calibration_effect(items, hot(2.0)).groups[0]
    assert group.items == 0
    assert np.isnan([group.before.nll_nats, group.after.ece, group.temperature.mean]).all()
    assert group.worse == ()
