"""Checkpoints of a training with a recipe, and its interruption.

    checkpoint.pt     weights, optimiser, schedule, random numbers, best checkpoints, step

A training that is resumed from one ends with the same weights, bit for bit, as an undisturbed one
on the same hardware. The file is replaced atomically, and has tensors and plain values only.
"""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import torch
from torch import nn

from pact_eval._files import atomic_path
from pact_eval.errors import InputError
from pact_eval.training.recipe_model import LoraTraining
from pact_losses import BestCheckpoint

CHECKPOINT: Final = "checkpoint.pt"
"""Name of the file in an adapter folder; a finished training has removed it."""

_FORMAT: Final = "pact-checkpoint-1"


@dataclass
class Progress:
    """State of a training after a step.

    Attributes:
        step: completed optimiser steps.
        seconds: time of all sittings so far.
        log_bytes: length of the log of these steps.
        best: the best checkpoint by the selection split.
        best_widely: the best one by all of its source families.
    """

    step: int = 0
    seconds: float = 0.0
    log_bytes: int = 0
    best: BestCheckpoint = field(default_factory=BestCheckpoint)
    best_widely: BestCheckpoint = field(default_factory=BestCheckpoint)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of one training in its adapter folder.

    Attributes:
        folder: the adapter folder.
        identity: SHA-256 of what decides the weights.
    """

    folder: Path
    identity: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / CHECKPOINT

    def save(self, training: LoraTraining, progress: Progress) -> None:
        """Write the state of a training between two steps."""
        state = {
            "format": _FORMAT,
            "training": self.identity,
            "step": progress.step,
            "seconds": progress.seconds,
            "log_bytes": progress.log_bytes,
            "best": progress.best.state_dict(),
            "best_widely": progress.best_widely.state_dict(),
            "weights": dict(_trained(training.model)),
            "optimizer": training.optimizer.state_dict(),
            "schedule": training.schedule.state_dict(),
            "random": _random_state(training.device),
        }
        with atomic_path(self.path) as partial:
            torch.save(state, partial)

    def load(self, training: LoraTraining, log: Callable[[str], None]) -> Progress:
        """Restore the last state of a training; without a checkpoint, it begins.

        Args:
            training: as it begins; its weights are replaced.
            log: called with a line of text.

        Raises:
            InputError: the checkpoint is of another training.
        """
        if not self.path.exists():
            return Progress()
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception as error:  # noqa: BLE001 - torch raises many types on a damaged file
            log(f"{self.path}: damaged, training from the start ({str(error).splitlines()[0]})")
            return Progress()
        if state.get("format") != _FORMAT or state.get("training") != self.identity:
            message = (
                f"{self.path}: of another training: settings, data, base or versions differ; "
                "remove it, or give another folder"
            )
            raise InputError(message)
        _restore(training, state)
        best, widely = BestCheckpoint(), BestCheckpoint()
        best.load_state_dict(state["best"])
        widely.load_state_dict(state["best_widely"])
        log(f"{self.path}: resuming after step {state['step']}")
        return Progress(state["step"], state["seconds"], state["log_bytes"], best, widely)

    def remove(self) -> None:
        """Remove the checkpoint of a training that has ended, and what kills left of writing."""
        self.path.unlink(missing_ok=True)
        for path in [*self.folder.rglob(".*.tmp")]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _restore(training: LoraTraining, state: Mapping[str, Any]) -> None:
    with torch.no_grad():
        for name, weight in _trained(training.model):
            weight.copy_(state["weights"][name])
    training.optimizer.load_state_dict(state["optimizer"])
    training.schedule.load_state_dict(state["schedule"])
    torch.set_rng_state(state["random"]["cpu"])
    if "device" in state["random"]:
        torch.get_device_module(training.device).set_rng_state(state["random"]["device"])


def _trained(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, weight) for name, weight in model.named_parameters() if weight.requires_grad)


def _random_state(device: torch.device) -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state["device"] = torch.get_device_module(device).get_rng_state()
    return state


@contextmanager
def interruptions() -> Iterator[Callable[[], int | None]]:
    """Hold SIGTERM and Ctrl-C back inside the block, so that a step ends first.

    Yields:
        A function that returns the number of the signal that came, or None. A second signal acts
        at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        restore()
