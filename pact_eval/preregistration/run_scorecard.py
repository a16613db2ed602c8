"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each decoding that it allows: single, and the K views together, each
raw and, where the run's folder holds a calibrator, calibrated. Differences between runs get
intervals over families, under the same resamples for every run.

Runs on ablated contexts stand beside those on whole ones: other items, and metrics of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval.calibration import CALIBRATION_NAME, Calibrator, calibrator_for
from pact_eval.evaluation import (
    AblatedItems,
    ScoredItems,
    StatisticSet,
    ablated_statistics,
    align,
    evaluate,
    evaluate_ablated,
    group_rows,
    group_statistics,
)
from pact_eval.preregistration.criteria import Cell, Hypotheses
from pact_eval.preregistration.judging import judge
from pact_eval.preregistration.locking import lock_path, read_lock
from pact_eval.preregistration.parsing import read_hypotheses
from pact_eval.preregistration.published_table import read_metric_table
from pact_eval.preregistration.registration import Registration, RunFacts, check_lock, run_facts
from pact_eval.preregistration.run_rows import (
    ABLATED_ROWS,
    decoding_name,
    rows_from_ablated,
    rows_from_evaluation,
    rows_from_items,
)
from pact_eval.preregistration.scorecard import Scorecard, WeightedRow
from pact_eval.preregistration.table import MetricRow, MetricTable
from pact_eval.preregistration.vocabulary import DecodingName
from pact_eval.runs import (
    AblatedPredictions,
    AblatedRun,
    Decoding,
    Predictions,
    Run,
    RunFolder,
    ScoredViews,
    read_any_run,
)
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
        sources: run folders, and tables of metrics (`.csv` in the published layout). Runs on whole
            contexts must hold the same items, and so must runs on ablated contexts.
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
IntArray = npt.NDArray[np.int64]
# Arm, seed, decoding, and whether the contexts are ablated.
_Key = tuple[str, int | None, DecodingName, bool]


class _Runs:
    """Run folders by arm, seed and decoding; those of one sort hold the same items."""

    def __init__(self, rng: np.random.Generator, resamples: int) -> None:
        self._rng = rng
        self._resamples = resamples
        self._items: dict[_Key, ScoredItems | AblatedItems] = {}
        self._sets: dict[tuple[_Key, str], tuple[StatisticSet, ...]] = {}
        self._first: Run | None = None
        self._first_ablated: AblatedRun | None = None
        self.facts: list[RunFacts] = []
        self.warnings: list[str] = []

    def add(self, folder: Path) -> list[MetricRow]:
        """Evaluate a run under every decoding that it allows."""
        run = read_any_run(folder)
        facts = run_facts(run)
        self.facts.append(facts)
        if isinstance(run, AblatedRun):
            first = self._first_ablated = self._first_ablated or run
            contexts = align(first.predictions, run.predictions, names=_names(first, run))
            return [
                row
                for decoding, calibrator in self._decodings(folder, contexts)
                for row in self._ablated_rows(facts, contexts, decoding, calibrator)
            ]
        whole = self._first = self._first or run
        predictions = align(whole.predictions, run.predictions, names=_names(whole, run))
        return [
            row
            for decoding, calibrator in self._decodings(folder, predictions)
            for row in self._rows(facts, predictions, decoding, calibrator)
        ]

    def _decodings(
        self, folder: Path, views: ScoredViews
    ) -> list[tuple[Decoding, Calibrator | None]]:
        """Return the decodings that a run allows: by its number of views, and by its calibrator."""
        calibrators: list[Calibrator | None] = [None]
        if (folder / CALIBRATION_NAME).exists():
            calibrator, warnings = calibrator_for(folder / CALIBRATION_NAME, views)
            self.warnings += [f"{folder}: {warning}" for warning in warnings]
            calibrators.append(calibrator)
        decodings: list[Decoding] = ["single", "ensemble"] if views.k > 1 else ["single"]
        return [(decoding, each) for decoding in decodings for each in calibrators]

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
            items = replace(items, view_tv=_calibrated_tv(predictions, calibrator))
            more["view_tv"] = items.view_tv
        self._items[facts.arm, facts.seed, name, False] = items
        for metric, values in more.items():
            cell = Cell(metric, facts.arm, name, "all")
            rows += rows_from_items(cell, facts.seed, values, predictions.kind)
        return rows

    def _ablated_rows(
        self,
        facts: RunFacts,
        predictions: AblatedPredictions,
        decoding: Decoding,
        calibrator: Calibrator | None,
    ) -> tuple[MetricRow, ...]:
        evaluation = evaluate_ablated(
            predictions,
            decoding=decoding,
            by="kind",
            rng=self._rng,
            resamples=self._resamples,
            calibrator=calibrator,
        )
        name = decoding_name(decoding, evaluation.calibration)
        items = AblatedItems.of(predictions, decoding, calibrator)
        self._items[facts.arm, facts.seed, name, True] = items
        return rows_from_ablated(facts.arm, facts.seed, evaluation)

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
            rng=deepcopy(self._rng),
            resamples=self._resamples,
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


def _names(first: RunFolder, run: RunFolder) -> tuple[str, str]:
    return str(first.folder), str(run.folder)


def _statistic_sets(items: ScoredItems | AblatedItems, rows: IntArray) -> tuple[StatisticSet, ...]:
    if isinstance(items, AblatedItems):
        return (ablated_statistics(items.taken(rows)),)
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
