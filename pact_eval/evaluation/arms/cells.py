"""Numbers of runs: one row per metric, arm, decoding, group and seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.differences import Standing
from pact_eval.evaluation.calibration_error import CalibrationError, ChanceError
from pact_eval.evaluation.metric_specs import DECODINGS, MetricDecoding
from pact_eval.evaluation.registry import metric_names
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.seeds import seed_summary

_PROBLEMS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class MetricCell:
    """One number of an arm; every seed has its own.

    Attributes:
        metric: name of a registered metric.
        arm: the arm.
        decoding: how the probabilities are made.
        group: "all", a kind, or a domain.

    Examples:
        >>> print(MetricCell("ece", "pact_full", MetricDecoding("single"), "all"))
        ece of pact_full (single, all)
    """

    metric: str
    arm: str
    decoding: MetricDecoding
    group: str

    def __str__(self) -> str:
        return f"{self.metric} of {self.arm} ({self.decoding}, {self.group})"


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One number of one run.

    Attributes:
        cell: metric, arm, decoding and group.
        seed: seed that the run was trained with; None for a run without one (a base model).
        value: the number; rates as fractions; NaN where it is undefined.
        n: number of its items (pairs, score items); None if unknown.
        low: lower end of its interval; NaN where there is none.
        high: upper end of its interval; NaN where there is none.
        reason: why the value is NaN.
        k: views that it rests on; None if it rests on one view, or if that is not known.
        source: file and line of a table of metrics; None for a run.
        calibration: for the ECE of a run, its noise floor and the test of calibration.
    """

    cell: MetricCell
    seed: int | None
    value: float
    n: int | None = None
    low: float = math.nan
    high: float = math.nan
    reason: str | None = None
    k: int | None = None
    source: str | None = None
    calibration: CalibrationError | None = None

    @classmethod
    def of(
        cls, cell: MetricCell, seed: int | None, estimate: Estimate, k: int | None = None
    ) -> MetricRow:
        """Return an estimate as a row."""
        return cls(
            cell=cell,
            seed=seed,
            value=estimate.value,
            n=estimate.n,
            low=estimate.low,
            high=estimate.high,
            reason=estimate.reason,
            k=k,
            calibration=estimate if isinstance(estimate, CalibrationError) else None,
        )

    @property
    def run(self) -> str:
        """The run that it is of, in words."""
        return self.cell.arm if self.seed is None else f"{self.cell.arm} seed {self.seed}"


