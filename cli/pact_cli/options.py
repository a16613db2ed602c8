"""Options that several commands share.

A decorator such as `settings_options` adds options and passes one object with their values to the
command. The class of that object is imported when the command runs, which keeps `--help` fast.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from pact_cli.commands import (
    CHOSEN,
    INTEGER,
    NATURAL,
    POSITIVE,
    RATE,
    RESAMPLES,
    SHARE,
    Command,
    WholeNumber,
    choice,
    config_of,
    from_settings,
    option,
)
from pact_cli.console import CI_FORMAT, warn
from pact_eval._choices import (
    Allowance,
    Bins,
    CiFormat,
    ClusterUnit,
    DataAllowance,
    Decoding,
    FigureStyle,
    RunRole,
)
from pact_eval._files import is_url
from pact_eval._json import Json
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval.evaluation.arm_names import ArmNames
    from pact_eval.evaluation.settings import Settings
    from pact_eval.runs.provenance import RunLabels
    from pact_reports.outputs import Outputs

_LEFT_OUT: Final = "pact.left_out"


class LocalPath(click.Path):
    """The type of an option that is a local path; the library checks the rest.

    Args:
        hub: form of the URLs of the Hub that are accepted as well; None accepts none.
    """

    def __init__(self, hub: str | None = None) -> None:
        super().__init__(path_type=Path)
        self.hub = hub

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse other URLs, which only runs and logs can be."""
        text = os.fspath(value)
        if is_url(text) and not (self.hub and text.lower().startswith("hf:/")):
            accepted = f" or {self.hub}" if self.hub else ""
            self.fail(
                f"expected a local path{accepted}, got a URL; only runs and logs can be "
                f"{'other ' if self.hub else ''}URLs",
                param,
                ctx,
            )
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        # pathlib drops the "./", which says that this is not a Hub id.
        is_local = self.hub is not None and text.startswith(("./", ".\\")) and not path.exists()
        return path.absolute() if is_local else path


PATH: Final = LocalPath()
"""The type of an option that is a local path."""

DATASET: Final = LocalPath("hf://datasets/OWNER/NAME")
"""The type of a dataset: a local path, or a place in a dataset repository of the Hub."""

ADAPTER: Final = LocalPath("hf://OWNER/NAME")
"""The type of an adapter: a local folder, or a Hub id with `hf://` before it or not."""

RUN_OR_LOG: Final = click.Path(path_type=Path)
"""The type of a log: a path, or a URL."""


class RunPath(click.Path):
    """The type of a run folder: a path, a URL, or its name in the project's folder of runs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; what does not exist is looked for in the folder of runs."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return path if ctx is None else _named_run(path, ctx) or path


def _named_run(path: Path, ctx: click.Context) -> Path | None:
    """Return the run of a name in the folder of runs, and note it to be announced."""
    if is_url(str(path)) or path.exists():
        return None
    from pact_eval.scoring.sources import RUNS

    runs = config_of(ctx).values.get("runs")
    named = Path(RUNS if runs is None else runs.value) / path
    if not named.exists():
        return named if _has_similar(named) else None  # the message then names it
    where = "folder of runs" if runs is None else f"folder of runs, {runs.source}"
    ctx.meta.setdefault(CHOSEN, []).append(f"{named} ({where})")
    return named


def _has_similar(named: Path) -> bool:
    import difflib

    names = [path.name for path in named.parent.iterdir()] if named.parent.is_dir() else []
    return bool(difflib.get_close_matches(named.name, names, n=1))


RUN: Final = RunPath()
"""The type of a run folder."""


def gathered(
    name: str, gather: Callable[..., object], options: Sequence[Callable[[Any], Any]]
) -> Callable[[Command], Command]:
    """Add options to a command, which gets `gather(**values)` as its argument `name`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def withgathered(*arguments: Any, **values: Any) -> Any:
            chosen = {key: values.pop(key) for key in taken}
            return command(*arguments, **values, **{name: gather(**chosen)})

        own = len(getattr(withgathered, "__click_params__", ()))
        for add in reversed(options):
            add(withgathered)
        parameters: list[click.Parameter] = getattr(withgathered, "__click_params__", [])
        taken = [str(parameter.name) for parameter in parameters[own:]]
        return cast("Command", withgathered)

    return decorate


