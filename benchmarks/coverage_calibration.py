"""Coverage of what is reported on ECE: its interval, its test, its difference, and temperatures.

    python benchmarks/coverage_calibration.py [--sets 400]

Families of two items with 2 to 6 answers have logits whose softmax is the true distribution, so
that the true probability of every predicted answer is known. A model shows the logits times a
gain: 1 is calibrated, more is over-confident. The outcomes of a family share a draw half of the
time. The true error is that of the same bins in a population of 400,000 items.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from common import markdown_table

from pact_eval import metrics
from pact_eval.calibration import (
    CalibrationItems,
    Calibrator,
    Weights,
    calibration_effect,
    inverse_softplus,
)
from pact_eval.evaluation import calibration_error
from pact_eval.evaluation.calibration_error import basic_difference
from pact_eval.stats import RowSums, TotalsStatistic, percentile_estimate, resample

FloatArray = npt.NDArray[np.float64]
SHARED = 0.5
RESAMPLES = 500
GAINS = (1.0, 1.18, 1.61)
SIZES = (8, 12, 32, 162, 1_000)


@dataclass(frozen=True)
class Sample:
    """Items of one data set: (n, 6) logits, true probability and outcome of the top answer."""

    logits: FloatArray
    answers: npt.NDArray[np.int64]
    family: npt.NDArray[np.int64]
    truth: FloatArray
    right: npt.NDArray[np.bool_]

    def confidence(self, gain: float) -> FloatArray:
        """Return (n,) top probabilities of a model that shows the logits times a gain."""
        shown = np.exp(gain * (self.logits - self.logits.max(axis=1, keepdims=True)))
        return np.asarray(shown.max(axis=1) / shown.sum(axis=1))


def draw(rng: np.random.Generator, families: int) -> Sample:
    """Draw a data set of families of two."""
    n = 2 * families
    answers = rng.integers(2, 7, families).repeat(2)
    logits = np.where(np.arange(6) < answers[:, None], rng.normal(0, 1.5, (n, 6)), -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    truth = weights.max(axis=1) / weights.sum(axis=1)
    common = rng.random(families).repeat(2)
    shares = (rng.random(families) < SHARED).repeat(2)
    outcome = np.where(shares, common, rng.random(n)) < truth
    return Sample(logits, answers, np.arange(n) // 2, truth, outcome)


def true_error(gain: float) -> float:
    """Return the binned calibration error of the population."""
    sample = draw(np.random.default_rng(0), 200_000)
    confidence = sample.confidence(gain)
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - sample.truth)
    return 0.0 if gain == 1 else float(np.abs(gaps).sum() / confidence.size)


def ece_statistic(sample: Sample, gain: float) -> TotalsStatistic:
    """Return ECE as a function of how often each family is drawn."""
    confidence = sample.confidence(gain)
    gap = RowSums(confidence - sample.right, metrics.bin_index(confidence), metrics.BINS)
    return TotalsStatistic(
        (RowSums(None), gap),
        lambda totals: metrics.ece_of_gaps(totals[:, 0], totals[:, 1:]),
        sample.family,
        int(sample.family[-1]) + 1,
    )


def interval_rows(sets: int, sizes: Sequence[int], gains: Sequence[float]) -> list[list[str]]:
    """Return one row per size and gain: coverage, and how often calibration is rejected."""
    rows = []
    for families in sizes:
        for gain in gains:
            truth = true_error(gain)
            rng = np.random.default_rng([families, int(100 * gain)])
            held, old, rejected, above, debiased, shown = 0, 0, 0, 0, [], []
            for _ in range(sets):
                sample = draw(rng, families)
                found = calibration_error(
                    sample.confidence(gain),
                    sample.right,
                    sample.family,
                    families,
                    rng=rng,
                    resamples=RESAMPLES,
                )
                drawn = resample(
                    {"ece": ece_statistic(sample, gain)},
                    n_clusters=families,
                    n=2 * families,
                    rng=rng,
                    resamples=RESAMPLES,
                )["ece"]
                percentile = percentile_estimate(
                    drawn.value, drawn.replicates, n=2 * families, n_clusters=families
                )
                held += found.low <= truth <= found.high
                above += found.low > truth
                old += percentile.low <= truth <= percentile.high
                rejected += found.rejected
                debiased.append(found.debiased)
                shown.append(found.value)
            rows.append(
                [
                    f"{families:,}",
                    f"{100 * truth:.1f}",
                    f"{100 * np.mean(shown):.1f}",
                    f"{100 * np.median(debiased):.1f}",
                    f"{100 * held / sets:.1f}",
                    f"{100 * above / sets:.1f}",
                    f"{100 * old / sets:.1f}",
                    f"{100 * rejected / sets:.1f}",
                ]
            )
    return rows


def difference_rows(sets: int) -> list[list[str]]:
    """Return rows on the difference of ECE of two runs on the same items."""
    rows = []
    for names, gains in (
        ("both calibrated, one sharper", (1.0, None)),
        ("same error", (1.25, 1.25)),
        ("0 and a large error", (1.0, 1.8)),
    ):
        rng = np.random.default_rng(5)
        held, starred, marked = 0, 0, 0
        first = gains[0]
        for _ in range(sets):
            one, other = draw(rng, 162), draw(rng, 162)
            if gains[1] is None:
                # Less information: the true probabilities of a model that knows less.
                other = flatter(rng, 162)
            second = 1.0 if gains[1] is None else gains[1]
            statistics = {"a": ece_statistic(one, first), "b": ece_statistic(other, second)}
            drawn = resample(statistics, n_clusters=162, n=324, rng=rng, resamples=RESAMPLES)
            difference = drawn["a"] - drawn["b"]
            basic, percentile = basic_difference(difference), difference.estimate()
            truth = true_error(first) - true_error(second)
            held += basic.low <= truth <= basic.high
            starred += percentile.low > 0 or percentile.high < 0
            rejected = False
            for sample, gain in ((one, first), (other, second)):
                found = calibration_error(
                    sample.confidence(gain),
                    sample.right,
                    sample.family,
                    162,
                    rng=rng,
                    resamples=400,
                )
                rejected |= found.rejected
            marked += rejected and (basic.low > 0 or basic.high < 0)
        rows.append([names, *(f"{100 * count / sets:.1f}" for count in (held, starred, marked))])
    return rows


def flatter(rng: np.random.Generator, families: int) -> Sample:
    """Draw a data set on which a calibrated model is less sure."""
    sample = draw(rng, families)
    logits = 0.5 * sample.logits
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    truth = weights.max(axis=1) / weights.sum(axis=1)
    right = rng.random(truth.size) < truth
    return Sample(logits, sample.answers, sample.family, truth, right)


def temperature_rows(sets: int) -> list[list[str]]:
    """Return how often a temperature raises an alarm, and is shown to help."""
    rows = []
    for name, gain, temperature in (
        ("helpful", 1.8, 1.8),
        ("needless", 1.0, 1.0001),
        ("harmful", 1.0, 1.8),
    ):
        rng = np.random.default_rng(6)
        alarms, any_worse, helps = 0, 0, 0
        for _ in range(sets):
            sample = draw(rng, 162)
            shown = gain * sample.logits
            shifted = shown - shown.max(axis=1, keepdims=True)
            log_probs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            uniform = rng.random(len(shown))
            true = np.exp(sample.logits - sample.logits.max(axis=1, keepdims=True))
            cumulated = np.cumsum(true / true.sum(axis=1, keepdims=True), axis=1)
            reference = (uniform[:, None] > cumulated).sum(axis=1)
            names = sample.family.astype(np.str_)
            items = CalibrationItems(
                log_probs,
                np.minimum(reference, sample.answers - 1),
                np.where(sample.answers == 2, "boolean", "choice"),
                sample.answers,
                np.full(len(shown), 300.0),
                names,
                names,
            )
            calibrator = Calibrator("scalar", Weights((inverse_softplus(temperature), 0.0, 0.0)))
            effect = calibration_effect(items, calibrator)
            alarms += bool(effect.groups[0].worse)
            any_worse += bool(effect.warnings)
            helps += effect.groups[0].changes["nll_nats"].high < 0
        rows.append([name, *(f"{100 * count / sets:.1f}" for count in (alarms, any_worse, helps))])
    return rows


def text(sets: int, sizes: Sequence[int] = SIZES, gains: Sequence[float] = GAINS) -> str:
    """Return the tables in Markdown."""
    intervals = markdown_table(
        [
            "families",
            "true error",
            "mean ECE",
            "median debiased",
            "coverage",
            "too high",
            "percentile bootstrap",
            "rejected",
        ],
        interval_rows(sets, sizes, gains),
    )
    differences = markdown_table(
        ["two runs", "coverage", "percentile excludes 0", "marked"], difference_rows(sets)
    )
    temperatures = markdown_table(
        ["temperature", "alarm on all items", "alarm on any group", "shown to help"],
        temperature_rows(sets),
    )
    return "\n\n".join(
        (
            f"{sets} data sets each; all numbers in %. Coverage is that of the 95% interval of the "
            "true error; *too high* is the share of intervals above it; the next column is the "
            "coverage of the percentile bootstrap; *rejected* is the share in which calibration is "
            "rejected at 5%.",
            intervals,
            "Differences of ECE (162 families): coverage of the basic bootstrap, how often the "
            "percentile interval excludes 0, and how often the difference is marked.",
            differences,
            "Temperatures (162 families).",
            temperatures,
        )
    )


def main() -> None:
    """Run the simulations."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=int, default=400, help="data sets of each row")
    sys.stdout.write(f"{text(arguments.parse_args().sets)}\n")


if __name__ == "__main__":
    main()
