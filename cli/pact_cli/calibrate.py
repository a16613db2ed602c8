"""`pact-eval calibrate`: fit temperatures on one run, and see what they do to others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pact_cli.console import output, print_json, warn
from pact_cli.options import decoding_option, json_option, path_argument

if TYPE_CHECKING:
    from pact_eval.calibration import Mode
    from pact_eval.runs import Decoding

__all__ = ["calibrate"]


@click.command()
@path_argument("run", "CALIB_RUN")
@click.option(
    "--mode",
    type=click.Choice(["auto", "scalar", "per-kind", "contextual"]),
    default="auto",
    show_default=True,
    help="Form of the temperature; auto compares the forms on source families left out.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Calibrator to write. Default: CALIB_RUN/calibration.json.",
)
@click.option(
    "--holdout",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Run to apply it to: scores before and after, and the calibrator put into its folder. May "
    "be given several times.",
)
@decoding_option
@json_option
def calibrate(
    run: Path,
    mode: Mode | Literal["auto"],
    out: Path | None,
    holdout: tuple[Path, ...],
    decoding: Decoding,
    as_json: bool,
) -> None:
    """Fit a temperature on a run of the calibration split.

    T(x) = softplus(a + b log C + c log(L/1000)), C answers, L prompt tokens, by NLL. Refuses runs
    whose families meet those it was fitted on. Nothing is written where anything is refused.
    """
    from pact_eval.calibration import fit_on_run
    from pact_reports.plain_text import one_line
    from pact_reports.tables.fit import choice_parts, effect_parts, fit_parts
    from pact_reports.writers.json import calibration_json
    from pact_reports.writers.terminal import show

    with output(to_stderr=True).status("Fitting"):
        fitted = fit_on_run(run, holdout, mode=mode, decoding=decoding)
    warn(fitted.warnings)
    path = fitted.write(out)
    if as_json:
        for name, effect in fitted.effects.items():
            warn(f"{name}: {warning}" for warning in effect.warnings)
        print_json({"calibration": str(path), "result": calibration_json(fitted)})
        return
    parts = [] if fitted.choice is None else [*choice_parts(fitted.choice)]
    parts += fit_parts(fitted.fit)
    for name, effect in fitted.effects.items():
        title = f"fit split: {name}" if name == run else str(name)
        parts += effect_parts(title, effect)
    show(output(), parts)
    click.echo(f"wrote {one_line(str(path))}")
