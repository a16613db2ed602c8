"""Tables of metrics: from the published layout, from evaluations, from numbers by item."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from evaluations import evaluate
from messages import assert_says
from run_frames import frame_of, write_run

from pact_eval import metrics
from pact_eval.calibration.temperatures import (
    Calibrator,
    Weights,
    neutral_calibrator,
    write_calibrator,
)
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import (
    MetricCell,
    MetricRow,
    MetricTable,
    collection_metrics,
    rows_from_evaluation,
)
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import (
    DECODINGS,
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    MetricDecoding,
    registered_metrics,
)
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.runs.predictions import Predictions

HEADER = "run,seed,decoding,group,count,pairs,accuracy,nll,ece,permutation_tv\n"


def csv_file(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "metrics.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def predictions() -> Predictions:
    """Two pairs of boolean and one of score items, two views."""
    items = [
        (f"{kind}-{family}-{variant}", kind, family, variant, reference, view)
        for kind, families in (("boolean", (0, 1)), ("score", (2,)))
        for family in families
        for reference, variant in enumerate(("base", "counterfactual"))
        for view in (0, 1)
    ]
    ids, kinds, families, variants, references, views = zip(*items, strict=True)
    return Predictions.from_frame(
        frame_of(
            id=ids,
            family=[f"f{family}" for family in families],
            kind=kinds,
            variant=variants,
            reference=references,
            view=views,
            code_order=[[0, 1] if view == 0 else [1, 0] for view in views],
            logits=[[0.0, 1.0 + view] for view in views],
            prompt_tokens=[300] * len(ids),
            answer_mass=[1.0] * len(ids),
        )
    )


def test_the_published_table_under_our_names(experiment_files: Path) -> None:
    path = experiment_files / "run_metrics.csv"
    table = read_metric_table(path)
    with path.open(encoding="utf-8", newline="") as file:
        lines = {
            (line["run"], line["seed"], line["decoding"], line["group"]): line
            for line in csv.DictReader(file)
        }
    assert len(table.arms) == 9
    assert table.seeds("pact_full") == (17, 18, 19)
    assert table.seeds("base_model") == ()

    def row(
        metric: str, arm: str, decoding: MetricDecoding, group: str, seed: int | None
    ) -> MetricRow:
        return table.row(MetricCell(metric, arm, decoding, group), seed)

    mae = row("score_mae", "pact_full", SINGLE, "all", 17)
    line = lines["pact_full", "17", "single", "all"]
    assert (mae.value, mae.n) == (float(line["expected_score_mae"]), 64)
    assert round(mae.value, 3) == 0.229
    boolean = row("accuracy", "pact_full", SINGLE, "boolean", 17)
    line = lines["pact_full", "17", "single", "noul"]
    assert (boolean.value, boolean.n) == (float(line["accuracy"]), 114)
    pairs = row("pair_accuracy", "pact_full", SINGLE, "all", 17)
    assert (round(pairs.value, 4), pairs.n) == (0.7284, 162)
    reason = row("ece", "pact_full", ENSEMBLE, "all", 17).reason
    assert_says(reason, "no ece", "pact_full seed 17", "(ensemble, all)")
    assert row("ece", "pact_full", ENSEMBLE_CALIBRATED, "all", 17).value < 0.1
    assert row("flip_rate", "pact_full", ENSEMBLE, "all", 17).value == pytest.approx(26 / 324)
    assert row("ece", "base_model", ENSEMBLE, "all", None).value > 0.2
    assert math.isnan(row("ece", "base_model", ENSEMBLE_CALIBRATED, "all", None).value)
    assert math.isnan(row("score_mae", "pact_full", SINGLE, "choice", 17).value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks decoding, group"):
        read_metric_table(csv_file(tmp_path, header="run,seed,accuracy\n"))
    with pytest.raises(InputError, match=":1: column ece appears twice"):
        read_metric_table(csv_file(tmp_path, header="run,seed,decoding,group,ece,ece\n"))
    with pytest.raises(InputError, match=":1: column group appears twice"):
        read_metric_table(csv_file(tmp_path, header="run,seed,decoding,group,group,ece,ece\n"))
    with pytest.raises(InputError, match="no such file"):
        read_metric_table(tmp_path / "missing.csv")
    with pytest.raises(InputError, match="a file, got a folder"):
        read_metric_table(tmp_path)
    (tmp_path / "bytes.csv").write_bytes(b"run,seed\n\xff\xfe")
    with pytest.raises(InputError, match="bytes.csv:2: not valid UTF-8"):
        read_metric_table(tmp_path / "bytes.csv")


def test_rows_of_an_evaluation() -> None:
    evaluation = evaluate(
        predictions(), decoding="single", by="kind", rng=np.random.default_rng(0), resamples=100
    )
    rows = rows_from_evaluation("a", 17, evaluation)
    assert {row.cell.metric for row in rows} == {spec.name for spec in registered_metrics()}
    assert {row.cell.group for row in rows} == {"all", "boolean", "score"}
    assert {row.cell.decoding for row in rows} == {SINGLE, ENSEMBLE}
    table = MetricTable(rows)
    accuracy = table.row(MetricCell("accuracy", "a", SINGLE, "all"), 17)
    assert (accuracy.value, accuracy.n) == (0.5, 6)
    assert math.isnan(accuracy.low)
    assert_says(accuracy.reason, "3 families", "fewer than 5", "no interval")
    tv = table.row(MetricCell("view_tv", "a", ENSEMBLE, "all"), 17)
    assert tv.value == pytest.approx(1 / (1 + math.exp(-2)) - 1 / (1 + math.exp(-1)))
    missing = table.row(MetricCell("view_tv", "a", SINGLE, "all"), 17).reason
    assert_says(missing, "no view_tv", "a seed 17", "(single, all)")
    reason = table.row(MetricCell("score_mae", "a", SINGLE, "boolean"), 17).reason
    assert_says(reason, "score_mae", "a seed 17", "(single, boolean)", "no score items")


def test_a_decoding_that_a_run_does_not_allow_leaves_the_others(tmp_path: Path) -> None:
    """The calibrator needs prompt lengths, which the run does not know."""
    frame = frame_of(id=list("aabb"), view=[0, 1] * 2, reference=[0] * 4, logits=[[1.0, 0.0]] * 4)
    folder = write_run(tmp_path / "run", frame)
    by_length = Calibrator("contextual", Weights((1.0, 0.0, 9.0), -0.4, -0.5))
    write_calibrator(folder / "calibration.json", by_length)
    table = collection_metrics(Experiment.read([folder]), by="kind")
    assert {row.cell.decoding for row in table.rows} == {SINGLE, ENSEMBLE}


def test_mean_confidence_against_hand_computation() -> None:
    run = predictions()
    items = ScoredItems.of(run, "single")
    estimates_by_group = point_estimates(items, "kind", ["mean_confidence"])
    assert list(estimates_by_group) == ["all", "boolean", "score"]
    confidence = metrics.confidence(run.log_probs("single"))
    for group, estimates in estimates_by_group.items():
        members = confidence if group == "all" else confidence[run.kind == group]
        estimate = estimates["mean_confidence"]
        assert estimate.value == pytest.approx(members.mean(), abs=1e-12)
        assert estimate.n == len(members)
        assert math.isnan(estimate.low)


def test_four_evaluations_of_one_run_make_one_table() -> None:
    run = predictions()
    evaluations = [
        evaluate(
            run,
            decoding=decoding,
            by="kind",
            rng=np.random.default_rng(0),
            resamples=100,
            calibrator=calibrator,
        )
        for decoding in ("single", "ensemble")
        for calibrator in (None, neutral_calibrator("scalar"))
    ]
    rows = [row for report in evaluations for row in rows_from_evaluation("a", 17, report)]
    table = MetricTable(rows)
    assert {row.cell.decoding for row in rows} == {*DECODINGS}
    flips = MetricCell("flip_rate", "a", ENSEMBLE_CALIBRATED, "all")
    assert table.row(flips, 17).value == 0.0
    assert math.isnan(table.row(MetricCell("view_tv", "a", ENSEMBLE_CALIBRATED, "all"), 17).value)
