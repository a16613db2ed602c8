"""Requested workers of a run."""

from __future__ import annotations

from dataclasses import dataclass

from pact_eval.errors import WorkerError

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
            message = "expected a number of workers, or the address of a Ray cluster"
            raise WorkerError(message)
        if self.count is not None and self.count < 1:
            message = f"expected at least 1 worker, got {self.count}"
            raise ValueError(message)
        if self.address is not None and self.address.startswith(_CLIENT):
            message = (
                f"--ray {self.address}: expected host:port or auto, got the address of a Ray "
                "client; run the command on a node of the cluster, with --ray auto"
            )
            raise WorkerError(message)
