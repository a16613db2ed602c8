"""Logs of lm-evaluation-harness 0.4.13, against the accuracies that it reports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import write_jsonl
from messages import assert_says
from needs import installed, optional_tool

from logs import read_rows
from pact_eval._choices import LogMetric
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.importing.import_run import import_run
from pact_eval.importing.source import ImportOptions
from pact_eval.runs.folder import read_run

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs" / "lm_eval"
SEVERAL = LOGS.with_name("lm_eval_several")
MAKER = Path(__file__).resolve().parents[1] / "tool_logs" / "lm_eval_logs.py"
TASKS = ("holding_letters", "holding_texts", "tiny_wino")


def samples(task: str, folder: Path = LOGS) -> Path:
    (path,) = folder.glob(f"samples_{task}_*.jsonl")
    return path


def lines(task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples(task).read_text("utf-8").splitlines()]


def reported(folder: Path = LOGS) -> dict[str, Any]:
    (path,) = folder.glob("results_*.json")
    value: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return value


def check_against_results(folder: Path, out: Path) -> None:
    results = reported(folder)["results"]
    for task in TASKS:
        import_run(samples(task, folder), out / task, {"arm": task})
        experiment = Experiment.read([out / task])
        accuracy = experiment.evaluation(experiment.runs[0]).groups[0].estimates["accuracy"]
        assert accuracy.value == pytest.approx(results[task]["acc,none"], abs=1e-12)


def check_several_right(folder: Path, out: Path) -> None:
    with pytest.raises(ShapeError, match="give --multi any, .* several in 6 rows"):
        read_rows(folder)
    import_run(folder, out, {"arm": "any"}, ImportOptions(multi="any"))
    experiment = Experiment.read([out])
    accuracy = experiment.evaluation(experiment.runs[0]).groups[0].estimates["accuracy"]
    results = reported(folder)["results"]["holding_several"]
    assert accuracy.value == pytest.approx(results["acc,none"], abs=1e-12)
    assert read_run(out).provenance.several_right == 6


@pytest.mark.parametrize(
    ("task", "metric"),
    [
        ("holding_letters", "acc"),
        ("holding_letters", "acc_norm"),
        ("holding_texts", "acc"),
        ("holding_texts", "acc_mutual_info"),
        ("tiny_wino", "acc"),
    ],
)
def test_the_headline_is_the_metric_of_the_results(
    tmp_path: Path, task: str, metric: LogMetric
) -> None:
    import_run(samples(task), tmp_path / "run", {}, ImportOptions(metric=metric))
    experiment = Experiment.read([tmp_path / "run"])
    (rates,) = experiment.rates(experiment.runs[0])
    published = reported()["results"][task][f"{metric},none"]
    assert rates.accuracy.value == pytest.approx(published, abs=1e-12)
    assert read_run(tmp_path / "run").settings.get("metric") == metric


def test_normalised_likelihoods_are_per_character_of_the_choice(tmp_path: Path) -> None:
    """By hand: " ab" has two characters and " abcdefgh" eight, without the space before them."""

    def line(doc_id: int, values: tuple[float, float], norm: int) -> dict[str, Any]:
        texts = (" ab", " abcdefgh")
        return {
            "doc_id": doc_id,
            "doc": {"choices": ["ab", "abcdefgh"]},
            "target": "1",
            "arguments": {
                f"gen_args_{i}": {"arg_0": "?", "arg_1": text} for i, text in enumerate(texts)
            },
            "filtered_resps": [[str(value), "False"] for value in values],
            "metrics": ["acc", "acc_norm"],
            "acc": float(values[1] > values[0]),
            "acc_norm": norm,
        }

    # -3/2 < -8/8, and with the space -3/3 = -9/9 would be a tie that the first choice wins.
    path = write_jsonl(tmp_path / "log.jsonl", [line(0, (-3.0, -9.0), 1), line(1, (-1.0, -9.0), 0)])
    frame = read_rows(path, ImportOptions(metric="acc_norm")).frame
    assert frame["logits"].to_list() == [[-1.5, -1.125], [-0.5, -1.125]]
    assert read_rows(path).frame["logits"].to_list() == [[-3.0, -9.0], [-1.0, -9.0]]
    changed_line = line(0, (-3.0, -9.0), 0)
    wrong = write_jsonl(tmp_path / "wrong.jsonl", [changed_line, line(1, (-1.0, -9.0), 0)])
    with pytest.raises(RecordError, match="answer as wrong"):
        read_rows(wrong, ImportOptions(metric="acc_norm"))


def test_a_metric_that_the_log_lacks_is_told_once() -> None:
    with pytest.raises(RecordError) as told:
        read_rows(samples("holding_texts"), ImportOptions(metric="acc_norm"))
    (problem,) = told.value.problems
    assert_says(problem.message, "--metric acc_norm: ", "no such metric")


def test_any_of_several_right_answers_counts_as_there(tmp_path: Path) -> None:
    check_several_right(SEVERAL, tmp_path / "run")


@optional_tool(installed("lm_eval"))
@pytest.mark.slow
def test_logs_that_the_harness_makes_now_are_read_as_well(tmp_path: Path) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    command = [sys.executable, str(MAKER), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_several_right(tmp_path / "several" / "tiny", tmp_path / "any")
    made = tmp_path / "out" / "tiny"
    check_against_results(made, tmp_path / "runs")
    assert samples("tiny_wino", made).read_text().count("\n") == 8


def test_probabilities_are_the_softmax_of_the_logged_log_likelihoods(tmp_path: Path) -> None:
    import_run(samples("holding_texts"), tmp_path / "run", {})
    run = read_run(tmp_path / "run")
    logged = [
        logged_line for logged_line in lines("holding_texts") if logged_line["filter"] == "none"
    ]
    assert len(logged) == len(run.predictions) == 12  # 24 lines: one of two filters
    probabilities = np.exp(run.predictions.log_probs("single"))
    for item_probabilities, line in zip(probabilities, logged, strict=True):
        # The second half is asked without the prompt, for mutual information.
        logits = np.array([float(lp) for lp, _ in line["filtered_resps"]])[:4]
        assert item_probabilities == pytest.approx(np.exp(logits) / np.exp(logits).sum(), rel=1e-12)
    assert run.predictions.domain[0] == "holding_texts"
    assert run.provenance.base_model == "tiny"
    log = run.provenance.recorded["log"]
    assert isinstance(log, dict)
    correct = round(12 * reported()["results"]["holding_texts"]["acc,none"])
    assert log["recomputed"] == {"answers": 12, "correct": correct}
    assert log["lm_eval_version"] == "0.4.13"


def test_answer_mass_is_known_of_letters_only() -> None:
    frame = read_rows(samples("holding_letters")).frame
    letters = [
        [float(lp) for lp, _ in sample["filtered_resps"]] for sample in lines("holding_letters")
    ]
    expected = [np.exp(log_likelihoods).sum() for log_likelihoods in letters]
    assert frame["answer_mass"].to_numpy() == pytest.approx(expected, rel=1e-5)
    assert frame["code_order"].to_list() == [[0, 1, 2, 3]] * 12
    texts = read_rows(samples("holding_texts")).frame
    assert texts["answer_mass"].null_count() == 12
    assert texts["code_order"].to_list() == [[]] * 12


def test_a_folder_is_one_run_of_all_its_tasks() -> None:
    imported = read_rows(LOGS, ImportOptions(family_from="doc.id"))
    assert imported.frame["domain"].unique(maintain_order=True).to_list() == list(TASKS)
    assert imported.frame["family"].n_unique() == 20  # the first two tasks ask about one text
    assert imported.frame["id"].n_unique() == len(imported.frame) == 32


@pytest.mark.parametrize(
    ("option", "families"), [("doc.article", 6), ("doc.id~.$", 10), ("doc.id~^(q1)?", None)]
)
def test_families_are_named_by_a_value_or_a_part_of_it(option: str, families: int | None) -> None:
    options = ImportOptions(family_from=option)
    if families is None:
        with pytest.raises(RecordError, match=r"--family-from: .* does not match 'q0'"):
            read_rows(samples("holding_letters"), options)
        return
    assert read_rows(samples("holding_letters"), options).frame["family"].n_unique() == families


def changed(task: str, folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> Path:
    rows = lines(task)
    change(rows)
    return write_jsonl(folder / samples(task).name, rows)


def set_all(name: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row[name] = value
            row.pop(f"{name}_hash", None)

    return change


BAD: list[tuple[str, Callable[[list[dict[str, Any]]], object], str]] = [
    (
        "holding_letters",
        lambda rows: rows[2].update(acc=1 - rows[2]["acc"]),
        r":3 \(id doc 2\): the log counts this answer as",
    ),
    (
        "holding_letters",
        set_all("target", "[0, 9]"),
        "target: expected an index or one of 'A', 'B'",
    ),
    ("holding_letters", set_all("target", "Zoe"), "target: expected an index or one of 'A', 'B'"),
    (
        "holding_letters",
        lambda rows: rows[0].update(filtered_resps=["The answer is A"]),
        "expected 4 pairs of log-likelihood .* generated texts have no probabilities",
    ),
    (
        "holding_letters",
        lambda rows: rows[0].update(arguments={"gen_args_0": {"arg_0": "x", "arg_1": {}}}),
        r"not multiple choice, but a generated text \(generate_until\)",
    ),
    (
        "holding_letters",
        lambda rows: rows[0]["filtered_resps"].__setitem__(0, ["nan", "False"]),
        "expected finite log-likelihoods",
    ),
    (
        "holding_texts",
        lambda rows: [row.update(filter=f"f{at % 2}") for at, row in enumerate(rows)],
        r"several filters \(f0, f1\): choose one with --filter",
    ),
    ("tiny_wino", set_all("acc", None), "the choices are in the prompts"),
    ("holding_letters", lambda rows: rows[0].update(doc_id="0"), "doc_id: expected an integer"),
]


@pytest.mark.parametrize(("task", "change", "words"), BAD, ids=[words for *_, words in BAD])
def test_what_cannot_be_read_is_told_and_nothing_is_written(
    tmp_path: Path, task: str, change: Callable[[list[dict[str, Any]]], object], words: str
) -> None:
    path = changed(task, tmp_path, change)
    with pytest.raises(RecordError, match=words):
        import_run(path, tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


def test_samples_of_other_results_are_refused(tmp_path: Path) -> None:
    for log_file in LOGS.iterdir():
        shutil.copy(log_file, tmp_path)
    path = changed("holding_letters", tmp_path, lambda rows: rows.pop())
    with pytest.raises(RecordError, match="task_hashes: expected") as error:
        read_rows(path)
    assert_says(error.value, "accuracy is 0.272727", "0.250000")


def test_a_target_that_is_a_digit_is_read_as_the_log_counts_it(tmp_path: Path) -> None:
    """Choices "1" and "2": the target 1 is the first by its text, and the second by its index."""

    def line(doc_id: int, best: int, acc: int) -> dict[str, Any]:
        requests = {f"gen_args_{i}": {"arg_0": "?", "arg_1": f" {i + 1}"} for i in range(2)}
        resps = [["-1.0" if i == best else "-2.0", "False"] for i in range(2)]
        return {
            "doc_id": doc_id,
            "doc": {},
            "target": "1",
            "arguments": requests,
            "filtered_resps": resps,
            "acc": acc,
        }

    by_text = write_jsonl(tmp_path / "text.jsonl", [line(0, 0, 1), line(1, 1, 0)])
    by_index = write_jsonl(tmp_path / "index.jsonl", [line(0, 0, 0), line(1, 1, 1)])
    assert read_rows(by_text).frame["reference"].to_list() == [0, 0]
    assert read_rows(by_index).frame["reference"].to_list() == [1, 1]


def test_a_folder_without_samples_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file, got a folder|is a folder|directory"):
        read_rows(tmp_path)
    with pytest.raises(InputError, match="expected samples_<task>_<date>.jsonl"):
        read_rows(tmp_path, ImportOptions(source="lm-eval"))
