"""Standard errors of several parameters: against statsmodels, by hand, and at their boundaries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from calibration.simulated import by_kind, constant, contextual, items_of, simulate, unsure
from messages import assert_says
from scipy import special, stats

from pact_eval._typing import FloatArray
from pact_eval.calibration.fitting import CalibratorFit, fit_calibrator
from pact_eval.calibration.likelihood import (
    SLOPE_BOUND,
    TEMPERATURE_BOUNDS,
    CalibrationItems,
    Design,
    make_design,
)
from pact_eval.calibration.temperatures import inverse_softplus, softplus
from pact_eval.calibration.uncertainty import (
    FitEvidence,
    Uncertainty,
    observed_information,
    uncertainty,
    weight_parameters,
)


def two_kinds() -> CalibrationItems:
    """Return binary items of two kinds; families hold items of both."""
    items = simulate(900, np.random.default_rng(3), by_kind(1.4, 2.2, 1.0))
    binary = items.take(items.n_choices == 2)
    kind = np.where(np.arange(len(binary)) % 3 == 0, "choice", "boolean")
    family = np.array([f"f{index // 4}" for index in range(len(binary))])
    return replace(binary, kind=kind, family=family)


def test_errors_of_two_temperatures_against_logistic_regression() -> None:
    """1 / T of each kind is a slope of one regression; families tie both kinds together."""
    items = two_kinds()
    margin = items.log_probs[:, 1] - items.log_probs[:, 0]
    columns = np.column_stack([margin * (items.kind == kind) for kind in ("choice", "boolean")])
    groups = np.unique(items.family, return_inverse=True)[1]
    model = sm.Logit(items.reference, columns)
    plain = model.fit(disp=0, tol=1e-12)
    robust = model.fit(disp=0, tol=1e-12, cov_type="cluster", cov_kwds={"groups": groups})
    fit = fit_calibrator(items, mode="per-kind")
    assert [level.name for level in fit.levels] == ["temperature_choice", "temperature_boolean"]
    for level, beta, independent, by_family in zip(
        fit.levels, plain.params, plain.bse, robust.bse, strict=True
    ):
        assert level.value == pytest.approx(1 / beta, rel=1e-7)
        assert level.independent.standard_error == pytest.approx(independent / beta**2, rel=1e-6)
        assert level.by_family.standard_error == pytest.approx(by_family / beta**2, rel=1e-6)


def total_nll(items: CalibrationItems, temperature: float) -> float:
    logits = items.log_probs / temperature
    of_reference = logits[np.arange(len(items)), items.reference]
    return float((special.logsumexp(logits, axis=1) - of_reference).sum())


def test_the_ends_of_a_temperature_against_its_likelihood_ratio() -> None:
    """2 (NLL(T) - NLL(fit)) is a squared quantile at both ends, times c by family."""
    items = simulate(24, np.random.default_rng(2), constant(2.0))
    fit = fit_calibrator(items, mode="scalar")
    level, u = fit.levels[0], fit.parameters[0]
    assert fit.families == 12
    assert level.value == pytest.approx(softplus(u.value))
    least = total_nll(items, level.value)
    normal, by_family = (
        [2 * (total_nll(items, end) - least) for end in (wald.low, wald.high)]
        for wald in (level.independent, level.by_family)
    )
    assert normal == pytest.approx([stats.norm.ppf(0.975) ** 2] * 2, rel=1e-6)
    # c is a ratio of variances, or the design effect of the gradients of families of two.
    step = 1e-4
    gradient = np.array(
        [
            (total_nll(one, level.value + step) - total_nll(one, level.value - step)) / (2 * step)
            for one in (items.take(np.arange(24) == row) for row in range(24))
        ]
    )
    seen = 12 / 11 * np.square(gradient.reshape(12, 2).sum(axis=1)).sum() / (gradient**2).sum()
    ratio = (u.by_family.standard_error / u.independent.standard_error) ** 2
    scale = stats.t.ppf(0.975, 11) ** 2 * max(1.0, seen, ratio)
    assert by_family == pytest.approx([scale, scale], rel=1e-5)
    for name in ("by_family", "independent"):
        of_level, of_u = getattr(level, name), getattr(u, name)
        assert [of_level.low, of_level.high] == pytest.approx(softplus([of_u.low, of_u.high]))
        # By the delta method: dT/du is the logistic function.
        delta = of_u.standard_error * special.expit(u.value)
        assert of_level.standard_error == pytest.approx(delta)


def test_an_end_that_the_likelihood_never_reaches_is_the_bound() -> None:
    """Right as often as chance: no temperature is too high."""
    level = fit_calibrator(unsure(0.6, right=11, wrong=9), mode="scalar").levels[0]
    low, high = level.by_family.low, level.by_family.high
    assert 0.05 < low < level.value
    assert high == pytest.approx(TEMPERATURE_BOUNDS[1])


def copied(items: CalibrationItems, share: float, rng: np.random.Generator) -> CalibrationItems:
    """Replace the second member of a share of the families of two by a copy of the first."""
    row = np.arange(len(items))
    copies = (row % 2 == 1) & np.repeat(rng.random(len(items) // 2) < share, 2)
    return replace(items.take(row - copies), family=items.family)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_misses_of_a_temperature_are_on_both_sides(share: float) -> None:
    """Calibrated data, 40 families of two: at most 2.5% on a side, and 2.5 points of noise.

    Symmetric intervals of softplus^-1(T) lie below T = 1 in 6 to 7%, and above it in 1%.
    """
    rng = np.random.default_rng(7)
    draws, ends = 200, []
    for _ in range(draws):
        items = copied(simulate(80, rng, constant(1.0)), share, rng)
        ends.append(fit_calibrator(items, mode="scalar").levels[0].by_family)
    assert sum(end.high < 1 for end in ends) <= 0.05 * draws
    assert sum(end.low > 1 for end in ends) <= 0.05 * draws


@pytest.mark.parametrize(("families", "has_error"), [(3, False), (4, True)])
def test_errors_by_family_need_more_families_than_parameters(
    families: int, has_error: bool
) -> None:
    items = simulate(120, np.random.default_rng(6), contextual(1.5, -1.0, -1.0))
    items = replace(items, family=np.array([f"f{index % families}" for index in range(120)]))
    fit = fit_calibrator(items, mode="contextual")
    for parameter in fit.parameters:
        assert np.isfinite(parameter.by_family.standard_error) == has_error
        assert np.isfinite(parameter.independent.standard_error)


def contextual_fit() -> tuple[CalibrationItems, CalibratorFit, Design, FloatArray]:
    """Return items, the fit of the contextual form, its design and the observed information."""
    items = simulate(300, np.random.default_rng(5), contextual(1.5, -1.0, -1.0))
    design = make_design(items, "contextual")
    fit = fit_calibrator(items, mode="contextual")
    weights = np.array([parameter.value for parameter in fit.parameters])
    fitted: FloatArray = np.linalg.solve(design.raw, weights)
    return items, fit, design, observed_information(fitted, design)


def test_the_bias_of_the_contextual_form_by_the_delta_method() -> None:
    """The covariance of the weights is R V R', with V that of the columns."""
    _, fit, design, information = contextual_fit()
    expected = np.sqrt(np.diag(design.raw @ np.linalg.inv(information) @ design.raw.T))
    errors = [parameter.independent.standard_error for parameter in fit.parameters]
    assert errors == pytest.approx(expected.tolist(), rel=1e-6)
    assert not any(parameter.at_bound for parameter in fit.parameters)


