"""False marks of `pact-eval compare`, and coverage of differences between arms, by simulation.

    python benchmarks/coverage_arms.py --sets 200

prints Markdown tables. All runs are of one model (`tests/null_arms.py`), so whatever is marked is
marked by chance.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from common import chosen_options
from null_arms import null_runs

from pact_eval import metrics
from pact_eval.evaluation.arms.comparison import ArmsComparison, compare_arms
from pact_eval.evaluation.comparison import Comparison, compare
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.metric_differences import mean_estimate
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.evaluation.resampled_groups import resampled_groups
from pact_eval.stats import t_quantile
from pact_eval.stats.crossed import crossed_difference
from pact_eval.stats.estimate import Estimate

SEEDS = (17, 18, 19)


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
    outputs = 0
    for seed in range(sets):
        rng = np.random.default_rng([1, seed])
        first, *rest = (ScoredItems.of(views, "single") for views in null_runs(rng, 1 + others))
        differences = tuple(
            compare(first, other, by="kind", rng=np.random.default_rng(seed), resamples=resamples)
            for other in rest
        )
        one = [(group, name) for group, name, is_marked in marked(differences) if is_marked]
        single.update(one)
        outputs += bool(one)
    groups = list(dict.fromkeys(group for group, *_ in marked(differences)))
    metrics = list(dict.fromkeys(name for _, name, _ in marked(differences)))
    write(
        f"\n{sets} data sets on which {1 + others} runs do not differ, {resamples:,} resamples.\n"
    )
    write(f"| false marks (%) | {' | '.join(groups)} |\n|---|{'---|' * len(groups)}")
    shares = {key: 100 * count / (sets * others) for key, count in single.items()}
    for name in metrics:
        row = (f"{shares.get((group, name), 0):.1f}" for group in groups)
        write(f"| {name} | {' | '.join(row)} |")
    of_all = [shares.get(("all", name), 0.0) for name in metrics]
    error = 100 * np.sqrt(0.05 * 0.95 / (sets * others))
    write(
        f"\nSingle marks on all items: {min(of_all):.1f} to {max(of_all):.1f}% are false, "
        f"{np.mean(of_all):.1f}% on average (standard error of each {error:.1f} points)."
    )
    write(f"\nFull outputs with a false mark: {100 * outputs / sets:.1f}%.")


def false_arm_marks(sets: int, resamples: int) -> None:
    """Print how often `compare --arms` marks something if three arms of three seeds do not differ.

    An arm is marked `^` if it is shown to be better than every other arm. Full outputs have marks
    of all metrics and groups, and of single seeds.
    """
    specs = [spec for spec in registered_metrics() if spec.better]
    single: Counter[tuple[str, str]] = Counter()
    outputs: Counter[str] = Counter()
    for seed in range(sets):
        rng = np.random.default_rng([3, seed])
        runs = [ScoredItems.of(views, "single") for views in null_runs(rng, 3 * len(SEEDS))]
        arms = {
            name: dict(zip(SEEDS, runs[at : at + len(SEEDS)], strict=True))
            for at, name in zip((0, 3, 6), "abc", strict=True)
        }
        comparison = compare_arms(
            arms, by="kind", rng=np.random.default_rng(seed), resamples=resamples
        )
        for spec in specs:
            pairs = [pair.differences["all"][spec.name] for pair in comparison.pairs]
            single[spec.name, "*"] += sum(pair.marked for pair in pairs)
            best = comparison.standings["all"][spec.name].values()
            single[spec.name, "^"] += "best" in best
        marks = {"*": any_star(comparison), "^": any_best(comparison)}
        outputs.update(mark for mark, there in marks.items() if there)
        outputs["either"] += any(marks.values())
    write(f"\n{sets} data sets on which three arms do not differ, {resamples:,} resamples.\n")
    write("| false marks (%), all items | `*` | `^` |")
    write(f"|---|{'---|' * 2}")
    for spec in specs:
        shares = [single[spec.name, "*"] / (2 * sets), single[spec.name, "^"] / sets]
        write(f"| {spec.name} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |")
    cells = (f"{mark} {100 * outputs[mark] / sets:.1f}%" for mark in ("*", "^", "either"))
    write(f"\nFull outputs with a false mark: {', '.join(cells)}.")


def any_best(comparison: ArmsComparison) -> bool:
    """Return whether an arm is marked `^` in some metric of some group."""
    return any(
        "best" in standing.values()
        for by_metric in comparison.standings.values()
        for standing in by_metric.values()
    )


def any_star(comparison: ArmsComparison) -> bool:
    """Return whether a difference of arms is marked, or one at a single seed."""
    over_seeds = any(
        difference.marked
        for pair in comparison.pairs
        for by_metric in pair.differences.values()
        for difference in by_metric.values()
    )
    at_seeds = [tuple(pair.seeds.values()) for pair in comparison.pairs]
    return over_seeds or any(
        is_marked for difference in at_seeds for *_, is_marked in marked(difference)
    )


def crossed_coverage(sets: int, families: int = 162) -> None:
    """Print how often intervals of arm differences hold the truth, over seeds and families."""
    write(
        f"\nDifferences of arms on normal data, {families} families, {sets} data sets: coverage of "
        "95% intervals.\n"
    )
    titles = ("cluster-t (%)", "t over seeds alone (%)", "seeds and families resampled (%)")
    write(f"| seeds | seeds' share of variance | {' | '.join(titles)} |")
    write("|---|---|---|---|---|")
    for seeds in (3, 5):
        for ratio in (0.0, 1.0, 4.0):
            rng = np.random.default_rng([2, seeds, int(ratio)])
            covers_by_set = [_crossed_covers(rng, seeds, families, ratio) for _ in range(sets)]
            covered = (f"{share:.1f}" for share in 100 * np.mean(covers_by_set, axis=0))
            write(f"| {seeds} | {ratio / (1 + ratio):.0%} | {' | '.join(covered)} |")


def _crossed_covers(
    rng: np.random.Generator, seeds: int, families: int, ratio: float, resamples: int = 500
) -> tuple[bool, bool, bool]:
    """Return whether 0 is covered by the cluster-t, t over seeds and the two-way bootstrap."""
    of_seeds = np.sqrt(ratio * seeds * (1 + 1 / seeds) / families)
    values = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, 1, (1, families))
    values = values + rng.normal(0, 1, (seeds, families))
    weights = rng.multinomial(families, np.full(families, 1 / families), resamples) / families
    replicates = values @ weights.T
    by_family = values.mean(axis=0)
    reach = t_quantile(0.975, families - 1) * float(by_family.std(ddof=1)) / families**0.5
    mean = float(by_family.mean())
    same_seeds = Estimate(mean, mean - reach, mean + reach, families, families)
    by_seed = values.mean(axis=1)
    interval = crossed_difference(by_seed, same_seeds).estimate
    alone = t_quantile(0.975, seeds - 1) * float(by_seed.std(ddof=1)) / seeds**0.5
    of_seed = rng.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    low, high = np.quantile((of_seed.T * replicates).sum(axis=0), [0.025, 0.975])
    return interval.low <= 0 <= interval.high, abs(mean) <= alone, bool(low <= 0 <= high)


def mean_coverage(sets: int, resamples: int) -> None:
    """Print how often intervals of means over three seeds hold the truth, with the seeds fixed.

    The truth of a metric is its value on the items of all data sets. For ECE this is the error of
    the 15 bins, to about 0.1 points.
    """
    names = (
        "accuracy",
        "pair_accuracy",
        "nll_nats",
        "brier",
        "ece",
        "aurc",
        "view_tv",
        "flip_rate",
    )
    estimates: dict[str, list[Estimate]] = {name: [] for name in names}
    confidence, correct = [], []
    for seed in range(sets):
        rng = np.random.default_rng([4, seed])
        runs = [ScoredItems.of(views, "single") for views in null_runs(rng, len(SEEDS))]
        confidence += [items.confidence for items in runs]
        correct += [items.correct for items in runs]
        groups = [
            resampled_groups(items, "kind", rng=np.random.default_rng(seed), resamples=resamples)[0]
            for items in runs
        ]
        for name in names:
            estimates[name].append(mean_estimate(groups, name))
    write(
        f"\nMeans over three seeds, 162 families, {sets} data sets: coverage of 95% intervals over "
        "families.\n"
    )
    write("| metric | truth | coverage (%) | mean width |")
    write("|---|---|---|---|")
    for name, intervals in estimates.items():
        truth = float(np.mean([interval.value for interval in intervals]))
        if name == "ece":
            truth = metrics.ece(np.concatenate(confidence), np.concatenate(correct))
        covers = 100 * np.mean([interval.low <= truth <= interval.high for interval in intervals])
        width = np.mean([interval.high - interval.low for interval in intervals])
        write(f"| {name} | {truth:.4f} | {covers:.1f} | {width:.4f} |")


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=1, help="Runs compared with the first.")
    parser.add_argument(
        "--only", choices=("compare", "arms", "crossed", "means"), help="One part; all."
    )
    chosen = chosen_options(parser, sets=1, resamples=100)
    parts = {
        "compare": lambda: false_marks(chosen.sets, chosen.resamples, chosen.others),
        "arms": lambda: false_arm_marks(chosen.sets, chosen.resamples),
        "crossed": lambda: crossed_coverage(5 * chosen.sets),
        "means": lambda: mean_coverage(chosen.sets, min(chosen.resamples, 2_000)),
    }
    for name, part in parts.items():
        if chosen.only in (None, name):
            part()


if __name__ == "__main__":
    main()
