"""`pact-eval report`: metrics of runs, in the terminal and on one page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pact_cli.commands import command, from_settings, grouped, option
from pact_cli.console import announce, emit, verbose, warn
from pact_cli.errors import exit_on_leak
from pact_cli.options import (
    PATH,
    RUN,
    json_option,
    left_out_files,
    named_data,
    names_of,
    output_options,
    runs_argument,
    settings_options,
)
from pact_cli.steps import load, rare_collection
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval._json import Json
    from pact_eval.drift.tempering import ServedTempering
    from pact_eval.evaluation.conclusions.data import DataConclusion
    from pact_eval.evaluation.experiment import Experiment, RunReport
    from pact_eval.evaluation.settings import Settings
    from pact_reports.outputs import Outputs

_ALL: Final = "all"
_RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")
_PAPER: Final = "pact-eval paper RUN..."
_ELSEWHERE: Final = {
    "--figures": f"{_PAPER} --figures all -o DIR",
    "--latex": f"{_PAPER} --tables all --format latex -o DIR",
    "--markdown": f"{_PAPER} --tables all --format markdown -o DIR, which writes report.md",
    "--style": f"{_PAPER} --style NAME",
    "--k": "pact-eval report RUN --views 1..4",
    "--mcnemar": "pact-eval compare A B --mcnemar",
    "--sets": "pact-eval thresholds RUN --sets",
}


@dataclass(frozen=True)
class Views:
    """Numbers of views to show; None stands for all that the run has."""

    numbers: range | None = None


def _views(context: click.Context, parameter: click.Parameter, text: str | None) -> Views | None:
    if text is None or text == _ALL:
        return None if text is None else Views()
    match = _RANGE.fullmatch(text)
    if match is None:
        message = f"expected a number or FROM..TO, got {text!r}"
        raise click.BadParameter(message, context, parameter)
    return Views(range(int(match[1]), int(match[2] or match[1]) + 1))


def _accepts(word: str) -> bool:
    """Return whether the word after --views is its value, and not a RUN.

    Examples:
        >>> _accepts("1..4"), _accepts("runs/17"), _accepts("--json")
        (True, False, False)
    """
    return word == _ALL or word[:1].isdigit()


_VIEWS_OPTION: Final = option(
    "--views",
    group="Views",
    metavar="[FROM..TO]",
    callback=_views,
    alone=_ALL,
    accepts=_accepts,
    help="Show the metrics for every number of views, or for a range such as 1..4.",
)


@command(
    loads=("pact_eval.evaluation.experiment", "pact_reports.views.brief"),
    one_thread=True,
    elsewhere=_ELSEWHERE,
)
@runs_argument
@settings_options(
    *(
        "by",
        "bins",
        "ece_bins",
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
    *("html", "palette", "data", "criteria", "clear", "thresholds", "cost_wrong", "cost_review"),
)
@option(
    "--full",
    is_flag=True,
    help="Print every table; with --json, the whole order audit. --by prints the tables too.",
)
@_VIEWS_OPTION
@option(
    "--remedies",
    group="Views",
    is_flag=True,
    help="Compare what removes order effects: more views, letter priors, batch calibration.",
)
@option(
    "--fitted",
    group="Views",
    metavar="FILE",
    type=PATH,
    multiple=True,
    help="With --remedies: also apply this remedy, which `calibrate --remedy` fitted on other "
    "families. May be given several times.",
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
@option(
    "--model-card",
    "card",
    group="Output",
    metavar="FILE",
    type=PATH,
    help="Also write the results of one RUN into FILE, the model card (README.md) of its model.",
)
@option(
    "--open",
    "open_page",
    is_flag=True,
    help="Open the page of --html in the browser.",
)
@json_option
def report(
    runs: tuple[Path, ...],
    settings: Settings,
    outputs: Outputs,
    full: bool,
    views: Views | None,
    remedies: bool,
    fitted: tuple[Path, ...],
    local_run: Path | None,
    find_slices: bool,
    card: Path | None,
    open_page: bool,
    as_json: bool,
) -> None:
    """Show what RUN is worth, in twelve lines; --full shows all.

    RUN is a run folder, or the URL of one in an object store, such as s3://bucket/runs/pact-17.
    --html writes one offline page with verdicts, diagnostics, figures, tables and every item.

    --full shows every metric by group, with intervals over families. Several RUNs are reported in
    turn; with --json, as one object {"runs": [...]}. Runs on ablated contexts show confidence, the
    gap between the two answers, view TV, flip rate and answer mass.

    With --html, the path is printed, and the answer of the page. The calibration.json in the folder
    of each run is applied. `pact-eval paper` writes figures and tables.

    --views shows accuracy, NLL, ECE, view TV and flip rate for every number of views, and with
    --full their intervals. Views are added in their order; K = 1 is the canonical view alone. View
    TV and flip rate are computed on raw views.

    --model-card adds the results to the metadata and the text of a model card, and keeps all else
    in it. Results on the same data are replaced.

    --remedies compares decodings that remove order effects, by their price in prompts: several
    views, letter priors fitted on other families, and batch calibration. --full prints
    pairs, ECE, flips and costs too.

    Exits with 3 if items of a RUN are also in a file that the model is made from (see
    --without-leaks) or a remedy of --fitted was fitted on its families, and with 5 if the criteria
    differ from the registered ones, or were registered after a run began.
    """
    if card is not None:
        _check_card(runs, outputs, other=views is not None or remedies or find_slices)
    if views is not None:
        from pact_cli.views_of_run import print_views

        settings = replace(settings, data=named_data(outputs.data))
        print_views(runs, views.numbers, settings, full=full, as_json=as_json)
        return
    if remedies:
        from pact_cli.views_of_run import print_remedies

        settings = replace(settings, data=named_data(outputs.data))
        print_remedies(runs, settings, fitted=fitted, full=full, as_json=as_json)
        return
    if fitted:
        raise click.UsageError("--fitted is for --remedies, which was not given")
    _check_usage(runs, settings, outputs, full=full)
    if open_page and outputs.html is None:
        raise click.UsageError("--open opens the page of --html, which was not given")
    if outputs.html is not None and local_run is not None:
        raise click.UsageError("--local-run is for the report in the terminal and --json")
    if find_slices:
        _print_slices(runs, settings, outputs, as_json=as_json)
        return
    if outputs.html is not None:
        _write_page(runs, settings, outputs, open_page=open_page, as_json=as_json)
        return
    full = full or grouped()
    settings = replace(settings, data=named_data(outputs.data))
    conclusions = print_reports(
        runs, settings, as_json=as_json, full=full, local=local_run, card=card
    )
    exit_on_leak(conclusions)


def _check_card(runs: Sequence[Path], outputs: Outputs, *, other: bool) -> None:
    """Refuse a model card that is not of the report on one run."""
    if outputs.html is not None or other:
        message = (
            "--model-card is for the report in the terminal and --json, without --views, "
            "--remedies and --find-slices"
        )
        raise click.UsageError(message)
    if len(runs) != 1:
        raise click.UsageError(f"--model-card: expected one RUN, got {len(runs):,}")
    load("pact_reports.model_card.card")  # it may be missing, and a report takes long


def _write_page(
    runs: Sequence[Path], settings: Settings, outputs: Outputs, *, open_page: bool, as_json: bool
) -> None:
    """Write the page, print its path, and open it."""
    load("pact_reports.files", "pact_reports.page")
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.files import write_report
    from pact_reports.views.written_report import present_written_report

    outputs, other_data = _with_data_of(Experiment.read(runs, settings), outputs)
    experiment = Experiment.read(runs, replace(settings, data=outputs.data))
    warned = warn(map(str, experiment.warnings))
    with rare_collection():
        load("pact_reports.page.assembly")
        written = write_report(experiment, outputs)
    presenter = present_written_report(
        written, left_out=left_out_files(), other_data=other_data, reasons=verbose()
    )
    emit(presenter, warned=warned, as_json=as_json)
    if open_page and written.html is not None:
        open_in_browser(written.html)
    written.check_registration()
    exit_on_leak([written.data])


def _print_slices(
    runs: Sequence[Path], settings: Settings, outputs: Outputs, *, as_json: bool
) -> None:
    """Print the slices of one run that were tested."""
    if outputs.html is not None or len(runs) != 1:
        what = (
            "the terminal and --json" if outputs.html is not None else f"one RUN, got {len(runs)}"
        )
        raise click.UsageError(f"--find-slices is for {what}")
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.views.slices import present_slice_search

    experiment = Experiment.read(runs, settings)
    warn(map(str, experiment.warnings))
    emit(present_slice_search(experiment.find_slices()), as_json=as_json)


def _with_data_of(experiment: Experiment, outputs: Outputs) -> tuple[Outputs, list[Json]]:
    """Leave out a dataset that only the settings name, if the runs were scored on another one.

    Returns:
        The outputs, and the warning as a JSON value if there is no dataset then.
    """
    from pact_eval.evaluation.item_records import has_data_of
    from pact_eval.evaluation.run_data import remembered_data

    if not outputs.html or not from_settings("data") or has_data_of(outputs.data, experiment):
        return outputs, []
    if remembered_data(experiment.runs).files:
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
    card: Path | None = None,
) -> list[DataConclusion]:
    """Print the report on each run in turn; with JSON, one object with all of them.

    Args:
        folders: the run folders, or URLs.
        settings: decoding, grouping and bootstrap.
        as_json: print JSON, which has every number.
        full: print every table instead of the first twelve lines.
        local: run scored here, with whose temperatures those of served runs are compared.
        card: model card of the first run, to be written.

    Returns:
        Of each run, the conclusion on its data.
    """
    from pact_eval.evaluation.experiment import Experiment
    from pact_reports.views.report import present_reports, present_run_report

    experiments, skipped = Experiment.read_each(folders, settings)
    warn(map(str, skipped))
    reports = [_reported(experiment) for experiment in experiments]
    names = names_of(report.run.arm for report in reports)
    presented = []
    for report in reports:
        tempering = None if local is None else _tempering(report, local)
        presented.append(
            (report, present_run_report(report, names, full=full, tempering=tempering))
        )
    files = () if card is None else written_card(reports[0], card)
    emit(present_reports(presented, skipped, left_out_files()), files=files, as_json=as_json)
    return [experiment.data for experiment in experiments]


def written_card(report: RunReport, card: Path) -> tuple[Path, ...]:
    """Write the results of a run into a model card; return the file if it changed."""
    from pact_reports.model_card.card import ModelCard

    if ModelCard.of(report).write(card):
        return (card,)
    announce([f"{card}: unchanged; it has these results"])
    return ()


def _reported(experiment: Experiment) -> RunReport:
    """Return the report on a run; with --target-error, also whether it may act alone."""
    report = experiment.report()
    if experiment.settings.target_error is None:
        return report
    from pact_eval.thresholds.conclusion import with_acting

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


def _check_usage(runs: Sequence[Path], settings: Settings, outputs: Outputs, *, full: bool) -> None:
    """Refuse options that would have no effect."""
    options = {
        "--palette": outputs.palette,
        "--criteria": outputs.criteria,
        "--clear-changes": outputs.clear,
        "--thresholds": outputs.thresholds,
        "--cost-wrong": outputs.cost_wrong,
        "--cost-review": outputs.cost_review,
        "--method": settings.method,
    }
    settled = {"--criteria": "criteria", "--method": "method"}
    idle = [
        name
        for name, value in options.items()
        if value and outputs.html is None and not from_settings(settled.get(name))
    ]
    message = None
    if idle:
        message = f"{idle[0]} is for --html, which was not given"
    elif outputs.html is not None and settings.calibration is not None:
        message = (
            "--calibration is for the report on one RUN in the terminal; the page uses the "
            "calibration.json in the folder of each run, which `pact-eval calibrate CALIB_RUN "
            "--holdout RUN` writes"
        )
    elif outputs.html is not None and full:
        message = "--full is for the terminal; the page has every table"
    elif outputs.html is not None and settings.unit != "family":
        message = (
            f"--unit {settings.unit} is for the report in the terminal and --json; the intervals "
            "of the page are over families"
        )
    elif settings.calibration is not None and len(runs) > 1:
        message = (
            f"--calibration: expected one RUN, got {len(runs):,}; a calibrator is fitted on one "
            "adapter, so give each run its own"
        )
    if message is not None:
        raise click.UsageError(message)
