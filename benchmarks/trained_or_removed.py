"""What training for consistent orders gains once a remedy removes letters or adds views.

    python benchmarks/trained_or_removed.py --runs runs/replicate/runs [--write FILE]

The folder has run folders ARM-SEED of one holdout, as the miniature writes them. Every run is
decoded by the same remedies, cross-fitted within the run. A row compares the arm trained with the
PACT objective with another arm under one remedy: the mean over shared seeds, with the interval for
new families and new seeds. Marks are adjusted by Holm over accuracy and NLL of all rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from common import chosen_options, markdown_table, parser, publish
from random_runs import write_rows

from pact_eval.evaluation.arms.differences import ArmDifference, arm_difference
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.marks import adjusted
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.resampled_groups import ResampledGroup, resampled_group
from pact_eval.numbers import estimate_text, value_text
from pact_eval.remedies.cross_fitting import cross_fitted, folds_of
from pact_eval.remedies.decodings import Remedy
from pact_eval.runs.folder import read_run
from pact_eval.runs.predictions import Predictions

DECIDING: Final = ("accuracy", "nll_nats")
METRICS: Final = (*DECIDING, "pair_accuracy", "flip_rate")
K: Final = 4

Runs = Mapping[int, Predictions]
"""The runs of an arm, by seed."""


@dataclass(frozen=True)
class Row:
    """The difference between two arms under one remedy.

    Attributes:
        remedy: the remedy of both arms.
        means: by metric, the means of the method and of the other arm over seeds.
        differences: by metric, method minus other arm.
    """

    remedy: Remedy
    means: Mapping[str, tuple[float, float]]
    differences: Mapping[str, ArmDifference]


def remedies(k: int) -> list[Remedy]:
    """Return the remedies of a run of k views, the cheapest first."""
    few = [Remedy(views, prior=prior) for views in (1, 2) for prior in (None, "additive")]
    return [*few, Remedy(k)]


def runs_of(folder: Path, arm: str) -> dict[int, Predictions]:
    """Read the runs ARM-SEED of a folder."""
    seeds = {path.name.removeprefix(f"{arm}-"): path for path in folder.glob(f"{arm}-*")}
    runs = {int(seed): read_run(path).predictions for seed, path in seeds.items() if seed.isdigit()}
    if not runs:
        message = f"{folder}: expected run folders {arm}-SEED"
        raise SystemExit(message)
    return runs


def sampled(predictions: Predictions, remedy: Remedy, resamples: int) -> ResampledGroup:
    """Decode a run by a remedy with fits of its other families, and resample its metrics."""
    fitted = cross_fitted(predictions, remedy, folds_of(predictions)).predictions
    return resampled_group(
        "all",
        ScoredItems.of(fitted, "single"),
        rng=np.random.default_rng(0),
        resamples=resamples,
        entries=[find_metric(name) for name in METRICS],
    )


def rows(method: Runs, other: Runs, resamples: int) -> Iterator[Row]:
    """Yield the differences of two arms over their shared seeds, by remedy."""
    seeds = sorted(method.keys() & other.keys())
    for remedy in remedies(min(method[seed].k for seed in seeds)):
        pairs = [
            (sampled(method[seed], remedy, resamples), sampled(other[seed], remedy, resamples))
            for seed in seeds
        ]
        yield Row(
            remedy,
            {
                name: (mean_of(name, [a for a, _ in pairs]), mean_of(name, [b for _, b in pairs]))
                for name in METRICS
            },
            {name: arm_difference(name, pairs) for name in METRICS},
        )


def mean_of(metric: str, runs: Sequence[ResampledGroup]) -> float:
    """Return the mean of a metric over the runs of an arm."""
    return float(np.mean([run.estimate(metric).value for run in runs]))


def marked(table: Mapping[str, Sequence[Row]]) -> set[tuple[str, str, str]]:
    """Return other arm, name of the remedy and metric of the differences that are shown."""
    places = [
        (arm, row.remedy.name, name)
        for arm, lines in table.items()
        for row in lines
        for name in DECIDING
    ]
    tests = [
        row.differences[name].evidence
        for lines in table.values()
        for row in lines
        for name in DECIDING
    ]
    return {place for place, test in zip(places, adjusted(tests), strict=True) if test.marked}


def laid_out(method: str, table: Mapping[str, Sequence[Row]]) -> str:
    """Lay out the means of both arms, and their differences."""
    shown = marked(table)
    lines = []
    for arm, arm_rows in table.items():
        for row in arm_rows:
            cells = [f"{method} - {arm}", row.remedy.title]
            for name in METRICS:
                spec, new = find_metric(name).spec, row.differences[name].tested
                own, others = (value_text(value, spec.unit) for value in row.means[name])
                sign = " *" if (arm, row.remedy.name, name) in shown else ""
                difference = estimate_text(new, spec.difference_unit)
                cells.append(f"{own}, {others}: {difference}{sign}")
            lines.append(cells)
    titles = [find_metric(name).spec.title for name in METRICS]
    return markdown_table(["arms", "remedy", *titles], lines)


def random_arm(folder: Path, seeds: Iterable[int]) -> dict[int, Predictions]:
    """Make the runs of an arm from random numbers."""
    frame = pl.read_parquet(write_rows(folder, 60, K))
    return dict.fromkeys(seeds, Predictions.from_frame(frame))


def main() -> None:
    """Compare the method with every other arm, and print the table."""
    arguments = parser(__doc__, blocks=None)
    arguments.add_argument("--runs", type=Path, help="folder of run folders ARM-SEED")
    arguments.add_argument("--method", default="pact", help="the arm trained for consistency")
    arguments.add_argument("--others", nargs="+", default=["ce_only", "nimble_recipe"])
    arguments.add_argument("--resamples", type=int, default=10_000)
    chosen = chosen_options(arguments, resamples=50, others=["ce_only"])
    if chosen.runs is None:
        with tempfile.TemporaryDirectory() as folder:
            arms = dict.fromkeys(
                [chosen.method, *chosen.others], random_arm(Path(folder), (17, 18))
            )
    else:
        arms = {arm: runs_of(chosen.runs, arm) for arm in [chosen.method, *chosen.others]}
    method = arms.pop(chosen.method)
    table = {arm: [*rows(method, runs, chosen.resamples)] for arm, runs in arms.items()}
    publish("trained-or-removed", laid_out(chosen.method, table), chosen.write)


if __name__ == "__main__":
    main()
