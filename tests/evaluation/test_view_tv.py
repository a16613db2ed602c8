"""Quantiles of view TV against numpy, and view TV that an imported log states."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import RecordError, RunError
from pact_eval.evaluation.curves.distributions import view_tv_distribution
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.report import ViewTvQuantiles
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.import_run import import_run
from pact_eval.runs.predictions import Predictions
from pact_eval.thresholds.gates import sureness


def imported(folder: Path, stated: list[float | None], **more: Any) -> Path:
    lines = [
        {"id": f"{at}", "reference": 1, "probabilities": [0.25, 0.75]}
        | ({} if tv is None else {"permutation_tv": tv})
        | more
        for at, tv in enumerate(stated)
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    import_run(path, folder / "run", {"arm": "a", "seed": 1})
    return folder / "run"


def run_and_quantiles(folder: Path) -> tuple[Experiment, ExperimentRun, ViewTvQuantiles | None]:
    experiment = Experiment.read([folder], Settings(resamples=60))
    (run,) = experiment.runs
    return experiment, run, experiment.evaluation(run).view_tv


def test_the_view_tv_of_a_log(tmp_path: Path) -> None:
    stated: list[float | None] = [0.0, 0.005, 0.02, 0.4]
    folder = imported(tmp_path, stated)
    experiment, run, quantiles = run_and_quantiles(folder)
    assert quantiles is not None
    assert astuple(quantiles) == pytest.approx((4, 0.0125, 0.286, 0.4, 0.5, True))
    estimates = experiment.evaluation(run).groups[0].estimates
    assert estimates["view_tv"].value == pytest.approx(np.mean(np.array(stated, dtype=float)))
    assert np.isnan(estimates["flip_rate"].value)
    # A gate would need the views of new items, which this run does not have.
    assert sureness(run.scored(), "disagreement") is None
    items = read_items(folder / "predictions.parquet", "single")
    np.testing.assert_array_equal(items.values["view_tv"], run.scored().values["view_tv"])
    (curve,) = view_tv_distribution(experiment).arms
    assert curve.summary == pytest.approx([estimates["view_tv"].value])
    text = CliRunner().invoke(main, ["report", str(folder), "--full"]).stdout
    assert_says(text, "View TV of 4 items", "log states", "median 1.2%")
    assert "2 (50%) below 1%" in " ".join(text.split())


def test_items_without_a_stated_view_tv_do_not_count(tmp_path: Path) -> None:
    folder = imported(tmp_path, [None, 0.1, 0.3])
    experiment, run, quantiles = run_and_quantiles(folder)
    assert quantiles is not None
    assert astuple(quantiles) == pytest.approx((2, 0.2, 0.28, 0.3, 0.0, True))
    estimate = experiment.evaluation(run).groups[0].estimates["view_tv"]
    assert estimate.value == pytest.approx(0.2)
    assert estimate.n == 2
    items = read_items(folder / "predictions.parquet", "single")
    np.testing.assert_array_equal(items.values["view_tv"], run.scored().values["view_tv"])


def test_of_several_views_the_stated_value_is_not_used(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "reference": 0, "view": view, "code_order": order, "view_tv": 0.9}
        | {"probabilities": [0.5, 0.5]}
        for view, order in enumerate(([0, 1], [1, 0]))
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    import_run(path, tmp_path / "run", {"arm": "a", "seed": 1})
    quantiles = run_and_quantiles(tmp_path / "run")[2]
    assert quantiles == ViewTvQuantiles(1, 0.0, 0.0, 0.0, 1.0, recorded=False)


@pytest.mark.parametrize("stated", [-0.1, 1.5, "much", True])
def test_a_view_tv_that_is_none_is_refused(tmp_path: Path, stated: Any) -> None:
    with pytest.raises(RecordError, match="view_tv: expected a number from 0 to 1"):
        imported(tmp_path, [stated])


@pytest.mark.parametrize(
    ("column", "value"),
    [("view_tv", "x"), ("view_tv", [0.5]), ("view_tv", True), ("censored", "x"), ("accepted", 1)],
)
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str, value: Any) -> None:
    path = imported(tmp_path, [0.5]) / "predictions.parquet"
    frame = pl.read_parquet(path).with_columns(pl.lit(value).alias(column))
    frame.write_parquet(path)
    with pytest.raises(RunError, match=f"column {column}: expected"):
        Predictions.from_frame(frame)
    if column != "censored":  # which is not read in slices
        with pytest.raises(RunError, match=f"column {column}: expected"):
            read_items(path, "single")