def bootstrap_seed_option(text: str) -> Callable[[Command], Command]:
    """Return the option `--bootstrap-seed`; the command gets `seed`."""
    return option(
        "--bootstrap-seed",
        "seed",
        group="Numbers",
        type=NATURAL,
        default=0,
        show_default=True,
        help=text,
    )


def _bins(context: click.Context, parameter: click.Parameter, text: str | None) -> Bins | None:
    """Read bins; a mistake is one of usage."""
    if text is None:
        return None
    from pact_eval.evaluation.labels import parse_bins

    try:
        return parse_bins(text)
    except InputError as error:
        raise click.BadParameter(
            str(error).removeprefix(f"--bins {text}: ").removeprefix("--bins: "), context, parameter
        ) from None


_SETTINGS: Final = {
    "by": option(
        "--by",
        group="Numbers",
        metavar="COLUMN",
        default="kind",
        show_default=True,
        help="Groups shown in addition to all items: kind, domain, source_family, or a further "
        "column of the records.",
    ),
    "bins": option(
        "--bins",
        group="Numbers",
        metavar="N_OR_EDGES",
        callback=_bins,
        help="Bins of a column of numbers for --by: how many with equally many items, or their "
        "inner edges, such as 10,20. Needed for more than 20 numbers.",
    ),
    "ece_bins": option(
        "--ece-bins",
        group="Numbers",
        metavar="N",
        type=WholeNumber(min=2),
        default=15,
        show_default=True,
        help="Bins of confidence of the expected calibration error (ECE), of equal width.",
    ),
    "unit": option(
        "--unit",
        group="Numbers",
        type=choice(ClusterUnit),
        default="family",
        show_default=True,
        help="What intervals and exact tests take as independent: families, to generalise to new "
        "families from the same source families; or source families, to generalise to new ones.",
    ),
    "decoding": option(
        "--decoding",
        group="Views",
        type=choice(Decoding),
        default="single",
        show_default=True,
        help="Use view 0 alone, or the mean over all K views.",
    ),
    "calibrated": option(
        "--calibrated",
        group="Numbers",
        is_flag=True,
        help="Apply the calibration.json in each run's folder.",
    ),
    "calibration": option(
        "--calibration",
        group="Numbers",
        type=PATH,
        help="Calibrator to apply, as `calibrate` writes it. Default: none (raw probabilities).",
    ),
    "shipped": option(
        "--as-shipped",
        "shipped",
        group="Numbers",
        is_flag=True,
        help="Apply the temperatures that the decision template of each run ships.",
    ),
    "allow": option(
        "--allow",
        group="Numbers",
        type=choice(Allowance),
        multiple=True,
        help="Compare runs of other data, base, contract or prompts (or of another adapter and "
        "another quantisation), apply a calibrator that was fitted on another adapter, base, "
        "contract, prompts, quantisation or decoding, or use runs on data that the adapter was "
        "trained on. Outputs say so. May be given several times.",
    ),
    "margin": option(
        "--margin",
        group="Numbers",
        type=SHARE,
        help="Test equivalence: the largest difference in a rate that does not matter, as a "
        "fraction.",
    ),
    "method": option(
        "--method",
        group="Numbers",
        metavar="ARM",
        help="Arm that the others are compared with in files. Default: the arm of the first run "
        "with a seed.",
    ),
    "resamples": option(
        "--resamples",
        group="Numbers",
        type=RESAMPLES,
        help="Number of bootstrap resamples over families. Default: 10,000, fewer above 20,000 "
        "items.",
    ),
    "seed": bootstrap_seed_option("Seed of the bootstrap."),
    "target_error": option(
        "--target-error",
        group="Numbers",
        type=RATE,
        help="Ask whether the model may act alone: which share of its answers has an error of at "
        "most this in new families, such as 0.05. `pact-eval thresholds` says more.",
    ),
    "audit": option(
        "--audit",
        metavar="FILE",
        type=PATH,
        help="Output of `pact-audit data --json` on the data. Default: audit --data.",
    ),
    "without_leaks": option(
        "--without-leaks",
        is_flag=True,
        help="Leave families that are also in a training file out of all numbers. Without it, "
        "such a leak exits with 3.",
    ),
}


def data_allowances(command: Command) -> Command:
    """Add --allow for what the file of --data may be; the command gets `allow`."""
    return option(
        "--allow",
        group="Numbers",
        type=choice(DataAllowance),
        multiple=True,
        help="Use data that the adapter was trained on, or a file that is not the one of its "
        "manifest. Outputs say so. May be given several times.",
    )(command)


