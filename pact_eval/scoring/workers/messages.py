"""Messages between the driver and its workers: small frozen objects, pickled by Ray.

No object holds code. Rows travel as Arrow IPC bytes, and an exception of a worker as its text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pact_eval._json import Json
from pact_eval.scoring.request import KernelName, ModelRequest
from pact_eval.scoring.windows import Dataset


@dataclass(frozen=True)
class WorkerOrder:
    """Model that a worker loads, and settings of its computation.

    Attributes:
        model: the model, with absolute paths and a device that is not "auto".
        dataset: K, the orders, and the records that the engine is checked with.
        threads: number of threads of torch.
        kernel: the kernel of attention of the run.
    """

    model: ModelRequest
    dataset: Dataset
    threads: int
    kernel: KernelName = "fused"


@dataclass(frozen=True)
class WorkerDescription:
    """Description of a worker whose model is loaded and whose engine is checked.

    Attributes:
        host: name of its machine.
        pid: its process.
        device: name of the GPU or of the processor.
        threads: number of threads of torch.
        versions: versions of Python and of the libraries.
        settings: what identifies its model: hashes, prompts, device, precision.
        facts: attention, engine with its check, effect of the adapter.
    """

    host: str
    pid: int
    device: str
    threads: int
    versions: Mapping[str, Json]
    settings: Mapping[str, Json]
    facts: Mapping[str, Json]


@dataclass(frozen=True)
class WindowRows:
    """The rows of a window.

    Attributes:
        number: number of the window.
        ipc: the rows, as an Arrow IPC file.
        facts: those of the worker; token counts are those of this window alone.
        seconds: time that scoring it took.
    """

    number: int
    ipc: bytes
    facts: Mapping[str, Json]
    seconds: float

    @property
    def rows(self) -> pl.DataFrame:
        """The rows as a table.

        Examples:
            >>> table = pl.DataFrame({"logits": [[0.1, float("-inf")], []]})
            >>> WindowRows(0, ipc_bytes(table), {}, 1.0).rows.equals(table)
            True
        """
        return pl.read_ipc(io.BytesIO(self.ipc))


@dataclass(frozen=True)
class WorkerFailure:
    """Reason why a worker could not do its work.

    Attributes:
        kind: name of the exception's type.
        message: its text.
        checked: whether a check of ours refused model or data: the worker itself is well.

    Examples:
        >>> print(WorkerFailure("MemoryError", "no room"))
        MemoryError: no room
    """

    kind: str
    message: str
    checked: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def ipc_bytes(rows: pl.DataFrame) -> bytes:
    """Return rows as the bytes of an Arrow IPC file."""
    buffer = io.BytesIO()
    rows.write_ipc(buffer)
    return buffer.getvalue()
