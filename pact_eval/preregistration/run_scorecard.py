"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each possible decoding: single and ensemble, raw and, if the run's
folder has a calibrator, calibrated. So it is under the remedies that hypotheses name, each fitted
on other families of the run. Differences between runs have intervals over families, with the same
resamples for every run. Runs on ablated contexts have other items and other metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval.calibration.notes import CalibrationWarning
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.arms.published_paths import is_published, result_files
from pact_eval.evaluation.arms.run_metrics import (
    decodings_of,
    rows_from_evaluation,
    rows_from_items,
)
from pact_eval.evaluation.decoding import ENSEMBLE_CALIBRATED, MetricDecoding
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import MEAN_CONFIDENCE
from pact_eval.evaluation.settings import Settings
from pact_eval.notes import Note
from pact_eval.preregistration.criteria import Hypotheses
from pact_eval.preregistration.differences import RunDifferences, with_calibrated_tv
from pact_eval.preregistration.judging import judge
from pact_eval.preregistration.parsing import read_hypotheses
from pact_eval.preregistration.registration import (
    Registration,
    RunFacts,
    check_lock,
    lock_path,
    read_lock,
    run_facts,
)
from pact_eval.preregistration.scorecard import Scorecard
from pact_eval.progress import tracked
from pact_eval.remedies.decoded_runs import remedied_items
from pact_eval.remedies.decodings import Remedy, remedy_of_name, why_undefined
from pact_eval.results import Result
from pact_eval.runs.custody import refuse_trained_on
from pact_eval.runs.folder import RunFolder, RunSource
from pact_eval.runs.places import url_of

_RESAMPLES: Final = 2_000


@dataclass(frozen=True, repr=False)
class JudgedHypotheses(Result):
    """Hypotheses, their verdicts, and the status of their registration.

    Attributes:
        hypotheses: the criteria.
        scorecard: the verdicts with their evidence.
        registration: result of comparing the lock with the criteria and the runs.
        warnings: warnings on runs left out or not alike, and on the applied calibrators.
    """

    hypotheses: Hypotheses
    scorecard: Scorecard
    registration: Registration
    warnings: tuple[CalibrationWarning | Note, ...]


def judge_sources(
    criteria: Path, sources: Sequence[RunSource], settings: Settings | None = None
) -> JudgedHypotheses:
    """Judge a file of hypotheses on run folders and tables of metrics.

    Args:
        criteria: the file; its lock, if any, is next to it.
        sources: runs, run folders or their URLs, and tables of metrics as CSV; see
            `pact_eval.evaluation.arms.published`.
        settings: bootstrap of the intervals; verdicts depend on the values alone.

    Returns:
        The verdicts, and the status of the registration.

    Raises:
        InputError: a source cannot be read, runs hold other items, or two runs have the same arm
            and seed.
        RecordError: the hypotheses are malformed.
        RunError: a folder is not a complete run.
        GateError: an adapter was trained or selected on items of its run.
    """
    read_hypotheses(criteria)
    tables, runs = [], []
    for source in sources:
        if (
            isinstance(source, RunFolder)
            or url_of(source) is not None
            or (Path(source).is_dir() and not is_published(Path(source)))
        ):
            runs.append(source)
        else:
            tables.append(Path(source))
    return judge_experiment(criteria, Experiment.read(runs, settings), tables)


def judge_experiment(
    criteria: Path, experiment: Experiment, tables: Sequence[Path] = ()
) -> JudgedHypotheses:
    """Judge a file of hypotheses on the runs of an experiment; see `judge_sources`.

    Args:
        criteria: the file; its lock, if any, is next to it.
        experiment: runs on full contexts must hold the same items, and so must ablated runs.
        tables: published metrics: CSV tables, result folders.
    """
    hypotheses = read_hypotheses(criteria)
    place = lock_path(criteria)
    lock = read_lock(place) if place.exists() else None
    experiment.require_same_items()
    trained = refuse_trained_on([run.run for run in experiment.all_runs], experiment.settings.allow)
    runs = _Numbers(experiment, _remedied_cells(hypotheses))
    facts = [run_facts(run.run) for run in experiment.all_runs]
    table = MetricTable(runs.rows())
    for path in tables:
        table = table.with_rows(read_metric_table(path).rows)
        files = result_files(path) or [path]
        facts += (RunFacts(file.name, None, None, sha256_of_file(file)) for file in files)
    return JudgedHypotheses(
        hypotheses=hypotheses,
        scorecard=judge(hypotheses, table, differences=runs.differences),
        registration=check_lock(hypotheses, lock, facts),
        warnings=(*trained, *runs.warnings()),
    )


