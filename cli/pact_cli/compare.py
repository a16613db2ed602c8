"""`pact-eval compare`: two or more runs on the same items, a release, or arms over seeds."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import click

from pact_cli.commands import command, from_settings, given, refuse
from pact_cli.console import Shown, announce, ci_format, emit, warn
from pact_cli.exits import exit_as, exit_on_leak
from pact_cli.labelled import some_reading_options
from pact_cli.options import RunPath, named_data, names_of, settings_options
from pact_cli.param_types import Count, Parsed
from pact_cli.places import find_places
from pact_eval._files import is_url
from pact_eval.data.labelled.reading import Reading
from pact_eval.drift.drift import measure_drift
from pact_eval.drift.run_comparison import compare_runs
from pact_eval.errors import PactError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import has_data_of
from pact_eval.evaluation.requirements import Requirement, judge_release, shown_groups
from pact_eval.evaluation.run_records import NO_TEXTS, ItemTexts, item_texts
from pact_eval.evaluation.settings import Settings
from pact_reports.views.arms import present_arms
from pact_reports.views.comparison import present_release, present_run_comparison
from pact_reports.views.drift import present_drift
from pact_reports.views.presenter import Presenter

NotWorse: TypeAlias = Annotated[Requirement, Parsed(Requirement.not_worse)]
Required: TypeAlias = Annotated[tuple[Requirement, ...], Parsed(Requirement.parse)]
_PAPER: Final = "pact-eval paper A B"
_ELSEWHERE: Final = {
    "--html": "pact-eval report A B --html page.html",
    "--open": "pact-eval report A B --html page.html --open",
    "--figures": f"{_PAPER} --figures all",
    "--tables": f"{_PAPER} --tables all",
    "--latex": f"{_PAPER} --tables all --format latex",
    "--markdown": f"{_PAPER} --tables all --format markdown",
    "--target-error": "pact-eval thresholds RUN --target-error 0.05",
    "--arms": "NAME=PATTERN in place of runs: pact-eval compare pact='runs/pact-*' ce='runs/ce-*'",
    "--bins": "--by COLUMN:BINS",
}


_OWN_OR_SHIPPED: Final = (
    "--calibration: expected own or shipped, as a calibrator is fitted on one adapter"
)


class RunOrArm(RunPath):
    """The type of a run, or of the runs of an arm, NAME=PATTERN; the library gets text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text of the path; that of an arm is returned as it is."""
        text = os.fspath(value)
        if "=" in text or is_url(text):
            return text
        path = super().convert(text, param, ctx)
        return text if path == Path(text) else str(path)


@command(
    elsewhere=_ELSEWHERE,
    for_ci=True,
    more=(
        *("decoding", "calibration", "unit", "allow", "resamples"),
        *("columns", "option_texts", "answers", "positions_from"),
    ),
    settings=("ece_bins", "audit", "bootstrap_seed"),
)
@some_reading_options("columns", "option_texts", "answers", "positions_from")
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
    items: Count | None = None,
    full: bool = False,
    data: tuple[Path, ...] = (),
    reading: Reading,
    settings: Settings,
) -> None:
    """Compare A with B (and with C, ...), item by item.

    Runs are folders, or URLs such as s3://bucket/runs/pact-17, or files of predictions, as `report`
    reads them. They are joined on item ids. Arms over seeds are NAME=PATTERN each, such as
    pact=runs/pact-*.
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
            ece=8 or flips=10; rates are in percent. May be given several times. Every group of
            --by must meet what is required, in place of all items; of several questions, every
            question, unless --by all is given.
        --gate: Has B drifted from A? Exits with 0 if accuracy is equivalent within --margin, with 3
            if it changed beyond it, and with 4 if the runs cannot tell. Files of thresholds after A
            and B are checked on both; one that is broken on B exits with 3.

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
    refuse(
        gate and required,
        "--gate fails NEW that is better, too; --not-worse and --require do not: give one of them",
    )
    shown = Shown(full or bool(given(["by"])), items, data)
    stored = partial(_stored_logs, reading=reading, data=settings.data)
    if gate or (ci_format() and not required and settings.margin is not None):
        _gate(runs, stored, settings, shown)
    elif required:
        more = full or items is not None or bool(given(["margin"]))
        below = partial(_present, shown=shown) if more else lambda _: None
        judge_places(stored(runs), settings, required, below, replace(shown, full=full))
    elif any(map(_is_arm, runs)):
        _print_arms(runs, settings, shown)
    else:
        refuse(
            len(runs) < 2,
            f"expected two or more runs, got {len(runs)}; use: pact-eval compare A B",
        )
        refuse(settings.calibration, _OWN_OR_SHIPPED)
        print_comparison(Experiment.read(stored(runs), settings, unique_labels=False), shown)


