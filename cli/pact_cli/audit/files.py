"""`pact-audit manifest`, `convert`, `split`, `ablate` and `diff`: files of datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import click

from pact_cli.audit.checks import exit_with, provenance
from pact_cli.commands import command, refuse
from pact_cli.console import emit
from pact_cli.hub_places import resolve_data_file
from pact_cli.labelled import announce_labelled, reading_options
from pact_cli.options import Json
from pact_cli.param_types import DatasetPath, Natural
from pact_eval._choices import Severity
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.data.ablation import write_ablated_records
from pact_eval.data.diff import diff_datasets
from pact_eval.data.files import MANIFEST_NAME
from pact_eval.data.labelled.plain import convert as convert_file
from pact_eval.data.labelled.reading import Reading
from pact_eval.data.manifest import write_manifest
from pact_eval.data.splits import HeldOut, split_training_file
from pact_eval.errors import RoleError
from pact_reports.views.audit import present_data_audit
from pact_reports.views.datasets import (
    present_ablated_file,
    present_converted_file,
    present_dataset_diff,
    present_split,
    present_written_manifest,
)

_FAIL_ON: Final[Severity] = "warning"


@command()
def manifest(folder: Annotated[Path, "DIR"], *, check: bool = False, as_json: Json = False) -> None:
    """Write or update DIR/manifest.json, or check it.

    It holds the hashes, roles and rows of the dataset's files. Unknown keys are kept.
    --check runs the check "hashes" of `pact-audit data`.

    Data:
        --check: Compare the files with the manifest; write nothing.
    """
    if not check:
        written = present_written_manifest(write_manifest(folder))
        emit(written, provenance=provenance(), as_json=as_json)
        return
    audit = audit_data(DatasetSource.of_folder(folder), DataAuditSettings(only=["hashes"]))
    emit(present_data_audit(audit, _FAIL_ON), provenance=provenance(), as_json=as_json)
    exit_with(audit.checks, _FAIL_ON, tampered=audit.tampered)


@command()
@reading_options
def convert(
    source: Annotated[DatasetPath, "IN"],
    out: Annotated[Path, "OUT.jsonl"],
    *,
    reading: Reading,
    as_json: Json = False,
) -> None:
    """Write a labelled file in the full format, with a manifest.

    IN is JSON lines, CSV or Parquet of a known shape, here or on the Hub
    (hf://datasets/OWNER/NAME[@REVISION][/PATH]). OUT.jsonl has one record per question, and
    its folder gets a manifest.json, which names IN and its hash. What IN does not name has a
    default, and every record lists its defaults.
    """
    written = convert_file(resolve_data_file(source), out, reading)
    emit(present_converted_file(written), provenance=provenance(), as_json=as_json)


_DRAWN: Final = 2
_MORE: Final = ("shape", "levels", "positions_from", "question", "questions")


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
    as_json: Json = False,
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
    emit(present_split(parts), files=[out / MANIFEST_NAME], as_json=as_json)


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
    as_json: Json = False,
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
    emit(present_ablated_file(written), provenance=provenance(), as_json=as_json)


@command()
def diff(
    old: Annotated[Path, "OLD.jsonl"],
    new: Annotated[Path, "NEW.jsonl"],
    *,
    max_shown: Natural = 20,
    as_json: Json = False,
) -> None:
    """Show which records and references differ in two versions.

    Records are joined on their ids. Differences in JSON white space and escapes are ignored.

    Output:
        --max-shown: Records shown in each list; the rest are counted. JSON always has all.
    """
    emit(present_dataset_diff(diff_datasets(old, new), max_shown), as_json=as_json)
