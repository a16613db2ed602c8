"""Coverage of 95% intervals with few errors, and with families of unequal size.

    python tests/stats/coverage.py [--sets 1000] [--seed 0]

A calibrated model answers items of three levels; families share a difficulty and, half of the
time, their luck. A second model adds noise to its logits. Families have two items, or 1, 2, 2, 3
and 8. The difficulty is set so that 1, 3, 5, 10 or 30 errors are expected. The truth is computed
from a large draw. An interval that is left out counts as no interval: coverage is that of the
intervals that are printed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import FloatArray
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.resampled_groups import (
    metric_difference,
    point_estimates,
    resampled_groups,
)
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.estimate import Estimate

ERRORS: Final = (1, 3, 5, 10, 30)
FAMILIES: Final = (32, 162)
SIZES: Final[Mapping[str, tuple[int, ...]]] = {"2": (2,), "1, 2, 2, 3, 8": (1, 2, 2, 3, 8)}
METRICS: Final = ("accuracy", "nll_nats", "brier", "ece", "aurc", "score_mae", "score_rps")
LEVELS: Final = 3
_LARGE: Final = 100_000
_HALVINGS: Final = 16
_RESAMPLES: Final = 300
# Share of printed intervals below which their coverage is not measured.
_FEW: Final = 0.05


@dataclass(frozen=True)
class Setting:
    """Families and the errors that are expected among their items."""

    families: int
    sizes: tuple[int, ...]
    errors: int

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """(F,) items of each family."""
        return np.resize(np.array(self.sizes), self.families)


def drawn(rows: npt.NDArray[np.int64], lead: float, rng: np.random.Generator) -> list[Predictions]:
    """Return the calibrated run and the noisy one on new items of such families.

    Args:
        rows: (F,) items of each family.
        lead: mean lead of the likely level, in logits.
        rng: source of the items.
    """
    family = np.arange(rows.size).repeat(rows)
    n = family.size
    logits = _logits(family, lead, rng)
    shared, own = rng.random(rows.size)[family], rng.random(n)
    luck = np.where(rng.random(n) < 0.5, shared, own)
    reference = (luck[:, None] > _probabilities(logits).cumsum(axis=1)[:, :-1]).sum(axis=1)
    noisy = logits + rng.normal(0.0, 0.6, size=logits.shape)
    return [_run(logits_of_run, family, reference) for logits_of_run in (logits, noisy)]


def _logits(family: npt.NDArray[np.int64], lead: float, rng: np.random.Generator) -> FloatArray:
    n = family.size
    ahead = lead + 0.7 * rng.normal(size=family[-1] + 1)[family] + 0.7 * rng.normal(size=n)
    logits = rng.normal(0.0, 0.3, size=(n, LEVELS))
    logits[np.arange(n), rng.integers(0, LEVELS, size=n)] += ahead
    return logits


def _probabilities(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _run(
    logits: FloatArray, family: npt.NDArray[np.int64], reference: npt.NDArray[np.int64]
) -> Predictions:
    n = family.size
    names = np.char.add("f", family.astype(str))
    return Predictions(
        ids=np.char.add("i", np.arange(n).astype(str)),
        family=names,
        source_family=names,
        domain=np.full(n, "d"),
        kind=np.full(n, "score"),
        variant=np.full(n, ""),
        n_choices=np.full(n, LEVELS),
        logits=logits[:, None, :],
        code_order=np.broadcast_to(np.arange(LEVELS), (n, 1, LEVELS)),
        prompt_tokens=np.full(n, np.nan),
        answer_mass=np.full((n, 1), np.nan),
        references=reference,
    )


def lead_for(setting: Setting) -> float:
    """Return the mean lead of the likely level at which so many errors are expected."""
    share = setting.errors / int(setting.rows.sum())
    low, high = -2.0, 16.0
    family = np.arange(_LARGE // 4).repeat(2)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        logits = _logits(family, middle, np.random.default_rng(0))
        wrong = float((1 - _probabilities(logits).max(axis=1)).mean())
        low, high = (middle, high) if wrong > share else (low, middle)
    return high


def truth(setting: Setting, lead: float, rng: np.random.Generator) -> dict[str, float]:
    """Return the metrics of the first run and A - B, from a large draw."""
    rows = np.resize(np.array(setting.sizes), _LARGE)
    a, b = (
        {name: one.value for name, one in point_estimates(run, names=METRICS)["all"].items()}
        for run in (ScoredItems.of(run, "single") for run in drawn(rows, lead, rng))
    )
    a["ece"] = 0.0
    return a | {f"{name}, A - B": a[name] - b[name] for name in METRICS if name != "ece"}


def intervals(setting: Setting, lead: float, rng: np.random.Generator) -> dict[str, Estimate]:
    """Return the metrics of the first run and A - B with their intervals, on one data set."""
    a, b = (
        resampled_groups(
            ScoredItems.of(run, "single"), rng=rng, resamples=_RESAMPLES, names=METRICS
        )[0]
        for run in drawn(setting.rows, lead, rng)
    )
    single = {name: a.estimate(name) for name in METRICS}
    return single | {
        f"{name}, A - B": metric_difference(name, [(a, b)])[0] for name in METRICS if name != "ece"
    }


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of one number hold the truth.

    Attributes:
        draws: data sets.
        printed: data sets with an interval.
        held: intervals that hold the truth.
    """

    draws: int
    printed: int
    held: int

    def __str__(self) -> str:
        """Return coverage of the printed intervals in %; a dash if fewer than 5% are printed."""
        few = self.printed < _FEW * self.draws
        return "–" if few else f"{100 * self.held / self.printed:.1f}"


