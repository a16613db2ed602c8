"""Seeded campaigns over every reader: each input ends in one message, or in a normal result.

Every input is a file of a healthy folder with one mutation. The command must end with an exit code
of its own, with at most one error message and without a traceback, within 20 s and 1 GB; and no
number of a run may change unless the command says so. Inputs run in a process of their own, so
that one that hangs, or ends the process, is a failure with its seed.

`make test` runs 300 inputs, `make fuzz` 10,000. A failure names its seed: set PACT_FUZZ_SEED to it
to repeat it alone.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hostile import campaigns

import pact_cli
import pact_eval
import pact_reports
from pact_eval.importing.registry import source_names

INPUTS = int(os.environ.get("PACT_FUZZ", "300"))
SEED = os.environ.get("PACT_FUZZ_SEED")
HANG_SECONDS = 120.0
"""An input that takes longer hangs: the CPU time of any other is below 20 s."""

WORKER = Path(campaigns.__file__)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    before = Path.cwd()
    yield campaigns.make_healthy(tmp_path_factory.mktemp("fuzz") / "healthy")
    os.chdir(before)


def failures(
    command: Sequence[str], *, hang_seconds: float = HANG_SECONDS
) -> tuple[list[dict[str, Any]], int]:
    """Runs a worker; returns its failures, that of a hang or a crash included, and what it did."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    failed: list[dict[str, Any]] = []
    last: dict[str, Any] = {}
    worker_lines: queue.Queue[str] = queue.Queue()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as worker:
        assert worker.stdout is not None
        reader = threading.Thread(target=_read, args=(worker.stdout, worker_lines), daemon=True)
        reader.start()
        errors: list[str] = []
        told = threading.Thread(target=_read_all, args=(worker.stderr, errors), daemon=True)
        told.start()
        while True:
            try:
                line = worker_lines.get(timeout=hang_seconds)
            except queue.Empty:
                worker.kill()
                return [*failed, last | {"reason": f"no end within {hang_seconds:.0f} s"}], 0
            if not line:
                told.join(hang_seconds)
                reason = f"the process ended: {''.join(errors)[-2_000:]}"
                return [*failed, last | {"reason": reason}], 0
            value = json.loads(line)
            if "done" in value:
                return failed, int(value["done"])
            if "failed" in value:
                failed.append(value)
            last = value


def _read(stream: Any, into: queue.Queue[str]) -> None:
    for line in stream:
        into.put(line)
    into.put("")


def _read_all(stream: Any, into: list[str]) -> None:
    into.extend(stream)


def test_hostile_inputs(healthy: Path, tmp_path: Path) -> None:
    seeds = list(range(INPUTS)) if SEED is None else [int(SEED)]
    words = [str(healthy), str(tmp_path), json.dumps(seeds)]
    failed, done = failures([sys.executable, str(WORKER), *words])
    messages = [
        f"PACT_FUZZ_SEED={failure.get('failed', failure.get('start'))} "
        f"({failure.get('campaign')}): {failure['reason']}"
        for failure in failed
    ]
    assert not messages, "\n".join(messages)
    assert done == len(seeds)


def test_every_source_of_logs_has_a_campaign() -> None:
    """A new source without hostile inputs fails here."""
    assert {campaign.source for campaign in campaigns.CAMPAIGNS.values()} - {""} == {
        *source_names()
    }


