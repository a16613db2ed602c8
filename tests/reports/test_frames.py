"""Results as data frames: against the JSON of the commands, and a hand computation per item."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from run_frames import ablated_rows, frame_of, rows, write_run
from spoiled_datasets import healthy
from thresholds.simulated import run as simulated

import pact_eval
from pact_cli.audit.main import main as audit_program
from pact_cli.main import main
from pact_eval.results import Framed, Result
from pact_eval.runs.folder import read_any_run

SETTINGS = pact_eval.Settings(resamples=200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("runs")
    return write_run(home / "a", rows(1)), write_run(home / "b", rows(2))


def printed(*words: object) -> Any:
    return json.loads(CliRunner().invoke(main, [*map(str, words), "--json"]).stdout)


def equal(value: float | None, expected: float | None) -> bool:
    return value == expected or (value is not None and math.isclose(value, expected or 0.0))


def test_a_report_against_its_json(runs: tuple[Path, Path]) -> None:
    frame = pact_eval.evaluate(runs[0], SETTINGS).frame()
    report = printed("report", runs[0], "--resamples", 200)
    expected = [
        (group["name"], name, estimate)
        for group in report["groups"]
        for name, estimate in group["metrics"].items()
    ]
    assert frame.height == len(expected) > 30
    for row, (group, name, estimate) in zip(frame.iter_rows(named=True), expected, strict=True):
        assert (row["group"], row["metric"], row["decoding"]) == (group, name, "single")
        for column in ("value", "low", "high"):
            assert equal(row[column], estimate[column]), (group, name, column)
        assert (row["n"], row["clusters"]) == (estimate["n"], estimate["families"])
        assert row["reason"] == estimate["reason"]


def test_a_comparison_against_its_json(runs: tuple[Path, Path]) -> None:
    frame = pact_eval.compare(*runs, SETTINGS).frame()
    (compared,) = printed("compare", *runs, "--resamples", 200)["comparisons"]
    at = {(row["group"], row["metric"]): row for row in frame.iter_rows(named=True)}
    for group in compared["comparison"]["groups"]:
        for name, metric in group["metrics"].items():
            row = at.pop((group["name"], name))
            assert equal(row["a"], metric["a"]["value"])
            assert equal(row["difference"], metric["difference"]["value"])
            assert equal(row["low"], metric["difference"]["low"])
            assert row["marked"] == metric["evidence"]["marked"]
            assert equal(row["p_value"], metric["evidence"]["p_value"])
    assert not at


def test_the_items_of_a_run_against_a_hand_computation(tmp_path: Path) -> None:
    logits = [[0.0, math.log(3)], [math.log(4), 0.0]]
    frame = frame_of(id=["i", "i"], view=[0, 1], reference=[1, 1], logits=logits)
    run = pact_eval.read_run(write_run(tmp_path / "run", frame))
    (single,) = run.frame().iter_rows(named=True)
    assert (single["predicted"], single["correct"]) == (1, True)
    assert single["confidence"] == pytest.approx(0.75)
    assert single["nll"] == pytest.approx(-math.log(0.75))
    assert single["probabilities"] == pytest.approx([0.25, 0.75])
    (together,) = run.frame("ensemble").iter_rows(named=True)
    assert together["probabilities"] == pytest.approx(np.array([2, math.sqrt(3)]) / 3.7320508)


def test_what_ablated_contexts_and_answers_lack(tmp_path: Path) -> None:
    ablated = read_any_run(write_run(tmp_path / "ablated", ablated_rows(1)))
    frame = ablated.frame()
    assert frame["reference"].null_count() == frame["nll"].null_count() == frame.height > 0
    assert frame["confidence"].null_count() == 0


def test_thresholds_have_a_row_per_gate(tmp_path: Path) -> None:
    thresholds = pact_eval.choose_thresholds(simulated(tmp_path / "run", seed=1), 0.2)
    frame = thresholds.frame()
    assert frame.height == len(thresholds.gates) == 1
    gate = thresholds.gates[0]
    assert frame["threshold"][0] == gate.chosen.threshold
    assert frame["share"][0] == pytest.approx(gate.coverage.value)


def test_findings_have_their_place(tmp_path: Path) -> None:
    data = healthy()
    data.holdout[0]["reference"]["target"] = "nothing of the sort"
    frame = pact_eval.audit_dataset(data.write(tmp_path / "data")).frame()
    errors = frame.filter(pl.col("severity") == "error")
    assert errors["id"][0] == data.holdout[0]["id"]
    assert errors["line"][0] == 1
    assert errors["file"][0].endswith("holdout.jsonl")


def test_pandas_reads_a_frame(runs: tuple[Path, Path]) -> None:
    """By its columns, which needs no pyarrow."""
    frame = pact_eval.evaluate(runs[0], SETTINGS).frame()
    read = import_module("pandas").DataFrame(frame.to_dict(as_series=False))
    assert list(read.columns) == frame.columns
    assert read["value"].isna().sum() == frame["value"].null_count() > 0
    assert read.loc[0, "value"] == frame["value"][0]


@pytest.mark.filterwarnings("ignore:Conversion using Arrow PyCapsule Interface failed")
def test_pandas_reads_every_frame_through_the_interchange_protocol(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    pandas = import_module("pandas")
    data = healthy()
    data.holdout[0]["reference"]["target"] = "nothing of the sort"
    frames = [
        pact_eval.compare(*runs, SETTINGS).frame(),
        pact_eval.choose_thresholds(simulated(tmp_path / "run", seed=1), 0.2).frame(),
        pact_eval.audit_dataset(data.write(tmp_path / "data")).frame(),
        pact_eval.read_run(runs[0]).frame().drop("probabilities"),
    ]
    for frame in frames:
        read = pandas.api.interchange.from_dataframe(frame)
        assert (len(read), list(read.columns)) == (frame.height, frame.columns)
        assert len(read) > 0
        assert read.isna().sum().tolist() == [series.null_count() for series in frame]


def test_dictionaries_are_the_json_of_the_commands(runs: tuple[Path, Path], tmp_path: Path) -> None:
    calibration = simulated(tmp_path / "run", seed=1)
    folder = healthy(families=6).write(tmp_path / "data")
    audited = json.loads(CliRunner().invoke(audit_program, ["data", str(folder), "--json"]).stdout)
    for name in ("tool", "version", "command_line"):
        del audited[name]
    fast = ("--resamples", 200, "--full")
    report = pact_eval.Experiment.read([runs[0]], SETTINGS).report()
    chosen = pact_eval.choose_thresholds(calibration, 0.2)
    of_command = printed("report", runs[0], *fast)
    pairs: list[tuple[Result, Any]] = [
        (report, of_command),
        (pact_eval.read_run(runs[0]), {"run": of_command["run"]}),
        (pact_eval.compare(*runs, SETTINGS), printed("compare", *runs, *fast)),
        (chosen, printed("thresholds", calibration, "--target-error", 0.2)),
        (pact_eval.audit_dataset(folder), audited),
    ]
    for result, expected in pairs:
        value = result.to_dict()
        assert value == result.to_json()
        assert json.loads(json.dumps(value)) == expected, type(result)


def test_repr_is_one_line(runs: tuple[Path, Path], tmp_path: Path) -> None:
    holdout = healthy().write(tmp_path) / "holdout.jsonl"
    experiment = pact_eval.Experiment.read(runs, SETTINGS)
    report = experiment.report()
    results: list[object] = [
        pact_eval.evaluate(runs[0], SETTINGS),
        pact_eval.compare(*runs, SETTINGS),
        pact_eval.read_run(runs[0]),
        report,
        experiment,
        SETTINGS,
        *report.conclusions,
        *experiment.comparisons.better_runs,
        *pact_eval.read_records(holdout)[:1],
    ]
    for result in results:
        text = repr(result)
        assert "\n" not in text
        assert len(text) <= 200
        assert text.startswith(type(result).__name__)
    assert repr(results[2]) == "Run('a', 60 items, K = 3)"


def test_a_run_is_a_card_in_a_notebook(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", rows(1), arm="<script>", seed=17)
    run = pact_eval.read_run(folder)
    html = run._repr_html_()
    for fact in ("&lt;script&gt;", "17", "60 items in 30 families", "K = 3"):
        assert fact in html
    assert "<script>" not in html
    ablated = read_any_run(write_run(tmp_path / "b", ablated_rows(1)))
    assert "ablated contexts" in ablated._repr_html_()
    log = tmp_path / "rows.jsonl"
    log.write_text('{"id": "a", "reference": 1, "p": [0.25, 0.75]}')
    imported = pact_eval.import_run(log, tmp_path / "c", map={"probabilities": "p"})
    assert "1 item in 1 family" in imported._repr_html_()


def test_only_results_with_rows_have_a_frame() -> None:
    from pact_eval.drift.drift import Drift

    assert not issubclass(Drift, Framed)
    assert not hasattr(Drift, "frame")
