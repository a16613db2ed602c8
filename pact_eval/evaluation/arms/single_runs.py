"""Numbers of single runs: accuracy by group, and NLL, ECE and AURC before and after calibration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pact_eval.calibration import TemperatureSummary
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.run_metrics import arms_in_order, metric_row, run_seeds
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.registry import GroupBy
from pact_eval.runs import Decoding

CALIBRATED_METRICS: Final = ("nll_nats", "ece", "aurc")
"""Metrics that are shown before and after calibration."""

# Differences below this are rounding.
_ROUNDING: Final = 1e-9

RunKey = tuple[str, int | None]
"""Arm and seed of a run."""


@dataclass(frozen=True)
class CalibratedRun:
    """One run before and after calibration.

    Attributes:
        arm: of the run.
        seed: of the run, or None.
        before: NLL, ECE and AURC, raw.
        after: the same, calibrated.
        temperature: mean and range of T(x) over its items; None where it is not known.
        shown_worse: names of the metrics that T(x) is shown to make worse; None for published
            numbers, which have no intervals.
    """

    arm: str
    seed: int | None
    before: tuple[MetricRow, ...]
    after: tuple[MetricRow, ...]
    temperature: TemperatureSummary | None
    shown_worse: frozenset[str] | None = None

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
    table: MetricTable,
    decoding: Decoding = "single",
    temperature: Mapping[RunKey, TemperatureSummary] | None = None,
    shown_worse: Mapping[RunKey, frozenset[str]] | None = None,
) -> tuple[CalibratedRun, ...]:
    """Gather the runs that have calibrated numbers.

    Args:
        table: the numbers.
        decoding: single or ensemble.
        temperature: of each run, where it is known.
        shown_worse: of each run, the metrics that T(x) is shown to make worse; None for published
            numbers.

    Raises:
        InputError: no run has raw and calibrated numbers.
    """
    raw, calibrated = MetricDecoding(decoding), MetricDecoding(decoding, calibrated=True)
    found = []
    for arm in arms_in_order(table):
        for seed in run_seeds(table, arm):
            before, after = (_rows(table, arm, seed, name) for name in (raw, calibrated))
            if all(math.isnan(row.value) for row in after):
                continue
            known = (temperature or {}).get((arm, seed))
            worse = None if shown_worse is None else shown_worse.get((arm, seed), frozenset())
            found.append(CalibratedRun(arm, seed, before, after, known, worse))
    if not found:
        message = "no run has a calibrator in its folder"
        raise InputError(message)
    return tuple(found)


def _rows(
    table: MetricTable, arm: str, seed: int | None, decoding: MetricDecoding
) -> tuple[MetricRow, ...]:
    return tuple(
        metric_row(table, MetricCell(metric, arm, decoding, "all"), seed)
        for metric in CALIBRATED_METRICS
    )


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


def group_accuracy(table: MetricTable, by: GroupBy, decoding: MetricDecoding) -> GroupAccuracy:
    """Gather the accuracy of every run in every group.

    Args:
        table: the numbers, with one grouping in addition to all items.
        by: what those groups are.
        decoding: decoding of all numbers.

    Raises:
        InputError: there is no group but all items.
    """
    names = dict.fromkeys(
        row.cell.group
        for row in table.rows
        if row.cell.metric == "accuracy" and row.cell.group != "all"
    )
    if not names:
        message = f"no numbers by {by}"
        raise InputError(message)
    runs = [(arm, seed) for arm in arms_in_order(table) for seed in run_seeds(table, arm)]
    asked = [*(("accuracy", name) for name in names), ("score_mae", "all")]
    rows = tuple(
        tuple(
            metric_row(table, MetricCell(metric, arm, decoding, group), seed)
            for metric, group in asked
        )
        for arm, seed in runs
    )
    sizes = [next((row[at].n for row in rows if row[at].n), None) for at in range(len(names))]
    return GroupAccuracy(by, decoding, tuple(zip(names, sizes, strict=True)), rows)
