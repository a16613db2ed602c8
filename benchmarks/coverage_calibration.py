"""Coverage of what is reported on ECE: its interval, its test, its difference, and temperatures.

    python benchmarks/coverage_calibration.py [--sets 400] [--part differences]

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
from functools import cache

import numpy as np
import numpy.typing as npt
from common import chosen_options, markdown_table

from pact_eval import metrics
from pact_eval._typing import FloatArray
from pact_eval.calibration.effect import calibration_effect
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.temperatures import Calibrator, Weights, inverse_softplus
from pact_eval.evaluation.calibration_error import calibration_error
from pact_eval.evaluation.combined_differences import DifferencePart, ece_difference
from pact_eval.stats.bootstrap import RowSums, TotalsStatistic, percentile_estimate, resample
from pact_eval.stats.estimate import Estimate

SHARED = 0.5
RESAMPLES = 500
GAINS = (1.0, 1.18, 1.61)
SIZES = (8, 12, 32, 162, 1_000)


@dataclass(frozen=True)
class Shown:
    """Data of ECE of a run: (n,) confidences, whether the answer is right, and units."""

    confidence: FloatArray
    right: npt.NDArray[np.bool_]
    units: npt.NDArray[np.int64]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.units[-1]) + 1

    def statistic(self) -> TotalsStatistic:
        """Return ECE as a function of how often each unit is drawn."""
        bins = metrics.bin_index(self.confidence)
        gap = RowSums(self.confidence - self.right, bins, metrics.BINS)
        return TotalsStatistic(
            (RowSums(None), gap),
            lambda totals: metrics.ece_of_gaps(totals[:, 0], totals[:, 1:]),
            self.units,
            self.n_units,
        )


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

    def shown(self, gain: float) -> Shown:
        """Return what ECE sees of a model that shows the logits times a gain."""
        return Shown(self.confidence(gain), self.right, self.family)


def draw(rng: np.random.Generator, families: int) -> Sample:
    """Draw a data set of families of two."""
    n = 2 * families
    answers = rng.integers(2, 7, families).repeat(2)
    logits = np.where(np.arange(6) < answers[:, None], rng.normal(0, 1.5, (n, 6)), -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    truth = weights.max(axis=1) / weights.sum(axis=1)
    outcome = _family_draws(rng, families) < truth
    return Sample(logits, answers, np.arange(n) // 2, truth, outcome)


def _family_draws(rng: np.random.Generator, families: int) -> FloatArray:
    """Return (n,) uniform numbers, which the members of a family share half of the time."""
    common = rng.random(families).repeat(2)
    shares = (rng.random(families) < SHARED).repeat(2)
    return np.where(shares, common, rng.random(2 * families))


@cache
def true_error(gain: float) -> float:
    """Return the binned calibration error of the population."""
    sample = draw(np.random.default_rng(0), 200_000)
    confidence = sample.confidence(gain)
    gaps = np.bincount(metrics.bin_index(confidence), weights=confidence - sample.truth)
    return 0.0 if gain == 1 else float(np.abs(gaps).sum() / confidence.size)


def difference(one: Shown, other: Shown, rng: np.random.Generator) -> Estimate:
    """Return the difference of ECE of two runs on the same items, with its interval."""
    runs = {"a": one, "b": other}
    drawn = resample(
        {name: run.statistic() for name, run in runs.items()},
        n_clusters=one.n_units,
        n=one.units.size,
        rng=rng,
        resamples=RESAMPLES,
    )
    errors = {
        name: calibration_error(
            run.confidence, run.right, run.units, run.n_units, rng=rng, resamples=RESAMPLES
        )
        for name, run in runs.items()
    }
    signs = {"a": 1, "b": -1}
    parts = [DifferencePart(signs[name], errors[name], drawn[name]) for name in runs]
    return ece_difference(drawn["a"] - drawn["b"], parts).estimate()


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
                estimate = calibration_error(
                    sample.confidence(gain),
                    sample.right,
                    sample.family,
                    families,
                    rng=rng,
                    resamples=RESAMPLES,
                )
                drawn = resample(
                    {"ece": sample.shown(gain).statistic()},
                    n_clusters=families,
                    n=2 * families,
                    rng=rng,
                    resamples=RESAMPLES,
                )["ece"]
                percentile = percentile_estimate(
                    drawn.value, drawn.replicates, n=2 * families, n_clusters=families
                )
                held += estimate.low <= truth <= estimate.high
                above += estimate.low > truth
                old += percentile.low <= truth <= percentile.high
                rejected += estimate.rejected
                debiased.append(estimate.debiased)
                shown.append(estimate.value)
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


@dataclass(frozen=True)
class TwoRuns:
    """Two runs on the same items.

    Attributes:
        name: what they have in common.
        gains: of the first and of the second run.
        knows: factor of the logits of the second run: with less than 1 it is less sure, and
            calibrated at a gain of 1.
        alike: correlation of their logits; None if outcomes are independent too. Otherwise both
            are right or wrong by the same draws.
    """

    name: str
    gains: tuple[float, float]
    knows: float = 1.0
    alike: float | None = None

    @property
    def truth(self) -> float:
        """The difference of true errors."""
        return true_error(self.gains[0]) - true_error(self.gains[1])

    def draw(self, rng: np.random.Generator, families: int) -> tuple[Sample, Sample]:
        """Draw a data set."""
        one = draw(rng, families)
        if self.alike is None:
            other = draw(rng, families)
            return one, _sample(self.knows * other.logits, other, _family_draws(rng, families))
        noise = rng.normal(0, 1.5, one.logits.shape)
        logits = self.alike * one.logits + np.sqrt(1 - self.alike**2) * noise
        chance = _family_draws(rng, families)
        return _sample(one.logits, one, chance), _sample(self.knows * logits, one, chance)


TWO_RUNS = (
    TwoRuns("both calibrated, one sharper", (1.0, 1.0), knows=0.5),
    TwoRuns("both calibrated, one sharper; alike", (1.0, 1.0), knows=0.5, alike=0.95),
    TwoRuns("same error", (1.25, 1.25)),
    TwoRuns("same error; alike", (1.25, 1.25), alike=0.95),
    TwoRuns("same large error", (1.61, 1.61)),
    TwoRuns("same large error; alike", (1.61, 1.61), alike=0.95),
    TwoRuns("small and large error", (1.18, 1.61)),
    TwoRuns("small and large error; alike", (1.18, 1.61), alike=0.95),
    TwoRuns("0 and a large error", (1.0, 1.8)),
    TwoRuns("one run before and after a temperature", (1.0, 1.8), alike=1.0),
    TwoRuns("over- and underconfident; alike", (1.4, 0.75), alike=0.9),
)


def difference_rows(sets: int, sizes: Sequence[int]) -> list[list[str]]:
    """Return rows on the difference of ECE of two runs on the same items."""
    rows = []
    for two in TWO_RUNS:
        row = [two.name, f"{100 * two.truth:.1f}"]
        for families in sizes:
            rng = np.random.default_rng([5, families])
            estimates = []
            for _ in range(sets):
                samples = zip(two.draw(rng, families), two.gains, strict=True)
                estimates.append(difference(*(run.shown(gain) for run, gain in samples), rng))
            held = np.mean([estimate.low <= two.truth <= estimate.high for estimate in estimates])
            marked = np.mean([estimate.low > 0 or estimate.high < 0 for estimate in estimates])
            row += [f"{100 * held:.1f}", f"{100 * marked:.1f}"]
        rows.append(row)
    return rows


def _sample(logits: FloatArray, like: Sample, chance: FloatArray) -> Sample:
    """Return a data set of a calibrated model with these logits, right by the given draws."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    truth = weights.max(axis=1) / weights.sum(axis=1)
    return Sample(logits, like.answers, like.family, truth, chance < truth)


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


