"""Sentences on what temperatures change, against scores by hand."""

from __future__ import annotations

import math

import pytest

from pact_eval.calibration.effect import CalibrationEffect, GroupEffect, Scores
from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.stats.estimate import Estimate


def effect(
    nll: tuple[float, float, float], brier: tuple[float, float], ece: tuple[float, float]
) -> CalibrationEffect:
    before, after = (Scores(1.0, b, e, 0.1, 0.8, 0.02) for b, e in zip(brier, ece, strict=True))
    change = Estimate(*nll, n=200, clusters=100)
    group = GroupEffect(
        "all", 200, 100, TemperatureSummary(1.0, 1.0, 1.0), before, after, {"nll_nats": change}, {}
    )
    return CalibrationEffect(None, (group,), ())


@pytest.mark.parametrize(
    ("nll", "brier", "ece", "expected"),
    [
        (
            (-0.02, -0.03, -0.01),
            (0.412, 0.405),
            (0.059, 0.023),
            "the probabilities get better: NLL -0.020 [-0.030, -0.010]; "
            "Brier 0.412 to 0.405, ECE 5.9 to 2.3%",
        ),
        (
            (-0.02, -0.03, -0.01),
            (0.405, 0.412),
            (0.023, 0.059),
            "NLL gets better, -0.020 [-0.030, -0.010], but Brier 0.405 to 0.412 and "
            "ECE 2.3 to 5.9% worse",
        ),
        (
            (0.02, 0.01, 0.03),
            (0.40501, 0.40502),
            (0.023, 0.059),
            "the probabilities get worse: NLL +0.020 [+0.010, +0.030]; "
            "Brier 0.405 to 0.405, ECE 2.3 to 5.9%",
        ),
        (
            (-0.002, -0.01, 0.006),
            (0.412, 0.405),
            (0.023, 0.059),
            "no effect on the probabilities shown: NLL -0.002 [-0.010, +0.006]; "
            "Brier 0.412 to 0.405, ECE 2.3 to 5.9%",
        ),
    ],
)
def test_what_gets_better_and_what_worse_is_said(
    nll: tuple[float, float, float],
    brier: tuple[float, float],
    ece: tuple[float, float],
    expected: str,
) -> None:
    assert effect(nll, brier, ece).text == expected


def test_no_interval_shows_no_effect() -> None:
    text = effect((-0.3, math.nan, math.nan), (0.4, 0.3), (0.1, 0.1)).text
    assert text.startswith("no effect on the probabilities shown: NLL -0.300; Brier ")
