"""Were the criteria registered, unchanged, before the runs?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pact_eval.preregistration.canonical import canonical_criteria, criteria_changes, sha256_of_json
from pact_eval.preregistration.criteria import Hypotheses
from pact_eval.preregistration.locking import Lock
from pact_eval.runs import RunFolder

__all__ = ["Registration", "RegistrationStatus", "RunFacts", "check_lock", "run_facts"]

RegistrationStatus = Literal[
    "REGISTERED BEFORE THE RUNS",
    "REGISTERED AFTER THE RUNS",
    "TAMPERED",
    "NOT VERIFIABLE",
    "NOT REGISTERED",
]
"""What a lock proves. NOT VERIFIABLE: nothing speaks against it, but the runs do not say when they
began or on which data."""

_SCORED: Final = "score"
_ABLATED_TOO: Final = (
    "; a file of ablated contexts is registered like any other (`register --data`)"
)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a registration is compared with.

    Attributes:
        arm: arm of the run; what it is called where it has none.
        seed: seed it was trained with; None where it has none.
        started_at: when it began, with its time zone; None where nobody knows.
        data_sha256: SHA-256 of the dataset file that it scored; None where nobody knows.
        ablated: whether it is a run on ablated contexts, beside that on whole ones.
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
    """What a lock proves about criteria and runs.

    Attributes:
        status: in one word.
        reasons: why, one sentence each; none where all is well.
        registered_at: when the criteria were registered; None without a lock.
    """

    status: RegistrationStatus
    reasons: tuple[str, ...]
    registered_at: dt.datetime | None = None


def run_facts(run: RunFolder) -> RunFacts:
    """Gather what a registration is compared with from a run folder.

    A run of imported predictions does not know when they were made, nor on which dataset: its times
    and hash are those of the import.

    Args:
        run: the run.
    """
    recorded = run.provenance
    scored = recorded.source == _SCORED
    return RunFacts(
        arm=run.arm,
        seed=run.seed,
        started_at=recorded.created if scored else None,
        data_sha256=recorded.data.sha256 if scored else None,
        ablated=run.ablated,
    )


def check_lock(hypotheses: Hypotheses, lock: Lock | None, runs: Sequence[RunFacts]) -> Registration:
    """Compare a lock with the criteria as they are now, and with the runs.

    Args:
        hypotheses: the criteria that the runs are judged on.
        lock: their registration; None where there is none.
        runs: the runs; none where the numbers come as a table without them.

    Returns:
        TAMPERED where the lock or the criteria were changed or a run scored other data, else
        REGISTERED AFTER THE RUNS where one began earlier, else NOT VERIFIABLE where a run's start
        or data are not known. Reasons of all three kinds are given.

    Example:
        >>> from pact_eval.preregistration import pact_hypotheses
        >>> check_lock(pact_hypotheses(), None, []).status
        'NOT REGISTERED'
    """
    if lock is None:
        return Registration("NOT REGISTERED", ("there is no lock for these criteria",))
    tampered = (*_edits(hypotheses, lock), *_other_data(lock, runs))
    late = tuple(_early_runs(lock, runs))
    unknown = tuple(_unknown(lock, runs))
    status: RegistrationStatus = "REGISTERED BEFORE THE RUNS"
    if tampered:
        status = "TAMPERED"
    elif late:
        status = "REGISTERED AFTER THE RUNS"
    elif unknown:
        status = "NOT VERIFIABLE"
    return Registration(status, (*tampered, *late, *unknown), lock.registered_at)


def _edits(hypotheses: Hypotheses, lock: Lock) -> Iterator[str]:
    if not lock.is_intact:
        yield "the lock was edited after it was written: its hashes are not those of its content"
    now = canonical_criteria(hypotheses)
    if sha256_of_json(now) != lock.criteria_sha256:
        changes = criteria_changes(lock.criteria, now)
        yield from changes or ("the criteria are not those whose hash was registered",)


def _other_data(lock: Lock, runs: Sequence[RunFacts]) -> Iterator[str]:
    registered = {each.sha256: each.name for each in lock.data}
    names = ", ".join(f"{name} {sha256[:12]}" for sha256, name in registered.items())
    for run in runs:
        if registered and run.data_sha256 is not None and run.data_sha256 not in registered:
            yield (
                f"{run} was scored on data {run.data_sha256[:12]}, registered: {names}"
                f"{_ABLATED_TOO if run.ablated else ''}"
            )


def _early_runs(lock: Lock, runs: Sequence[RunFacts]) -> Iterator[str]:
    registered = lock.registered_at.replace(microsecond=0)
    for run in runs:
        # Run folders keep whole seconds: a run of the same second is not taken for an earlier one.
        if run.started_at is not None and run.started_at < registered:
            began = run.started_at.astimezone(dt.UTC).isoformat(timespec="seconds")
            yield f"{run} began at {began}, criteria registered at {registered.isoformat()}"


def _unknown(lock: Lock, runs: Sequence[RunFacts]) -> Iterator[str]:
    if not runs:
        yield "the numbers come without their runs: nobody can tell when those began"
    starts = [str(run) for run in runs if run.started_at is None]
    if starts:
        yield f"nobody can tell when these runs began: {', '.join(starts)}"
    if runs and not lock.data:
        yield "no data were registered: the runs may have been scored on any"
    data = [str(run) for run in runs if lock.data and run.data_sha256 is None]
    if data:
        yield f"nobody can tell which data these runs were scored on: {', '.join(data)}"
