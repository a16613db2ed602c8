"""Error rates of gates: guaranteed thresholds, peers, and the naive choice, by simulation.

    python benchmarks/coverage_thresholds.py [--sets 1000] [--seed 0] [--write FILE.md]

`coverage_thresholds.md` next to this file has the last table.

Families have two members, or one to four. The members of a family share a difficulty, and in half
of the families the luck of all members. A model is more or less able, and its confidence says the
truth, too much, little, one of few numbers, or the opposite for its surest items. Every split is a
new draw of families. The true error of a gate is that of a population of 400,000 families, by the
chances of its items.

- `ours`: the tests of `pact_eval.thresholds.choose_gate`, on one item per family.
- `Bonferroni`: on a grid of gates, the Clopper-Pearson bound of one item per family at
  (1 - confidence) / gates.
- `SafeDecide`: its `calibrate_selective`, on all items. It needs torch.
- `MAPIE`: its `BinaryClassificationController` of the precision, as it is by default, on all items.
- `naive`: the loosest gate whose error on the same items is at most the target.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from common import NOT_MEASURED, chosen_options, installed, markdown_table, publish, versions

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats.rates import p_value_below
from pact_eval.thresholds.gates import Target, ranked_tests

FAMILIES: Final = (100, 200, 400, 1_000)
CONFIDENCE: Final = 0.95
GRID: Final = 20
PEERS_EVERY: Final = 25
"""Peers choose on every 25th draw: they take longer."""
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
        noise: standard deviation of what the logit of the confidence has beside the truth.
        sharpness: what that logit is multiplied by.
        digits: of the confidence.
    """

    name: str
    ability: float
    shared: float = 1.0
    luck: float = 0.5
    sizes: tuple[int, ...] = (2,)
    odd: float = 0.0
    noise: float = 0.5
    sharpness: float = 1.0
    digits: int = 12


MODELS: Final = (
    Model("calibrated, 89% right", 2.8),
    Model("calibrated, families of one", 2.8, sizes=(1,)),
    Model("calibrated, copies", 2.8, shared=1.6, luck=1.0),
    Model("71% right", 1.2),
    Model("71% right, families of 1 to 4", 1.2, sizes=(1, 2, 3, 4)),
    Model("over-confident, 89% right", 2.8, sharpness=4.0, digits=4),
    Model("coarse: one digit", 2.8, digits=1),
    Model("flat: 92% right", 3.2, noise=8.0),
    Model("flat: 89% right", 2.8, noise=8.0),
    Model("sure of some errors", 2.8, odd=0.04),
    Model("56% right", 0.25, shared=0.2),
)
CASES: Final = (*((model, 0.1) for model in MODELS), (MODELS[0], 0.05), (MODELS[5], 0.05))
"""Models, and the target of their gates."""


@dataclass(frozen=True)
class Sample:
    """Items of families: (n,) family, confidence, chance to be wrong, whether wrong, and drawn."""

    family: IntArray
    sureness: FloatArray
    chance: FloatArray
    wrong: npt.NDArray[np.bool_]
    drawn: npt.NDArray[np.bool_]


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
    says = np.where(odd, 3.5 + rng.normal(size=n), logit + model.noise * rng.normal(size=n))
    sureness = np.round(1 / (1 + np.exp(-model.sharpness * says)), model.digits)
    draws = np.where(same[family], luck[family], rng.random(n))
    first = np.cumsum(size) - size
    drawn = np.zeros(n, dtype=np.bool_)
    drawn[first + (rng.random(families) * size).astype(np.int64)] = True
    return Sample(family, sureness, chance, draws < chance, drawn)


class Population:
    """The true error and coverage of every gate."""

    def __init__(self, model: Model) -> None:
        sample = draw(model, np.random.default_rng(7), POPULATION)
        order = np.argsort(-sample.sureness)
        self.sureness = sample.sureness[order]
        self._error = np.cumsum(sample.chance[order]) / np.arange(1, order.size + 1)
        self._ends = np.append(self.sureness[:-1] > self.sureness[1:], True)

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
        kept = np.flatnonzero((self._error <= target) & self._ends)
        return float(kept[-1] + 1) / self._error.size if kept.size else 0.0


@cache
def population_of(model: Model) -> Population:
    """Return the population of a model, drawn once."""
    return Population(model)


Choice = Callable[[Sample, float], float | None]
"""A way to choose: the gate for a sample and a target, or None."""


