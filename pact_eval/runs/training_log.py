"""Training logs: the `log.jsonl` in an adapter folder, one JSON object per training step.

    {"step": 1, "total": 1.9, "ce": 1.2, "pair_margin": -0.3, ..., "selection_nll_nats": 0.9}

A number may be absent at a step, for example if the batch has no ablated view or the selection
split was not evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._files import decoded, read_lines, sha256_of_file
from pact_eval._json import describe, loads
from pact_eval._typing import FloatArray
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.runs.folder import RunFolder
from pact_eval.schema import convert

LOG_NAME: Final = "log.jsonl"
"""Name of the log in an adapter folder."""

SELECTION_NLL: Final = "selection_nll_nats"
"""The NLL of the selection split, at the steps that evaluated it."""

SELECTION_MASS: Final = "selection_answer_mass"
"""The answer mass of the selection split, likewise."""

SELECTED_STEP: Final = "selected_step"
"""The best step so far, likewise; logs without it select by the NLL alone."""

_STEP: Final = "step"
_WEIGHTS: Final = "adapter_model.safetensors"


@dataclass(frozen=True)
class TrainingLog:
    """The numbers that training logged at each step.

    Attributes:
        steps: (n,) step numbers, ascending.
        columns: name -> (n,) numbers; NaN if a step did not log the number.
    """

    steps: npt.NDArray[np.int64]
    columns: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(self.steps)

    def missing(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of `names` that no step logged."""
        return tuple(name for name in names if name not in self.columns)

    def logged(self, name: str) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Return the steps that logged a number, and its values: both (m,).

        Raises:
            InputError: no step logged it.
        """
        if name not in self.columns:
            names = ", ".join(self.columns) or "nothing"
            raise InputError(f"the training log lacks {name}; its columns are {names}")
        values = self.columns[name]
        logged = ~np.isnan(values)
        return self.steps[logged], values[logged]

    @property
    def selected(self) -> tuple[int, float]:
        """The selected step, and its NLL in nats: by default the first with the lowest.

        Raises:
            InputError: no step evaluated the selection split, or not the one that was selected.
        """
        steps, nll = self.logged(SELECTION_NLL)
        best = int(nll.argmin())
        if SELECTED_STEP in self.columns:
            selected = self.logged(SELECTED_STEP)[1][-1]
            if selected not in steps:
                message = f"{SELECTED_STEP}: the selection split was not evaluated at {selected:g}"
                raise InputError(message)
            best = int(np.flatnonzero(steps == selected)[0])
        return int(steps[best]), float(nll[best])


def read_training_log(path: Path) -> TrainingLog:
    """Read a training log.

    Args:
        path: JSON lines with `step` (ascending integers) and finite numbers under other names.

    Raises:
        InputError: the file is missing or cannot be read.
        RecordError: some lines are not such objects (one error lists all of them), or the file is
            empty.
    """
    problems: list[Problem] = []
    rows: list[dict[str, float]] = []
    last = 0
    for number, raw in read_lines(path):
        try:
            row = convert(loads(decoded(raw, number)), dict[str, float])
            step = row.get(_STEP)
            if step is None or not step.is_integer():  # loggers write 1.0 for step 1
                raise ValueError(f"{_STEP}: expected an integer, got {describe(step)}")
            if step <= last:
                raise ValueError(f"{_STEP}: expected more than {last}, got {step:.0f}")
        except ValueError as error:
            problems.append(Problem(number, None, str(error)))
            continue
        last = int(step)
        rows.append(row)
    if not rows and not problems:
        problems.append(Problem(None, None, "expected one JSON object per training step, got none"))
    if problems:
        raise RecordError(str(path), problems)
    names = dict.fromkeys(name for row in rows for name in row if name != _STEP)
    return TrainingLog(
        steps=np.array([int(row[_STEP]) for row in rows], dtype=np.int64),
        columns={name: np.array([row.get(name, np.nan) for row in rows]) for name in names},
    )


def training_log_of_run(run: RunFolder) -> TrainingLog:
    """Read the training log of the adapter that a run scored.

    `run.json` names the adapter folder. A relative path is tried from the current folder and from
    every folder above the run.

    Raises:
        InputError: the run names no adapter, its folder or log does not exist, or the weights in
            the folder are not the scored ones.
        RecordError: the log cannot be read; see `read_training_log`.
    """
    named = run.provenance.adapter_folder
    if named is None:
        raise InputError("run.json names no adapter folder")
    above = [Path(), *run.folder.resolve().parents]
    folders = [parent / named for parent in above if (parent / named).is_dir()]
    if not folders:
        raise InputError(f"the adapter folder {named} does not exist")
    folder = next((candidate for candidate in folders if (candidate / LOG_NAME).is_file()), None)
    if folder is None:
        raise InputError(f"the adapter folder {named} has no {LOG_NAME}")
    sha256 = None if run.provenance.adapter is None else run.provenance.adapter.sha256
    weights = folder / _WEIGHTS
    if sha256 is not None and weights.is_file() and sha256_of_file(weights) != sha256:
        message = f"{folder}: the adapter is not the one that was scored (its SHA-256 differs)"
        raise InputError(message)
    return read_training_log(folder / LOG_NAME)
