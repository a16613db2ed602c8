"""The ratio of two fitted temperatures: of exact copies, and against a bootstrap over families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from calibration.simulated import constant, simulate, unsure
from messages import assert_says
from run_frames import predictions

from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.drift.pairs import temperature_ratio
from pact_eval.metrics import log_softmax


def items(seed: int, *, skill: float = 1.5) -> CalibrationItems:
    return CalibrationItems.from_predictions(predictions(seed, families=90, skill=skill), "single")


def divided(items_of_run: CalibrationItems, temperature: float) -> CalibrationItems:
    return replace(
        items_of_run,
        log_probs=log_softmax(items_of_run.log_probs / temperature, items_of_run.n_choices),
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.62])
def test_a_tempered_copy_gives_its_temperature_without_error(temperature: float) -> None:
    local = items(1)
    by_temperature = temperature_ratio("all", local, divided(local, temperature), paired=True)
    ratio = by_temperature.ratio
    assert [ratio.low, ratio.value, ratio.high] == pytest.approx([temperature] * 3, rel=1e-4)
    assert by_temperature.a.low < by_temperature.a.value < by_temperature.a.high


@pytest.mark.parametrize(
    ("draws", "apart"), [(25, 0.4), pytest.param(150, 0.25, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_is_that_of_a_bootstrap_over_families(
    paired: bool, draws: int, apart: float
) -> None:
    a, b = items(1), items(2, skill=1.2)
    if not paired:
        b = replace(b, family=np.array([f"other {name}" for name in b.family], dtype=object))
    interval = temperature_ratio("all", a, b, paired=paired).ratio
    rng, names = np.random.default_rng(0), sorted(set(a.family.tolist()))
    rows = {name: np.flatnonzero(a.family == name) for name in names}

    def fitted(items_of_run: CalibrationItems, drawn: list[str]) -> float:
        taken = np.concatenate([rows[name] for name in drawn])
        return fit_calibrator(items_of_run.take(taken), mode="scalar").levels[0].value

    logs = []
    for _ in range(draws):
        one = rng.choice(names, len(names)).tolist()
        other = one if paired else rng.choice(names, len(names)).tolist()
        logs.append(np.log(fitted(a, one) / fitted(b, other)))
    error = np.log(interval.high / interval.low) / 2 / 1.98
    assert error == pytest.approx(np.std(logs), rel=apart)


def test_items_with_an_impossible_reference_are_left_out_of_both_fits() -> None:
    local = items(1)
    served = divided(local, 2.0)
    log_probs = served.log_probs.copy()
    log_probs[0, served.reference[0]] = -np.inf
    by_temperature = temperature_ratio(
        "all", local, replace(served, log_probs=log_probs), paired=True
    )
    assert by_temperature.left_out == 1
    assert by_temperature.ratio.value == pytest.approx(2.0, rel=1e-4)
    apart = temperature_ratio("all", local, replace(served, log_probs=log_probs), paired=False)
    assert_says(apart.ratio.reason, "probability 0", "in 1 item")


def test_one_family_has_a_ratio_and_no_interval() -> None:
    a = replace(unsure(0.9, right=6, wrong=4), family=np.full(10, "one"))
    b = replace(unsure(0.8, right=6, wrong=4), family=np.full(10, "one"))
    by_temperature = temperature_ratio("boolean", a, b, paired=True)
    ratio = by_temperature.ratio
    assert by_temperature.kind == "boolean"
    assert ratio.value == pytest.approx(by_temperature.a.value / by_temperature.b.value)
    # 1 / T is the ratio of the logarithms of the odds: 3/2 in fact, 9 and 4 as said.
    assert by_temperature.a.value == pytest.approx(np.log(9) / np.log(1.5), rel=1e-5)
    assert by_temperature.b.value == pytest.approx(np.log(4) / np.log(1.5), rel=1e-5)
    assert np.isnan([ratio.low, ratio.high]).all()
    assert (ratio.n, ratio.clusters) == (20, 1)
    assert_says(ratio.reason, "one family")


def test_families_count_once_for_both_runs() -> None:
    a = simulate(60, np.random.default_rng(1), constant(2.0))
    b = simulate(40, np.random.default_rng(2), constant(1.0))
    ratio = temperature_ratio("all", a, b, paired=False).ratio
    assert (ratio.n, ratio.clusters) == (100, 30)  # the 20 families of b are among those of a
    other = replace(b, family=np.array([f"b{name}" for name in b.family]))
    assert temperature_ratio("all", a, other, paired=False).ratio.clusters == 50
    assert ratio.low < ratio.value < ratio.high
    assert ratio.value**2 == pytest.approx(ratio.low * ratio.high)


@pytest.mark.parametrize(("paired", "clusters"), [(True, 60), (False, 120)])
def test_items_of_unknown_family_are_their_own(paired: bool, clusters: int) -> None:
    a = simulate(60, np.random.default_rng(1), constant(2.0))
    unnamed = replace(a, family=np.full(60, ""))
    colder = divided(unnamed, 0.5)
    by_temperature = temperature_ratio("all", unnamed, colder, paired=paired)
    assert by_temperature.ratio.clusters == clusters
    assert by_temperature.a.clusters == by_temperature.b.clusters == 60
    assert by_temperature.ratio.value == pytest.approx(0.5, rel=1e-4)
    width = by_temperature.ratio.high / by_temperature.ratio.low
    assert (width > 1.01) != paired


def test_a_fit_that_a_bound_holds_has_no_ratio() -> None:
    sure, unsure_items = unsure(0.9, right=10, wrong=0), unsure(0.9, right=6, wrong=4)
    for a, b in ((sure, unsure_items), (unsure_items, sure)):
        ratio = temperature_ratio("all", a, b, paired=False).ratio
        assert np.isnan([ratio.value, ratio.low, ratio.high]).all()
        assert (ratio.n, ratio.clusters) == (20, 0)
        assert_says(ratio.reason, "bound of the fit")


def test_no_items_have_no_ratio() -> None:
    nothing = unsure(0.9, right=1, wrong=0).take(np.array([False]))
    by_temperature = temperature_ratio("all", nothing, nothing, paired=True)
    assert np.isnan(by_temperature.ratio.value)
    assert (by_temperature.left_out, by_temperature.ratio.n) == (0, 0)
    assert_says(by_temperature.ratio.reason, "no items")
