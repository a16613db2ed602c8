"""`pact-eval report --remedies` on runs of the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main


def _report(*words: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remedies") / "a"
    write_run(folder, rows(1, families=60, k=4))
    return folder


def test_python_and_the_command_have_the_same_json(run: Path) -> None:
    import pact_eval

    printed = json.loads(_report(run, "--remedies", "--json", "--resamples", 100).stdout)
    remedies = pact_eval.compare_remedies(run, pact_eval.Settings(resamples=100))
    assert printed == json.loads(json.dumps(remedies.to_json()))
    assert printed["answer"]["status"] == remedies.status
    assert printed["answer"]["price"] == remedies.price == "prompts"
    rows_of_json = printed["remedies"]["rows"]
    assert [row["name"] for row in rows_of_json] == [row.remedy.name for row in remedies.rows]
    assert [row["title"] for row in rows_of_json] == [row.remedy.title for row in remedies.rows]
    assert printed == json.loads(json.dumps(remedies.to_dict()))
    for row in rows_of_json:
        named = remedies.row(row["name"])
        assert row["cost"]["prompts"] == named.cost.prompts
        (accuracy,) = (
            metric["value"]["value"]
            for metric in row["metrics"]
            if metric["spec"]["name"] == "accuracy"
        )
        assert accuracy == named.metric("accuracy").value.value
    assert remedies.sequential is not None
    assert printed["answer"]["sequential"] == remedies.sequential.status
    risks = [point["risk"] for point in printed["remedies"]["sequential"]["points"]]
    assert risks == [0.01, 0.02, 0.05, 0.1]


_ANSWERS = ("None is shown", "Cheapest in", "Shown to help")


def test_the_answer_comes_first_in_twelve_lines_of_100_columns(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    printed = _report(run, "--remedies", "--resamples", 100)
    assert printed.exit_code == 0
    lines = printed.stdout.splitlines()
    assert len(lines) <= 12
    assert all(len(line) <= 100 for line in lines)
    assert lines[0].startswith(_ANSWERS)
    assert_says(printed.stdout, "- K = 1, nats", "K = 2", "one by one", "--full")


def test_full_has_every_table_below_the_answer(run: Path) -> None:
    printed = _report(run, "--remedies", "--full", "--resamples", 100)
    assert printed.exit_code == 0
    assert printed.stdout.startswith(_ANSWERS)
    for title in (
        "K = 4, majority",
        "Differences",
        "Views one by one",
        "Costs",
        "Letters of right",
    ):
        assert title in printed.stdout


def test_a_run_of_one_view_names_the_command_for_more(tmp_path: Path) -> None:
    write_run(tmp_path / "one", rows(1, families=30, k=1))
    brief = _report(tmp_path / "one", "--remedies").stdout
    assert_says(brief, "Cannot tell", "one view", "--k 4", "K = 1, batch calibrated", "--full")
    assert len(brief.splitlines()) <= 12


def test_two_runs_and_options_without_effect_are_refused(run: Path) -> None:
    for words, parts in (
        ((run, run, "--remedies"), ("--remedies", "one RUN", "2")),
        ((run, "--remedies", "--by", "kind"), ("--by", "--remedies")),
    ):
        refused = _report(*words)
        assert refused.exit_code == 2
        assert_says(refused.stderr, *parts)
