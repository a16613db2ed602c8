"""Slots of this machine: as many steps at a time, each a process with devices of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pact_eval.experiments.executor import StepOrder
from pact_eval.experiments.processes import StepProcess, start


class Slots:
    """Runs steps on this machine: an `Executor`.

    Args:
        environments: the environment of each slot, at least one.
    """

    def __init__(self, environments: Sequence[Mapping[str, str]]) -> None:
        self._environments = environments
        self._running: dict[int, StepProcess] = {}

    @property
    def parallel(self) -> int:
        """Number of slots."""
        return len(self._environments)

    def has_room(self) -> bool:
        """Return whether a slot is free."""
        return bool(self._free())

    def start(self, order: StepOrder) -> StepProcess:
        """Start a step in the first free slot."""
        slot = self._free()[0]
        self._running[slot] = start(order, self._environments[slot], {"slot": slot})
        return self._running[slot]

    def _free(self) -> list[int]:
        taken = {slot for slot, process in self._running.items() if not process.is_over}
        return [slot for slot in range(self.parallel) if slot not in taken]
