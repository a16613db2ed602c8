"""`pact-audit data`: all checks of a dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_cli.audit.options import (
    exit_with,
    findings_options,
    near_duplicate_option,
    provenance,
)
from pact_cli.commands import COUNT, command, from_settings, option
from pact_cli.console import announce, emit
from pact_cli.errors import needs_model_extra
from pact_cli.hub_places import data_file_here, data_here
from pact_cli.labelled import reading_options
from pact_cli.options import DATASET, PATH, bootstrap_seed_option, ci_option, json_option
from pact_eval._choices import DATA_CHECK_NAMES, MOST_EDIT_WORDS, CiFormat, Severity

if TYPE_CHECKING:
    from pact_eval.audit.context import DatasetSource, NamedTokenizer
    from pact_eval.data.labelled.reading import Reading

__all__ = ["data"]

_HERE = Path("data")


@command(loads=("pact_eval.audit.dataset", "pact_reports.views.audit"))
@click.argument("folder", type=DATASET, metavar="[DIR|FILE]", required=False)
@option(
    "--train",
    group="Data",
    type=DATASET,
    multiple=True,
    help="Training file: records, or labelled data (JSON lines, CSV, Parquet).",
)
@option(
    "--eval",
    "evaluation",
    group="Data",
    type=DATASET,
    multiple=True,
    help="Evaluation file of the same kinds; with DIR or FILE, an additional one.",
)
@option(
    "--manifest",
    group="Data",
    type=PATH,
    help="Manifest to compare the files with. Default: DIR/manifest.json.",
)
@option(
    "--tokenizer",
    group="Model",
    type=PATH,
    help="Folder of the base model's tokenizer: also measure prompts (needs the model extra).",
)
@option(
    "--only",
    type=click.Choice(DATA_CHECK_NAMES),
    multiple=True,
    help="Run only this check; may be given several times.",
)
@option(
    "--max-edit-words",
    group="Checks",
    type=COUNT,
    default=MOST_EDIT_WORDS,
    show_default=True,
    help="Largest number of words that may differ within a pair.",
)
@near_duplicate_option
@option(
    "--k",
    group="Views",
    type=COUNT,
    default=1,
    show_default=True,
    help="Number of views per record whose prompts are measured.",
)
@bootstrap_seed_option("Seed of the resamples, and of the samples of large datasets.")
@reading_options
@findings_options
@ci_option
@json_option
def data(
    folder: Path | None,
    train: tuple[Path, ...],
    evaluation: tuple[Path, ...],
    manifest: Path | None,
    tokenizer: Path | None,
    only: tuple[str, ...],
    max_edit_words: int,
    near_duplicate: float,
    k: int,
    seed: int,
    reading: Reading,
    fail_on: Severity,
    max_findings: int,
    ci_format: CiFormat | None,
    as_json: bool,
) -> None:
    """Audit a dataset, and conclude whether to trust evaluations on it.

    DIR is a folder of .jsonl files with a manifest.json; the default is `data`. FILE has records,
    or labelled data of a known shape, for evaluation unless its name says otherwise, such as
    train.csv; with a manifest.json next to it that names it, the folder is audited. Or give files
    with --train and --eval. Each may be a place on the Hub:
    hf://datasets/OWNER/NAME[@REVISION][/PATH].
    """
    if (train or evaluation) and from_settings("folder"):
        folder = None
    elif folder is None and not (train or evaluation) and _HERE.is_dir():
        folder = _HERE
        announce([f"Using DIR {_HERE} (the folder here)"])
    train, evaluation = (tuple(map(data_file_here, files)) for files in (train, evaluation))
    folder = None if folder is None else data_here(folder)
    _check_usage(folder, (*train, *evaluation), manifest, tokenizer, only)
    from pact_eval.audit.context import DataAuditSettings
    from pact_eval.audit.dataset import audit_data
    from pact_reports.views.audit import present_data_audit

    settings = DataAuditSettings(
        only=only or None,
        max_edit_words=max_edit_words,
        near_duplicate=near_duplicate,
        keep=max_findings,
        k=k,
        seed=seed,
        tokenizer=None if tokenizer is None else _tokenizer(tokenizer),
    )
    source = replace(_source(folder, train, evaluation, manifest), reading=reading)
    audit = audit_data(source, settings)
    presenter = present_data_audit(audit, fail_on)
    emit(presenter, provenance=provenance(), ci_format=ci_format, as_json=as_json)
    exit_with(audit.checks, fail_on, tampered=audit.tampered, all_wanted=bool(only))


def _check_usage(
    folder: Path | None,
    files: tuple[Path, ...],
    manifest: Path | None,
    tokenizer: Path | None,
    only: tuple[str, ...],
) -> None:
    """Check that files are given, and the inputs of every check requested by name."""
    message = None
    if folder is None and not files:
        message = "expected DIR, FILE, or --train and --eval; there is no folder `data` here"
    elif "lengths" in only and tokenizer is None:
        message = "--only lengths: expected --tokenizer"
    elif "hashes" in only and folder is None and manifest is None:
        message = "--only hashes: expected DIR with a manifest, or --manifest"
    if message is not None:
        raise click.UsageError(message)


def _source(
    folder: Path | None,
    train: tuple[Path, ...],
    evaluation: tuple[Path, ...],
    manifest: Path | None,
) -> DatasetSource:
    from pact_eval.audit.context import DatasetSource

    if folder is None:
        return DatasetSource.of_files(train, evaluation, manifest)
    if folder.is_file():
        return DatasetSource.of_paths([folder], manifest).joined_by(train, evaluation)
    return DatasetSource.of_folder(folder, manifest).joined_by(train, evaluation)


def _tokenizer(folder: Path) -> NamedTokenizer:
    with needs_model_extra():
        from pact_eval.scoring.tokenizer import load_tokenizer
    from pact_eval.audit.context import NamedTokenizer

    return NamedTokenizer(str(folder), load_tokenizer(folder))
