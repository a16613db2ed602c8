"""Released result folders: the same numbers as the tables of metrics, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from released_results import write_result_folder
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arms.published import read_metric_table, read_published
from pact_eval.evaluation.arms.published_paths import is_published, result_files


@pytest.fixture
def results(made_files: Path, tmp_path: Path) -> Path:
    return write_result_folder(made_files, tmp_path / "results")


def numbers(*paths: Path) -> set[tuple[Any, ...]]:
    table = read_published(paths).table
    return {(row.cell, row.seed, row.value, row.n) for row in table.rows}


def test_the_numbers_against_those_of_the_table(experiment_files: Path, tmp_path: Path) -> None:
    folder = write_result_folder(experiment_files, tmp_path / "results")
    found = numbers(folder)
    expected = numbers(experiment_files / "run_metrics.csv")
    assert {number for number in found if number[0].group in kinds_of(expected)} == expected
    domains = {number[0].group for number in found} - kinds_of(expected)
    assert len(domains) == 6


def kinds_of(found: set[tuple[Any, ...]]) -> set[str]:
    return {number[0].group for number in found}


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
        (edited("run", None), "run: expected the name of an arm"),
        (edited("seed", "17"), "seed: expected an integer or null"),
        (edited("seed", True), "seed: expected an integer or null"),
        (edited("holdout", []), "holdout: expected an object"),
        (without_summary, "holdout.single.summary: expected an object"),
        (
            edited("holdout/greedy", {}),
            "holdout.greedy: expected one of single, single_calibrated, ensemble",
        ),
        (edited(ALL, 3), "holdout.single.summary.all: expected an object"),
        (edited(f"{ALL}/nll", "1.2"), "holdout.single.summary.all.nll: expected a number"),
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
            "holdout.single.summary.by_domain.travel: expected an object",
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
    result = CliRunner().invoke(main, ["tables", str(results), "-o", str(results / "out")])
    assert result.exit_code == 1
    assert str(path) in "".join(result.stderr.split("\n"))


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


def test_runs_and_published_metrics_are_not_mixed(results: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1))
    result = CliRunner().invoke(main, ["tables", str(results), str(run), "-o", str(tmp_path / "o")])
    assert result.exit_code == 1
    assert "expected published metrics alone, or runs alone" in result.stderr
