"""`pact-eval report`: metrics of runs, in the terminal, on one page, and in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.commands import command, from_settings
from pact_cli.console import emit, warn
from pact_cli.errors import exit_on_leak
from pact_cli.options import (
    RUN,
    json_option,
    left_out_files,
    named_data,
    names_of,
    output_options,
    runs_argument,
    settings_options,
)
from pact_cli.parameters import option
from pact_cli.steps import load
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.drift.tempering import ServedTempering
    from pact_eval.evaluation.conclusions.data import DataConclusion
    from pact_eval.evaluation.experiment import Experiment, RunReport
    from pact_eval.evaluation.settings import Settings
    from pact_reports.outputs import Outputs


@command(loads=("pact_eval.evaluation.experiment", "pact_reports.sentences.answers"))
@runs_argument
@settings_options(
    *(
        "by",
        "bins",
        "unit",
        "decoding",
        "resamples",
        "seed",
        "calibration",
        "shipped",
        "allow",
        "method",
    ),
    *("audit", "without_leaks", "target_error"),
)
@output_options(
    "html",
    *(
        "figures",
        "figure_style",
        "palette",
        "tables",
        "markdown",
        "data",
        "criteria",
        "clear",
        "thresholds",
        "cost_wrong",
        "cost_review",
    ),
    table_formats=("latex",),
)
@option(
    "--full",
    is_flag=True,
    help="Print every table; with --json, the whole order audit. --by prints the tables too.",
)
@option(
    "--local-run",
    group="Server",
    metavar="RUN",
    type=RUN,
    help="Run of the same model, scored here: test whether the probabilities of a served RUN were "
    "divided by a temperature.",
)
@option(
    "--find-slices",
    group="Numbers",
    is_flag=True,
    help="Search half of the families for slices whose accuracy differs, and test these on the "
    "other half: print the tests instead of the report.",
)
@option("--open", "open_page", is_flag=True, help="Open the page of --html in the browser.")
@json_option
def report(
    runs: tuple[Path, ...],
    settings: Settings,
    outputs: Outputs,
    full: bool,
    local_run: Path | None,
    find_slices: bool,
    open_page: bool,
    as_json: bool,
) -> None:
    """Show what RUN is worth, in ten lines; --full shows all.

    RUN is a run folder, or the URL of one in an object store, such as s3://bucket/runs/pact-17.

    --full shows every metric by group, with intervals over families. Several RUNs are reported in
    turn; with --json, as one object {"runs": [...]}. Runs on ablated contexts show confidence, the
    gap between the two answers, view TV, flip rate and answer mass.

    --html writes one offline page with verdicts, diagnostics, figures, tables and every item.
    --figures, --latex and --markdown write files for a paper. Then only the paths are printed, and
    the calibration.json in the folder of each run is applied. Exits with 3 if items of a RUN are
    also in a file that the model is made from (see --without-leaks), and with 5 if the criteria
    differ from the registered ones, or were registered after a run began.
    """
    _check_usage(runs, settings, outputs, full=full)
    if open_page and outputs.html is None:
        raise click.UsageError("--open opens the page of --html, which was not given")
    if outputs.any and local_run is not None:
        raise click.UsageError("--local-run is for the report in the terminal and --json")
    if find_slices:
        _print_slices(runs, settings, outputs, as_json=as_json)
        return
    if not outputs.any:
        full = full or _grouped()
        settings = replace(settings, data=named_data(outputs.data))
        conclusions = print_reports(runs, settings, as_json=as_json, full=full, local=local_run)
        exit_on_leak(conclusions)
        return
    load("pact_reports.files", *(["pact_reports.page"] if outputs.html else []))
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.files import write_report
    from pact_reports.presenters.written_report import present
    from pact_reports.sentences.notes import warning_sentence

    outputs, other_data = _with_data_of(Experiment.read(runs, settings), outputs)
    experiment = Experiment.read(runs, replace(settings, data=outputs.data))
    warned = warn(map(warning_sentence, experiment.warnings))
    written = write_report(experiment, outputs)
    presenter = present(written, left_out=left_out_files(), other_data=other_data)
    emit(presenter, warned=warned, as_json=as_json)
    if open_page and written.html is not None:
        _open(written.html)
    written.check_registration()
    exit_on_leak([written.data])


def _print_slices(
    runs: Sequence[Path], settings: Settings, outputs: Outputs, *, as_json: bool
) -> None:
    """Print the slices of one run that were tested."""
    if outputs.any or len(runs) != 1:
        what = "the terminal and --json" if outputs.any else f"one RUN, got {len(runs)}"
        raise click.UsageError(f"--find-slices is for {what}")
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.presenters.slice_search import present
    from pact_reports.sentences.notes import warning_sentence

    experiment = Experiment.read(runs, settings)
    warn(map(warning_sentence, experiment.warnings))
    emit(present(experiment.find_slices()), as_json=as_json)


def _with_data_of(experiment: Experiment, outputs: Outputs) -> tuple[Outputs, list[Json]]:
    """Leave out a dataset that only the settings name, if the runs were scored on another one.

    Returns:
        The outputs, and the warning as a JSON value if a dataset was left out.
    """
    from pact_eval.evaluation.item_records import has_data_of

    if not outputs.html or not from_settings("data") or has_data_of(outputs.data, experiment):
        return outputs, []
    paths = [*map(str, outputs.data)]
    text = f"{' '.join(paths)}: not the data of these runs, so the page has no texts; give --data"
    warn([text])
    return replace(outputs, data=()), [{"kind": "SkippedData", "paths": [*paths], "text": text}]


def _open(page: Path) -> None:
    """Open a page in the browser."""
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        warn([f"{page}: no browser could be started; open the file yourself"])


def print_reports(
    folders: Sequence[Path],
    settings: Settings | None = None,
    *,
    as_json: bool,
    full: bool = False,
    local: Path | None = None,
) -> list[DataConclusion]:
    """Print the report on each run in turn; with JSON, one object with all of them.

    Args:
        folders: the run folders, or URLs.
        settings: decoding, grouping and bootstrap.
        as_json: print JSON, which has every number.
        full: print every table instead of the first ten lines.
        local: run scored here, with whose temperatures those of served runs are compared.

    Returns:
        Of each run, the conclusion on its data.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.presenters.run_report import present, present_reports
    from pact_reports.sentences.notes import warning_sentence

    experiments, skipped = Experiment.read_each(folders, settings)
    warn(map(warning_sentence, skipped))
    reports = [_reported(experiment) for experiment in experiments]
    names = names_of(report.run.arm for report in reports)
    presented = []
    for report in reports:
        tempering = None if local is None else _tempering(report, local)
        presented.append((report, present(report, names, full=full, tempering=tempering)))
    emit(present_reports(presented, skipped, left_out_files()), as_json=as_json)
    return [experiment.data for experiment in experiments]


