"""Metrics of runs as rows of a metric table.

`rows_from_evaluation` returns metrics with their intervals, `collection_metrics` those of several
runs without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pact_eval._choices import Decoding, GroupBy
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.decoding import ENSEMBLE, ENSEMBLE_CALIBRATED, MetricDecoding
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import find_metric
from pact_eval.evaluation.report import Evaluation
from pact_eval.evaluation.resampled_groups import point_estimates
from pact_eval.stats.estimate import Estimate


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
    remedy: str = "",
) -> tuple[MetricRow, ...]:
    """Return metrics of scored items as rows of a metric table, without intervals.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        items: the items of the run. All rows are under their decoding, also TV and flips.
        names: names of the metrics.
        remedy: name of the remedy that the items are decoded by; empty without one.

    Returns:
        One row per metric and group: all items, and each kind.
    """
    decoding = MetricDecoding(items.decoding, items.calibrator is not None, remedy)
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
            for listed in _listed_under(metric, decoding):
                views = k if listed.views == "ensemble" else None
                yield MetricRow.of(MetricCell(metric, arm, listed, group), seed, estimate, views)


def _listed_under(metric: str, decoding: MetricDecoding) -> Iterator[MetricDecoding]:
    entry = find_metric(metric)
    if not entry.of_views:
        yield decoding
        return
    yield ENSEMBLE
    if entry.of_top_answer and decoding.calibrated:
        yield ENSEMBLE_CALIBRATED
