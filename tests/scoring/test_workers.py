"""Workers on a real local Ray: same bytes as one process, whoever is killed and whenever."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import transformers
from builders import write_jsonl
from click.testing import CliRunner
from commands import command_line
from messages import assert_says
from ray_cluster import held_cluster, token_of

from pact_cli.main import main
from pact_eval.errors import WorkerError
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.windows import read_dataset, score_windows
from pact_eval.scoring.workers.cluster import connected
from pact_eval.scoring.workers.messages import WorkersRequest
from pact_eval.scoring.workers.source import worker_source
from scoring.conftest import FIXTURES, HOLDOUT, MODEL, Make

WINDOWS = 6  # of the 324 records of the holdout
SECONDS = 240.0
_OF_A_PROCESS = ("created", "finished", "wall_seconds", "command_line", "workers", "seal")


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    with held_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def adapter(qwen3: Path, make_adapter: Make) -> Path:
    return make_adapter(qwen3)


@pytest.fixture(scope="module")
def alone(qwen3: Path, adapter: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a single process."""
    run = tmp_path_factory.mktemp("alone") / "run"
    result = CliRunner().invoke(main, _command(adapter, qwen3, run))
    assert result.exit_code == 0, result.output
    return run


def _command(adapter: Path, base: Path, out: Path, *more: str) -> list[str]:
    return [
        *("score", str(adapter), "--base-model", str(base), "--data", str(HOLDOUT)),
        *("--k", "2", "--attention", "fused", "--out", str(out), *more),
    ]


def _started(command: list[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line("pact-eval", *command),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def _parts(run: Path) -> int:
    return len(list((run / "parts").glob("part-*")))


def _wait_for_parts(process: subprocess.Popen[str], run: Path, least: int) -> None:
    deadline = time.monotonic() + SECONDS
    while _parts(run) < least:
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"the run ended before it could be stopped: {process.stderr.read()}")
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _ended(process: subprocess.Popen[str], seconds: float = SECONDS) -> str:
    try:
        return process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"still running after {seconds:.0f} s: {process.communicate()[1]}")


def _recorded(run: Path) -> dict[str, Any]:
    provenance: dict[str, Any] = json.loads((run / "run.json").read_text(encoding="utf-8"))
    return provenance


def _same_rows(run: Path, other: Path) -> bool:
    name = "predictions.parquet"
    return (run / name).read_bytes() == (other / name).read_bytes()