def naive(sample: Sample, target: float) -> float | None:
    """Return the loosest gate whose error on the same items is at most the target."""
    order = np.argsort(-sample.sureness)
    error = np.cumsum(sample.wrong[order]) / np.arange(1, order.size + 1)
    kept = np.flatnonzero(error <= target)
    return float(sample.sureness[order[kept[-1]]]) if kept.size else None


def bonferroni(sample: Sample, target: float) -> float | None:
    """Return the loosest gate of a grid whose corrected bound is at most the target."""
    grid = np.quantile(sample.sureness, 1 - np.arange(1, GRID + 1) / GRID)
    accepted = (sample.sureness >= grid[:, None]) & sample.drawn
    wrong = (accepted & sample.wrong).sum(axis=1)
    passed = p_value_below(wrong, accepted.sum(axis=1), target) <= (1 - CONFIDENCE) / len(grid)
    return float(grid[passed].min()) if passed.any() else None


def ours(sample: Sample, target: float) -> float | None:
    """Return the gate of this package."""
    sureness, wrong = sample.sureness[sample.drawn], sample.wrong[sample.drawn]
    order = np.argsort(-sureness, kind="stable")
    target_error = Target.of_error(target)
    tests = ranked_tests(sureness[order], wrong[order], target_error, 1 - CONFIDENCE)
    return float(tests.gates[tests.passed][-1]) if tests.passed.any() else None


def safedecide(sample: Sample, target: float) -> float | None:
    """Return the gate of SafeDecide."""
    choose = import_module("safedecide.conformal").calibrate_selective
    rule = choose(sample.sureness, ~sample.wrong, alpha=target, delta=1 - CONFIDENCE)
    return None if np.isinf(rule.threshold) else float(rule.threshold)


def mapie(sample: Sample, target: float) -> float | None:
    """Return the gate of MAPIE: "right" is what is predicted, so its precision is 1 - error."""
    control = import_module("mapie.risk_control")
    controller = control.BinaryClassificationController(
        predict_function=lambda sureness: np.c_[1 - sureness, sureness],
        risk=control.precision,
        target_level=1 - target,
        confidence_level=CONFIDENCE,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        controller.calibrate(sample.sureness, (~sample.wrong).astype(int))
    best = controller.best_predict_param
    return None if best is None else float(best)


PEERS: Final[Mapping[str, tuple[str, Choice]]] = {
    "SafeDecide": ("safedecide", safedecide),
    "MAPIE": ("mapie", mapie),
}
"""Peers by name: the distribution, and how it chooses."""

CHOICES: Final[Mapping[str, Choice]] = {
    "ours": ours,
    "Bonferroni": bonferroni,
    **{name: choose for name, (package, choose) in PEERS.items() if installed(package)},
    "naive": naive,
}


def row(model: Model, families: int, target: float, sets: int, seed: int) -> list[str]:
    """Return one row: for each way of choosing, what its gates are like."""
    population = population_of(model)
    rng = np.random.default_rng([seed, families, round(1000 * target)])
    gates: dict[str, list[float | None]] = {name: [] for name in CHOICES}
    for number in range(sets):
        sample = draw(model, rng, families)
        for name, choose in CHOICES.items():
            if name not in PEERS or number % PEERS_EVERY == 0:
                gates[name].append(choose(sample, target))
    columns = []
    for chosen in gates.values():
        none = np.mean([gate is None for gate in chosen])
        covered = np.mean([population.coverage(gate) for gate in chosen])
        broken = np.mean([gate is not None and population.error(gate) > target for gate in chosen])
        columns.append(f"{100 * none:.0f}, {100 * covered:.1f}, **{100 * broken:.1f}**")
    best = f"{100 * population.most(target):.0f}"
    return [model.name, f"{target:.0%}", f"{families:,}", best, *columns]


def table(rows: Sequence[Sequence[str]], sets: int) -> str:
    """Lay out the rows."""
    head = ["model", "target", "families", "best possible", *CHOICES]
    missing = [f"{name}: {NOT_MEASURED}." for name in PEERS if name not in CHOICES]
    packages = versions("numpy", "scipy", *(package for package, _ in PEERS.values()))
    drawn = f"{sets:,} draws of families per row, for peers every 25th; {packages}."
    notes = " ".join([drawn, *missing])
    return f"{markdown_table(head, rows)}\n\n{notes}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--families", type=int, nargs="+", default=FAMILIES, help="of a draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = chosen_options(parser, sets=1, families=[100])
    rows = []
    for model, target in CASES:
        for families in chosen.families:
            rows.append(row(model, families, target, chosen.sets, chosen.seed))
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    publish("thresholds", table(rows, chosen.sets), chosen.write)


if __name__ == "__main__":
    main()
