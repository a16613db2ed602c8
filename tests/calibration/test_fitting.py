from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from calibration.simulated import (
    TrueTemperature,
    by_kind,
    constant,
    contextual,
    items_of,
    simulate,
    unsure,
)
from messages import assert_says
from scipy import optimize, special, stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from pact_eval._choices import Mode
from pact_eval._typing import FloatArray
from pact_eval.calibration.fitting import fit_calibrator, minimise, penalised_nll
from pact_eval.calibration.likelihood import TEMPERATURE_BOUNDS, TemperatureLikelihood, make_design
from pact_eval.calibration.temperatures import NEUTRAL_BIAS, ItemFacts, inverse_softplus
from pact_eval.errors import InputError
from pact_eval.metrics import item_mean, nll_nats

TRUTHS: dict[Mode, tuple[TrueTemperature, list[float]]] = {
    "scalar": (constant(1.6), [inverse_softplus(1.6)]),
    "per-kind": (
        by_kind(choice=1.3, boolean=2.0, score=0.8),
        [inverse_softplus(temperature) for temperature in (1.3, 2.0, 0.8)],
    ),
    "contextual": (contextual(1.5, -0.4, -0.5), [1.5, -0.4, -0.5]),
}


@pytest.mark.parametrize("mode", TRUTHS)
def test_known_temperatures_are_recovered(mode: Mode) -> None:
    temperature, truth = TRUTHS[mode]
    fit = fit_calibrator(simulate(8_000, np.random.default_rng(8), temperature), mode=mode)
    assert fit.converged
    assert not fit.unidentified
    assert not fit.notes
    for parameter, true in zip(fit.parameters, truth, strict=True):
        assert abs(parameter.value - true) < 3.5 * parameter.by_family.standard_error
        assert parameter.by_family.standard_error < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("mode", TRUTHS)
def test_intervals_cover_the_truth_as_often_as_they_say(mode: Mode) -> None:
    """400 fits: 95% coverage within what a binomial allows (one in 10,000 on each side)."""
    temperature, truth = TRUTHS[mode]
    low, high = (stats.binom.ppf(tail, 400, 0.95) for tail in (1e-4, 1 - 1e-4))
    hits = np.zeros((2, len(truth)))
    for seed in range(400):
        items = simulate(400, np.random.default_rng(seed), temperature)
        for j, parameter in enumerate(fit_calibrator(items, mode=mode).parameters):
            for k, wald in enumerate((parameter.independent, parameter.by_family)):
                hits[k, j] += wald.low <= truth[j] <= wald.high
    assert (hits[0] >= low).all()
    assert (hits[0] <= high).all()
    # The sandwich is known to come out small by a few percent: allow it one point of coverage.
    assert (hits[1] >= stats.binom.ppf(1e-4, 400, 0.94)).all()


