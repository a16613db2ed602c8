"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each decoding that it allows: single, and the K views together, each
raw and, if the run's folder holds a calibrator, calibrated. Differences between runs get intervals
over families, under the same resamples for every run. Runs on ablated contexts have other items
and metrics of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval.calibration import Calibrator
from pact_eval.evaluation import (
    ABLATED_CONFIDENCE,
    ABLATED_GAP,
    Calibration,
    Evaluation,
    Experiment,
    ExperimentRun,
    ScoredItems,
    Settings,
    StatisticSet,
    group_rows,
    group_statistics,
)
from pact_eval.preregistration.criteria import (
    METRIC_SPECS,
    TEMPERATURE_FREE,
    VIEW_METRICS,
    Cell,
    DecodingName,
    Hypotheses,
)
from pact_eval.preregistration.judging import judge
from pact_eval.preregistration.parsing import read_hypotheses
from pact_eval.preregistration.published_table import read_metric_table
from pact_eval.preregistration.registration import (
    Registration,
    RunFacts,
    check_lock,
    lock_path,
    read_lock,
    run_facts,
)
from pact_eval.preregistration.scorecard import Scorecard, WeightedRow
from pact_eval.preregistration.table import MetricRow, MetricTable
from pact_eval.runs import Decoding, Predictions
from pact_eval.stats import Estimate, Statistic, bootstrap_intervals

ABLATED_ROWS: Final = (ABLATED_CONFIDENCE, ABLATED_GAP)
"""Metrics of ablated contexts, told apart from those of whole contexts by their names."""

_NAMES: Final[dict[tuple[Decoding, Calibration], DecodingName]] = {
    ("single", "raw"): "single",
    ("single", "calibrated"): "single_calibrated",
    ("ensemble", "raw"): "ensemble",
    ("ensemble", "calibrated"): "ensemble_calibrated",
}


def decoding_name(decoding: Decoding, calibration: Calibration) -> DecodingName:
    """Return the one word by which hypotheses know a decoding.

    Example:
        >>> decoding_name("single", "raw"), decoding_name("ensemble", "calibrated")
        ('single', 'ensemble_calibrated')
    """
    return _NAMES[decoding, calibration]


def rows_from_evaluation(
    arm: str, seed: int | None, evaluation: Evaluation
) -> tuple[MetricRow, ...]:
    """Return the numbers of an evaluation as rows of a metric table.

    TV, flips and ensemble gain are of the K views, whichever decoding was evaluated: they are under
    `ensemble`. An evaluation leaves its TV uncalibrated; flips and gain, which no temperature
    changes, stand under `ensemble_calibrated` as well where the evaluation is calibrated.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        evaluation: of one decoding.

    Returns:
        One row a metric and group, with its interval.
    """
    name = decoding_name(evaluation.decoding, evaluation.calibration)
    return tuple(
        _row(Cell(metric, arm, decoding, group.name), seed, estimate)
        for group in evaluation.groups
        for metric, estimate in group.estimates.items()
        if metric in METRIC_SPECS
        for decoding in _listed_under(metric, name)
    )


def rows_from_ablated(arm: str, seed: int | None, evaluation: Evaluation) -> tuple[MetricRow, ...]:
    """Return the confidence and the gap on ablated contexts as rows of a metric table.

    Args:
        arm: the arm of the run.
        seed: the seed it was trained with; None for a base model.
        evaluation: of one decoding.

    Returns:
        One row for each of `ABLATED_ROWS` and group, with its interval.
    """
    name = decoding_name(evaluation.decoding, evaluation.calibration)
    return tuple(
        _row(Cell(metric, arm, name, group.name), seed, group.estimates[metric])
        for group in evaluation.groups
        for metric in ABLATED_ROWS
    )


def _row(cell: Cell, seed: int | None, estimate: Estimate) -> MetricRow:
    return MetricRow(
        cell=cell,
        seed=seed,
        value=estimate.value,
        n=estimate.n,
        low=estimate.low,
        high=estimate.high,
        reason=estimate.reason,
    )


def _listed_under(metric: str, name: DecodingName) -> Iterator[DecodingName]:
    if metric not in VIEW_METRICS:
        yield name
        return
    yield "ensemble"
    if metric in TEMPERATURE_FREE and name.endswith("_calibrated"):
        yield "ensemble_calibrated"


