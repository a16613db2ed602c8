"""Further columns of your own rows, which stay with the items of a run for `--by`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

from pact_eval._json import Json

_LONGEST_TEXT: Final = 200
"""Of a value that may name a group. Prompts and documents are longer, and would fill the memory."""


class FurtherColumns:
    """Columns of rows that a run does not use otherwise.

    A column is one of items if every view of an item has the same text, number or truth value in
    it. Lists, objects, texts of more than 200 characters, and columns of views are ignored.

    Args:
        kept: whether the columns of items are kept; otherwise all are ignored.

    Examples:
        >>> columns = FurtherColumns(kept=True)
        >>> for view, region in enumerate(("north", "north")):
        ...     columns.add("a", {"id": "a", "region": region, "seconds": view}, {"id"})
        >>> columns.values, columns.ignored
        ({'a': {'region': 'north'}}, ('seconds',))
    """

    def __init__(self, *, kept: bool) -> None:
        self._kept = kept
        self._values: dict[str, dict[str, Json]] = {}
        self._ignored: dict[str, bool] = {}

    def add(self, item: str, row: Mapping[str, Json], used: Set[str]) -> None:
        """Add the columns of a row.

        Args:
            item: id of its item.
            row: its columns.
            used: names of the columns that a run uses.
        """
        first_view = item not in self._values
        values = self._values.setdefault(item, {})
        for name in (*row, *(name for name in values if name not in row)):
            if name in used:
                continue
            value = row.get(name)
            ignored = self._ignored.setdefault(name, not self._kept)
            if ignored:
                continue
            same = first_view or values.get(name) == value
            if not _names_group(value) or not same:
                self._ignored[name] = True
            elif value is not None:
                values[name] = value

    @property
    def values(self) -> dict[str, dict[str, Json]]:
        """By id of the item, the values that it has by column."""
        return {
            item: {name: value for name, value in values.items() if not self._ignored[name]}
            for item, values in self._values.items()
        }

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of the columns that are not kept."""
        return tuple(name for name, ignored in self._ignored.items() if ignored)


def _names_group(value: Json) -> bool:
    """Return whether a value is absent, or a scalar that may name a group."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    return not isinstance(value, dict | list)
