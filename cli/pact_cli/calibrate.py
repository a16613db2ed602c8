"""`pact-eval calibrate`: fit temperatures on one run, and show their effect on others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from pact_cli.commands import choice, command, option
from pact_cli.console import emit, warn
from pact_cli.options import PATH, RUN, json_option, path_argument, settings_options
from pact_eval._choices import Mode
from pact_eval.errors import GateError

if TYPE_CHECKING:
    from pact_eval.evaluation.settings import Settings

_OF_TEMPERATURES: Final = ("mode", "holdout", "export", "force", "decoding")


@command(loads=("pact_eval.calibration.runs", "pact_reports.views.calibration"))
@path_argument("run", "CALIB_RUN", RUN)
@option(
    "--mode",
    group="Numbers",
    type=choice(Mode, "auto"),
    default="auto",
    show_default=True,
    help="Form of the temperature; auto selects one by cross-validation over source families.",
)
@option(
    "-o",
    "--out",
    type=PATH,
    help="File for the calibrator. Default: CALIB_RUN/calibration.json.",
)
@option(
    "--holdout",
    group="Data",
    type=RUN,
    multiple=True,
    help="Run to apply it to: show the scores before and after, and write the calibrator into the "
    "run's folder. May be given several times.",
)
@option(
    "--export",
    metavar="FILE",
    type=PATH,
    help="Also write one temperature per kind into a decision.json of transformers, or into that "
    "of a model folder; say what they give up. Other keys of the file stay.",
)
@option(
    "--remedy",
    group="Numbers",
    metavar="NAME",
    help="Fit a remedy of order effects instead, such as k1_additive: its letter prior and a "
    "temperature. Default file: CALIB_RUN/remedy.json. `report RUN --remedies --fitted FILE` "
    "applies it to other families.",
)
@option(
    "--overwrite",
    is_flag=True,
    help="Replace a calibrator of another fit, and temperatures of --export. A fit on the same run "
    "and decoding is always replaced.",
)
@option(
    "--force",
    is_flag=True,
    help="Write the calibrator even if NLL does not fall on left-out families.",
)
@settings_options("decoding", "allow")
@json_option
def calibrate(
    run: Path,
    mode: Mode | Literal["auto"],
    out: Path | None,
    holdout: tuple[Path, ...],
    export: Path | None,
    remedy: str | None,
    overwrite: bool,
    force: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Fit a temperature on a run of the calibration split.

    T(x) = softplus(a + b log C + c log(L/1000)) for C answers and L prompt tokens, fitted by NLL.
    A calibrator belongs to the adapter, prompts and decoding of CALIB_RUN. If a holdout run has
    others, or shares families with CALIB_RUN, the command fails and writes nothing.

    The NLL of families that were left out of the fit says whether calibrating helps. If it does not
    fall, nothing is written, and the exit code is 3; --force writes.

    --remedy NAME fits what `report --remedies` compares. A wrong name lists those that CALIB_RUN
    can fit.
    """
    if remedy is not None:
        _refuse_idle()
        _fit_remedy(run, remedy, out, settings, overwrite=overwrite, as_json=as_json)
        return
    from pact_eval.calibration.portable import check_decision_file, write_decision_file
    from pact_eval.calibration.runs import fit_on_run
    from pact_eval.runs.places import shown
    from pact_reports.views.calibration import present_fitted_run

    if export is not None:  # before the fit, which may take minutes
        export = check_decision_file(export, overwrite=overwrite)
    fitted = fit_on_run(run, holdout, mode=mode, decoding=settings.decoding, allow=settings.allow)
    warned = warn(map(str, fitted.warnings))  # before a file is refused
    exported = None if export is None else (export, fitted.portable())
    written = fitted.write(out, overwrite=overwrite, force=force) if fitted.helps or force else ()
    if exported is not None and written:
        write_decision_file(*exported)
    for folder, effect in fitted.effects.items() if as_json else ():  # tables have these warnings
        warn(f"{shown(folder)}: {note!s}" for note in effect.warnings)
    files = [*written, *([export] if export is not None and written else [])]
    emit(present_fitted_run(fitted, written, exported), files=files, warned=warned, as_json=as_json)
    if not written:
        click.get_current_context().exit(GateError.exit_code)


def _refuse_idle() -> None:
    """Refuse options of calibrators, which change nothing for a remedy."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        typed = source is click.core.ParameterSource.COMMANDLINE
        if typed and parameter.name in _OF_TEMPERATURES:
            message = f"{parameter.opts[0]} changes nothing with --remedy; leave one of them out"
            raise click.UsageError(message)


def _fit_remedy(
    run: Path,
    name: str,
    out: Path | None,
    settings: Settings,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Fit a remedy and write its file."""
    from pact_eval.remedies.fitting import fit_remedy
    from pact_reports.views.remedies import present_fitted_remedy

    fitted = fit_remedy(run, name, allow=settings.allow)
    warned = warn(map(str, fitted.warnings))  # before a file is refused
    path = fitted.write(out, overwrite=overwrite)
    emit(present_fitted_remedy(fitted, path), files=[path], warned=warned, as_json=as_json)
