"""Metrics of runs as rows of a metric table, and their means over the seeds of an arm.

`rows_from_evaluation` returns metrics with their intervals, `collection_metrics` those of several
runs without. Means are computed in one way from run folders and from a published table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.evidence import ArmEvidence, arm_evidence
from pact_eval.evaluation.chance_miscalibration import ChanceError
from pact_eval.evaluation.decoding import ENSEMBLE, ENSEMBLE_CALIBRATED, SINGLE, MetricDecoding
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import GroupBy, find_metric, registered_metrics
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.statistics import point_estimates
from pact_eval.runs import Decoding
from pact_eval.stats import Estimate, SeedSummary, seed_summary

MetricQuestion = tuple[str, MetricDecoding]
"""A metric and the decoding that it is taken under."""

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
class ArmValue:
    """One metric of an arm over its seeds.

    Attributes:
        summary: mean, sample deviation and number of runs.
        rows: the number of each seed.
        reason: why the mean is undefined, or None.
    """

    summary: SeedSummary
    rows: tuple[MetricRow, ...]
    reason: str | None


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
    arm: str, seed: int | None, items: ScoredItems, names: Sequence[str]
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


def collection_metrics(runs: Sequence[ExperimentRun], *, by: GroupBy) -> MetricTable:
    """Compute every metric of every run under every decoding that it allows.

    Args:
        runs: on the same items.
        by: the grouping in addition to all items.

    Returns:
        Values without intervals under the decodings of `rows_from_evaluation`. A decoding that a
        run does not allow is left out.
    """
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
        MetricDecoding(each, calibrated)
        for each in views[: run.predictions.k]
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
            for listed in _listed_under(metric, decoding):
                views = k if listed.views == "ensemble" else None
                yield MetricRow.of(MetricCell(metric, arm, listed, group), seed, estimate, views)


def _listed_under(metric: str, decoding: MetricDecoding) -> Iterator[MetricDecoding]:
    found = find_metric(metric)
    if not found.of_views:
        yield decoding
        return
    yield ENSEMBLE
    if found.of_top_answer and decoding.calibrated:
        yield ENSEMBLE_CALIBRATED


def arms_in_order(table: MetricTable) -> tuple[str, ...]:
    """Return the arms in the order of their first rows."""
    return tuple(dict.fromkeys(row.cell.arm for row in table.rows))


def run_seeds(table: MetricTable, arm: str) -> tuple[int | None, ...]:
    """Return the seeds of an arm's runs, ascending; None comes first, for a run without one."""
    found = {row.seed for row in table.rows if row.cell.arm == arm}
    unseeded: tuple[int | None, ...] = (None,) if None in found else ()
    return (*unseeded, *table.seeds(arm))


