"""Pairs, temperatures, training and selection: what is drawn, against hand computation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from reports.figures.drawn_axes import all_text, drawn, legend_texts
from reports.figures.figure_runs import (
    experiment_of,
    rows,
    write_calibrator,
)
from run_frames import write_run

from pact_eval._json import Json
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.calibration.temperatures import write_calibrator as write_calibrator_file
from pact_eval.evaluation.curves.distributions import run_margins
from pact_eval.evaluation.curves.probabilities import temperature_by_choices, temperature_by_length
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_reports.figures.pairs import draw_leads, draw_margins
from pact_reports.figures.probabilities import draw_choices, draw_length
from pact_reports.figures.style import PAPER, Looks


def one_run(folder: Path) -> ExperimentRun:
    return experiment_of([folder]).runs[0]


def test_margins_against_numpy(experiment: Experiment) -> None:
    run = experiment.runs[-1]
    views, log_probs = run.predictions, run.scored().log_probs
    own, other = views.reference, views.reference.reshape(-1, 2)[:, ::-1].ravel()
    rows = np.arange(len(views))
    leads = (log_probs[rows, own] - log_probs[rows, other]).reshape(-1, 2)
    contrasted = (own != other)[::2]
    margins = leads.sum(axis=1)[contrasted]
    result = run_margins(experiment, run)
    np.testing.assert_allclose(np.sort(result.margins), np.sort(margins))
    ax = drawn(partial(draw_margins, result))
    bars = [(patch.get_x(), patch.get_height()) for patch in ax.patches]  # type: ignore[attr-defined]
    assert sum(height for _, height in bars) == margins.size
    below = sum(height for x, height in bars if x < -1e-9)
    assert below == (margins < 0).sum()
    assert legend_texts(ax) == [
        f"mean {margins.mean():.2f}",
        f"at or below 0: {100 * (margins <= 0).mean():.1f}%",
        f"below m = 2: {100 * (margins < 2).mean():.1f}%",
    ]
    points = [marks.get_offsets() for marks in drawn(partial(draw_leads, result)).collections]
    np.testing.assert_allclose(
        np.sort(np.concatenate(points), axis=0), np.sort(leads[contrasted], axis=0)
    )


def test_temperature_against_the_formula(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=24), arm="pact", seed=1)
    write_calibrator(folder, a=1.0, b=0.5, c=-0.7)
    result = temperature_by_length(one_run(folder))
    predictions = one_run(folder).predictions
    assert [curve.n_choices for curve in result.curves] == sorted(set(predictions.n_choices))
    for curve in result.curves:
        u = 1.0 + 0.5 * np.log(curve.n_choices) - 0.7 * np.log(curve.tokens / 1000)
        np.testing.assert_allclose(curve.temperature, np.log1p(np.exp(u)))
        lengths = predictions.prompt_tokens[predictions.n_choices == curve.n_choices]
        assert (curve.tokens[0], curve.tokens[-1]) == (lengths.min(), lengths.max())
        assert curve.items == lengths.size
    ax = drawn(partial(draw_length, result))
    assert legend_texts(ax)[0] == f"C = 2 ({result.curves[0].items})"
    assert ax.get_xlabel() == "Prompt length L (tokens)"
    assert "n = 48 items" in all_text(ax)


def test_a_slope_that_is_not_identified_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=24), arm="pact", seed=1)
    slopes: list[Json] = [
        {"name": name, "identified": False} for name in ("log_choices", "log_tokens")
    ]
    calibrator = Calibrator("contextual", Weights((1.0,) * 3, 0.5, -0.7), {"parameters": slopes})
    write_calibrator_file(folder / "calibration.json", calibrator)
    run = one_run(folder)
    assert "not identified" in all_text(drawn(partial(draw_length, temperature_by_length(run))))
    experiment = experiment_of([folder])
    result = temperature_by_choices(experiment)
    ax = drawn(partial(draw_choices, result, looks=Looks.of(experiment)))
    assert ax.lines[0].get_markerfacecolor() == PAPER
    assert "hollow: slope not identified" in all_text(ax)