def test_the_condition_number_is_that_of_correlations() -> None:
    items, fit, _, information = contextual_fit()
    scale = 1 / np.sqrt(np.diag(information))
    expected = np.linalg.cond(information * np.outer(scale, scale))
    assert fit.condition_number == pytest.approx(expected, rel=1e-6)
    ridged = fit_calibrator(items, mode="contextual", ridge=50.0)
    assert ridged.condition_number < 2 * expected  # of the data alone, near that point
    assert fit_calibrator(items, mode="scalar").condition_number == 1.0


def test_the_columns_are_centred_and_scaled_and_raw_takes_them_back() -> None:
    items = simulate(50, np.random.default_rng(5), constant(1.5))
    design = make_design(items, "contextual")
    assert design.names == ("bias", "log_choices", "log_tokens")
    assert design.matrix.mean(axis=0) == pytest.approx([1, 0, 0], abs=1e-12)
    assert design.matrix.std(axis=0) == pytest.approx([0, 1, 1], abs=1e-12)
    logs = np.column_stack(
        [np.ones(50), np.log(items.n_choices), np.log(items.prompt_tokens / 1000)]
    )
    fitted = np.array([0.3, -0.7, 0.9])
    assert logs @ (design.raw @ fitted) == pytest.approx(design.matrix @ fitted)
    assert design.spans == pytest.approx(
        {name: np.ptp(column) for name, column in zip(design.names[1:], logs.T[1:], strict=True)}
    )
    assert design.start.tolist() == [inverse_softplus(1.0), 0.0, 0.0]
    low, high = (inverse_softplus(temperature) for temperature in TEMPERATURE_BOUNDS)
    reach = SLOPE_BOUND * logs.std(axis=0)[1:]
    expected = [[low, high], [-reach[0], reach[0]], [-reach[1], reach[1]]]
    assert design.bounds == pytest.approx(np.array(expected))


