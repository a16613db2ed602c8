from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from calibration.simulated import constant, simulate
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pact_eval._choices import Mode
from pact_eval.calibration.effect import calibration_effect
from pact_eval.calibration.temperatures import (
    NEUTRAL_BIAS,
    SHIPPED,
    Calibrator,
    ItemFacts,
    TemperatureSummary,
    Weights,
    inverse_softplus,
    neutral_calibrator,
    softplus,
)
from pact_eval.errors import InputError
from pact_eval.metrics import decode_ensemble, decode_single, log_softmax, predicted


def hot(temperature: float) -> Calibrator:
    return Calibrator("scalar", Weights((inverse_softplus(temperature), 0.0, 0.0)))


CONTEXTUAL = Calibrator("contextual", Weights((1.002400279045105, 0.0, 9.0), -0.42, -0.48))


def test_temperatures_against_hand_computation() -> None:
    temperature = CONTEXTUAL.temperatures(ItemFacts(["choice", "score"], [4, 2], [700.0, 1000.0]))
    by_hand = [
        np.log1p(np.exp(1.002400279045105 - 0.42 * np.log(4) - 0.48 * np.log(0.7))),
        np.log1p(np.exp(1.002400279045105 - 0.42 * np.log(2))),
    ]
    np.testing.assert_allclose(temperature, by_hand, rtol=1e-14)


def test_per_kind_reads_the_bias_of_each_kind() -> None:
    calibrator = Calibrator("per-kind", Weights((0.1, 0.2, 0.3)))
    temperature = calibrator.temperatures(ItemFacts(["score", "boolean", "choice"], [4, 2, 3]))
    np.testing.assert_allclose(temperature, softplus([0.3, 0.2, 0.1]), rtol=1e-15)


@pytest.mark.parametrize("mode", ["scalar", "per-kind", "contextual"])
def test_neutral_bias_is_a_temperature_of_exactly_one(mode: Mode) -> None:
    calibrator = Calibrator(mode, Weights((NEUTRAL_BIAS,) * 3))
    assert calibrator.is_neutral
    assert calibrator.temperatures(ItemFacts(["boolean"], [2])).tolist() == [1.0]
    items = simulate(50, np.random.default_rng(1), constant(2.0))
    after = calibrator.apply(items.log_probs, items)
    np.testing.assert_array_equal(after, items.log_probs)


def test_temperature_never_falls_below_the_floor() -> None:
    cold = Calibrator("contextual", Weights((-50.0, 0.0, 0.0), 1.0, 0.0))
    assert cold.temperatures(ItemFacts(["choice"], [4])).tolist() == [1e-3]


def test_prompt_tokens_are_needed_only_where_they_matter() -> None:
    flat = Calibrator("contextual", Weights((0.5, 0.0, 0.0), 0.3, 0.0))
    unknown = [300.0, np.nan]
    assert flat.temperatures(ItemFacts(["choice"] * 2, [2, 2], unknown)).shape == (2,)
    for tokens in (unknown, None, [300.0, 0.0], [300.0]):
        with pytest.raises(InputError, match="prompt_tokens"):
            CONTEXTUAL.temperatures(ItemFacts(["choice"] * 2, [2, 2], tokens))


def test_what_makes_no_temperature_is_refused() -> None:
    huge = Calibrator("contextual", Weights((1e308, 0.0, 0.0), 1e308, 1e308))
    with pytest.raises(InputError, match="no finite temperature .*row 0"):
        huge.temperatures(ItemFacts(["choice"], [5], [9e9]))
    with pytest.raises(InputError, match="boolean or score, got 'noul' in row 1"):
        neutral_calibrator("per-kind").temperatures(ItemFacts(["choice", "noul"], [2, 2]))
    with pytest.raises(InputError, match="n_choices"):
        neutral_calibrator().temperatures(ItemFacts(["choice"], [0]))
    with pytest.raises(InputError, match="kind: expected shape"):
        neutral_calibrator().temperatures(ItemFacts(["choice"], [2, 2]))


