"""Error rates and power of the gate of drift, by simulation.

    python benchmarks/coverage_margins.py [--sets 1000] [--seed 0] [--write docs/drift.md]

*Same items*: pairs of items of which a share differs between two runs; in half of the families,
the second member differs as the first does. *Other items*: two samples of families whose members
share a difficulty, of nine kinds x domains; the second sample has another mix.

- At the margin, exit code 0 is an error; so is exit code 3, since the change is not beyond it.
- Without a change, exit code 3 is an error, and exit code 0 is the power.
- At twice the margin, exit code 0 is an error, and exit code 3 is the power.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from common import chosen_options, markdown_table, publish

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from paired_runs import Pairs

from pact_eval.stats.estimate import Estimate
from pact_eval.stats.margins import MarginTest, margin_test
from pact_eval.stats.proportions import rate_estimate
from pact_eval.stats.rate_decomposition import GroupedOutcomes, mix_shift
from pact_eval.stats.rate_differences import paired_rates
from pact_eval.stats.summed_intervals import summed_interval

FAMILIES: Final = (30, 162, 500, 2_000)
SHARES: Final = (0.03, 0.10, 0.20)
MARGINS: Final = (0.02, 0.05)
CODES: Final = {"equivalent": 0, "changed": 3, "cannot tell": 4}
CELLS: Final = 9


def same_items(
    families: int, share: float, change: float, margin: float, rng: np.random.Generator
) -> MarginTest:
    """Test one draw of two runs on the same pairs."""
    drawn = Pairs(families, max(share, abs(change)), change, copies=0.5).draw(rng)
    lead = drawn.a.astype(np.int64) - drawn.b
    return margin_test(paired_rates(lead, drawn.family, families).estimate(), margin)


def sample(
    families: int, mix: np.ndarray, change: float, rng: np.random.Generator, start: int
) -> GroupedOutcomes:
    """Draw families of two; a harder kind x domain has a lower accuracy."""
    cell = rng.choice(CELLS, families, p=mix).repeat(2)
    shared = rng.normal(0, 0.15, families).repeat(2)
    chance = 0.9 - 0.04 * cell + change + shared
    right = rng.random(2 * families) < np.clip(chance, 0, 1)
    return GroupedOutcomes(right.astype(np.float64), cell, (start + np.arange(families)).repeat(2))


def true_rates(change: float) -> np.ndarray:
    """Return the true accuracy of each kind x domain."""
    shared = np.random.default_rng(5).normal(0, 0.15, 400_000)
    chances = 0.9 - 0.04 * np.arange(CELLS)[:, None] + change + shared
    return np.asarray(np.clip(chances, 0, 1).mean(axis=1))


def other_items(a: GroupedOutcomes, b: GroupedOutcomes, margin: float) -> MarginTest:
    """Test two samples as `pact_eval.drift` does."""

    def rate(one: GroupedOutcomes) -> Estimate:
        first = one.cluster - one.cluster.min()
        return rate_estimate(np.bincount(first, one.positive), np.bincount(first))

    before, after = rate(a), rate(b)
    clusters = min(before.clusters, after.clusters)
    low, high = summed_interval(
        [1, -1],
        [after.value, before.value],
        [after.low, before.low],
        [after.high, before.high],
        np.eye(2),
        n_clusters=clusters,
    ).at(0.95)
    value, n = after.value - before.value, before.n + after.n
    return margin_test(Estimate(value, low, high, n, clusters, "MOVER"), margin)


def counted(draw: Callable[[], MarginTest], sets: int) -> Counter[int]:
    """Count the exit codes of many draws."""
    return Counter(CODES[draw().finding] for _ in range(sets))


def paired_rows(sets: int, seed: int) -> list[list[str]]:
    """Return one row for each number of families, share and margin."""
    rows = []
    for families in FAMILIES:
        for margin in MARGINS:
            for share in SHARES:
                rng = np.random.default_rng([seed, families, round(1000 * share)])
                draw = partial(same_items, families, share, margin=margin, rng=rng)
                none, at, twice = (
                    counted(partial(draw, size * margin), sets) for size in (0, 1, 2)
                )
                cells = (none[0], none[3], at[0], at[3], twice[0], twice[3])
                row = [f"{families:,}", f"{100 * margin:g}", f"{100 * share:g}"]
                row += [f"{100 * n_draws / sets:.1f}" for n_draws in cells]
                rows.append(row)
                sys.stderr.write(" | ".join(rows[-1]) + "\n")
    return rows


def mix_rows(sets: int, seed: int) -> list[list[str]]:
    """Return the coverage of the parts of a change, and the errors of the gate at its margin."""
    even = np.full(CELLS, 1 / CELLS)
    tilted = np.arange(1, CELLS + 1) / np.arange(1, CELLS + 1).sum()
    rows = []
    for families in FAMILIES:
        for name, mix, change in (
            ("neither", even, 0.0),
            ("mix", tilted, 0.0),
            ("within", even, -0.05),
            ("both", tilted, -0.05),
        ):
            rng = np.random.default_rng([seed, families, round(-100 * change)])
            before, after = true_rates(0.0), true_rates(change)
            truth = {
                "mix": float((mix - even) @ (before + after) / 2),
                "within": float((after - before) @ (even + mix) / 2),
            }
            total = abs(truth["mix"] + truth["within"])
            held = dict.fromkeys(truth, 0)
            findings: Counter[int] = Counter()
            for _ in range(sets):
                a = sample(families, even, 0.0, rng, 0)
                b = sample(families, mix, change, rng, families)
                parts = mix_shift(a, b, groups=CELLS, clusters=2 * families)
                for part, true in truth.items():
                    estimate = getattr(parts, part)
                    held[part] += bool(estimate.low <= true <= estimate.high)
                findings[CODES[other_items(a, b, total or 0.05).finding]] += 1
            coverage = [f"{100 * held[part] / sets:.1f}" for part in truth]
            stated = [f"{100 * truth[part]:+.1f}" for part in truth]
            errors = [f"{100 * findings[0] / sets:.1f}" if total else "–"]
            errors.append(f"{100 * findings[3] / sets:.1f}")
            rows.append([f"{families:,}", name, *stated, *coverage, *errors])
            sys.stderr.write(" | ".join(rows[-1]) + "\n")
    return rows


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, metavar="FILE")
    chosen = chosen_options(parser, sets=1)
    error = 100 * (0.05 * 0.95 / chosen.sets) ** 0.5
    head = ["families", "margin (points)", "answers that differ (%)"]
    head += ["no change: exit 0", "exit 3", "at the margin: exit 0", "exit 3"]
    head += ["twice the margin: exit 0", "exit 3"]
    caption = f"{chosen.sets:,} draws per row; % of draws (standard error of 5%: {error:.1f})."
    paired = markdown_table(head, paired_rows(chosen.sets, chosen.seed))
    publish("margins", f"{paired}\n\n{caption}", chosen.write)
    head = ["families each", "what changed", "mix (points)", "within (points)"]
    head += ["mix covered (%)", "within covered (%)", "at the margin: exit 0 (%)", "exit 3 (%)"]
    mixed = markdown_table(head, mix_rows(chosen.sets, chosen.seed))
    note = "Coverage of 95% intervals; without a change, the margin is 5 points."
    publish("mix", f"{mixed}\n\n{caption} {note}", chosen.write)


if __name__ == "__main__":
    main()