def test_a_worker_gives_the_rows_of_one_process(qwen3: Path, adapter: Path, tmp_path: Path) -> None:
    """The smallest run on a Ray of its own: two windows, one worker."""
    few = ("--limit", "65", "--k", "1")
    result = CliRunner().invoke(main, _command(adapter, qwen3, tmp_path / "alone", *few))
    assert result.exit_code == 0, result.output
    process = _started(_command(adapter, qwen3, tmp_path / "run", *few, "--workers", "1"))
    errors = _ended(process)
    assert process.returncode == 0, errors
    assert _same_rows(tmp_path / "run", tmp_path / "alone")


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_and_the_run_is_that_of_one_process(
    cluster: dict[str, str], qwen3: Path, adapter: Path, alone: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = _command(adapter, qwen3, run, "--workers", "2", "--ray", cluster["address"])
    process = _started(command, **token_of(cluster))
    _wait_for_parts(process, run, 1)
    victim = random.choice(_recorded(run)["workers"])
    os.kill(victim["pid"], signal.SIGKILL)
    errors = _ended(process)
    assert process.returncode == 0, errors
    assert _same_rows(run, alone)
    recorded, expected = _recorded(run), _recorded(alone)
    assert {key: entry for key, entry in recorded.items() if key not in _OF_A_PROCESS} == {
        key: entry for key, entry in expected.items() if key not in _OF_A_PROCESS
    }
    workers = recorded["workers"]
    assert len(workers) in (2, 3)  # the other may be done before there is a new one
    assert [worker["name"] for worker in workers if worker["lost"]] == [victim["name"]]
    assert sum(worker.get("windows", 0) for worker in workers) >= WINDOWS
    for worker in workers[:2]:
        assert worker["settings"]["base"] == expected["settings"]["base"]
        assert worker["facts"]["engine"]["check"] == expected["engine"]["check"]
    assert "0 windows left; items/s: worker" in errors


@pytest.mark.slow
def test_a_run_is_resumed_by_other_numbers_of_workers_and_by_none(
    qwen3: Path, adapter: Path, alone: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = _started(_command(adapter, qwen3, run))
    _wait_for_parts(process, run, 1)
    process.kill()
    _ended(process)
    written = _parts(run)
    assert 1 <= written < WINDOWS - 2
    process = _started(_command(adapter, qwen3, run, "--workers", "2"))
    _wait_for_parts(process, run, written + 1)
    process.send_signal(signal.SIGTERM)
    errors = _ended(process)
    assert process.returncode == 1
    assert_says(errors, "same command resumes")
    assert _parts(run) < WINDOWS
    result = CliRunner().invoke(main, _command(adapter, qwen3, run))
    assert result.exit_code == 0, result.output
    assert _same_rows(run, alone)
    assert len(_recorded(run)["workers"]) == 2


@pytest.mark.slow
def test_workers_of_a_quantised_base_give_the_rows_of_one_process(
    cluster: dict[str, str], tmp_path: Path
) -> None:
    adapter = FIXTURES / "adapters" / "pact"
    more = ("--quantize", "nf4", "--limit", "66", "--k", "1")  # bfloat16 is slow on many CPUs
    result = CliRunner().invoke(main, _command(adapter, MODEL, tmp_path / "one", *more))
    assert result.exit_code == 0, result.output
    assert "Quantised: nf4" in result.stderr
    workers = ("--workers", "2", "--ray", cluster["address"])
    words = _command(adapter, MODEL, tmp_path / "two", *more, *workers)
    process = _started(words, **token_of(cluster))
    errors = _ended(process, seconds=720)  # a minute on two idle cores
    assert process.returncode == 0, errors
    assert "Quantised: nf4" in errors
    assert _same_rows(tmp_path / "two", tmp_path / "one")


def _changed(base: Path, word: int, value: float, folder: Path) -> Path:
    """A copy of a model with another embedding of one token."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        model.get_input_embeddings().weight[word] = value
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_a_window_that_always_fails_is_named_with_its_records(
    cluster: dict[str, str], qwen3: Path, tmp_path: Path
) -> None:
    """A real failure: damaged weights that only one record of the second window reads."""
    lines = HOLDOUT.read_text(encoding="utf-8").split("\n")[:128]
    changed = json.loads(lines[100])
    changed["input"]["state"] = f"{changed['input']['state']} \N{SNOWMAN}"
    lines[100] = json.dumps(changed)
    data = write_jsonl(tmp_path / "eval.jsonl", lines)
    records = read_dataset(data, k=1).records
    views = identify(ModelRequest(None, str(qwen3))).encoder.encode(records, 1, 0)
    counts = Counter(token for view in views for token in {*view.token_ids})
    only = [token for token in views[100].token_ids if counts[token] == 1]
    base = _changed(qwen3, only[0], float("nan"), tmp_path / "base")
    run = tmp_path / "run"
    process = _started(
        [
            *("score", "--no-adapter", "--base-model", str(base), "--data", str(data)),
            *("--k", "1", "--out", str(run)),
            *("--workers", "2", "--ray", cluster["address"]),
        ],
        **token_of(cluster),
    )
    errors = _ended(process)
    assert process.returncode == 1
    assert "window 1 has failed 3 times" in errors
    assert "expected finite logits" in errors
    assert all(record.id in errors for record in records[64:])
    assert _parts(run) == 1
    assert pl.read_parquet(run / "parts" / "part-000000.parquet")["id"].n_unique() == 64


@pytest.mark.slow
def test_workers_with_other_weights_or_too_many_are_refused_before_anything_is_scored(
    cluster: dict[str, str], qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base model changes between the driver's look at it and the workers'."""
    base = _changed(qwen3, 0, 0.5, tmp_path / "base")
    for name, value in token_of(cluster).items():
        monkeypatch.setenv(name, value)
    request = ModelRequest(None, str(base), device="cpu")
    source = worker_source(request, WorkersRequest(2, cluster["address"]))
    _changed(qwen3, 0, 0.25, base)
    with pytest.raises(WorkerError, match="workers do not agree") as caught:
        score_windows(source, read_dataset(HOLDOUT, k=1, limit=128), tmp_path / "run", labels={})
    message = str(caught.value)
    assert "settings.base.sha256" in message
    assert "on this process" in message
    assert "worker 1 (" in message
    assert "worker 2 (" in message
    assert _parts(tmp_path / "run") == 0
    source = worker_source(request, WorkersRequest(5, cluster["address"]))
    with pytest.raises(WorkerError, match="5 workers .*cluster has 2"):
        score_windows(source, read_dataset(HOLDOUT, k=1), tmp_path / "run", labels={})


@pytest.mark.slow
def test_one_process_may_use_a_cluster_and_then_its_own_ray(
    cluster: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray keeps the first token that it reads. The cluster's token is not that of our own Ray."""
    with monkeypatch.context() as environment:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            environment.setenv(name, cluster[name])
        theirs = WorkersRequest(2, cluster["address"])
        with connected(theirs, device="cpu", threads=1, most=2) as room:
            assert room.count == 2
    with connected(WorkersRequest(1), device="cpu", threads=1, most=1) as room:
        assert os.environ["RAY_AUTH_TOKEN"] != cluster["RAY_AUTH_TOKEN"]
        assert room.count == 1


def test_without_ray_the_message_names_the_extra(
    qwen3: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    arguments = ["score", "--no-adapter", "--base-model", str(qwen3), "--data", str(HOLDOUT)]
    result = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / "r"), "--workers", "2"])
    assert result.exit_code == 1
    assert_says(result.output, "pip install", "constraints.txt", ".[model,ray]")


def test_workers_are_not_for_servers() -> None:
    arguments = ["score", "--server", "http://127.0.0.1:9", "--model", "m", "--workers", "2"]
    result = CliRunner().invoke(main, [*arguments, "--data", str(HOLDOUT), "--out", "run"])
    assert result.exit_code == 2
    assert "give --server several times" in result.output
