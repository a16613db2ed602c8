"""Ray: started on this machine for one run, or a cluster that exists. The only module that uses it.

A Ray of our own listens on the loopback interface only, asks for a token that is made for it, and
has no dashboard. It ends with the run, even if this process is killed (see `guard`). Whoever
reaches a Ray cluster can run code on it: that is what it is for.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pact_eval.data.records import Record
from pact_eval.errors import MemoryExhaustedError, PactError, WorkerError
from pact_eval.runs.folder import library_versions
from pact_eval.scoring.workers.messages import (
    WindowRows,
    WorkerDescription,
    WorkerFailure,
    WorkerOrder,
    WorkersRequest,
    ipc_bytes,
)

if TYPE_CHECKING:
    import psutil
    import torch

    from pact_eval.scoring.score import LocalScorer


Reply = TypeVar("Reply")


class WindowWorker:
    """Worker that loads one model and scores windows with it, by the code of a single process."""

    def __init__(self, order: WorkerOrder) -> None:
        self._order = order
        self._scorer: LocalScorer | None = None
        self._open = ExitStack()

    def start(self) -> WorkerDescription | WorkerFailure:
        """Load the model and check its engine; return what this worker is, or why it cannot be."""
        return _reply_of(self._start)

    def score(self, number: int, records: Sequence[Record]) -> WindowRows | WorkerFailure:
        """Score a window.

        Args:
            number: its number.
            records: its records.

        Returns:
            Its rows, or why it could not be scored.
        """
        return _reply_of(lambda: self._score(number, records))

    def _start(self) -> WorkerDescription:
        import torch

        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import LocalSource

        order = self._order
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
        if self._scorer is None:  # a process that Ray has started again, and nobody has compared
            raise RuntimeError("expected start() to be called first")
        started = time.monotonic()
        self._scorer.reset_counts()
        rows = ipc_bytes(self._scorer.rows(records))
        return WindowRows(number, rows, self._scorer.facts, time.monotonic() - started)


def _reply_of(work: Callable[[], Reply]) -> Reply | WorkerFailure:
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


_SECONDS: Final = 8.0
_POLL_SECONDS: Final = 0.1
_OUTPUTS: Final = (".out", ".err")  # as Ray names the files of standard output and error
_QUIET_POLLS: Final = 3
"""So often in a row no process may be left: one that was being started may have no log yet."""


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """End all processes whose output goes to a folder, and remove it, when the block or we end.

    Ctrl-C in a terminal does not reach the guard.
    """
    command = [sys.executable, "-P", __file__, str(folder)]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 -- our own script
        command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
    ):
        yield


def _end_all(folder: Path) -> None:
    """Kill the processes whose output goes to a folder, until none is left; then remove it."""
    import psutil  # of the extra `ray`

    deadline, quiet = time.monotonic() + _SECONDS, 0
    while quiet < _QUIET_POLLS and time.monotonic() < deadline:
        left = [process for process in psutil.process_iter() if _writes_to(process, folder)]
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        quiet = 0 if left else quiet + 1
        time.sleep(_POLL_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def _writes_to(process: psutil.Process, folder: Path) -> bool:
    """Return whether the output of a process goes to a folder; no if we may not see that."""
    import psutil

    with suppress(psutil.Error, OSError):
        paths = (Path(file.path) for file in process.open_files())
        return any(path.suffix in _OUTPUTS and path.is_relative_to(folder) for path in paths)
    return False


def main(folder: Path) -> None:
    """Wait until the process that started this one is gone, or has closed the pipe."""
    sys.stdin.buffer.read()
    _end_all(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())


_OBJECT_BYTES: Final = 100 * 2**20  # rows of a window take some 100 kB
_CONNECT_SECONDS: Final = 20.0
_LONGEST_FOLDER: Final = 24  # the path of a Unix socket has 107 bytes at most

# Ray reads them when it is imported, so they are set before. What the user has set is kept.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray's own switch for "one machine only", the default on macOS: it takes the loopback address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # On a busy machine, a process that is slow to start or to reply is not dead.
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_health_check_failure_threshold": "30",
}


_MOST_STARTS: Final = 3


@dataclass(frozen=True)
class Cluster:
    """A connected Ray.

    Attributes:
        count: number of workers that it runs.
        cpus: CPUs that Ray reserves for each.
        gpus: GPUs that Ray reserves for each, 0 or 1.
    """

    count: int
    cpus: int
    gpus: int

    def new_worker(self, order: WorkerOrder) -> Any:
        """Return the handle of a worker that Ray starts as soon as it has room.

        If its process dies, Ray starts another one, here or elsewhere; calls are not repeated.
        """
        ray = import_ray()
        remote = ray.remote(WindowWorker)
        return remote.options(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_restarts=-1,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        ).remote(order)

    def start(self, worker: Any) -> Any:
        """Call for the description of a worker, which loads its model; three tries."""
        return worker.start.options(max_task_retries=_MOST_STARTS - 1).remote()

    def ready(self, calls: Sequence[Any], seconds: float) -> list[Any]:
        """Wait until a call has a reply; return those that have one.

        Args:
            calls: what calls of workers returned.
            seconds: the longest wait.
        """
        done, _ = import_ray().wait(list(calls), num_returns=1, timeout=seconds)
        finished: list[Any] = done
        return finished

    def reply(self, call: Any) -> object:
        """Return the reply to a call that has one; a `WorkerFailure` if its process has died."""
        ray = import_ray()
        try:
            return ray.get(call)
        except ray.exceptions.RayError as error:
            kind, _, message = first_line(error).partition(": ")
            return WorkerFailure(kind, message, lost=True)

    def kill(self, worker: Any) -> None:
        """End a worker at once, whatever it does."""
        import_ray().kill(worker, no_restart=True)

    def restart(self, worker: Any) -> None:
        """End the process of a worker, and start another one."""
        import_ray().kill(worker, no_restart=False)


@contextmanager
def connected(
    request: WorkersRequest, *, device: str, threads: int, most: int
) -> Iterator[Cluster]:
    """Start a Ray here, or connect to one, for the duration of the block.

    SIGTERM raises KeyboardInterrupt in the block, as Ctrl-C does.

    Args:
        request: which workers the user asked for.
        device: cpu or cuda.
        threads: threads of each worker.
        most: most workers that have something to do, at least 1.

    Raises:
        WorkerError: Ray cannot be started or reached, or has no room for the workers.
    """
    import_ray(request)
    if request.address is None:
        with _local(min(request.count or 1, most), device, threads) as cluster:
            yield cluster
    else:
        with joined(request.address) as ray:
            yield _room(request, ray.nodes(), device, threads, most)


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Connect to a Ray cluster for the duration of the block, which gets Ray.

    SIGTERM raises KeyboardInterrupt in the block, as Ctrl-C does.

    Args:
        address: a node of the cluster, as host:port, or "auto" for that of this machine.

    Raises:
        WorkerError: it cannot be reached.
        ModuleNotFoundError: Ray is not installed.
    """
    import_ray(WorkersRequest(address=address))
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal():  # Ray would try an address where nothing listens for minutes
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise WorkerError(
            f"--ray {address}: nothing answers there ({error}); expected host:port of the head of "
            "a Ray cluster, or auto"
        ) from None
    with _initialise_ray(f"--ray {address}", address=address) as ray:
        yield ray


