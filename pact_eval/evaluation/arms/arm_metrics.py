"""Numbers of several arms, from one of two sources: runs, or tables of published metrics.

There is one row per metric, arm, decoding, group and seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from pact_eval._choices import Decoding, GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_differences import ArmSummary, choose_arm, with_standings
from pact_eval.evaluation.arms.released_folder import ReleasedFolder
from pact_eval.evaluation.arms.released_training import ReleasedTraining
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import (
    DECODINGS,
    ENSEMBLE,
    ENSEMBLE_CALIBRATED,
    SINGLE,
    MetricDecoding,
    find_metric,
    metric_names,
    registered_metrics,
)
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.resampled_groups import ResampledGroup, point_estimates
from pact_eval.stats.estimate import Estimate

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
        >>> from pact_eval.evaluation.registry import SINGLE
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

    def find(self, cell: MetricCell, seed: int | None) -> MetricRow | None:
        """Return a row; None if there is none."""
        return self._rows.get((cell, seed if self.seeds(cell.arm) else None))

    def row(self, cell: MetricCell, seed: int | None) -> MetricRow:
        """Return a number, or NaN with the reason why there is none."""
        row = self.find(cell, seed)
        if row is None:
            seed_there = seed if self.seeds(cell.arm) else None
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
    if before is None or np.array_equal(before.value, row.value, equal_nan=True):
        return []
    return [
        f"{where}: two runs say {row.cell.metric}: {before.value:.6g} and {row.value:.6g}; "
        "give one of them, or name their arms or seeds apart"
    ]


def rows_from_evaluation(
    arm: str, seed: int | None, evaluation: Evaluation
) -> tuple[MetricRow, ...]:
    """Return the numbers of an evaluation as rows of a metric table.

    TV, flips and ensemble gain are of the K views, whichever decoding was evaluated: they are under
    `ensemble`. An evaluation leaves its TV uncalibrated; flips and gain, which no temperature
    changes, are under `ensemble_calibrated` as well if the evaluation is calibrated.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        evaluation: of one decoding. For ablated contexts, only metrics that need them are returned:
            the others have the names of metrics on full contexts.

    Returns:
        One row per metric and group, with its interval.
    """
    decoding = MetricDecoding(evaluation.decoding, evaluation.calibration != "raw")
    groups = {group.name: group.estimates for group in evaluation.groups}
    ablated = evaluation.contexts == "ablated"
    return tuple(_rows(arm, seed, decoding, groups, k=evaluation.k, ablated=ablated))


def rows_from_items(
    arm: str,
    seed: int | None,
    items: ScoredItems,
    names: Sequence[str],
) -> tuple[MetricRow, ...]:
    """Return metrics of scored items as rows of a metric table, without intervals.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        items: the items of the run. All rows are under their decoding, also TV and flips.
        names: names of the metrics.

    Returns:
        One row per metric and group: all items, and each kind.
    """
    decoding = MetricDecoding(items.decoding, items.calibrator is not None)
    k = items.k if items.decoding == "ensemble" else None
    return tuple(
        MetricRow.of(MetricCell(metric, arm, decoding, group), seed, estimate, k)
        for group, estimates in point_estimates(items, "kind", names).items()
        for metric, estimate in estimates.items()
    )


def collection_metrics(experiment: Experiment, *, by: GroupBy) -> MetricTable:
    """Compute every metric of every run under every decoding that it allows, arm by arm.

    Args:
        experiment: runs on the same items.
        by: the grouping in addition to all items.

    Returns:
        Values without intervals under the decodings of `rows_from_evaluation`. A decoding that a
        run does not allow is left out.
    """
    runs = (run for runs in experiment.arms.values() for run in runs)
    return MetricTable(row for run in runs for row in _rows_of_run(run, by))


def _rows_of_run(run: ExperimentRun, by: GroupBy) -> Iterator[MetricRow]:
    for decoding in decodings_of(run):
        try:
            items = run.scored(decoding.views, calibrated=decoding.calibrated)
        except ValueError:
            # No such decoding: the views of an item rule out all of its answers, or the
            # calibrator needs prompt lengths that the run does not know.
            continue
        yield from _rows(run.arm, run.seed, decoding, point_estimates(items, by), k=items.k)


def decodings_of(run: ExperimentRun) -> tuple[MetricDecoding, ...]:
    """Return the decodings that a run allows, by its number of views and by its calibrator."""
    views: tuple[Decoding, ...] = ("single", "ensemble")
    calibrations = (False,) if run.calibrator is None else (False, True)
    return tuple(
        MetricDecoding(decoding, calibrated)
        for decoding in views[: run.predictions.k]
        for calibrated in calibrations
    )


def _rows(
    arm: str,
    seed: int | None,
    decoding: MetricDecoding,
    groups: Mapping[str, Mapping[str, Estimate]],
    *,
    k: int,
    ablated: bool = False,
) -> Iterator[MetricRow]:
    for group, estimates in groups.items():
        for metric, estimate in estimates.items():
            if ablated and "ablated contexts" not in find_metric(metric).needs:
                continue
            for listed in _decodings_listed(metric, decoding):
                views = k if listed.views == "ensemble" else None
                yield MetricRow.of(MetricCell(metric, arm, listed, group), seed, estimate, views)


def _decodings_listed(metric: str, decoding: MetricDecoding) -> Iterator[MetricDecoding]:
    entry = find_metric(metric)
    if not entry.uses_all_views:
        yield decoding
        return
    yield ENSEMBLE
    if entry.argmax_only and decoding.calibrated:
        yield ENSEMBLE_CALIBRATED


MetricQuestion: TypeAlias = tuple[str, MetricDecoding]
"""A metric and the decoding that it is taken under."""

_KINDS: Final = ("choice", "boolean", "score")

NEEDS_RUNS: Final = "needs runs: published metrics have no items"
"""Why a table or figure cannot be made from published metrics."""


@dataclass(frozen=True)
class ArmMetrics:
    """The numbers of several arms.

    Attributes:
        table: the value of every run under every decoding, on all items and in groups.
        experiment: the runs, all on the same items; None for published metrics, which have no
            intervals and no tests.
        files: the tables of published metrics; empty for runs.
        trainings: how released runs were trained; empty for runs and for tables.
        folders: what released folders say of several runs; empty for runs and for tables.
    """

    table: MetricTable
    experiment: Experiment | None = None
    files: tuple[Path, ...] = ()
    trainings: tuple[ReleasedTraining, ...] = ()
    folders: tuple[ReleasedFolder, ...] = ()

    @property
    def published_text(self) -> str:
        """The files of published numbers, and the information that they lack."""
        files = ", ".join(path.name for path in self.files)
        if any(folder.significance is not None for folder in self.folders):
            return f"Published metrics ({files}): no intervals and tests but those of `mcnemar`."
        return f"Published metrics ({files}): values without intervals, no difference is tested."

    @classmethod
    def of_runs(cls, experiment: Experiment) -> ArmMetrics:
        """Take the numbers of runs, on all items and by kind.

        Args:
            experiment: runs on the same items, with as many views.
        """
        return cls(collection_metrics(experiment, by="kind"), experiment)

    def method_first(self, method: str | None) -> ArmMetrics:
        """Return the numbers with the arm of a method before the others, as `Experiment.arms` does.

        Args:
            method: the arm that a user named; None, or an arm that is not there, changes nothing.

        Examples:
            >>> rows = [MetricRow(MetricCell("ece", arm, SINGLE, "all"), 17, 0.1) for arm in "abc"]
            >>> ArmMetrics(MetricTable(rows)).method_first("c").arms
            ('c', 'a', 'b')
        """
        rows = sorted(self.table.rows, key=lambda row: row.cell.arm != method)
        trainings = sorted(self.trainings, key=lambda training: training.arm != method)
        return replace(self, table=MetricTable(rows), trainings=tuple(trainings))

    @property
    def published(self) -> bool:
        """Whether the numbers are published ones, without intervals and tests."""
        return self.experiment is None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, in the order of their first rows."""
        return tuple(dict.fromkeys(row.cell.arm for row in self.table.rows))

    def main_arm(self, method: str | None = None) -> str:
        """Return the arm that the others are compared with, as `Experiment.main_arm` chooses it.

        Args:
            method: the arm that a user named; None takes the first arm with a seed, or the first.

        Raises:
            InputError: no row is of the named arm, or there is no row.
        """
        return choose_arm({arm: bool(self.table.seeds(arm)) for arm in self.arms}, method)

    @property
    def repeated_arms(self) -> tuple[str, ...]:
        """The arms whose means compare: with several seeds, or without a seed (base models).

        If no arm has several seeds, these are all arms.

        Examples:
            >>> cell = MetricCell("ece", "pact", SINGLE, "all")
            >>> rows = [MetricRow(cell, 17, 0.1), MetricRow(cell, 18, 0.1)]
            >>> more = [MetricRow(replace(cell, arm=arm), seed, 0.1) for arm, seed in
            ...         [("base", None), ("no_cf", 17)]]
            >>> ArmMetrics(MetricTable(rows + more)).repeated_arms
            ('pact', 'base')
        """
        seeds = {arm: self.seeds(arm) for arm in self.arms}
        if not any(len(of_arm) > 1 for of_arm in seeds.values()):
            return self.arms
        return tuple(arm for arm in self.arms if len(seeds[arm]) > 1 or seeds[arm] == (None,))

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """By metric of all items, the lowest and the highest number of items (pairs, ...).

        Examples:
            >>> names = ("accuracy", "pair_accuracy")
            >>> cells = [MetricCell(name, "pact", SINGLE, "all") for name in names]
            >>> rows = [MetricRow(cell, 17, 0.8, n) for cell, n in zip(cells, (324, 162))]
            >>> ArmMetrics(MetricTable(rows)).sizes
            {'accuracy': (324, 324), 'pair_accuracy': (162, 162)}
        """
        counts: dict[str, list[int]] = {}
        for row in self.table.rows:
            if row.cell.group == "all" and row.n:
                counts.setdefault(row.cell.metric, []).append(row.n)
        return {metric: (min(numbers), max(numbers)) for metric, numbers in counts.items()}

    def seeds(self, arm: str) -> tuple[int | None, ...]:
        """Return the seeds of an arm's runs, ascending; None comes first, for a run without one."""
        seeds = {row.seed for row in self.table.rows if row.cell.arm == arm}
        unseeded: tuple[int | None, ...] = (None,) if None in seeds else ()
        return (*unseeded, *self.table.seeds(arm))

    def by_group(self, by: GroupBy) -> ArmMetrics:
        """Return the numbers on all items and in the groups of one grouping.

        The groups of published metrics are kinds if they have the names of kinds, else domains.
        """
        if self.experiment is not None:
            if by == "kind":
                return self
            return replace(self, table=collection_metrics(self.experiment, by=by))
        return replace(
            self,
            table=MetricTable(
                row
                for row in self.table.rows
                if row.cell.group == "all" or (row.cell.group in _KINDS) == (by == "kind")
            ),
        )

    def row(self, cell: MetricCell, seed: int | None) -> MetricRow:
        """Return a number of a run, or NaN with a reason that does not name the run.

        `ensemble_gain` is the difference of the accuracies if the table does not have it.
        """
        row, known = self.table.row(cell, seed), self.table.find(cell, seed)
        if math.isnan(row.value) and cell.metric == "ensemble_gain":
            single = self.table.row(replace(cell, metric="accuracy", decoding=SINGLE), seed)
            together = self.table.row(replace(cell, metric="accuracy"), seed)
            row = replace(row, value=together.value - single.value, n=single.n)
        if not math.isnan(row.value):
            return replace(row, reason=None)
        if known is not None:
            return replace(row, reason=known.reason or "undefined")
        unknown = "no calibrator" if cell.decoding.calibrated else "not known under this decoding"
        return replace(row, reason=unknown)

    def rows(
        self, arm: str, seed: int | None, questions: Sequence[MetricQuestion]
    ) -> tuple[MetricRow, ...]:
        """Return the numbers of all items of a run, one per question; of ECE with its noise."""
        return tuple(
            self._with_noise(self.row(MetricCell(metric, arm, decoding, "all"), seed))
            for metric, decoding in questions
        )

    def another_run(self, arm: str, seed: int | None, accuracy: float) -> str | None:
        """Say so if an accuracy differs from that of a run at view 0, on all items.

        Examples:
            >>> cell = MetricCell("accuracy", "base", SINGLE, "all")
            >>> metrics = ArmMetrics(MetricTable([MetricRow(cell, None, 0.6636)]))
            >>> metrics.another_run("base", None, 0.6389)
            'base is another run than in its results: 63.9% correct here, 66.4% there'
            >>> metrics.another_run("base", None, 0.6636)
        """
        row = self.row(MetricCell("accuracy", arm, SINGLE, "all"), seed)
        if math.isnan(row.value) or math.isclose(row.value, accuracy, abs_tol=1e-9):
            return None
        shares = f"{100 * accuracy:.1f}% correct here, {100 * row.value:.1f}% there"
        return f"{row.run} is another run than in its results: {shares}"

    def known_decodings(
        self, metric: str, decodings: Iterable[MetricDecoding]
    ) -> tuple[MetricDecoding, ...]:
        """Return those decodings under which some run has a number of a metric, for all items."""
        available = {
            row.cell.decoding
            for row in self.table.rows
            if row.cell.metric == metric and row.cell.group == "all" and not math.isnan(row.value)
        }
        return tuple(decoding for decoding in decodings if decoding in available)

    def _with_noise(self, row: MetricRow) -> MetricRow:
        """Return the ECE of a run with its noise floor; any other number as it is."""
        metric, experiment = find_metric(row.cell.metric), self.experiment
        if experiment is None or not metric.noise_floor or math.isnan(row.value):
            return row
        decoding = row.cell.decoding
        run = next(run for run in experiment.arms[row.cell.arm] if run.seed == row.seed)
        group = experiment.resampled(run, decoding.views, calibrated=decoding.calibrated)
        error = group.estimate(metric.name)
        return replace(row, calibration=error if isinstance(error, CalibrationError) else None)

    def summaries(
        self, arms: Sequence[str], metric: str, decoding: MetricDecoding, group: str = "all"
    ) -> dict[str, ArmSummary]:
        """Summarise one metric over the seeds of each arm.

        Args:
            arms: names of the arms that are shown next to each other.
            metric: name of a registered metric.
            decoding: what it is taken under.
            group: of items; intervals and standings are of all items only.

        Returns:
            By arm, its summary. Runs have their intervals, and every arm is compared with the arm
            of the best mean; published metrics have neither.
        """
        summaries = {arm: self._summary(arm, MetricCell(metric, arm, decoding, group))
                     for arm in arms}  # fmt: skip
        if self.experiment is None or group != "all":
            return summaries
        resampled = {arm: self._resample_runs(arm, decoding) for arm in arms}
        compared = {arm: runs for arm, runs in resampled.items() if runs}
        for arm, runs in compared.items():
            estimates = tuple(run.estimate(metric) for run in runs.values())
            summaries[arm] = replace(summaries[arm], runs=estimates)
        return with_standings(summaries, compared, metric)

    def _summary(self, arm: str, cell: MetricCell) -> ArmSummary:
        rows = {seed: self.row(cell, seed) for seed in self.seeds(arm)}
        estimates = {
            seed: row.calibration or Estimate(row.value, row.low, row.high, row.n or 0, 0)
            for seed, row in rows.items()
        }
        summary = ArmSummary.of(arm, estimates)
        undefined = [row for row in rows.values() if math.isnan(row.value)]
        if not undefined:
            return summary
        reason = undefined[0].reason
        if len(undefined) < len(rows):
            reason = f"{reason} (at {len(undefined)} of {len(rows)} seeds)"
        return replace(summary, reason=reason)

    def _resample_runs(
        self, arm: str, decoding: MetricDecoding
    ) -> Mapping[int | None, ResampledGroup]:
        """Return all items of each run of an arm; nothing if a run lacks the decoding."""
        experiment = self.experiment
        if experiment is None:
            return {}
        try:
            return {
                run.seed: experiment.resampled(run, decoding.views, calibrated=decoding.calibrated)
                for run in experiment.arms[arm]
            }
        except InputError:
            # No calibrator, or it needs prompt lengths that the run does not record.
            return {}