def test_one_varied_slope_has_its_place() -> None:
    """All prompts are equally long, or all items have as many answers."""
    items = simulate(300, np.random.default_rng(5), contextual(1.5, -1.0, -1.0))
    of_answers = fit_calibrator(
        replace(items, prompt_tokens=np.full(300, 1000.0)), mode="contextual"
    )
    weights = of_answers.calibrator.weights
    assert weights.log_choices != 0
    assert weights.log_tokens == 0
    assert [parameter.name for parameter in of_answers.parameters] == [
        "bias",
        "log_choices",
        "log_tokens",
    ]
    same = items.take(items.n_choices == 3)
    of_lengths = fit_calibrator(same, mode="contextual").calibrator.weights
    assert (of_lengths.log_choices, of_lengths.log_tokens != 0) == (0, True)


def covariance_of(information: list[list[float]]) -> Uncertainty:
    """Return the uncertainty of numbers whose information on 40 items is this matrix."""
    inverse = np.linalg.inv(np.array(information))
    p = len(inverse)
    return Uncertainty(inverse, 4 * inverse, np.zeros((p, 0)), 1.0, 20, np.ones(p))


def test_the_error_of_a_sum_by_hand() -> None:
    of_both = covariance_of([[4.0, 0.0], [0.0, 1.0]])
    assert of_both.standard_errors(np.array([1.0, 0.0])) == pytest.approx((0.5, 1.0))
    assert of_both.standard_errors(np.array([1.0, -1.0])) == pytest.approx(
        (np.sqrt(1.25), np.sqrt(5))
    )
    assert np.isnan(of_both.standard_errors(np.zeros(2))).all()


def test_a_held_number_is_open_and_the_other_is_judged_as_if_it_were_known() -> None:
    items = simulate(200, np.random.default_rng(9), contextual(1.5, -1.0, 0.0))
    items = replace(items, prompt_tokens=np.full(200, 500.0))
    design = make_design(items, "contextual")
    fitted = np.array([1.0, -0.4])
    of_level = uncertainty(fitted, np.array([False, True]), design)
    information = observed_information(fitted, design)
    assert of_level.clusters == items.family_codes()[1] == 100
    assert of_level.covariance == pytest.approx(np.diag([1 / information[0, 0], 0.0]))
    assert of_level.open_directions.tolist() == [[0.0], [1.0]]
    assert of_level.is_open(np.array([0.0, 1.0]))
    assert of_level.is_open(np.array([1.0, 0.1]))
    assert not of_level.is_open(np.array([1.0, 0.0]))
    assert of_level.condition_number == 1.0
    both = uncertainty(fitted, np.array([True, True]), design)
    assert np.isnan(both.condition_number)
    assert both.open_directions.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_ridge_adds_to_the_information_of_slopes_alone() -> None:
    items = simulate(50, np.random.default_rng(5), constant(1.5))
    design = make_design(items, "contextual")
    plain, ridged = (observed_information(design.start, design, ridge) for ridge in (0.0, 7.0))
    assert ridged - plain == pytest.approx(np.diag([0.0, 7.0, 7.0]), abs=1e-12)


