"""The chain of custody of a scoring: refuse, or name, data that the adapter was trained on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pact_eval.custody.hashed_data import HashedData
from pact_eval.custody.overlap import Overlap, overlap_with
from pact_eval.custody.training_record import TrainingRecord, adapter_record
from pact_eval.errors import GateError, listed
from pact_eval.models.folders import AdapterFiles
from pact_eval.runs.custody import Custody, OtherData, StatedTraining, TrainedOn, TrainedRole

if TYPE_CHECKING:
    from pact_eval.scoring.windows import Dataset


def custody_of(
    adapter: AdapterFiles | None,
    dataset: Dataset,
    allow: Collection[str] = (),
    role: str | None = None,
) -> Custody:
    """Compare the data of a scoring with what its adapter was trained on.

    Args:
        adapter: the adapter; None for a base model alone, or a server.
        dataset: the data.
        allow: "trained-on" accepts records that the adapter was trained or selected on.
        role: what the run is for. One of the role "selection" chooses among adapters, so those that
            were selected on its records are accepted, and named.

    Returns:
        What the adapter's record says, and what was accepted.

    Raises:
        AdapterError: the training record of the adapter is missing, damaged or another one's.
        GateError: the adapter was trained or selected on evaluated families or contexts.
    """
    record = None if adapter is None else adapter_record(adapter)
    overlap = None if record is None else overlap_with(record, dataset.records)
    selects = role == "selection" and overlap is not None and overlap.roles == ("selection",)
    is_accepted = selects or "trained-on" in allow
    if adapter is not None and overlap is not None and not is_accepted:
        raise GateError(_refusal(adapter, dataset, overlap))
    check = dataset.manifest
    return Custody(
        None if record is None else _stated(record),
        _trained_on(dataset, overlap),
        None
        if check is None or not check.changed
        else OtherData(str(check.manifest), str(check.expected), check.actual),
        "" if check is None else check.unchecked,
    )


def _refusal(adapter: AdapterFiles, dataset: Dataset, overlap: Overlap) -> str:
    by_context = len(overlap.families) - overlap.by_family
    how = f", {by_context:,} of them by their contexts under other names" if by_context else ""
    used = {"train": "trained", "selection": "selected"}
    done = " and ".join(used[role] for role in overlap.roles)
    return (
        f"{adapter.folder}: the adapter was {done} on {dataset.path}: "
        f"{listed(overlap.families, 'family', 'families')} in its training record "
        f"({', '.join(overlap.files)}){how}. Score families that it has not seen, or use --allow "
        "trained-on, which every output then names"
    )


def _stated(record: TrainingRecord) -> StatedTraining:
    return StatedTraining(
        str(record.sha256), {role: _role(data) for role, data in record.roles.items()}
    )


def _role(data: HashedData) -> TrainedRole:
    return TrainedRole(
        tuple(file.name for file in data.files),
        len(data.hashes["records"]),
        len(data.hashes["families"]),
        data.digest,
    )


def _trained_on(dataset: Dataset, overlap: Overlap | None) -> TrainedOn | None:
    """Join what the adapter's record and what the manifest's files share with the data."""
    check = dataset.manifest
    families = set(() if check is None else check.families)
    items = set(() if overlap is None else overlap.items)
    met = [record for record in dataset.records if record.family in families or record.id in items]
    if not met:
        return None
    files = (*(() if overlap is None else overlap.files), *(() if check is None else check.files))
    return TrainedOn(
        tuple(record.id for record in met),
        tuple(dict.fromkeys(record.family for record in met)),
        tuple(dict.fromkeys(files)),
    )