def rows_from_items(
    cell: Cell, seed: int | None, values: npt.ArrayLike, kind: npt.ArrayLike
) -> tuple[MetricRow, ...]:
    """Return the mean of a number by item, over all items and over each kind.

    For metrics that an evaluation lacks: `mean_confidence` (from `metrics.confidence`), and the TV
    of calibrated views.

    Args:
        cell: metric, arm and decoding; its group is not read.
        seed: as for `rows_from_evaluation`.
        values: (n,) the number of each item.
        kind: (n,) the field kind of each item.

    Returns:
        One row a group; NaN with a reason where an item has no number.

    Raises:
        ValueError: the two do not have one shape (n,).

    Example:
        >>> cell = Cell("mean_confidence", "pact", "single", "all")
        >>> rows = rows_from_items(cell, 17, [0.9, 0.7, 0.5], ["choice", "score", "score"])
        >>> [(row.cell.group, round(row.value, 2), row.n) for row in rows]
        [('all', 0.7, 3), ('choice', 0.9, 1), ('score', 0.6, 2)]
    """
    numbers = np.asarray(values, dtype=np.float64)
    kinds = np.asarray(kind, dtype=np.str_)
    if numbers.ndim != 1 or numbers.shape != kinds.shape:
        message = f"values and kind: expected one shape (n,), got {numbers.shape}, {kinds.shape}"
        raise ValueError(message)
    groups = {"all": numbers} | {name: numbers[kinds == name] for name in np.unique(kinds).tolist()}
    return tuple(
        _mean_row(Cell(cell.metric, cell.arm, cell.decoding, name), seed, members)
        for name, members in groups.items()
    )


def _mean_row(cell: Cell, seed: int | None, members: npt.NDArray[np.float64]) -> MetricRow:
    n, undefined = members.size, int(np.isnan(members).sum())
    if n == 0:
        return MetricRow(cell, seed, math.nan, 0, reason="no items")
    if undefined:
        reason = f"undefined for {undefined:,} of {n:,} items"
        return MetricRow(cell, seed, math.nan, n, reason=reason)
    return MetricRow(cell, seed, float(members.mean()), n)


_RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class JudgedHypotheses:
    """Hypotheses, what became of them, and what their registration proves.

    Attributes:
        hypotheses: the criteria.
        scorecard: the verdicts with their evidence.
        registration: what the lock beside the criteria says of them and of the runs.
        warnings: of the calibrators that were applied, in sentences.
    """

    hypotheses: Hypotheses
    scorecard: Scorecard
    registration: Registration
    warnings: tuple[str, ...]


def judge_sources(
    criteria: Path, sources: Sequence[Path], settings: Settings | None = None
) -> JudgedHypotheses:
    """Judge a file of hypotheses on run folders and tables of metrics.

    Args:
        criteria: the file; its lock, if any, lies next to it.
        sources: run folders, and tables of metrics (`.csv` in the published layout).
        settings: bootstrap of the intervals; verdicts rest on the values alone.

    Returns:
        The verdicts, and what the registration proves.

    Raises:
        InputError: a source cannot be read, runs hold other items, or two runs have the same arm
            and seed.
        RecordError: the hypotheses cannot be understood.
        RunError: a folder is not a complete run.
    """
    folders = [source for source in sources if source.is_dir()]
    tables = [source for source in sources if not source.is_dir()]
    read_hypotheses(criteria)
    return judge_experiment(criteria, Experiment.read(folders, settings), tables)


def judge_experiment(
    criteria: Path, experiment: Experiment, tables: Sequence[Path] = ()
) -> JudgedHypotheses:
    """Judge a file of hypotheses on the runs of an experiment; see `judge_sources`.

    Args:
        criteria: the file; its lock, if any, lies next to it.
        experiment: runs on full contexts must hold the same items, and so must ablated runs.
        tables: tables of metrics in the published layout.
    """
    hypotheses = read_hypotheses(criteria)
    place = lock_path(criteria)
    lock = read_lock(place) if place.exists() else None
    experiment.require_same_items()
    runs = _Numbers(experiment)
    facts = [run_facts(run.run) for run in (*experiment.runs, *experiment.ablated)]
    table = MetricTable(runs.rows())
    for path in tables:
        table = table.with_rows(read_metric_table(path).rows)
        facts.append(RunFacts(path.name, None, None, sha256_of_file(path)))
    return JudgedHypotheses(
        hypotheses=hypotheses,
        scorecard=judge(hypotheses, table, interval=runs.interval),
        registration=check_lock(hypotheses, lock, facts),
        warnings=runs.warnings(),
    )


FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
# Arm, seed, decoding, and whether the contexts are ablated.
_Key = tuple[str, int | None, DecodingName, bool]


