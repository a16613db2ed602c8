"""Roles of families in an experiment: training, selection, calibration, choice and evaluation.

A family may have one role. With two, a number of the evaluation rests on data that the model, its
checkpoint, its temperatures or its thresholds were made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

import numpy as np

from pact_eval._files import read_json
from pact_eval.calibration.files import read_calibrator
from pact_eval.calibration.runs import Members
from pact_eval.custody.hashed_data import Hashes, hashes_of
from pact_eval.custody.training_record import read_training_record
from pact_eval.errors import InputError
from pact_eval.runs.folder import RunFolder, read_any_run
from pact_eval.runs.seal import CALIBRATION_NAME

FamilyRole = Literal["train", "selection", "calibration", "thresholds", "evaluation"]
"""What families are used for."""

FAMILY_ROLES: Final[tuple[FamilyRole, ...]] = get_args(FamilyRole)

_NAMES: Final = 3


@dataclass(frozen=True)
class RoleOfFamilies:
    """The families of one role.

    Attributes:
        role: what they are used for.
        sources: files and runs that say so.
        families: number of families.
        shared: by other role, how many of them also have that role; roles that share none are
            absent.
        names: the first of those with another role, as far as their names are known.
    """

    role: FamilyRole
    sources: tuple[str, ...]
    families: int
    shared: Mapping[FamilyRole, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class FamilyRoles:
    """The roles of the families of one adapter.

    Attributes:
        adapter: the adapter as its runs name it; "" for runs without one.
        roles: by role, in the order of use; roles without families are absent.
        stated: whether the adapter's record says what it was trained on.
    """

    adapter: str
    roles: tuple[RoleOfFamilies, ...]
    stated: bool

    @property
    def overlap(self) -> bool:
        """Whether a family has two roles."""
        return any(role.shared for role in self.roles)


@dataclass
class _Used:
    sources: dict[str, None] = field(default_factory=dict)
    hashes: list[Hashes] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def add(self, source: str, names: Iterable[str]) -> None:
        texts = [*names]
        hashes = hashes_of(texts)
        self.sources[source] = None
        self.hashes.append(hashes)
        self.names |= dict(zip(hashes.tolist(), texts, strict=True))

    @property
    def all(self) -> Hashes:
        return np.unique(np.concatenate(self.hashes))


def family_roles(
    runs: Sequence[RunFolder], *, adapter: Path | None = None, choices: Sequence[Path] = ()
) -> tuple[FamilyRoles, ...]:
    """Tell what the families of runs, and of what they were made from, are used for.

    Args:
        runs: complete runs; those with the role "calibration" or "selection" count as such.
        adapter: folder of the adapter; None takes the one that each run names.
        choices: files of thresholds or of answer sets: their families count for every adapter.

    Returns:
        One table per adapter, in the order of the runs.

    Raises:
        InputError: a file cannot be read.
    """
    groups: dict[str, list[RunFolder]] = {}
    for run in runs:
        recorded = run.provenance.adapter
        key = "" if recorded is None else str(recorded.sha256)
        groups.setdefault(key, []).append(run)
    return tuple(_of_adapter(members, adapter, choices) for members in groups.values())


def _of_adapter(
    runs: Sequence[RunFolder], adapter: Path | None, choices: Sequence[Path]
) -> FamilyRoles:
    used: dict[FamilyRole, _Used] = {role: _Used() for role in FAMILY_ROLES}
    named = runs[0].provenance.adapter_folder
    folder = adapter or (None if named is None else Path(named))
    record = None if folder is None or not folder.is_dir() else read_training_record(folder)
    for role, data in () if record is None else record.roles.items():
        used[role].sources |= dict.fromkeys(file.name for file in data.files)
        used[role].hashes.append(data.hashes["families"])
    for run in runs:
        families = dict.fromkeys(read_any_run(run).predictions.family.tolist())
        used[_role(run)].add(run.place, [family for family in families if family])
        file = run.folder / CALIBRATION_NAME
        if file.exists():
            fitted = Members.of_fit(read_calibrator(file)).families
            used["calibration"].add(str(file), sorted(fitted))
    for path in choices:
        used["thresholds"].add(str(path), _chosen_on(path))
    present = {role: data for role, data in used.items() if data.hashes}
    return FamilyRoles(
        named or "",
        tuple(_row(role, present) for role in present),
        record is not None,
    )


def _role(run: RunFolder) -> FamilyRole:
    for role in ("calibration", "selection"):
        if run.provenance.role == role:
            return role
    return "evaluation"


def _row(role: FamilyRole, used: Mapping[FamilyRole, _Used]) -> RoleOfFamilies:
    own = used[role].all
    shared = {other: np.intersect1d(own, data.all) for other, data in used.items() if other != role}
    met = np.unique(np.concatenate([*shared.values(), own[:0]])).tolist()
    text_of_hash = {name: text for data in used.values() for name, text in data.names.items()}
    return RoleOfFamilies(
        role,
        tuple(used[role].sources),
        len(own),
        {other: len(both) for other, both in shared.items() if len(both)},
        tuple(sorted(text_of_hash[digest] for digest in met if digest in text_of_hash)[:_NAMES]),
    )


def _chosen_on(path: Path) -> list[str]:
    value = read_json(path)
    chosen = value.get("chosen_on") if isinstance(value, dict) else None
    families = chosen.get("families") if isinstance(chosen, dict) else None
    if not isinstance(families, list) or not all(isinstance(name, str) for name in families):
        message = f"{path}: expected a file of thresholds or of answer sets"
        raise InputError(message)
    return [str(name) for name in families]
