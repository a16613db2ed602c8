"""Data splits: how many records, families and kinds each file of the data holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval.data import Record, Role, read_records
from pact_eval.errors import InputError
from pact_eval.evaluation import Experiment
from pact_eval.runs import Predictions, RunFolder
from pact_reports.table import Column, Row, Table
from pact_reports.tables.cells import count_cell, count_column, text_cell
from pact_reports.tables.request import TableRequest, files_of

__all__ = ["Split", "build_splits", "run_splits", "splits_of_folder", "splits_table"]

_KINDS: Final = ("choice", "boolean", "score")
_ROLES: Final[dict[Role, str]] = {
    "train": "train",
    "selection": "select",
    "calibration": "calibrate",
    "eval": "test",
}


@dataclass(frozen=True)
class Split:
    """One file of data.

    Attributes:
        name: of the file.
        role: what it is for, in a word; "" where nobody says.
        records: their number; ablated contexts where the file holds those.
        families: contrastive pairs and what else shares a family.
        pairs: families of two, a base and a counterfactual record.
        source_families: groups of families that are split together; None where records lack them.
        kinds: records of each kind.
        runs: runs of a collection that scored it.
        sha256: of its bytes, or None where nobody says.
    """

    name: str
    role: str
    records: int
    families: int
    pairs: int
    source_families: int | None
    kinds: tuple[int, ...]
    runs: int
    sha256: str | None


def run_splits(collection: Experiment) -> tuple[Split, ...]:
    """Count what the runs scored: one split for each file of data, told apart by its SHA-256."""
    found: dict[tuple[str, int], Split] = {}
    scored: list[tuple[RunFolder, Predictions]] = [
        *((run.run, run.predictions) for run in collection.runs),
        *((run.run, run.predictions) for run in collection.ablated),
    ]
    for run, views in scored:
        name, sha256 = _data_name(run), _data_sha256(run)
        key = (sha256 or name, len(views))
        known = found.get(key) or _of_views(name, sha256, views)
        found[key] = replace(known, runs=known.runs + 1)
    return tuple(found.values())


def splits_of_folder(folder: Path) -> tuple[Split, ...]:
    """Count the records of every file of a dataset.

    Args:
        folder: of the dataset; its manifest, if any, says what files are for.

    Raises:
        InputError: there is no dataset, or nothing tells what a file is for.
        RecordError: a line is no record.
    """
    return tuple(
        _of_records(
            file.name,
            _ROLES[file.role],
            sha256_of_file(file.path),
            read_records(file.path, require_reference=False),
        )
        for file in files_of(folder)
    )


def build_splits(request: TableRequest) -> Table:
    """Make the table of data splits: of the folders that were named, and of what runs scored.

    Raises:
        InputError: a folder holds no dataset, or there is neither run nor folder.
        RecordError: a line is no record.
    """
    listed = [
        replace(split, name=f"{folder.resolve().name}/{split.name}") if request.data[1:] else split
        for folder in request.data
        for split in splits_of_folder(folder)
    ]
    scored = list(run_splits(request.collection))
    for number, split in enumerate(listed):
        same = next((each for each in scored if each.sha256 == split.sha256), None)
        if same is not None:
            listed[number] = replace(split, runs=same.runs)
            scored.remove(same)
    splits = (*listed, *scored)
    if not splits:
        message = "no run and no dataset"
        raise InputError(message)
    return splits_table(splits)


def splits_table(splits: Sequence[Split]) -> Table:
    """Lay out data splits: a row a file."""
    rows = []
    for split in splits:
        reason = None if split.source_families is not None else "the records name none"
        cells = [
            text_cell(split.name),
            text_cell(split.role or "–"),
            count_cell(split.source_families, reason),
            *map(count_cell, (split.records, split.families, split.pairs, *split.kinds)),
            count_cell(split.runs),
        ]
        rows.append(Row(tuple(cells)))
    return Table(
        name="splits",
        title="Data splits",
        caption=(
            "Records of each file by kind, the families that they form, those of them that are "
            "pairs of a base and a counterfactual record, and the source families above them. "
            "Runs: how many of those shown here scored the file."
        ),
        columns=(
            Column("File", "left"),
            Column("Role", "left"),
            *map(
                count_column,
                (
                    "Source fam.",
                    "Records",
                    "Families",
                    "Pairs",
                    "Choice",
                    "Boolean",
                    "Score",
                    "Runs",
                ),
            ),
        ),
        rows=tuple(rows),
    )


def _of_views(name: str, sha256: str | None, views: Predictions) -> Split:
    members = zip(
        views.family.tolist(),
        views.variant.tolist(),
        views.source_family.tolist(),
        views.kind.tolist(),
        strict=True,
    )
    return _counted(name, "", sha256, members)


def _of_records(name: str, role: str, sha256: str, records: Iterable[Record]) -> Split:
    members = (
        (record.family, record.variant, record.source_family, record.field.kind)
        for record in records
    )
    return _counted(name, role, sha256, members)


def _counted(
    name: str, role: str, sha256: str | None, members: Iterable[tuple[str, str, str, str]]
) -> Split:
    """Count records, given as family, variant, source family and kind."""
    families: dict[str, list[str]] = {}
    sources: set[str] = set()
    kinds: Counter[str] = Counter()
    for family, variant, source, kind in members:
        families.setdefault(family, []).append(variant)
        sources.add(source)
        kinds[kind] += 1
    return Split(
        name=name,
        role=role,
        records=kinds.total(),
        families=len(families),
        pairs=sum(sorted(each) == ["base", "counterfactual"] for each in families.values()),
        source_families=None if sources <= {""} else len(sources - {""}),
        kinds=tuple(kinds[kind] for kind in _KINDS),
        runs=0,
        sha256=sha256,
    )


def _data_name(run: RunFolder) -> str:
    """Return the name of the file that a run scored, without the folders of someone's machine."""
    said = run.provenance.get("data")
    name = PureWindowsPath(said).name if isinstance(said, str) else ""
    sha256 = _data_sha256(run)
    return name or (f"SHA-256 {sha256[:12]}" if sha256 else run.folder.resolve().name)


def _data_sha256(run: RunFolder) -> str | None:
    data = run.settings.get("data")
    sha256 = data.get("sha256") if isinstance(data, dict) else None
    return sha256 if isinstance(sha256, str) else None
