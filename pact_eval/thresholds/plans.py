r"""Number of families with which a gate is likely to be guaranteed.

A plan repeats the choice (`sequence.py`) with families that are resampled from those of the run: a
fifth of them are learning families and fix the first gate that is tested, the others test it. The
chance of a gate is the mean, over resampled learning families, of the power of this exact test. The
plan is the smallest number of families with a chance of 4 in 5.

A run looks better than its model: of many gates, the one that looks best is lucky, too. In a plan,
every gate therefore accepts one more wrong and one more right item. And a gate may be luck alone.
If the error of all items is above the target, there is a number only if the run shows, at 5%, that
surer answers are right more often.

References:
    Davison and Hinkley, "Bootstrap methods and their application", 1997, section 4.6, for power by
    resampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval._typing import BoolArray, FloatArray
from pact_eval.stats.binomial import critical_count, p_value_below, trials_needed
from pact_eval.thresholds.gate_items import LEARNING_SHARE, GateItems
from pact_eval.thresholds.sequence import chance_to_pass, first_test, gates_of
from pact_eval.thresholds.targets import Target

CHANCE: Final = 0.8
"""Chance of a gate with the number of families of a plan."""

MOST_FAMILIES: Final = 1_000_000
"""Plans with more families are not made."""

_STEP: Final = 1.03
_RESAMPLES: Final = 64
_GATES: Final = 50
_SHARES: Final = 8
_SEED: Final = 1
_ADDED: Final = 0.75
_SIGNIFICANT: Final = 1.645


def families_needed(items: GateItems, target: Target, confidence: float) -> int | None:
    """Return the number of families with which a gate is likely to be guaranteed.

    Args:
        items: the items of some families; more families are assumed to be like these.
        target: what the gate must keep.
        confidence: of the guarantee.

    Returns:
        Families with which the chance is 80%, learning families included. None if every gate
        seems to miss the target, if nothing shows that a gate has a lower error than all items, or
        if a million families would not do.
    """
    if len(items.units) < 2:
        return None
    level = 1 - confidence
    if not target.limits_error:
        return _for_escalation(items, target, level)
    if not (_keeps_without_gate(items, target) or surer_is_better(items)):
        return None
    plan = _Plan.of(items, target.rate, level)
    steps = int(np.log(MOST_FAMILIES / LEARNING_SHARE) / np.log(_STEP))
    sizes = np.unique(np.ceil(LEARNING_SHARE * _STEP ** np.arange(steps + 1)).astype(np.int64))
    low, high = -1, len(sizes) - 1
    if plan.chance(int(sizes[high])) < CHANCE:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = plan.chance(int(sizes[middle])) >= CHANCE
        low, high = (low, middle) if enough else (middle, high)
    return int(sizes[high])


def surer_is_better(items: GateItems) -> bool:
    """Return whether a run shows, at 5%, that surer answers are right more often.

    Tests the covariance of the rank of the sureness and of being right, with families as units.

    Args:
        items: items of two families or more.
    """
    answered = items.taken(items.sureness > -np.inf)
    if len(answered) < 2:
        return False
    _, code, counts = np.unique(answered.sureness, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[code]
    right = ~answered.wrong - (~answered.wrong).mean()
    of_family = np.bincount(answered.units.codes, weights=(rank - rank.mean()) * right)
    spread = np.sqrt((of_family**2).sum())
    return bool(of_family.sum() > _SIGNIFICANT * spread) and bool(spread > 0)


def _keeps_without_gate(items: GateItems, target: Target) -> bool:
    accepted = items.accepted(-np.inf)
    wrong, n = int((accepted & items.wrong).sum()), int(accepted.sum())
    return (wrong + _ADDED) / (n + 2 * _ADDED) < target.rate


def _for_escalation(items: GateItems, target: Target, level: float) -> int | None:
    """Return the families for the loosest gate, which is tested first."""
    chance = items.draw.chance
    escalated = float(chance[~items.accepted(-np.inf)].sum())
    rate = (escalated + 0.5) / (chance.sum() + 1)
    trials = trials_needed(float(rate), target.rate, level) if rate < target.rate else None
    if trials is None:
        return None
    per_family = chance.sum() / len(items.units)
    return int(np.ceil(trials / per_family * LEARNING_SHARE / (LEARNING_SHARE - 1)))


@dataclass(frozen=True, eq=False)
class _Plan:
    """Sums per family that resampling needs.

    Attributes:
        accepted: (F, G) items of each family that each gate accepts.
        wrong: (F, G) those of them that are wrong, with a part of the added ones.
        drawn: (F, G) chance that the drawn item of each family is accepted.
        error: (G,) error among the accepted drawn items, with the added ones.
        rate: the target.
        level: of the test.
    """

    accepted: FloatArray
    wrong: FloatArray
    drawn: FloatArray
    error: FloatArray
    rate: float
    level: float

    @classmethod
    def of(cls, items: GateItems, rate: float, level: float) -> _Plan:
        """Count what gates at equal shares of the items accept."""
        gates = gates_of(items)
        gates = gates[np.unique(np.linspace(0, len(gates) - 1, _GATES).round().astype(int))]
        passed = np.array([items.accepted(gate) for gate in gates])
        wrong = passed & items.wrong
        chance = items.draw.chance
        n, errors = passed.sum(axis=1), wrong.sum(axis=1)
        added = (errors + _ADDED) / (n + 2 * _ADDED) - errors / np.maximum(n, 1)
        drawn_error = (wrong @ chance) / np.maximum(passed @ chance, 1e-12)
        accepted = _by_family(items, passed)
        return cls(
            accepted=accepted,
            wrong=_by_family(items, wrong) + accepted * added,
            drawn=_by_family(items, passed * chance),
            error=(n * drawn_error + _ADDED) / (n + 2 * _ADDED),
            rate=rate,
            level=level,
        )

    def chance(self, families: int) -> float:
        """Return the chance that so many families give a gate."""
        learning = families // LEARNING_SHARE
        tested = families - learning
        share = np.full(len(self.accepted), 1 / len(self.accepted))
        draws = np.random.default_rng(_SEED).multinomial(learning, share, size=_RESAMPLES)
        n, wrong, drawn = (
            draws @ per_family for per_family in (self.accepted, self.wrong, self.drawn)
        )
        trials = np.floor(tested * drawn / max(learning, 1)).astype(np.int64)
        critical = critical_count(trials, self.rate, self.level)
        at = first_test(chance_to_pass(n, np.maximum(wrong, 0), trials, critical, _SHARES))
        return float(self._power(tested, self.drawn.mean(axis=0)[at], self.error[at]).mean())

    def _power(self, tested: int, share: FloatArray, error: FloatArray) -> FloatArray:
        """Return the power of the tests of gates, over how many drawn items they accept."""
        from scipy import stats

        middles = (np.arange(_SHARES) + 0.5) / _SHARES
        trials = np.asarray(stats.binom.ppf(middles, tested, share[:, None]), dtype=np.int64)
        critical = critical_count(trials, self.rate, self.level)
        power = p_value_below(np.maximum(critical, 0), trials, error[:, None])
        return np.asarray(np.where(critical < 0, 0.0, power), dtype=np.float64)


def _by_family(items: GateItems, of_gates: FloatArray | BoolArray) -> FloatArray:
    """Return (F, G) sums over the items of each family, from (G, n)."""
    code, families = items.units.codes, len(items.units)
    return np.array([np.bincount(code, weights=sums, minlength=families) for sums in of_gates]).T
