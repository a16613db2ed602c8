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

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from pact_eval._files import decoded, read_json, read_lines, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps_indented, loads
from pact_eval._typing import BoolArray
from pact_eval.data.files import MANIFEST_NAME, is_file
from pact_eval.data.records import Record, content_of, folded, parse_record
from pact_eval.errors import AdapterError, InputError, Problem, RecordError, TamperedError
from pact_eval.models import AdapterFiles
from pact_eval.schema import Section, convert

Hashes = npt.NDArray[np.uint64]
"""Sorted 64-bit hashes, each once."""

TrainingRole = Literal["train", "selection", "calibration"]
"""What data were used for: to train on, to select a checkpoint, to calibrate."""

TRAINING_ROLES: Final[tuple[TrainingRole, ...]] = get_args(TrainingRole)

HASHED: Final = ("records", "contexts", "families", "source_families")
"""What is hashed of each record."""

_BYTES: Final = 8


@dataclass(frozen=True)
class UsedData:
    """A dataset file that a trainer used, or some of its records.

    Attributes:
        path: the file.
        records: those that were used, as read from this file; None for all.
    """

    path: Path
    records: Sequence[Record] | None = None


class UsedFile(Section, frozen=True, omit_defaults=False):
    """Entry of a file in a training record.

    Attributes:
        name: its name, without folders.
        sha256: of its bytes.
        rows: number of records that were used.
        manifest_sha256: of the `manifest.json` next to it; None without one.
    """

    name: str
    sha256: str
    rows: int
    manifest_sha256: str | None = None


class HashedData(Section, frozen=True):
    """The data of one role: its files, and by what is hashed, sorted big-endian integers.

    Attributes:
        files: the files.
        records: hashes of the records.
        contexts: hashes of their contexts.
        families: hashes of their families.
        source_families: hashes of their source families.
    """

    files: tuple[UsedFile, ...]
    records: bytes
    contexts: bytes
    families: bytes
    source_families: bytes

    def __post_init__(self) -> None:
        for name in HASHED:
            whole = len(getattr(self, name)) % _BYTES == 0
            if not whole or not np.all(self.hashes(name)[1:] > self.hashes(name)[:-1]):
                raise ValueError(f"{name}: expected sorted 64-bit hashes, each once")

    def hashes(self, name: str) -> Hashes:
        """Return the hashes that one of `HASHED` names."""
        return np.frombuffer(getattr(self, name), dtype=">u8").astype(np.uint64)

    @property
    def digest(self) -> str:
        """SHA-256 over the hashes of the records: equal for the same records in any order."""
        return hashlib.sha256(self.records).hexdigest()


def hashes_of(values: Iterable[Json]) -> Hashes:
    """Return the 64-bit hash of each text or JSON value, in their order.

    Examples:
        >>> one, other = hashes_of(["Water  rights", "water ri\u00adghts "])
        >>> bool(one == other), f"{int(one):016x}"
        (True, '7cbf300b61254077')
        >>> one, other = hashes_of([{"a": 1, "b": []}, '{"b": [], "a": 1}'])
        >>> bool(one == other)
        True
    """
    return _hashes(folded(content_of(value)) for value in values)


def are_hashed(values: Sequence[Json], hashes: Hashes) -> BoolArray:
    """Return which texts or JSON values are among the hashes of a record, of either format.

    Examples:
        >>> are_hashed(["Water rights", "Land"], hashes_of(["WATER RIGHTS"])).tolist()
        [True, False]
    """
    old = _hashes(_normal_of_v1(value) for value in values)
    return np.isin(hashes_of(values), hashes, kind="sort") | np.isin(old, hashes, kind="sort")


def hash_data(used: Sequence[UsedData]) -> HashedData:
    """Hash the data of one role.

    Args:
        used: its files, or some records of them.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line that is used is not a record.
    """
    values: dict[str, list[Json]] = {name: [] for name in HASHED}
    files = tuple(_add(data, values) for data in used)
    hashes = (np.unique(hashes_of(values[name])) for name in HASHED)
    return HashedData(files, *(each.astype(">u8").tobytes() for each in hashes))


def _add(data: UsedData, values: Mapping[str, list[Json]]) -> UsedFile:
    """Add what is hashed of the records of a file, and describe the file."""
    lines = None if data.records is None else {record.line for record in data.records}
    rows = 0
    for number, raw in read_lines(data.path):
        if lines is not None and number not in lines:
            continue
        try:
            value = loads(decoded(raw, number))
            record = parse_record(value, line=number, require_reference=False, allow_ablated=True)
        except ValueError as error:
            raise RecordError(str(data.path), [Problem(number, None, str(error))]) from None
        rows += 1
        hashed = value, record.state, record.family, record.source_family
        for name, item in zip(HASHED, hashed, strict=True):
            values[name].append(item)
    if lines is not None and rows != len(lines):
        message = f"{data.path}: expected {len(lines):,} records by their lines, found {rows:,}"
        raise InputError(message)
    manifest = data.path.parent / MANIFEST_NAME
    manifest_sha256 = sha256_of_file(manifest) if is_file(manifest) else None
    return UsedFile(data.path.name, sha256_of_file(data.path), rows, manifest_sha256)


