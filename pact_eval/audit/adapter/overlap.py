"""Check "overlap": evaluation data that the adapter was trained or selected on.

Names of families and contexts are compared by their hashes in the training record. Contexts that
were edited, under new names, have other hashes. They are found by their texts, as near duplicates,
if the files of the training are among the data. These files are recognised by their content, not by
their names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval._typing import BoolArray
from pact_eval.audit.adapter.context import AdapterContext
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.cosine_search import ContextVectors, Groups, Pairs, near_pairs
from pact_eval.audit.findings import Check, CheckResult, Collector, Leak
from pact_eval.audit.near_duplicates import add_pairs
from pact_eval.custody.training_record import (
    LEARNT,
    TRAINING_RECORD,
    HashedData,
    Hashes,
    TrainingRecord,
    are_hashed,
    hashes_of,
)
from pact_eval.data.files import (
    MANIFEST_NAME,
    DataFile,
    Role,
    dataset_files,
    read_manifest,
    role_of_name,
)
from pact_eval.data.index import Index, build_index
from pact_eval.errors import Place, counted
from pact_eval.hub.downloads import located, short_name

_EXPECTED: Final = "data that the adapter was neither trained nor selected on"


@dataclass(frozen=True)
class MeasuredOverlap:
    """Overlap of the evaluation data with the training data.

    Attributes:
        evaluated: records to evaluate with.
        families: number of their families.
        learnt_families: of these, those that were trained or selected on, by name, context or text.
        at_hand: training and selection records that are among the data, whose texts were compared.
        recorded: training and selection records that the training record has.
        threshold: cosine from which two contexts are near duplicates.
    """

    evaluated: int
    families: int
    learnt_families: int
    at_hand: int
    recorded: int
    threshold: float

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        texts = f"{self.at_hand:,} of {self.recorded:,} records of the training are at hand"
        return f"{self.learnt_families:,} of them in the training; {texts}"


def check_overlap(
    record: TrainingRecord, paths: Sequence[Path], collector: Collector, *, threshold: float
) -> CheckResult:
    """Compare data with a training record.

    Args:
        record: what the adapter was trained and selected on.
        paths: dataset files, and folders of them; see `data_files`.
        collector: of the check "overlap".
        threshold: cosine from which two contexts are near duplicates, in (0, 1].

    Returns:
        The result, with an `MeasuredOverlap` as `measured`, and one leak per file for evaluation.

    Raises:
        InputError: a folder or file cannot be read.
    """
    learnt_files = [file for role in _learnt(record) for file in role.files]
    index = build_index(data_files(paths, {file.sha256 for file in learnt_files}))
    values: dict[str, list[Json]] = {"records": [], "contexts": [], "families": []}
    for located_record in index.read(range(len(index))):
        values["records"].append(located_record.value)
        values["contexts"].append(located_record.record.state)
        values["families"].append(located_record.record.family)
    training_hashes = {name: _learnt_hashes(record, name) for name in values}
    shared = {name: are_hashed(values[name], training_hashes[name]) for name in values}
    roles = np.array([file.role for file in index.files])
    learnt, evaluated = shared["records"], roles[index.frame["file"].to_numpy()] == "eval"
    by_family = evaluated & shared["families"]
    by_context = evaluated & shared["contexts"] & ~by_family
    near = _near_duplicates(index, learnt, evaluated & ~by_family & ~by_context, threshold)
    by_text = np.zeros_like(evaluated)
    by_text[near.row] = True
    _add_names("trained-family", index, by_family, collector)
    _add_names("trained-context", index, by_context, collector)
    add_pairs(collector, "trained-near-duplicate", _EXPECTED, index, near)
    if not learnt.any():
        expected = "the files of the training among the data: their texts are compared"
        collector.add("training-not-at-hand", Place(str(paths[0])), expected, "none")
    leaking = by_family | by_context | by_text
    measured = MeasuredOverlap(
        evaluated=int(evaluated.sum()),
        families=_families(index, evaluated),
        learnt_families=_families(index, leaking),
        at_hand=int(learnt.sum()),
        recorded=len(training_hashes["records"]),
        threshold=threshold,
    )
    scope = f"{counted(measured.families, 'family')} to evaluate with"
    sources = tuple(dict.fromkeys(file.name for file in learnt_files))
    return replace(collector.result(scope, measured), leaks=_leaks(index, leaking, sources))


def data_files(paths: Sequence[Path], trained: Collection[str]) -> tuple[DataFile, ...]:
    """Return dataset files, and all dataset files of folders, each once.

    Args:
        paths: files and folders.
        trained: SHA-256 of files that a model was made from. Such a file is for training, unless a
            manifest or its name says otherwise; other files are for evaluation.

    Raises:
        InputError: a folder or its manifest cannot be read, or it has no dataset file.
    """

    def role_of_content(path: Path) -> Role:
        return "train" if sha256_of_file(path) in trained else "eval"

    files: list[DataFile] = []
    for path in paths:
        if path.is_dir():
            place = path / MANIFEST_NAME
            manifest = read_manifest(place).value if place.exists() else None
            inside = dataset_files(path, manifest, unnamed=True, otherwise=role_of_content)
            files += [replace(file, name=str(path / file.name)) for file in inside]
        else:
            files.append(
                DataFile(short_name(path), role_of_name(path, role_of_content(path)), path)
            )
    return tuple({located(file.path): file for file in files}.values())


def _learnt_hashes(record: TrainingRecord, name: str) -> Hashes:
    """Return the hashes of a kind in the data that the adapter was trained or selected on."""
    hashes = (data.hashes(name) for data in _learnt(record))
    return np.unique(np.concatenate([hashes_of([]), *hashes]))


def _learnt(record: TrainingRecord) -> list[HashedData]:
    return [record.roles[role] for role in LEARNT if role in record.roles]


def _near_duplicates(
    index: Index, learnt: BoolArray, evaluated: BoolArray, threshold: float
) -> Pairs:
    """Return, for each evaluated context, the nearest one of the training, if it is near enough."""
    rows = np.concatenate([np.flatnonzero(learnt), np.flatnonzero(evaluated)])
    # Two groups, as if each were one family in its own file: only pairs between them are compared.
    side = np.repeat([0, 1], [learnt.sum(), evaluated.sum()])
    part = replace(index, frame=index.frame[rows])
    groups = Groups(side, side, part.frame["context"].to_numpy())
    pairs, _ = near_pairs(ContextVectors(part, side), groups, threshold)
    nearest = pairs.nearest(pairs.row)
    return Pairs(rows[nearest.row], rows[nearest.other], nearest.cosine)


def _add_names(code: str, index: Index, rows: BoolArray, collector: Collector) -> None:
    """Add one finding per family, at its first record."""
    families = index.frame["family"]
    named = index.frame.with_row_index("row").filter(rows).unique("family", maintain_order=True)
    for row in named["row"]:
        collector.add(code, index.place(row), _EXPECTED, f"the family {shown(families[row])}")


def _families(index: Index, rows: BoolArray) -> int:
    return index.frame.filter(rows)["family"].n_unique()


def _leaks(index: Index, rows: BoolArray, sources: tuple[str, ...]) -> tuple[Leak, ...]:
    """Return one leak per file with records that the adapter was trained or selected on."""
    leaks = []
    for number, (file, facts) in enumerate(zip(index.files, index.facts, strict=True)):
        part = index.frame.filter(rows & (index.frame["file"].to_numpy() == number))
        if part.height:
            families = tuple(part["family"].unique(maintain_order=True))
            leaks.append(Leak(file.name, facts.sha256, sources, tuple(part["id"]), families))
    return tuple(leaks)


def _run(context: AdapterContext) -> CheckResult:
    if context.training is None:
        return context.skipped("overlap", f"no {TRAINING_RECORD} that can be read")
    return check_overlap(
        context.training,
        context.data,
        context.collector("overlap"),
        threshold=context.near_duplicate,
    )


OVERLAP: Final[Check[AdapterContext]] = Check(
    name="overlap",
    question="Was the adapter trained or selected on the data to evaluate with?",
    run=_run,
    needs=("data",),
    codes={
        "trained-family": ("error", "The adapter was trained or selected on a family."),
        "trained-context": ("error", "It was trained or selected on a context of another family."),
        "trained-near-duplicate": ("error", "A context nearly repeats one of the training."),
        "training-not-at-hand": (
            "note",
            "No file of the training is among the data, so near duplicates were not looked for.",
        ),
    },
)