def test_apply_against_the_decodings_with_a_temperature() -> None:
    """Dividing canonical log-probabilities by T is dividing the logits of each view by T."""
    rng = np.random.default_rng(3)
    n_choices, tokens = rng.integers(2, 6, 40), rng.uniform(200, 1200, 40)
    logits = rng.normal(0, 4, (40, 3, 5))
    kind = ["choice"] * 40
    temperature = CONTEXTUAL.temperatures(ItemFacts(kind, n_choices, tokens))
    cooled = logits / temperature[:, None, None]
    for decode in (decode_single, decode_ensemble):
        after = CONTEXTUAL.apply(
            decode(logits, n_choices),
            ItemFacts(kind, n_choices, tokens),
        )
        np.testing.assert_allclose(after, decode(cooled, n_choices), atol=1e-12)
    by_view = CONTEXTUAL.apply(
        log_softmax(logits, n_choices),
        ItemFacts(kind, n_choices, tokens),
    )
    np.testing.assert_allclose(by_view, log_softmax(cooled, n_choices), atol=1e-12)


def test_apply_leaves_probability_zero_and_unused_slots() -> None:
    rows = np.log(np.array([[0.9, 0.1, 1.0]]))
    rows[0, 1] = -np.inf
    assert hot(3.0).apply(rows, ItemFacts(kind=["boolean"], n_choices=[2])).tolist() == [
        [0.0, -np.inf, -np.inf]
    ]


@st.composite
def distributions(draw: st.DrawFn) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    n, width = draw(st.integers(1, 6)), draw(st.integers(2, 6))
    steps = st.one_of(st.integers(-40, 40).map(lambda k: k / 64), st.floats(-700, 0))
    tiny = st.floats(0, 1e-10).map(lambda gap: -gap)
    logits = draw(hnp.arrays(np.float64, (n, width), elements=st.one_of(steps, tiny)))
    n_choices = draw(hnp.arrays(np.int64, n, elements=st.integers(2, width)))
    return log_softmax(logits, n_choices), n_choices


