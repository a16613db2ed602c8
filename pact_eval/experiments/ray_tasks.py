"""Steps as tasks of a Ray cluster, each under the same supervisor as on one machine.

Ray decides where and when a task runs, with `num_cpus` and `num_gpus`, and starts it again if its
worker or node is lost (`max_retries`). It does not repeat a task that raises (`retry_exceptions` is
not set), and a trainer that fails is not even an exception here: it is an ending like any other.

Each part of this chain ends what is below it, whoever is killed: the experiment, a Ray worker that
runs a task, the supervisor, the command. A task that starts again waits in the supervisor for the
lock of its step, until the command of the earlier attempt has ended.
"""

from __future__ import annotations

import math
import os
import platform
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pact_eval._choices import ExperimentStage
from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, dumps
from pact_eval.errors import InputError, WorkerError, counted
from pact_eval.experiments.devices import task_environment
from pact_eval.experiments.executor import Ending, StepOrder
from pact_eval.experiments.plan import Plan, Reserved
from pact_eval.experiments.preparing import PreparedExperiment
from pact_eval.experiments.processes import GRACE_SECONDS, clear_step, log_path, log_tail, start
from pact_eval.experiments.shared_folder import LATE_SECONDS, Probe, open_probe
from pact_eval.scoring.extras import ray_extra
from pact_eval.scoring.workers.cluster import first_line, import_ray, joined

MAX_RETRIES: Final = 3
"""So often, a step whose worker or node is lost is started again."""

_POLL_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.5  # between two looks at the file of an attempt, on shared storage
_PROBE_SECONDS: Final = 120.0
_FORCE_SECONDS: Final = GRACE_SECONDS + 15.0
_NODES_SHOWN: Final = 5


@dataclass
class RayTask:
    """A step as a task: an `Execution` on a cluster.

    Attributes:
        ray: the connected Ray.
        order: what runs.
        call: the reference to its ending.
        name: identity of the task, the same for all of its attempts.
        log: its log.
        submitted: when Ray got it, in seconds of a monotonic clock.
        attempt: number of the last attempt that was seen.
        looked: when its attempt was last looked for.
        ending: how it has ended on its node.
        ended: when that was seen.
    """

    ray: Any
    order: StepOrder
    call: Any
    name: str
    log: Path
    submitted: float
    attempt: int = 0
    looked: float = 0.0
    ending: Ending | None = field(default=None)
    ended: float = 0.0

    def new_starts(self) -> Iterator[Mapping[str, Json]]:
        """Yield the node of each attempt; the first, and those after a loss."""
        now = time.monotonic()
        if now - self.looked < _LOOK_SECONDS:
            return
        self.looked = now
        written = _read_attempt(self.order)
        number = written.get("attempt")
        if written.get("task") == self.name and isinstance(number, int) and number > self.attempt:
            self.attempt = number
            yield {name: fact for name, fact in written.items() if name != "task"}

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it waits or runs, or its files are not seen here."""
        if self.ending is None:
            if not self.ray.wait([self.call], timeout=0)[0]:
                return None
            self.ending, self.ended = self._reply(), time.monotonic()
            self.looked = -math.inf  # its last start is told before its end
            return None
        if self.ending.why or not self.order.lacking():
            return self.ending
        if time.monotonic() - self.ended < LATE_SECONDS:
            return None
        lacking = ", ".join(map(str, self.order.lacking()))
        why = f"written on its node, but not seen here after {LATE_SECONDS:g} s: {lacking}"
        return replace(self.ending, why=why)

    def stop(self) -> None:
        """Cancel it: Ray interrupts the task, which ends its command."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.cancel(self.call)

    def join(self) -> None:
        """Wait until it has ended; a worker that does not answer is killed."""
        with suppress(self.ray.exceptions.RayError):
            if not self.ray.wait([self.call], timeout=_FORCE_SECONDS)[0]:
                self.ray.cancel(self.call, force=True)

    def _reply(self) -> Ending:
        try:
            ending: Ending = self.ray.get(self.call)
        except self.ray.exceptions.RayError as error:
            seconds = time.monotonic() - self.submitted
            why = f"its Ray task failed: {_reason(error)}"
            return Ending(why, InputError.exit_code, seconds, log_tail(self.log))
        return ending


