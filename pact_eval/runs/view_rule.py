"""The rule by which an adaptive run takes views, and the meaning of its rows.

A run of K views has K rows for every item. An adaptive run takes views one by one and stops early,
so the rows of views that it did not take are absent: an item has its views 0 to t - 1. `k` is then
the most that an item can have. `run.json` has the rule among its settings:

    "views": {"threshold": c or null, "risk": r, "full_share": s, "full_seed": n,
              "decimals": d, only of a server that rounds,
              "fit": {"run": identity of model and prompts, "k", "families", "items"}}

After each view, an item stops if the firmness of its answer (`metrics.stopping`) reaches the
threshold; null takes all views. An order is not asked twice: an item of two answers stops after two
views. The families of a seeded sample get all views, whatever they answer. The stop depends on
answers, so numbers that compare views (view TV, flips, letters) are of this sample alone.

A server that rounds sends 0.00 for a small probability. Its log would be an infinite margin, and
the item would stop. So the rule takes the finite value that the run records (`probabilities.py`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pact_eval._json import Json, finite_number
from pact_eval._typing import BoolArray
from pact_eval.errors import RunError

FULL_SHARE: Final = 0.1
"""Share of the families that get all views."""

_STEPS: Final = 2**64


@dataclass(frozen=True)
class ViewRule:
    """Rule for when the views of an item are enough.

    Attributes:
        threshold: firmness at which an item stops; infinity takes all views.
        risk: share of answers that may differ from those of all views, for which it was chosen.
        full_share: share of the families that get all views, from 0 to 1.
        full_seed: seed of this sample.
        decimals: to how many decimals the server rounds probabilities; None if it does not.
        fit: where the threshold was chosen: run, K, families and items.
    """

    threshold: float
    risk: float
    full_share: float = FULL_SHARE
    full_seed: int = 0
    decimals: int | None = None
    fit: Mapping[str, Json] = field(default_factory=dict)

    def gets_all_views(self, family: str) -> bool:
        """Return whether a family is in the sample that gets all views.

        It depends on the seed and the name of the family alone.

        Examples:
            >>> rule = ViewRule(1.0, 0.02, full_share=0.5)
            >>> [rule.gets_all_views(f"f{number}") for number in range(6)]
            [False, False, True, False, False, False]
        """
        digest = hashlib.sha256(f"{self.full_seed}/{family}".encode()).digest()
        return int.from_bytes(digest[:8]) < self.full_share * _STEPS

    def in_sample(self, families: Iterable[str]) -> BoolArray:
        """Return (n,) which items are of families that get all views."""
        return np.array([self.gets_all_views(str(family)) for family in families], dtype=np.bool_)

    def stops(self, logits: Sequence[Sequence[float]], most: int) -> bool:
        """Return whether an item needs no further view.

        Args:
            logits: (t, C) those of the views so far, in canonical order.
            most: number of views that it can have.

        Examples:
            >>> rule = ViewRule(2.0, 0.02)
            >>> rule.stops([[3.0, 0.0]], 4), rule.stops([[1.0, 0.0]], 4)
            (True, False)
            >>> rule.stops([[1.0, 0.0]], 1)
            True
            >>> views = [[0.0, -math.inf], [math.log(0.4), math.log(0.6)]]  # 1.00 and 0.00, ...
            >>> ViewRule(9.0, 0.02).stops(views, 4), ViewRule(9.0, 0.02, decimals=2).stops(views, 4)
            (True, False)
        """
        # Here, because every reader of a `run.json` imports this module.
        from pact_eval.metrics.stopping import firmness, running_means
        from pact_eval.runs.probabilities import with_censored_zeros

        views = np.asarray(logits, dtype=np.float64)
        if self.decimals is not None:
            views = np.stack([with_censored_zeros(view, self.decimals)[0] for view in views])
        views = views[np.newaxis]
        firm = firmness(running_means(views, [views.shape[2]]), [most])
        return bool(firm[0, -1] >= self.threshold)

    def to_json(self) -> dict[str, Json]:
        """Return the object for `run.json`."""
        return {
            "threshold": None if math.isinf(self.threshold) else self.threshold,
            "risk": self.risk,
            "full_share": self.full_share,
            "full_seed": self.full_seed,
            # Runs that are not rounded keep the settings that they had before this was known.
            **({} if self.decimals is None else {"decimals": self.decimals}),
            "fit": dict(self.fit),
        }

    @classmethod
    def of_json(cls, value: Json, where: str) -> ViewRule | None:
        """Read what `to_json` returned; null or nothing is no rule.

        Raises:
            RunError: a value is missing or out of its range.

        Examples:
            >>> rule = ViewRule(math.inf, 0.02, fit={"k": 4})
            >>> ViewRule.of_json(rule.to_json(), "run.json") == rule
            True
        """
        if value is None:
            return None
        if not isinstance(value, dict):
            raise RunError(f"{where}: expected an object")
        reached = value.get("threshold") is not None
        threshold = _number(value, "threshold", where) if reached else math.inf
        seed, fit = value.get("full_seed"), value.get("fit")
        if not isinstance(seed, int) or isinstance(seed, bool) or not isinstance(fit, dict):
            raise RunError(f"{where}: expected a whole number full_seed and an object fit")
        risk, share = (_number(value, name, where) for name in ("risk", "full_share"))
        if not (0 < risk < 1 and 0 <= share <= 1 and threshold >= 0):
            raise RunError(f"{where}: expected a risk and a full_share within 0 and 1")
        return cls(threshold, risk, share, seed, _decimals(value, where), fit)


def _decimals(value: Mapping[str, Json], where: str) -> int | None:
    decimals = value.get("decimals")
    if decimals is None:
        return None
    if not isinstance(decimals, int) or isinstance(decimals, bool) or decimals < 1:
        raise RunError(f"{where}: decimals: expected a whole number from 1")
    return decimals


def _number(value: Mapping[str, Json], name: str, where: str) -> float:
    number = finite_number(value.get(name))
    if number is None:
        raise RunError(f"{where}: {name}: expected a number")
    return number
