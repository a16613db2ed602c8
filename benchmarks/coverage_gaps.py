"""Coverage of the interval of ECE in harder settings: source families, and gaps that jump.

    python benchmarks/coverage_gaps.py [--sets 400]

Source families: 324 items in six or more, each of which is over- or underconfident in its own way;
they are the units, and the true error is that of new ones. Gaps that jump: families of two whose
model is wrong in one or two bins alone, or by turns too sure and not sure enough. The outcomes of
a family share a draw half of the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from common import markdown_table

from pact_eval import metrics
from pact_eval.evaluation import calibration_error

FloatArray = npt.NDArray[np.float64]
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
    found = []
    for sources in (6, 12):
        families = FAMILIES // sources
        found += [
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
    found += [
        Setting(f"{name}, {families:,} families", families, 1, of_gaps(gap))
        for name, gap in shapes.items()
        for families in (FAMILIES, 1_000)
    ]
    return found


def true_error(setting: Setting) -> float:
    """Return the binned calibration error of the population, in new units."""
    confidence, truth, _, units = setting.draw(np.random.default_rng(0), LARGE // setting.size)
    if np.array_equal(confidence, truth):
        return 0.0
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - truth)
    return float(np.abs(gaps).sum() / units.size)


def row(setting: Setting, sets: int) -> list[str]:
    """Return the coverage of a setting."""
    true, rng = true_error(setting), np.random.default_rng(15)
    found = []
    for _ in range(sets):
        confidence, truth, family, units = setting.draw(rng, setting.units)
        luck = rng.random(family.size)
        shares = rng.random(family.max() + 1) < 0.5
        luck = np.where(shares[family], rng.random(shares.size)[family], luck)
        found.append(
            calibration_error(
                confidence, luck < truth, units, setting.units, rng=rng, resamples=RESAMPLES
            )
        )
    shares_of = (
        [each.low <= true <= each.high for each in found],
        [each.low > true for each in found],
        [each.high < true for each in found],
        [each.rejected for each in found],
    )
    middle, width = (
        np.median([each.debiased for each in found]),
        np.mean([each.high - each.low for each in found]),
    )
    numbers = (true, middle, width, *map(np.mean, shares_of))
    return [setting.name, *(f"{100 * number:.1f}" for number in numbers)]


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=int, default=400, help="data sets of each row")
    sets = arguments.parse_args().sets
    columns = ["", "true error", "median debiased", "mean width", "coverage"]
    columns += ["too high", "too low", "rejected"]
    table = markdown_table(columns, [row(setting, sets) for setting in settings()])
    error = 100 * np.sqrt(0.95 * 0.05 / sets)
    sys.stdout.write(
        f"{sets} data sets each (standard error of coverage {error:.1f} points); all numbers in %. "
        f"*Too high* and *too low* are the shares of intervals above and below the true error.\n\n"
        f"{table}\n"
    )


if __name__ == "__main__":
    main()
