"""Messages between the driver and its workers: small frozen objects, pickled by Ray.

No object holds code. Rows travel as Arrow IPC bytes, and an exception of a worker as its text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pact_eval._json import Json
from pact_eval.errors import WorkerError
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
        lost: whether its process has died, or Ray cannot start it.

    Examples:
        >>> print(WorkerFailure("MemoryError", "no room"))
        MemoryError: no room
    """

    kind: str
    message: str
    checked: bool = False
    lost: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def ipc_bytes(rows: pl.DataFrame) -> bytes:
    """Return rows as the bytes of an Arrow IPC file."""
    buffer = io.BytesIO()
    rows.write_ipc(buffer)
    return buffer.getvalue()


_CLIENT = "ray://"


@dataclass(frozen=True)
class WorkersRequest:
    """Workers on this machine, or on a cluster.

    Attributes:
        count: number of workers, at least 1; None takes one per GPU of a cluster, or one per CPU
            node.
        address: a node of a Ray cluster, as host:port, or "auto" for the cluster that this machine
            belongs to; None starts a Ray on this machine.

    Raises:
        WorkerError: neither is given, or the address is one that Ray clients use.
        ValueError: the count is below 1.

    Examples:
        >>> WorkersRequest(2).address is None
        True
        >>> WorkersRequest(address="ray://head:10001")
        Traceback (most recent call last):
            ...
        pact_eval.errors.WorkerError: --ray ray://head:10001: expected host:port or auto, ...
    """

    count: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.count is None and self.address is None:
            raise WorkerError("expected a number of workers, or the address of a Ray cluster")
        if self.count is not None and self.count < 1:
            raise ValueError(f"expected at least 1 worker, got {self.count}")
        if self.address is not None and self.address.startswith(_CLIENT):
            raise WorkerError(
                f"--ray {self.address}: expected host:port or auto, got the address of a Ray "
                "client; run the command on a node of the cluster, with --ray auto"
            )