def settings_options(*fields: str, **fixed: Any) -> Callable[[Command], Command]:
    """Add the options for fields of `Settings`; the command gets one `settings: Settings`.

    Args:
        fields: names of the fields that the user chooses.
        fixed: values of other fields.
    """

    def gather(**chosen: Any) -> Settings:
        from pact_eval.evaluation.settings import Settings

        if chosen.get("shipped") and (chosen.get("calibration") or chosen.get("calibrated")):
            message = "--as-shipped applies other temperatures than --calibration or --calibrated"
            raise click.UsageError(message)
        if chosen.get("calibration") is not None or chosen.get("shipped"):
            chosen["calibrated"] = True
        return Settings(**(fixed | chosen))

    return gathered("settings", gather, [_SETTINGS[field] for field in fields])


def label_options(command: Command) -> Command:
    """Add --arm, --train-seed and --role; the command gets `labels`, with the command line."""

    def gather(arm: str | None, seed: int | None, role: str | None) -> RunLabels:
        return {"arm": arm, "seed": seed, "role": role, "command_line": [*sys.argv]}

    options = [
        option(
            "--arm",
            group="Model",
            help="Recipe of the run, such as pact or ce_only.",
        ),
        option(
            "--train-seed",
            "seed",
            group="Model",
            type=INTEGER,
            help="Seed that the adapter was trained with; a label of the run.",
        ),
        option(
            "--role",
            group="Model",
            type=choice(RunRole),
            help="What the run is for. Commands that read several runs leave out those of other "
            "roles than evaluation. Default: evaluation.",
        ),
    ]
    return gathered("labels", gather, options)(command)


def _width(_context: click.Context, _parameter: click.Parameter, value: str) -> float | str:
    """Return inches as a number; the library refuses widths that it does not know."""
    try:
        return float(value)
    except ValueError:
        return value


_OUTPUTS: Final = {
    "html": option(
        "--html",
        metavar="FILE",
        type=PATH,
        help="Write one offline HTML page: summary, figures, tables, every item.",
    ),
    "figure_style": option(
        "--style",
        "figure_style",
        type=choice(FigureStyle),
        default="default",
        show_default=True,
        help="Widths and letters of figures: those of a LaTeX template, with serif text and PDF as "
        "the default format.",
    ),
    "figure_width": option(
        "--width",
        "figure_width",
        metavar="WIDTH",
        default="column",
        show_default=True,
        callback=_width,
        help="Width of figures: column, text, or a number of inches.",
    ),
    "palette": option(
        "--palette",
        metavar="FILE",
        type=PATH,
        help="TOML file with the colours, markers and display names of arms.",
    ),
    "clear": option(
        "--clear-changes",
        "clear",
        metavar="FILE",
        type=PATH,
        help="TOML file with the change of each metric that the table of ablations calls clear, "
        'such as accuracy = "2 points". Without it, changes are not marked.',
    ),
    "data": option(
        "--data",
        group="Data",
        metavar="FILE_OR_FOLDER",
        type=PATH,
        multiple=True,
        help="Dataset file or folder of the runs, which is audited. The audit is that of the "
        "folder if the manifest.json next to a file names it. The page shows the texts, and the "
        "table of splits counts the files of a folder. Default: the file that run.json names, if "
        "it is unchanged. May be given several times.",
    ),
    "thresholds": option(
        "--thresholds",
        metavar="FILE",
        type=PATH,
        multiple=True,
        help="File of `pact-eval thresholds`, whose gates are marked on the runs of its model. May "
        "be given several times.",
    ),
    "cost_wrong": option(
        "--cost-wrong",
        group="Numbers",
        type=POSITIVE,
        help="Cost of a wrong decision, for the figure and the table of costs.",
    ),
    "cost_review": option(
        "--cost-review",
        group="Numbers",
        type=POSITIVE,
        help="Cost of a review by a person; with --cost-wrong.",
    ),
    "criteria": option(
        "--criteria",
        group="Data",
        metavar="FILE",
        type=PATH,
        help="Hypotheses to judge, as for `scorecard`.",
    ),
}


