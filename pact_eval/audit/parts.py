"""Parts of a dataset, each worked on alone: in several processes if the dataset is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from pact_eval.data.index import Index, Located
from pact_eval.data.processes import in_processes, usable_cores
from pact_eval.progress import step

Result = TypeVar("Result")

FEWEST_RECORDS: Final = 20_000
"""Smaller datasets are worked on in this process: others take a second to start."""


def is_shared(n_records: int) -> bool:
    """Return whether several processes share the work on so many records."""
    return n_records >= FEWEST_RECORDS and usable_cores() > 1


def work_on_parts(
    work: Callable[[Index], Result], parts: Sequence[Index]
) -> Iterator[tuple[Index, Result]]:
    """Yield parts of a dataset, each with what was made of it, in their order.

    Args:
        work: reads the records of a part again, and makes something of them; it can be pickled.
        parts: the parts.

    Raises:
        InputError: a file has changed since the index was built.
    """
    n_records = sum(map(len, parts))
    in_others = is_shared(n_records)
    with step("Reading records", n_records, "records") as reading:
        results = in_processes(work, parts) if in_others else map(work, parts)
        for part, result in zip(parts, results, strict=True):
            if in_others:  # otherwise the step of reading a part counts
                reading.done += len(part)
            yield part, result


_FAMILIES_IN_A_PART: Final = 2_000


class FamilyLook(Protocol):
    """Looks at one family after the other, and keeps what it finds; it can be pickled."""

    def family(self, members: Sequence[Located]) -> None:
        """Look at the members of one family of one file."""


StartLook = Callable[[], FamilyLook]
"""Makes what looks at a part; it can be pickled."""


def look_at_families(index: Index, starts: Mapping[str, StartLook]) -> dict[str, list[FamilyLook]]:
    """Look at every family of a dataset, in one pass for several checks.

    Args:
        index: the dataset; its records are read again.
        starts: by check, what makes its look at a part.

    Returns:
        By check, what has looked at each part, in the order of the families.

    Raises:
        InputError: a file has changed since the index was built.
    """
    parts = index.in_parts(_FAMILIES_IN_A_PART)
    looks = [look for _, look in work_on_parts(_Work(starts), parts)]
    return {check: [look[check] for look in looks] for check in starts}


@dataclass(frozen=True, slots=True)
class _Work:
    starts: Mapping[str, StartLook]

    def __call__(self, part: Index) -> dict[str, FamilyLook]:
        """Look at the families of a part."""
        looks = {check: start() for check, start in self.starts.items()}
        for members in part.families():
            for look in looks.values():
                look.family(members)
        return looks
