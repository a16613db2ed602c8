"""Coverage of intervals of rates, means, AURC and differences, with few families.

    python benchmarks/coverage_rates.py [--sets 400] [--seed 0]

Families of two with two answers per item. A family shares a difficulty and, in half of the
families, the luck of both members. Model B knows a little less than A; C is B with logits twice as
large, so over-confident. The truth is computed from a large draw. With source families,
each of six has an effect on difficulty and calibration: intervals over families refer to new
families from the same six, intervals over source families to new ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from common import chosen_options, markdown_table

from pact_eval import metrics
from pact_eval._typing import FloatArray
from pact_eval.evaluation.registry import (
    find_metric,
    mean_difference,
    mean_interval,
    rate_difference,
    rate_interval,
)
from pact_eval.stats.bootstrap import Statistic, mean_statistic, ratio_statistic, resample
from pact_eval.stats.estimate import Estimate

FAMILIES: Final = (8, 12, 32, 162, 1_000)
SOURCE_FAMILIES: Final = 6
FAMILIES_OF_A_SOURCE: Final = 27
EFFECT: Final = 0.6
CONFIDENT: Final = 0.9
LARGE: Final = 200_000
SHOWN: Final = (
    "accuracy",
    "NLL",
    "Brier",
    "AURC",
    "accuracy, A - B",
    "confident errors, A - C",
    "NLL, A - B",
    "NLL, A - C",
)

Columns = Mapping[str, npt.NDArray[Any]]


def draw(rng: np.random.Generator, effect: FloatArray) -> Columns:
    """Draw three models on the items of families; `effect`: of the source family of each."""
    families = effect.size
    shared, own = rng.normal(size=(families, 1)), rng.normal(size=(families, 2))
    logit = 1.3 + effect[:, None] + 0.7 * shared + 0.9 * own
    luck = rng.random((families, 2))
    luck[:, 1] = np.where(rng.random(families) < 0.5, luck[:, 0], luck[:, 1])
    first = (luck < 1 / (1 + np.exp(-0.8 * logit - 0.4 * effect[:, None]))).ravel()
    other = (logit + rng.normal(-0.3, 0.8, size=logit.shape)).ravel()
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, latent in (("A", logit.ravel()), ("B", other), ("C", 2 * other)):
        chosen = 1 / (1 + np.exp(-latent))
        right = np.where(first, chosen, 1 - chosen)
        columns |= {
            f"correct {name}": (latent > 0) == first,
            f"nll {name}": -np.log(right),
            f"confident error {name}": ((latent > 0) != first)
            & (np.maximum(chosen, 1 - chosen) >= CONFIDENT),
        }
        if name == "A":
            columns |= {"confidence": np.maximum(chosen, 1 - chosen), "brier": 2 * (1 - right) ** 2}
    return columns


def values(columns: Columns) -> dict[str, float]:
    """Return every statistic on the items themselves."""
    right = columns["correct A"]
    return {
        "accuracy": float(right.mean()),
        "NLL": float(columns["nll A"].mean()),
        "Brier": float(columns["brier"].mean()),
        "AURC": float(metrics.aurc(columns["confidence"], right)),
        "accuracy, A - B": float(right.mean() - columns["correct B"].mean()),
        "confident errors, A - C": confident_share(columns, "A") - confident_share(columns, "C"),
        "NLL, A - B": float(columns["nll A"].mean() - columns["nll B"].mean()),
        "NLL, A - C": float(columns["nll A"].mean() - columns["nll C"].mean()),
    }


def confident_share(columns: Columns, name: str) -> float:
    """Return the share of the errors of a model that are confident."""
    return float(columns[f"confident error {name}"].sum() / (~columns[f"correct {name}"]).sum())


def intervals(
    columns: Columns, cluster: npt.NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Estimate]:
    """Return every statistic with its interval over clusters, as `report` and `compare` do."""
    n = int(cluster.max()) + 1
    items: Any = SimpleNamespace(
        confidence=columns["confidence"],
        correct=columns["correct A"],
        cluster=cluster,
        n_clusters=n,
    )
    means = ("correct A", "correct B", "nll A", "nll B", "nll C", "brier")
    statistics: dict[str, Statistic] = {
        name: mean_statistic(columns[name], cluster, n) for name in means
    }
    statistics |= {
        f"confident {name}": ratio_statistic(
            columns[f"confident error {name}"], ~columns[f"correct {name}"], cluster, n
        )
        for name in ("A", "C")
    }
    statistics["aurc"] = find_metric("aurc").reduction(items, "aurc").statistic
    # No interval of this table is made from resamples.
    drawn = resample(statistics, n_clusters=n, n=cluster.size, rng=rng, resamples=1)
    confident = rate_difference(drawn["confident A"] - drawn["confident C"])
    return {
        "accuracy": rate_interval(items, drawn["correct A"], rng),
        "NLL": mean_interval(items, drawn["nll A"], rng),
        "Brier": mean_interval(items, drawn["brier"], rng),
        "AURC": find_metric("aurc").interval(items, drawn["aurc"], rng),
        "accuracy, A - B": rate_difference(drawn["correct A"] - drawn["correct B"]).estimate(),
        "confident errors, A - C": confident.estimate(),
        "NLL, A - B": mean_difference(drawn["nll A"] - drawn["nll B"]).estimate(),
        "NLL, A - C": mean_difference(drawn["nll A"] - drawn["nll C"]).estimate(),
    }


def covered(estimates: Mapping[str, Estimate], truth: Mapping[str, float]) -> list[float]:
    """Say which intervals hold the truth; without an interval, NaN."""
    return [
        float(estimates[name].low <= truth[name] <= estimates[name].high)
        if np.isfinite(estimates[name].low)
        else np.nan
        for name in SHOWN
    ]


def of_families(families: int, datasets: int, rng: np.random.Generator) -> list[float]:
    """Return the coverage of every interval in % with so many families of one source family."""
    truth = values(draw(rng, np.zeros(LARGE)))
    cluster = np.arange(families).repeat(2)
    held = [
        covered(intervals(draw(rng, np.zeros(families)), cluster, rng), truth)
        for _ in range(datasets)
    ]
    return (100 * np.nanmean(held, axis=0)).tolist()


def of_source_families(datasets: int, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return the coverage in % with six source families, by unit and by what is to be covered."""
    everywhere = values(draw(rng, EFFECT * rng.normal(size=LARGE)))
    source = np.arange(SOURCE_FAMILIES).repeat(FAMILIES_OF_A_SOURCE)
    units = {"families": np.arange(source.size).repeat(2), "source families": source.repeat(2)}
    held: dict[str, list[list[float]]] = {}
    for _ in range(datasets):
        effect = EFFECT * rng.normal(size=SOURCE_FAMILIES)
        columns = draw(rng, effect[source])
        truths = {
            "the same six": values(draw(rng, effect.repeat(2_000))),
            "new source families": everywhere,
        }
        for unit, cluster in units.items():
            estimates = intervals(columns, cluster, rng)
            for target, truth in truths.items():
                held.setdefault(f"{unit}, for {target}", []).append(covered(estimates, truth))
    return {
        name: (100 * np.nanmean(coverages, axis=0)).tolist() for name, coverages in held.items()
    }


def main() -> None:
    """Print the coverage table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    arguments = chosen_options(parser, sets=1)
    rows = {
        f"{families:,} families": of_families(
            families, arguments.sets, np.random.default_rng([arguments.seed, families])
        )
        for families in FAMILIES
    }
    coverage_by_unit = of_source_families(arguments.sets, np.random.default_rng(arguments.seed))
    rows |= {
        f"six source families; over {name}": coverages
        for name, coverages in coverage_by_unit.items()
    }
    cells = [[name, *(f"{value:.1f}" for value in shares)] for name, shares in rows.items()]
    table = markdown_table(["coverage in %", *SHOWN], cells)
    sys.stdout.write(f"{table}\n\n{arguments.sets} datasets.\n")


if __name__ == "__main__":
    main()
