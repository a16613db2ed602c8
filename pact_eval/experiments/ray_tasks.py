"""Steps as tasks of a Ray cluster: Ray decides where and when each runs.

The folders of the plan and of the experiment are on storage that all nodes share, at the same path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from pact_eval._choices import ExperimentStage
from pact_eval.errors import InputError, WorkerError, counted
from pact_eval.experiments.devices import step_environment
from pact_eval.experiments.experiment import PlannedExperiment
from pact_eval.experiments.plan import Reserved
from pact_eval.experiments.processes import GRACE_SECONDS, Ending, StepOrder, StepProcess
from pact_eval.scoring.extras import ray_extra
from pact_eval.scoring.workers.cluster import first_line, import_ray, joined

_POLL_SECONDS: Final = 0.1
_FORCE_SECONDS: Final = GRACE_SECONDS + 15.0


@dataclass
class RayTask:
    """A step as a task: an `Execution` on a cluster.

    Attributes:
        ray: the connected Ray.
        order: what runs.
        call: the reference to its ending.
    """

    ray: Any
    order: StepOrder
    call: Any

    def poll(self) -> Ending | None:
        """Return how it has ended; None while it waits or runs."""
        if not self.ray.wait([self.call], timeout=0)[0]:
            return None
        try:
            ending: Ending = self.ray.get(self.call)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            reason = first_line(cause if isinstance(cause, Exception) else error)
            return Ending(f"its Ray task failed: {reason}", InputError.exit_code, 0.0)
        return ending

    def stop(self) -> None:
        """Cancel it: Ray interrupts the task, which ends its command."""
        with suppress(self.ray.exceptions.RayError):
            self.ray.cancel(self.call)

    def join(self) -> None:
        """Wait until it has ended; a worker that does not answer is killed."""
        with suppress(self.ray.exceptions.RayError):
            if not self.ray.wait([self.call], timeout=_FORCE_SECONDS)[0]:
                self.ray.cancel(self.call, force=True)


@dataclass
class RayTasks:
    """Runs steps on a Ray cluster: an `Executor`.

    Attributes:
        ray: the connected Ray.
        reserved: what Ray reserves for a step of each stage.
    """

    ray: Any
    reserved: Mapping[ExperimentStage, Reserved]

    def start(self, order: StepOrder) -> RayTask:
        """Give a step to Ray, which lets it wait for room."""
        reserved = self.reserved[order.step.stage]
        task = self.ray.remote(run_step).options(
            name=order.step.name,
            num_cpus=reserved.cpus,
            num_gpus=reserved.gpus,
            max_retries=0,  # what a lost process has started may still run
            scheduling_strategy="SPREAD",
        )
        return RayTask(self.ray, order, task.remote(order, reserved))


def run_step(order: StepOrder, reserved: Reserved) -> Ending:
    """Run the command of a step in a Ray task, and return how it has ended.

    Args:
        order: what runs, with absolute paths.
        reserved: what Ray has reserved for it; without GPUs, it sees none.
    """
    gpus = None if reserved.gpus else ""
    process = StepProcess(order, step_environment(threads=reserved.cpus, gpus=gpus))
    try:
        while (ending := process.poll()) is None:
            time.sleep(_POLL_SECONDS)
    except BaseException:  # Ray cancels a task with KeyboardInterrupt
        process.stop()
        process.join()
        raise
    return ending


@contextmanager
def ray_tasks(experiment: PlannedExperiment, address: str) -> Iterator[RayTasks]:
    """Connect to a cluster for the duration of the block.

    Args:
        experiment: the experiment.
        address: a node of the cluster, as host:port, or "auto".

    Raises:
        WorkerError: the cluster cannot be reached, or has no room for a step.
        MissingExtraError: Ray is not installed.
    """
    with ray_extra():
        import_ray()
    with joined(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        has_gpus = any(node.get("GPU", 0) >= 1 for node in nodes)
        reserved: dict[ExperimentStage, Reserved] = {}
        for stage in {step.stage for step in experiment.steps}:
            reserved[stage] = experiment.plan.reserved(stage, has_gpus=has_gpus)
            _refuse_too_small(nodes, stage, reserved[stage], address)
        yield RayTasks(ray, reserved)


def _refuse_too_small(
    nodes: Sequence[Mapping[str, float]], stage: str, needed: Reserved, address: str
) -> None:
    """Refuse a cluster on which Ray would wait forever.

    Raises:
        WorkerError: no node has as much as a step needs.
    """
    sizes = [(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in nodes]
    if not any(cpus >= needed.cpus and gpus >= (needed.gpus or 0) for cpus, gpus in sizes):
        cluster = "; ".join(f"{counted(c, 'CPU')} and {counted(g, 'GPU')}" for c, g in sizes)
        message = (
            f"--ray {address}: {stage} needs {counted(needed.cpus, 'CPU')} and "
            f"{counted(needed.gpus or 0, 'GPU')} on one node; the nodes have {cluster}"
        )
        raise WorkerError(message)
