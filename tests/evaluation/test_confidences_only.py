"""Runs of answers with their confidence, and of (confidence, right) pairs alone.

Numbers of the most probable answer are those of the same run with all probabilities. Everything
else must be absent, with a reason.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import refuser, runner
from messages import assert_says

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.report import Evaluation
from pact_eval.importing.row_reader import confident_logits, fewest_answers
from pact_eval.importing.stored import how_read
from pact_eval.runs.folder import read_run

run = runner(main)
refused = refuser(main)

REASON = "only the confidence of the answer is known"
DEFINED = {"accuracy", "pair_accuracy", "flip_rate", "order_accuracy", "score_level_mae"}
DEFINED |= {"ece", "aurc", "confident_errors"}
LABELS = ("refund", "reject", "replace")


def drawn(seed: int = 1) -> list[dict[str, Any]]:
    """Return rows with everything: the tests leave out what a table does not know."""
    draw, rows = np.random.default_rng(seed), []
    for number in range(120):
        probabilities = draw.dirichlet([1.0, 1.0, 1.0]).tolist()
        prediction = int(np.argmax(probabilities))
        reference = prediction if draw.random() < 0.6 else int(draw.integers(3))
        row = {
            "id": f"i{number}",
            "family": f"f{number // 2}",
            "variant": ("base", "counterfactual")[number % 2],
            "label": LABELS[reference],
            "prediction": LABELS[prediction],
            "confidence": max(probabilities),
            "correct": prediction == reference,
        }
        rows.append(row | {f"p_{n}": p for n, p in zip(LABELS, probabilities, strict=True)})
    return rows


ALL = tuple(drawn()[0])
OF_ITEMS = ("id", "family", "variant")
PAIRS = (*OF_ITEMS, "confidence", "correct")
NAMED = (*OF_ITEMS, "label", "prediction", "confidence")


def written(path: Path, rows: Sequence[dict[str, Any]], columns: Sequence[str] = ALL) -> Path:
    """Write some columns in the container that the name of the file says."""
    kept = [{name: row[name] for name in columns if name in row} for row in rows]
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*kept[0]])
            writer.writeheader()
            writer.writerows(kept)
    elif path.suffix == ".parquet":
        pl.DataFrame(kept).write_parquet(path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(kept), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    return path


def imported(path: Path, *options: object) -> Path:
    out = path.with_name(f"run-{path.name.replace('.', '-')}")
    run("import", path, "--out", out, *options)
    return out


def pairs_of(path: Path, pairs: Sequence[tuple[object, object]]) -> Path:
    rows = [{"confidence": confidence, "correct": right} for confidence, right in pairs]
    return written(path, rows)


def evaluation(folder: Path) -> Evaluation:
    experiment = Experiment.read([folder])
    return experiment.evaluation(experiment.runs[0])


def values(folder: Path) -> dict[str, float]:
    return {name: e.value for name, e in evaluation(folder).groups[0].estimates.items()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("confidences")
    parts = {"full": (*NAMED[:-1], *ALL[-3:]), "named": NAMED, "pairs": PAIRS}
    for name, columns in parts.items():
        source = written(folder / f"{name}.jsonl", drawn(), columns)
        run("import", source, "--out", folder / name)
    source = written(folder / "other.csv", drawn(seed=2), PAIRS)
    run("import", source, "--out", folder / "other")
    return folder


def test_pairs_against_hand_computation(tmp_path: Path) -> None:
    pairs = [(0.95, 1), (0.85, 1), (0.75, 0), (0.35, 1)]
    by_name = values(imported(pairs_of(tmp_path / "t.csv", pairs)))
    assert by_name["accuracy"] == 0.75
    assert by_name["ece"] == pytest.approx((0.05 + 0.15 + 0.75 + 0.65) / 4, abs=1e-12)
    assert by_name["aurc"] == pytest.approx((0 + 0 + 1 / 3 + 1 / 4) / 4, abs=1e-12)
    assert by_name["confident_errors"] == 0


@pytest.mark.parametrize("name", ["named", "pairs"])
def test_against_the_same_run_with_all_probabilities(runs: Path, name: str) -> None:
    few, full = values(runs / name), values(runs / "full")
    for metric in ("accuracy", "pair_accuracy", "ece", "aurc", "confident_errors"):
        assert few[metric] == pytest.approx(full[metric], abs=1e-12), metric
    run_of_few, run_of_full = (Experiment.read([runs / n]).runs[0] for n in (name, "full"))
    a, b = run_of_few.scored(), run_of_full.scored()
    np.testing.assert_allclose(a.confidence, b.confidence, rtol=0, atol=1e-12)
    assert np.array_equal(a.correct, b.correct)


@pytest.mark.parametrize("confidence", [1.0, 0.999, 0.51, 0.5, 1 / 3, 0.1, 0.01])
def test_logits_have_the_confidence_and_the_answer(confidence: float) -> None:
    fewest = fewest_answers(confidence)
    for count in {fewest, min(fewest + 3, 255)}:
        p = np.exp(confident_logits(confidence, count - 1, count))
        assert p.argmax() == count - 1
        assert p[-1] == pytest.approx(confidence, abs=1e-12)
        assert p.sum() == pytest.approx(1, abs=1e-9)
    with pytest.raises(ValueError, match="255"):
        fewest_answers(1 / 256)


def test_what_needs_other_probabilities_is_absent_with_the_reason(runs: Path) -> None:
    for name in ("named", "pairs"):
        report = evaluation(runs / name)
        for spec in registered_metrics():
            estimate = report.groups[0].estimates[spec.name]
            if spec.name not in DEFINED:
                assert math.isnan(estimate.value), spec.name
                assert REASON in str(estimate.reason)
        assert report.groups[0].nll is None
        frame = read_run(runs / name).frame()
        assert frame["nll"].null_count() == frame["probabilities"].null_count() == len(frame)
        assert frame["confidence"].null_count() == 0


def test_pairs_can_be_compared_with_a_run_that_names_its_answers(runs: Path) -> None:
    experiment = Experiment.read([runs / "full", runs / "pairs"])
    compared = experiment.comparisons.of_first[0].groups[0]
    assert compared.metrics["accuracy"].difference.value == 0
    assert compared.metrics["ece"].difference.value == pytest.approx(0, abs=1e-12)


def test_pairs_name_no_answer(runs: Path, tmp_path: Path) -> None:
    report = evaluation(runs / "pairs")
    assert report.letters is None or not report.letters.units
    frame = read_run(runs / "pairs").frame()
    for column in ("reference", "predicted", "n_choices"):
        assert frame[column].null_count() == len(frame)
    (everything, *_) = json.loads(run("report", runs / "pairs", "--json").stdout)["groups"]
    assert everything["pairs"]["same_answer"] is None
    assert everything["pairs"]["both_right"] > 0
    wrong = imported(pairs_of(tmp_path / "w.csv", [(0.8, number % 5 == 0) for number in range(60)]))
    assert "chance is" not in run("report", wrong, "--full").stdout  # of how many answers?
    views = [{"id": "a", "view": view, "confidence": 0.8, "correct": 1} for view in (0, 1)]
    assert "view" in refused("import", written(tmp_path / "v.jsonl", views, ("view", *PAIRS)))


def test_a_table_of_one_answer_is_refused(tmp_path: Path) -> None:
    """A question has two answers or more."""
    rows = [{"id": f"i{n}", "label": "a", "prediction": "a", "confidence": 1.0} for n in range(3)]
    table = written(tmp_path / "t.jsonl", rows, ("id", "label", "prediction", "confidence"))
    assert_says(refused("import", table), "n_choices", "from 2", "got 1")


def test_pairs_joined_with_their_records_name_no_answer(tmp_path: Path) -> None:
    rows = [{"id": f"i{n}", "text": f"text {n}", "label": LABELS[n % 3]} for n in range(30)]
    data = written(tmp_path / "data.jsonl", rows, ("id", "text", "label"))
    for name, wrong in (("a", 3), ("b", 4)):
        pairs = [{"id": f"i{n}", "confidence": 0.8, "correct": n % wrong > 0} for n in range(30)]
        source = written(tmp_path / f"{name}.jsonl", pairs)
        run("import", source, "--data", data, "--out", tmp_path / name)
    words = (tmp_path / "a", tmp_path / "b", "--data", data, "--items", 99, "--json")
    value = json.loads(run("compare", *words).stdout)
    only = value["comparisons"][0]["items"]
    assert len(only) == (8 - 3) + (10 - 3)  # b is wrong on 8 items, a on 10, both on 3
    assert all((item["right"], item["given"]) == ([], None) for item in only)


def test_large_runs_are_read_in_slices_with_the_same_numbers(runs: Path) -> None:
    items = read_items(runs / "named" / "predictions.parquet", "single", known="confidences")
    whole = Experiment.read([runs / "named"]).runs[0].scored()
    assert np.array_equal(items.confidence, whole.confidence)
    assert np.isnan(items.values["nll_nats"]).all()
    assert not np.isnan(items.values["accuracy"]).any()


def test_gates_need_the_confidence_alone(runs: Path, tmp_path: Path) -> None:
    sure = [(0.99, 1)] * 200 + [(0.6, 0)] * 20
    folder = imported(pairs_of(tmp_path / "sure.csv", sure))
    assert_says(run("thresholds", folder, "--target-error", 0.1).stdout, "Yes: ")
    assert REASON in refused("thresholds", folder, "--target-error", 0.1, "--gate", "entropy")
    assert REASON in refused("thresholds", folder, "--sets")
    for words in (("calibrate",), ("sweep",), ("report", "--decoding", "ensemble")):
        command, *options = words
        assert REASON in refused(command, folder, *options)


def test_correct_is_a_check_where_the_answers_are_known(tmp_path: Path) -> None:
    rows = drawn()
    columns = (*NAMED, "correct")
    folder = imported(written(tmp_path / "t.jsonl", rows, columns))
    assert read_run(folder).provenance.known == "confidences"
    rows[7]["correct"] = not rows[7]["correct"]
    contradicting = written(tmp_path / "u.jsonl", rows, columns)
    assert_says(refused("import", contradicting, code=2), "i7", "correct")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("confidence,correct\n0.9,1\n87,0\n", ("line 3", "0 to 1", "100")),
        ("confidence,correct\n0.9,1\n-0.2,0\n", ("line 3", "0 to 1")),
        ("confidence,correct\n0.9,1\nhigh,0\n", ("line 3", "high", "ignored=confidence")),
        ("confidence,correct\n0.9,1\n0.8,maybe\n", ("line 3", "true or false", "maybe")),
        ("confidence,correct\n0.9,1\n0.8,\n", ("line 3", "correct")),
        ("confidence,correct\n0.9,1\n,1\n", ("line 3", "confidence")),
        ("confidence,correct\n0.9,1\n0.002,1\n", ("line 3", "255")),
        ("label,prediction,conf\na,a,0.9\nb,c,0.3\n", ("line 3", "1/3", "--options")),
        ("label,prediction,conf\na,a,0.9\nb,b,\n", ("line 3", "conf")),
    ],
)
def test_wrong_input_is_refused_with_its_row(
    tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    table = tmp_path / "t.csv"
    table.write_text(text, encoding="utf-8")
    message = refused("import", table, "--out", tmp_path / "run")
    assert_says(message.replace("t.csv:", "line "), *words)
    assert not (tmp_path / "run").exists()


def test_one_number_of_a_row_may_be_of_the_prediction_or_of_one_answer(tmp_path: Path) -> None:
    """`prob` next to one prediction for all: that of the prediction, or that of the answer a."""
    table = tmp_path / "t.csv"
    table.write_text("label,prediction,prob\na,a,0.9\nb,a,0.7\n", encoding="utf-8")
    message = refused("import", table, "--out", tmp_path / "run", code=2)
    assert_says(message, "--columns confidence=prob", "--columns ignored=prob")
    table.write_text("label,prediction,prob\na,a,0.9\nb,b,0.7\n", encoding="utf-8")
    run("import", table, "--out", tmp_path / "run")
    assert "prob = confidence" in how_read(tmp_path / "run")
