"""Runs on the Hugging Face Hub. A local server answers in its place; see `hub_server.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from remote.hub_server import served
from run_frames import rows, write_run

from pact_cli.main import main

pytestmark = pytest.mark.slow

run = runner(main)
REPOSITORY = "owner/name"
TOKEN = "hf_of_the_test"  # noqa: S105


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a process needs to take the folder `hub` for the repository."""
    (tmp_path / "hub").mkdir()
    with served() as server:
        repository = server.add(f"datasets/{REPOSITORY}")
        repository.token = TOKEN
        repository.add(tmp_path / "hub")
        yield os.environ | {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": TOKEN,
        }


def report(url: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pact_cli", "report", url, "--json", "--resamples", "100"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_a_run_of_a_dataset_repository(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = write_run(tmp_path / "hub" / "runs" / "one", rows(1, families=9, k=2), arm="a", seed=1)
    expected = run("report", folder, "--json", "--resamples", 100).stdout
    for revision in ("", "@main"):
        done = report(f"hf://datasets/{REPOSITORY}{revision}/runs/one", environment)
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected


def test_what_the_hub_does_not_give_is_one_line(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    url = f"hf://datasets/{REPOSITORY}/runs/one"
    assert f"{url}: no such run folder" in report(url, environment).stderr
    done = report(url, environment | {"HF_TOKEN": "hf_another"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "set HF_TOKEN" in done.stderr
    assert "hf_another" not in done.stdout + done.stderr
    done = report(url, environment | {"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert_says(done.stderr, "cannot be reached")
    done = report("hf://owner", environment)
    assert "expected hf://datasets/OWNER/NAME" in done.stderr
