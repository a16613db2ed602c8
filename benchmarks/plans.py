"""Success rates of plans of `thresholds`, on resampled families and on new ones.

    python benchmarks/plans.py --run runs/demo-pact [--target 0.1] [--draws 200] [--seed 0]
    python benchmarks/plans.py [--runs 50] [--cases 0 1]

With `--run`, the families of the run are drawn with replacement, as many as its plan says, and
gates are chosen on them by `choose_gate`: `right` is the share of the draws with a gate. Without
it, runs of models whose truth is known (`coverage_thresholds.py`) are drawn and planned, and the
chance of a gate on new families of the model is that of draws of each number of families.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from common import chosen_options, markdown_table, publish
from coverage_thresholds import MODELS, Model, draw, gate_items

from pact_eval._typing import FloatArray, IntArray
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.choice import gate_items as items_of_run
from pact_eval.thresholds.choice import rule_of, run_with_answers
from pact_eval.thresholds.gate_items import GateItems
from pact_eval.thresholds.plans import families_needed
from pact_eval.thresholds.sequence import choose_gate
from pact_eval.thresholds.targets import Target

CONFIDENCE: Final = 0.95
SIZES: Final = np.unique((40 * 1.35 ** np.arange(17)).astype(np.int64))
CASES: Final = ((0, 0.05), (2, 0.1), (4, 0.1), (5, 0.1))
"""Models by their place, and the target of their gates."""


def resampled(items: GateItems, families: int, rng: np.random.Generator) -> GateItems:
    """Draw families with replacement and give them new names."""
    code = items.units.codes
    sizes = np.bincount(code)
    order, starts = np.argsort(code, kind="stable"), np.cumsum(sizes) - sizes
    drawn = rng.integers(sizes.size, size=families)
    rows = np.concatenate([order[starts[at] : starts[at] + sizes[at]] for at in drawn])
    names = [f"{number}-{rng.integers(2**40)}" for number in range(families)]
    unit = np.array(names, dtype=np.object_).repeat(sizes[drawn])
    ids = np.arange(rows.size).astype(np.str_).astype(np.object_)
    return GateItems(ids, unit, unit, items.sureness[rows], items.wrong[rows], items.counting)


def has_gate(items: GateItems, target: float) -> bool:
    """Return whether a gate is guaranteed."""
    return choose_gate(items, Target.of_error(target), CONFIDENCE).threshold is not None


def plan_of_run(run: Path, target: float, draws: int, seed: int) -> str:
    """Return a line: the plan of a run, and how often it is right for resampled families."""
    settings = Settings()
    source = run_with_answers(run, settings)
    items, _ = items_of_run(source, rule_of(source, "top", "all", settings))
    needed = families_needed(items, Target.of_error(target), CONFIDENCE)
    if needed is None:
        return f"{run}: no number"
    rng = np.random.default_rng(seed)
    right = sum(has_gate(resampled(items, needed, rng), target) for _ in range(draws))
    return f"{run}: {needed:,} families; right in {right} of {draws} draws"


def true_chances(model: Model, target: float, rng: np.random.Generator, draws: int) -> FloatArray:
    """Return the chance of a gate with each of `SIZES` families."""
    chances: list[float] = []
    for families in SIZES:
        if chances and (chances[-1] > 0.98 or "hopeless" in model.name):
            chances.append(chances[-1])
            continue
        gates = [
            has_gate(gate_items(draw(model, rng, int(families))), target) for _ in range(draws)
        ]
        chances.append(float(np.mean(gates)))
    return np.maximum.accumulate(chances)


def row(model: Model, target: float, families: int, chances: FloatArray, runs: int) -> list[str]:
    """Return one row: the plans of runs without a gate."""
    rng, plans, planned = np.random.default_rng(families), [], 0
    for _ in range(runs):
        items = gate_items(draw(model, rng, families))
        if has_gate(items, target):
            continue
        planned += 1
        plans.append(families_needed(items, Target.of_error(target), CONFIDENCE))
    numbers: IntArray = np.array([plan for plan in plans if plan is not None], dtype=np.int64)
    enough = np.interp(0.8, chances, SIZES) if chances[-1] >= 0.8 else None
    cells = ["-", "-"]
    if numbers.size:
        chance = np.interp(numbers, SIZES, chances).mean()
        middle = " to ".join(f"{end:,.0f}" for end in np.percentile(numbers, [25, 75]))
        cells = [middle, f"{100 * chance:.0f}"]
    return [
        model.name,
        f"{target:.0%}",
        "never" if enough is None else f"{enough:,.0f}",
        f"{families:,}",
        f"{planned - numbers.size} of {planned}",
        *cells,
    ]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Lay out the rows."""
    head = ["model", "target", "enough in truth", "families of the run", "no number"]
    return markdown_table([*head, "number: middle half", "chance of a gate (%)"], rows)


def main() -> None:
    """Print the plan of a run, or the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--target", type=float, default=0.1)
    parser.add_argument("--draws", type=int, default=200, help="of the families of --run")
    parser.add_argument("--new", type=int, default=100, help="draws of each number of families")
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)), help="from 0")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = chosen_options(parser, cases=[2], runs=1, draws=1, new=1)
    if chosen.run is not None:
        line = plan_of_run(chosen.run, chosen.target, chosen.draws, chosen.seed)
        sys.stdout.write(f"{line}\n")
        return
    rows = []
    for case in chosen.cases:
        place, target = CASES[case]
        model = MODELS[place]
        rng = np.random.default_rng(chosen.seed)
        chances = true_chances(model, target, rng, chosen.new)
        for families in (60, 160):
            rows.append(row(model, target, families, chances, chosen.runs))
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    publish("plans", table(rows), chosen.write)


if __name__ == "__main__":
    main()