def cluster_has_gpus(address: str) -> bool:
    """Return whether a Ray cluster has a GPU.

    Raises:
        WorkerError: it cannot be reached.
    """
    with joined(address) as ray:
        return sum(_per_node(ray.nodes(), "GPU")) >= 1


def import_ray(request: WorkersRequest | None = None) -> Any:
    """Import Ray with our settings, and return it.

    Args:
        request: which workers the user asked for. Ray reads whether it asks for a token when it is
            imported, so that is said before.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    settings = dict(_ENVIRONMENT)
    if request is not None and request.address is None and "RAY_AUTH_MODE" not in os.environ:
        settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray
        import ray.exceptions
    return ray


@contextmanager
def _local(count: int, device: str, threads: int) -> Iterator[Cluster]:
    """Run a Ray on this machine, which nobody else can use."""
    gpus = 0
    if device == "cuda":
        import torch

        gpus = torch.cuda.device_count()
        if gpus < count:
            raise WorkerError(f"--workers {count}: each takes one GPU, and this machine has {gpus}")
    # Workers inherit both. One process has as many threads.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    folder = _private_folder()
    with (
        guarded(folder),
        _initialise_ray(
            f"--workers {count}",
            address="local",
            num_cpus=count,
            num_gpus=gpus,
            include_dashboard=False,
            object_store_memory=_OBJECT_BYTES,
            _temp_dir=str(folder),
        ),
    ):
        from ray._private.authentication.authentication_utils import is_token_auth_enabled

        # Otherwise anybody on this machine could use it.
        if os.environ.get("RAY_AUTH_MODE", "").lower() == "token" and not is_token_auth_enabled():
            raise WorkerError(
                "Ray was imported before pact-eval could make it ask for a token; start Python "
                "with RAY_AUTH_MODE=token, or with RAY_AUTH_MODE=disabled to do without"
            )
        yield Cluster(count, 1, min(gpus, 1))


@contextmanager
def _initialise_ray(option: str, **settings: Any) -> Iterator[Any]:
    """Connect to a Ray, or start one, for the duration of the block."""
    ray = import_ray()
    from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]

    # Ray keeps its first token for the whole life of a process.
    AuthenticationTokenLoader.instance().reset_cache()
    # It prints about lost workers and nodes to stdout, between our JSON.
    ray._private.worker._worker_logs_enabled = False
    before = signal.getsignal(signal.SIGTERM)
    in_main_thread = threading.current_thread() is threading.main_thread()
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(configure_logging=False, log_to_driver=False, **settings)
        except Exception as error:  # ConnectionError, RuntimeError, ValueError, what else Ray has
            raise WorkerError(f"{option}: Ray cannot be used: {first_line(error)}") from error
        if in_main_thread:  # instead of Ray's handlers, which end the process at once
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        yield ray
    finally:
        ray.shutdown()  # also after Ctrl-C during the start: at the exit of Python, it may crash
        if in_main_thread:
            signal.signal(signal.SIGTERM, before)
        ray._private.worker._worker_logs_enabled = True


def _room(
    request: WorkersRequest,
    nodes: Sequence[dict[str, Any]],
    device: str,
    threads: int,
    most: int,
) -> Cluster:
    """Return how many workers a cluster runs, and what it reserves for each.

    Raises:
        WorkerError: it has too few GPUs or CPUs.
    """
    kind = "GPU" if device == "cuda" else "CPU"
    per_node = _per_node(nodes, kind)
    total = sum(per_node)
    usual = total if device == "cuda" else sum(cpus >= 1 for cpus in per_node)
    count = min(request.count or usual, most)
    if count < 1 or total < count:
        raise WorkerError(
            f"--ray {request.address}: {max(count, 1)} workers need one {kind} each, "
            f"the cluster has {total}"
        )
    if device == "cuda":
        return Cluster(count, 1, 1)
    fitting = [
        cpus
        for cpus in range(max(threads, 1), 0, -1)
        if sum(on_node // cpus for on_node in per_node) >= count
    ]
    return Cluster(count, fitting[0], 0)


def _per_node(nodes: Sequence[dict[str, Any]], kind: str) -> list[int]:
    return [int(node["Resources"].get(kind, 0)) for node in nodes if node["Alive"]]


def _private_folder() -> Path:
    """Return a new folder that only this user can read, for Ray's sockets and logs."""
    start = tempfile.gettempdir()
    if len(start) > _LONGEST_FOLDER and Path("/tmp").is_dir():  # noqa: S108 -- mkdtemp makes a private folder in it
        start = "/tmp"  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="pact-ray-", dir=start))


def first_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its message.

    Examples:
        >>> first_line(ValueError("no room"))
        'ValueError: no room'
    """
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