def _remedied_cells(hypotheses: Hypotheses) -> tuple[MetricCell, ...]:
    """Return the numbers of remedies that hypotheses name."""
    cells = (
        cell
        for hypothesis in hypotheses.hypotheses
        for check in (*hypothesis.checks, *hypothesis.beside)
        for question in check.questions()
        for cell in question.cells
        if cell.decoding.remedy
    )
    return tuple(dict.fromkeys(cells))


def _rows_of_remedy(
    run: ExperimentRun, remedy: Remedy, items: ScoredItems, metrics: Sequence[str]
) -> Iterator[MetricRow]:
    """Yield metrics of a run that a remedy decodes; what it cannot show has its reason."""
    names = [*dict.fromkeys(metrics)]
    for row in rows_from_items(run.arm, run.seed, items, names, remedy.name):
        why = why_undefined(remedy, row.cell.metric, items) if isnan(row.value) else None
        yield replace(row, reason=why or row.reason)


class _Numbers:
    """The numbers of an experiment as rows of a table, and their differences.

    Args:
        experiment: the runs.
        remedied: numbers of remedies that are needed; a run is decoded by no other remedy.
    """

    def __init__(self, experiment: Experiment, remedied: Sequence[MetricCell] = ()) -> None:
        settings = experiment.settings
        self._experiment = experiment
        self._remedied = remedied
        self.differences = RunDifferences(settings.rng, settings.resamples or _RESAMPLES)

    def warnings(self) -> tuple[CalibrationWarning | Note, ...]:
        """Return the warnings on runs left out or not alike, and those of the calibrators."""
        runs = self._experiment.all_runs
        calibrators = (warning for run in runs for warning in run.calibrator_warnings())
        return (*self._experiment.notices, *calibrators)

    def rows(self) -> Iterator[MetricRow]:
        """Evaluate every run under every possible decoding."""
        runs = self._experiment.all_runs
        for run in tracked(runs, "Computing metrics of runs", "runs"):
            for decoding in decodings_of(run):
                yield from self._rows(run, decoding)
            if not run.ablated:
                yield from self._rows_of_remedies(run)

    def _rows_of_remedies(self, run: ExperimentRun) -> Iterator[MetricRow]:
        """Decode a run by every remedy that hypotheses name for its arm."""
        cells = [cell for cell in self._remedied if cell.arm == run.arm]
        for decoding in dict.fromkeys(cell.decoding for cell in cells):
            of_remedy = [cell for cell in cells if cell.decoding == decoding]
            remedy = remedy_of_name(decoding.remedy)
            try:
                items = remedied_items(run, remedy)
            except InputError as error:
                reason = str(error)
                yield from (MetricRow(cell, run.seed, nan, reason=reason) for cell in of_remedy)
                continue
            yield from _rows_of_remedy(run, remedy, items, [cell.metric for cell in of_remedy])
            self.differences.add(run.arm, run.seed, decoding, items)

    def _rows(self, run: ExperimentRun, decoding: MetricDecoding) -> Iterator[MetricRow]:
        views, calibrated = decoding.views, decoding.calibrated
        evaluation = self._experiment.evaluation(run, views, calibrated=calibrated)
        yield from rows_from_evaluation(run.arm, run.seed, evaluation)
        items = run.scored(views, calibrated=calibrated)
        if not run.ablated:
            # In an evaluation, view TV is raw; here, the calibrated decoding has its own.
            items = with_calibrated_tv(items)
            own_tv = ["view_tv"] if decoding == ENSEMBLE_CALIBRATED else []
            yield from rows_from_items(run.arm, run.seed, items, [MEAN_CONFIDENCE, *own_tv])
        self.differences.add(run.arm, run.seed, decoding, items)