class RayTasks:
    """Runs steps on a Ray cluster: an `Executor`.

    Args:
        ray: the connected Ray.
        reserved: what Ray reserves for a step of each stage.
        probe: what every node must find.
        parallel: number of trainings that run at a time.
    """

    def __init__(
        self, ray: Any, reserved: Mapping[ExperimentStage, Reserved], probe: Probe, parallel: int
    ) -> None:
        self.parallel = parallel
        self._ray = ray
        self._reserved = reserved
        self._probe = probe
        self._run = ray.remote(run_step)

    def has_room(self) -> bool:
        """Return whether it takes one more step: always, because Ray lets tasks wait."""
        return True

    def start(self, order: StepOrder) -> RayTask:
        """Give a step to Ray."""
        step, name = order.step, secrets.token_hex(8)
        reserved = self._reserved[step.stage]
        there = replace(order, folder=order.folder.absolute(), places=order.places.absolute())
        remote = self._run.options(
            name=step.name,
            num_cpus=reserved.cpus,
            num_gpus=reserved.gpus,
            max_retries=MAX_RETRIES,
            scheduling_strategy="SPREAD",
        )
        call = remote.remote(there, reserved, self._probe, name)
        log = log_path(order.places, step)
        return RayTask(self._ray, order, call, name, log, time.monotonic())


def run_step(order: StepOrder, reserved: Reserved, probe: Probe, task: str) -> Ending:
    """Run the command of a step in a Ray task, and return how it has ended.

    Args:
        order: what runs, with absolute paths.
        reserved: what Ray has reserved for it.
        probe: what this node must find; it may have joined the cluster after the others.
        task: identity of the task.
    """
    started = time.monotonic()
    try:
        problem = probe.problem_here()
        if problem:
            why = f"node {platform.node()} {problem}"
            return Ending(why, InputError.exit_code, time.monotonic() - started)
        if _note_attempt(order, task) > 1 and not order.step.resumes:
            clear_step(order)
        return _run_command(order, reserved)
    except Exception as error:  # noqa: BLE001 -- it is text for the driver, which never unpickles it
        why = f"on node {platform.node()}: {first_line(error)}"
        return Ending(why, InputError.exit_code, time.monotonic() - started)


def _run_command(order: StepOrder, reserved: Reserved) -> Ending:
    process = start(order, task_environment(reserved.cpus, reserved.gpus or 0), {})
    try:
        while (ending := process.poll()) is None:
            time.sleep(_POLL_SECONDS)
    except BaseException:  # Ray cancels a task with KeyboardInterrupt
        process.stop()
        process.join()
        raise
    return ending


def _note_attempt(order: StepOrder, task: str) -> int:
    """Write down which attempt of a task runs, and where; return its number, from 1."""
    before = _read_attempt(order)
    last = before.get("attempt") if before.get("task") == task else 0
    number = 1 + (last if isinstance(last, int) else 0)
    facts: dict[str, Json] = {"node": platform.node(), "pid": os.getpid(), "attempt": number}
    path = _attempt_path(order)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, dumps({"task": task, **facts}))
    return number


def _read_attempt(order: StepOrder) -> Mapping[str, Json]:
    try:
        value = read_json(_attempt_path(order))
    except (InputError, OSError):
        return {}
    return value if isinstance(value, dict) else {}


def _attempt_path(order: StepOrder) -> Path:
    return order.places / "locks" / f"{order.step.name}.json"


