from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from calibration.simulated import constant, items_of, simulate
from scipy import optimize

from pact_eval._choices import Mode
from pact_eval.calibration.fitting import penalised_nll
from pact_eval.calibration.likelihood import CalibrationItems, TemperatureLikelihood, make_design
from pact_eval.calibration.temperatures import softplus
from pact_eval.calibration.uncertainty import observed_information
from pact_eval.errors import InputError
from pact_eval.metrics import log_softmax, nll_nats

POINTS = [[0.54, 0.1, -0.2], [2.0, -0.5, 0.4], [-1.5, 0.2, 0.1]]


@pytest.fixture(scope="module")
def items() -> CalibrationItems:
    return simulate(300, np.random.default_rng(5), constant(1.7))


def test_nll_against_the_decoding_with_a_temperature(items: CalibrationItems) -> None:
    u = np.random.default_rng(6).normal(0.5, 1.5, len(items))
    nll, _ = items.likelihood.nll_and_slope(u)
    log_probs = log_softmax(items.log_probs / softplus(u)[:, None], items.n_choices)
    np.testing.assert_allclose(nll, nll_nats(log_probs, items.reference), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["scalar", "per-kind", "contextual"])
@pytest.mark.parametrize("point", POINTS)
def test_gradient_against_finite_differences(
    items: CalibrationItems, mode: Mode, point: list[float]
) -> None:
    design = make_design(items, mode)
    fitted = np.array(point[: len(design.names)])
    arguments = (design, 3.0)

    def value(x: npt.NDArray[np.float64]) -> float:
        return penalised_nll(x, *arguments)[0]

    def slope(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return penalised_nll(x, *arguments)[1]

    assert optimize.check_grad(value, slope, fitted) < 1e-6
    step = 1e-5
    central = [
        (value(fitted + e) - value(fitted - e)) / (2 * step) for e in step * np.eye(len(fitted))
    ]
    np.testing.assert_allclose(slope(fitted), central, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("mode", ["scalar", "per-kind", "contextual"])
@pytest.mark.parametrize("point", POINTS)
def test_information_against_finite_differences_of_the_gradient(
    items: CalibrationItems, mode: Mode, point: list[float]
) -> None:
    design = make_design(items, mode)
    fitted, step = np.array(point[: len(design.names)]), 1e-5

    def gradient(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return len(items) * penalised_nll(x, design, 3.0)[1]

    central = [
        (gradient(fitted + e) - gradient(fitted - e)) / (2 * step)
        for e in step * np.eye(len(fitted))
    ]
    information = observed_information(fitted, design, 3.0)
    np.testing.assert_allclose(information, central, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(information, information.T, rtol=1e-12)


def test_derivatives_vanish_where_the_floor_holds_the_temperature() -> None:
    likelihood = items_of(np.log([[0.9, 0.1]]), [1]).likelihood
    u = np.array([-20.0])
    assert likelihood.nll_and_slope(u)[1].tolist() == [0.0]
    assert likelihood.curvature(u).tolist() == [0.0]


def test_log_sum_exp_is_stable() -> None:
    far = np.array([[0.0, -5000.0, -np.inf], [-1e6, 0.0, -1e6]])
    likelihood = TemperatureLikelihood.of(far, np.array([1, 1]))
    nll, slope = likelihood.nll_and_slope(np.array([-6.5, 20.0]))
    assert nll[0] == pytest.approx(5000 / softplus(-6.5), rel=1e-12)
    assert nll[1] == 0.0
    assert np.isfinite(slope).all()
    assert np.isfinite(likelihood.curvature(np.array([-6.5, 20.0]))).all()


def test_a_right_answer_of_probability_zero_is_refused() -> None:
    rows = np.array([[0.0, -np.inf], [np.log(0.5), np.log(0.5)]])
    with pytest.raises(InputError, match="probability 0 in row 0"):
        TemperatureLikelihood.of(rows, np.array([1, 0]))
    assert TemperatureLikelihood.of(rows, np.array([0, 0])).nll_and_slope(np.zeros(2))[0][0] == 0.0