def _hashes(normal: Iterable[str]) -> Hashes:
    digests = b"".join(
        hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest()[:_BYTES]
        for text in normal
    )
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


def _normal_of_v1(value: Json) -> str:
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return " ".join(value.casefold().split())


TRAINING_RECORD: Final = "training_data.json"
"""Name of the file in an adapter's folder."""

TRAINING_RECORD_KEY: Final = "training_data_sha256"
"""Key of `schema_config.json` with the SHA-256 of the record."""

FORMATS: Final = ("pact-training-data-v1", "pact-training-data-v2")
"""Formats that are read; the last one is written."""


class TrainingRecord(Section, frozen=True):
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
    training: Mapping[str, Any]
    sha256: str | None = None

    @property
    def base_sha256(self) -> str | None:
        """SHA-256 of the weights of the base model in the training, if the record says so."""
        stated = self.training.get("base_sha256")
        return stated if isinstance(stated, str) else None


def write_training_record(folder: Path, record: TrainingRecord) -> str:
    """Write the record of an adapter, and return its SHA-256 for `schema_config.json`.

    Raises:
        InputError: the file cannot be written.
    """
    path = folder / TRAINING_RECORD
    write_atomically(path, dumps_indented({"format": FORMATS[-1], **record.to_json()}))
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
        if not isinstance(value, dict) or value.get("format") not in FORMATS:
            raise ValueError(f"expected an object with the format {' or '.join(FORMATS)}")
        record = convert(value, TrainingRecord)
    except ValueError as error:
        raise AdapterError(
            f"{path}: not a training record: {error}; restore the file that came with the adapter"
        ) from None
    roles = {role: record.roles[role] for role in TRAINING_ROLES if role in record.roles}
    return msgspec.structs.replace(record, roles=roles, sha256=sha256)


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


LEARNT: Final[tuple[TrainingRole, ...]] = ("train", "selection")
"""Roles whose data the weights have learnt from, or were chosen by."""


@dataclass(frozen=True)
class Overlap:
    """Evaluated records that an adapter was trained or selected on.

    Attributes:
        items: their ids, in the order of the data.
        families: their families, each once.
        by_family: number of these families whose name is in the record; the others share contexts.
        roles: what they were used for: train, selection.
        files: names of all files of these roles.
    """

    items: tuple[str, ...]
    families: tuple[str, ...]
    by_family: int
    roles: tuple[TrainingRole, ...]
    files: tuple[str, ...]


def overlap_with(record: TrainingRecord, evaluated: Sequence[Record]) -> Overlap | None:
    """Compare the families and contexts of evaluated records with those of a training record.

    An ablated context has the family of its record.

    Args:
        record: what the adapter was trained on.
        evaluated: the records.

    Returns:
        What both have; None if nothing.
    """
    families = [item.family for item in evaluated]
    contexts = [item.state for item in evaluated]
    by_family = np.zeros(len(families), dtype=np.bool_)
    by_context = by_family.copy()
    roles = []
    for role in LEARNT:
        data = record.roles.get(role)
        if data is None:
            continue
        in_families = are_hashed(families, data.hashes("families"))
        same = are_hashed(contexts, data.hashes("contexts"))
        if in_families.any() or same.any():
            roles.append(role)
        by_family |= in_families
        by_context |= same
    met = by_family | by_context
    if not met.any():
        return None
    return Overlap(
        tuple(item.id for item, is_met in zip(evaluated, met, strict=True) if is_met),
        _once(family for family, is_met in zip(families, met, strict=True) if is_met),
        len(
            _once(
                family for family, is_shared in zip(families, by_family, strict=True) if is_shared
            )
        ),
        tuple(roles),
        _once(file.name for role in roles for file in record.roles[role].files),
    )


def shared_between(record: TrainingRecord) -> Mapping[tuple[TrainingRole, TrainingRole], int]:
    """Return how many families two roles of a record share; pairs that share none are absent."""
    roles = list(record.roles)
    shared = {
        (one, other): len(
            np.intersect1d(
                record.roles[one].hashes("families"), record.roles[other].hashes("families")
            )
        )
        for place, one in enumerate(roles)
        for other in roles[place + 1 :]
    }
    return {pair: count for pair, count in shared.items() if count}


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