def interval_text(sets: int) -> str:
    """Return the table on intervals of single runs."""
    columns = [
        "families",
        "true error",
        "mean ECE",
        "median debiased",
        "coverage",
        "too high",
        "percentile bootstrap",
        "rejected",
    ]
    return (
        f"{sets} data sets each; all numbers in %. Coverage is that of the 95% interval of the "
        "true error, and *too high* is the share of intervals above it. The next column is the "
        "coverage of the percentile bootstrap. *Rejected* is the share in which calibration is "
        f"rejected at 5%.\n\n{markdown_table(columns, interval_rows(sets, SIZES, GAINS))}"
    )


def difference_text(sets: int) -> str:
    """Return the table on differences of two runs."""
    sizes = (32, 162, 1_000)
    columns = ["two runs", "true difference"]
    for families in sizes:
        columns += [f"{families:,} families: coverage", "marked"]
    table = markdown_table(columns, difference_rows(sets, sizes))
    return (
        f"Differences of ECE, {sets} data sets each: coverage of the 95% interval of the "
        "difference of true errors, and how often it is marked. If the true "
        f"difference is 0, a mark is false.\n\n{table}"
    )


def temperature_text(sets: int) -> str:
    """Return the table on temperatures."""
    columns = ["temperature", "alarm on all items", "alarm on any group", "shown to help"]
    table = markdown_table(columns, temperature_rows(sets))
    return f"Temperatures (162 families, {sets} data sets each).\n\n{table}"


PARTS = {
    "intervals": interval_text,
    "differences": difference_text,
    "temperatures": temperature_text,
}


def main() -> None:
    """Run the simulations."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=int, default=400, help="data sets of each row")
    arguments.add_argument("--part", choices=PARTS, help="one of the three tables")
    chosen = chosen_options(arguments, sets=1)
    parts = PARTS if chosen.part is None else [chosen.part]
    sys.stdout.write("\n\n".join(PARTS[name](chosen.sets) for name in parts) + "\n")


if __name__ == "__main__":
    main()
