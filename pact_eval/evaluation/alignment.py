"""Alignment of the items of two runs, and their mismatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pact_eval._typing import IntArray
from pact_eval.errors import InputError, counted
from pact_eval.notes import Note

if TYPE_CHECKING:
    from pact_eval.runs.predictions import Predictions

_SHOWN = 5
_ABOUT_FAMILIES = "; logs need the same --family-from when they are imported"


@dataclass(frozen=True)
class ItemMismatch(Note):
    """Two runs that cannot be compared item by item.

    Attributes:
        first: name of the first run.
        other: name of the run that does not match it.
        only_first: ids of items that only the first run has.
        only_other: ids of items that only the other run has.
        column: column that differs for items of both; "" if the item sets differ.
        differing: ids of the items that differ in the column.
    """

    first: str
    other: str
    only_first: tuple[str, ...] = ()
    only_other: tuple[str, ...] = ()
    column: str = ""
    differing: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.column:
            differing = f"{counted(len(self.differing), 'item')}: {_some(self.differing)}"
            advice = _ABOUT_FAMILIES if self.column == "family" else ""
            return f"{self.first} and {self.other} differ in {self.column} for {differing}{advice}"
        return (
            f"item sets differ: {counted(len(self.only_first), 'item')} only in {self.first} "
            f"({_some(self.only_first)}), {len(self.only_other):,} only in {self.other} "
            f"({_some(self.only_other)})"
        )


@dataclass(frozen=True)
class LeftOutItems(Note):
    """Items that a run left unanswered, and that are left out of all runs next to it.

    Attributes:
        items: number of items that are left out.
        runs: the runs that left items unanswered, with how many.
    """

    items: int
    runs: Mapping[str, int]

    def __str__(self) -> str:
        named = ", ".join(f"{number:,} by {run}" for run, number in self.runs.items())
        items = counted(self.items, "item")
        are = "is" if self.items == 1 else "are"
        return f"{items} without an answer ({named}) {are} left out of all runs"


def align(a: Predictions, b: Predictions, *, names: tuple[str, str] = ("A", "B")) -> Predictions:
    """Return the second run's items in the order of the first.

    Args:
        a: views of the first run.
        b: views of the second run, of the same type: with references, or ablated.
        names: names of the runs in messages.

    Returns:
        The items of `b`, one for each item of `a`. Domains, source families and variants are those
        of `a`, because an import may lack them.

    Raises:
        InputError: the item sets differ, or an item differs in its reference (its two answers if it
            is ablated), number of answers, kind, family, or the letter order of view 0.
    """
    different = mismatch(a, b, names=names)
    if different is not None:
        raise InputError(str(different))
    return in_order_of(a, b)


def mismatch(
    a: Predictions, b: Predictions, *, names: tuple[str, str] = ("A", "B")
) -> ItemMismatch | None:
    """Return the mismatch of the items of two runs; None if they can be compared. See `align`."""
    in_a, in_b = set(a.ids.tolist()), set(b.ids.tolist())
    if in_a != in_b:
        only_a = tuple(item for item in a.ids.tolist() if item not in in_b)
        return ItemMismatch(*names, only_first=only_a, only_other=tuple(sorted(in_b - in_a)))
    rows = _rows_in_order(a, b)
    columns: dict[str, tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]] = {
        "reference": (a.declared, b.declared),
        "answers": (a.answers, b.answers),
        "n_choices": (a.n_choices, b.n_choices),
        "kind": (a.kind, b.kind),
        "family": (a.family, b.family),
    }
    if "outcomes" in (a.known, b.known):
        del columns["reference"], columns["n_choices"]  # one of the runs does not name the answers
    elif a.accepted is not None or b.accepted is not None:
        columns["right answers"] = (a.right_answers, b.right_answers)
    for column, (a_values, b_values) in columns.items():
        if a_values is None or b_values is None:
            continue
        unlike = a_values != b_values[rows]
        differs = np.flatnonzero(unlike.any(axis=1) if unlike.ndim == 2 else unlike)
        if differs.size:
            differing = tuple(a.ids[differs].tolist())
            return ItemMismatch(*names, column=column, differing=differing)
    differs = np.flatnonzero(_other_orders(a.code_order[:, 0], b.code_order[rows, 0]))
    if differs.size:
        differing = tuple(a.ids[differs].tolist())
        return ItemMismatch(*names, column="the letter order of view 0", differing=differing)
    return None


def _other_orders(a: IntArray, b: IntArray) -> npt.NDArray[np.bool_]:
    """Return (n,) whether two orders are known and differ; (n, C) each, unused letters -1."""
    letters = min(a.shape[1], b.shape[1])  # a run may have had items of more answers
    recorded = (a[:, 0] >= 0) & (b[:, 0] >= 0)
    return np.asarray(recorded & (a[:, :letters] != b[:, :letters]).any(axis=1), dtype=np.bool_)


def in_order_of(a: Predictions, b: Predictions) -> Predictions:
    """Return the items of `b` in the order of those of `a`, which are the same; see `align`."""
    aligned = b.taken(_rows_in_order(a, b))
    return replace(aligned, source_family=a.source_family, domain=a.domain, variant=a.variant)


def _rows_in_order(a: Predictions, b: Predictions) -> npt.NDArray[np.int64]:
    row_of = {item: row for row, item in enumerate(b.ids.tolist())}
    return np.array([row_of[item] for item in a.ids.tolist()], dtype=np.int64)


def _some(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_SHOWN])
    return f"{shown}, ..." if len(items) > _SHOWN else shown or "none"
