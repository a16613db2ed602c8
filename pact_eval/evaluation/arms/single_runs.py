"""Numbers of single runs: accuracy by group, and NLL, ECE and AURC before and after calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pact_eval._choices import Decoding, GroupBy
from pact_eval.calibration.temperatures import TemperatureSummary
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow
from pact_eval.evaluation.arms.released_training import ReleasedCalibration
from pact_eval.evaluation.diagnostics import made_worse
from pact_eval.evaluation.metric_specs import MetricDecoding

CALIBRATED_METRICS: Final = ("nll_nats", "ece", "aurc")
"""Metrics that are shown before and after calibration."""

# Differences below this are rounding.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class CalibratedRun:
    """One run before and after calibration.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        before: NLL, ECE and AURC, raw.
        after: the same, calibrated.
        temperature: mean and range of T(x) over its items; None where it is not known.
        fitted: the calibrator of a released run, with numbers of the split of its fit; else None.
        shown_worse: names of the metrics that T(x) is shown to make worse; None for published
            numbers, which have no intervals.
    """

    arm: str
    seed: int | None
    before: tuple[MetricRow, ...]
    after: tuple[MetricRow, ...]
    temperature: TemperatureSummary | None
    shown_worse: frozenset[str] | None = None
    fitted: ReleasedCalibration | None = None

    @property
    def worse(self) -> tuple[bool, ...]:
        """Whether each metric is shown to be worse; published ones: by any amount but rounding."""
        if self.shown_worse is not None:
            return tuple(row.cell.metric in self.shown_worse for row in self.before)
        return tuple(
            after.value > before.value + _ROUNDING
            for before, after in zip(self.before, self.after, strict=True)
        )


def calibrated_runs(
    metrics: ArmMetrics, decoding: Decoding = "single"
) -> tuple[CalibratedRun, ...]:
    """Gather the runs that have calibrated numbers.

    Args:
        metrics: the numbers; those of runs have temperatures, and tests of what T(x) changes.
        decoding: single or ensemble.

    Raises:
        InputError: no run has raw and calibrated numbers.
    """
    experiment = metrics.experiment
    runs = {} if experiment is None else {(run.arm, run.seed): run for run in experiment.runs}
    fitted = {(run.arm, run.seed): run.calibration for run in metrics.trainings}
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    gathered = []
    for arm in metrics.arms:
        for seed in metrics.seeds(arm):
            before, after = (
                metrics.rows(arm, seed, [(metric, when) for metric in CALIBRATED_METRICS])
                for when in (raw, calibrated)
            )
            if all(math.isnan(row.value) for row in after):
                continue
            run = runs.get((arm, seed))
            temperature = None if run is None else run.temperature
            worse = None if experiment is None or run is None else made_worse(experiment, run)
            numbers = before, after, temperature, worse
            gathered.append(CalibratedRun(arm, seed, *numbers, fitted.get((arm, seed))))
    if not gathered:
        message = "no run has a calibrator in its folder"
        raise InputError(message)
    return tuple(gathered)


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy of runs by group.

    Attributes:
        by: what the groups are.
        decoding: of all numbers.
        groups: names of the groups, each with its number of items as far as it is known.
        rows: by run, accuracy in each group, then Score MAE of all items.
    """

    by: GroupBy
    decoding: MetricDecoding
    groups: tuple[tuple[str, int | None], ...]
    rows: tuple[tuple[MetricRow, ...], ...]


def group_accuracy(metrics: ArmMetrics, by: GroupBy, decoding: MetricDecoding) -> GroupAccuracy:
    """Gather the accuracy of every run in every group.

    Args:
        metrics: the numbers.
        by: what the groups are.
        decoding: decoding of all numbers.

    Raises:
        InputError: there is no group but all items.
    """
    metrics = metrics.by_group(by)
    names = dict.fromkeys(
        row.cell.group
        for row in metrics.table.rows
        if row.cell.metric == "accuracy" and row.cell.group != "all"
    )
    if not names:
        message = f"no numbers by {by}"
        raise InputError(message)
    questions = [*(("accuracy", name) for name in names), ("score_mae", "all")]
    rows = tuple(
        tuple(
            metrics.row(MetricCell(metric, arm, decoding, group), seed)
            for metric, group in questions
        )
        for arm in metrics.arms
        for seed in metrics.seeds(arm)
    )
    sizes = [next((row[at].n for row in rows if row[at].n), None) for at in range(len(names))]
    return GroupAccuracy(by, decoding, tuple(zip(names, sizes, strict=True)), rows)