def coverage(setting: Setting, draws: int, rng: np.random.Generator) -> dict[str, Coverage]:
    """Return the coverage of every number in one setting."""
    lead = lead_for(setting)
    expected = truth(setting, lead, rng)
    samples = [intervals(setting, lead, rng) for _ in range(draws)]
    return {
        name: _coverage([sample[name] for sample in samples], at) for name, at in expected.items()
    }


def _coverage(estimates: Sequence[Estimate], at: float) -> Coverage:
    printed = [estimate for estimate in estimates if np.isfinite(estimate.low)]
    held = sum(estimate.low <= at <= estimate.high for estimate in printed)
    return Coverage(len(estimates), len(printed), held)


def settings() -> Iterator[Setting]:
    """Yield the settings of the table."""
    for sizes in SIZES.values():
        for families in FAMILIES:
            for errors in ERRORS:
                yield Setting(families, sizes, errors)


def table(draws: int, seed: int) -> str:
    """Return the table: coverage of printed intervals, and how many data sets have one."""
    singles = list(METRICS)
    differences = [f"{name}, A - B" for name in METRICS if name != "ece"]
    titles = ["families", "items of a family", "errors", "printed", *singles]
    titles += ["printed, A - B", *differences]
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for index, setting in enumerate(settings()):
        result = coverage(setting, draws, np.random.default_rng([seed, index]))
        sizes = ", ".join(map(str, setting.sizes))
        cells = [str(setting.families), sizes, str(setting.errors)]
        for names in (singles, differences):
            cells += [f"{100 * result[names[1]].printed / draws:.0f}"]
            cells += [str(result[name]) for name in names]
        lines.append(f"| {' | '.join(cells)} |")
        sys.stderr.write(f"{lines[-1]}\n")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sys.stdout.write(
        f"{arguments.sets:,} data sets each; all numbers in %. *Printed* is the share with an "
        "interval of a loss (accuracy always has one); coverage is that of printed intervals.\n\n"
        f"{table(arguments.sets, arguments.seed)}\n"
    )


if __name__ == "__main__":
    main()
