from __future__ import annotations

from dataclasses import replace

import numpy as np
from calibration.simulated import constant, contextual, simulate
from messages import assert_says

from pact_eval.calibration.fitting import CalibratorFit, fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.uncertainty import Parameter


def named(fit: CalibratorFit, name: str) -> Parameter:
    return next(parameter for parameter in fit.parameters if parameter.name == name)


def test_a_constant_number_of_answers_identifies_no_slope() -> None:
    items = simulate(400, np.random.default_rng(1), constant(1.5))
    items = items.take(items.n_choices == 4)
    fit = fit_calibrator(items, mode="contextual")
    slope = named(fit, "log_choices")
    assert (slope.value, slope.identified) == (0.0, False)
    assert slope.reason == "every item has 4 answers"
    assert not slope.at_bound
    assert np.isnan(slope.by_family.standard_error)
    assert np.isfinite(named(fit, "log_tokens").by_family.standard_error)
    assert np.isfinite(named(fit, "bias").by_family.standard_error)


def test_collinear_lengths_are_reported_and_leave_the_level() -> None:
    items = simulate(400, np.random.default_rng(3), constant(1.5))
    tied = replace(items, prompt_tokens=np.square(10.0 * items.n_choices))
    fit = fit_calibrator(tied, mode="contextual")
    assert fit.condition_number > 1e6
    for name in ("log_choices", "log_tokens"):
        assert not named(fit, name).identified
        assert np.isnan(named(fit, name).by_family.standard_error)
    assert_says(named(fit, "log_tokens").reason, "another parameter", "makes up")
    assert fit.levels[0].identified
    assert 0 < fit.levels[0].by_family.standard_error < 0.3


def nearly_collinear(n: int, noise: float) -> CalibrationItems:
    items = simulate(n, np.random.default_rng(4), constant(1.5))
    factor = np.exp(np.random.default_rng(5).normal(0, noise, n))
    tokens = np.asarray(300.0 * items.n_choices * factor, dtype=np.float64)
    return replace(items, prompt_tokens=tokens)


def test_slopes_that_run_away_stop_at_the_bound_and_are_reported() -> None:
    fit = fit_calibrator(nearly_collinear(400, 0.005), mode="contextual")
    assert fit.at_bound == ("log_choices",)
    assert abs(named(fit, "log_choices").value) == 10
    assert_says(fit.notes[0], "slope log_choices", "bound")
    assert {parameter.name for parameter in fit.unidentified} == {
        "bias",
        "log_choices",
        "log_tokens",
    }
    assert fit.levels[0].identified


def test_few_items_leave_the_sign_of_a_slope_open() -> None:
    items = simulate(226, np.random.default_rng(6), contextual(1.0, -0.2, -0.2))
    slope = named(fit_calibrator(items, mode="contextual"), "log_tokens")
    assert not slope.identified
    assert str(slope.reason).startswith("its sign is open (")
    assert_says(slope.reason, "range", "prompt length here")


def test_a_ridge_does_not_make_the_data_say_more() -> None:
    items = simulate(226, np.random.default_rng(6), contextual(1.0, -0.2, -0.2))
    plain = fit_calibrator(items, mode="contextual")
    ridged = fit_calibrator(items, mode="contextual", ridge=256.0)
    assert [p.name for p in ridged.unidentified] == [p.name for p in plain.unidentified]
    narrow, wide = named(ridged, "log_tokens"), named(plain, "log_tokens")
    assert narrow.by_family.standard_error < 0.5 * wide.by_family.standard_error
