"""`pact-eval calibrate`: fit temperatures on one run, and show their effect on others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import click

from pact_cli.commands import command
from pact_cli.console import as_json, emit, warn
from pact_cli.options import RUN, RunFolder, settings_options
from pact_eval._choices import Mode
from pact_eval.calibration.portable import check_decision_file, write_decision_file
from pact_eval.calibration.runs import fit_on_run
from pact_eval.errors import GateError
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.places import shown
from pact_reports.views.calibration import present_fitted_run


@command()
@settings_options("decoding", "allow")
def calibrate(
    run: Annotated[Path, RUN, "CALIB_RUN"],
    *,
    mode: Literal["auto"] | Mode = "auto",
    out: Path | None = None,
    holdout: tuple[RunFolder, ...] = (),
    export: Path | None = None,
    overwrite: bool = False,
    force: bool = False,
    full: bool = False,
    settings: Settings,
) -> None:
    """Fit a temperature on a run of the calibration split.

    T(x) = softplus(a + b log C + c log(L/1000)) for C answers and L prompt tokens, fitted by NLL.
    A calibrator belongs to the adapter, prompts and decoding of CALIB_RUN. If a holdout run has
    others, or shares families with CALIB_RUN, the command fails and writes nothing.

    The NLL of families that were left out of the fit says whether calibrating helps. If it does not
    fall, nothing is written, and the exit code is 3; --force writes.

    Numbers:
        --mode: Form of the temperature; auto selects one by cross-validation over source families,
            per-question among them if several questions are asked.

    Data:
        --holdout: Run to apply it to: show the scores before and after, and write the calibrator
            into the run's folder. May be given several times.

    Output:
        -o, --out: File for the calibrator. Default: CALIB_RUN/calibration.json.
        --export FILE: Also write one temperature per kind into a decision.json of transformers, or
            into that of a model folder; say what they give up. Other keys of the file stay.
        --overwrite: Replace a calibrator of another fit, and temperatures of --export. A fit on the
            same run and decoding is always replaced.
        --force: Write the calibrator even if NLL does not fall on left-out families.
        --full: Print every table below the answer.
    """
    if export is not None:  # before the fit, which may take minutes
        export = check_decision_file(export, overwrite=overwrite)
    fitted = fit_on_run(run, holdout, mode=mode, decoding=settings.decoding, allow=settings.allow)
    warned = warn(map(str, fitted.warnings))  # before a file is refused
    exported = None if export is None else (export, fitted.portable())
    written = fitted.write(out, overwrite=overwrite, force=force) if fitted.helps or force else ()
    if exported is not None and written:
        write_decision_file(*exported)
    for folder, effect in fitted.effects.items() if as_json() else ():  # tables have these warnings
        warn(f"{shown(folder)}: {note!s}" for note in effect.warnings)
    files = [*written, *([export] if export is not None and written else [])]
    presenter = present_fitted_run(fitted, written, exported)
    emit(presenter, files=files, warned=warned, full=full)
    if not written:
        click.get_current_context().exit(GateError.exit_code)
