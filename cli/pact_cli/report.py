"""`pact-eval report`: what runs and logs are worth, in the terminal and on one page."""

from __future__ import annotations

import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pact_cli.commands import command, from_settings, given, refuse, refuse_given
from pact_cli.compare import Required, print_comparison, print_release
from pact_cli.console import FIRST_SCREEN, Shown, announce, as_json, ci_format, emit, verbose, warn
from pact_cli.exits import exit_on_leak
from pact_cli.labelled import some_reading_options
from pact_cli.options import (
    RUN,
    left_out_files,
    named_data,
    names_of,
    output_options,
    settings_options,
)
from pact_cli.param_types import Count
from pact_cli.places import Places, find_places
from pact_eval._json import Json as JsonValue
from pact_eval.data.labelled.reading import Reading
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.item_records import has_data_of
from pact_eval.evaluation.joins import SkippedRun, select_role
from pact_eval.evaluation.requirements import shown_groups
from pact_eval.evaluation.run_list import list_runs
from pact_eval.evaluation.run_records import remembered_data
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunFolder, RunSource, open_runs
from pact_eval.runs.places import run_folders
from pact_eval.thresholds.conclusion import with_acting
from pact_reports.files import WrittenReport, write_report
from pact_reports.results import Outputs
from pact_reports.views.presenter import Presenter
from pact_reports.views.report import present_reports, present_run_report
from pact_reports.views.run_list import present_run_list
from pact_reports.views.written_report import present_written_report

_PAPER: Final = "pact-eval paper RUN..."
_IMPORT: Final = "pact-eval import LOG"
_ELSEWHERE: Final = {
    "--figures": f"{_PAPER} --figures all -o DIR",
    "--latex": f"{_PAPER} --tables all --format latex -o DIR",
    "--markdown": f"{_PAPER} --tables all --format markdown -o DIR, which writes report.md",
    "--style": f"{_PAPER} --style NAME",
    "--model-card": f"{_PAPER} --model-card README.md",
    "--k": "pact-eval sweep RUN --views 1..4",
    "--views": "pact-eval sweep RUN --views 1..4",
    "--remedies": "pact-eval sweep RUN --remedies",
    "--margin": "pact-eval compare A B --margin 0.02",
    "--not-worse": "pact-eval compare NEW OLD --not-worse 2",
    "--gate": "pact-eval compare A B --gate --margin 0.02",
    "--sets": "pact-eval thresholds RUN --sets",
    "--cost-wrong": "pact-eval thresholds RUN --cost-wrong 10",
    "--bins": "--by COLUMN:BINS",
    **{
        name: f"{_IMPORT} {name} ..., which also reports"
        for name in (
            *("--out", "--from", "--map", "--suite", "--filter", "--metric", "--scorer", "--multi"),
            *("--family-from", "--domain-from", "--levels", "--arm"),
            *("--train-seed", "--role"),
        )
    },
}

_OF_ONE: Final = (
    "--calibration FILE is for one run: a calibrator is fitted on one adapter; give each run its "
    "own with `pact-eval calibrate CALIB_RUN --holdout RUN`, and --calibration own"
)

Given: TypeAlias = Annotated[tuple[Path, ...], RUN, "[RUN|FOLDER|LOG]..."]
"""Run folders or URLs, folders of runs, and logs."""