def _reported(experiment: Experiment) -> RunReport:
    """Return the report on a run; with --target-error, also whether it may act alone."""
    report = experiment.report()
    if experiment.settings.target_error is None:
        return report
    from pact_eval.thresholds.report_acting import with_acting

    return with_acting(report)


def _tempering(report: RunReport, local: Path) -> ServedTempering:
    """Compare the temperatures of a served run with those of a local one.

    Raises:
        InputError: the run was not served, or the other one was.
    """
    from pact_eval.drift.tempering import served_tempering
    from pact_eval.evaluation.experiment import Experiment

    run, settings = report.run, report.experiment.settings
    local_run = Experiment.read([local], replace(settings, calibrated=False)).report().run
    tempering = served_tempering(local_run, run, settings) if run.provenance.served else None
    if tempering is None:
        message = f"--local-run: {run.place} was not served, or {local} was not scored here"
        raise InputError(message)
    return tempering


def _grouped() -> bool:
    """Whether --by was given: only the full tables have groups."""
    source = click.get_current_context().get_parameter_source("by")
    return source == click.core.ParameterSource.COMMANDLINE


def _without_its_file(outputs: Outputs) -> str | None:
    """Say which option is for a file that is not written; None if there is none."""
    for is_set, file, message in (
        (
            outputs.palette is not None,
            outputs.any or None,
            "--palette is for --html, --figures, --latex and --markdown; none of them was given",
        ),
        (
            outputs.figure_style != "default",
            outputs.figures,
            "--style is for --figures, which was not given",
        ),
    ):
        if is_set and file is None:
            return message
    return None


def _check_usage(runs: Sequence[Path], settings: Settings, outputs: Outputs, *, full: bool) -> None:
    """Refuse options that would have no effect."""
    options = {
        "--criteria": outputs.criteria,
        "--clear-changes": outputs.clear,
        "--thresholds": None if outputs.figures else outputs.thresholds,
        "--cost-wrong": None if outputs.figures else outputs.cost_wrong,
        # Figures compare the others with this arm too.
        "--method": None if outputs.figures else settings.method,
    }
    settled = {"--criteria": "criteria", "--method": "method"}
    options = {
        name: value for name, value in options.items() if not from_settings(settled.get(name))
    }
    idle = [name for name, value in options.items() if value and not outputs.any_table]
    message = _without_its_file(outputs)
    if message is None and idle:
        message = f"{idle[0]} is for --html, --latex and --markdown; none of them was given"
    elif outputs.any and settings.calibration is not None:
        message = (
            "--calibration is for the report on one RUN in the terminal; files use the "
            "calibration.json in the folder of each run, which `pact-eval calibrate CALIB_RUN "
            "--holdout RUN` writes"
        )
    elif outputs.any and full:
        message = "--full is for the terminal; files have every table"
    elif outputs.any and _grouped():
        message = (
            f"--by {settings.by} groups the report in the terminal; files show kinds and domains"
        )
    elif outputs.any and settings.unit != "family":
        message = (
            f"--unit {settings.unit} is for the report in the terminal and --json; the intervals "
            "of files are over families"
        )
    elif settings.calibration is not None and len(runs) > 1:
        message = (
            f"--calibration: expected one RUN, got {len(runs):,}; a calibrator is fitted on one "
            "adapter, so give each run its own"
        )
    if message is not None:
        raise click.UsageError(message)
