"""The runs of one report: read, brought into one order of items, told apart by arm and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pact_eval.calibration import CALIBRATION_NAME, Calibrator, calibrator_for
from pact_eval.errors import InputError
from pact_eval.evaluation.comparison import align
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs import AblatedRun, Decoding, Predictions, Run, read_any_run

__all__ = ["CollectedRun", "RunCollection", "collect_runs"]


@dataclass(frozen=True)
class CollectedRun:
    """One run of a report.

    Attributes:
        run: as it was read, its items in the order of the first run where they are the same.
        arm: its recipe; the folder's name where the run does not say.
        seed: that it was trained with; None for a base model, or where the run does not say.
        calibrator: the one in its folder, or None.
    """

    run: Run
    arm: str
    seed: int | None
    calibrator: Calibrator | None
    _scored: dict[tuple[Decoding, bool], ScoredItems] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.run.folder.resolve().name

    @property
    def label(self) -> str:
        """Arm and seed, for legends and rows.

        Example:
            "pact, seed 17", or "base" where there is no seed.
        """
        return self.arm if self.seed is None else f"{self.arm}, seed {self.seed}"

    @property
    def predictions(self) -> Predictions:
        """Its scored views."""
        return self.run.predictions

    def scored(self, decoding: Decoding = "single", *, calibrated: bool = False) -> ScoredItems:
        """Return its items under a decoding; computed once.

        Raises:
            InputError: calibrated items are asked of a run without a calibrator.
        """
        key = (decoding, calibrated)
        if key not in self._scored:
            if calibrated and self.calibrator is None:
                message = f"{self.run.folder}: expected {CALIBRATION_NAME} in the run folder"
                raise InputError(message)
            calibrator = self.calibrator if calibrated else None
            self._scored[key] = ScoredItems.of(self.predictions, decoding, calibrator)
        return self._scored[key]


@dataclass(frozen=True)
class RunCollection:
    """The runs of a report, in the order in which they were given.

    Attributes:
        runs: on whole contexts.
        ablated: on ablated contexts.
        same_items: whether all of `runs` hold the same items, so that they can be compared.
        warnings: of the calibrators, and of runs that hold other items; in sentences.
    """

    runs: tuple[CollectedRun, ...]
    ablated: tuple[AblatedRun, ...]
    same_items: bool
    warnings: tuple[str, ...]

    @property
    def arms(self) -> dict[str, tuple[CollectedRun, ...]]:
        """The runs of each arm by seed, arms in the order of their first runs."""
        arms: dict[str, list[CollectedRun]] = {}
        for run in self.runs:
            arms.setdefault(run.arm, []).append(run)
        return {
            arm: tuple(sorted(runs, key=lambda run: (run.seed is not None, run.seed or 0)))
            for arm, runs in arms.items()
        }


def collect_runs(folders: Sequence[Path]) -> RunCollection:
    """Read the runs of a report.

    Args:
        folders: run folders; one that holds a calibrator is read with it.

    Raises:
        RunError: a folder is no complete run.
        InputError: a calibrator cannot be read or was fitted on families of its run, or two runs
            are of one arm and seed.
    """
    runs: list[CollectedRun] = []
    ablated: list[AblatedRun] = []
    warnings: list[str] = []
    same_items = True
    for folder in folders:
        run = read_any_run(folder)
        if isinstance(run, AblatedRun):
            ablated.append(run)
            continue
        calibrator = None
        if (folder / CALIBRATION_NAME).exists():
            calibrator, said = calibrator_for(folder / CALIBRATION_NAME, run.predictions)
            warnings += [f"{folder}: {warning}" for warning in said]
        if runs:
            first = runs[0].run
            names = (str(first.folder), str(folder))
            try:
                aligned = align(first.predictions, run.predictions, names=names)
                run = replace(run, predictions=aligned)
            except InputError as error:
                same_items = False
                warnings.append(str(error))
        arm, seed = run.provenance.get("arm"), run.provenance.get("seed")
        collected = CollectedRun(
            run=run,
            arm=arm if isinstance(arm, str) and arm else run.folder.resolve().name,
            seed=seed if isinstance(seed, int) and not isinstance(seed, bool) else None,
            calibrator=calibrator,
        )
        _refuse_twins(runs, collected)
        runs.append(collected)
    return RunCollection(tuple(runs), tuple(ablated), same_items, tuple(warnings))


def _refuse_twins(runs: Sequence[CollectedRun], new: CollectedRun) -> None:
    for run in runs:
        if (run.arm, run.seed) == (new.arm, new.seed):
            message = (
                f"{run.run.folder} and {new.run.folder} are both of {new.label}; score one of "
                "them again with another --arm or --seed"
            )
            raise InputError(message)
