"""Devices and threads of jobs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pact_eval.data.processes import usable_cores
from pact_eval.errors import InputError
from pact_eval.experiments.plan import gpus_here, job_environments, step_environment


def test_each_job_has_one_gpu_and_one_job_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    devices = gpus_here()
    assert devices == ("3", "5")
    assert [job["CUDA_VISIBLE_DEVICES"] for job in job_environments(2, devices)] == ["3", "5"]
    assert [job["CUDA_VISIBLE_DEVICES"] for job in job_environments(1, devices)] == ["3,5"]
    with pytest.raises(InputError, match="at most 2"):
        job_environments(3, devices)


def test_jobs_have_as_many_gpus_as_a_step_needs() -> None:
    jobs = job_environments(2, ("0", "1", "4", "5", "6"), gpus=2)
    assert [job["CUDA_VISIBLE_DEVICES"] for job in jobs] == ["0,1", "4,5"]
    with pytest.raises(InputError, match="each has 2 GPUs.* at most 2"):
        job_environments(3, ("0", "1", "4", "5", "6"), gpus=2)


def test_threads_and_gpus_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert step_environment(threads=4, gpus="")["CUDA_VISIBLE_DEVICES"] == ""
    task = step_environment(threads=4)
    assert (task["CUDA_VISIBLE_DEVICES"], task["MKL_NUM_THREADS"]) == ("3", "4")


def test_without_gpus_jobs_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    share = str(max(1, usable_cores() // 2))
    for job in job_environments(2, ()):
        assert (job["OMP_NUM_THREADS"], job["MKL_NUM_THREADS"]) == (share, share)
    assert "OMP_NUM_THREADS" not in job_environments(1, ())[0]
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert job_environments(2, ())[1]["OMP_NUM_THREADS"] == "7"


def test_settings_of_a_project_do_not_reach_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACT_EVAL_K", "2")
    monkeypatch.setenv("PACT_EVAL_CONFIG", "pact.toml")
    (job,) = job_environments(1, ())
    assert job["PACT_EVAL_CONFIG"] == ""
    assert "PACT_EVAL_K" not in job


def test_python_is_the_one_that_runs_pact_eval() -> None:
    (job,) = job_environments(1, ())
    program = shutil.which(Path(sys.executable).name, path=job["PATH"])
    assert program is not None
    assert Path(program).parent == Path(sys.executable).parent


@pytest.mark.posix
@pytest.mark.parametrize(("script", "gpus"), [("echo 0; echo 1", ("0", "1")), ("exit 9", ())])
def test_gpus_that_the_driver_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, gpus: tuple[str, ...]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus_here({}) == gpus
