"""Calibrators and run folders: fitted on one run, applied to others, never to its own families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval._json import Json
from pact_eval.calibration.calibrators import Calibrator, Mode
from pact_eval.calibration.disjoint import Members, check_disjoint
from pact_eval.calibration.effect import CalibrationEffect, calibration_effect, calibration_notes
from pact_eval.calibration.files import read_calibrator, write_calibrator
from pact_eval.calibration.fit_result import CalibratorFit
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.items import CalibrationItems
from pact_eval.calibration.selection import ModeChoice, choose_mode
from pact_eval.errors import InputError
from pact_eval.runs import Decoding, Run, ScoredViews, read_run

__all__ = ["CALIBRATION_NAME", "FittedRun", "calibrator_for", "calibrator_of_run", "fit_on_run"]

CALIBRATION_NAME: Final = "calibration.json"
"""A calibrator's name in a run folder: fitted on that run, or to be applied to it."""


@dataclass(frozen=True)
class FittedRun:
    """A calibrator that was fitted on a run.

    Attributes:
        folder: the run it was fitted on.
        calibrator: what was fitted, with its provenance.
        choice: why its form was chosen; None where the user named it.
        fit: the fit.
        effects: scores before and after, by run folder; that of the fit split first.
        warnings: what the runs have in common that they had better not.
    """

    folder: Path
    calibrator: Calibrator
    choice: ModeChoice | None
    fit: CalibratorFit
    effects: Mapping[Path, CalibrationEffect]
    warnings: tuple[str, ...]

    def write(self, out: Path | None = None) -> Path:
        """Write the calibrator to a file and into the run folders that it was applied to.

        Args:
            out: the file; None takes `calibration.json` in the folder of the run it was fitted on.

        Returns:
            The file.
        """
        path = out or self.folder / CALIBRATION_NAME
        applied = [folder for folder in self.effects if folder != self.folder]
        for each in (path, *(folder / CALIBRATION_NAME for folder in applied)):
            write_calibrator(each, self.calibrator)
        return path


def fit_on_run(
    folder: Path,
    holdouts: Sequence[Path] = (),
    *,
    mode: Mode | Literal["auto"],
    decoding: Decoding,
) -> FittedRun:
    """Fit a calibrator on a run, and apply it to others.

    Args:
        folder: the run of the calibration split.
        holdouts: runs to apply it to.
        mode: the form; "auto" chooses it by cross-validation over source families.
        decoding: single or ensemble: the distributions that it is fitted on and applied to.

    Returns:
        The fit and its effects; nothing is written.

    Raises:
        RunError: a folder is no complete run.
        InputError: a holdout's families meet those of the run, or the items cannot be fitted.
    """
    run = read_run(folder)
    others = {each: read_run(each) for each in holdouts}
    members = Members.of_run(run.predictions)
    warnings = tuple(
        f"{name}: {warning}"
        for name, other in others.items()
        for warning in check_disjoint(members, Members.of_run(other.predictions))
    )
    items = CalibrationItems.from_predictions(run.predictions, decoding)
    choice = choose_mode(items) if mode == "auto" else None
    form, ridge = (choice.mode, choice.ridge) if choice is not None else (mode, 0.0)
    fit = fit_calibrator(items, mode="scalar" if form == "auto" else form, ridge=ridge)
    applied = {
        name: CalibrationItems.from_predictions(other.predictions, decoding)
        for name, other in others.items()
    }
    return FittedRun(
        folder=folder,
        calibrator=fit.calibrator.with_provenance(
            run=_identity(run), chosen=None if choice is None else choice.why
        ),
        choice=choice,
        fit=fit,
        effects={
            name: calibration_effect(each, fit.calibrator)
            for name, each in ({folder: items} | applied).items()
        },
        warnings=warnings,
    )


def calibrator_for(
    path: Path, predictions: ScoredViews, decoding: Decoding | None = None
) -> tuple[Calibrator, tuple[str, ...]]:
    """Read a calibrator that is to be applied to a run.

    Args:
        path: its file.
        predictions: the views of the run.
        decoding: the one that it is applied to; None makes no notes on what it was fitted on.

    Returns:
        It, and warnings in sentences: source families that meet, or are unknown; and where it is
        used outside what it was fitted on, see `calibration_notes`.

    Raises:
        InputError: it cannot be read, or it was fitted on families of this run.
    """
    calibrator = read_calibrator(path)
    warnings = check_disjoint(Members.of_fit(calibrator), Members.of_run(predictions))
    if decoding is None:
        return calibrator, warnings
    notes = calibration_notes(
        calibrator,
        kind=predictions.kind,
        n_choices=predictions.n_choices,
        prompt_tokens=predictions.prompt_tokens,
        decoding=decoding,
    )
    return calibrator, (*warnings, *notes)


def calibrator_of_run(
    folder: Path, predictions: ScoredViews, decoding: Decoding | None = None
) -> tuple[Calibrator, tuple[str, ...]]:
    """Read the calibrator that lies in a run folder; as `calibrator_for`.

    Raises:
        InputError: there is none, or as `calibrator_for`.
    """
    path = folder / CALIBRATION_NAME
    if not path.exists():
        message = (
            f"{folder}: expected {CALIBRATION_NAME} in the run folder, found none; `pact-eval "
            "calibrate CALIB_RUN --holdout RUN` puts it there"
        )
        raise InputError(message)
    return calibrator_for(path, predictions, decoding)


def _identity(run: Run) -> dict[str, Json]:
    recorded = run.provenance
    return {
        "arm": recorded.arm,
        "seed": recorded.seed,
        "adapter_sha256": None if recorded.adapter is None else recorded.adapter.sha256,
        "data_sha256": recorded.data.sha256,
    }
