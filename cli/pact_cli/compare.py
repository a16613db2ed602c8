"""`pact-eval compare`: two or more runs on the same items, or arms over seeds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import click

from pact_cli.commands import command, from_settings, given, refuse, refuse_given
from pact_cli.console import emit, exit_on_leak, warn
from pact_cli.options import Ci, Json, RunPath, named_data, names_of, settings_options
from pact_cli.param_types import Count
from pact_cli.requirements import NotWorse, Required, judge_places
from pact_eval._choices import CiFormat
from pact_eval._files import is_url
from pact_eval.drift.drift import measure_drift
from pact_eval.drift.run_comparison import compare_runs
from pact_eval.errors import GateError, InconclusiveError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import has_data_of
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts, item_texts
from pact_eval.evaluation.settings import Settings
from pact_reports.views.arms import present_arms
from pact_reports.views.comparison import present_run_comparison
from pact_reports.views.drift import present_drift

_PAPER: Final = "pact-eval paper A B"
_ELSEWHERE: Final = {
    "--html": "pact-eval report A B --html page.html",
    "--open": "pact-eval report A B --html page.html --open",
    "--figures": f"{_PAPER} --figures all",
    "--tables": f"{_PAPER} --tables all",
    "--latex": f"{_PAPER} --tables all --format latex",
    "--markdown": f"{_PAPER} --tables all --format markdown",
    "--target-error": "pact-eval thresholds RUN --target-error 0.05",
    "--method": "pact-eval paper RUN... --method ARM",
    "--mcnemar": "pact-eval compare A B --full for the test, or --items 20 for the items",
    "--calibrated": "--calibration own",
    "--as-shipped": "--calibration shipped",
    "--bins": "--by COLUMN:BINS",
}
_EXIT_CODES: Final = {
    "equivalent": 0,
    "cannot tell": InconclusiveError.exit_code,
    "changed": GateError.exit_code,
}


class RunOrArm(RunPath):
    """The type of a run, or of NAME=PATTERN with --arms; the library gets text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text of the path; that of an arm is returned as it is."""
        text = os.fspath(value)
        if "=" in text or is_url(text):
            return text
        path = super().convert(text, param, ctx)
        return text if path == Path(text) else str(path)


@command(
    elsewhere=_ELSEWHERE,
    more=(
        *("decoding", "calibration", "unit", "ece_bins", "allow", "audit", "resamples"),
        "bootstrap_seed",
    ),
)
@settings_options(
    *("by", "decoding", "calibration", "margin", "without_leaks", "unit", "ece_bins", "allow"),
    *("audit", "resamples", "bootstrap_seed"),
)
def compare(
    runs: Annotated[tuple[str, ...], RunOrArm(), "A B [C ...]"],
    *,
    not_worse: NotWorse | None = None,
    require: Required = (),
    gate: bool = False,
    arms: bool = False,
    items: Count | None = None,
    full: bool = False,
    data: tuple[Path, ...] = (),
    settings: Settings,
    ci_format: Ci = None,
    as_json: Json = False,
) -> None:
    """Compare A with B (and with C, ...), item by item.

    Runs are folders, or URLs such as s3://bucket/runs/pact-17. They are joined on item ids.
    Differences are A - B, with intervals over items that belong together (or sources, see --unit);
    accuracy also has an exact test over items (McNemar) and one over such groups.

    --not-worse and --require judge a release, compare NEW OLD: PASS exits with 0, FAIL with 3, and
    CANNOT TELL with 4. --gate asks whether two runs, on the same items or on others, drifted apart
    in either direction. --format prints either for CI.

    Exits with 3 if items are also in a file that the model is made from, see --without-leaks.

    Numbers:
        --not-worse POINTS: NEW may answer at most so many points fewer right than OLD; better is
            fine.
        --require METRIC=VALUE: Least or largest value of a metric of NEW, such as accuracy=85,
            ece=8 or flips=10; rates are in percent. May be given several times. With --by, every
            group must meet what is required, in place of all items.
        --gate: Has B drifted from A? Exits with 0 if accuracy is equivalent within --margin, with 3
            if it changed beyond it, and with 4 if the runs cannot tell. Files of thresholds after A
            and B are checked on both; one that is broken on B exits with 3.
        --arms: Compare arms over seeds: give NAME=PATTERN, such as pact=runs/pact-*.

    Data:
        --data FILE_OR_FOLDER: Dataset of the runs, which is audited; --items shows its questions
            and answers. The audit is that of the folder if the manifest.json next to a file names
            it. Default: the file that run.json names, if it is unchanged. May be given several
            times.

    Output:
        --items N: Also list N items that only A answers correctly, and N that only B does: the
            surest wrong answers of the other first.
        --full: Print every table; --by prints the tables too.
    """
    settings = replace(settings, data=named_data(data))
    required = (*((not_worse,) if not_worse else ()), *require)
    if required:
        refuse_given(
            ["gate", "arms", "items", "full", "margin"],
            "{} does not go with --not-worse and --require, which judge a release",
        )
        judge_places(runs, settings, required, ci_format=ci_format, as_json=as_json)
        return
    full = full or bool(given(["by"]))
    if gate or ci_format is not None:
        _gate(runs, settings, ci_format, full=full, as_json=as_json)
        return
    refuse(
        not arms and len(runs) < 2,
        f"expected two or more runs, got {len(runs)}; use: pact-eval compare A B",
    )
    refuse(
        settings.calibration,
        "--calibration: expected own or shipped, as a calibrator is fitted on one adapter",
    )
    if arms:
        experiment = Experiment.read_arms(runs, settings)
        names = names_of(experiment.arms)
        texts = _texts(experiment, data) if items else NO_TEXTS
        presenter = present_arms(experiment, names, items=items or 0, texts=texts)
        emit(presenter, full=full, as_json=as_json)
        exit_on_leak([experiment.data])
        return
    experiment = Experiment.read(runs, settings, unique_labels=False)
    print_comparison(experiment, full=full, items=items, data=data, as_json=as_json)


def print_comparison(
    experiment: Experiment,
    *,
    full: bool,
    items: int | None = None,
    data: tuple[Path, ...] = (),
    as_json: bool,
) -> None:
    """Print the comparison of the first run with each of the others; exit on a leak.

    Args:
        experiment: the runs.
        full: print every table.
        items: number of items to list that only one of two runs gets right; None lists none.
        data: datasets with their texts.
        as_json: print JSON.
    """
    warn(map(str, experiment.applied_warnings))  # before runs are refused
    comparisons = compare_runs(experiment)
    texts = _texts(experiment, data) if items else NO_TEXTS
    presenter = present_run_comparison(*comparisons, items=items or 0, texts=texts)
    emit(presenter, warned=presenter.warnings, full=full, as_json=as_json)
    exit_on_leak([experiment.data])


def _gate(
    arguments: tuple[str, ...],
    settings: Settings,
    ci_format: CiFormat | None,
    *,
    full: bool,
    as_json: bool,
) -> None:
    """Print the drift between two runs, and exit as its finding demands."""
    refuse_given(
        ["arms", "items"], "{} does not go with --gate, which judges two runs by one margin"
    )
    files = [Path(argument) for argument in arguments[2:]]
    refuse(
        len(arguments) < 2 or any(file.is_dir() for file in files),
        "--gate: expected two runs, and then files of thresholds if there are any",
    )
    refuse(
        settings.margin is None,
        "--gate: which change in accuracy does not matter? Give it as a fraction, such as --margin "
        "0.02 for 2 points",
    )
    drift = measure_drift(Path(arguments[0]), Path(arguments[1]), settings, thresholds=files)
    emit(present_drift(drift), full=full, ci_format=ci_format, as_json=as_json)
    exit_on_leak([drift.data])
    click.get_current_context().exit(_EXIT_CODES[drift.finding])


def _texts(experiment: Experiment, data: tuple[Path, ...]) -> ItemTexts:
    """Read the texts of the items; those of data in the settings only if the runs are on them."""
    if from_settings("data") and not has_data_of(data, experiment):
        data = ()
    return item_texts(experiment.runs[0], data, required=True)
