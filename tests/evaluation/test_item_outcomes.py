"""Outcomes of items and of pairs, counted by hand from the logits of a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from run_frames import frame_of, write_run

from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    inverse_softplus,
    write_calibrator,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import item_distributions, item_outcomes

# Three pairs: both right; both wrong with one answer; one right. A seventh item is alone.
ANSWERS = [0, 1, 0, 0, 1, 1, 0]
REFERENCES = [0, 1, 1, 1, 0, 1, 0]


def test_pairs_by_hand(tmp_path: Path) -> None:
    frame = frame_of(
        id=list("abcdefg"),
        family=["p", "p", "q", "q", "r", "r", "s"],
        variant=["base", "counterfactual"] * 3 + ["base"],
        reference=REFERENCES,
        logits=[[2.0 * (answer == 0), 2.0 * (answer == 1)] for answer in ANSWERS],
    )
    experiment = Experiment.read([write_run(tmp_path / "run", frame)])
    outcomes = item_outcomes(experiment, experiment.runs[0])
    assert outcomes.predicted.tolist() == ANSWERS
    assert outcomes.partner.tolist() == [1, 0, 3, 2, 5, 4, -1]
    assert np.flatnonzero(outcomes.pair_right).tolist() == [0, 1]
    assert np.flatnonzero(outcomes.pair_wrong).tolist() == [2, 3]
    assert np.flatnonzero(outcomes.pair_same).tolist() == [2, 3, 4, 5]


def test_outcomes_by_hand(tmp_path: Path) -> None:
    """Two items of three views: the first answer changes, and the second is surely wrong."""
    views = [[0.82, 0.4, 0.7], [0.96, 0.95, 0.9]]
    frame = frame_of(
        id=["a"] * 3 + ["b"] * 3,
        view=[0, 1, 2] * 2,
        reference=[0] * 3 + [1] * 3,
        code_order=[[0, 1], [1, 0], [0, 1]] * 2,
        logits=[[math.log(p), math.log(1 - p)] for row in views for p in row],
        answer_mass=[0.9, None, 0.7, None, None, None],
        prompt_tokens=[200, 201, 202, 300, 301, 302],
    )
    experiment = Experiment.read([write_run(tmp_path / "run", frame)])
    run = experiment.runs[0]
    outcomes = item_outcomes(experiment, run)
    assert outcomes.predicted.tolist() == [0, 0]
    assert outcomes.correct.tolist() == [True, False]
    assert outcomes.flipped.tolist() == [True, False]
    assert outcomes.confident_error.tolist() == [False, True]
    assert outcomes.raw.confidence == pytest.approx([0.82, 0.96], abs=1e-6)
    assert outcomes.raw.bin.tolist() == [12, 14]
    assert outcomes.of_reference == pytest.approx([0.82, 0.04], abs=1e-6)
    # The third view repeats the order of the first, and does not count.
    assert outcomes.view_tv == pytest.approx([0.42, 0.01], abs=1e-6)
    assert outcomes.answer_mass == pytest.approx([0.8, math.nan], nan_ok=True, abs=1e-6)
    assert outcomes.prompt_tokens.tolist() == [200, 300]
    assert not outcomes.paired.any()
    assert outcomes.calibrated is None
    assert outcomes.right_repeats is None
    shown = item_distributions(experiment, run)
    assert shown.names == ("view 0", "view 1", "view 2", "ensemble")
    assert shown.probabilities[0, :3, 0] == pytest.approx(views[0], abs=1e-6)
    u = [math.prod(row) ** (1 / 3) for row in (views[0], [1 - p for p in views[0]])]
    assert shown.probabilities[0, 3] == pytest.approx([u[0] / sum(u), u[1] / sum(u)], abs=1e-6)
    assert shown.tops.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert shown.used.all()
    one = Experiment.read([write_run(tmp_path / "one", frame.filter(pl.col("view") == 0))])
    assert item_distributions(one, one.runs[0]).names == ("view 0",)
    assert np.isnan(item_outcomes(one, one.runs[0]).view_tv).all()


def test_a_temperature_changes_confidence_and_no_answer(tmp_path: Path) -> None:
    frame = frame_of(
        id=["a", "b"], reference=[0, 0], logits=[[math.log(0.9), math.log(0.1)], [0.0, 1.0]]
    )
    folder = write_run(tmp_path / "run", frame)
    hot = Calibrator("scalar", Weights((inverse_softplus(2.0),) * 3))
    write_calibrator(folder / "calibration.json", hot)
    experiment = Experiment.read([folder])
    outcomes = item_outcomes(experiment, experiment.runs[0])
    assert outcomes.calibrated is not None
    expected = [0.75, 1 / (1 + math.exp(-0.5))]
    assert outcomes.calibrated.confidence == pytest.approx(expected, abs=1e-6)
    assert outcomes.raw.confidence == pytest.approx([0.9, 1 / (1 + math.exp(-1))], abs=1e-6)
    shown = item_distributions(experiment, experiment.runs[0])
    assert shown.names == ("view 0", "single after T(x)")
    assert shown.probabilities[:, 1].max(axis=1) == pytest.approx(expected, abs=1e-6)
