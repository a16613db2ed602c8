"""Parts of a dataset, each worked on alone: in several processes if the dataset is large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from pact_eval.audit.findings import FamilyCollector
from pact_eval.data.index import Index
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


def look_at_families(index: Index, looks: Mapping[str, FamilyCollector]) -> None:
    """Let the collectors of several checks see every family of a dataset, in one pass.

    Args:
        index: the dataset; its records are read again.
        looks: the collectors, by check; parts of them see the families, and join them in order.

    Raises:
        InputError: a file has changed since the index was built.
    """
    parts = index.in_parts(_FAMILIES_IN_A_PART)
    for _, seen in work_on_parts(partial(_look_at_part, looks), parts):
        for check, look in looks.items():
            look.join(seen[check])


def _look_at_part(looks: Mapping[str, FamilyCollector], part: Index) -> dict[str, FamilyCollector]:
    own = {check: look.part() for check, look in looks.items()}
    for members in part.families():
        for look in own.values():
            look.family(members)
    return own