@given(distributions(), st.floats(1e-3, 1e6))
# A gap of 1.00009e-12: below the largest less `TIE`, and above -`TIE` once that was taken off.
@example((np.array([[-1.0986122886687764, *[-1.0986122886677763] * 2]]), np.array([3])), 0.5)
def test_apply_never_changes_the_answer_and_keeps_rows_normalised(
    rows: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]], temperature: float
) -> None:
    log_probs, n_choices = rows
    kind = np.full(len(n_choices), "choice")
    after = hot(temperature).apply(log_probs, ItemFacts(kind=kind, n_choices=n_choices))
    np.testing.assert_array_equal(predicted(after), predicted(log_probs))
    np.testing.assert_allclose(np.exp(after).sum(axis=1), 1.0, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(
        np.isneginf(after[np.arange(after.shape[1]) >= n_choices[:, None]]), True
    )


@settings(max_examples=10)
@given(st.floats(0.05, 20), st.integers(0, 2**32 - 1))
def test_accuracy_never_changes(temperature: float, seed: int) -> None:
    items = simulate(60, np.random.default_rng(seed), constant(1.0))
    effect = calibration_effect(items, hot(temperature))
    for group in effect.groups:
        assert group.before.accuracy == group.after.accuracy


def test_one_answer_is_a_question_too_and_none_is_not() -> None:
    calibrator = Calibrator("scalar", Weights((0.5, 0.5, 0.5)))
    assert calibrator.temperatures(ItemFacts(["choice"], [1])) == softplus(0.5)
    with pytest.raises(InputError, match="every number 1 or more"):
        calibrator.temperatures(ItemFacts(["choice"], [0]))


@pytest.mark.parametrize(
    ("mode", "bias", "slopes", "neutral"),
    [
        ("scalar", (NEUTRAL_BIAS, 9.0, 9.0), (0.0, 0.0), True),
        ("scalar", (9.0, NEUTRAL_BIAS, NEUTRAL_BIAS), (0.0, 0.0), False),
        ("per-kind", (NEUTRAL_BIAS, NEUTRAL_BIAS, 9.0), (0.0, 0.0), False),
        ("per-kind", (inverse_softplus(1.0),) * 3, (0.0, 0.0), True),
        ("contextual", (NEUTRAL_BIAS, 9.0, 9.0), (0.0, 0.0), True),
        ("contextual", (NEUTRAL_BIAS, 9.0, 9.0), (0.1, 0.0), False),
        ("contextual", (NEUTRAL_BIAS, 9.0, 9.0), (0.0, -0.1), False),
        ("contextual", (NEUTRAL_BIAS, 9.0, 9.0), (0.1, -0.1), False),
    ],
)
def test_a_calibrator_is_neutral_if_all_that_it_reads_is(
    mode: Mode, bias: tuple[float, float, float], slopes: tuple[float, float], neutral: bool
) -> None:
    assert Calibrator(mode, Weights(bias, *slopes)).is_neutral == neutral


@pytest.mark.parametrize(
    ("fit", "name"),
    [
        (None, "calibrated"),
        ({}, "calibrated"),
        ({SHIPPED: False}, "calibrated"),
        ({SHIPPED: 1}, "calibrated"),
        ({SHIPPED: True}, "as shipped"),
    ],
)
def test_the_name_says_where_temperatures_come_from(fit: Any, name: str) -> None:
    assert Calibrator("scalar", Weights((0.0, 0.0, 0.0)), fit).name == name


@pytest.mark.parametrize("slopes", [(0.1, 0.0), (0.0, 0.1)])
def test_each_slope_needs_the_contextual_form(slopes: tuple[float, float]) -> None:
    modes: tuple[Mode, ...] = ("scalar", "per-kind")
    for mode in modes:
        with pytest.raises(InputError, match="no slopes"):
            Calibrator(mode, Weights((0.5, 0.5, 0.5), *slopes))
    assert Calibrator("contextual", Weights((0.5, 0.5, 0.5), *slopes)).weights.bias[0] == 0.5


@pytest.mark.parametrize("bias", [(0.5,), (0.5,) * 4, (0.5, 0.5, np.inf)])
def test_three_finite_biases_are_needed(bias: Any) -> None:
    with pytest.raises(InputError, match="3 biases"):
        Calibrator("scalar", Weights(bias))
    with pytest.raises(InputError, match="2 finite slopes"):
        Calibrator("contextual", Weights((0.5,) * 3, 0.0, np.nan))


def test_a_summary_by_hand() -> None:
    assert TemperatureSummary.of(np.array([4.0, 0.5, 1.5])) == TemperatureSummary(2.0, 0.5, 4.0)
    nothing = TemperatureSummary.of(np.zeros(0))
    assert np.isnan([nothing.mean, nothing.low, nothing.high]).all()


def test_prompt_lengths_that_are_no_lengths_are_refused() -> None:
    for length in (0.0, -5.0, np.inf):
        with pytest.raises(InputError, match="above 0, got .* in row 1"):
            CONTEXTUAL.temperatures(ItemFacts(["choice"] * 2, [2, 2], [300.0, length]))
    assert CONTEXTUAL.temperatures(ItemFacts(["choice"], [2], [0.5])).shape == (1,)


def test_at_one_rows_stay_as_they_are_beside_others() -> None:
    """Of two kinds, one keeps T = 1: its rows are the same to the last digit."""
    calibrator = Calibrator("per-kind", Weights((NEUTRAL_BIAS, inverse_softplus(2.0), 0.0)))
    rows = np.log(np.array([[0.7, 0.3], [0.8, 0.2]]))
    after = calibrator.apply(rows, ItemFacts(kind=["choice", "boolean"], n_choices=[2, 2]))
    assert after[0].tolist() == rows[0].tolist()
    assert np.exp(after[1]) == pytest.approx([2 / 3, 1 / 3])


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="n_choices: expected shape"):
        CONTEXTUAL.temperatures(ItemFacts(["choice"], [[2]], [300.0]))
    with pytest.raises(InputError, match="prompt_tokens: expected shape"):
        CONTEXTUAL.temperatures(ItemFacts(["choice"] * 2, [2, 2], [[300.0, 300.0]]))


def test_a_form_without_slopes_takes_none() -> None:
    with pytest.raises(InputError, match="scalar has no slopes"):
        Calibrator("scalar", Weights((0.0, 0.0, 0.0), log_choices=0.1))
    with pytest.raises(InputError, match="finite"):
        Calibrator("scalar", Weights((np.nan, 0.0, 0.0)))
    unknown: Any = "vector"
    with pytest.raises(InputError, match="scalar, per-kind, per-question or contextual"):
        Calibrator(unknown, Weights((0.0, 0.0, 0.0)))
