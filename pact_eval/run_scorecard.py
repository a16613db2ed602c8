"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each decoding that it allows: single, and the K views together, each
raw and, where the run's folder holds a calibrator, calibrated. Differences between runs get
intervals over families, under the same resamples for every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.calibration import Calibrator
from pact_eval.comparison import align
from pact_eval.evaluation import (
    GroupStatistics,
    ScoredItems,
    evaluate,
    group_rows,
    group_statistics,
)
from pact_eval.hypotheses import (
    Cell,
    DecodingName,
    Hypotheses,
    MetricRow,
    MetricTable,
    Registration,
    RunFacts,
    Scorecard,
    WeightedRow,
    check_lock,
    decoding_name,
    judge,
    lock_path,
    read_hypotheses,
    read_lock,
    read_metric_table,
    rows_from_evaluation,
    rows_from_items,
    run_facts,
)
from pact_eval.model_files import sha256_of_file
from pact_eval.predictions import Decoding, Predictions
from pact_eval.run_calibration import CALIBRATION_NAME, calibrator_for
from pact_eval.runs import read_run
from pact_eval.stats import Estimate, Statistic, bootstrap_intervals

__all__ = ["JudgedHypotheses", "judge_sources"]


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
    criteria: Path,
    sources: Sequence[Path],
    *,
    rng: np.random.Generator,
    resamples: int = 2_000,
) -> JudgedHypotheses:
    """Judge a file of hypotheses on runs.

    Args:
        criteria: the file; its lock, if any, lies beside it.
        sources: run folders, and tables of metrics (`.csv` in the published layout). Run folders
            must hold the same items.
        rng: source of the resamples behind intervals; verdicts rest on the values alone.
        resamples: bootstrap resamples of each interval.

    Returns:
        The verdicts, and what the registration proves.

    Raises:
        InputError: a source cannot be read, runs hold other items, or two numbers stand for one
            place.
        RecordError: the hypotheses cannot be understood.
        RunError: a folder is no complete run.
    """
    hypotheses = read_hypotheses(criteria)
    place = lock_path(criteria)
    lock = read_lock(place) if place.exists() else None
    runs = _Runs(rng, resamples)
    table = MetricTable([])
    for source in sources:
        if source.is_dir():
            table = table.with_rows(runs.add(source))
        else:
            table = table.with_rows(read_metric_table(source).rows)
            runs.facts.append(RunFacts(source.name, None, None, sha256_of_file(source)))
    return JudgedHypotheses(
        hypotheses=hypotheses,
        scorecard=judge(hypotheses, table, interval=runs.interval),
        registration=check_lock(hypotheses, lock, runs.facts),
        warnings=tuple(runs.warnings),
    )


FloatArray = npt.NDArray[np.float64]
_Key = tuple[str, int | None, DecodingName]


class _Runs:
    """Run folders by arm, seed and decoding, on the same items."""

    def __init__(self, rng: np.random.Generator, resamples: int) -> None:
        self._rng = rng
        self._resamples = resamples
        self._items: dict[_Key, ScoredItems] = {}
        self._groups: dict[tuple[_Key, str], GroupStatistics] = {}
        self._first: tuple[str, Predictions] | None = None
        self.facts: list[RunFacts] = []
        self.warnings: list[str] = []

    def add(self, folder: Path) -> list[MetricRow]:
        """Evaluate a run under every decoding that it allows."""
        run = read_run(folder)
        predictions = run.predictions
        if self._first is not None:
            name, items = self._first
            predictions = align(items, predictions, names=(name, str(folder)))
        self._first = self._first or (str(folder), predictions)
        facts = run_facts(run)
        self.facts.append(facts)
        calibrators: list[Calibrator | None] = [None]
        if (folder / CALIBRATION_NAME).exists():
            calibrator, warnings = calibrator_for(folder / CALIBRATION_NAME, predictions)
            self.warnings += [f"{folder}: {warning}" for warning in warnings]
            calibrators.append(calibrator)
        decodings: list[Decoding] = ["single", "ensemble"] if predictions.k > 1 else ["single"]
        return [
            row
            for decoding in decodings
            for each in calibrators
            for row in self._rows(facts, predictions, decoding, each)
        ]

    def _rows(
        self,
        facts: RunFacts,
        predictions: Predictions,
        decoding: Decoding,
        calibrator: Calibrator | None,
    ) -> tuple[MetricRow, ...]:
        evaluation = evaluate(
            predictions,
            decoding=decoding,
            by="kind",
            rng=self._rng,
            resamples=self._resamples,
            calibrator=calibrator,
        )
        name = decoding_name(decoding, evaluation.calibration)
        items = ScoredItems.of(predictions, decoding, calibrator)
        rows = rows_from_evaluation(facts.arm, facts.seed, evaluation)
        more = {"mean_confidence": items.confidence}
        if name == "ensemble_calibrated" and calibrator is not None:
            # An evaluation leaves its TV raw; here it stands under a calibrated decoding.
            items = replace(items, tv=_calibrated_tv(predictions, calibrator))
            more["tv"] = items.tv
        self._items[facts.arm, facts.seed, name] = items
        for metric, values in more.items():
            cell = Cell(metric, facts.arm, name, "all")
            rows += rows_from_items(cell, facts.seed, values, predictions.kind)
        return rows

    def interval(self, rows: tuple[WeightedRow, ...]) -> Estimate | None:
        """Draw a weighted sum of numbers; None where one of them does not come from a run here."""
        drawn: list[tuple[float, Statistic]] = []
        n_clusters = n = 0
        for weighted in rows:
            group = self._group(weighted.row)
            if group is None:
                return None
            metric = weighted.row.cell.metric
            of_metric = next((each for each in group.sets if metric in each.statistics), None)
            if of_metric is None:
                return None
            drawn.append((weighted.weight, of_metric.statistics[metric]))
            n_clusters, n = of_metric.n_clusters, of_metric.n
        found = bootstrap_intervals(
            {"difference": lambda weights: _weighted_sum(drawn, weights)},
            n_clusters=n_clusters,
            n=n,
            rng=deepcopy(self._rng),
            resamples=self._resamples,
        )
        return found["difference"]

    def _group(self, row: MetricRow) -> GroupStatistics | None:
        key = (row.cell.arm, row.seed, row.cell.decoding)
        items = self._items.get(key)
        if items is None:
            return None
        place = (key, row.cell.group)
        if place not in self._groups:
            rows = group_rows(items.predictions, "kind").get(row.cell.group)
            if rows is None:
                return None
            self._groups[place] = group_statistics(items.taken(rows))
        return self._groups[place]


def _calibrated_tv(predictions: Predictions, calibrator: Calibrator) -> FloatArray:
    views = calibrator.apply(
        predictions.log_probs_by_view,
        kind=predictions.kind,
        n_choices=predictions.n_choices,
        prompt_tokens=predictions.prompt_tokens,
    )
    return metrics.pairwise_tv(views)


def _weighted_sum(drawn: Sequence[tuple[float, Statistic]], weights: FloatArray) -> FloatArray:
    total: FloatArray = np.zeros(len(weights))
    for factor, statistic in drawn:
        total += factor * statistic(weights)
    return total
