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
    assert len(printed["remedies"]["rows"]) == len(remedies.rows)
    assert remedies.sequential is not None
    assert printed["answer"]["sequential"] == remedies.sequential.status
    risks = [point["risk"] for point in printed["remedies"]["sequential"]["points"]]
    assert risks == [0.01, 0.02, 0.05, 0.1]


def test_the_answer_is_the_last_line(run: Path) -> None:
    printed = _report(run, "--remedies", "--resamples", 100)
    assert printed.exit_code == 0
    assert_says(
        printed.stdout, "Remedies", "K = 4, majority", "Differences", "K = 1", "Views one by one"
    )
    last = printed.stdout.strip().split("\n\n")[-1]
    assert any(
        word in last for word in ("None is shown", "Cheapest that is shown", "Shown to help")
    )


def test_a_run_of_one_view_names_the_command_for_more(tmp_path: Path) -> None:
    write_run(tmp_path / "one", rows(1, families=30, k=1))
    assert_says(_report(tmp_path / "one", "--remedies").stdout, "Cannot tell", "one view", "--k 4")


def test_two_runs_and_options_without_effect_are_refused(run: Path) -> None:
    for words, parts in (
        ((run, run, "--remedies"), ("--remedies", "one RUN", "2")),
        ((run, "--remedies", "--full"), ("--full", "--remedies")),
    ):
        refused = _report(*words)
        assert refused.exit_code == 2
        assert_says(refused.stderr, *parts)
