"""Numbers of several arms, from one of two sources: runs, or tables of published metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pact_eval._choices import GroupBy
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_summary import ArmSummary
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.differences import arm_difference, best_mean, standings
from pact_eval.evaluation.arms.matching import against
from pact_eval.evaluation.arms.run_metrics import collection_metrics
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.decoding import SINGLE, MetricDecoding
from pact_eval.evaluation.registry import find_metric, metric_spec
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:
    from pact_eval.evaluation.arms.released_training import ReleasedTraining
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.evaluation.experiment_run import ExperimentRun
    from pact_eval.evaluation.resampled_groups import ResampledGroup

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
    """

    table: MetricTable
    experiment: Experiment | None = None
    files: tuple[Path, ...] = ()
    trainings: tuple[ReleasedTraining, ...] = ()

    @property
    def published_text(self) -> str:
        """The files of published numbers, and the information that they lack."""
        files = ", ".join(path.name for path in self.files)
        return f"Published metrics ({files}): values without intervals, no difference is tested."

    @classmethod
    def of_runs(cls, experiment: Experiment) -> ArmMetrics:
        """Take the numbers of runs, on all items and by kind.

        Args:
            experiment: runs on the same items, with as many views.
        """
        return cls(collection_metrics(_in_order(experiment), by="kind"), experiment)

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
        if method in self.arms or (self.arms and method is None):
            seeded = (arm for arm in self.arms if self.table.seeds(arm))
            return method or next(seeded, self.arms[0])
        message = f"no row of arm {method!r}; there are {', '.join(self.arms) or 'none'}"
        raise InputError(message)

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
            table = (
                collection_metrics(_in_order(self.experiment), by=by)
                if by != "kind"
                else self.table
            )
            return replace(self, table=table)
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
        row = self.table.row(cell, seed)
        if math.isnan(row.value) and cell.metric == "ensemble_gain":
            single = self.table.row(replace(cell, metric="accuracy", decoding=SINGLE), seed)
            together = self.table.row(replace(cell, metric="accuracy"), seed)
            row = replace(row, value=together.value - single.value, n=single.n)
        if not math.isnan(row.value):
            return replace(row, reason=None)
        where = f"{cell.metric} of {row.run} ({cell.decoding}, {cell.group}): "
        reason = row.reason or "undefined"
        if reason.startswith(where):
            return replace(row, reason=reason.removeprefix(where))
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

    def rows_of(self, group: str) -> tuple[MetricRow, ...]:
        """Return every number of a group of items."""
        return tuple(row for row in self.table.rows if row.cell.group == group)

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
        resampled = {arm: self._resampled(arm, decoding) for arm in arms}
        arm_runs = {arm: runs for arm, runs in resampled.items() if runs}
        means = {arm: summaries[arm].mean for arm in arm_runs}
        differences = {}
        top = best_mean(means, metric_spec(metric))
        if top is not None:
            differences = {
                (top, arm): arm_difference(metric, [(match.a, match.b) for match in matches])
                for arm, matches in against(arm_runs, top).items()
                if matches and not math.isnan(means[arm])
            }
        standing = standings(means, metric_spec(metric), differences)
        return summaries | {
            arm: replace(
                summaries[arm],
                runs=tuple(run.estimate(metric) for run in runs.values()),
                standing=standing.get(arm),
            )
            for arm, runs in arm_runs.items()
        }

    def _summary(self, arm: str, cell: MetricCell) -> ArmSummary:
        rows = {seed: self.row(cell, seed) for seed in self.seeds(arm)}
        summary = ArmSummary.of(arm, {seed: _estimate(row) for seed, row in rows.items()})
        undefined = [row for row in rows.values() if math.isnan(row.value)]
        if not undefined:
            return summary
        reason = undefined[0].reason
        if len(undefined) < len(rows):
            reason = f"{reason} (at {len(undefined)} of {len(rows)} seeds)"
        return replace(summary, reason=reason)

    def _resampled(self, arm: str, decoding: MetricDecoding) -> Mapping[int | None, ResampledGroup]:
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


def _estimate(row: MetricRow) -> Estimate:
    return row.calibration or Estimate(row.value, row.low, row.high, row.n or 0, 0)


def _in_order(experiment: Experiment) -> tuple[ExperimentRun, ...]:
    """Return the runs in the order of their arms."""
    return tuple(run for runs in experiment.arms.values() for run in runs)
