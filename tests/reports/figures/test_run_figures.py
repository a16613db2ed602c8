"""Pairs, temperatures, training and selection: what is drawn, against hand computation."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reports.figures.drawn_axes import all_text, drawn, legend_texts, points
from reports.figures.figure_runs import name_adapter, rows, simulated, write_calibrator, write_log
from run_frames import write_run

from pact_eval._json import Json
from pact_eval.calibration import Calibrator, Weights
from pact_eval.calibration import write_calibrator as write_calibrator_file
from pact_eval.evaluation import CollectedRun, collect_runs
from pact_eval.runs.training_log import read_training_log
from pact_reports.figures import FIGURES, FigureRequest
from pact_reports.figures.pair_failures import draw_pairs, pairs_figure
from pact_reports.figures.selection import (
    SelectionFigure,
    draw_holdout,
    draw_trajectories,
    selection_figure,
)
from pact_reports.figures.temperature import (
    draw_choices,
    draw_length,
    length_figure,
    temperatures_by_choices,
)
from pact_reports.figures.training import draw_distances, draw_terms, smoothed, training_figure


def one_run(folder: Path) -> CollectedRun:
    return collect_runs([folder]).runs[0]


def test_pairs_against_numpy(request_: FigureRequest) -> None:
    run = request_.collection.runs[-1]
    result = pairs_figure(request_, run)
    right = run.scored().correct.reshape(-1, 2)
    everything = result.rows[0]
    assert everything.shares == pytest.approx(
        (
            right.all(axis=1).mean(),
            (right[:, 0] & ~right[:, 1]).mean(),
            (~right[:, 0] & right[:, 1]).mean(),
            (~right).all(axis=1).mean(),
        )
    )
    ax = drawn(partial(draw_pairs, result))
    widths = [patch.get_width() for patch in ax.patches]  # type: ignore[attr-defined]
    expected = [100 * row.shares[number] for number in range(4) for row in result.rows]
    np.testing.assert_allclose(widths, expected)
    assert next(label.get_text() for label in ax.get_yticklabels()) == "all\nn = 24"
    assert legend_texts(ax) == ["both right", "only base", "only counterfactual", "neither"]
    answers = run.scored().log_probs.argmax(axis=1).reshape(-1, 2)
    same = 100 * (answers[:, 0] == answers[:, 1]).mean()
    assert f"{same:.0f}" in {text.get_text() for text in ax.texts}
    assert ax.get_xlabel() == "Share of pairs (%)"
    assert len(ax.containers) == 8


def test_no_pairs_say_why_not(tmp_path: Path) -> None:
    frame = rows(1, families=6).filter(pl.col("variant") == "base")
    run = write_run(tmp_path / "run", frame, arm="pact", seed=1)
    built = FIGURES["pairs"].build(FigureRequest(collect_runs([run]), resamples=100))
    assert built.missing == ("pact, seed 1: no complete pairs",)


def test_temperature_against_the_formula(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=24), arm="pact", seed=1)
    write_calibrator(folder, a=1.0, b=0.5, c=-0.7)
    result = length_figure(one_run(folder))
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


def test_temperature_against_choices(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=24), arm="pact", seed=1)
    write_calibrator(folder, a=1.0, b=0.5, c=-0.7)
    request = FigureRequest(collect_runs([folder]))
    result = temperatures_by_choices(request)
    assert result.tokens == np.median(request.collection.runs[0].predictions.prompt_tokens)
    u = 1.0 + 0.5 * np.log([2, 3, 4, 5]) - 0.7 * np.log(result.tokens / 1000)
    np.testing.assert_allclose(result.runs[0].temperature, np.log1p(np.exp(u)))
    ax = drawn(partial(draw_choices, result))
    np.testing.assert_allclose(points(ax.lines[0])[1], result.runs[0].temperature)
    assert list(ax.get_xticks()) == [2, 3, 4, 5]
    assert f"n = 1 run at L = {result.tokens:.0f} tokens" in all_text(ax)


def test_a_slope_that_is_not_identified_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=24), arm="pact", seed=1)
    said: list[Json] = [
        {"name": name, "identified": False} for name in ("log_choices", "log_tokens")
    ]
    calibrator = Calibrator("contextual", Weights((1.0,) * 3, 0.5, -0.7), {"parameters": said})
    write_calibrator_file(folder / "calibration.json", calibrator)
    run = one_run(folder)
    assert "not identified" in all_text(drawn(partial(draw_length, length_figure(run))))
    request = FigureRequest(collect_runs([folder]))
    ax = drawn(partial(draw_choices, temperatures_by_choices(request)))
    assert ax.lines[0].get_markerfacecolor() == "white"
    assert "hollow: slope not identified" in all_text(ax)


@pytest.mark.parametrize("mode", ["scalar", "per-kind"])
def test_a_calibrator_without_slopes_has_no_length(tmp_path: Path, mode: str) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    write_calibrator(folder, b=0.0, c=0.0, mode=mode)  # type: ignore[arg-type]
    built = FIGURES["temperature-length"].build(FigureRequest(collect_runs([folder])))
    why = f"pact, seed 1: T(x) does not depend on prompt length ({mode} calibrator)"
    assert built.missing == (why,)
    assert FIGURES["temperature-choices"].build(FigureRequest(collect_runs([folder]))).plates


def test_smoothing_against_weighted_means() -> None:
    values = np.array([1.0, 4.0, -2.0, 0.5])
    weights = 0.9 ** np.arange(4)
    expected = [
        (values[: n + 1] * weights[: n + 1][::-1]).sum() / weights[: n + 1].sum() for n in range(4)
    ]
    np.testing.assert_allclose(smoothed(values), expected)


def test_training_against_the_log(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="pact", seed=1)
    log = read_training_log(write_log(tmp_path / "adapter", steps=40))
    name_adapter(folder, tmp_path / "adapter")
    result = training_figure(one_run(folder))
    assert set(result.terms) == {"ce", "cf", "pc", "nr", "emd"}
    assert result.terms["nr"].steps.tolist() == [step for step in range(1, 41) if step % 5]
    np.testing.assert_allclose(result.terms["ce"].values, log.columns["ce"])
    ax = drawn(partial(draw_terms, result))
    np.testing.assert_allclose(points(ax.lines[0])[1], smoothed(log.columns["ce"]))
    assert "NR (nats²)" in legend_texts(ax)
    assert ax.get_yscale() == "log"
    assert "n = 40 steps" in all_text(ax)
    below = drawn(partial(draw_distances, result))
    np.testing.assert_allclose(points(below.lines[0])[1], log.columns["pair_margin"])
    assert legend_texts(below) == ["mean d", "mean ablated gap", "m = 2"]
    assert "(nats)" in below.get_ylabel()


def test_training_draws_what_the_log_has(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="ce_only", seed=1)
    (tmp_path / "adapter").mkdir()
    lines = [json.dumps({"step": step, "ce": 1 / step, "nr": 0.0}) for step in (1, 2, 3)]
    (tmp_path / "adapter" / "log.jsonl").write_text("\n".join(lines))
    name_adapter(folder, tmp_path / "adapter")
    result = training_figure(one_run(folder))
    ax = drawn(partial(draw_terms, result))
    assert np.isnan(points(ax.lines[1])[1]).all()
    built = FIGURES["training"].build(FigureRequest(collect_runs([folder])))
    assert len(built.plates[0].panels) == 1
    with pytest.raises(ValueError, match="lacks selection_nll_nats"):
        FIGURES["selection"].build(FigureRequest(collect_runs([folder])))


def test_selection_against_the_log(tmp_path: Path) -> None:
    collection = simulated(tmp_path, arms=("pact",), seeds=(1, 2), base=False, families=12)
    request = FigureRequest(collection, resamples=100)
    runs = [selection_figure(request, run) for run in collection.runs]
    log = read_training_log(tmp_path / "adapter-0-1" / "log.jsonl")
    nll = log.columns["selection_nll_nats"]
    assert runs[0].selected_nll_nats == np.nanmin(nll)
    assert runs[0].selected_step == log.steps[np.nanargmin(nll)]
    assert runs[0].accuracy.value == collection.runs[0].scored().correct.mean()
    result = SelectionFigure(tuple(runs), request.styles)
    ax = drawn(partial(draw_trajectories, result))
    np.testing.assert_allclose(points(ax.lines[0])[1], nll[~np.isnan(nll)])
    star = np.asarray(ax.collections[0].get_offsets())[0]
    np.testing.assert_allclose(star, [runs[0].selected_step, runs[0].selected_nll_nats])
    assert legend_texts(ax) == ["pact", "seed 1", "seed 2"]
    assert ax.get_ylabel() == "Selection NLL (nats)"
    below = drawn(partial(draw_holdout, result))
    assert below.get_ylabel() == "Holdout accuracy (%)"
    assert "n = 24 items, 12 families; whiskers: 95%" in all_text(below)
    found = [bar[0].get_xydata()[0].tolist() for bar in below.containers]
    assert found == [[run.selected_nll_nats, 100 * run.accuracy.value] for run in runs]
