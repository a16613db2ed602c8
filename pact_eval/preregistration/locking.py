"""Registration: the criteria are frozen in `hypotheses.lock`, before the runs.

    format            "pact-lock-1"
    registered_at     UTC, to the second
    tool              what wrote it
    criteria_sha256   SHA-256 of the canonical criteria
    criteria          the canonical criteria, so that a change can be named
    data              [{name, sha256}] of the files that they will be judged on
    lock_sha256       SHA-256 of all of the above

The lock shows changes to those who made none. Whoever writes a new one can date it as they like:
commit it, or publish its `lock_sha256`, before the runs.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps, loads
from pact_eval.errors import InputError, TamperedError
from pact_eval.preregistration.canonical import canonical_criteria, criteria_changes, sha256_of_json
from pact_eval.preregistration.parsing import read_hypotheses

__all__ = ["LOCK_FORMAT", "DataHash", "Lock", "lock_path", "read_lock", "register"]

LOCK_FORMAT: Final = "pact-lock-1"

_KEYS: Final = (
    "format",
    "registered_at",
    "tool",
    "criteria_sha256",
    "criteria",
    "data",
    "lock_sha256",
)


@dataclass(frozen=True, slots=True, order=True)
class DataHash:
    """A data file as it was registered.

    Attributes:
        name: the file's name, without its folder.
        sha256: of its bytes.
    """

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Lock:
    """A registration.

    Attributes:
        registered_at: when, in UTC, to the second.
        tool: what wrote it.
        criteria: the canonical criteria.
        criteria_sha256: their hash as the lock says it.
        data: the files that they will be judged on, by name.
        lock_sha256: hash of all of these as the lock says it.
    """

    registered_at: dt.datetime
    tool: str
    criteria: Json
    criteria_sha256: str
    data: tuple[DataHash, ...]
    lock_sha256: str

    @property
    def content(self) -> dict[str, Json]:
        """What `lock_sha256` is the hash of."""
        return {
            "format": LOCK_FORMAT,
            "registered_at": self.registered_at.isoformat(timespec="seconds"),
            "tool": self.tool,
            "criteria_sha256": self.criteria_sha256,
            "criteria": self.criteria,
            "data": [{"name": each.name, "sha256": each.sha256} for each in self.data],
        }

    @property
    def is_intact(self) -> bool:
        """Whether its hashes are those of its content."""
        return (
            sha256_of_json(self.content) == self.lock_sha256
            and sha256_of_json(self.criteria) == self.criteria_sha256
        )


def lock_path(path: Path) -> Path:
    """Return where the lock of a file of hypotheses lies: beside it.

    Example:
        >>> lock_path(Path("hypotheses.toml")).name
        'hypotheses.lock'
    """
    return path.with_suffix(".lock")


def register(path: Path, *, data: Sequence[Path] = (), now: dt.datetime) -> Lock:
    """Freeze the criteria of a file of hypotheses in a lock beside it.

    Registering again what is registered already changes nothing: the first time stands.

    Args:
        path: a file of hypotheses.
        data: the data files that they will be judged on.
        now: the present time, with its time zone.

    Returns:
        The lock, as written or as found.

    Raises:
        InputError: a file cannot be read, or there is a lock for other criteria or other data.
        RecordError: the hypotheses cannot be understood.
        TamperedError: there is a lock that was edited.
        ValueError: the time has no zone.
    """
    criteria = canonical_criteria(read_hypotheses(path))
    hashes = tuple(sorted(DataHash(each.name, _sha256(each)) for each in data))
    lock = _new_lock(criteria, hashes, now)
    place = lock_path(path)
    if place.exists():
        return _unchanged(place, lock)
    text = json.dumps(
        {**lock.content, "lock_sha256": lock.lock_sha256}, ensure_ascii=False, indent=2
    )
    beside = place.with_name(f".{place.name}.tmp")
    try:
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        message = f"{place}: cannot be written ({error.strerror})"
        raise InputError(message) from None
    return lock


def read_lock(path: Path) -> Lock:
    """Read a lock; whether it is intact, and true, `check_lock` says.

    Raises:
        InputError: it is missing, or does not have the form of a lock.
    """
    try:
        value = loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        message = f"{path}: no such lock; `pact-eval register` makes one"
        raise InputError(message) from None
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise InputError(message) from None
    except ValueError as error:
        message = f"{path}: {error}"
        raise InputError(message) from None
    try:
        return _lock(value)
    except ValueError as error:
        message = f"{path}: {error}"
        raise InputError(message) from None


def _new_lock(criteria: Json, data: tuple[DataHash, ...], now: dt.datetime) -> Lock:
    if now.tzinfo is None:
        message = "now: expected a time with its zone"
        raise ValueError(message)
    at = now.astimezone(dt.UTC).replace(microsecond=0)
    draft = Lock(at, f"pact-eval {_version()}", criteria, sha256_of_json(criteria), data, "")
    return Lock(
        at, draft.tool, criteria, draft.criteria_sha256, data, sha256_of_json(draft.content)
    )


def _unchanged(place: Path, lock: Lock) -> Lock:
    """Return the lock that is there already, if it says the same."""
    before = read_lock(place)
    if not before.is_intact:
        message = f"{place}: the lock was edited after it was written; restore it from a copy"
        raise TamperedError(message)
    changes = list(criteria_changes(before.criteria, lock.criteria))
    if before.data != lock.data:
        changes.append(f"data: registered {_names(before.data)}, now {_names(lock.data)}")
    if not changes:
        return before
    lines = "\n".join(f"  {change}" for change in changes)
    message = (
        f"{place}: other criteria were registered at {before.registered_at.isoformat()}; a lock is "
        f"not overwritten. Register the new ones as a file of another name:\n{lines}"
    )
    raise InputError(message)


def _names(data: Sequence[DataHash]) -> str:
    return ", ".join(f"{each.name} {each.sha256[:12]}" for each in data) or "none"


def _sha256(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise InputError(message) from None


def _version() -> str:
    try:
        return metadata.version("pact-eval")
    except metadata.PackageNotFoundError:
        return "unknown"


def _lock(value: Json) -> Lock:
    if not isinstance(value, dict) or value.get("format") != LOCK_FORMAT:
        found = value.get("format") if isinstance(value, dict) else None
        message = f'expected a lock, format "{LOCK_FORMAT}", got {dumps(found)}'
        raise ValueError(message)
    differing = sorted({*_KEYS} ^ {*value})
    if differing:
        message = (
            f"expected the keys {', '.join(_KEYS)}; lacking or unknown: {', '.join(differing)}"
        )
        raise ValueError(message)
    data = value["data"]
    if not isinstance(data, list):
        message = "expected data as a list"
        raise ValueError(message)
    return Lock(
        registered_at=_time(_text(value, "registered_at")),
        tool=_text(value, "tool"),
        criteria=value["criteria"],
        criteria_sha256=_text(value, "criteria_sha256"),
        data=tuple(_data_hash(each) for each in data),
        lock_sha256=_text(value, "lock_sha256"),
    )


def _data_hash(value: Json) -> DataHash:
    if not isinstance(value, dict) or {*value} != {"name", "sha256"}:
        message = "expected data as a list of objects with name and sha256"
        raise ValueError(message)
    return DataHash(_text(value, "name"), _text(value, "sha256"))


def _text(value: dict[str, Json], key: str) -> str:
    found = value[key]
    if not isinstance(found, str):
        message = f"expected {key} as text, got {dumps(found)}"
        raise ValueError(message)
    return found


def _time(text: str) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    if time.tzinfo is None:
        message = f"expected registered_at with its time zone, got {text}"
        raise ValueError(message)
    return time.astimezone(dt.UTC)
