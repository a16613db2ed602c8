"""Looks at every family of a dataset: part by part, in several processes if there are many.

A family is looked at alone, so parts of a dataset can be looked at in any process. Their findings
are joined in the order of the files: results do not depend on the number of processes. Checks share
one pass, because reading a family again takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pact_eval.audit.parts import work_on_parts
from pact_eval.data import Index, Located

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