def parameter_reasons(fit: CalibratorFit) -> dict[str, str | None]:
    return {parameter.name: parameter.reason for parameter in fit.parameters}


def test_every_reason_not_to_trust_a_slope_names_its_cause() -> None:
    separated = simulate(100, np.random.default_rng(25), constant(1.0))
    separated = replace(separated, reference=separated.log_probs.argmax(axis=1))
    reasons = parameter_reasons(fit_calibrator(separated, mode="contextual"))
    assert_says(reasons["bias"], "bound", "0.05 to 20 for T")
    assert_says(reasons["log_choices"], "held at 0", "level")
    assert reasons["log_choices"] == reasons["log_tokens"]
    nothing = parameter_reasons(fit_calibrator(items_of(np.zeros((0, 2)), []), mode="contextual"))
    assert {name: reason for name, reason in nothing.items() if "no items" not in str(reason)} == {}
    steep = simulate(400, np.random.default_rng(4), constant(1.5))
    factor = np.exp(np.random.default_rng(5).normal(0, 0.005, 400))
    lengths: FloatArray = np.asarray(300.0 * steep.n_choices * factor, dtype=np.float64)
    runaway = replace(steep, prompt_tokens=lengths)
    reasons = parameter_reasons(fit_calibrator(runaway, mode="contextual"))
    assert_says(reasons["bias"], "depends on a slope", "bound")
    assert_says(reasons["log_choices"], "bound", "-10 to 10")
    assert "for T" not in str(reasons["log_choices"])
    assert_says(reasons["log_tokens"], "another slope", "bound")


@pytest.mark.parametrize(("condition", "identified"), [(1000.0, True), (1000.5, False)])
def test_slopes_are_not_identified_above_a_condition_number_of_1000(
    condition: float, identified: bool
) -> None:
    """Of a sure slope far from 0, so the condition number alone decides."""
    items = simulate(60, np.random.default_rng(5), constant(1.5))
    design = make_design(items, "contextual")
    covariance = 1e-6 * np.eye(3)
    sure = Uncertainty(covariance, covariance, np.zeros((3, 0)), condition, 30, np.ones(3))
    fitted, held = np.array([1.0, 2.0, -2.0]), np.zeros(3, dtype=np.bool_)
    bias, *slopes = weight_parameters(FitEvidence(design, fitted, held, penalised=sure, data=sure))
    assert bias.identified
    assert [slope.identified for slope in slopes] == [identified] * 2


@pytest.mark.parametrize(("change", "identified"), [(0.249, True), (0.251, False)])
def test_an_open_sign_matters_if_it_can_move_the_temperature_by_a_quarter(
    change: float, identified: bool
) -> None:
    """At T = 1, dT/du is 1 - 1/e. The slope is 0, and its error is chosen for this change."""
    items = simulate(60, np.random.default_rng(5), constant(1.5))
    items = replace(items, prompt_tokens=np.full(60, 500.0))
    design = make_design(items, "contextual")
    half = change / -np.expm1(-1.0) / design.spans["log_choices"]
    error = half / stats.t.ppf(0.975, 29) / design.raw[1, 1]
    covariance = np.diag([1e-6, error**2])
    unsure_of = Uncertainty(covariance, covariance, np.zeros((2, 0)), 1.0, 30, np.ones(2))
    fitted, held = np.array([inverse_softplus(1.0), 0.0]), np.zeros(2, dtype=np.bool_)
    _, slope, _ = weight_parameters(
        FitEvidence(design, fitted, held, penalised=unsure_of, data=unsure_of)
    )
    assert slope.identified == identified
    assert slope.by_family.high == pytest.approx(half)
