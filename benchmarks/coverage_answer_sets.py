"""Coverage of answer sets: one item of each family, all members, whole families, by simulation.

    python benchmarks/coverage_answer_sets.py [--sets 1000] [--seed 0] [--write docs/thresholds.md]

Families have two members, or one to four. Their members share a part of the noise of their logits,
all of it ("copies"), or little. A model is more or less able, and its probabilities are true, or
too sharp. The true coverage of a level is that of a population of 100,000 families.

- `ours`: `pact_eval.thresholds.choose_level`, on average and with a confidence.
- `all members`: every item has a vote; the weighted quantile of Lee, Barber and Willett (2023).
- `whole families`: the score of a family is that of its least sure member.
- `as if independent`: with the confidence, but every item counts as independent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from common import chosen_options, markdown_table, publish

from pact_eval._typing import FloatArray, IntArray
from pact_eval.stats.binomial import critical_count
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.set_levels import answer_sureness, choose_level

FAMILIES: Final = (30, 120, 1_000)
COVERAGE: Final = 0.9
CONFIDENCE: Final = 0.95
POPULATION: Final = 100_000


@dataclass(frozen=True)
class Model:
    """A model and its families.

    Attributes:
        name: what it is like.
        answers: number of answers.
        levels: whether they are ordered; noise is then that of neighbours.
        skill: logit of the right answer above the others.
        shared: share of the variance of the noise that the members of a family have in common.
        sharp: factor of the logits; 1 leaves the probabilities as the noise makes them.
        sizes: numbers of members, equally frequent.
    """

    name: str
    answers: int = 4
    levels: bool = False
    skill: float = 2.0
    shared: float = 0.5
    sharp: float = 1.0
    sizes: tuple[int, ...] = (2,)


MODELS: Final = (
    Model("choice of 4"),
    Model("choice of 4, copies", shared=1.0),
    Model("choice of 4, families of 1 to 4", sizes=(1, 2, 3, 4)),
    Model("choice of 8, too sure", answers=8, skill=1.5, sharp=4.0),
    Model("5 levels", answers=5, levels=True, skill=1.2),
    Model("boolean", answers=2, skill=1.5),
)


@dataclass(frozen=True)
class Sample:
    """Items of families: (n,) family, (n,) sureness of the right answer, (n, C) of each answer."""

    family: IntArray
    right: FloatArray
    sureness: FloatArray


def draw(model: Model, rng: np.random.Generator, families: int) -> Sample:
    """Draw families of a model."""
    size = rng.choice(model.sizes, families)
    family = np.arange(families).repeat(size)
    n, answers = family.size, model.answers
    common = rng.normal(size=(families, answers + 1))[family]
    own = rng.normal(size=(n, answers + 1))
    noise = np.sqrt(model.shared) * common + np.sqrt(1 - model.shared) * own
    reference = (rng.integers(0, answers, families)[family] + np.arange(n)) % answers
    if model.shared == 1:
        reference = rng.integers(0, answers, families)[family]
    places = np.arange(answers)
    if model.levels:
        centre = reference + model.skill * noise[:, -1]
        logits = -0.5 * (places - centre[:, None]) ** 2 + 0.3 * noise[:, :-1]
    else:
        logits = 1.5 * noise[:, :-1]
        logits[np.arange(n), reference] += model.skill + noise[:, -1]
    p = np.exp(model.sharp * (logits - logits.max(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    sureness = answer_sureness(p, np.full(n, answers), np.full(n, model.levels))
    return Sample(family, sureness[np.arange(n), reference], sureness)


class Population:
    """The true coverage and mean size of sets at every level."""

    def __init__(self, model: Model) -> None:
        sample = draw(model, np.random.default_rng(7), POPULATION)
        self._right, self._every = np.sort(sample.right), np.sort(sample.sureness.ravel())

    def coverage(self, level: float | None) -> float:
        """Return the share of items whose set has the right answer; None takes every answer."""
        return 1.0 if level is None else 1 - _below(self._right, level) / self._right.size

    def size(self, level: float | None) -> float:
        """Return the mean size of the sets."""
        least = 0.0 if level is None else level
        return (self._every.size - _below(self._every, least)) / self._right.size


def _below(ordered: FloatArray, level: float) -> int:
    return int(np.searchsorted(ordered, level, side="left"))


def items_of(sample: Sample) -> GateItems:
    """Return a sample as `choose_level` sees it."""
    unit = sample.family.astype(np.str_).astype(np.object_)
    ids = np.arange(unit.size).astype(np.str_).astype(np.object_)
    return GateItems(ids, unit, unit, sample.right, np.zeros(unit.size, dtype=np.bool_))


def levels(model: Model, sample: Sample) -> Mapping[str, float | None]:
    """Return the level of each way to choose one."""
    items, right = items_of(sample), np.sort(sample.right)
    families, largest = int(sample.family[-1]) + 1, max(model.sizes)
    least = np.full(families, np.inf)
    np.minimum.at(least, sample.family, sample.right)
    miss = 1 - COVERAGE
    # A new family of the largest size, of which every item is missed, has a vote as well.
    members = int(np.floor(miss * right.size - COVERAGE * largest + 1e-9))
    return {
        "ours": choose_level(items, COVERAGE).threshold,
        "with confidence": choose_level(items, COVERAGE, CONFIDENCE).threshold,
        "all members": float(right[members]) if members >= 0 else None,
        "whole families": _quantile(
            np.sort(least), int(np.floor(miss * (families + 1) + 1e-9)) - 1
        ),
        "as if independent": _quantile(
            right, int(critical_count(right.size, miss, 1 - CONFIDENCE))
        ),
    }


def _quantile(ordered: FloatArray, missed: int) -> float | None:
    return float(ordered[missed]) if missed >= 0 else None


def row(model: Model, families: int, sets: int, seed: int) -> list[str]:
    """Return one row: coverage of our sets, the share of broken promises, and mean sizes."""
    population = Population(model)
    rng = np.random.default_rng([seed, families, MODELS.index(model)])
    levels_by_rule: dict[str, list[float | None]] = {}
    floors = []
    for _ in range(sets):
        sample = draw(model, rng, families)
        floors.append(choose_level(items_of(sample), COVERAGE).floor)
        for name, level in levels(model, sample).items():
            levels_by_rule.setdefault(name, []).append(level)
    coverage = {
        name: np.array([population.coverage(level) for level in chosen_levels])
        for name, chosen_levels in levels_by_rule.items()
    }
    sizes = {
        name: np.mean([population.size(level) for level in chosen_levels])
        for name, chosen_levels in levels_by_rule.items()
    }
    ours = coverage["ours"]
    broken = {name: 100 * float((shares < COVERAGE).mean()) for name, shares in coverage.items()}
    return [
        model.name,
        f"{families:,}",
        f"{100 * ours.mean():.1f} ± {100 * ours.std() / np.sqrt(sets):.1f}",
        f"{100 * (ours < np.array(floors)).mean():.1f}",
        *(f"{sizes[name]:.2f}" for name in ("ours", "all members", "whole families")),
        f"{broken['as if independent']:.1f}",
        f"{broken['with confidence']:.1f}",
        f"{sizes['with confidence']:.2f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--families", type=int, nargs="+", default=FAMILIES, help="of a draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = chosen_options(parser, sets=1, families=[30])
    rows = []
    for model in MODELS:
        for families in chosen.families:
            rows.append(row(model, families, chosen.sets, chosen.seed))
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    head = ["items", "families", "coverage (%)", "below its floor (%)", "answers per set"]
    head += ["all members", "whole families", "below 90%: as if independent (%)"]
    head += ["with --confidence (%)", "answers per set"]
    text = f"{markdown_table(head, rows)}\n\n{chosen.sets:,} draws of families per row. "
    text += "± is the Monte Carlo error: one standard error of the mean."
    publish("answer-sets", text, chosen.write)


if __name__ == "__main__":
    main()