@pytest.fixture(scope="module")
def reads(healthy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every campaign reads without a mutation: exit code, output, modules with files."""
    words = [str(healthy), str(tmp_path_factory.mktemp("reads")), "reads"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run(
        [sys.executable, str(WORKER), *words],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    campaign_reads: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return campaign_reads


def test_every_campaign_works_on_its_healthy_folder(reads: dict[str, Any]) -> None:
    """Otherwise a mutation would never get past what is wrong without it."""
    wrong = {
        name: read["output"] for name, read in reads.items() if read["exit_code"] not in {0, 3, 4}
    }
    assert not wrong


def test_every_campaign_reads_the_file_that_it_mutates(reads: dict[str, Any]) -> None:
    for name, campaign in campaigns.CAMPAIGNS.items():
        opened = {file for _, file in reads[name]["opened"]}
        assert Path(campaign.file).name in opened, name


# Functions and methods that read what a user gives. `sha256_of_file` parses nothing.
READING = {
    *("read_lines", "line_spans", "read_lines_at", "open_regular", "read_text", "read_bytes"),
    *("read_json", "read_toml", "read_parquet", "scan_parquet", "read_ipc", "read_csv"),
}
ELSEWHERE = {
    "pact_eval.evaluation.items": "Parquet, which polars opens; campaigns damage predictions",
    "pact_eval.experiments.events": "events of ours, for the page of the miniature",
    "pact_eval.experiments.measuring": "our own data, and a log that tests/experiments damages",
    "pact_eval.experiments.progress_table": "a log and events of ours: tests/experiments",
    "pact_eval.experiments.ray_tasks": "our own attempts at a step",
    "pact_eval.experiments.shared_folder": "our own stamp; tests/experiments changes it",
    "pact_eval.experiments.supervise": "the name of a process, which is shown whatever it is",
    "pact_eval.custody.hashed_data": "only training reads with it; records.py parses its lines",
    "pact_eval.runs.remote.copies": "tests/remote has stores that lie",
    "pact_eval.scoring.workers.actor": "/proc/cpuinfo",
    "pact_eval.scoring.workers.messages": "rows of a worker of ours",
    "pact_eval.training.adapters": "the configuration that PEFT has just written",
    "pact_eval.training.cache": "our own; tests/training/test_training_views.py damages it",
    "pact_eval.scoring.waiting": "/proc/loadavg",
    "pact_eval.training.memory": "/proc/self/status",
    "pact_eval.training.recipe": "our own training.json; tests/training/test_recipes.py reads it",
}


def _reading_modules() -> set[str]:
    """The modules of ours that call a function which reads."""
    modules = set()
    for package in (pact_eval, pact_cli, pact_reports):
        folder = Path(package.__path__[0])
        for path in folder.rglob("*.py"):
            calls = (node for node in ast.walk(ast.parse(path.read_bytes())) if _is_read(node))
            if any(calls) and path.name != "_files.py":
                parts = path.relative_to(folder.parent).with_suffix("").parts
                modules.add(".".join(parts))
    return modules


def _is_read(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else None
    return (node.func.id if isinstance(node.func, ast.Name) else name) in READING


def test_every_module_that_reads_files_has_a_campaign(reads: dict[str, Any]) -> None:
    """A new reader without hostile inputs fails here."""
    covered = {module for read in reads.values() for module, _ in read["opened"]}
    assert len(covered) > 30
    assert not sorted(_reading_modules() - covered - ELSEWHERE.keys())
    assert not sorted(ELSEWHERE.keys() & covered)


SAY = "import json, sys; print(json.dumps({'start': 7, 'campaign': 'lock'}), flush=True);"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time; time.sleep(600)", "no end within 3 s"),
        ("import os; os.abort()", "the process ended"),
        ("raise MemoryError", "MemoryError"),
    ],
)
def test_an_input_that_hangs_or_ends_the_process_fails_with_its_seed(
    code: str, reason: str
) -> None:
    failed, _ = failures([sys.executable, "-c", SAY + code], hang_seconds=3)
    assert [failure["start"] for failure in failed] == [7]
    assert reason in failed[0]["reason"]


MEMORY = """
from hostile import campaigns
before = campaigns._reset_peak()
big = bytearray(b"x") * (1 << 29)
assert campaigns._peak() - before > 1 << 28
del big
again = campaigns._reset_peak()
assert campaigns._peak() - again < 1 << 26
"""


def test_memory_of_one_input_is_not_that_of_another() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", MEMORY], check=True, env=environment)
