"""Error rates of gates: guaranteed thresholds, peers, and the naive choice, by simulation.

    python benchmarks/coverage_thresholds.py [--sets 1000] [--seed 0] [--write FILE.md]

`coverage_thresholds.md` next to this file has the last table.

Families have two members, or one to four. The members of a family share a difficulty, and in half
of the families the luck of all members. A model is more or less able, and its sureness says the
truth, too much, or the opposite for its surest items. Every split is a new draw of families. The
true error of a gate is that of a population of 400,000 families, by the chances of its items.

- `naive`: the loosest gate whose error on the same items is at most the target.
- `Bonferroni`: on a grid of gates, the Clopper-Pearson bound of one item per family at
  (1 - confidence) / gates. All families count, since there is nothing to learn.
- `ours`: `pact_eval.thresholds.choose_gate`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from common import chosen_options, markdown_table, publish

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats.proportions import p_value_below
from pact_eval.thresholds.gates import GateItems, Target, choose_gate

FAMILIES: Final = (120, 1_000)
CONFIDENCE: Final = 0.95
GRID: Final = 20
POPULATION: Final = 400_000


@dataclass(frozen=True)
class Model:
    """A model and its families.

    Attributes:
        name: what it is like.
        ability: the mean logit of the chance to be right.
        shared: standard deviation of the logits that the members of a family share.
        luck: share of families whose members are right or wrong by the same draw.
        sizes: numbers of members, equally frequent.
        odd: share of items that are wrong more often than right, and look sure.
    """

    name: str
    ability: float
    shared: float = 1.0
    luck: float = 0.5
    sizes: tuple[int, ...] = (2,)
    odd: float = 0.0


MODELS: Final = (
    Model("easy: 88% right", 2.8),
    Model("easy, copies", 2.8, shared=1.6, luck=1.0),
    Model("hard: 70% right", 1.2),
    Model("hard, families of 1 to 4", 1.2, sizes=(1, 2, 3, 4)),
    Model("sure of some errors", 2.8, odd=0.04),
    Model("hopeless: 55% right", 0.25, shared=0.2),
)
CASES: Final = (*((model, 0.1) for model in MODELS), (MODELS[0], 0.05))
"""Models, and the target of their gates."""


@dataclass(frozen=True)
class Sample:
    """Items of families: (n,) family, sureness, chance to be wrong, whether wrong."""

    family: IntArray
    sureness: FloatArray
    chance: FloatArray
    wrong: npt.NDArray[np.bool_]


def draw(model: Model, rng: np.random.Generator, families: int) -> Sample:
    """Draw families of a model."""
    size = rng.choice(model.sizes, families)
    family = np.arange(families).repeat(size)
    n = family.size
    own = 0.5 if model.shared < 0.5 else 1.0
    if model.luck == 1:
        own = 0.2
    common, luck = rng.normal(size=families), rng.random(families)
    same = rng.random(families) < model.luck
    logit = model.ability + model.shared * common[family] + own * rng.normal(size=n)
    odd = rng.random(n) < model.odd
    chance = np.where(odd, 0.6, 1 / (1 + np.exp(logit)))
    sureness = np.where(odd, 3.5 + rng.normal(size=n), logit + 0.5 * rng.normal(size=n))
    draws = np.where(same[family], luck[family], rng.random(n))
    return Sample(family, sureness, chance, draws < chance)


class Population:
    """The true error and coverage of every gate."""

    def __init__(self, model: Model) -> None:
        sample = draw(model, np.random.default_rng(7), POPULATION)
        order = np.argsort(-sample.sureness)
        self.sureness = sample.sureness[order]
        self._error = np.cumsum(sample.chance[order]) / np.arange(1, order.size + 1)

    def accepted(self, threshold: float) -> int:
        """Return how many items a gate accepts."""
        return int(np.searchsorted(-self.sureness, -threshold, side="right"))

    def error(self, threshold: float) -> float:
        """Return the true error among accepted items; 0 if none is."""
        n = self.accepted(threshold)
        return float(self._error[n - 1]) if n else 0.0

    def coverage(self, threshold: float | None) -> float:
        """Return the true share of accepted items; 0 without a gate."""
        return 0.0 if threshold is None else self.accepted(threshold) / self.sureness.size

    def most(self, target: float) -> float:
        """Return the largest coverage of a gate that keeps the target."""
        kept = np.flatnonzero(self._error <= target)
        return float(kept[-1] + 1) / self._error.size if kept.size else 0.0


def naive(items: GateItems, target: float) -> float | None:
    """Return the loosest gate whose error on the same items is at most the target."""
    order = np.argsort(-items.sureness)
    error = np.cumsum(items.wrong[order]) / np.arange(1, order.size + 1)
    kept = np.flatnonzero(error <= target)
    return float(items.sureness[order[kept[-1]]]) if kept.size else None


def bonferroni(
    items: GateItems, first: npt.NDArray[np.bool_], grid: FloatArray, target: float
) -> float | None:
    """Return the loosest gate of a grid whose corrected bound is at most the target."""
    accepted = (items.sureness >= grid[:, None]) & first
    wrong = (accepted & items.wrong).sum(axis=1)
    passed = p_value_below(wrong, accepted.sum(axis=1), target) <= (1 - CONFIDENCE) / len(grid)
    return float(grid[passed].min()) if passed.any() else None


def one_of_each(family: IntArray, largest: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return (n,) whether an item is the drawn one: a slot of its family, as in `choose_gate`."""
    sizes = np.bincount(family)
    place = np.arange(family.size) - (np.cumsum(sizes) - sizes)[family]
    return np.asarray(place == rng.integers(0, largest, sizes.size)[family])


