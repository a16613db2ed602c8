"""Items that a gate decides on, and the independent part of them that its tests may see.

Members of a family are correlated, so they are not independent trials. The units are therefore
families (or source families). A hash of the unit's name decides everything that is drawn, so a
choice is the same every time, and nobody can try seeds until a gate passes.

- One unit in `LEARNING_SHARE` is a learning unit: it shapes the sequence of gates that is tested.
- Of every other unit, one item is drawn. The drawn items are therefore independent.

What counts the same decides how it is drawn. If *families* do, every unit gives one of its items.
The error rate of the drawn items is then that of a random item of a random family. If *items* do,
one of M slots is drawn, where M is the size of the largest unit: a unit of m items gives an item
with a probability of m / M, and the error rate is that of a random item. Few large families among
many small ones then leave few drawn items, and no method does much better: the large families hold
many items, and few families show how these are. With units of one size both are the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Final

import numpy as np

from pact_eval._choices import Counting
from pact_eval._typing import BoolArray, FloatArray, IntArray, TextArray
from pact_eval.evaluation.labels import Labels

LEARNING_SHARE: Final = 5
"""One unit in this many is a learning unit: see `benchmarks/coverage_thresholds.py`."""

_SALT: Final = "pact-thresholds-1"
_WORD: Final = 2**32


@dataclass(frozen=True, eq=False)
class GateItems:
    """The items of a run, as a gate sees them.

    Attributes:
        ids: (n,) text.
        unit: (n,) name of the family, or of the source family if those are the units.
        fold: (n,) name of the source family, by which gates are cross-validated.
        sureness: (n,) what the gate is on: the higher, the surer. -inf without an answer.
        wrong: (n,) whether the answer is wrong; items without an answer are never accepted.
        counting: whether every unit counts the same, or every item.
    """

    ids: TextArray
    unit: TextArray
    fold: TextArray
    sureness: FloatArray
    wrong: BoolArray
    counting: Counting = "families"

    def __len__(self) -> int:
        return len(self.ids)

    def taken(self, rows: IntArray | BoolArray) -> GateItems:
        """Return some of the items."""
        columns = (column.name for column in fields(self) if column.name != "counting")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})

    @cached_property
    def units(self) -> Labels:
        """The units as codes."""
        return Labels.of(self.unit)

    @property
    def equal_units(self) -> bool:
        """Whether all units have the same number of items."""
        return len(set(np.bincount(self.units.codes).tolist())) < 2

    @cached_property
    def draw(self) -> Draw:
        """Items that the tests may see: see `Draw`."""
        return Draw.of(self)

    def accepted(self, threshold: float | None) -> BoolArray:
        """(n,) whether a gate accepts each item; None accepts none, and -inf every answer."""
        if threshold is None:
            return np.zeros(len(self), dtype=np.bool_)
        return np.asarray((self.sureness >= threshold) & (self.sureness > -np.inf))


@dataclass(frozen=True, eq=False)
class Draw:
    """The learning items, and the drawn item of every unit.

    Attributes:
        learning: (n,) whether an item belongs to a learning unit.
        one: (n,) whether it is the drawn item of its unit.
        chance: (n,) probability with which the design draws each item.
        learning_units: number of learning units.
        tested_units: number of other units.
    """

    learning: BoolArray
    one: BoolArray
    chance: FloatArray
    learning_units: int
    tested_units: int

    @property
    def tested(self) -> BoolArray:
        """(n,) whether an item is the drawn item of a unit that is not a learning unit."""
        return self.one & ~self.learning

    @classmethod
    def of(cls, items: GateItems) -> Draw:
        """Draw from items."""
        units = items.units
        code = units.codes.astype(np.int64)
        words = np.array([_words(name) for name in units.texts.to_list()], dtype=np.int64)
        words = words.reshape(-1, 2)
        learns = words[:, 0] % LEARNING_SHARE == 0
        sizes = np.bincount(code, minlength=len(units))
        slots = sizes if items.counting == "families" else np.full_like(sizes, sizes.max(initial=1))
        slot = words[:, 1] * slots // _WORD
        order = np.lexsort((items.ids.astype(np.str_), code))
        place = np.empty(code.size, dtype=np.int64)
        place[order] = np.arange(code.size) - (np.cumsum(sizes) - sizes)[code[order]]
        learning = learns[code]
        return cls(
            learning=learning,
            one=np.asarray(place == slot[code]),
            chance=1 / slots[code],
            learning_units=int(learns.sum()),
            tested_units=int((~learns).sum()),
        )


def _words(name: str) -> tuple[int, int]:
    """Return two independent 32-bit numbers from a name."""
    text = f"{_SALT}\0{name}".encode("utf-8", errors="surrogatepass")
    number = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return number // _WORD, number % _WORD
