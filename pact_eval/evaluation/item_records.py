"""Records of the items of runs: read from files or folders, and checked against the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval.data.labelled.reader import read_dataset_records
from pact_eval.data.labelled.reading import AUTOMATIC
from pact_eval.data.records import Record
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.data_splits import files_of
from pact_eval.evaluation.diagnostics import DifferentData
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.run_data import data_hash, data_reading, scored_hash

_SHOWN: Final = 5


@dataclass(frozen=True)
class ItemRecords:
    """The records of the items of runs.

    Attributes:
        records: the records by id.
        files: SHA-256 of the files that were given, in their order.
        different: one diagnostic for each run whose dataset is not among the given files.
    """

    records: Mapping[str, Record]
    files: tuple[str, ...] = ()
    different: tuple[DifferentData, ...] = ()


def read_item_records(paths: Sequence[Path], experiment: Experiment) -> ItemRecords:
    """Read the records of the items of runs.

    Args:
        paths: files of records, or dataset folders. If a file has the hash that a run recorded,
            this file is read; otherwise all files are searched for the run's ids.
        experiment: the runs.

    Returns:
        The records, and a diagnostic for each run whose dataset is not among the given files.

    Raises:
        InputError: a path is missing, contains no dataset or not all items of a run, or a record
            contradicts a run.
        RecordError: a file cannot be read.
    """
    hashes: dict[str, Path] = {}
    for path in _files(paths):
        hashes.setdefault(sha256_of_file(path), path)
    read: dict[Path, dict[str, Record]] = {}
    records_by_id: dict[str, Record] = {}
    different: list[DifferentData] = []
    for run in experiment.runs:
        sha256 = data_hash(run)
        if sha256 in hashes:
            files = [hashes[sha256]]
        else:
            files = list(hashes.values())
            if (scored := scored_hash(run)) is not None:
                names = tuple(map(str, files))
                different.append(DifferentData("critical", run.label, run.place, scored, names))
        for file in files:
            if file not in read:
                reading = data_reading(run) if sha256 in hashes else AUTOMATIC
                file_records = read_dataset_records(file, reading)
                read[file] = {record.id: record for record in file_records}
        records = _matched(run, [read[file] for file in files], files)
        _check_questions(run, records)
        for key, record in records.items():
            records_by_id.setdefault(key, record)
    return ItemRecords(records_by_id, tuple(hashes), tuple(different))


def has_data_of(paths: Sequence[Path], experiment: Experiment) -> bool:
    """Return whether the datasets of the runs are among files of records or in folders.

    Args:
        paths: as for `read_item_records`.
        experiment: the runs.

    Raises:
        InputError: a path is missing, or a folder contains no dataset.
    """
    hashes = {sha256_of_file(path) for path in _files(paths)}
    return all(data_hash(run) in hashes for run in experiment.runs)


def _files(paths: Sequence[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from (file.path for file in files_of(path))
        elif path.is_file():
            yield path
        else:
            message = f"{path}: file or folder of records not found"
            raise InputError(message)


def _matched(
    run: ExperimentRun, sources: Sequence[Mapping[str, Record]], files: Sequence[Path]
) -> dict[str, Record]:
    matched: dict[str, Record] = {}
    missing = []
    for key in run.predictions.ids.tolist():
        record = next((source[key] for source in sources if key in source), None)
        if record is None:
            missing.append(key)
        else:
            matched[key] = record
    if missing:
        message = (
            f"{', '.join(map(str, files))}: expected the records of all {len(run.predictions):,} "
            f"items of {run.place}, {len(missing):,} are missing ({_some(missing)})"
        )
        raise InputError(message)
    return matched


def _check_questions(run: ExperimentRun, records: Mapping[str, Record]) -> None:
    """Raise if a record has another question than the run; pairs do not say what was asked."""
    views = run.predictions
    if views.known == "outcomes":
        return
    facts = zip(
        views.ids.tolist(),
        views.kind.tolist(),
        views.n_choices.tolist(),
        views.reference.tolist(),
        strict=True,
    )
    other = [
        key
        for key, kind, n, reference in facts
        if (records[key].field.kind, records[key].n_choices, records[key].reference)
        != (kind, n, reference)
    ]
    if other:
        items, have = counted(len(other), "item"), "has" if len(other) == 1 else "have"
        message = (
            f"{run.place}: {items} {have} another kind, number of answers or "
            f"reference in the records that were given ({_some(other)}); give the dataset that "
            "the run scored"
        )
        raise InputError(message)


def _some(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return f"{shown}, ..." if len(items) > _SHOWN else shown