_OF_VIEWS: Final[tuple[MetricQuestion, ...]] = (
    ("accuracy", ENSEMBLE),
    ("pair_accuracy", ENSEMBLE),
    ("ece", ENSEMBLE),
    ("ece", ENSEMBLE_CALIBRATED),
    ("view_tv", ENSEMBLE),
    ("view_tv", ENSEMBLE_CALIBRATED),
    ("flip_rate", ENSEMBLE),
    ("ensemble_gain", ENSEMBLE),
)


@dataclass(frozen=True)
class ArmSummaries:
    """Metrics of arms over seeds.

    Attributes:
        questions: metric and decoding of each column.
        arms: by arm, one summary per question.
        sizes: of `ArmMetrics.sizes`, what the numbers rest on.
        published: whether these are published numbers, without intervals and tests.
        left_out: arms with one seed, where others have several: no mean to compare.
    """

    questions: tuple[MetricQuestion, ...]
    arms: Mapping[str, tuple[ArmSummary, ...]]
    sizes: Mapping[str, tuple[int, int]]
    published: bool
    left_out: tuple[str, ...] = ()


def main_results(metrics: ArmMetrics, decoding: Decoding = "single") -> ArmSummaries:
    """Summarise the metrics of the main comparison.

    Args:
        metrics: the numbers.
        decoding: single or ensemble; ECE is taken raw and, where a run is calibrated, calibrated.

    Returns:
        Mean and deviation over the seeds of each arm.
    """
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    questions: list[MetricQuestion] = []
    for spec in registered_metrics("full", "main results"):
        questions.append((spec.name, raw))
        if find_metric(spec.name).noise_floor:
            questions.append((spec.name, calibrated))
    return _summaries(metrics, questions)


