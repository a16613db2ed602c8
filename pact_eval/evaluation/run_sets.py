"""Several runs at once: by name, or by arm and seed, joined on the same items."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from pact_eval.calibration import calibrator_of_run
from pact_eval.errors import InputError
from pact_eval.evaluation.comparison import align
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs import Decoding, Run, read_run

__all__ = ["RunReader", "arm_folders"]


class RunReader:
    """Reads runs under one decoding, each with its items in the order of the first.

    Args:
        decoding: single or ensemble.
        calibrated: apply the calibrator in each run's folder.

    Attributes:
        warnings: of the calibrators that were applied, in sentences.
    """

    def __init__(self, decoding: Decoding, *, calibrated: bool) -> None:
        self._decoding = decoding
        self._calibrated = calibrated
        self._first: tuple[str, ScoredItems] | None = None
        self.warnings: list[str] = []

    def read(self, folder: Path) -> ScoredItems:
        """Read a run.

        Raises:
            RunError: the folder is no complete run.
            InputError: its items are not those of the first run, or it lacks a calibrator.
        """
        run = read_run(folder)
        predictions = run.predictions
        if self._first is not None:
            name, items = self._first
            predictions = align(items.predictions, predictions, names=(name, str(folder)))
        calibrator = None
        if self._calibrated:
            calibrator, warnings = calibrator_of_run(folder, run.predictions, self._decoding)
            self.warnings += [f"{folder}: {warning}" for warning in warnings]
        scored = ScoredItems.of(predictions, self._decoding, calibrator)
        self._first = self._first or (str(folder), scored)
        return scored


def arm_folders(arguments: Sequence[str]) -> dict[str, dict[int, Path]]:
    """Find the run folders of arms, by arm and seed.

    Args:
        arguments: `NAME=PATTERN`, a folder or a pattern of folders; several of one name add up.

    Returns:
        The folder of every seed of every arm; a run's seed is the one in its `run.json`.

    Raises:
        InputError: an argument is no `NAME=PATTERN`, a pattern finds nothing, a run has no seed, or
            two runs of an arm have the same one.
        RunError: a folder is no run.
    """
    arms: dict[str, dict[int, Path]] = {}
    for argument in arguments:
        name, equals, pattern = argument.partition("=")
        if not equals or not name or not pattern:
            message = f"--arms: expected NAME=PATTERN, got {argument!r}"
            raise InputError(message)
        folders = _folders(pattern)
        if not folders:
            message = f"--arms: {pattern}: no such run folder"
            raise InputError(message)
        for folder in folders:
            _add(arms.setdefault(name, {}), name, read_run(folder))
    return arms


def _folders(pattern: str) -> list[Path]:
    """Return the folder of that very name, whatever signs it has, or those that match."""
    if Path(pattern).exists():
        return [Path(pattern)]
    return sorted(Path(found) for found in glob.glob(pattern))  # noqa: PTH207 - may be absolute


def _add(arm: dict[int, Path], name: str, run: Run) -> None:
    seed = run.provenance.get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool):
        message = f"{run.folder}: the run has no seed; score it again with --seed"
        raise InputError(message)
    if seed in arm:
        message = f"arm {name}: two runs with seed {seed}: {arm[seed]} and {run.folder}"
        raise InputError(message)
    arm[seed] = run.folder