class _Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose logits are its features."""

    def fit(self, _x: Any, y: Any) -> _Given:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, x: Any) -> Any:
        return x

    def predict(self, x: Any) -> Any:
        return x.argmax(axis=1)


def _sklearn_temperature(logits: Any, reference: Any) -> float:
    logits = np.where(np.isneginf(logits), -1e9, logits)
    estimator = FrozenEstimator(_Given().fit(logits, reference))
    fitted = CalibratedClassifierCV(estimator, method="temperature").fit(logits, reference)
    return 1.0 / float(fitted.calibrated_classifiers_[0].calibrators[0].beta_)


@pytest.mark.parametrize("true", [0.6, 1.0, 2.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_scalar_fit_against_scikit_learn(true: float, seed: int) -> None:
    items = simulate(500, np.random.default_rng(seed), constant(true))
    fit = fit_calibrator(items, mode="scalar")
    # Log-probabilities, not probabilities: those would be told by their range and logged again.
    expected = _sklearn_temperature(items.log_probs, items.reference)
    assert fit.levels[0].value == pytest.approx(expected, rel=1e-6)


def test_standard_errors_against_logistic_regression() -> None:
    """With two answers, 1 / T is the slope of a logistic regression through the origin."""
    items = simulate(2000, np.random.default_rng(11), constant(1.8))
    items = items.take(items.kind == "boolean")
    margin = items.log_probs[:, 1] - items.log_probs[:, 0]
    groups = np.unique(items.family, return_inverse=True)[1]
    level = fit_calibrator(items, mode="scalar").levels[0]
    model = sm.Logit(items.reference, margin)
    plain = model.fit(disp=0, tol=1e-12)
    robust = model.fit(disp=0, tol=1e-12, cov_type="cluster", cov_kwds={"groups": groups})
    temperature = 1 / plain.params[0]
    assert level.value == pytest.approx(temperature, rel=1e-8)
    # dT = d(1/beta) = T^2 dbeta
    assert level.independent.standard_error == pytest.approx(
        plain.bse[0] * temperature**2, rel=1e-6
    )
    assert level.by_family.standard_error == pytest.approx(robust.bse[0] * temperature**2, rel=1e-6)


def test_contextual_fit_against_a_search_without_gradients() -> None:
    items = simulate(300, np.random.default_rng(13), contextual(1.2, -0.6, 0.8))
    covariates = np.column_stack(
        [np.ones(300), np.log(items.n_choices), np.log(items.prompt_tokens / 1000)]
    )

    def nll(weights: Any) -> float:
        temperature = np.logaddexp(0, covariates @ weights)
        log_probs = special.log_softmax(items.log_probs / temperature[:, None], axis=1)
        return item_mean(nll_nats(log_probs, items.reference))

    search = optimize.minimize(
        nll, [0.54, 0, 0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13}
    )
    fit = fit_calibrator(items, mode="contextual")
    assert fit.nll_after == pytest.approx(search.fun, abs=1e-10)
    assert [p.value for p in fit.parameters] == pytest.approx(search.x, abs=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_more_freedom_never_costs_nll(seed: int) -> None:
    items = simulate(60, np.random.default_rng(seed), constant(1.3))
    after = {mode: fit_calibrator(items, mode=mode).nll_after for mode in TRUTHS}
    ridged = fit_calibrator(items, mode="contextual", ridge=16.0)
    before = ridged.nll_before
    assert after["contextual"] <= ridged.nll_after <= after["scalar"] <= before
    assert after["per-kind"] <= after["scalar"]


@pytest.mark.parametrize("seed", range(4))
def test_no_other_start_finds_less_nll(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal([1.5, 0, 0], [0.5, 0.5, 1.0])
    items = simulate(int(rng.integers(60, 250)), rng, contextual(a, b, c))
    design = make_design(items, "contextual")

    def least(start: FloatArray | None) -> float:
        fitted = minimise(design, start=start).fitted
        return penalised_nll(fitted, design, 0.0)[0]

    best = least(None)
    for _ in range(8):
        assert least(rng.normal(design.start, 1.5)) >= best - 1e-9


@pytest.mark.parametrize("mode", TRUTHS)
def test_permuted_rows_leave_the_fit_unchanged(mode: Mode) -> None:
    items = simulate(300, np.random.default_rng(21), contextual(1.2, -0.6, 0.8))
    one = fit_calibrator(items, mode=mode)
    other = fit_calibrator(items.take(np.random.default_rng(1).permutation(300)), mode=mode)
    for parameter, again in zip(one.parameters, other.parameters, strict=True):
        assert again.value == pytest.approx(parameter.value, abs=1e-12)
        assert again.by_family.standard_error == pytest.approx(
            parameter.by_family.standard_error, rel=1e-6
        )
    assert one.notes == other.notes


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("mode", TRUTHS)
def test_the_last_digit_of_logits_is_the_last_of_the_fit(mode: Mode, seed: int) -> None:
    """Processors differ in the last digit of exp and log; a search alone left 1e-8 to them."""
    rng = np.random.default_rng(seed)
    items = simulate(int(rng.integers(30, 300)), rng, contextual(1.2, -0.6, 0.8))
    rounded = items.log_probs * (1 + 1e-15 * rng.standard_normal(items.log_probs.shape))
    one, other = (
        fit_calibrator(each, mode=mode) for each in (items, replace(items, log_probs=rounded))
    )
    for parameter, again in zip(one.parameters, other.parameters, strict=True):
        assert again.value == pytest.approx(parameter.value, abs=1e-12)


@pytest.mark.parametrize("mode", TRUTHS)
def test_doubled_rows_leave_the_fit_and_double_the_families_weight(mode: Mode) -> None:
    items = simulate(200, np.random.default_rng(23), constant(1.5))
    one = fit_calibrator(items, mode=mode)
    twice = fit_calibrator(items.take(np.tile(np.arange(200), 2)), mode=mode)
    for parameter, again in zip(one.parameters, twice.parameters, strict=True):
        assert again.value == pytest.approx(parameter.value, abs=1e-6)
        # Items that say the same say nothing new: only the errors by family know it.
        assert again.independent.standard_error == pytest.approx(
            parameter.independent.standard_error / np.sqrt(2), rel=1e-5
        )
        assert again.by_family.standard_error == pytest.approx(
            parameter.by_family.standard_error, rel=1e-2
        )


def test_separable_items_hit_the_bound_and_are_reported() -> None:
    fit = fit_calibrator(unsure(0.8, right=12, wrong=0), mode="scalar")
    assert fit.levels[0].value == pytest.approx(TEMPERATURE_BOUNDS[0])
    assert fit.at_bound == ("bias",)
    assert "right on every item" in fit.notes[0]
    assert_says(fit.parameters[0].reason, "a bound of the fit", "0.05 to 20 for T")
    assert not fit.parameters[0].identified
    assert np.isnan(fit.parameters[0].by_family.standard_error)
    assert fit.improved
    assert fit.nll_after < fit.nll_before


def test_one_separable_kind_is_named_and_leaves_the_others() -> None:
    items = simulate(200, np.random.default_rng(27), constant(1.5))
    boolean = items.kind == "boolean"
    reference = np.where(boolean, items.log_probs.argmax(axis=1), items.reference)
    fit = fit_calibrator(replace(items, reference=reference), mode="per-kind")
    assert fit.at_bound == ("bias_boolean",)
    assert "of kind boolean" in fit.notes[0]
    alone = fit_calibrator(items.take(items.kind == "choice"), mode="scalar")
    assert fit.levels[0].value == pytest.approx(alone.levels[0].value, rel=1e-6)
    assert fit.levels[0].identified


def test_anti_calibrated_items_hit_the_upper_bound_and_are_reported() -> None:
    fit = fit_calibrator(unsure(0.9, right=2, wrong=10), mode="scalar")
    assert fit.levels[0].value == pytest.approx(TEMPERATURE_BOUNDS[1])
    assert fit.at_bound == ("bias",)
    assert "upper bound, 20" in fit.notes[0]
    assert fit.nll_after < fit.nll_before


@pytest.mark.parametrize("mode", TRUTHS)
def test_what_no_temperature_improves_is_left_at_one(mode: Mode) -> None:
    fit = fit_calibrator(unsure(0.5, right=3, wrong=5), mode=mode)
    assert not fit.improved
    assert fit.calibrator.is_neutral
    assert fit.calibrator.weights.bias == (NEUTRAL_BIAS,) * 3
    assert (fit.temperature.low, fit.temperature.high) == (1.0, 1.0)
    assert fit.nll_after == fit.nll_before
    assert "T = 1 is kept" in fit.notes[0]
    assert not fit.parameters[0].identified


@pytest.mark.parametrize("mode", TRUTHS)
def test_one_item(mode: Mode) -> None:
    right = fit_calibrator(unsure(0.9, right=1, wrong=0), mode=mode)
    assert right.temperature.mean == pytest.approx(TEMPERATURE_BOUNDS[0])
    wrong = fit_calibrator(unsure(0.9, right=0, wrong=1), mode=mode)
    assert wrong.temperature.mean == pytest.approx(TEMPERATURE_BOUNDS[1])
    assert wrong.at_bound


@pytest.mark.parametrize("mode", TRUTHS)
def test_no_items(mode: Mode) -> None:
    fit = fit_calibrator(items_of(np.zeros((0, 2)), []), mode=mode)
    assert fit.calibrator.is_neutral
    assert np.isnan(fit.nll_before)
    assert not any(parameter.identified for parameter in fit.parameters)
    (note,) = fit.notes
    assert_says(note, "no items", "T = 1")


def test_few_families_have_no_errors_by_family() -> None:
    items = replace(unsure(0.9, right=6, wrong=4), family=np.full(10, "one"))
    level = fit_calibrator(items, mode="scalar").levels[0]
    assert np.isnan(level.by_family.standard_error)
    assert level.independent.standard_error > 0
    assert_says(level.reason, "no standard error", "too few families (1)")


def test_items_of_unknown_family_are_their_own() -> None:
    named = unsure(0.9, right=6, wrong=4)
    unnamed = replace(named, family=np.full(10, ""))
    one, other = (fit_calibrator(items, mode="scalar").levels[0] for items in (named, unnamed))
    assert one == other


def test_kinds_without_items_are_left_at_one_and_named() -> None:
    fit = fit_calibrator(unsure(0.9, right=6, wrong=4), mode="per-kind")
    assert fit.calibrator.weights.bias[0] == fit.calibrator.weights.bias[2] == NEUTRAL_BIAS
    (note,) = fit.notes
    assert_says(note, "no items", "choice or score", "T = 1")


def test_probability_zero_stays_and_is_counted() -> None:
    rows = np.log([[0.9, 0.1, 1e-300], [0.8, 0.2, 1e-300], [0.7, 0.3, 1e-300]])
    rows[:, 2] = -np.inf
    zeros = fit_calibrator(items_of(rows, [0, 1, 0]), mode="scalar")
    without = fit_calibrator(items_of(rows[:, :2], [0, 1, 0]), mode="scalar")
    assert zeros.levels[0].value == pytest.approx(without.levels[0].value, rel=1e-8)
    assert_says(zeros.notes[-1], "answers of probability 0", ": 3")
    with pytest.raises(InputError, match="probability 0 in row 2"):
        fit_calibrator(items_of(rows, [0, 1, 2]), mode="scalar")


def test_what_cannot_be_fitted_is_refused() -> None:
    items = unsure(0.9, right=3, wrong=1)
    unknown: Any = "vector"
    with pytest.raises(InputError, match="mode: expected one of"):
        fit_calibrator(items, mode=unknown)
    for ridge in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="ridge"):
            fit_calibrator(items, mode="scalar", ridge=ridge)
    lengths = np.array([300.0, 400.0, np.nan, 500.0])
    blind = replace(items, prompt_tokens=lengths)
    with pytest.raises(InputError, match="prompt length .*row 2"):
        fit_calibrator(blind, mode="contextual")
    assert fit_calibrator(blind, mode="scalar").improved


def test_a_strong_ridge_leaves_the_scalar_fit() -> None:
    items = simulate(300, np.random.default_rng(29), contextual(1.2, -0.9, 1.2))
    scalar = fit_calibrator(items, mode="scalar")
    strong = fit_calibrator(items, mode="contextual", ridge=1e9)
    assert strong.levels[0].value == pytest.approx(scalar.levels[0].value, rel=1e-5)
    slopes = [fit_calibrator(items, mode="contextual", ridge=r).parameters[1] for r in (0, 9, 99)]
    assert abs(slopes[0].value) > abs(slopes[1].value) > abs(slopes[2].value)
    assert slopes[0].by_family.standard_error > slopes[2].by_family.standard_error


def test_without_a_ridge_the_gradient_of_the_nll_alone_is_0() -> None:
    items = simulate(200, np.random.default_rng(7), contextual(1.5, -1.0, -2.0))
    design = make_design(items, "contextual")
    fitted = minimise(design).fitted
    assert np.abs(penalised_nll(fitted, design, 0.0)[1]).max() < 1e-4
    assert np.abs(penalised_nll(fitted, design, 1.0)[1]).max() > 1e-3


def test_the_file_records_ranges_and_counts_by_hand() -> None:
    items = items_of(
        np.log(np.full((4, 3), 1 / 3)) + np.log([[1.0, 0.9, 0.7]] * 4),
        [0, 1, 0, 2],
        kind=["choice", "score", "choice", "choice"],
        prompt_tokens=[210.0, np.nan, 640.0, 350.0],
        family=["f2", "", "f1", "f2"],
        source_family=["", "s2", "s1", "s1"],
    )
    section: Any = fit_calibrator(items, mode="scalar").calibrator.fit
    assert section["kinds"] == {"choice": 3, "boolean": 0, "score": 1}
    assert section["n_choices"] == [3, 3]
    assert section["prompt_tokens"] == [210, 640]
    assert section["families"] == ["f1", "f2"]
    assert section["source_families"] == ["s1", "s2"]
    assert section["items"] == 4
    assert section["ridge"] == 0.0
    blind = replace(items, prompt_tokens=np.full(4, np.nan))
    unknown: Any = fit_calibrator(blind, mode="scalar").calibrator.fit
    assert unknown["prompt_tokens"] is None


def test_a_scalar_fit_of_two_sorts_of_items_by_hand() -> None:
    """All items say 90%; 3 of 4 are right: 1 / T = log 3 / log 9."""
    fit = fit_calibrator(unsure(0.9, right=30, wrong=10), mode="scalar")
    assert fit.levels[0].value == pytest.approx(2.0, rel=1e-6)
    assert fit.nll_before == pytest.approx(-(0.75 * np.log(0.9) + 0.25 * np.log(0.1)))
    assert fit.nll_after == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert (fit.items, fit.families, fit.ridge) == (40, 40, 0.0)
    assert (fit.improved, fit.converged, fit.at_bound, fit.notes) == (True, True, (), ())
    at = fit.calibrator.temperatures(ItemFacts(["boolean"], [2]))
    assert fit.temperature.low == fit.temperature.high == at


def test_both_separated_kinds_are_named() -> None:
    both = unsure(0.8, right=8, wrong=0)
    kinds = np.array(["choice", "boolean"] * 4)
    fit = fit_calibrator(replace(both, kind=kinds), mode="per-kind")
    assert fit.at_bound == ("bias_choice", "bias_boolean")
    assert_says(fit.notes[0], "of kind choice and boolean")


def test_temperatures_at_the_floor_are_counted() -> None:
    """Slopes that 30 items hardly determine send T of some of them to 0.001."""
    items = simulate(30, np.random.default_rng(1), contextual(1.0, -1.5, -1.5))
    fit = fit_calibrator(items, mode="contextual")
    at = fit.calibrator.temperatures(items)
    held = int((at <= 1e-3).sum())
    assert 0 < held < 30
    assert_says(fit.notes, "held at 0.001", str(held))


def test_zero_probabilities_of_used_slots_alone_are_counted() -> None:
    rows = np.log(np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]))
    padded = np.column_stack([rows, np.full(3, -np.inf)])
    fit = fit_calibrator(items_of(padded, [0, 1, 1], n_choices=[2, 2, 2]), mode="scalar")
    assert fit.notes == ()
    fit = fit_calibrator(items_of(padded, [0, 1, 1], n_choices=[2, 3, 2]), mode="scalar")
    assert_says(fit.notes, "answers of probability 0", ": 1")


def test_a_level_at_its_bound_holds_the_slopes_at_zero() -> None:
    items = simulate(100, np.random.default_rng(25), constant(1.0))
    items = replace(items, reference=items.log_probs.argmax(axis=1))
    design = make_design(items, "contextual")
    minimum = minimise(design)
    assert minimum.separated.tolist() == [True, False, False]
    assert minimum.held.tolist() == [True, True, True]
    assert minimum.fitted[1:].tolist() == [0.0, 0.0]
    assert minimum.converged


@pytest.mark.parametrize(
    ("rows", "reference", "separated"),
    [
        ([[0.8, 0.2], [0.6, 0.4]], [0, 0], True),
        ([[0.8, 0.2], [0.6, 0.4]], [0, 1], False),
        ([[0.5, 0.5], [0.5, 0.5]], [0, 1], False),  # all tied: the NLL is the same at any T
        ([[0.5, 0.5], [0.6, 0.4]], [1, 0], True),
        ([[0.4, 0.4, 0.2]], [1], True),
        # An answer of probability 0 stays at 0: the others are tied at any T.
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], [0, 1], False),
    ],
)
def test_items_are_separated_if_no_right_answer_is_behind(
    rows: list[list[float]], reference: list[int], separated: bool
) -> None:
    with np.errstate(divide="ignore"):
        likelihood = TemperatureLikelihood.of(np.log(rows), np.array(reference))
    everything = np.ones(len(rows), dtype=np.bool_)
    assert likelihood.separated(everything) == separated
