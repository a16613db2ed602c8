"""Devices and threads of slots: what each process of an experiment may use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from pact_eval.data.processes import usable_cores
from pact_eval.errors import InputError
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


def slot_environments(slots: int, devices: tuple[str, ...]) -> tuple[dict[str, str], ...]:
    """Return the environment of each slot.

    A slot of several has one device. Without devices, it has its share of the cores as threads; a
    number of threads that the user has set is kept. Settings of a project (`pact.toml`) do not
    apply: the plan has all settings.

    Args:
        slots: number of slots, at least 1.
        devices: the GPUs, as `CUDA_VISIBLE_DEVICES` names them.

    Raises:
        InputError: there are devices, but fewer than slots.

    Examples:
        >>> [slot["CUDA_VISIBLE_DEVICES"] for slot in slot_environments(2, ("0", "1", "2"))]
        ['0', '1']
    """
    if devices and slots > len(devices):
        message = (
            f"--slots {slots}: each slot has one GPU, and this machine has {len(devices)}; "
            f"expected at most {len(devices)}"
        )
        raise InputError(message)
    shared = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    shared |= {"PATH": search_path(), "PACT_EVAL_CONFIG": "", "PYTHONUNBUFFERED": "1"}
    shared |= {"COLUMNS": "120", "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE")}
    if slots == 1:
        return (shared,)
    if devices:
        return tuple(shared | {_VISIBLE: device} for device in devices[:slots])
    threads = dict.fromkeys(_THREADS, str(max(1, usable_cores() // slots)))
    return (threads | shared,) * slots


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
