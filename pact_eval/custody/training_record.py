"""The training record of an adapter: data that it was trained, selected and calibrated on.

`training_data.json` is next to the weights. It holds hashes and no text:

    {"format": "pact-training-data-v2",
     "weights_sha256": SHA-256 of `adapter_model.safetensors`,
     "roles": {"train": {"files": [{"name", "sha256", "rows", "manifest_sha256"}],
                         "records": ..., "contexts": ..., "families": ..., "source_families": ...},
               "selection": {...}, "calibration": {...}},
     "training": {"recipe", "seed", "steps", "base_sha256", "versions", "device", ...}}

Each list of hashes is the base64 of sorted big-endian integers of 64 bits (`hashed_data`). A role
without data is absent. `schema_config.json` holds the SHA-256 of the record, under
`training_data_sha256`. So neither the record of another adapter nor an edited record passes for
this one's. A record that was false when it was written does pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pact_eval._files import read_json, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.custody.hashed_data import TRAINING_ROLES, HashedData, TrainingRole
from pact_eval.errors import AdapterError, InputError, TamperedError
from pact_eval.models.folders import AdapterFiles
from pact_eval.schema import Section, convert

TRAINING_RECORD: Final = "training_data.json"
"""Name of the file in an adapter's folder."""

TRAINING_RECORD_KEY: Final = "training_data_sha256"
"""Key of `schema_config.json` with the SHA-256 of the record."""

FORMAT: Final = "pact-training-data-v2"


@dataclass(frozen=True)
class TrainingRecord:
    """Data that an adapter was trained, selected and calibrated on.

    Attributes:
        weights_sha256: of the adapter's weights.
        roles: the data by role; a role without data is absent.
        training: facts of the training: recipe, seed, steps, base hash, versions, device, wall time
            and peak memory, as far as they are known.
        sha256: of the file; None before it is written.
    """

    weights_sha256: str
    roles: Mapping[TrainingRole, HashedData]
    training: Mapping[str, Json]
    sha256: str | None = None

    @property
    def base_sha256(self) -> str | None:
        """SHA-256 of the weights of the base model in the training, if the record says so."""
        stated = self.training.get("base_sha256")
        return stated if isinstance(stated, str) else None

    def to_json(self) -> dict[str, Json]:
        """Return the content of the file."""
        roles: dict[str, Json] = {role: data.to_json() for role, data in self.roles.items()}
        return {
            "format": FORMAT,
            "weights_sha256": self.weights_sha256,
            "roles": roles,
            "training": {**self.training},
        }


def write_training_record(folder: Path, record: TrainingRecord) -> str:
    """Write the record of an adapter, and return its SHA-256 for `schema_config.json`.

    Raises:
        InputError: the file cannot be written.
    """
    path = folder / TRAINING_RECORD
    write_atomically(path, dumps_indented(record.to_json()))
    return sha256_of_file(path)


def read_training_record(folder: Path) -> TrainingRecord | None:
    """Read the record of an adapter; None without one. `adapter_record` also checks it.

    Raises:
        AdapterError: the file cannot be read, or is no training record.
    """
    path = folder / TRAINING_RECORD
    if not path.exists():
        return None
    try:
        value = read_json(path)
        sha256 = sha256_of_file(path)
    except InputError as error:
        raise AdapterError(str(error)) from None
    try:
        return _record(value, sha256)
    except ValueError as error:
        message = (
            f"{path}: not a training record: {error}; restore the file that came with the adapter"
        )
        raise AdapterError(message) from None


@dataclass(frozen=True)
class RecordFault:
    """Contradiction between a record and an adapter's weights.

    Attributes:
        code: which of the four it is.
        expected: what there should be.
        actual: what there is.
    """

    code: Literal["missing", "unnamed", "edited", "other-weights"]
    expected: str
    actual: str


def record_faults(
    record: TrainingRecord | None, schema_config: Mapping[str, Json] | None, weights_sha256: str
) -> tuple[RecordFault, ...]:
    """Compare the record of an adapter with its `schema_config.json` and its weights.

    Args:
        record: the record; None if there is none.
        schema_config: the content of that file; None if there is none, as in adapters with a
            decision template: the record is then bound to the weights alone.
        weights_sha256: of the adapter's weights.

    Examples:
        >>> [fault.code for fault in record_faults(None, {TRAINING_RECORD_KEY: "ab12"}, "cd34")]
        ['missing']
    """
    named = (schema_config or {}).get(TRAINING_RECORD_KEY)
    if record is None:
        expected = f"the record with the SHA-256 {named}, which schema_config.json names"
        return () if named is None else (RecordFault("missing", expected, "none"),)
    faults = []
    if named is None and schema_config is not None:
        expected = f"{TRAINING_RECORD_KEY} in schema_config.json"
        faults.append(RecordFault("unnamed", expected, "none"))
    elif named is not None and named != record.sha256:
        expected = f"the SHA-256 {named}, which schema_config.json names"
        faults.append(RecordFault("edited", expected, str(record.sha256)))
    if record.weights_sha256 != weights_sha256:
        expected = f"a record of the weights {weights_sha256}"
        faults.append(RecordFault("other-weights", expected, f"one of {record.weights_sha256}"))
    return tuple(faults)


def adapter_record(files: AdapterFiles) -> TrainingRecord | None:
    """Read the record of an adapter, and check that it is the record of these weights.

    Args:
        files: the adapter's files.

    Returns:
        The record; None if the adapter states none.

    Raises:
        TamperedError: it was edited, or is that of another adapter; see `record_faults`.
        AdapterError: it is missing or not named; or as for `read_training_record`.
    """
    record = read_training_record(files.folder)
    for fault in record_faults(record, files.schema_config, files.sha256):
        message = (
            f"{files.folder / TRAINING_RECORD}: expected {fault.expected}, found {fault.actual}; "
            "restore the file that came with the adapter"
        )
        changed = fault.code in ("edited", "other-weights")
        raise TamperedError(message) if changed else AdapterError(message)
    return record


class _Record(Section, frozen=True):
    """The file, as `loads` returns it."""

    format: Literal["pact-training-data-v1", "pact-training-data-v2"]
    weights_sha256: str
    roles: Mapping[str, Any]
    training: Mapping[str, Any]


def _record(value: Json, sha256: str) -> TrainingRecord:
    record = convert(value, _Record)
    if not set(record.roles) <= set(TRAINING_ROLES):
        message = f"roles: expected an object with {', '.join(TRAINING_ROLES)}"
        raise ValueError(message)
    roles: dict[TrainingRole, HashedData] = {}
    for role in TRAINING_ROLES:
        if role in record.roles:
            try:
                roles[role] = HashedData.of_json(record.roles[role])
            except ValueError as error:
                message = f"roles: {role}: {error}"
                raise ValueError(message) from None
    return TrainingRecord(record.weights_sha256, roles, record.training, sha256)
