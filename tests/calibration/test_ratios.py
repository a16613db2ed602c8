"""The ratio of two fitted temperatures: of exact copies, and against a bootstrap over families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from messages import assert_says
from run_frames import predictions

from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.ratios import temperature_ratio
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


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_is_that_of_a_bootstrap_over_families(paired: bool) -> None:
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
    for _ in range(150):
        one = rng.choice(names, len(names)).tolist()
        other = one if paired else rng.choice(names, len(names)).tolist()
        logs.append(np.log(fitted(a, one) / fitted(b, other)))
    error = np.log(interval.high / interval.low) / 2 / 1.98
    assert error == pytest.approx(np.std(logs), rel=0.25)


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