def output_options(*fields: str, **fixed: Any) -> Callable[[Command], Command]:
    """Add the options for fields of `Outputs`; the command gets one `outputs: Outputs`.

    Args:
        fields: names of the fields that the user chooses.
        fixed: values of other fields.
    """

    def gather(**chosen: Any) -> Outputs:
        from pact_reports.outputs import Outputs

        config = config_of(click.get_current_context())
        looks = {"arms": config.arms, "arms_source": config.path} if config.arms else {}
        return Outputs(**(fixed | looks | chosen), command=("pact-eval", *sys.argv[1:]))

    return gathered("outputs", gather, [_OUTPUTS[field] for field in fields])


def names_of(arms: Iterable[str]) -> ArmNames:
    """Return the display names of arms, from the settings of the project.

    Args:
        arms: the arms that the command shows.

    Raises:
        InputError: two of them would have the same one.
    """
    from pact_eval.evaluation.arm_names import ArmNames

    return ArmNames.of(arms, config_of(click.get_current_context()).names)


def _folders(
    context: click.Context, parameter: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Leave out files, such as the page of the demo, which `runs/*` also matches.

    If the first path has published metrics, further ones are kept too.
    """
    del parameter
    kept = value[:1] + tuple(
        path for path in value[1:] if not path.is_file() or _published(value[0], path)
    )
    left_out = tuple(path for path in value if path not in kept)
    context.meta[_LEFT_OUT] = left_out
    warn(map(_left_out_sentence, left_out))
    return kept


def _published(*paths: Path) -> bool:
    from pact_eval.evaluation.arms.published_paths import is_published

    return all(map(is_published, paths))


def named_data(data: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the datasets of `--data` that are audited: those of the command line.

    A dataset that the settings of the project name need not be that of the runs.
    """
    return () if from_settings("data") else data


def left_out_files() -> list[Json]:
    """Return the warnings on files that were left out of RUN..., as JSON values."""
    paths: tuple[Path, ...] = click.get_current_context().meta.get(_LEFT_OUT, ())
    return [
        {"kind": "SkippedFile", "path": str(path), "text": _left_out_sentence(path)}
        for path in paths
    ]


def _left_out_sentence(path: Path) -> str:
    return f"{path}: left out: it is a file, not a run folder"


def runs_argument(command: Command) -> Command:
    """Add the argument `runs`: one or more run folders, or URLs."""
    argument = click.argument(
        "runs", nargs=-1, required=True, type=RUN, metavar="RUN...", callback=_folders
    )
    return argument(command)


def order_seed_option(command: Command) -> Command:
    """Add `--order-seed`."""
    return option(
        "--order-seed",
        group="Views",
        type=INTEGER,
        default=0,
        show_default=True,
        help="Seed of the permutations of the answers.",
    )(command)


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return option(
        "--json",
        "as_json",
        is_flag=True,
        callback=_without("ci_format"),
        help="Print one JSON object and nothing else to stdout.",
    )(command)


def ci_option(command: Command) -> Command:
    """Add `--format`; the command gets `ci_format`."""
    return option(
        "--format",
        "ci_format",
        type=choice(CiFormat),
        callback=_noted_format,
        help="Print the result for CI: SARIF 2.1.0, JUnit XML, or annotations of GitHub Actions, "
        "which also get a summary in $GITHUB_STEP_SUMMARY. Exit codes stay the same.",
    )(command)


def _noted_format(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Note the format for errors, which are printed when the command has ended."""
    context.meta[CI_FORMAT] = value
    return _without("as_json")(context, parameter, value)


def _without(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return a callback that refuses `--json` together with `--format`."""

    def checked(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
        if value and context.params.get(name):
            raise click.UsageError("--json and --format both say what stdout has: give one of them")
        return value

    return checked


def path_argument(name: str, metavar: str, kind: click.Path = PATH) -> Callable[[Command], Command]:
    """Return an argument that is a path; the library checks it."""
    return click.argument(name, type=kind, metavar=metavar)


def listed(option: str, text: str, choices: Sequence[str]) -> list[str]:
    """Split a list of names with commas.

    Raises:
        click.UsageError: a name is not known, or none is given; the message lists the known names.

    Example:
        >>> listed("--format", "svg, pdf", ("svg", "pdf", "png"))
        ['svg', 'pdf']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        message = f"{option}: expected one or more of {', '.join(choices)}; got {got}"
        raise click.UsageError(message)
    return names
