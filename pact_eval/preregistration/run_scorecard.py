"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each possible decoding: single and ensemble, raw and, if the run's
folder has a calibrator, calibrated. Differences between runs have intervals over families, with the
same resamples for every run. Runs on ablated contexts have other items and other metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval.calibration import CalibrationWarning, Calibrator
from pact_eval.evaluation import (
    MEAN_CONFIDENCE,
    Experiment,
    ExperimentRun,
    ScoredItems,
    Settings,
    StatisticSet,
    find_metric,
    group_rows,
    group_statistics,
    point_estimates,
)
from pact_eval.preregistration.criteria import Cell, DecodingName, Hypotheses, decoding_name
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
from pact_eval.preregistration.run_metrics import decodings_of, rows_from_evaluation
from pact_eval.preregistration.scorecard import Scorecard, WeightedRow
from pact_eval.preregistration.table import MetricRow, MetricTable
from pact_eval.runs import Decoding, Predictions
from pact_eval.stats import Estimate, Statistic, resample

_RESAMPLES: Final = 2_000


@dataclass(frozen=True)
class JudgedHypotheses:
    """Hypotheses, their verdicts, and the status of their registration.

    Attributes:
        hypotheses: the criteria.
        scorecard: the verdicts with their evidence.
        registration: result of comparing the lock with the criteria and the runs.
        warnings: warnings on the applied calibrators.
    """

    hypotheses: Hypotheses
    scorecard: Scorecard
    registration: Registration
    warnings: tuple[CalibrationWarning, ...]


def judge_sources(
    criteria: Path, sources: Sequence[Path], settings: Settings | None = None
) -> JudgedHypotheses:
    """Judge a file of hypotheses on run folders and tables of metrics.

    Args:
        criteria: the file; its lock, if any, is next to it.
        sources: run folders, and tables of metrics (`.csv` in the published layout).
        settings: bootstrap of the intervals; verdicts depend on the values alone.

    Returns:
        The verdicts, and the status of the registration.

    Raises:
        InputError: a source cannot be read, runs hold other items, or two runs have the same arm
            and seed.
        RecordError: the hypotheses are malformed.
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
        criteria: the file; its lock, if any, is next to it.
        experiment: runs on full contexts must hold the same items, and so must ablated runs.
        tables: tables of metrics in the published layout.
    """
    hypotheses = read_hypotheses(criteria)
    place = lock_path(criteria)
    lock = read_lock(place) if place.exists() else None
    experiment.require_same_items()
    runs = _Numbers(experiment)
    facts = [run_facts(run.run) for run in experiment.all_runs]
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

    def warnings(self) -> tuple[CalibrationWarning, ...]:
        """Return the warnings of the calibrators."""
        runs = self._experiment.all_runs
        return tuple(warning for run in runs for warning in run.calibrator_warnings())

    def rows(self) -> Iterator[MetricRow]:
        """Evaluate every run under every possible decoding."""
        for run in self._experiment.all_runs:
            for decoding, calibrated in decodings_of(run):
                yield from self._rows(run, decoding, calibrated=calibrated)

    def _rows(
        self, run: ExperimentRun, decoding: Decoding, *, calibrated: bool
    ) -> Iterator[MetricRow]:
        evaluation = self._experiment.evaluation(run, decoding, calibrated=calibrated)
        yield from rows_from_evaluation(run.arm, run.seed, evaluation)
        items = run.scored(decoding, calibrated=calibrated)
        name = decoding_name(decoding, evaluation.calibration)
        if not run.ablated:
            more = [MEAN_CONFIDENCE]
            if name == "ensemble_calibrated" and run.calibrator is not None:
                # In an evaluation, view TV is raw; here, the calibrated decoding has its own.
                tv = _calibrated_tv(run.predictions, run.calibrator)
                items = items.with_values("view_tv", tv)
                more.append("view_tv")
            for group, estimates in point_estimates(items, "kind", more).items():
                for metric, estimate in estimates.items():
                    yield MetricRow.of(Cell(metric, run.arm, name, group), run.seed, estimate)
        self._items[run.arm, run.seed, name, run.ablated] = items

    def interval(self, rows: tuple[WeightedRow, ...]) -> Estimate | None:
        """Return the interval of a weighted sum; None if a number does not come from these runs."""
        sets = [self._set_of(weighted.row) for weighted in rows]
        found = [each for each in sets if each is not None]
        if len(found) < len(sets) or not found:
            return None
        # Groups, and full and ablated contexts, may have different families: resample all together.
        families = np.unique(np.concatenate([each.families for each in found]))
        drawn = [
            (
                weighted.weight,
                each.statistics[weighted.row.cell.metric],
                np.searchsorted(families, each.families),
            )
            for weighted, each in zip(rows, found, strict=True)
        ]
        resampled = resample(
            {"difference": lambda weights: _weighted_sum(drawn, weights)},
            n_clusters=len(families),
            n=max(each.n for each in found),
            rng=self._experiment.settings.rng(),
            resamples=self._experiment.settings.resamples or _RESAMPLES,
        )
        metric = find_metric(rows[0].row.cell.metric)
        return metric.difference(resampled["difference"], 0.95)

    def _set_of(self, row: MetricRow) -> StatisticSet | None:
        """Return the statistics of a number; None if it does not come from these runs."""
        metric = row.cell.metric
        ablated = "ablated contexts" in find_metric(metric).needs
        key = (row.cell.arm, row.seed, row.cell.decoding, ablated)
        items = self._items.get(key)
        rows = None if items is None else group_rows(items.predictions, "kind").get(row.cell.group)
        if items is None or rows is None:
            return None
        place = (key, row.cell.group)
        if place not in self._sets:
            self._sets[place] = group_statistics(items.taken(rows)).sets
        return next((each for each in self._sets[place] if metric in each.statistics), None)


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