class _Numbers:
    """The numbers of an experiment as rows of a table, and the intervals of their differences."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._items: dict[_Key, ScoredItems] = {}
        self._sets: dict[tuple[_Key, str], tuple[StatisticSet, ...]] = {}

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings of the calibrators."""
        runs = (*self._experiment.runs, *self._experiment.ablated)
        return tuple(f"{run.folder}: {note}" for run in runs for note in run.calibrator_notes())

    def rows(self) -> Iterator[MetricRow]:
        """Evaluate every run under every decoding that it allows."""
        for run in self._experiment.runs:
            for decoding, calibrated in _decodings(run):
                yield from self._rows(run, decoding, calibrated=calibrated)
        for run in self._experiment.ablated:
            for decoding, calibrated in _decodings(run):
                yield from self._ablated_rows(run, decoding, calibrated=calibrated)

    def _rows(
        self, run: ExperimentRun, decoding: Decoding, *, calibrated: bool
    ) -> tuple[MetricRow, ...]:
        evaluation = self._experiment.evaluation(run, decoding, calibrated=calibrated)
        name = decoding_name(decoding, evaluation.calibration)
        items = run.scored(decoding, calibrated=calibrated)
        rows = rows_from_evaluation(run.arm, run.seed, evaluation)
        more = {"mean_confidence": items.confidence}
        if name == "ensemble_calibrated" and run.calibrator is not None:
            # An evaluation leaves its TV raw; here it is listed under a calibrated decoding.
            tv = _calibrated_tv(run.predictions, run.calibrator)
            items = items.with_values("view_tv", tv)
            more["view_tv"] = items.view_tv
        self._items[run.arm, run.seed, name, False] = items
        for metric, values in more.items():
            cell = Cell(metric, run.arm, name, "all")
            rows += rows_from_items(cell, run.seed, values, run.predictions.kind)
        return rows

    def _ablated_rows(
        self, run: ExperimentRun, decoding: Decoding, *, calibrated: bool
    ) -> tuple[MetricRow, ...]:
        evaluation = self._experiment.evaluation(run, decoding, calibrated=calibrated)
        name = decoding_name(decoding, evaluation.calibration)
        items = run.scored(decoding, calibrated=calibrated)
        self._items[run.arm, run.seed, name, True] = items
        return rows_from_ablated(run.arm, run.seed, evaluation)

    def interval(self, rows: tuple[WeightedRow, ...]) -> Estimate | None:
        """Draw a weighted sum of numbers; None where one of them does not come from a run here."""
        sets = [self._set_of(weighted.row) for weighted in rows]
        found = [each for each in sets if each is not None]
        if len(found) < len(sets) or not found:
            return None
        # Groups, and whole and ablated contexts, may have other families: all are drawn together.
        families = np.unique(np.concatenate([each.families for each in found]))
        drawn = [
            (
                weighted.weight,
                each.statistics[weighted.row.cell.metric],
                np.searchsorted(families, each.families),
            )
            for weighted, each in zip(rows, found, strict=True)
        ]
        estimates = bootstrap_intervals(
            {"difference": lambda weights: _weighted_sum(drawn, weights)},
            n_clusters=len(families),
            n=max(each.n for each in found),
            rng=self._experiment.settings.rng(),
            resamples=self._experiment.settings.resamples or _RESAMPLES,
        )
        return estimates["difference"]

    def _set_of(self, row: MetricRow) -> StatisticSet | None:
        """Return the statistics that a number belongs to; None where it is of no run here."""
        metric = row.cell.metric
        key = (row.cell.arm, row.seed, row.cell.decoding, metric in ABLATED_ROWS)
        items = self._items.get(key)
        rows = None if items is None else group_rows(items.predictions, "kind").get(row.cell.group)
        if items is None or rows is None:
            return None
        place = (key, row.cell.group)
        if place not in self._sets:
            self._sets[place] = _statistic_sets(items, rows)
        return next((each for each in self._sets[place] if metric in each.statistics), None)


def _decodings(run: ExperimentRun) -> list[tuple[Decoding, bool]]:
    """Return the decodings that a run allows: by its number of views, and by its calibrator."""
    decodings: list[Decoding] = ["single", "ensemble"] if run.predictions.k > 1 else ["single"]
    calibrations = (False,) if run.calibrator is None else (False, True)
    return [(decoding, calibrated) for decoding in decodings for calibrated in calibrations]


def _statistic_sets(items: ScoredItems, rows: IntArray) -> tuple[StatisticSet, ...]:
    return group_statistics(items.taken(rows)).sets


def _calibrated_tv(predictions: Predictions, calibrator: Calibrator) -> FloatArray:
    views = calibrator.apply(
        predictions.log_probs_by_view,
        kind=predictions.kind,
        n_choices=predictions.n_choices,
        prompt_tokens=predictions.prompt_tokens,
    )
    return metrics.pairwise_tv(views)


def _weighted_sum(
    drawn: Sequence[tuple[float, Statistic, IntArray]], weights: FloatArray
) -> FloatArray:
    total: FloatArray = np.zeros(len(weights))
    for factor, statistic, families in drawn:
        total += factor * statistic(weights[:, families])
    return total
