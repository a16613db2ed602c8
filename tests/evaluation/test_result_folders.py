"""Released result folders: the same numbers as the tables of metrics, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from released_results import write_result_folder
from run_frames import rows, write_run

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arms.published import read_metric_table, read_published
from pact_eval.evaluation.arms.published_paths import is_published, result_files
from pact_eval.evaluation.arms.released_training import ReleasedTraining, SelectionPoint
from pact_eval.evaluation.arms.table_results import arm_costs
from pact_eval.evaluation.curves.training import released_trajectories


@pytest.fixture
def results(made_files: Path, tmp_path: Path) -> Path:
    return write_result_folder(made_files, tmp_path / "results")


def numbers(*paths: Path) -> set[tuple[Any, ...]]:
    table = read_published(paths).table
    return {(row.cell, row.seed, row.value, row.n) for row in table.rows}


def test_the_numbers_against_those_of_the_table(experiment_files: Path, tmp_path: Path) -> None:
    folder = write_result_folder(experiment_files, tmp_path / "results")
    of_folder = numbers(folder)
    expected = numbers(experiment_files / "run_metrics.csv")
    assert {number for number in of_folder if number[0].group in kinds_of(expected)} == expected
    domains = {number[0].group for number in of_folder} - kinds_of(expected)
    assert len(domains) == 6


def kinds_of(metrics: set[tuple[Any, ...]]) -> set[str]:
    return {number[0].group for number in metrics}


def test_one_file_one_arm_or_all_of_them(results: Path) -> None:
    everything = numbers(results)
    one = results / "runs" / "pact_full" / "seed-17" / "results.json"
    assert numbers(one) < numbers(results / "runs" / "pact_full") < numbers(results / "runs")
    assert numbers(results / "runs", results / "baselines.json") == everything


def test_what_holds_published_metrics(results: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1))
    (run / "results.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.csv").mkdir()
    assert is_published(results)
    assert is_published(tmp_path / "missing" / "results.json")
    assert is_published(Path("metrics.CSV"))
    assert [is_published(path) for path in (run, tmp_path / "empty", tmp_path / "folder.csv")] == [
        False
    ] * 3
    assert result_files(results)[0].name == "baselines.json"


def without_summary(value: Any) -> None:
    del value["holdout"]["single"]["summary"]


def edited(path: str, new: Any) -> Callable[[Any], None]:
    """Return an edit of the value at a path of keys."""

    def edit(value: Any) -> None:
        *above, last = path.split("/")
        for key in above:
            value = value[key]
        value[last] = new

    return edit


ALL = "holdout/single/summary/all"


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (edited("run", None), "run: expected text, got null"),
        (edited("seed", "17"), "seed: expected an integer, got text"),
        (edited("holdout", []), "holdout: expected an object, got a list"),
        (without_summary, "holdout: single: expected summary, found none"),
        (
            edited("holdout/greedy", {"summary": {}}),
            "holdout: greedy: expected one of single, single_calibrated, ensemble",
        ),
        (
            edited(f"{ALL}/nll", "1.2"),
            "holdout.single.summary.all.nll: expected a number, got \"'1.2'\"",
        ),
        (
            edited(f"{ALL}/ece", 12.5),
            "holdout.single.summary.all.ece: expected a fraction in 0 to 1, got 12.5",
        ),
        (
            edited(f"{ALL}/correct", 1),
            "holdout.single.summary.all.accuracy: {accuracy} contradicts 1 correct of 324 items "
            "(0.0031)",
        ),
        (
            edited("holdout/single/summary/by_domain/travel", []),
            "holdout.single.summary.by_domain: travel: expected an object, got a list",
        ),
    ],
)
def test_a_malformed_file_is_refused_with_its_keys(
    results: Path, edit: Callable[[Any], None], expected: str
) -> None:
    path = results / "runs" / "pact_full" / "seed-18" / "results.json"
    value = json.loads(path.read_text())
    accuracy = value["holdout"]["single"]["summary"]["all"]["accuracy"]
    edit(value)
    path.write_text(json.dumps(value))
    with pytest.raises(RecordError) as refused:
        read_metric_table(results)
    assert [f"{path}: {problem}" for problem in refused.value.problems] == [
        f"{path}: {expected.format(accuracy=accuracy)}"
    ]


def test_a_null_is_left_out_and_the_numbers_after_it_are_read(results: Path) -> None:
    path = results / "baselines.json"
    path.unlink()
    path = results / "runs" / "pact_full" / "seed-18" / "results.json"
    before = numbers(path)
    value = json.loads(path.read_text())
    edited(f"{ALL}/accuracy", None)(value)
    path.write_text(json.dumps(value))
    left_out = before - numbers(path)
    assert {(cell.metric, cell.group) for cell, *_ in left_out} == {("accuracy", "all")}
    assert numbers(path) < before


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "\x00", '{"run": "a", "run": "b"}'])
def test_a_file_that_is_no_result_is_refused(results: Path, text: str) -> None:
    path = results / "baselines.json"
    path.write_text(text)
    with pytest.raises((InputError, RecordError), match=r"baselines\.json"):
        read_metric_table(results)


def test_two_files_with_other_numbers_for_one_run_are_refused(results: Path) -> None:
    first = results / "runs" / "pact_full" / "seed-17"
    copy = results / "copy"
    copy.mkdir()
    value = json.loads((first / "results.json").read_text())
    value["holdout"]["single"]["summary"]["all"]["nll"] += 0.1
    (copy / "results.json").write_text(json.dumps(value))
    with pytest.raises(InputError, match="nll"):
        read_published([results])


def training_of(folder: Path, arm: str, seed: int) -> ReleasedTraining:
    runs = read_published([folder]).trainings
    return next(run for run in runs if (run.arm, run.seed) == (arm, seed))


def test_the_training_of_a_run_by_hand(results: Path) -> None:
    path = results / "runs" / "pact_full" / "seed-18"
    edited_file(path / "train_report.json", edited("wall_seconds", 4_945.5))
    edited_file(path / "train_report.json", edited("peak_gpu_gib", None))
    views = {"train/primary": 2_334, "train/perm1": 2_334, "train/necessity": 1_167}
    others = {"dev_calib/primary": 226, "dev_select/primary": 116}
    edited_file(path / "results.json", edited("views/views", views | others))
    points = [(146, 0.5, 0.75), (292, 0.25, 0.875), (438, 0.125, 0.5), (438, 0.125, 0.5)]
    history = [
        {"step": step, "summary": {"all": {"nll": nll, "accuracy": accuracy}}}
        for step, nll, accuracy in points
    ]
    (path / "dev_history.json").write_text(json.dumps(history))
    edited_file(path / "train_report.json", edited("best/step", 292))
    training = training_of(results, "pact_full", 18)
    assert (training.steps, training.wall_seconds, training.peak_gib) == (584, 4_945.5, None)
    assert training.views_per_pair == 5
    assert training.history == tuple(SelectionPoint(*point) for point in points[:3])
    assert training.selected == training.history[1]
    assert training.calibration is not None
    weights = json.loads((path / "calibration.json").read_text())["weights"]
    slopes = training.calibration.calibrator.weights
    assert (slopes.log_choices, slopes.log_tokens) == (
        weights["log_choices"],
        weights["log_tokens"],
    )


def test_costs_of_arms_by_hand(results: Path) -> None:
    for seed, seconds in ((17, 3_600), (18, 5_400), (19, 7_200)):
        path = results / "runs" / "ce_only" / f"seed-{seed}" / "train_report.json"
        edited_file(path, edited("wall_seconds", seconds))
        edited_file(path, edited("peak_gpu_gib", seconds / 900))
    (cost,) = (cost for cost in arm_costs(read_published([results])) if cost.arm == "ce_only")
    assert (cost.steps, cost.views_per_pair, cost.peak_gib) == ((584, 584, 584), 2, 8)
    assert (cost.hours.mean, cost.hours.deviation) == (1.5, 0.5)
    edited_file(path, edited("peak_gpu_gib", None))
    (cost,) = (cost for cost in arm_costs(read_published([results])) if cost.arm == "ce_only")
    assert cost.peak_gib is None


def edited_file(path: Path, edit: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


def test_metrics_alone_say_nothing_of_training(results: Path, made_files: Path) -> None:
    """A table, a file of results, and the base model."""
    for path in (
        made_files / "run_metrics.csv",
        results / "runs" / "pact_full" / "seed-17" / "results.json",
        results / "baselines.json",
    ):
        metrics = read_published([path])
        assert metrics.trainings == ()
        with pytest.raises(InputError, match=r"expected a folder with train_report\.json files"):
            arm_costs(metrics)
        with pytest.raises(InputError, match=r"expected a folder with dev_history\.json files"):
            released_trajectories(metrics)


def test_a_run_without_calibrated_metrics_needs_no_calibrator(results: Path) -> None:
    path = results / "runs" / "no_cf" / "seed-17"
    edited_file(path / "results.json", lambda value: value["holdout"].pop("single_calibrated"))
    (path / "calibration.json").unlink()
    assert training_of(results, "no_cf", 17).calibration is None


@pytest.mark.parametrize(
    ("name", "edit", "expected"),
    [
        ("results.json", edited("views/views", {}), "views: views: expected numbers of training"),
        (
            "results.json",
            edited("views/views", {"train/primary": -1}),
            "views: train/primary: expected a whole number of at least 0, got -1",
        ),
        (
            "results.json",
            edited("calibration/ece_after", 5.7),
            "calibration: ece_after: expected a fraction in 0 to 1, got 5.7",
        ),
        (
            "results.json",
            edited("calibration/temperature_min", None),
            "calibration: temperature_min: expected a number, got null",
        ),
        ("train_report.json", edited("steps", "584"), "steps: expected an integer, got text"),
        (
            "train_report.json",
            edited("steps", 0),
            "steps: expected a whole number of at least 1, got 0",
        ),
        (
            "train_report.json",
            edited("best/step", 7),
            "best: step: expected a step of dev_history.json",
        ),
        (
            "train_report.json",
            edited("wall_seconds", True),
            "wall_seconds: expected a number, got true/false",
        ),
        (
            "dev_history.json",
            lambda value: value[0].pop("step"),
            "[0]: expected step, found none",
        ),
        (
            "dev_history.json",
            lambda value: value[2]["summary"].pop("all"),
            "[2]: summary: expected all, found none",
        ),
        (
            "dev_history.json",
            lambda value: value.clear(),
            "expected a list of selections, got none",
        ),
        (
            "calibration.json",
            edited("weights/log_choices", "steep"),
            "weights: log_choices: expected a number",
        ),
        ("calibration.json", edited("weights/bias", [1.0]), "weights: bias: expected"),
        ("calibration.json", edited("mode", "cubic"), "mode: expected one of"),
        ("calibration.json", edited("weights", None), "weights: expected an object, got null"),
    ],
)
def test_a_malformed_file_of_a_run_is_refused_with_its_key(
    results: Path, name: str, edit: Callable[[Any], None], expected: str
) -> None:
    path = results / "runs" / "pact_full" / "seed-18" / name
    edited_file(path, edit)
    with pytest.raises((InputError, RecordError)) as refused:
        read_published([results])
    assert str(refused.value).startswith(str(path))
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("train_report.json", "plan, best, steps, wall_seconds, peak_gpu_gib"),
        ("dev_history.json", "step, summary"),
        ("calibration.json", "the calibrator of the run"),
    ],
)
def test_a_missing_file_of_a_run_is_named_with_its_keys(
    results: Path, name: str, keys: str
) -> None:
    path = results / "runs" / "no_cf" / "seed-17" / name
    path.unlink()
    with pytest.raises(InputError) as refused:
        read_published([results])
    expected = f"{path}: no such file; expected {keys}; take the file from its release"
    assert expected in str(refused.value)
