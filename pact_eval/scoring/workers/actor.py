"""A worker: one process with one loaded model, which scores the windows that it is sent.

Ray runs one `WindowWorker` per worker as an actor. The class does not know Ray. Its module imports
no torch: Ray sets the number of OpenMP threads of the process before it calls `start`.
"""

from __future__ import annotations

import os
import platform
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pact_eval.data.records import Record
from pact_eval.errors import MemoryExhaustedError, PactError
from pact_eval.runs.folder import library_versions
from pact_eval.scoring.workers.messages import (
    WindowRows,
    WorkerDescription,
    WorkerFailure,
    WorkerOrder,
    ipc_bytes,
)

if TYPE_CHECKING:
    import torch

    from pact_eval.scoring.score import LocalScorer

Reply = TypeVar("Reply")


class WindowWorker:
    """Worker that loads one model and scores windows with it, by the code of a single process."""

    def __init__(self) -> None:
        self._scorer: LocalScorer | None = None
        self._open = ExitStack()

    def start(self, order: WorkerOrder) -> WorkerDescription | WorkerFailure:
        """Load the model and check its engine.

        Args:
            order: the model, and how to compute.

        Returns:
            What this worker is, or why it cannot be used.
        """
        return _replied(lambda: self._start(order))

    def score(self, number: int, records: Sequence[Record]) -> WindowRows | WorkerFailure:
        """Score a window.

        Args:
            number: its number.
            records: its records.

        Returns:
            Its rows, or why it could not be scored.
        """
        return _replied(lambda: self._score(number, records))

    def _start(self, order: WorkerOrder) -> WorkerDescription:
        import torch

        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import LocalSource

        if torch.get_num_threads() != order.threads:
            torch.set_num_threads(order.threads)
        model = identify(order.model)
        scorer = self._open.enter_context(LocalSource(model, order.kernel).open(order.dataset))
        self._scorer = scorer
        return WorkerDescription(
            host=socket.gethostname(),
            pid=os.getpid(),
            device=_device_name(model.device),
            threads=torch.get_num_threads(),
            versions=library_versions(quantised=model.quantisation is not None),
            settings=model.settings,
            facts=scorer.facts,
        )

    def _score(self, number: int, records: Sequence[Record]) -> WindowRows:
        if self._scorer is None:
            message = "expected start() to be called first"
            raise RuntimeError(message)
        started = time.monotonic()
        self._scorer.reset_counts()
        rows = ipc_bytes(self._scorer.rows(records))
        return WindowRows(number, rows, self._scorer.facts, time.monotonic() - started)


def _replied(work: Callable[[], Reply]) -> Reply | WorkerFailure:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 -- it is text for the driver, which never unpickles it
        # After memory has run out, another process may have more of it.
        checked = isinstance(error, PactError) and not isinstance(error, MemoryExhaustedError)
        return WorkerFailure(type(error).__name__, str(error), checked)


def _device_name(device: torch.device) -> str:
    """Return the name of the GPU, or that of the processor."""
    import torch

    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    if device.type != "cpu":
        return device.type
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