@command(
    elsewhere=_ELSEWHERE,
    for_ci=True,
    more=(
        *("unit", "allow", "resamples", "option_texts", "answers", "positions_from", "decoding"),
        "ci_format",
    ),
    settings=(
        *("method", "criteria", "palette", "clear_changes", "thresholds"),
        *("ece_bins", "audit", "bootstrap_seed"),
    ),
)
@some_reading_options("columns", "option_texts", "answers", "positions_from")
@settings_options(
    *("by", "decoding", "calibration", "target_error", "without_leaks", "unit", "ece_bins"),
    *("allow", "audit", "resamples", "bootstrap_seed", "method"),
)
@output_options("html", "data", "criteria", "palette", "clear_changes", "thresholds")
def report(
    given_places: Given = (),
    *,
    reading: Reading,
    settings: Settings,
    outputs: Outputs,
    full: bool = False,
    items: Count | None = None,
    open_: bool = False,
    require: Required = (),
) -> None:
    """Show what runs, logs or predictions are worth.

    LOG is a file or folder that `pact-eval import` reads: CSV, JSON or Parquet with predictions, a
    log of lm-evaluation-harness, Inspect, HELM or the Decision Index, recorded requests and replies
    (System One, chat completions, ...), or grades (errorbars, ...). It becomes a run in the
    folder of runs (`runs`), by the rules of `import`: it is read right, or the message has both
    readings and the option that decides. A log of the same bytes is that run again; another log of
    the same name gets a number. RUN is a run folder or its URL, such as s3://bucket/runs/pact-17.

    One run: its first screen, and all tables with --full. Several runs on the same items: the first
    is compared with the others, as `compare` does. A FOLDER of runs, no argument (the folder of
    runs), or runs that cannot be compared: a leaderboard.

    --html writes one offline page with verdicts, diagnostics, figures, tables and every item.

    Exits with 2 if a log can be read in two ways, and with 3 if items of a run are also in a file
    that its model is made from (see --without-leaks). With --require: PASS exits with 0, FAIL with
    3, and CANNOT TELL with 4.

    Numbers:
        --require METRIC=VALUE: Least or largest value of a metric of one run, such as accuracy=85,
            ece=8 or flips=10; rates are in percent. May be given several times. Every group of
            --by must meet what is required, in place of all items; of several questions, every
            question, unless --by all is given.

    Output:
        --full: Print every table, also next to --html; with --json, the whole order audit. --by
            prints the tables too.
        --items N: Also list N wrong answers, the surest first, and N answers that change with the
            order; of several runs, N items that only one of two gets right.
        --open: Open the page in the browser. Without --html, it is report.html.
    """
    places = find_places(given_places, reading, named_data(outputs.data))
    outputs = replace(outputs, data=places.texts_in(outputs.data))
    reads = () if places.read else ("columns", "option_texts", "answers", "positions_from")
    refuse_given(reads, "{} is for a log: the runs are stored already, and say how they were read")
    more = full or items is not None
    if open_ and outputs.html is None:
        outputs = replace(outputs, html=Path("report.html"))
    if outputs.html is not None:
        alone = not (require or more)
        of_page = shown_groups(settings) if require else settings
        _write_page(places, of_page, outputs, open_page=open_, alone=alone)
        if alone:
            return
    of_terminal = replace(settings, data=named_data(outputs.data))
    shown = Shown(full, items, outputs.data)
    if require:
        experiment = _judged_run(places, of_terminal)
        told = replace(experiment, settings=shown_groups(of_terminal))
        below = more or settings.target_error is not None
        print_release(experiment, require, present_all([told], shown) if below else None, shown)
        return
    print_places(places, of_terminal, replace(shown, full=full or bool(given(["by"]))))


def _judged_run(places: Places, settings: Settings) -> Experiment:
    """Return the run that is judged.

    Raises:
        click.UsageError: there are several.
    """
    experiments, _ = Experiment.read_each(open_runs(places.runs), settings)
    refuse(
        places.folders or len(experiments) != 1,
        "--require is for one run; of a run and the one before: pact-eval compare NEW OLD",
    )
    announce(_how_read(places))
    return experiments[0]


def _how_read(places: Places) -> list[str]:
    """Say how each log was read."""
    return [f"Read: {text}." for text in places.read.values()]


def print_places(places: Places, settings: Settings, shown: Shown) -> None:
    """Print the report on one run, the comparison of several, or a leaderboard.

    Args:
        places: the runs.
        settings: decoding, grouping and bootstrap.
        shown: what of it.
    """
    if places.folders:
        _print_list(places, settings, shown)
        return
    opened = open_runs(places.runs)
    kept, _ = select_role(opened)
    if len(kept) == 1:
        exit_on_leak(print_reports(opened, settings, shown, places.read))
        return
    refuse(settings.calibration, _OF_ONE)
    announce(_how_read(places))
    experiment, reason = _comparable(opened, settings)
    if experiment is None:
        _print_list(places, settings, shown, reason)
        return
    asked = settings.target_error is not None
    below = present_all(Experiment.read_each(opened, settings)[0]) if asked else None
    print_comparison(experiment, shown, below)


def _comparable(runs: Sequence[RunFolder], settings: Settings) -> tuple[Experiment | None, str]:
    """Return runs that can be compared item by item; else None, and the reason."""
    try:
        experiment = Experiment.read(runs, settings, unique_labels=False)
    except InputError as error:
        return None, str(error)
    if experiment.ablated:
        return None, f"{experiment.ablated[0].place} is on ablated contexts"
    if not experiment.same_items:
        return None, str(experiment.mismatches[0])
    return experiment, ""


def _print_list(places: Places, settings: Settings, shown: Shown, reason: str = "") -> None:
    """Print the leaderboard of runs, and what is asked of each after it.

    Args:
        places: runs, and folders that hold some.
        settings: of the reports; with a target error, they are printed too.
        shown: if it asks for more, every report too; with JSON, instead of the leaderboard.
        reason: why runs are not compared; "" if that was not asked.
    """
    refuse(settings.calibration, _OF_ONE)
    each = shown.full or shown.items is not None or settings.target_error is not None
    listed = list_runs([*places.folders, *run_folders(places.runs)], settings)
    complete = [run.folder for run in listed if run.state == "complete"]
    if not (each and (as_json() or ci_format())):
        names = names_of(run.arm for run in listed if run.arm is not None)
        presenter = present_run_list(listed, names, places.folders, settings, reason=reason)
        emit(presenter)
    if each and complete:
        print_reports(complete, settings, shown, places.read)
    exit_on_leak([run.data for run in listed if run.data is not None])


