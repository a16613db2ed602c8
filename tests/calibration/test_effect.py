from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibration.simulated import constant, contextual, simulate, unsure
from messages import assert_says
from scipy import special

from pact_eval.calibration.effect import calibration_effect
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.notes import (
    DifferentDecoding,
    NeutralTemperatures,
    OutsideFit,
    UnseenKind,
)
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    neutral_calibrator,
)
from pact_eval.errors import InputError
from pact_eval.evaluation.calibration_error import calibration_error
from pact_reports.sentences.calibration import calibration_sentence


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


def test_the_fit_and_the_effect_agree() -> None:
    items = simulate(226, np.random.default_rng(2), contextual(1.5, -0.4, -0.5))
    fit = fit_calibrator(items, mode="contextual")
    group = calibration_effect(items, fit.calibrator).groups[0]
    assert group.before.nll_nats == pytest.approx(fit.nll_before, abs=1e-12)
    assert group.after.nll_nats == pytest.approx(fit.nll_after, abs=1e-12)
    assert group.temperature == fit.temperature


def test_a_temperature_that_is_shown_to_harm_is_flagged_and_said() -> None:
    effect = calibration_effect(unsure(0.75, right=300, wrong=100), hot(3.0))
    assert effect.groups[0].worse == ("nll_nats", "brier")
    assert_says(
        calibration_sentence(effect.warnings[0]), "all items got worse", "0.5623 to 0.6183", "[0."
    )
    assert len(effect.warnings) == 4


def test_a_change_that_chance_explains_raises_no_alarm() -> None:
    """NLL, ECE and AURC of a dozen items move either way under a temperature near 1."""
    effect = calibration_effect(unsure(0.75, right=6, wrong=2), hot(1.5))
    assert effect.groups[0].after.nll_nats > effect.groups[0].before.nll_nats
    assert effect.warnings == ()


def test_the_paired_change_against_normal_theory() -> None:
    items = simulate(200, np.random.default_rng(5), constant(2.0))
    change = calibration_effect(items, hot(2.0)).groups[0].changes["nll_nats"]
    rows = np.arange(200)
    p, q = (special.log_softmax(items.log_probs / t, axis=1) for t in (1.0, 2.0))
    lost = p[rows, items.reference] - q[rows, items.reference]
    by_family = np.array([lost[items.family == name].sum() for name in np.unique(items.family)])
    spread = by_family.std(ddof=1) * np.sqrt(len(by_family)) / 200
    assert change.value == pytest.approx(lost.mean())
    # The correction for skewness moves an end by less than half of a standard error.
    assert change.low == pytest.approx(lost.mean() - 1.96 * spread, abs=0.5 * spread)
    assert change.high == pytest.approx(lost.mean() + 1.96 * spread, abs=0.5 * spread)
    assert change.high < 0  # over-confident twofold: the temperature helps


def test_a_neutral_calibrator_changes_nothing_to_the_last_digit() -> None:
    effect = calibration_effect(
        simulate(90, np.random.default_rng(3), constant(2.0)), neutral_calibrator("contextual")
    )
    assert all(group.before == group.after for group in effect.groups)
    assert effect.warnings == ()
    assert effect.notes[0] == NeutralTemperatures()


def test_use_outside_of_the_fit_is_said() -> None:
    fitted = simulate(200, np.random.default_rng(4), constant(2.0))
    narrow = fitted.take(fitted.n_choices < 5)
    fit = fit_calibrator(narrow, mode="contextual")
    notes = calibration_effect(replace(fitted, decoding="ensemble"), fit.calibrator).notes
    outside = int((fitted.n_choices >= 5).sum())
    assert notes[0] == DifferentDecoding("single", "ensemble")
    assert notes[1] == OutsideFit("answers", outside, 200, 2, 4)
    assert_says(
        calibration_sentence(notes[1]),
        f"{outside} of 200 items",
        "2 to 4 of the fit",
        "extrapolated",
    )
    per_kind = fit_calibrator(fitted.take(fitted.kind != "score"), mode="per-kind")
    unseen = calibration_effect(fitted, per_kind.calibrator).notes
    assert unseen == (UnseenKind("score"),)


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


def test_no_items() -> None:
    items = unsure(0.9, right=1, wrong=0).take(np.array([False]))
    group = calibration_effect(items, hot(2.0)).groups[0]
    assert group.items == 0
    assert np.isnan([group.before.nll_nats, group.after.ece, group.temperature.mean]).all()
    assert group.worse == ()


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
