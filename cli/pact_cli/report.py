"""`pact-eval report`: metrics of runs, in the terminal and on one page."""

from __future__ import annotations

import re
import webbrowser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import click

from pact_cli.commands import command, from_settings, given, refuse, refuse_given
from pact_cli.console import announce, emit, exit_on_leak, verbose, warn
from pact_cli.options import (
    Json,
    RunFolder,
    Runs,
    left_out_files,
    named_data,
    names_of,
    output_options,
    settings_options,
)
from pact_eval._json import Json as JsonValue
from pact_eval.drift.pairs import ServedTempering, served_tempering
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment import Experiment, RunReport
from pact_eval.evaluation.item_records import has_data_of
from pact_eval.evaluation.run_data import remembered_data
from pact_eval.evaluation.settings import Settings
from pact_eval.remedies.comparison import remedies_of_run
from pact_eval.runs.places import run_folder
from pact_eval.thresholds.conclusion import with_acting
from pact_reports.files import write_report
from pact_reports.outputs import Outputs
from pact_reports.views.remedies import present_remedy_comparison
from pact_reports.views.report import present_reports, present_run_report
from pact_reports.views.sweep import present_sweep
from pact_reports.views.written_report import present_written_report

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
_OF_RUN: Final = (
    *("runs", "resamples", "bootstrap_seed", "allow", "data", "audit", "without_leaks"),
    *("full", "as_json"),
)
_USED: Final = {
    "--views": (*_OF_RUN, "views", "calibration", "as_shipped"),
    "--remedies": (*_OF_RUN, "remedies", "fitted", "unit"),
}
"""By option that replaces the report, the parameters that it uses."""

_OF_PAGE: Final = (
    *("palette", "criteria", "clear_changes", "thresholds", "cost_wrong", "cost_review", "method"),
)


class ViewNumbers(click.ParamType[Any]):
    """The type of numbers of views: one, FROM..TO, or all if no value follows.

    Examples:
        >>> ViewNumbers().convert("2..4", None, None)
        range(2, 5)
        >>> [ViewNumbers().accepts(word) for word in ("1..4", "runs/17", "--json")]
        [True, False, False]
    """

    name = "views"
    alone = "all"
    _RANGE: Final = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?")

    def accepts(self, word: str) -> bool:
        """Return whether the word after --views is its value, and not a RUN."""
        return word == self.alone or word[:1].isdigit()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the numbers; "all" as it is."""
        match = self._RANGE.fullmatch(value)
        if match is None and value != self.alone:
            self.fail(f"expected a number or FROM..TO, got {value!r}", param, ctx)
        return value if match is None else range(int(match[1]), int(match[2] or match[1]) + 1)


Views: TypeAlias = Annotated[range | Literal["all"], ViewNumbers()]


@command(elsewhere=_ELSEWHERE)
@settings_options(
    *("by", "bins", "ece_bins", "unit", "decoding", "resamples", "bootstrap_seed", "calibration"),
    *("as_shipped", "allow", "method", "audit", "without_leaks", "target_error"),
)
@output_options(
    *("html", "palette", "data", "criteria", "clear_changes", "thresholds"),
    *("cost_wrong", "cost_review"),
)
def report(
    runs: Runs,
    *,
    settings: Settings,
    outputs: Outputs,
    full: bool = False,
    views: Views | None = None,
    remedies: bool = False,
    fitted: tuple[Path, ...] = (),
    local_run: RunFolder | None = None,
    model_card: Path | None = None,
    open_: bool = False,
    as_json: Json = False,
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

    Views:
        --views [FROM..TO]: Show the metrics for every number of views, or for a range such as 1..4.
        --remedies: Compare what removes order effects: more views, letter priors, batch
            calibration.
        --fitted FILE: With --remedies: also apply this remedy, which `calibrate --remedy` fitted on
            other families. May be given several times.

    Server:
        --local-run RUN: Run of the same model, scored here: test whether the probabilities of a
            served RUN were divided by a temperature.

    Output:
        --full: Print every table; with --json, the whole order audit. --by prints the tables too.
        --model-card FILE: Also write the results of one RUN into FILE, the model card (README.md)
            of its model.
        --open: Open the page of --html in the browser.
    """
    page = outputs.html is not None
    if model_card is not None:
        refuse(
            page or views is not None or remedies,
            "--model-card is for the report in the terminal and --json, without --views and "
            "--remedies",
        )
        refuse(len(runs) != 1, f"--model-card: expected one RUN, got {len(runs):,}")
        from pact_reports.model_card import card  # noqa: F401 - its libraries may be missing
    audited = replace(settings, data=named_data(outputs.data))
    if views is not None or remedies:
        numbers = views if isinstance(views, range) else None
        _print_views(
            runs,
            audited,
            numbers,
            fitted=fitted,
            remedies=views is None,
            full=full,
            as_json=as_json,
        )
        return
    refuse(fitted, "--fitted is for --remedies, which was not given")
    _check_usage(runs, settings, page=page, full=full)
    refuse(open_ and not page, "--open opens the page of --html, which was not given")
    refuse(page and local_run, "--local-run is for the report in the terminal and --json")
    if page:
        _write_page(runs, settings, outputs, open_page=open_, as_json=as_json)
    else:
        full = full or bool(given(["by"]))
        conclusions = print_reports(
            runs, audited, as_json=as_json, full=full, local=local_run, card=model_card
        )
        exit_on_leak(conclusions)


