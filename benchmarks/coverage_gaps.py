"""Coverage of what is reported on ECE in harder settings: source families, and gaps that jump.

    python benchmarks/coverage_gaps.py [--sets 400] [--part differences]

Source families: 324 items in six or more, each of which is over- or underconfident in its own way;
they are the units, and the true error is that of new ones. Gaps that jump: families of two whose
model is wrong in one or two bins alone, or by turns too sure and not sure enough. The outcomes of
a family share a draw half of the time. Differences: two runs on the same source families.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from common import chosen_options, markdown_table
from coverage_calibration import Shown, difference

from pact_eval import metrics
from pact_eval._typing import FloatArray
from pact_eval.evaluation.calibration_error import calibration_error

Drawn = tuple[FloatArray, FloatArray, npt.NDArray[np.int64], npt.NDArray[np.int64]]

RESAMPLES: Final = 500
LARGE: Final = 400_000
FAMILIES: Final = 162


@dataclass(frozen=True)
class Setting:
    """Data sets with a known error.

    Attributes:
        name: what is drawn.
        units: families, or source families, that intervals take as units.
        size: families of a unit.
        draw: makes confidences, true probabilities, families and units of a number of units.
    """

    name: str
    units: int
    size: int
    draw: Callable[[np.random.Generator, int], Drawn]


def of_sources(gain: float, effect: float, families: int) -> Callable[..., Drawn]:
    """Return a function that draws source families; `effect`: deviation of their logits."""

    def draw(rng: np.random.Generator, sources: int) -> Drawn:
        family = np.arange(sources * families).repeat(2)
        source = family // families
        of_family = 0.7 * rng.normal(size=sources * families)[family]
        logit = np.abs(1.3 + of_family + 0.9 * rng.normal(size=family.size))
        effects = effect * rng.normal(size=sources)
        truth = 1 / (1 + np.exp(-logit - effects[source]))
        return 1 / (1 + np.exp(-gain * logit)), truth, family, source

    return draw


def of_gaps(gap: Callable[[FloatArray], FloatArray]) -> Callable[..., Drawn]:
    """Return a function that draws families of two with a gap at each confidence."""

    def draw(rng: np.random.Generator, families: int) -> Drawn:
        family = np.arange(families).repeat(2)
        confidence = rng.uniform(0.35, 0.99, family.size)
        return confidence, np.clip(confidence - gap(confidence), 0, 1), family, family

    return draw


def one_bin(confidence: FloatArray) -> FloatArray:
    """Return a gap of 30 points in one bin."""
    return np.where(metrics.bin_index(confidence) == 9, 0.3, 0.0)


def two_bins(confidence: FloatArray) -> FloatArray:
    """Return gaps of two signs in two bins."""
    return one_bin(confidence) - np.where(metrics.bin_index(confidence) == 12, 0.12, 0.0)


def by_turns(confidence: FloatArray) -> FloatArray:
    """Return gaps of 6 points that change their sign three times."""
    return 0.06 * np.sign(np.sin(4 * np.pi * (confidence - 0.35) / 0.64))


def settings() -> list[Setting]:
    """Return the rows of the table."""
    table_rows = []
    for sources in (6, 12):
        families = FAMILIES // sources
        table_rows += [
            Setting(
                f"{sources} source families, {name}",
                sources,
                families,
                of_sources(gain, of, families),
            )
            for name, gain, of in (
                ("no effects", 1.0, 0.0),
                ("effects", 1.0, 0.6),
                ("effects", 1.5, 0.6),
                ("effects", 2.2, 0.6),
                ("large effects", 2.2, 1.0),
            )
        ]
    shapes = {"one wrong bin": one_bin, "two wrong bins": two_bins, "gaps by turns": by_turns}
    table_rows += [
        Setting(f"{name}, {families:,} families", families, 1, of_gaps(gap))
        for name, gap in shapes.items()
        for families in (FAMILIES, 1_000)
    ]
    return table_rows


def true_error(setting: Setting) -> float:
    """Return the binned calibration error of the population, in new units."""
    confidence, truth, *_ = setting.draw(np.random.default_rng(0), LARGE // setting.size)
    return error_of(confidence, truth)


def error_of(confidence: FloatArray, truth: FloatArray) -> float:
    """Return the binned calibration error of items with true probabilities."""
    if np.array_equal(confidence, truth):
        return 0.0
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - truth)
    return float(np.abs(gaps).sum() / truth.size)


def luck(rng: np.random.Generator, family: npt.NDArray[np.int64]) -> FloatArray:
    """Return a uniform number per item, which the items of a family share half of the time."""
    own = rng.random(family.size)
    shares = rng.random(family.max() + 1) < 0.5
    return np.where(shares[family], rng.random(shares.size)[family], own)


def row(setting: Setting, sets: int) -> list[str]:
    """Return the coverage of a setting."""
    true, rng = true_error(setting), np.random.default_rng(15)
    estimates = []
    for _ in range(sets):
        confidence, truth, family, units = setting.draw(rng, setting.units)
        right = luck(rng, family) < truth
        estimates.append(
            calibration_error(confidence, right, units, setting.units, rng=rng, resamples=RESAMPLES)
        )
    shares_of = (
        [estimate.low <= true <= estimate.high for estimate in estimates],
        [estimate.low > true for estimate in estimates],
        [estimate.high < true for estimate in estimates],
        [estimate.rejected for estimate in estimates],
    )
    middle, width = (
        np.median([estimate.debiased for estimate in estimates]),
        np.mean([estimate.high - estimate.low for estimate in estimates]),
    )
    numbers = (true, middle, width, *map(np.mean, shares_of))
    return [setting.name, *(f"{100 * number:.1f}" for number in numbers)]


@dataclass(frozen=True)
class TwoRuns:
    """Two runs on the same source families.

    Attributes:
        name: what they have in common.
        gains: their over-confidence.
        effect: deviation of the logits of a source family.
        shared: whether they see the same items: their true probabilities and outcomes are the
            same; otherwise each has effects and outcomes of its own.
    """

    name: str
    gains: tuple[float, float]
    effect: float = 0.6
    shared: bool = False

    def draw(
        self, rng: np.random.Generator, sources: int, families: int
    ) -> tuple[list[Drawn], list[npt.NDArray[np.bool_]]]:
        """Draw the items of both runs, and which of them are right."""
        made = [of_sources(gain, self.effect, families) for gain in self.gains]
        states = [rng.integers(2**63), rng.integers(2**63)]
        seeds = [states[0], states[0] if self.shared else states[1]]
        rngs = [np.random.default_rng(seed) for seed in seeds]
        runs = [draw_run(own, sources) for draw_run, own in zip(made, rngs, strict=True)]
        drawn = zip(runs, rngs, strict=True)
        return runs, [luck(own, family) < truth for (_, truth, family, _), own in drawn]

    def truth(self) -> float:
        """Return the difference of the calibration errors in new source families."""
        runs, _ = self.draw(np.random.default_rng(0), LARGE // 27, 27)
        first, second = (error_of(confidence, truth) for confidence, truth, *_ in runs)
        return first - second


TWO_RUNS: Final = (
    TwoRuns("no effects, both calibrated", (1.0, 1.0), effect=0.0),
    TwoRuns("effects, same error", (1.5, 1.5)),
    TwoRuns("effects, same large error", (2.2, 2.2)),
    TwoRuns("effects, small and large error", (1.0, 2.2)),
    TwoRuns("effects, one run before and after a temperature", (1.0, 2.2), shared=True),
    TwoRuns("large effects, small and large error", (1.0, 2.2), effect=1.0),
)


def difference_rows(sets: int) -> list[list[str]]:
    """Return coverage and marks of differences, for 6 and for 12 source families."""
    rows = []
    for two in TWO_RUNS:
        true = two.truth()
        cells = [two.name, f"{100 * true:.1f}"]
        for sources in (6, 12):
            rng, estimates = np.random.default_rng([15, sources]), []
            for _ in range(sets):
                runs, right = two.draw(rng, sources, FAMILIES // sources)
                shown = (Shown(run[0], hits, run[3]) for run, hits in zip(runs, right, strict=True))
                estimates.append(difference(*shown, rng))
            held = np.mean([estimate.low <= true <= estimate.high for estimate in estimates])
            marked = np.mean([estimate.low > 0 or estimate.high < 0 for estimate in estimates])
            cells += [f"{100 * held:.1f}", f"{100 * marked:.1f}"]
        rows.append(cells)
    return rows


def interval_text(sets: int) -> str:
    """Return the table on intervals of single runs."""
    columns = ["", "true error", "median debiased", "mean width", "coverage"]
    columns += ["too high", "too low", "rejected"]
    table = markdown_table(columns, [row(setting, sets) for setting in settings()])
    error = 100 * np.sqrt(0.95 * 0.05 / sets)
    return (
        f"{sets} data sets each (standard error of coverage {error:.1f} points); all numbers in %. "
        f"*Too high* and *too low* are the shares of intervals above and below the true error.\n\n"
        f"{table}"
    )


def difference_text(sets: int) -> str:
    """Return the table on differences of two runs."""
    columns = ["two runs", "true difference"]
    for sources in (6, 12):
        columns += [f"{sources} source families: coverage", "marked"]
    table = markdown_table(columns, difference_rows(sets))
    return (
        f"Differences of ECE with source families as the units ({sets} data sets each); all "
        f"numbers in %.\n\n{table}"
    )


PARTS: Final = {"intervals": interval_text, "differences": difference_text}


def main() -> None:
    """Print one of the tables."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=int, default=400, help="data sets of each row")
    arguments.add_argument("--part", choices=PARTS, default="intervals")
    chosen = chosen_options(arguments, sets=1)
    sys.stdout.write(f"{PARTS[chosen.part](chosen.sets)}\n")


if __name__ == "__main__":
    main()
