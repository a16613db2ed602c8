"""Devices and threads that each process of an experiment may use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from pact_eval.data.processes import usable_cores
from pact_eval.errors import InputError, counted
from pact_eval.experiments.plan_files import search_path

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_THREADS: Final = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "POLARS_MAX_THREADS",
)
_OURS: Final = "PACT_EVAL_"
_SECONDS: Final = 20.0


def slot_environments(
    slots: int, devices: tuple[str, ...], gpus: int = 1
) -> tuple[dict[str, str], ...]:
    """Return the environment of each slot.

    A slot of several has its own devices. Without devices, it has its share of the cores as
    threads.

    Args:
        slots: number of slots, at least 1.
        devices: the GPUs, as `CUDA_VISIBLE_DEVICES` names them.
        gpus: GPUs of each slot, at least 1; a single slot has all.

    Raises:
        InputError: there are devices, but too few for the slots.

    Examples:
        >>> [slot["CUDA_VISIBLE_DEVICES"] for slot in slot_environments(2, ("0", "1", "2"))]
        ['0', '1']
    """
    most = len(devices) // gpus
    if devices and slots > most:
        message = (
            f"--slots {slots}: each slot has {counted(gpus, 'GPU')}, and this machine has "
            f"{len(devices)}; expected at most {most}"
        )
        raise InputError(message)
    if slots == 1:
        return (step_environment(),)
    if devices:
        parts = (devices[gpus * slot : gpus * (slot + 1)] for slot in range(slots))
        return tuple(step_environment() | {_VISIBLE: ",".join(part)} for part in parts)
    return (step_environment(threads=max(1, usable_cores() // slots)),) * slots


def task_environment(cpus: int, gpus: int) -> dict[str, str]:
    """Return the environment of a step in a Ray task, which has chosen the GPUs.

    Args:
        cpus: CPUs that Ray has reserved for it.
        gpus: GPUs likewise; with 0, it sees none.
    """
    return step_environment(threads=cpus) | ({} if gpus else {_VISIBLE: ""})


def step_environment(threads: int | None = None) -> dict[str, str]:
    """Return the environment of a step: that of this process.

    Settings of a project (`pact.toml`) do not apply: the plan has all settings.

    Args:
        threads: threads of libraries, unless the user has set them; None leaves them alone.
    """
    shared = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    shared |= {"PATH": search_path(), "PACT_EVAL_CONFIG": "", "PYTHONUNBUFFERED": "1"}
    shared |= {"COLUMNS": "120", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    return ({} if threads is None else dict.fromkeys(_THREADS, str(threads))) | shared


def gpus_here(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the GPUs of this machine, without loading torch.

    Args:
        environment: its `CUDA_VISIBLE_DEVICES` says which GPUs may be used.

    Examples:
        >>> gpus_here({"CUDA_VISIBLE_DEVICES": "2,3"}), gpus_here({"CUDA_VISIBLE_DEVICES": ""})
        (('2', '3'), ())
    """
    named = environment.get(_VISIBLE)
    if named is not None:
        return tuple(name.strip() for name in named.split(",") if name.strip() not in ("", "-1"))
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listed = subprocess.run(  # noqa: S603 -- a program of the system, with our words
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listed.stdout.splitlines() if line.strip())
