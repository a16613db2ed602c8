"""Environment of the process of each step: its program path, GPUs and threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pact_eval.data.processes import usable_cores
from pact_eval.errors import InputError, counted

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_THREADS: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_SECONDS: Final = 20.0


def search_path() -> str:
    """Return the PATH of commands: the programs next to this Python come first.

    So `python train.py` runs the Python that pact-eval runs in, also if its environment is not
    activated.
    """
    here = str(Path(sys.executable).parent)
    return os.pathsep.join([here, os.environ.get("PATH", os.defpath)])


def step_environment(*, threads: int | None = None, gpus: str | None = None) -> dict[str, str]:
    """Return the environment of a step: that of this process.

    Settings of a project (`pact.toml`) do not apply: the plan has all settings.

    Args:
        threads: threads of libraries, unless the user has set them; None leaves them alone.
        gpus: GPUs, as `CUDA_VISIBLE_DEVICES` names them; None leaves them alone.
    """
    shared = {k: value for k, value in os.environ.items() if not k.startswith("PACT_EVAL_")}
    shared |= {"PATH": search_path(), "PACT_EVAL_CONFIG": "", "PYTHONUNBUFFERED": "1"}
    shared |= {"COLUMNS": "120", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    shared |= {} if gpus is None else {_VISIBLE: gpus}
    return ({} if threads is None else dict.fromkeys(_THREADS, str(threads))) | shared


def job_environments(
    jobs: int, devices: tuple[str, ...], gpus: int = 1
) -> tuple[dict[str, str], ...]:
    """Return the environment of each of several processes at a time.

    Each has its own GPUs. Without GPUs, it has its share of the cores as threads.

    Args:
        jobs: number of processes, at least 1.
        devices: the GPUs of this machine.
        gpus: GPUs of each process, at least 1; a single process has all.

    Raises:
        InputError: there are GPUs, but too few.

    Examples:
        >>> [job["CUDA_VISIBLE_DEVICES"] for job in job_environments(2, ("0", "1", "2"))]
        ['0', '1']
    """
    most = len(devices) // gpus
    if devices and jobs > most:
        raise InputError(
            f"--jobs {jobs}: each has {counted(gpus, 'GPU')}, and this machine has "
            f"{len(devices)}; expected at most {most}"
        )
    if jobs == 1:
        return (step_environment(),)
    if not devices:
        return (step_environment(threads=max(1, usable_cores() // jobs)),) * jobs
    parts = (devices[gpus * job : gpus * (job + 1)] for job in range(jobs))
    return tuple(step_environment(gpus=",".join(part)) for part in parts)


def gpus_here(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the GPUs of this machine, without loading torch.

    Args:
        environment: its `CUDA_VISIBLE_DEVICES` says which GPUs may be used.

    Examples:
        >>> gpus_here({"CUDA_VISIBLE_DEVICES": "2,3"}), gpus_here({"CUDA_VISIBLE_DEVICES": ""})
        (('2', '3'), ())
    """
    named, program = environment.get(_VISIBLE), shutil.which("nvidia-smi")
    if named is None and program is not None:
        command = [program, "--query-gpu=index", "--format=csv,noheader"]
        try:
            listed = subprocess.run(  # noqa: S603 -- a program of the system, with our words
                command, capture_output=True, text=True, timeout=_SECONDS, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ()
        named = listed.stdout.replace("\n", ",")
    names = (named or "").split(",")
    return tuple(name.strip() for name in names if name.strip() not in ("", "-1"))