def gate_items(sample: Sample) -> GateItems:
    """Return a sample as a gate sees it."""
    unit = sample.family.astype(np.str_).astype(np.object_)
    ids = np.arange(unit.size).astype(np.str_).astype(np.object_)
    return GateItems(ids, unit, unit, sample.sureness, sample.wrong)


def row(model: Model, families: int, target: float, sets: int, seed: int) -> list[str]:
    """Return one row: how often the target is broken, and the coverage, by way of choosing."""
    population = Population(model)
    grid = np.quantile(population.sureness, 1 - np.arange(1, GRID + 1) / GRID)
    rng = np.random.default_rng([seed, families, round(1000 * target)])
    gates_by_rule: dict[str, list[float | None]] = {"naive": [], "Bonferroni": [], "ours": []}
    for _ in range(sets):
        sample = draw(model, rng, families)
        items = gate_items(sample)
        first = one_of_each(sample.family, max(model.sizes), rng)
        gates_by_rule["naive"].append(naive(items, target))
        gates_by_rule["Bonferroni"].append(bonferroni(items, first, grid, target))
        gates_by_rule["ours"].append(
            choose_gate(items, Target.of_error(target), CONFIDENCE).threshold
        )
    broken = {
        name: np.mean([gate is not None and population.error(gate) > target for gate in gates])
        for name, gates in gates_by_rule.items()
    }
    covered = {
        name: np.mean([population.coverage(gate) for gate in gates])
        for name, gates in gates_by_rule.items()
    }
    return [
        model.name,
        f"{target:.0%}",
        f"{families:,}",
        *(f"{100 * broken[name]:.1f}" for name in ("naive", "Bonferroni", "ours")),
        *(f"{100 * covered[name]:.0f}" for name in ("Bonferroni", "ours")),
        f"{100 * population.most(target):.0f}",
    ]


def table(rows: Sequence[Sequence[str]], sets: int) -> str:
    """Lay out the rows."""
    head = ["model", "target", "families", "broken: naive (%)", "Bonferroni (%)", "ours (%)"]
    head += ["coverage: Bonferroni (%)", "ours (%)", "best possible (%)"]
    return f"{markdown_table(head, rows)}\n\n{sets:,} draws of families per row."


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--families", type=int, nargs="+", default=FAMILIES, help="of a draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = chosen_options(parser, sets=1, families=[120])
    rows = []
    for model, target in CASES:
        for families in chosen.families:
            rows.append(row(model, families, target, chosen.sets, chosen.seed))
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    publish("thresholds", table(rows, chosen.sets), chosen.write)


if __name__ == "__main__":
    main()