def _stored_logs(
    runs: Sequence[str], reading: Reading, data: Sequence[Path]
) -> Sequence[str | Path]:
    """Return runs; logs among them are read as `report` reads them, and stored as runs.

    Raises:
        PactError: a log can be read in several ways; the message has the command for each.
    """
    words = shlex.join(["pact-eval", "compare", *runs])
    places = find_places([*map(Path, runs)], reading, data, words)
    announce(f"Read: {text}." for text in places.read.values())
    return runs if places.folders else places.runs


def _is_arm(argument: str) -> bool:
    """Return whether an argument is NAME=PATTERN, and not a run with this name."""
    return "=" in argument and not is_url(argument) and not Path(argument).exists()


def _print_arms(arms: Sequence[str], settings: Settings, shown: Shown) -> None:
    """Print the comparison of arms over seeds; exit on a leak."""
    refuse(settings.calibration, _OWN_OR_SHIPPED)
    experiment = Experiment.read_arms(arms, settings)
    names, texts = names_of(experiment.arms), _texts(experiment, shown)
    presenter = present_arms(experiment, names, items=shown.items or 0, texts=texts)
    emit(presenter, full=shown.full)
    exit_on_leak([experiment.data])


def print_comparison(experiment: Experiment, shown: Shown, below: Presenter | None = None) -> None:
    """Print the comparison of the first run with each of the others; exit on a leak.

    Args:
        experiment: the runs.
        shown: what of it; the items are those that only one of two runs gets right.
        below: what is shown below it.
    """
    try:
        presenter = _present(experiment, shown)
    except PactError:
        warn(map(str, experiment.applied_warnings))
        raise
    if below is not None:
        presenter = presenter.with_below("reports", below, full=shown.full)
    emit(presenter, full=shown.full)
    exit_on_leak([experiment.data])


def _present(experiment: Experiment, shown: Shown) -> Presenter:
    """Present the comparison of the first run with each of the others; arguments as above."""
    texts = _texts(experiment, shown)
    return present_run_comparison(*compare_runs(experiment), items=shown.items or 0, texts=texts)


def _gate(
    arguments: tuple[str, ...],
    stored: Callable[[Sequence[str]], Sequence[str | Path]],
    settings: Settings,
    shown: Shown,
) -> None:
    """Print the drift between two runs, and exit as its finding demands."""
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
    before, after = stored(arguments[:2])
    drift = measure_drift(Path(before), Path(after), settings, thresholds=files)
    presenter = present_drift(drift)
    if shown.items is not None:
        pair = Experiment.read([before, after], settings, unique_labels=False)
        presenter = presenter.with_below("compare", _present(pair, shown), full=shown.full)
    emit(presenter, full=shown.full)
    exit_on_leak([drift.data])
    exit_as(drift.finding)


def _texts(experiment: Experiment, shown: Shown) -> ItemTexts:
    """Read the texts of listed items; those of data in the settings only if the runs are on it."""
    if not shown.items:
        return NO_TEXTS
    usable = not from_settings("data") or has_data_of(shown.data, experiment)
    return item_texts(experiment.runs[0], shown.data if usable else (), required=True)


def judge_places(
    runs: Sequence[str | Path],
    settings: Settings,
    requirements: tuple[Requirement, ...],
    below: Callable[[Experiment], Presenter | None],
    shown: Shown,
) -> None:
    """Judge a new run next to the one before.

    Args:
        runs: NEW and OLD.
        settings: decoding, grouping, bootstrap and data.
        requirements: what is required.
        below: makes what is shown below the verdict.
        shown: what of it.
    """
    refuse(
        len(runs) != 2,
        f"expected NEW OLD, got {len(runs)}; of one run: pact-eval report RUN --require ...",
    )
    experiment = Experiment.read(runs, settings, unique_labels=False)
    told = replace(experiment, settings=shown_groups(settings))
    print_release(experiment, requirements, below(told), shown)


def print_release(
    experiment: Experiment,
    requirements: tuple[Requirement, ...],
    below: Presenter | None,
    shown: Shown,
) -> None:
    """Print whether a run meets what is required, and exit as the verdict demands.

    Args:
        experiment: the run, and the one before it if there is one.
        requirements: what is required; of every group of --by, or of every question of several.
        below: what is shown below the verdict.
        shown: what of it.
    """
    grouped = True if given(["by"]) or from_settings("by") else None
    release = judge_release(experiment, requirements, grouped=grouped)
    context = click.get_current_context()
    presenter = present_release(release, command=f"pact-eval {context.info_name}")
    if below is not None:
        presenter = presenter.with_below(str(context.info_name), below, full=shown.full)
    emit(presenter)
    exit_on_leak([experiment.data])
    exit_as(release.verdict)
