"""`pact-eval report --remedies` on runs of the command line."""

from __future__ import annotations

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
