"""Seeded campaigns over every reader: each input ends in one message, or in a normal result.

Every input is a file of a healthy folder with one mutation. The command must end with an exit code
of its own, with at most one error message and without a traceback, within 20 s and 1 GB; and no
number of a run may change unless the command says so. Inputs run in a process of their own, so
that one that hangs, or ends the process, is a failure with its seed.

`make test` runs 10 inputs, `make test-all` 300, `make fuzz` 10,000. A failure names its seed:
set PACT_FUZZ_SEED to it to repeat it alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hostile import campaigns

from pact_eval.importing.registry import source_names

INPUTS = int(os.environ.get("PACT_FUZZ", "300"))
FEW = 10
SEED = os.environ.get("PACT_FUZZ_SEED")
START_SECONDS = 600.0

WORKER = Path(campaigns.__file__)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = Path.cwd()
    yield campaigns.make_healthy(tmp_path_factory.mktemp("fuzz") / "healthy")
    os.chdir(before)


def check_inputs(words: Sequence[object], *, done: int) -> None:
    """Runs a worker; one that hangs, or ends, is a failure of the input that it said last."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(WORKER), *map(str, words)]
    seconds = START_SECONDS + done * campaigns.CPU_SECONDS
    try:
        worker = subprocess.run(
            command, capture_output=True, env=environment, timeout=seconds, check=False
        )
        printed, end = worker.stdout, f"the process ended: {worker.stderr[-2_000:]!r}"
    except subprocess.TimeoutExpired as hang:
        printed, end = hang.stdout or b"", f"no end within {seconds:.0f} s"
    lines = [json.loads(line) for line in printed.splitlines()]
    failed = [line for line in lines if "failed" in line]
    if not lines or lines[-1] != {"done": done}:
        failed.append((lines or [{}])[-1] | {"reason": end})
    messages = [
        f"PACT_FUZZ_SEED={failure.get('failed', failure.get('start'))} "
        f"({failure.get('campaign')}): {failure['reason']}"
        for failure in failed
    ]
    assert not messages, "\n".join(messages)


@pytest.mark.parametrize("inputs", [FEW, pytest.param(INPUTS, marks=pytest.mark.slow)])
def test_hostile_inputs(healthy: Path, tmp_path: Path, inputs: int) -> None:
    seeds = list(range(inputs)) if SEED is None else [int(SEED)]
    check_inputs([healthy, tmp_path, json.dumps(seeds)], done=len(seeds))


@pytest.mark.slow
def test_every_campaign_works_on_its_healthy_folder(healthy: Path, tmp_path: Path) -> None:
    """Otherwise a mutation would never get past what is wrong without it."""
    check_inputs([healthy, tmp_path, "unchanged"], done=len(campaigns.CAMPAIGNS))


def test_every_source_of_logs_has_a_campaign() -> None:
    """A new source without hostile inputs fails here."""
    assert {campaign.source for campaign in campaigns.CAMPAIGNS.values()} - {""} == {
        *source_names()
    }
