"""Options that several commands share.

A group is a function: its signature has the options, its docstring their help, and the command gets
what it returns. Single options are types of parameters, such as `Json`.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import click

from pact_cli.commands import CHOSEN, Doc, Function, config_of, from_settings, parameters_of
from pact_cli.commands import gathered as gathered
from pact_cli.console import warn
from pact_cli.param_types import DATASET as DATASET
from pact_cli.param_types import PATH as PATH
from pact_cli.param_types import LocalPath, Natural, Parsed, Rate, Resamples, Share, WholeNumber
from pact_eval._choices import (
    ECE_BINS,
    Allowance,
    ClusterUnit,
    Decoding,
    FigureStyle,
    RunRole,
    ScoreAllowance,
)
from pact_eval._choices import Bins as BinsOrEdges
from pact_eval._files import is_url
from pact_eval._json import Json as JsonValue
from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.published_paths import is_published
from pact_eval.evaluation.labels import parse_bins
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.places import RUNS
from pact_eval.runs.provenance import RunLabels
from pact_reports.results import Outputs

_BINS: Final = re.compile(r"[\d.,-]+")
_LEFT_OUT: Final = "pact.left_out"
_NO_FOLDER: Final = "left out: it is a file, not a run folder"

LOG_SUFFIXES: Final = (
    *(".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".eval", ".gz", ".zip"),
)
"""Ends of the names of files that are logs, and not runs."""

RUN_OR_LOG: Final = click.Path(path_type=Path)
"""The type of a log: a path, or a URL."""

OrderSeed: TypeAlias = Annotated[
    int, Doc("--order-seed", "Seed of the permutations of the answers.", "Views")
]
ScoreAllow: TypeAlias = Annotated[
    tuple[ScoreAllowance, ...],
    Doc(
        "--allow",
        "Use data that the adapter was trained on, a file that is not the one of its manifest, or "
        "an adapter that was trained on another prompt contract, tokenizer or chat template. "
        "Outputs say so. May be given several times.",
        "Numbers",
    ),
]
ContractAllow: TypeAlias = Annotated[
    tuple[Literal["other-contract"], ...],
    Doc(
        "--allow",
        "Use an adapter that was trained on another prompt contract, tokenizer or chat template.",
        "Numbers",
    ),
]


@dataclass(frozen=True)
class Grouping:
    """The groups of `--by`: a column, and the bins of its numbers.

    Attributes:
        column: its name.
        bins: how many, or their inner edges; None without any.
    """

    column: str
    bins: BinsOrEdges | None = None

    @classmethod
    def of(cls, text: str) -> Grouping:
        """Read COLUMN[:BINS]; a column whose name ends so is not meant.

        Examples:
            >>> Grouping.of("days:4"), Grouping.of("http://x")
            (Grouping(column='days', bins=4), Grouping(column='http://x', bins=None))
        """
        column, colon, bins = text.rpartition(":")
        if not colon or not _BINS.fullmatch(bins):
            return cls(text)
        return cls(column, parse_bins(bins))

    def __str__(self) -> str:
        return self.column


Grouped: TypeAlias = Annotated[Grouping, Parsed(Grouping.of)]


class CalibrationPlace(LocalPath):
    """The type of `--calibration`: own, shipped, or the file of a calibrator.

    Examples:
        >>> [CalibrationPlace().convert(text, None, None) for text in ("own", "fits/own")]
        ['own', PosixPath('fits/own')]
    """

    name = "own|shipped|FILE"
    words: Final = ("own", "shipped")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or the path."""
        return value if value in self.words else super().convert(value, param, ctx)


Calibration: TypeAlias = Annotated[Path | str, CalibrationPlace()]


