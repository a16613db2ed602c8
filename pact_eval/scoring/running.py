"""Running numbers of a run that is being scored: accuracy and answer mass of the items so far.

A dead adapter is seen after `FEWEST_ITEMS` items, and not after hours. The report has the numbers
of the complete run, with intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from pact_eval.data.records import Record

FEWEST_ITEMS: Final = 30
"""Number of answered items from which numbers are shown."""

_COUNTED: Final = ("right", "judged", "mass", "weighed")
_COLUMNS: Final = ("id", "reference", "logits", "answer_mass")

OnAnswer = Callable[[Record, Sequence[float], float | None], None]
"""Called with a record, the logits of its view 0 in canonical order, and their answer mass."""


@dataclass(frozen=True)
class _Answer:
    """What view 0 of an item adds: 1 or 0 if it is right or wrong, and its mass; NaN if unknown."""

    right: float
    mass: float


@dataclass
class RunningScores:
    """Accuracy and answer mass of the items that are answered so far.

    Items of a window are known one by one, where the source tells them, or with their window.

    Examples:
        >>> running = RunningScores()
        >>> rows = pl.DataFrame({"id": [str(n) for n in range(40)], "view": [0] * 40,
        ...     "reference": [0] * 40, "logits": [[1.0, 0.0]] * 40, "answer_mass": [0.5] * 40})
        >>> running.finished(rows)
        >>> dict(running.numbers)
        {'accuracy': 1.0, 'answer_mass': 0.5}
    """

    _sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0.0))
    _open: dict[str, _Answer] = field(default_factory=dict)

    def answered(self, record: Record, logits: Sequence[float], answer_mass: float | None) -> None:
        """Count the answer to a record whose window is not finished; once more changes nothing.

        Args:
            record: with a reference, or on an ablated context.
            logits: shape (C,), canonical order, of view 0; not empty.
            answer_mass: of view 0; None if unknown.
        """
        self._open[record.id] = _answer(record.reference, logits, answer_mass)

    def finished(self, rows: pl.DataFrame) -> None:
        """Count the rows of a window, whose items were counted one by one or not at all.

        Args:
            rows: one row per record and view; without logits if the view has no answer.
        """
        first = rows.filter((pl.col("view") == 0) & (pl.col("logits").list.len() > 0))
        for record_id in rows["id"].unique():
            self._open.pop(record_id, None)
        names = [name for name in _COLUMNS if name in first.columns]
        answers = (
            _answer(row.get("reference"), row["logits"], row["answer_mass"])
            for row in first.select(names).iter_rows(named=True)
        )
        for name, value in _sums(answers).items():
            self._sums[name] += value

    @property
    def numbers(self) -> Mapping[str, float]:
        """Accuracy and mean answer mass, in [0, 1], of those that are known; empty at first."""
        open_sums = _sums(self._open.values())
        sums = {name: value + open_sums[name] for name, value in self._sums.items()}
        means = {
            "accuracy": (sums["right"], sums["judged"]),
            "answer_mass": (sums["mass"], sums["weighed"]),
        }
        return {
            name: total / count for name, (total, count) in means.items() if count >= FEWEST_ITEMS
        }


def _answer(reference: int | None, logits: Sequence[float], answer_mass: float | None) -> _Answer:
    right = math.nan if reference is None else float(int(np.argmax(logits)) == reference)
    return _Answer(right, math.nan if answer_mass is None else float(answer_mass))


def _sums(answers: Iterable[_Answer]) -> dict[str, float]:
    """Return the sums of what is known, and of how many answers."""
    sums = dict.fromkeys(_COUNTED, 0.0)
    for answer in answers:
        for name, count, value in (
            ("right", "judged", answer.right),
            ("mass", "weighed", answer.mass),
        ):
            if not math.isnan(value):
                sums[name] += value
                sums[count] += 1
    return sums