def k_views(metrics: ArmMetrics) -> ArmSummaries:
    """Summarise the ensemble of the K views of runs.

    Accuracy, flips and gain rest on the argmax, which no temperature changes; ECE and TV are taken
    raw and, where the table has them, calibrated.

    Args:
        metrics: the numbers.

    Returns:
        Mean and deviation over the seeds of each arm.

    Raises:
        InputError: no run has more views than one.
    """
    if not metrics.known_decodings("accuracy", (ENSEMBLE, ENSEMBLE_CALIBRATED)):
        raise InputError("no run has the probabilities of more views than one")
    return _summaries(metrics, _OF_VIEWS)


def _summaries(metrics: ArmMetrics, questions: Sequence[MetricQuestion]) -> ArmSummaries:
    """Summarise metrics of arms with several seeds; metrics that no run has are left out."""
    available = tuple(
        (metric, decoding)
        for metric, decoding in questions
        if metrics.known_decodings(metric, (decoding,))
        or (metric == "ensemble_gain" and metrics.known_decodings("accuracy", (decoding,)))
    )
    arms = metrics.repeated_arms
    columns = [metrics.summaries(arms, metric, decoding) for metric, decoding in available]
    return ArmSummaries(
        questions=available,
        arms={arm: tuple(column[arm] for column in columns) for arm in arms},
        sizes=metrics.sizes,
        published=metrics.published,
        left_out=tuple(arm for arm in metrics.arms if arm not in arms),
    )
