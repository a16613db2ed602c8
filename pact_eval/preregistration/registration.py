"""Registration of criteria: frozen in `hypotheses.lock` before the runs, and checked afterwards.

    format            "pact-lock-1"
    registered_at     UTC, to the second
    tool              tool that wrote it
    criteria_sha256   SHA-256 of the canonical criteria
    criteria          the canonical criteria, to report changes
    data              [{name, sha256}] of the files that they will be judged on
    lock_sha256       SHA-256 of all of the above

The canonical criteria depend on the parsed content of the file. Comments, spacing, and the order of
keys, hypotheses, checks and list entries do not matter, and an explicit default equals an omitted
one. Words (title, claim, says, needs) are part of the criteria.

The lock detects accidental changes. Anyone can write a new lock with any date, so commit the lock,
or publish its `lock_sha256`, before the runs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from pact_eval._files import read_bytes, reading, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps, dumps_indented, loads, sha256_of_json
from pact_eval.errors import InputError, TamperedError
from pact_eval.preregistration.criteria import (
    FORMAT,
    Check,
    Hypotheses,
    Hypothesis,
    Instead,
    read_hypotheses,
)
from pact_eval.results import Result
from pact_eval.runs.folder import RunFolder
from pact_eval.schema import Section, convert


def canonical_criteria(hypotheses: Hypotheses) -> dict[str, Json]:
    """Return the criteria as JSON; hypotheses by id, checks by what they say.

    Examples:
        >>> canonical_criteria(Hypotheses(()))["format"]
        'pact-hypotheses-1'
    """
    by_id: dict[str, Json] = {
        hypothesis.id: _hypothesis(hypothesis) for hypothesis in hypotheses.hypotheses
    }
    return {"format": FORMAT, "hypotheses": by_id}


def criteria_sha256(hypotheses: Hypotheses) -> str:
    """Return the SHA-256 of the canonical criteria as 64 hex digits."""
    return sha256_of_json(canonical_criteria(hypotheses))


def criteria_changes(registered: Json, now: Json) -> tuple[str, ...]:
    """Say what differs between two canonical criteria.

    Args:
        registered: `canonical_criteria` when they were registered.
        now: the same today.

    Returns:
        One sentence per difference; none if they are equal.

    Examples:
        >>> criteria_changes({"hypotheses": {"H4": {"claim": "a"}}},
        ...                  {"hypotheses": {"H4": {"claim": "b"}}})
        ('H4, claim: registered "a", now "b"',)
    """
    return tuple(_changes((), registered, now))


def _hypothesis(hypothesis: Hypothesis) -> Json:
    checks: dict[str, Json] = {check.says: _check(check) for check in hypothesis.checks}
    beside: dict[str, Json] = {check.says: _check(check) for check in hypothesis.beside}
    words: dict[str, Json] = {"title": hypothesis.title, "claim": hypothesis.claim, "check": checks}
    return words | ({"beside": beside} if beside else {})


def _check(check: Check) -> Json:
    # An absent key means its default: new keys in later versions do not change old hashes.
    optional: dict[str, Json] = {
        "minus": None if check.minus is None else dict(check.minus.parts),
        "seeds": None if check.seeds is None else [*sorted(check.seeds)],
        "needs": check.needs,
    }
    if check.relation == "similar":
        optional["within"] = str(check.margin)
    elif check.margin.amount:
        optional["by_more_than"] = str(check.margin)
    return {
        "metric": check.metric,
        "arm": [*sorted(check.arms)],
        "decoding": [str(decoding) for decoding in sorted(check.decodings)],
        "group": [*sorted(check.groups)],
        "is": check.relation,
        "than": dict(check.than.parts) if isinstance(check.than, Instead) else check.than,
        "judged_on": check.judged_on,
        **{key: value for key, value in optional.items() if value is not None},
    }


def _changes(path: tuple[str, ...], before: Json, now: Json) -> list[str]:
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in sorted({*before, *now})
            for change in _changes((*path, key), before.get(key), now.get(key))
        ]
    where = ", ".join(part for part in path if part != "hypotheses") or "criteria"
    if before is None or now is None:
        shown = "" if isinstance(before or now, dict) else f" {dumps(before or now)}"
        return [f"{where}: {'added' if before is None else 'removed'} since{shown}"]
    return [f"{where}: registered {dumps(before)}, now {dumps(now)}"]


LOCK_FORMAT: Final = "pact-lock-1"


class DataHash(Section, frozen=True, order=True, forbid_unknown_fields=True):
    """A data file as it was registered.

    Attributes:
        name: the file's name, without its folder.
        sha256: SHA-256 of the file.
    """

    name: str
    sha256: str


@dataclass(frozen=True, repr=False)
class Lock(Result):
    """A registration.

    Attributes:
        registered_at: when, in UTC, to the second.
        tool: what wrote it.
        criteria: the canonical criteria.
        criteria_sha256: the recorded hash of the criteria.
        data: the files that they will be judged on, by name.
        lock_sha256: the recorded hash of all other fields.
    """

    registered_at: dt.datetime
    tool: str
    criteria: Json
    criteria_sha256: str
    data: tuple[DataHash, ...]
    lock_sha256: str

    @property
    def content(self) -> dict[str, Json]:
        """The fields that `lock_sha256` covers."""
        return {
            "format": LOCK_FORMAT,
            "registered_at": self.registered_at.isoformat(timespec="seconds"),
            "tool": self.tool,
            "criteria_sha256": self.criteria_sha256,
            "criteria": self.criteria,
            "data": [file.to_json() for file in self.data],
        }

    @property
    def recorded(self) -> dict[str, Json]:
        """The content of the file."""
        return {**self.content, "lock_sha256": self.lock_sha256}

    @property
    def is_intact(self) -> bool:
        """Whether its hashes match its content."""
        return (
            sha256_of_json(self.content) == self.lock_sha256
            and sha256_of_json(self.criteria) == self.criteria_sha256
        )


def lock_path(path: Path) -> Path:
    """Return the path of the lock of a file of hypotheses, in the same folder.

    Examples:
        >>> lock_path(Path("hypotheses.toml")).name
        'hypotheses.lock'
    """
    return path.with_suffix(".lock")


def register(path: Path, *, data: Sequence[Path] = (), now: dt.datetime) -> Lock:
    """Freeze the criteria of a file of hypotheses in a lock next to it.

    Registering the same criteria again, with data that were registered, changes nothing; the first
    time is kept.

    Args:
        path: a file of hypotheses.
        data: the data files that they will be judged on.
        now: the current time, with its time zone.

    Returns:
        The new or the existing lock.

    Raises:
        InputError: a file cannot be read, or there is a lock for other criteria, or without some of
            the data.
        RecordError: the hypotheses are malformed.
        TamperedError: the existing lock was edited.
        ValueError: the time has no zone.
    """
    if now.tzinfo is None:
        raise ValueError("now: expected a time with its zone")
    criteria, hashes = canonical_criteria(read_hypotheses(path)), []
    for file in data:
        with reading(file):
            hashes.append(DataHash(file.name, sha256_of_file(file)))
    try:
        version = metadata.version("pact-eval")
    except metadata.PackageNotFoundError:
        version = "unknown"
    at = now.astimezone(dt.UTC).replace(microsecond=0)
    criteria_hash = sha256_of_json(criteria)
    lock = Lock(at, f"pact-eval {version}", criteria, criteria_hash, tuple(sorted(hashes)), "")
    lock = replace(lock, lock_sha256=sha256_of_json(lock.content))
    place = lock_path(path)
    if place.exists():
        return _existing_lock(place, lock)
    write_atomically(place, dumps_indented(lock.recorded))
    return lock


def _existing_lock(place: Path, lock: Lock) -> Lock:
    """Return the existing lock if it has the same criteria and covers the data."""
    before = read_lock(place)
    if not before.is_intact:
        message = f"{place}: the lock was edited after it was written; restore it from a copy"
        raise TamperedError(message)
    when = before.registered_at.isoformat()
    changes = criteria_changes(before.criteria, lock.criteria)
    if changes:
        lines = "\n".join(f"  {change}" for change in changes)
        raise InputError(
            f"{place}: other criteria were registered at {when}; a lock is not overwritten. "
            f"Register the new ones as a file of another name:\n{lines}"
        )

    def names(files: Iterable[DataHash]) -> str:
        return ", ".join(f"{file.name} {file.sha256[:12]}" for file in files) or "none"

    registered = {file.sha256 for file in before.data}
    absent = [file for file in lock.data if file.sha256 not in registered]
    if absent:
        raise InputError(
            f"{place}: the criteria were registered at {when} without {names(absent)}; registered "
            f"data: {names(before.data)}. A lock is not overwritten. Judge on the registered data, "
            "or register the criteria as a file of another name"
        )
    return before


class _LockFile(Section, frozen=True, forbid_unknown_fields=True):
    """The file, as `loads` returns it."""

    format: Literal["pact-lock-1"]
    registered_at: str
    tool: str
    criteria_sha256: str
    criteria: Any
    data: tuple[DataHash, ...]
    lock_sha256: str


def read_lock(path: Path) -> Lock:
    """Read a lock without checking its hashes; see `check_lock`.

    Raises:
        InputError: there is none, or a folder or device in its place.
        TamperedError: it is not what `register` wrote: not JSON, or not a lock.
    """
    raw = read_bytes(path, missing="no such lock; `pact-eval register` makes one")
    try:
        file = convert(loads(raw.decode("utf-8")), _LockFile)
        at = dt.datetime.fromisoformat(file.registered_at)
        if at.tzinfo is None:
            written = file.registered_at
            raise ValueError(f"expected registered_at with its time zone, got {written}")
    except ValueError as error:
        message = f"{path}: the lock is broken: {error}; restore it from a copy"
        raise TamperedError(message) from None
    hashes = file.criteria_sha256, file.data, file.lock_sha256
    return Lock(at.astimezone(dt.UTC), file.tool, file.criteria, *hashes)


RegistrationStatus = Literal[
    "REGISTERED BEFORE THE RUNS",
    "REGISTERED AFTER THE RUNS",
    "TAMPERED",
    "NOT VERIFIABLE",
    "NOT REGISTERED",
]
"""What a lock proves. NOT VERIFIABLE: no contradiction, but start times or data of runs are
unknown."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run that a registration is compared with.

    Attributes:
        arm: arm of the run, or its name if it has none.
        seed: training seed; None if it has none.
        started_at: start time, with its time zone; None if unknown.
        data_sha256: SHA-256 of the scored dataset file; None if unknown.
        ablated: whether it is a run on ablated contexts.
    """

    arm: str
    seed: int | None
    started_at: dt.datetime | None
    data_sha256: str | None
    ablated: bool = False

    def __str__(self) -> str:
        name = self.arm if self.seed is None else f"{self.arm} seed {self.seed}"
        return f"{name} on ablated contexts" if self.ablated else name


@dataclass(frozen=True, slots=True)
class Registration:
    """Conclusion of a lock about criteria and runs.

    Attributes:
        status: the status.
        reasons: reasons for the status, one sentence each; empty if there is no problem.
        registered_at: when the criteria were registered; None without a lock.
    """

    status: RegistrationStatus
    reasons: tuple[str, ...]
    registered_at: dt.datetime | None = None

    @property
    def holds(self) -> bool:
        """Whether the criteria are unchanged and were registered before the runs."""
        return self.status == "REGISTERED BEFORE THE RUNS"

    @property
    def broken(self) -> bool:
        """Whether the criteria were changed, or registered after a run began."""
        return self.status in ("TAMPERED", "REGISTERED AFTER THE RUNS")


def run_facts(run: RunFolder) -> RunFacts:
    """Return the facts of a run that a registration is compared with.

    The start time and the dataset of imported predictions are unknown: the recorded times and hash
    are those of the import.

    Args:
        run: the run.
    """
    recorded = run.provenance
    scored = recorded.source == "score"
    return RunFacts(
        arm=run.arm,
        seed=run.seed,
        started_at=recorded.created if scored else None,
        data_sha256=recorded.data.sha256 if scored else None,
        ablated=run.ablated,
    )


def check_lock(hypotheses: Hypotheses, lock: Lock | None, runs: Sequence[RunFacts]) -> Registration:
    """Compare a lock with the current criteria and with the runs.

    Args:
        hypotheses: the criteria that the runs are judged on.
        lock: their registration; None if there is none.
        runs: the runs; empty if the numbers come from a table.

    Returns:
        TAMPERED if the lock or the criteria were changed or a run scored other data; otherwise
        REGISTERED AFTER THE RUNS if a run began earlier; otherwise NOT VERIFIABLE if the start or
        the data of a run are unknown. Reasons of all three kinds are given.

    Examples:
        >>> check_lock(Hypotheses(()), None, []).status
        'NOT REGISTERED'
    """
    if lock is None:
        return Registration("NOT REGISTERED", ("there is no lock for these criteria",))
    tampered, late, unknown = _tampered(hypotheses, lock, runs), [], []
    registered = lock.registered_at.replace(microsecond=0)
    for run in runs:
        # Run folders record full seconds: a run of the same second does not count as earlier.
        if run.started_at is not None and run.started_at < registered:
            began = run.started_at.astimezone(dt.UTC).isoformat(timespec="seconds")
            late.append(f"{run} began at {began}, criteria registered at {registered.isoformat()}")
    if not runs:
        unknown.append("the numbers have no runs, so it is unknown when these began")
    starts = [str(run) for run in runs if run.started_at is None]
    if starts:
        unknown.append(f"unknown start times of runs: {', '.join(starts)}")
    if runs and not lock.data:
        unknown.append("no data were registered, so the runs may be on any data")
    data = [str(run) for run in runs if lock.data and run.data_sha256 is None]
    if data:
        unknown.append(f"unknown data of runs: {', '.join(data)}")
    status: RegistrationStatus = "NOT VERIFIABLE" if unknown else "REGISTERED BEFORE THE RUNS"
    if tampered or late:
        status = "TAMPERED" if tampered else "REGISTERED AFTER THE RUNS"
    return Registration(status, (*tampered, *late, *unknown), lock.registered_at)


def _tampered(hypotheses: Hypotheses, lock: Lock, runs: Sequence[RunFacts]) -> list[str]:
    """Return how the lock or the criteria were changed, and which runs scored other data."""
    reasons = []
    if not lock.is_intact:
        edited = "the lock was edited after it was written"
        reasons.append(f"{edited}: its hashes are not those of its content")
    now = canonical_criteria(hypotheses)
    if sha256_of_json(now) != lock.criteria_sha256:
        changes = criteria_changes(lock.criteria, now)
        reasons += changes or ("the criteria are not those whose hash was registered",)
    files = {file.sha256: f"{file.name} {file.sha256[:12]}" for file in lock.data}
    for run in runs:
        if files and run.data_sha256 is not None and run.data_sha256 not in files:
            names = ", ".join(files.values())
            text = f"{run} was scored on data {run.data_sha256[:12]}, registered: {names}"
            if run.ablated:
                text += (
                    "; a file of ablated contexts is registered like any other (`register --data`)"
                )
            reasons.append(text)
    return reasons