class RunPath(click.Path):
    """The type of a run folder: a path, a URL, or its name in the project's folder of runs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; what does not exist is looked for in the folder of runs."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        return path if ctx is None else _find_named_run(path, ctx) or path


def _find_named_run(path: Path, ctx: click.Context) -> Path | None:
    """Return the run of a name in the folder of runs, and note it to be announced."""
    if is_url(str(path)) or path.exists():
        return None
    runs = config_of(ctx).values.get("runs")
    named = Path(RUNS if runs is None else runs.value) / path
    if not named.exists() and path.suffix.lower() in LOG_SUFFIXES:
        return None
    if not named.exists():
        names = [run.name for run in named.parent.iterdir()] if named.parent.is_dir() else []
        # The message then names the folder of runs.
        return named if difflib.get_close_matches(named.name, names, n=1) else None
    where = "folder of runs" if runs is None else f"folder of runs, {runs.source}"
    ctx.meta.setdefault(CHOSEN, []).append(f"{named} ({where})")
    return named


RUN: Final = RunPath()
"""The type of a run folder."""

RunFolder: TypeAlias = Annotated[Path, RUN]


def make_settings(
    *,
    by: Grouped = Grouping("kind"),
    ece_bins: Annotated[int, WholeNumber(min=2)] = ECE_BINS,
    unit: ClusterUnit = "family",
    decoding: Decoding = "single",
    calibration: Calibration | None = None,
    allow: tuple[Allowance, ...] = (),
    margin: Share | None = None,
    method: str | None = None,
    resamples: Resamples | None = None,
    bootstrap_seed: Natural = 0,
    target_error: Rate | None = None,
    audit: Path | None = None,
    without_leaks: bool = False,
) -> Settings:
    """Return the settings of an evaluation.

    Numbers:
        --by COLUMN[:BINS]: Groups shown in addition to all items: kind, domain, source_family, or a
            further column of the records. A column of more than 20 numbers needs bins: how many
            with equally many items, such as days:4, or their inner edges, such as days:10,20.
        --ece-bins N: Bins of confidence of the expected calibration error (ECE), of equal width.
        --unit: What intervals and exact tests take as independent: families, to generalise to new
            families from the same source families; or source families, to generalise to new ones.
        --calibration own|shipped|FILE: Temperatures to apply: the calibration.json in the folder of
            each run, those that its decision template ships, or a file of `calibrate`. Default:
            none (probabilities as they were scored).
        --allow: Compare runs of other data, base, contract or prompts (or of another adapter and
            another quantisation), apply a calibrator that was fitted on another adapter, base,
            contract, prompts, quantisation or decoding, or use runs on data that the adapter was
            trained on. Outputs say so. May be given several times.
        --margin: Test equivalence: the largest difference in a rate that does not matter, as a
            fraction.
        --method ARM: Recipe that the others are compared with in files. Default: that of the first
            run with a seed.
        --resamples: Number of bootstrap resamples over families. Default: 10,000, fewer above
            20,000 items.
        --bootstrap-seed: Seed of the bootstrap.
        --target-error: Ask whether the model may act alone: which share of its answers has an error
            of at most this on new items, such as 0.05. `pact-eval thresholds` says more.

    Views:
        --decoding: Use the first order of the answers alone, or the mean over all orders.

    Output:
        --audit FILE: Output of `pact-audit data --json` on the data. Default: audit --data.
        --without-leaks: Leave items that are also in a training file, and those that belong to
            them, out of all numbers. Without it, such a leak exits with 3.
    """
    return Settings(
        by=by.column,
        bins=by.bins,
        ece_bins=ece_bins,
        unit=unit,
        decoding=decoding,
        calibrated=calibration is not None,
        calibration=calibration if isinstance(calibration, Path) else None,
        shipped=calibration == "shipped",
        allow=allow,
        margin=margin,
        method=method,
        resamples=resamples,
        seed=bootstrap_seed,
        target_error=target_error,
        audit=audit,
        without_leaks=without_leaks,
    )


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Add options of `make_settings` by name; the command gets one `settings: Settings`."""
    return gathered("settings", make_settings, parameters_of(make_settings, names))


def make_labels(
    *, arm: str | None = None, train_seed: int | None = None, role: RunRole | None = None
) -> RunLabels:
    """Return the labels of a run, with the command line.

    Model:
        --arm: Recipe of the run, such as pact or ce_only.
        --train-seed: Seed that the adapter was trained with; a label of the run.
        --role: What the run is for. Commands that read several runs leave out those of other roles
            than evaluation. Default: evaluation.
    """
    return {"arm": arm, "seed": train_seed, "role": role, "command_line": [*sys.argv]}


label_options = gathered("labels", make_labels)
"""Add --arm, --train-seed and --role; the command gets `labels: RunLabels`."""