def repeated_arms(table: MetricTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Part the arms whose means compare from those that were trained at one seed only.

    Returns:
        Arms with several seeds and base models, then arms with one seed; all of them first where
        no arm has several.

    Examples:
        >>> cell = MetricCell("ece", "pact", SINGLE, "all")
        >>> rows = [MetricRow(cell, 17, 0.1), MetricRow(cell, 18, 0.1)]
        >>> more = [MetricRow(replace(cell, arm=arm), seed, 0.1) for arm, seed in
        ...         [("base", None), ("no_cf", 17)]]
        >>> repeated_arms(MetricTable(rows + more))
        (('pact', 'base'), ('no_cf',))
    """
    arms = arms_in_order(table)
    seeds = {arm: run_seeds(table, arm) for arm in arms}
    if not any(len(found) > 1 for found in seeds.values()):
        return arms, ()
    single = tuple(arm for arm, found in seeds.items() if len(found) == 1 and found != (None,))
    return tuple(arm for arm in arms if arm not in single), single


def arm_value(table: MetricTable, arm: str, metric: str, decoding: MetricDecoding) -> ArmValue:
    """Summarise one metric of all items over the seeds of an arm.

    Args:
        table: the numbers.
        arm: one that the table has.
        metric: name of a registered metric; `ensemble_gain` is the difference of the accuracies if
            the table does not have it.
        decoding: what it is taken under.
    """
    seeds = run_seeds(table, arm)
    rows = tuple(
        metric_row(table, MetricCell(metric, arm, decoding, "all"), seed) for seed in seeds
    )
    undefined = [row for row in rows if math.isnan(row.value)]
    reason = undefined[0].reason if undefined else None
    if reason is not None and len(undefined) < len(rows):
        reason = f"{reason} (at {len(undefined)} of {len(rows)} seeds)"
    with np.errstate(invalid="ignore"):
        return ArmValue(seed_summary([row.value for row in rows]), rows, reason)


def metric_row(table: MetricTable, cell: MetricCell, seed: int | None) -> MetricRow:
    """Return a number, or NaN with a reason that does not name the run: a table's row does.

    `ensemble_gain` is the difference of the accuracies where the table does not hold it.
    """
    row = table.row(cell, seed)
    if math.isnan(row.value) and cell.metric == "ensemble_gain":
        single = table.row(replace(cell, metric="accuracy", decoding=SINGLE), seed)
        together = table.row(replace(cell, metric="accuracy"), seed)
        row = replace(row, value=together.value - single.value, n=single.n)
    if not math.isnan(row.value):
        return replace(row, reason=None)
    where = f"{cell.metric} of {row.run} ({cell.decoding}, {cell.group}): "
    said = row.reason or "undefined"
    if said.startswith(where):
        return replace(row, reason=said.removeprefix(where))
    unknown = "no calibrator" if cell.decoding.calibrated else "not known under this decoding"
    return replace(row, reason=unknown)


def known_decodings(
    table: MetricTable, metric: str, decodings: Iterable[MetricDecoding]
) -> tuple[MetricDecoding, ...]:
    """Return those decodings under which some run has a number of a metric, for all items."""
    there = {
        row.cell.decoding
        for row in table.rows
        if row.cell.metric == metric and row.cell.group == "all" and not math.isnan(row.value)
    }
    return tuple(decoding for decoding in decodings if decoding in there)


@dataclass(frozen=True)
class ArmValues:
    """Metrics of arms over seeds.

    Attributes:
        questions: metric and decoding of each column.
        values: by arm, one value a question.
        sizes: of `metric_sizes`, what the numbers rest on.
        left_out: arms with one seed, where others have several: no mean to compare.
    """

    questions: tuple[MetricQuestion, ...]
    values: Mapping[str, tuple[ArmValue, ...]]
    sizes: Mapping[str, tuple[int, int]]
    left_out: tuple[str, ...] = ()


def main_results(table: MetricTable, decoding: Decoding = "single") -> ArmValues:
    """Summarise the metrics of the main comparison.

    Args:
        table: the numbers.
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
    return arm_values(table, questions)


def k_views(table: MetricTable) -> ArmValues:
    """Summarise what the K views of runs say together.

    Accuracy, flips and gain rest on the argmax, which no temperature changes; ECE and TV are taken
    raw and, where the table has them, calibrated.

    Args:
        table: the numbers.

    Returns:
        Mean and deviation over the seeds of each arm.

    Raises:
        InputError: no run has more views than one.
    """
    if not known_decodings(table, "accuracy", (ENSEMBLE, ENSEMBLE_CALIBRATED)):
        message = "no run has the probabilities of more views than one"
        raise InputError(message)
    return arm_values(table, _OF_VIEWS)


def arm_values(table: MetricTable, questions: Sequence[MetricQuestion]) -> ArmValues:
    """Summarise metrics of arms with several seeds; metrics that no run has are left out."""
    asked = tuple(
        (metric, decoding)
        for metric, decoding in questions
        if known_decodings(table, metric, (decoding,))
        or (metric == "ensemble_gain" and known_decodings(table, "accuracy", (decoding,)))
    )
    arms, single = repeated_arms(table)
    values = {
        arm: tuple(arm_value(table, arm, metric, decoding) for metric, decoding in asked)
        for arm in arms
    }
    return ArmValues(asked, values, metric_sizes(table), single)


def evidence_of(experiment: Experiment, results: ArmValues) -> dict[MetricQuestion, ArmEvidence]:
    """Return what the means of arms rest on, column by column: see `arm_evidence`.

    Args:
        experiment: the runs that the means are of, all on the same items.
        results: the means.
    """
    arms = list(results.values)
    return {
        (metric, decoding): arm_evidence(
            experiment, arms, metric, decoding.views, calibrated=decoding.calibrated
        )
        for metric, decoding in results.questions
    }


def row_chance(experiment: Experiment, row: MetricRow) -> ChanceError | None:
    """Return what chance alone makes of a calibration error of a run, on all items.

    Args:
        experiment: the runs.
        row: the number; None is returned for any other metric, and for what no run has.
    """
    run = next(
        (each for each in experiment.arms.get(row.cell.arm, ()) if each.seed == row.seed), None
    )
    metric = find_metric(row.cell.metric)
    if not metric.noise_floor or run is None or math.isnan(row.value):
        return None
    decoding = row.cell.decoding
    group = experiment.resampled(run, decoding.views, calibrated=decoding.calibrated)
    return ChanceError.of([group.estimate(metric.name)])


def metric_sizes(table: MetricTable) -> dict[str, tuple[int, int]]:
    """Return how many items, or pairs, the metrics of all items rest on.

    Returns:
        By metric, the lowest and the highest number; a metric without any is left out.

    Examples:
        >>> names = ("accuracy", "pair_accuracy")
        >>> cells = [MetricCell(name, "pact", SINGLE, "all") for name in names]
        >>> rows = [MetricRow(cell, 17, 0.8, n) for cell, n in zip(cells, (324, 162))]
        >>> metric_sizes(MetricTable(rows))
        {'accuracy': (324, 324), 'pair_accuracy': (162, 162)}
    """
    found: dict[str, list[int]] = {}
    for row in table.rows:
        if row.cell.group == "all" and row.n:
            found.setdefault(row.cell.metric, []).append(row.n)
    return {metric: (min(numbers), max(numbers)) for metric, numbers in found.items()}