def _runs_of(places: Places) -> list[Path]:
    """Return the runs of a page: those that are named, and the complete ones of folders."""
    listed = [run.folder for run in list_runs(places.folders) if run.state == "complete"]
    return [*places.runs, *listed]


def _write_page(
    places: Places,
    settings: Settings,
    outputs: Outputs,
    *,
    open_page: bool,
    alone: bool,
) -> None:
    """Write the page, say where it is, and open it; `alone` exits on a leak, and prints JSON."""
    runs = _runs_of(places)
    refuse(settings.calibration and len(runs) > 1, _OF_ONE)
    refuse(
        settings.unit != "family",
        f"--unit {settings.unit} is for the report in the terminal and --json; the intervals of "
        "the page are over families",
    )
    outputs, other_data = _with_data_of(Experiment.read(runs, settings), outputs)
    written = page_of(runs, settings, outputs)
    if alone:
        announce(_how_read(places))
        presenter = present_written_report(
            written, left_out=left_out_files(), other_data=other_data, reasons=verbose()
        )
        emit(presenter, warned=[*map(str, written.warnings)])
    else:
        announce([f"wrote {written.html}"])
    if open_page and written.html is not None:
        open_in_browser(written.html)
    written.check_registration()
    exit_on_leak([written.data] if alone else [])


def page_of(runs: Sequence[Path], settings: Settings, outputs: Outputs) -> WrittenReport:
    """Write the page of runs, and print the warnings on them.

    Args:
        runs: run folders or URLs.
        settings: decoding, grouping and bootstrap.
        outputs: the page, and what it shows besides the runs.
    """
    experiment = Experiment.read(runs, replace(settings, data=outputs.data))
    warn(map(str, experiment.warnings))
    return write_report(experiment, outputs)


def _with_data_of(experiment: Experiment, outputs: Outputs) -> tuple[Outputs, list[JsonValue]]:
    """Leave out a dataset that only the settings name, if the runs were scored on another one.

    Returns:
        The outputs, and the warning as a JSON value if there is no dataset then.
    """
    if not from_settings("data") or has_data_of(outputs.data, experiment):
        return outputs, []
    if remembered_data(experiment.runs)[0]:
        return replace(outputs, data=()), []
    paths = [*map(str, outputs.data)]
    text = f"{' '.join(paths)}: not the data of these runs, so the page has no texts; give --data"
    warn([text])
    return replace(outputs, data=()), [{"kind": "SkippedData", "paths": [*paths], "text": text}]


def open_in_browser(page: Path) -> None:
    """Open a page in the browser.

    Args:
        page: its file.
    """
    if not webbrowser.open(page.resolve().as_uri()):
        warn([f"{page}: no browser could be started; open the file yourself"])


def print_reports(
    runs: Sequence[RunSource],
    settings: Settings | None = None,
    shown: Shown = FIRST_SCREEN,
    read: Mapping[Path, str] | None = None,
) -> list[DataConclusion]:
    """Print the report on each run in turn; with JSON, one object with all of them.

    Args:
        runs: the runs, their folders or URLs.
        settings: decoding, grouping and bootstrap.
        shown: what of it; the items are wrong answers, and answers that change.
        read: by run folder, how its log was read.

    Returns:
        Of each run, the conclusion on its data.
    """
    experiments, skipped = Experiment.read_each(runs, settings)
    warn(map(str, skipped))
    emit(present_all(experiments, shown, skipped, read), full=shown.full)
    return [experiment.data for experiment in experiments]


def present_all(
    experiments: Sequence[Experiment],
    shown: Shown = FIRST_SCREEN,
    skipped: Sequence[SkippedRun] = (),
    read: Mapping[Path, str] | None = None,
) -> Presenter:
    """Present the report on each of some runs; the arguments are those of `print_reports`."""
    reports = [experiment.report() for experiment in experiments]
    # With --target-error, the report also says whether the run may act alone.
    reports = [
        report if report.experiment.settings.target_error is None else with_acting(report)
        for report in reports
    ]
    names = names_of(report.run.arm for report in reports)
    texts = {str(folder): text for folder, text in (read or {}).items()}

    def present(report: RunReport) -> Presenter:
        read_as = texts.get(report.run.place, "")
        return present_run_report(report, names, full=shown.full, items=shown.items, read=read_as)

    presented = [(report, present(report)) for report in reports]
    return present_reports(presented, skipped, left_out_files())