def _width(text: str) -> Any:
    """Return inches as a number; the library refuses widths that it does not know."""
    try:
        return float(text)
    except ValueError:
        return text


def make_outputs(
    *,
    html: Path | None = None,
    style: FigureStyle = "default",
    width: Annotated[Any, Parsed(_width)] = "column",
    palette: Path | None = None,
    data: tuple[Path, ...] = (),
    criteria: Path | None = None,
    clear_changes: Path | None = None,
    thresholds: tuple[Path, ...] = (),
) -> Outputs:
    """Return what files to write of runs, and how.

    Data:
        --data FILE_OR_FOLDER: Dataset file or folder of the runs, which is audited. The audit is
            that of the folder if the manifest.json next to a file names it. The page shows the
            texts, and the table of splits counts the files of a folder. Default: the file that
            run.json names, if it is unchanged. May be given several times.
        --criteria FILE: Hypotheses to judge, as for `scorecard`.

    Output:
        --html FILE: Write one offline HTML page: summary, figures, tables, every item.
        --style: Widths and letters of figures: those of a LaTeX template, with serif text and PDF
            as the default format.
        --width WIDTH: Width of figures: column, text, or a number of inches.
        --palette FILE: TOML file with the colours, markers and display names of arms.
        --clear-changes FILE: TOML file with the change of each metric that the table of ablations
            calls clear, such as accuracy = "2 points". Without it, changes are not marked.
        --thresholds FILE: File of `pact-eval thresholds`, whose gates are marked on the runs of its
            model. May be given several times.
    """
    config = config_of(click.get_current_context())
    looks: dict[str, Any] = {"arms": config.arms, "arms_source": config.path} if config.arms else {}
    return Outputs(
        html=html,
        figure_style=style,
        figure_width=width,
        palette=palette,
        data=data,
        criteria=criteria,
        clear=clear_changes,
        thresholds=thresholds,
        command=("pact-eval", *sys.argv[1:]),
        **looks,
    )


def output_options(*names: str) -> Callable[[Function], Function]:
    """Add options of `make_outputs` by name; the command gets one `outputs: Outputs`."""
    return gathered("outputs", make_outputs, parameters_of(make_outputs, names))


def names_of(arms: Iterable[str]) -> ArmNames:
    """Return the display names of arms, from the settings of the project.

    Args:
        arms: the arms that the command shows.

    Raises:
        InputError: two of them would have the same one.
    """
    return ArmNames.of(arms, config_of(click.get_current_context()).names)


def leave_out(files: Iterable[Path]) -> None:
    """Leave out files that a command cannot use, with a warning each."""
    click.get_current_context().meta[_LEFT_OUT] = left_out = [
        {"kind": "SkippedFile", "path": str(path), "text": f"{path}: {_NO_FOLDER}"}
        for path in files
    ]
    warn(warning["text"] for warning in left_out)


def _folders(
    _context: click.Context, _parameter: click.Parameter, value: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Leave out files, such as the page of the demo, which `runs/*` also matches.

    If the first path has published metrics, further ones are kept too.
    """
    kept = value[:1] + tuple(
        path for path in value[1:] if not path.is_file() or all(map(is_published, (value[0], path)))
    )
    leave_out(path for path in value if path not in kept)
    return kept


Runs: TypeAlias = Annotated[tuple[Path, ...], RUN, "RUN...", _folders]
"""One or more run folders, or URLs."""


def left_out_files() -> list[JsonValue]:
    """Return the warnings on files that were left out of RUN..., as JSON values."""
    return [*click.get_current_context().meta.get(_LEFT_OUT, ())]


def named_data(data: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the datasets of `--data` that are audited: those of the command line.

    A dataset that the settings of the project name need not be that of the runs.
    """
    return () if from_settings("data") else data


def names_in(option: str, text: str, choices: Sequence[str]) -> list[str]:
    """Split a list of names with commas.

    Raises:
        click.UsageError: a name is not known, or none is given; the message lists the known names.

    Example:
        >>> names_in("--format", "svg, pdf", ("svg", "pdf", "png"))
        ['svg', 'pdf']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in choices]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        raise click.UsageError(f"{option}: expected one or more of {', '.join(choices)}; got {got}")
    return names
