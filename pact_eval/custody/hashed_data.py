"""Hashes of the data of a training: records, contexts, families and source families; no text.

A hash is the first 64 bits of the SHA-256 of a text in UTF-8. Before hashing, a text is put into
the form NFKC without format characters, into one case (`str.casefold`), and its white space into
single spaces. What is not text (a record, a structured context), and a text that is such JSON, is
hashed as compact JSON with sorted keys: a prompt renders both alike.

Records of the format v1 have hashes of texts that were only put into one case and single spaces.

Two different texts among 300,000 and 1,000 have the same hash with a probability of 2e-11.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from pact_eval._files import decoded, read_lines, sha256_of_file
from pact_eval._json import Json, loads
from pact_eval._typing import BoolArray
from pact_eval.data.contexts import content_of, folded
from pact_eval.data.files import MANIFEST_NAME, is_file
from pact_eval.data.records import Record, parse_record
from pact_eval.errors import InputError, Problem, RecordError
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


class WrittenRole(Section, frozen=True):
    """The data of one role in a training record: files, and hashes in base64."""

    files: tuple[UsedFile, ...]
    records: str
    contexts: str
    families: str
    source_families: str


@dataclass(frozen=True)
class HashedData:
    """The data of one role.

    Attributes:
        files: the files.
        hashes: of the records, contexts, families and source families, by these names.
    """

    files: tuple[UsedFile, ...]
    hashes: Mapping[str, Hashes]

    @property
    def digest(self) -> str:
        """SHA-256 over the hashes of the records: equal for the same records in any order."""
        return hashlib.sha256(_bytes(self.hashes["records"])).hexdigest()

    def to_json(self) -> dict[str, Json]:
        """Return the role as the training record holds it; see `training_record`."""
        files: list[Json] = [file.to_json() for file in self.files]
        return {"files": files, **{name: _packed(self.hashes[name]) for name in HASHED}}

    @classmethod
    def of_json(cls, value: Json) -> HashedData:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is something else; the message says what was expected.
        """
        role = convert(value, WrittenRole)
        return cls(role.files, {name: _unpacked(getattr(role, name), name) for name in HASHED})


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
    return HashedData(files, {name: np.unique(hashes_of(values[name])) for name in HASHED})


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


def _bytes(hashes: Hashes) -> bytes:
    return hashes.astype(">u8").tobytes()


def _packed(hashes: Hashes) -> str:
    return base64.b64encode(_bytes(hashes)).decode("ascii")


def _unpacked(text: str, name: str) -> Hashes:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:  # not base64, or not ASCII
        raw = None
    if raw is None or len(raw) % _BYTES:
        message = f"{name}: expected 64-bit hashes in base64"
        raise ValueError(message)
    hashes = np.frombuffer(raw, dtype=">u8").astype(np.uint64)
    if not np.all(hashes[1:] > hashes[:-1]):
        message = f"{name}: expected sorted hashes, each once"
        raise ValueError(message)
    return hashes
