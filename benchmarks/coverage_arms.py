"""False marks of `pact-eval compare`, and coverage of differences between arms, by simulation.

    python benchmarks/coverage_arms.py --sets 200

prints Markdown tables. Data sets have 162 families of two, kinds 73:57:32, 2 to 6 answers and 4
views. Runs share the difficulty of items and families and differ by noise alone, so that nothing
differs in truth.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from pact_eval.evaluation import Comparison, ScoredItems, compare
from pact_eval.evaluation.comparison import adjusted_together
from pact_eval.runs import Predictions
from pact_eval.stats import Resampled, crossed_difference

KINDS = (("choice", 73), ("boolean", 57), ("score", 32))
VIEWS = 4
WIDTH = 6


def null_runs(rng: np.random.Generator, runs: int) -> list[Predictions]:
    """Draw runs of equal quality on one data set; references follow the shared probabilities."""
    kind = np.repeat(*zip(*((name, 2 * families) for name, families in KINDS), strict=True))
    n = len(kind)
    n_choices = np.where(kind == "boolean", 2, rng.integers(2, WIDTH + 1, n))
    used = np.arange(WIDTH) < n_choices[:, None]
    of_family = np.repeat(rng.normal(0, 1, (n // 2, WIDTH)), 2, axis=0)
    shared = of_family + rng.normal(0, 1.5, (n, WIDTH))
    weights = np.where(used, np.exp(shared), 0.0)
    drawn = rng.random(n)[:, None] * weights.sum(axis=1, keepdims=True)
    reference = (np.cumsum(weights, axis=1) < drawn).sum(axis=1)
    order = np.where(used, np.arange(WIDTH), -1)
    names = np.char.add("f", np.repeat(np.arange(n // 2), 2).astype(str))
    return [
        Predictions(
            ids=np.char.add("i", np.arange(n).astype(str)),
            family=names,
            source_family=np.char.add("s", (np.arange(n) // 2 % 18).astype(str)),
            domain=np.char.add("d", (np.arange(n) // 2 % 6).astype(str)),
            kind=kind,
            variant=np.tile(["base", "counterfactual"], n // 2),
            n_choices=n_choices,
            logits=_views(rng, shared, used),
            code_order=np.repeat(order[:, None], VIEWS, axis=1),
            prompt_tokens=np.full(n, 300.0),
            answer_mass=np.ones((n, VIEWS)),
            references=reference,
        )
        for _ in range(runs)
    ]


def _views(rng: np.random.Generator, shared: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Add the noise of a run and of each of its views."""
    noise = rng.normal(0, 0.7, shared.shape)[:, None]
    views = shared[:, None] + noise + rng.normal(0, 0.5, (len(shared), VIEWS, WIDTH))
    return np.where(used[:, None], views, -np.inf)


def write(line: str) -> None:
    """Write a line of a table."""
    sys.stdout.write(f"{line}\n")


def marked(comparisons: tuple[Comparison, ...]) -> Iterator[tuple[str, str, bool]]:
    """Yield group, metric and mark of every difference that may be marked."""
    for comparison in comparisons:
        for group in comparison.groups:
            for name, metric in group.metrics.items():
                if metric.spec.better:
                    yield group.name, name, metric.marked


def false_marks(sets: int, resamples: int, others: int) -> None:
    """Print how often single differences and full outputs are marked when nothing differs."""
    single: Counter[tuple[str, str]] = Counter()
    outputs, adjusted = 0, 0
    for seed in range(sets):
        rng = np.random.default_rng([1, seed])
        first, *rest = (ScoredItems.of(views, "single") for views in null_runs(rng, 1 + others))
        found = tuple(
            compare(first, other, by="kind", rng=np.random.default_rng(seed), resamples=resamples)
            for other in rest
        )
        one = [(group, name) for group, name, is_marked in marked(found) if is_marked]
        single.update(one)
        outputs += bool(one)
        adjusted += any(is_marked for *_, is_marked in marked(adjusted_together(found)))
    groups = ("all", *(name for name, _ in KINDS))
    metrics = list(dict.fromkeys(name for _, name, _ in marked(found)))
    write(
        f"\n{sets} data sets on which {1 + others} runs do not differ, {resamples:,} resamples.\n"
    )
    write(f"| false marks (%) | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}")
    for name in metrics:
        shares = (100 * single[group, name] / (sets * others) for group in groups)
        write(f"| {name} | {' | '.join(f'{share:.1f}' for share in shares)} |")
    write(
        f"\nFull outputs with a false mark: {100 * outputs / sets:.1f}%; with `--holm`: "
        f"{100 * adjusted / sets:.1f}%."
    )


def crossed_coverage(sets: int, families: int = 162) -> None:
    """Print how often intervals of arm differences hold the truth, over seeds and families."""
    write(f"\nDifferences of arms, {families} families, {sets} data sets; 95% intervals.\n")
    write("| seeds | seeds' share of variance | cluster-t (%) | seeds and families resampled (%) |")
    write("|---|---|---|---|")
    for seeds in (3, 5):
        for ratio in (0.0, 1.0, 4.0):
            rng = np.random.default_rng([2, seeds, int(ratio)])
            found = [_crossed_covers(rng, seeds, families, ratio) for _ in range(sets)]
            of_t, of_bootstrap = 100 * np.mean(found, axis=0)
            share = ratio / (1 + ratio)
            write(f"| {seeds} | {share:.0%} | {of_t:.1f} | {of_bootstrap:.1f} |")


def _crossed_covers(
    rng: np.random.Generator, seeds: int, families: int, ratio: float, resamples: int = 500
) -> tuple[bool, bool]:
    """Return whether 0, the truth, is covered by the cluster-t and by the two-way bootstrap."""
    of_seeds = np.sqrt(ratio * seeds * (1 + 1 / seeds) / families)
    values = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, 1, (1, families))
    values = values + rng.normal(0, 1, (seeds, families))
    weights = rng.multinomial(families, np.full(families, 1 / families), resamples) / families
    replicates = values @ weights.T
    by_seed = [
        Resampled(float(row.mean()), drawn, families, families)
        for row, drawn in zip(values, replicates, strict=True)
    ]
    interval = crossed_difference(by_seed).estimate
    of_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    low, high = np.quantile((of_seed.T * replicates).sum(axis=0), [0.025, 0.975])
    return interval.low <= 0 <= interval.high, bool(low <= 0 <= high)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=1, help="Runs compared with the first.")
    chosen = parser.parse_args()
    false_marks(chosen.sets, chosen.resamples, chosen.others)
    crossed_coverage(5 * chosen.sets)
