"""Another arm or seed for runs, whose folders stay as they are: a sealed run cannot be changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_eval.runs.folder import RunFolder

_SEED = re.compile(r"(?P<arm>.*):(?P<seed>\d{1,18})", re.DOTALL)


@dataclass(frozen=True)
class Relabel:
    """Another arm, another training seed, or both, for the runs of a folder or pattern.

    Attributes:
        run: a run folder, the name of one, a URL, or a pattern of any of these.
        arm: the arm to use; None keeps that of the run.
        seed: the training seed to use; None keeps that of the run.

    Raises:
        InputError: there is neither an arm nor a seed.
    """

    run: str
    arm: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.run or (not self.arm and self.seed is None):
            message = f"{self.run or 'relabel'}: expected a run with an arm, a seed, or both"
            raise InputError(message)

    @classmethod
    def parse(cls, text: str) -> Relabel:
        """Read RUN=ARM, RUN=ARM:SEED or RUN=:SEED.

        Args:
            text: as typed; ARM may have colons, unless digits alone follow the last one.

        Raises:
            InputError: the text has another form.

        Examples:
            >>> Relabel.parse("runs/old-17=ours:18")
            Relabel(run='runs/old-17', arm='ours', seed=18)
            >>> Relabel.parse("runs/old-*=ours").seed is None
            True
        """
        run, equals, label = text.rpartition("=")
        seeded = _SEED.fullmatch(label)
        arm, seed = (label, None) if seeded is None else (seeded["arm"], int(seeded["seed"]))
        if not equals or not run or not (arm.strip(":") or seeded):
            message = f"expected RUN=ARM, RUN=ARM:SEED or RUN=:SEED, got {text!r}"
            raise InputError(message)
        return cls(run, arm or None, seed)

    def matches(self, run: RunFolder) -> bool:
        """Whether a run is meant: a path that exists is that folder alone."""
        if Path(self.run).exists():
            return Path(self.run).resolve() == run.folder.resolve()
        return any(fnmatchcase(name, self.run) for name in (run.place, run.name))


@dataclass(frozen=True)
class RelabelledRun:
    """A run that is shown with another arm or seed than it records.

    Attributes:
        run: the run folder.
        recorded: the arm and the seed that it records.
        used: those that are used instead.
    """

    run: str
    recorded: tuple[str, int | None]
    used: tuple[str, int | None]

    def __str__(self) -> str:
        used, recorded = (
            f"arm {arm}, {'no seed' if seed is None else f'seed {seed}'}"
            for arm, seed in (self.used, self.recorded)
        )
        return f"{self.run}: taken as {used}; it records {recorded}"


def relabel_of(run: RunFolder, relabels: Sequence[Relabel]) -> Relabel | None:
    """Return what relabels a run; of several, the last. None if nothing does."""
    matching = [relabel for relabel in relabels if relabel.matches(run)]
    return matching[-1] if matching else None


def check_relabels(relabels: Sequence[Relabel], runs: Sequence[RunFolder]) -> None:
    """Refuse labels of runs that are not there.

    Args:
        relabels: those of the settings.
        runs: all runs that were given.

    Raises:
        InputError: no run is meant.
    """
    for relabel in relabels:
        if not any(relabel.matches(run) for run in runs):
            named = ", ".join(run.place for run in runs)
            message = f"--relabel: {relabel.run} is none of the runs: {named}"
            raise InputError(message)