class MetricTable:
    """Numbers of any number of runs.

    Repeated rows count once. An arm whose runs have no seed (a base model) is compared with every
    seed of the others.

    Args:
        rows: in any order.

    Raises:
        InputError: two different numbers for one place, or an unknown metric.

    Examples:
        >>> from pact_eval.evaluation.metric_specs import SINGLE
        >>> cell = MetricCell("ece", "pact", SINGLE, "all")
        >>> table = MetricTable([MetricRow(cell, 17, 0.126), MetricRow(cell, 18, 0.092)])
        >>> table.row(cell, 18).value
        0.092
        >>> table.row(cell, 19).reason
        'pact has no run with seed 19 (it has 17, 18)'
    """

    def __init__(self, rows: Iterable[MetricRow]) -> None:
        self._rows: dict[tuple[MetricCell, int | None], MetricRow] = {}
        self._seeds: dict[str, set[int]] = {}
        problems: list[str] = []
        for row in rows:
            problems += _problems(row, self._rows.get((row.cell, row.seed)))
            self._rows.setdefault((row.cell, row.seed), row)
            seeds = self._seeds.setdefault(row.cell.arm, set())
            if row.seed is not None:
                seeds.add(row.seed)
        refuse(problems)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> tuple[MetricRow, ...]:
        """All rows, as they came."""
        return tuple(self._rows.values())

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, by name."""
        return tuple(sorted(self._seeds))

    def seeds(self, arm: str) -> tuple[int, ...]:
        """Return the seeds of an arm; none for a base model, or an arm that is not there."""
        return tuple(sorted(self._seeds.get(arm, ())))

    def with_rows(self, rows: Iterable[MetricRow]) -> MetricTable:
        """Return a table of these rows and more."""
        return MetricTable([*self._rows.values(), *rows])

    def row(self, cell: MetricCell, seed: int | None) -> MetricRow:
        """Return a number, or NaN with the reason why there is none."""
        seed_there = seed if self.seeds(cell.arm) else None
        row = self._rows.get((cell, seed_there))
        if row is None:
            return MetricRow(cell, seed_there, math.nan, reason=self._why_absent(cell, seed_there))
        if math.isnan(row.value):
            where = f"{cell.metric} of {row.run} ({cell.decoding}, {cell.group})"
            return replace(row, reason=f"{where}: {row.reason or 'undefined'}")
        return row

    def _why_absent(self, cell: MetricCell, seed: int | None) -> str:
        seeds = self.seeds(cell.arm)
        if cell.arm not in self._seeds:
            return f"no run of {cell.arm} (there are {', '.join(self.arms) or 'no runs at all'})"
        if seeds and seed not in seeds:
            which = "without a seed" if seed is None else f"with seed {seed}"
            return f"{cell.arm} has no run {which} (it has {', '.join(map(str, seeds))})"
        at = [key for key, key_seed in self._rows if key.arm == cell.arm and key_seed == seed]
        of_run = cell.arm if seed is None else f"{cell.arm} seed {seed}"
        decodings = {key.decoding for key in at}
        if cell.decoding not in decodings:
            available = ", ".join(str(decoding) for decoding in DECODINGS if decoding in decodings)
            return f"no {cell.decoding} numbers of {of_run} (there are {available})"
        groups = {key.group for key in at if key.decoding == cell.decoding}
        if cell.group not in groups:
            return f"no group {cell.group} of {of_run} (there are {', '.join(sorted(groups))})"
        return f"no {cell.metric} of {of_run} ({cell.decoding}, {cell.group})"


def refuse(problems: Sequence[str]) -> None:
    """Raise an error of the first problems and the number of the others; nothing without any.

    Raises:
        InputError: there is a problem.
    """
    if not problems:
        return
    rest = len(problems) - _PROBLEMS_SHOWN
    more = [f"and {rest:,} more problems"] if rest > 0 else []
    raise InputError("\n".join([*problems[:_PROBLEMS_SHOWN], *more]))


def _problems(row: MetricRow, before: MetricRow | None) -> list[str]:
    where = f"{row.run}, {row.cell.decoding}, {row.cell.group}"
    if row.cell.metric not in metric_names():
        return [
            f"{where}: {row.cell.metric} under {row.cell.decoding} is not a metric and decoding"
        ]
    if before is None or _same(before.value, row.value):
        return []
    return [
        f"{where}: two runs say {row.cell.metric}: {before.value:.6g} and {row.value:.6g}; "
        "give one of them, or name their arms or seeds apart"
    ]


def _same(first: float, second: float) -> bool:
    return first == second or (math.isnan(first) and math.isnan(second))


@dataclass(frozen=True)
class ArmSummary:
    """One metric of one arm, in the unit of the metric.

    Attributes:
        arm: name of the arm.
        seeds: seeds of its runs, ascending; None for a run without a seed.
        runs: the metric of each run, in the same order; published metrics have no intervals.
        mean: mean over runs; NaN if a run has no value.
        deviation: sample standard deviation over runs (n - 1); NaN for fewer than two.
        reason: why the mean or the deviation is NaN or infinite; otherwise None.
        low: lower end of the 95% interval of the mean over families, with the runs held fixed; NaN
            if there is none, or it was not computed. The interval of ECE is that of the true error,
            and can lie below the mean.
        high: upper end of the interval.
        standing: whether the arm is best, or tied with the best, of those next to it; None if it
            is neither, or no difference was tested.
        calibrated: the same after T(x); None if a run has no calibrator, or T(x) was not requested.
    """

    arm: str
    seeds: tuple[int | None, ...]
    runs: tuple[Estimate, ...]
    mean: float
    deviation: float
    reason: str | None = None
    low: float = math.nan
    high: float = math.nan
    standing: Standing | None = None
    calibrated: ArmSummary | None = None

    @classmethod
    def of(
        cls, arm: str, runs: Mapping[int | None, Estimate], mean: Estimate | None = None
    ) -> ArmSummary:
        """Summarise the runs of an arm.

        Args:
            arm: name of the arm.
            runs: the metric of each run, by seed.
            mean: their mean with its interval over families; None leaves the interval out.

        Examples:
            >>> runs = {seed: Estimate(value, math.nan, math.nan, 324, 162)
            ...         for seed, value in {17: 0.840, 18: 0.821, 19: 0.877}.items()}
            >>> summary = ArmSummary.of("pact", runs)
            >>> round(summary.mean, 3), round(summary.deviation, 3), summary.seeds
            (0.846, 0.028, (17, 18, 19))
        """
        with np.errstate(invalid="ignore"):
            over_seeds = seed_summary([run.value for run in runs.values()])
        return cls(
            arm=arm,
            seeds=tuple(runs),
            runs=tuple(runs.values()),
            mean=over_seeds.mean if mean is None else mean.value,
            deviation=over_seeds.deviation,
            reason=over_seeds.reason,
            low=math.nan if mean is None else mean.low,
            high=math.nan if mean is None else mean.high,
        )

    @property
    def values(self) -> tuple[float, ...]:
        """The value of each run."""
        return tuple(run.value for run in self.runs)

    @property
    def chance(self) -> ChanceError | None:
        """ECE of these runs expected by chance; None for other metrics."""
        return ChanceError.of(self.runs)
