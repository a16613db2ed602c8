"""The chain of custody of a run: training data of its adapter, and what the user allowed.

`score` writes it into `run.json` under `custody`:

    {"training": {"sha256": of `training_data.json`,
                  "roles": {role: {"files": [...], "records": n, "families": n, "digest": ...}}},
     "trained_on": {"items": [...], "families": [...], "files": [...]},
     "other_data": {"manifest": ..., "expected": SHA-256, "found": SHA-256},
     "unchecked": reason}

An absent key has nothing to say: without `training`, the training data are not stated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from pact_eval._json import Json
from pact_eval.errors import GateError, listed
from pact_eval.plain_text import one_line
from pact_eval.results import Note
from pact_eval.schema import Section

if TYPE_CHECKING:
    from pact_eval.runs.folder import RunFolder


NOT_STATED = "training data not stated"
"""Of an adapter without a training record, a server, an import and a base model alone."""


class TrainedRole(Section, frozen=True):
    """The data of one role of a training, as a run keeps them.

    Attributes:
        files: names of the files.
        records: number of different records.
        families: number of families.
        digest: SHA-256 over the hashes of the records: equal for equal data.
    """

    files: tuple[str, ...]
    records: int
    families: int
    digest: str


class StatedTraining(Section, frozen=True):
    """Content of the training record of an adapter.

    Attributes:
        sha256: of the record.
        roles: by role (train, selection, calibration), the data; a role without data is absent.
    """

    sha256: str
    roles: Mapping[str, TrainedRole]


class TrainedOn(Section, frozen=True):
    """Items that the adapter was trained or selected on, or that a training file may hold.

    Attributes:
        items: their ids.
        families: their families.
        files: names of the files that they are also in.

    Examples:
        >>> str(TrainedOn(("a-base", "a-cf"), ("a",), ("train.jsonl",)))
        '1 family that the model may have learnt is also in train.jsonl'
    """

    items: tuple[str, ...]
    families: tuple[str, ...]
    files: tuple[str, ...]

    def __str__(self) -> str:
        families, one = len(self.families), len(self.families) == 1
        files = ", ".join(map(one_line, self.files))
        return (
            f"{families:,} famil{'y' if one else 'ies'} that the model may have learnt "
            f"{'is' if one else 'are'} also in {files}"
        )


class OtherData(Section, frozen=True):
    """A dataset file that is not the one that its manifest names, which was allowed.

    Attributes:
        manifest: the manifest.
        expected: SHA-256 that it names.
        actual: SHA-256 of the file.
    """

    manifest: str
    expected: str
    actual: str = msgspec.field(name="found")


class Custody(Section, frozen=True):
    """Facts about the training data of a run, and what the user allowed.

    Attributes:
        training: what the adapter's record says; None if the training data are not stated.
        trained_on: evaluated items of the training, which `--allow trained-on` accepted; or None.
        other_data: a changed dataset file, which `--allow other-data` accepted; or None.
        unchecked: why families were not compared with some files of the manifest; "" if they were.
    """

    training: StatedTraining | None = None
    trained_on: TrainedOn | None = None
    other_data: OtherData | None = None
    unchecked: str = ""

    @property
    def training_text(self) -> str:
        """The data of the training, by role.

        Examples:
            >>> Custody().training_text
            'training data not stated'
        """
        if self.training is None:
            return NOT_STATED
        used = {"train": "", "selection": "selected on ", "calibration": "calibrated on "}
        roles = (
            f"{used[role]}{', '.join(map(one_line, data.files))} ({data.families:,} families)"
            for role, data in self.training.roles.items()
        )
        return ", ".join(roles) or "no dataset"

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on a scoring; none if its training data are known and different.

        Examples:
            >>> Custody().remarks
            ('Training data not stated',)
        """
        remarks = [] if self.training is not None else [NOT_STATED.capitalize()]
        if self.trained_on is not None:
            remarks.append(f"Allowed: {self.trained_on}")
        if self.other_data is not None:
            remarks.append(
                f"Allowed: the data are not those of {one_line(self.other_data.manifest)}"
            )
        if self.unchecked:
            remarks.append(f"Families were not compared with all files: {self.unchecked}")
        return tuple(remarks)


@dataclass(frozen=True)
class TrainedOnRun(Note):
    """A run on items that its adapter was trained or selected on, which the user allowed.

    Attributes:
        run: the run folder.
        trained_on: the items.
    """

    run: str
    trained_on: TrainedOn

    def __str__(self) -> str:
        return f"{self.run}: {self.trained_on}, as allowed"


def refuse_trained_on(
    runs: Sequence[RunFolder], allow: Collection[str]
) -> tuple[TrainedOnRun, ...]:
    """Refuse runs on items that their adapter was trained or selected on.

    Args:
        runs: the runs.
        allow: "trained-on" accepts them.

    Returns:
        The runs that were accepted.

    Raises:
        GateError: a run has such items; the message names their families and the files.
    """
    overlaps = trained_on_runs(runs)
    for run_overlap in overlaps if "trained-on" not in allow else ():
        met = run_overlap.trained_on
        raise GateError(
            f"{run_overlap.run}: {listed(met.families, 'family', 'families')} also in "
            f"{', '.join(met.files)}, which the model was made from. Use a run on other families, "
            "or --allow trained-on, which every output then names"
        )
    return overlaps


def trained_on_runs(runs: Sequence[RunFolder]) -> tuple[TrainedOnRun, ...]:
    """Return the runs on items that their adapter was trained or selected on."""
    met = ((run.place, run.provenance.custody.trained_on) for run in runs)
    return tuple(TrainedOnRun(place, overlap) for place, overlap in met if overlap is not None)


def trained_on_json(run: RunFolder) -> dict[str, Json]:
    """Return what a file that is made from a run keeps of `trained_on`, if there is any."""
    met = run.provenance.custody.trained_on
    if met is None:
        return {}
    return {"trained_on": {"families": len(met.families), "files": [*met.files]}}