def _check_usage(runs: Sequence[Path], settings: Settings, *, page: bool, full: bool) -> None:
    """Refuse options that would have no effect."""
    calibrated = settings.calibration is not None
    if not page:
        refuse_given(_OF_PAGE, "{} is for --html, which was not given")
    refuse(
        page and calibrated,
        "--calibration is for the report on one RUN in the terminal; the page uses the "
        "calibration.json in the folder of each run, which `pact-eval calibrate CALIB_RUN "
        "--holdout RUN` writes",
    )
    refuse(page and full, "--full is for the terminal; the page has every table")
    refuse(
        page and settings.unit != "family",
        f"--unit {settings.unit} is for the report in the terminal and --json; the intervals of "
        "the page are over families",
    )
    refuse(
        calibrated and len(runs) > 1,
        f"--calibration: expected one RUN, got {len(runs):,}; a calibrator is fitted on one "
        "adapter, so give each run its own",
    )


def _write_page(
    runs: Sequence[Path], settings: Settings, outputs: Outputs, *, open_page: bool, as_json: bool
) -> None:
    """Write the page, print its path, and open it."""
    outputs, other_data = _with_data_of(Experiment.read(runs, settings), outputs)
    experiment = Experiment.read(runs, replace(settings, data=outputs.data))
    warned = warn(map(str, experiment.warnings))
    written = write_report(experiment, outputs)
    presenter = present_written_report(
        written, left_out=left_out_files(), other_data=other_data, reasons=verbose()
    )
    emit(presenter, warned=warned, as_json=as_json)
    if open_page and written.html is not None:
        open_in_browser(written.html)
    written.check_registration()
    exit_on_leak([written.data])


def _with_data_of(experiment: Experiment, outputs: Outputs) -> tuple[Outputs, list[JsonValue]]:
    """Leave out a dataset that only the settings name, if the runs were scored on another one.

    Returns:
        The outputs, and the warning as a JSON value if there is no dataset then.
    """
    if not from_settings("data") or has_data_of(outputs.data, experiment):
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
    if not webbrowser.open(page.resolve().as_uri()):
        warn([f"{page}: no browser could be started; open the file yourself"])


def _print_views(
    runs: Sequence[Path],
    settings: Settings,
    numbers: range | None,
    *,
    fitted: Sequence[Path],
    remedies: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Print the metrics of one run for several numbers of views, or the remedies of order effects.

    Args:
        runs: the run.
        settings: those of the report; the sweep is over ensembles, remedies start from raw views.
        numbers: the numbers of views; None stands for all that the run has.
        fitted: files of remedies of other families.
        remedies: print the remedies.
        full: print every table below the answer.
        as_json: print JSON.

    Raises:
        click.UsageError: there are several runs, or an option changes nothing here.
    """
    option = "--remedies" if remedies else "--views"
    context = click.get_current_context()
    others = [each.name for each in context.command.params if each.name not in _USED[option]]
    refuse_given(filter(None, others), f"{{}} changes nothing with {option}; leave one of them out")
    refuse(
        len(runs) > 1,
        f"{option}: expected one RUN, got {len(runs):,}; report each of them alone",
    )
    settings = settings if remedies else replace(settings, decoding="ensemble")
    experiment = Experiment.read([run_folder(runs[0])], settings)
    (run,) = experiment.all_runs
    warned: tuple[str, ...] = ()
    if remedies:
        comparison = remedies_of_run(experiment, run, fitted)
        warned = warn(map(str, experiment.applied_warnings))
        presenter = present_remedy_comparison(comparison, full=full)
    else:
        presenter = present_sweep(experiment, run, experiment.sweep(run, numbers), full=full)
    emit(presenter, warned=warned, as_json=as_json)
    exit_on_leak([experiment.data])


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
    experiments, skipped = Experiment.read_each(folders, settings)
    warn(map(str, skipped))
    # With --target-error, the report also says whether the run may act alone.
    asked = settings is not None and settings.target_error is not None
    reports = [experiment.report() for experiment in experiments]
    reports = [with_acting(report) for report in reports] if asked else reports
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


def _tempering(report: RunReport, local: Path) -> ServedTempering:
    """Compare the temperatures of a served run with those of a local one.

    Raises:
        InputError: the run was not served, or the other one was.
    """
    run, settings = report.run, report.experiment.settings
    local_run = Experiment.read([local], replace(settings, calibrated=False)).report().run
    tempering = served_tempering(local_run, run, settings) if run.provenance.served else None
    if tempering is None:
        message = f"--local-run: {run.place} was not served, or {local} was not scored here"
        raise InputError(message)
    return tempering