@contextmanager
def ray_tasks(experiment: PreparedExperiment, address: str) -> Iterator[RayTasks]:
    """Connect to a cluster and probe its nodes, for the duration of the block.

    Args:
        experiment: the experiment, whose folder exists and is locked.
        address: a node of the cluster, as host:port, or "auto".

    Raises:
        WorkerError: the cluster cannot be reached, has no room for a step, or a node does not
            share the folder.
        MissingExtraError: Ray is not installed.
    """
    with ray_extra():
        import_ray()
    distributions = {name for step in experiment.steps for name in step.versions}
    with (
        joined(address) as ray,
        open_probe(experiment.plan.path, experiment.folder, distributions) as probe,
    ):
        # A head that only keeps the books has no CPU: no step runs there.
        nodes = [node for node in ray.nodes() if node["Alive"] and _amount(node, "CPU") >= 1]
        stages = {step.stage for step in experiment.steps}
        reserved = _reservations(experiment.plan, stages, nodes, address)
        _probe_nodes(ray, nodes, probe, address)
        widest = reserved.get("train") or Reserved()
        parallel = max(1, sum(_fitting(node, widest) for node in nodes))
        yield RayTasks(ray, reserved, probe, parallel)


def _reservations(
    plan: Plan,
    stages: set[ExperimentStage],
    nodes: Sequence[Mapping[str, Any]],
    address: str,
) -> dict[ExperimentStage, Reserved]:
    """Return what Ray reserves for a step of each stage.

    Raises:
        WorkerError: no node has as much.
    """
    has_gpus = any(_amount(node, "GPU") >= 1 for node in nodes)
    reserved: dict[ExperimentStage, Reserved] = {}
    for stage in stages:
        needed = plan.reserved(stage, has_gpus=has_gpus)
        if not any(_fitting(node, needed) for node in nodes):
            sizes = [f"{_host(node)} ({_size(node)})" for node in nodes[:_NODES_SHOWN]]
            more = ", ..." if len(nodes) > _NODES_SHOWN else ""
            message = (
                f"--ray {address}: {stage} needs {counted(needed.cpus, 'CPU')} and "
                f"{counted(needed.gpus or 0, 'GPU')} on one node; "
                f"the cluster has {', '.join(sizes) or 'no node with a CPU'}{more}"
            )
            raise WorkerError(message)
        reserved[stage] = needed
    return reserved


def _probe_nodes(ray: Any, nodes: Sequence[Mapping[str, Any]], probe: Probe, address: str) -> None:
    """Look at the shared folder from every node.

    Raises:
        WorkerError: a node lacks something; the message names every such node.
    """
    pinned = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    look = ray.remote(_answer)
    hosts, calls = {node["NodeID"]: _host(node) for node in nodes}, {}
    for node in hosts:
        remote = look.options(num_cpus=0, scheduling_strategy=pinned(node, soft=False))
        calls[node] = remote.remote(probe, node)
    done, _ = ray.wait([*calls.values()], num_returns=len(calls), timeout=_PROBE_SECONDS)
    problems: dict[str, str] = {}
    for node, call in calls.items():
        problems[node] = f"does not answer within {_PROBE_SECONDS:g} s"
        if call in done:
            try:
                problems[node] = ray.get(call)
            except ray.exceptions.RayError as error:
                problems[node] = f"cannot be used: {_reason(error)}"
    for node in probe.unseen([node for node, problem in problems.items() if not problem]):
        problems[node] = f"writes into {probe.folder}, but its file is not seen here"
    lines = [f"  node {hosts[node]} {problem}" for node, problem in problems.items() if problem]
    if lines:
        message = "\n".join([f"--ray {address}: not every node can run the steps:", *lines])
        raise WorkerError(message)


def _reason(error: Exception) -> str:
    """Return an error of Ray in one line; that of a task has its own cause."""
    cause = getattr(error, "cause", None)
    return first_line(cause if isinstance(cause, Exception) else error)


def _answer(probe: Probe, node: str) -> str:
    return probe.answer(node)


def _fitting(node: Mapping[str, Any], reserved: Reserved) -> int:
    """Return how many steps a node runs at a time."""
    by_cpus = _amount(node, "CPU") // reserved.cpus
    return min(by_cpus, _amount(node, "GPU") // reserved.gpus) if reserved.gpus else by_cpus


def _amount(node: Mapping[str, Any], kind: str) -> int:
    return int(node["Resources"].get(kind, 0))


def _size(node: Mapping[str, Any]) -> str:
    return f"{counted(_amount(node, 'CPU'), 'CPU')}, {counted(_amount(node, 'GPU'), 'GPU')}"


def _host(node: Mapping[str, Any]) -> str:
    return str(node["NodeManagerHostname"])
