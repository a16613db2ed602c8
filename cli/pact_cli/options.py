"""Bundles of options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from pact_eval._json import Json

__all__ = [
    "bootstrap_options",
    "calibration_option",
    "decoding_option",
    "json_option",
    "label_options",
    "listed",
    "palette_option",
    "path_argument",
    "report_files_options",
    "report_options",
    "run_labels",
    "subject_options",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_DTYPES = ["auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]


def _bundle(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


def subject_options(command: Command) -> Command:
    """Add what chooses the model and how it runs: base, adapter, device, dtype, engine."""
    return _bundle(
        click.option(
            "--base-model",
            metavar="PATH_OR_ID",
            help="Folder or hub id (organisation/name) of the base model. Default: what the "
            "adapter names. Only a hub id, given here or named there, uses the network.",
        ),
        click.option(
            "--no-adapter", is_flag=True, help="Score the base model alone, adapter switched off."
        ),
        click.option(
            "--device",
            type=click.Choice(["auto", "cpu", "cuda"]),
            default="auto",
            show_default=True,
            help="Where the model runs; auto takes CUDA where there is one.",
        ),
        click.option(
            "--dtype",
            type=click.Choice(_DTYPES),
            default="auto",
            show_default=True,
            help="Precision of the model; auto is fp32 on a CPU, bf16 on CUDA.",
        ),
        click.option(
            "--batch-tokens",
            type=click.IntRange(min=1),
            help="Tokens a pass through the model, padding included; halved where memory runs out. "
            "Default: 4096 on a CPU, 32768 on CUDA.",
        ),
        click.option(
            "--engine",
            type=click.Choice(["auto", "fork", "batched", "naive"]),
            default="auto",
            show_default=True,
            help="How prompts pass through the model: fork computes shared prefixes once, batched "
            "pads whole prompts, naive runs one at a time; auto takes the first that the model "
            "allows and that agrees with naive.",
        ),
        click.option(
            "--merge",
            is_flag=True,
            help="Add the adapter to the weights before scoring: faster, and the run records how "
            "far logits drift by it.",
        ),
        click.option(
            "--allow-contract-mismatch",
            is_flag=True,
            help="Score an adapter that was trained on another prompt contract; the run says so.",
        ),
    )(command)


def label_options(command: Command) -> Command:
    """Add what names a run: its arm and the seed of its training."""
    return _bundle(
        click.option("--arm", help="Recipe that the run belongs to, such as pact or ce_only."),
        click.option("--seed", type=int, help="Seed that the adapter was trained with."),
    )(command)


def run_labels(arm: str | None, seed: int | None) -> dict[str, Json]:
    """Gather what names a run without deciding its numbers, with the command line as given."""
    return {"arm": arm, "seed": seed, "command_line": [*sys.argv]}


def report_options(command: Command) -> Command:
    """Add what shapes a report: groups, decoding, resamples."""
    return _bundle(
        click.option(
            "--by",
            type=click.Choice(["kind", "domain", "source_family"]),
            default="kind",
            show_default=True,
            help="What items are grouped by, beside all of them together.",
        ),
        decoding_option,
        bootstrap_options,
    )(command)


def report_files_options(command: Command) -> Command:
    """Add what a report is written to, and what is written from beside the runs."""
    path = click.Path(path_type=Path)
    return _bundle(
        click.option(
            "--html",
            metavar="FILE",
            type=path,
            help="Write one page that opens offline: summary, figures, tables, every item.",
        ),
        click.option(
            "--figures",
            metavar="DIR",
            type=path,
            help="Write the figures as SVG; `pact-eval figures` chooses and has other formats.",
        ),
        palette_option,
        click.option(
            "--latex",
            metavar="DIR",
            type=path,
            help="Write the tables as LaTeX for booktabs; `pact-eval tables` chooses.",
        ),
        click.option(
            "--markdown", metavar="FILE", type=path, help="Write all tables as one document."
        ),
        click.option(
            "--data",
            metavar="FILE_OR_FOLDER",
            type=path,
            multiple=True,
            help="Records that the runs scored, to show their texts in the page; a folder's files "
            "are counted in the tables. May be given several times.",
        ),
        click.option(
            "--criteria",
            metavar="FILE",
            type=path,
            help="Hypotheses for the scorecard, as `scorecard` takes them.",
        ),
        click.option(
            "--method",
            metavar="ARM",
            help="Arm that files compare the others with. Default: that of the first run with a "
            "seed.",
        ),
    )(command)


def calibration_option(command: Command) -> Command:
    """Add `--calibration`: a fitted calibrator to apply."""
    return click.option(
        "--calibration",
        type=click.Path(path_type=Path),
        help="Calibrator to apply, as `calibrate` writes it; without it distributions stay raw.",
    )(command)


def bootstrap_options(command: Command) -> Command:
    """Add what shapes the bootstrap: resamples and their seed."""
    return _bundle(
        click.option(
            "--resamples",
            "--bootstrap",
            "resamples",
            type=click.IntRange(min=100),
            help="Bootstrap resamples over families behind each interval. Default: 10,000, 2,000 "
            "beyond 20,000 items.",
        ),
        click.option(
            "--bootstrap-seed",
            "--seed",
            "bootstrap_seed",
            type=click.IntRange(min=0),
            default=0,
            show_default=True,
            help="Seed of the bootstrap.",
        ),
    )(command)


def palette_option(command: Command) -> Command:
    """Add `--palette`."""
    return click.option(
        "--palette",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="TOML file with the colours and markers of arms in figures.",
    )(command)


def decoding_option(command: Command) -> Command:
    """Add `--decoding`."""
    return click.option(
        "--decoding",
        type=click.Choice(["single", "ensemble"]),
        default="single",
        show_default=True,
        help="View 0 alone, or the K views together.",
    )(command)


def json_option(command: Command) -> Command:
    """Add `--json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else to stdout."
    )(command)


def path_argument(name: str, metavar: str) -> Callable[[Command], Command]:
    """Return an argument that is a path; what is wrong with it is said by the library."""
    return click.argument(name, type=click.Path(path_type=Path), metavar=metavar)


def listed(option: str, text: str, known: Sequence[str]) -> list[str]:
    """Take the names of a list with commas apart.

    Raises:
        click.UsageError: a name is not known, or there is none; the message lists those that are.

    Example:
        >>> listed("--format", "svg, pdf", ("svg", "pdf", "png"))
        ['svg', 'pdf']
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        got = ", ".join(map(repr, unknown)) or "none"
        message = f"{option}: expected some of {', '.join(known)}; got {got}"
        raise click.UsageError(message)
    return names
