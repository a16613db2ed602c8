"""The commands of `pact-audit`: findings with their exit codes, and files of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn, TypeAlias

import click

from pact_cli.commands import Doc, command, from_settings, refuse
from pact_cli.console import announce, emit
from pact_cli.errors import needs_model_extra
from pact_cli.labelled import announce_labelled, reading_options
from pact_cli.param_types import AdapterPath, Count, DatasetPath, Natural, Share
from pact_cli.places import resolve_adapter, resolve_data_file, resolve_dataset
from pact_eval._choices import (
    DATA_CHECK_NAMES,
    FINDINGS_KEPT,
    MOST_EDIT_WORDS,
    NEAR_DUPLICATE,
    Severity,
)
from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.adapter.compare import compare_adapters
from pact_eval.audit.context import DataAuditSettings, DatasetSource, NamedTokenizer
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult, failed
from pact_eval.data.ablation import write_ablated_records
from pact_eval.data.diff import diff_datasets
from pact_eval.data.files import MANIFEST_NAME
from pact_eval.data.labelled.plain import convert as convert_file
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.splits import HeldOut, split_training_file, write_manifest
from pact_eval.errors import GateError, InputError, RoleError, TamperedError
from pact_eval.models import SCHEMA_CONFIG
from pact_eval.progress import tracked
from pact_eval.templates.files import write_contract as write_stated_contract
from pact_reports.views.audit import present_adapter_audit, present_data_audit
from pact_reports.views.datasets import (
    present_ablated_file,
    present_converted_file,
    present_dataset_diff,
    present_split,
    present_written_manifest,
)

_HERE: Final = Path("data")
_MORE: Final = ("shape", "levels", "positions_from", "question", "questions")
"""Rare options on how labelled files are read."""


FailOn: TypeAlias = Annotated[
    Severity,
    Doc("--fail-on", "Exit with 3 on a finding of this severity or higher.", "Checks"),
]
MaxFindings: TypeAlias = Annotated[
    Natural, Doc("--max-findings", "Findings shown per code; the rest are counted.", "Checks")
]
NearDuplicate: TypeAlias = Annotated[
    Share,
    Doc(
        "--near-duplicate",
        "Cosine similarity of character 5-grams at which two contexts count as near duplicates.",
        "Checks",
    ),
]


@command(
    for_ci=True,
    more=("manifest", "near_duplicate", "k", *_MORE),
    settings=("max_edit_words", "bootstrap_seed"),
)
@reading_options
def data(
    folder: Annotated[DatasetPath | None, "[DIR|FILE]"] = None,
    *,
    train: tuple[DatasetPath, ...] = (),
    eval_: tuple[DatasetPath, ...] = (),
    manifest: Path | None = None,
    tokenizer: Path | None = None,
    only: Annotated[tuple[str, ...], click.Choice(DATA_CHECK_NAMES)] = (),
    max_edit_words: Count = MOST_EDIT_WORDS,
    near_duplicate: NearDuplicate = NEAR_DUPLICATE,
    k: Count = 1,
    bootstrap_seed: Natural = 0,
    reading: Reading,
    fail_on: FailOn = "error",
    max_findings: MaxFindings = FINDINGS_KEPT,
    full: bool = False,
) -> None:
    """Audit a dataset, and conclude whether to trust evaluations on it.

    DIR is a folder of .jsonl files with a manifest.json; the default is `data`. FILE has records,
    or labelled data of a known shape, for evaluation unless its name says otherwise, such as
    train.csv; with a manifest.json next to it that names it, the folder is audited. Or give files
    with --train and --eval. Each may be a place on the Hub:
    hf://datasets/OWNER/NAME[@REVISION][/PATH].

    Data:
        --train: Training file: records, or labelled data (JSON lines, CSV, Parquet).
        --eval: Evaluation file of the same kinds; with DIR or FILE, an additional one.
        --manifest: Manifest to compare the files with. Default: DIR/manifest.json.

    Model:
        --tokenizer: Folder of the base model's tokenizer: also measure prompts (needs the model
            extra).

    Views:
        --k: Number of views per record whose prompts are measured.

    Numbers:
        --bootstrap-seed: Seed of the resamples, and of the samples of large datasets.

    Checks:
        --max-edit-words: Largest number of words that may differ within a pair.

    Output:
        --only: Run only this check; may be given several times.
        --full: Print every finding and table below the verdict.
    """
    if (train or eval_) and from_settings("folder"):
        folder = None
    elif folder is None and not (train or eval_) and _HERE.is_dir():
        folder = _HERE
        announce([f"Using DIR {_HERE} (the folder here)"])
    train, eval_ = (tuple(map(resolve_data_file, files)) for files in (train, eval_))
    folder = None if folder is None else resolve_dataset(folder)
    refuse(
        folder is None and not (train or eval_),
        "expected DIR, FILE, or --train and --eval; there is no folder `data` here",
    )
    settings = DataAuditSettings(
        only=only or None,
        max_edit_words=max_edit_words,
        near_duplicate=near_duplicate,
        keep=max_findings,
        k=k,
        seed=bootstrap_seed,
        tokenizer=None if tokenizer is None else _tokenizer(tokenizer),
    )
    paths = [] if folder is None else [folder]
    source = DatasetSource.of_paths(paths, manifest, train=train, evaluation=eval_)
    audit = audit_data(replace(source, reading=reading), settings)
    presenter = present_data_audit(audit, fail_on)
    emit(presenter, full=full)
    exit_with(audit.checks, fail_on, tampered=audit.tampering is not None, all_wanted=bool(only))


def _tokenizer(folder: Path) -> NamedTokenizer:
    with needs_model_extra():
        from pact_eval.scoring.contracts import load_tokenizer

    return NamedTokenizer(str(folder), load_tokenizer(folder))


@command(for_ci=True)
def adapter(
    folder: Annotated[AdapterPath, "DIR_OR_ID"],
    other: Annotated[AdapterPath | None, "[OTHER]"] = None,
    *,
    base_model: Path | None = None,
    data: tuple[DatasetPath, ...] = (),
    write_contract: Literal["nimble"] | None = None,
    near_duplicate: NearDuplicate = NEAR_DUPLICATE,
    fail_on: FailOn = "error",
    max_findings: MaxFindings = FINDINGS_KEPT,
) -> None:
    """Audit a LoRA adapter without loading it.

    DIR_OR_ID is a folder, or a hub id (organisation/name[@revision]); a local folder wins. Of the
    Hub, only the files that an adapter needs are downloaded; the others are judged by their names.

    With OTHER, audit both and show the differences between them.

    Data:
        --data: Dataset, file or folder, to compare with the training record: was the adapter
            trained or selected on what it evaluates with? May be given several times.

    Model:
        --base-model: Folder of the base model to compare with. Default: the one that the adapter
            names, if that is a local folder. It is never downloaded.
        --write-contract: Before the audit, write into the folder that you state its prompt
            contract, for an adapter of a trainer that records none.
    """
    if write_contract is not None:
        refuse(
            other is not None or not folder.is_dir(),
            "--write-contract: expected one adapter, in a local folder",
        )
        write_stated_contract(folder)
        announce([f"{folder / SCHEMA_CONFIG}: written, contract stated by the user"])
    places = [folder] if other is None else [folder, other]
    adapters = [resolve_adapter(place, audited=True) for place in places]
    datasets = [resolve_dataset(place) for place in data]
    audits = [
        audit_adapter(
            adapter.folder,
            base_model=base_model,
            data=datasets,
            near_duplicate=near_duplicate,
            others=adapter.others,
            keep=max_findings,
        )
        for adapter in tracked(adapters, "Auditing", "adapters")
    ]
    comparison = None if other is None else compare_adapters(*audits)
    presenter = present_adapter_audit(*audits, comparison=comparison, fail_on=fail_on)
    emit(presenter)
    checks = [check for audit in audits for check in audit.checks]
    exit_with(checks, fail_on, tampered=any(audit.tampering for audit in audits))


def exit_with(
    checks: Sequence[CheckResult], fail_on: Severity, *, tampered: bool, all_wanted: bool = False
) -> NoReturn:
    """End the command with the exit code for the results, which have been printed.

    Args:
        checks: the results.
        fail_on: the lowest severity that fails.
        tampered: whether a hash does not match.
        all_wanted: whether all checks were requested by name, so none may be skipped.

    Raises:
        InputError: a requested check was skipped, and nothing else fails.
    """
    code = GateError.exit_code if failed(checks, fail_on) else 0
    code = TamperedError.exit_code if tampered else code
    skipped = [f"{check.check} ({check.skipped})" for check in checks if check.skipped is not None]
    if code == 0 and all_wanted and skipped:
        raise InputError(f"expected every check of --only to run, skipped {', '.join(skipped)}")
    click.get_current_context().exit(code)


_FAIL_ON: Final[Severity] = "warning"


@command()
def manifest(folder: Annotated[Path, "DIR"], *, check: bool = False) -> None:
    """Write or update DIR/manifest.json, or check it.

    It holds the hashes, roles and rows of the dataset's files. Unknown keys are kept.
    --check runs the check "hashes" of `pact-audit data`.

    Data:
        --check: Compare the files with the manifest; write nothing.
    """
    if not check:
        written = present_written_manifest(write_manifest(folder))
        emit(written)
        return
    audit = audit_data(DatasetSource.of_folder(folder), DataAuditSettings(only=["hashes"]))
    emit(present_data_audit(audit, _FAIL_ON))
    exit_with(audit.checks, _FAIL_ON, tampered=audit.tampering is not None)


@command()
@reading_options
def convert(
    source: Annotated[DatasetPath, "IN"],
    out: Annotated[Path, "OUT.jsonl"],
    *,
    reading: Reading,
) -> None:
    """Write a labelled file in the full format, with a manifest.

    IN is JSON lines, CSV or Parquet of a known shape, here or on the Hub
    (hf://datasets/OWNER/NAME[@REVISION][/PATH]). OUT.jsonl has one record per question, and
    its folder gets a manifest.json, which names IN and its hash. What IN does not name has a
    default, and every record lists its defaults.
    """
    written = convert_file(resolve_data_file(source), out, reading)
    emit(present_converted_file(written))


_DRAWN: Final = 2


@command(
    elsewhere={"--selection": "--select NAME", "--calibration": "--calibrate NAME"}, more=_MORE
)
@reading_options
def split(
    source: Annotated[DatasetPath, "TRAIN.jsonl"],
    *,
    out: Path,
    select: tuple[str, ...] = (),
    calibrate: tuple[str, ...] = (),
    seed: int = 17,
    reading: Reading,
) -> None:
    """Split a training file by source family.

    The parts are training, selection and calibration files. Random source families are dealt to
    selection and calibration in turn, as in the released code of the paper.

    Lines are copied byte for byte; those of a labelled file are written in the full format. A
    manifest next to the files states the role of each. A source family is never divided.

    Data:
        --select N|NAME: Source families for checkpoint selection: how many random ones (default:
            2), or the name of one. Names may be given several times.
        --calibrate N|NAME: Source families for fitting temperatures, likewise.

    Numbers:
        --seed: Seed of the random split.

    Output:
        --out: Folder to write.
    """
    (select_count, selection), (calibrate_count, calibration) = (
        _held("--select", select),
        _held("--calibrate", calibrate),
    )
    held_out = HeldOut(
        select=select_count,
        calibrate=calibrate_count,
        selection=selection,
        calibration=calibration,
        seed=seed,
    )
    file = resolve_data_file(source)
    try:
        parts = split_training_file(file, out, held_out, reading, announce_labelled)
    except RoleError as error:
        raise click.UsageError(str(error)) from error
    emit(present_split(parts), files=[out / MANIFEST_NAME])


def _held(option: str, values: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return how many source families are drawn, and those that are named instead.

    Raises:
        click.UsageError: there is a number next to another value.
    """
    numbers = [value for value in values if value.isdecimal()]
    refuse(numbers and len(values) > 1, f"{option}: expected one number, or names; got both")
    return (int(numbers[0]), ()) if numbers else (_DRAWN, values)


@command()
def ablate(
    source: Annotated[Path, "FILE.jsonl"],
    *,
    out: Path,
    allow_missing: bool = False,
) -> None:
    """Write the context of every pair without its evidence.

    One record per pair, without a reference; `ablation.answers` holds the two answers between which
    the context no longer decides. Use the file to train with the necessity term, or to score how
    confident a model is without evidence.

    Output:
        --out: File to write.
        --allow-missing: Skip pairs whose context cannot be ablated.
    """
    written = write_ablated_records(source, out, allow_missing=allow_missing)
    emit(present_ablated_file(written))


@command()
def diff(
    old: Annotated[Path, "OLD.jsonl"],
    new: Annotated[Path, "NEW.jsonl"],
    *,
    max_shown: Natural = 20,
) -> None:
    """Show which records and references differ in two versions.

    Records are joined on their ids. Differences in JSON white space and escapes are ignored.

    Output:
        --max-shown: Records shown in each list; the rest are counted. JSON always has all.
    """
    emit(present_dataset_diff(diff_datasets(old, new), max_shown))
