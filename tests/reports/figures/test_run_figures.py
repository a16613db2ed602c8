"""Pairs, temperatures, training and selection: what is drawn, against hand computation."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.collections import LineCollection
from messages import assert_says
from reports.figures.drawn_axes import all_text, drawn, legend_texts, points
from reports.figures.figure_runs import (
    experiment_of,
    name_adapter,
    rows,
    simulated,
    write_calibrator,
    write_log,
)
from run_frames import write_run

from pact_eval._json import Json
from pact_eval.calibration.files import write_calibrator as write_calibrator_file
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.evaluation.curves.margins import run_margins
from pact_eval.evaluation.curves.temperatures import temperature_by_choices, temperature_by_length
from pact_eval.evaluation.curves.training import selection_trajectory, smoothed, training_curves
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.runs.training_log import read_training_log
from pact_reports.figures.margins import draw_leads, draw_margins
from pact_reports.figures.pairs import draw_pairs
from pact_reports.figures.style import PAPER, Looks
from pact_reports.figures.temperatures import draw_choices, draw_length
from pact_reports.figures.training import (
    draw_distances,
    draw_holdout,
    draw_terms,
    draw_trajectories,
)
from pact_reports.tables.request import TableRequest
from pact_reports.tables.selection import build_selection


def one_run(folder: Path) -> ExperimentRun:
    return experiment_of([folder]).runs[0]


def test_pairs_against_numpy(experiment: Experiment) -> None:
    run = experiment.runs[-1]
    groups = experiment.evaluation(run).groups
    ax = drawn(partial(draw_pairs, groups))
    widths = [patch.get_width() for patch in ax.patches]  # type: ignore[attr-defined]
    expected = []
    for group in groups:
        of_group = group.name == run.predictions.kind[::2]
        right = run.scored().correct.reshape(-1, 2)[of_group if group.name != "all" else ...]
        base, other = right.T
        expected.append(
            [both.mean() for both in (base & other, base & ~other, ~base & other, ~base & ~other)]
        )
    np.testing.assert_allclose(widths, 100 * np.array(expected).T.ravel())
    assert next(label.get_text() for label in ax.get_yticklabels()) == "all\nn = 24"
    names = ["both right", "only base", "only counterfactual", "neither"]
    assert legend_texts(ax) == [*names, "95% over families"]
    answers = run.scored().log_probs.argmax(axis=1).reshape(-1, 2)
    same = 100 * (answers[:, 0] == answers[:, 1]).mean()
    assert f"{same:.0f}" in {text.get_text() for text in ax.texts}
    assert ax.get_xlabel() == "Share of pairs (%)"
    intervals = [lines for lines in ax.collections if isinstance(lines, LineCollection)]
    assert len(intervals) == 4


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


def test_training_against_the_log(tmp_path: Path, looks: Looks) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    log = read_training_log(write_log(tmp_path / "adapter", steps=40))
    name_adapter(folder, tmp_path / "adapter")
    result = training_curves(one_run(folder))
    assert set(result.terms) == {"ce", "cf", "pc", "nr", "emd"}
    assert result.terms["nr"].steps.tolist() == [step for step in range(1, 41) if step % 5]
    np.testing.assert_allclose(result.terms["ce"].values, log.columns["ce"])
    ax = drawn(partial(draw_terms, result, looks=looks))
    np.testing.assert_allclose(points(ax.lines[0])[1], smoothed(log.columns["ce"]))
    assert "NR (nats²)" in legend_texts(ax)
    assert ax.get_yscale() == "log"
    assert "n = 40 steps" in all_text(ax)
    below = drawn(partial(draw_distances, result, looks=looks))
    np.testing.assert_allclose(points(below.lines[0])[1], log.columns["pair_margin"])
    assert legend_texts(below) == ["mean d", "mean ablated gap", "m = 2"]
    assert "(nats)" in below.get_ylabel()


def test_selection_against_the_log(tmp_path: Path) -> None:
    experiment = simulated(tmp_path, arms=("pact",), seeds=(1, 2), base=False, families=12)
    looks = Looks.of(experiment)
    runs = [selection_trajectory(experiment, run) for run in experiment.runs]
    log = read_training_log(tmp_path / "adapter-0-1" / "log.jsonl")
    nll = log.columns["selection_nll_nats"]
    assert runs[0].selected_nll_nats == np.nanmin(nll)
    assert runs[0].selected_step == log.steps[np.nanargmin(nll)]
    assert runs[0].accuracy.value == experiment.runs[0].scored().correct.mean()
    ax = drawn(partial(draw_trajectories, runs, looks=looks))
    np.testing.assert_allclose(points(ax.lines[0])[1], nll[~np.isnan(nll)])
    star = np.asarray(ax.collections[0].get_offsets())[0]
    np.testing.assert_allclose(star, [runs[0].selected_step, runs[0].selected_nll_nats])
    assert legend_texts(ax) == ["pact", "seed 1", "seed 2"]
    assert ax.get_ylabel() == "Selection NLL (nats)"
    below = drawn(partial(draw_holdout, runs, looks=looks))
    assert below.get_ylabel() == "Holdout accuracy (%)"
    assert "n = 24 items, 12 families; whiskers: 95%" in all_text(below)
    crosses = [bar[0].get_xydata()[0].tolist() for bar in below.containers]
    assert crosses == [[run.selected_nll_nats, 100 * run.accuracy.value] for run in runs]
    table = build_selection(TableRequest(experiment))
    assert [row.cells[4].numbers + row.cells[6].numbers for row in table.rows] == [
        (run.selected_nll_nats, run.accuracy.value) for run in runs
    ]
    (reason,) = table.reasons
    assert_says(reason, "training log", "no accuracy", "selection")
