"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each possible decoding: single and ensemble, raw and, if the run's
folder has a calibrator, calibrated. Differences between runs have intervals over families, with the
same resamples for every run. Runs on ablated contexts have other items and other metrics.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval._typing import IntArray
from pact_eval.calibration.temperatures import CalibrationWarning
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.arms.arm_metrics import (
    MetricCell,
    MetricRow,
    MetricTable,
    decodings_of,
    refuse,
    rows_from_evaluation,
    rows_from_items,
)
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.arms.published_paths import is_published, result_files
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.item_scores import counted_views
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import (
    ENSEMBLE_CALIBRATED,
    MEAN_CONFIDENCE,
    Inference,
    MetricDecoding,
    find_metric,
)
from pact_eval.evaluation.resampled_groups import (
    DifferencePart,
    ResampledGroup,
    ece_difference,
    resampled_groups,
    too_few,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.criteria import (
    Check,
    Hypotheses,
    Quantity,
    Question,
    Relation,
    read_hypotheses,
)
from pact_eval.preregistration.registration import (
    Registration,
    RunFacts,
    check_lock,
    lock_path,
    read_lock,
    run_facts,
)
from pact_eval.preregistration.scorecard import (
    BY_CONSTRUCTION,
    CheckComparison,
    HypothesisResult,
    JudgedCheck,
    Reading,
    Scorecard,
    WeightedRow,
    by_interval,
    weighted_rows,
)
from pact_eval.progress import tracked
from pact_eval.results import Note, Result
from pact_eval.runs.custody import refuse_trained_on
from pact_eval.runs.folder import RunFolder, RunSource
from pact_eval.runs.places import url_of
from pact_eval.stats.bootstrap import Resampled, SampleStatistic, Statistic, resample
from pact_eval.stats.bounds import at_confidence
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_eval.stats.letter_preference import distinct_orders
from pact_eval.stats.rates import without_interval

Terms: TypeAlias = tuple[WeightedRow, ...]
Seeds: TypeAlias = tuple[int | None, ...]

_CONFIDENCE: Final = 0.95
# Resamples beyond each end of an interval of higher confidence.
_BEYOND: Final = 20
_RESAMPLES: Final = 2_000


class RunDifferences:
    """Intervals of differences between runs on the same items.

    A difference is a weighted sum of numbers, such as 1 x accuracy of A - 1 x accuracy of B at one
    seed.

    Args:
        rng: makes the source of the resamples; called for every difference, so that all see the
            same resamples.
        resamples: bootstrap resamples of families. Intervals of more than 95% confidence draw
            more if they need them.
    """

    def __init__(self, rng: Callable[[], np.random.Generator], resamples: int) -> None:
        self._rng = rng
        self._resamples = resamples
        # Arm, seed, decoding, and whether the contexts are ablated.
        self._items: dict[tuple[str, int | None, MetricDecoding, bool], ScoredItems] = {}
        self._groups: dict[tuple[MetricCell, int | None], ResampledGroup] = {}
        self._inferences: dict[tuple[Terms, int], Inference] = {}

    def add(self, arm: str, seed: int | None, decoding: MetricDecoding, items: ScoredItems) -> None:
        """Add the items of a run under one decoding."""
        self._items[arm, seed, decoding, items.contexts == "ablated"] = items

    def interval(self, terms: Terms, confidence: float) -> Estimate | None:
        """Return a weighted sum of numbers with its interval over families.

        One number alone has the interval of its metric, as in the report.

        Returns:
            None if a number does not come from these runs. `n` counts the items (pairs, Score
            items) of the first number.
        """
        groups = [group for term in terms if (group := self._group_of(term.row)) is not None]
        if len(groups) < len(terms):
            return None
        if [term.weight for term in terms] == [1.0]:
            metric = find_metric(terms[0].row.cell.metric)
            alone = groups[0].estimate(metric.name)
            return at_confidence(metric.bounded(alone, 0.0, 1), confidence)
        resamples = self._resamples
        if confidence > _CONFIDENCE:
            resamples = max(resamples, math.ceil(2 * _BEYOND / (1 - confidence)))
        if (terms, resamples) not in self._inferences:
            self._inferences[terms, resamples] = self._inference(terms, groups, resamples)
        estimate = self._inferences[terms, resamples].estimate(confidence)
        # Runs on the same items are judged together.
        runs = [group.items for group in groups]
        alike = len({len(items) for items in runs}) == 1
        together = [runs] if alike else [[items] for items in runs]
        reasons = (
            too_few(find_metric(name), min(items.n_clusters for items in some), some)
            for name in dict.fromkeys(term.row.cell.metric for term in terms)
            for some in together
        )
        return without_interval(estimate, next(filter(None, reasons), None))

    def _inference(
        self, terms: Terms, groups: Sequence[ResampledGroup], resamples: int
    ) -> Inference:
        """Resample the families of all groups together: not every group has the same families."""
        names = [term.row.cell.metric for term in terms]
        own = [
            find_metric(name).members(group.items).clusters.names
            for name, group in zip(names, groups, strict=True)
        ]
        families = np.unique(np.concatenate(own))
        statistics: dict[str, Statistic] = {}
        for at, (name, group, members) in enumerate(zip(names, groups, own, strict=True)):
            ((_, statistic),) = group.drawn[name].terms
            codes = np.searchsorted(families, members)
            if isinstance(statistic, SampleStatistic):
                statistics[str(at)] = statistic.over(codes, len(families))
            else:
                statistics[str(at)] = _at_codes(statistic, codes)
        metric = find_metric(names[0])
        runs = resample(
            statistics,
            n_clusters=len(families),
            n=groups[0].basis(metric.name).units,
            rng=self._rng(),
            resamples=resamples,
        ).values()
        weighted = [(term.weight, run) for term, run in zip(terms, runs, strict=True)]
        drawn = Resampled.weighted_sum(weighted)
        if not metric.noise_floor or set(names) != {metric.name}:
            return metric.difference(drawn)
        # A metric of one run has its interval from its evaluation if that has it.
        estimates = [
            term.row.calibration or group.estimate(metric.name)
            for term, group in zip(terms, groups, strict=True)
        ]
        parts = [
            DifferencePart(weight, estimate, run)
            for (weight, run), estimate in zip(weighted, estimates, strict=True)
        ]
        return ece_difference(drawn, parts)

    def _group_of(self, row: MetricRow) -> ResampledGroup | None:
        """Return the group of items that a number rests on, with its one metric."""
        cell, place = row.cell, (row.cell, row.seed)
        if place not in self._groups:
            ablated = "ablated contexts" in find_metric(cell.metric).needs
            items = self._items.get((cell.arm, row.seed, cell.decoding, ablated))
            rows = None if items is None else items.rows_by_group("kind").get(cell.group)
            if items is None or rows is None:
                return None
            (self._groups[place],) = resampled_groups(
                items.taken(rows), rng=self._rng(), resamples=self._resamples, names=[cell.metric]
            )
        return self._groups[place]


def with_calibrated_tv(items: ScoredItems) -> ScoredItems:
    """Return the items with the TV of their calibrated views, if they are a calibrated ensemble.

    In an evaluation, view TV is raw. Hypotheses ask for it under the calibrated decoding.
    """
    if items.decoding != "ensemble" or items.calibrator is None or items.contexts == "ablated":
        return items
    predictions = items.predictions
    views = items.calibrator.apply(predictions.log_probs_by_view, predictions)
    counted = counted_views(distinct_orders(predictions.code_order))
    view_tv = metrics.pairwise_tv(views, counted)
    return replace(items, values={**items.values, "view_tv": view_tv})


def _at_codes(statistic: Statistic, codes: IntArray) -> Statistic:
    """Return a statistic of some families as one of more families, of which they are these."""
    return lambda weights: statistic(weights[:, codes])


# Differences of equal numbers that were summed in another order.
_ROUNDING: Final = 1e-12


def judge(
    hypotheses: Hypotheses, table: MetricTable, *, differences: RunDifferences | None = None
) -> Scorecard:
    """Judge hypotheses on a table of metrics.

    Verdicts depend on the values alone. Next to them, comparisons and hypotheses say whether they
    are shown.

    Args:
        hypotheses: the claims and their checks.
        table: the numbers.
        differences: makes intervals of differences of the runs that it has. Without it nothing is
            shown, except what holds by construction.

    Returns:
        One result per hypothesis. If the table lacks an arm, seed, decoding, group or metric, this
        is not an error: the comparison lacks data, with the reason.

    Raises:
        InputError: a table of metrics counts different items for arms that are compared.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from pact_eval.preregistration.criteria import read_hypotheses, write_example
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_example(Path(folder, "hypotheses.toml"))
        ...     hypotheses = read_hypotheses(Path(folder, "hypotheses.toml"))
        >>> judge(hypotheses, MetricTable([])).verdicts["H1"]
        'UNTESTED'
    """
    of_runs = differences or RunDifferences(np.random.default_rng, _RESAMPLES)

    def results(checks: Iterable[Check], *, jointly: bool) -> tuple[JudgedCheck, ...]:
        by_value = [
            JudgedCheck(check, tuple(_comparisons(check, table, of_runs))) for check in checks
        ]
        return _with_evidence(by_value, of_runs, jointly=jointly)

    scorecard = Scorecard(
        tuple(
            HypothesisResult(
                hypothesis,
                results(hypothesis.checks, jointly=True),
                results(hypothesis.beside, jointly=False),
            )
            for hypothesis in tracked(hypotheses.hypotheses, "Judging hypotheses", "hypotheses")
        )
    )
    problems = (
        _different_count(comparison.rows)
        for result in scorecard.results
        for check in (*result.checks, *result.beside)
        for comparison in check.comparisons
    )
    refuse(list(dict.fromkeys(filter(None, problems))))
    return scorecard


def holds(relation: Relation, margin: Margin, difference: float) -> bool:
    r"""Return whether a difference satisfies a relation.

    "higher" by m is d > m and "lower" by m is d < -m; "not higher" and "not lower" are their
    opposites; "similar" within m is \|d\| <= m. Differences within 1e-12 of a bound are on it.

    Args:
        relation: relation that d must satisfy.
        margin: m.
        difference: d, first quantity minus second.

    Examples:
        >>> points = Margin(2.0, "points")
        >>> holds("similar", points, 0.02), holds("higher", points, 0.02)
        (True, False)
    """
    bound = margin.distance + _ROUNDING
    if relation == "similar":
        return abs(difference) <= bound
    if relation in ("higher", "not higher"):
        return (difference > bound) == (relation == "higher")
    return (difference < -bound) == (relation == "lower")


def _with_evidence(
    results: Sequence[JudgedCheck], differences: RunDifferences, *, jointly: bool
) -> tuple[JudgedCheck, ...]:
    """Add the evidence to comparisons.

    Args:
        results: the checks of a hypothesis by value.
        differences: makes intervals.
        jointly: whether a failure of any of them refutes the hypothesis, so that its level is
            divided by their number (Bonferroni).
    """
    comparisons = [comparison for result in results for comparison in result.comparisons]
    tested = sum(one.holds is not None and not _certain(one) for one in comparisons)
    joint_level = LEVEL / max(1, tested) if jointly else LEVEL

    def shown(check: Check, comparison: CheckComparison) -> CheckComparison:
        if comparison.holds is None:
            return comparison
        if _certain(comparison):
            return replace(comparison, evidence=BY_CONSTRUCTION)
        level, interval = LEVEL, comparison.interval
        if not comparison.holds and joint_level != LEVEL:
            level = joint_level
            interval = _interval(comparison, differences, 1 - level)
        evidence = by_interval(
            check.relation, check.margin, interval, holds=comparison.holds, level=level
        )
        return replace(comparison, evidence=evidence)

    return tuple(
        replace(result, comparisons=tuple(shown(result.check, one) for one in result.comparisons))
        for result in results
    )


def _interval(
    comparison: CheckComparison, differences: RunDifferences, confidence: float
) -> Estimate | None:
    """Return the interval of the difference of two quantities, the second of which may be fixed."""
    left, right = comparison.left, comparison.right
    interval = differences.interval(weighted_rows(left, right), confidence)
    if interval is None or right.rows:
        return interval
    ends = {name: getattr(interval, name) - right.value for name in ("value", "low", "high")}
    return replace(interval, **ends)


def _certain(comparison: CheckComparison) -> bool:
    """Return whether the difference is 0 whatever the data.

    Calibration changes no metric of the top answer, and a number equals itself.
    """
    if not abs(comparison.difference) <= _ROUNDING:
        return False
    weights: dict[tuple[str, str, MetricDecoding, str, int | None], float] = {}
    for term in weighted_rows(comparison.left, comparison.right):
        cell, decoding = term.row.cell, term.row.cell.decoding
        if find_metric(cell.metric).argmax_only:
            decoding = replace(decoding, calibrated=False)
        place = (cell.metric, cell.arm, decoding, cell.group, term.row.seed)
        weights[place] = weights.get(place, 0.0) + term.weight
    return all(abs(weight) <= _ROUNDING for weight in weights.values())


def _different_count(rows: tuple[MetricRow, ...]) -> str | None:
    """Say which number of a table of metrics is compared with one of other items."""

    def count(row: MetricRow) -> str:
        where = f"{row.source}: " if row.source else ""
        return f"{where}{row.cell.metric} of {row.run} ({row.cell.group}) is of n = {row.n:,}"

    for one, other in itertools.permutations([row for row in rows if row.n is not None], 2):
        alike = (one.cell.metric, one.cell.group) == (other.cell.metric, other.cell.group)
        if alike and one.n != other.n and (one.source or other.source):
            return f"{count(one)}, but {count(other)}: arms must have the same items"
    return None


def _comparisons(
    check: Check, table: MetricTable, differences: RunDifferences
) -> Iterator[CheckComparison]:
    for question in check.questions():
        seeds, reason = _seeds(check, question, table)
        if reason is not None:
            nothing = Reading(math.nan, ())
            yield CheckComparison(question, seeds, nothing, nothing, math.nan, None, reason)
            continue
        for at in (seeds,) if check.judged_on == "means" else ((seed,) for seed in seeds):
            left, right = (_reading(side, at, table) for side in (question.left, question.right))
            difference = left.value - right.value
            compared = CheckComparison(question, at, left, right, difference, None)
            views = sorted({row.k for row in compared.rows if row.k is not None}, reverse=True)
            if len(views) > 1:
                differ = f"K differs: {' and '.join(map(str, views))}; score with the same --k"
                yield replace(compared, difference=math.nan, reason=differ)
            elif math.isnan(difference):
                absent = dict.fromkeys(row.reason for row in compared.rows if math.isnan(row.value))
                why = "; ".join(filter(None, absent)) or "a difference of infinite numbers"
                yield replace(compared, reason=why)
            else:
                holding = holds(check.relation, check.margin, difference)
                interval = _interval(compared, differences, 1 - LEVEL)
                yield replace(compared, holds=holding, interval=interval)


def _seeds(check: Check, question: Question, table: MetricTable) -> tuple[Seeds, str | None]:
    """Return the seeds to compare at, or the reason why there are none."""
    arms = tuple(dict.fromkeys(cell.arm for cell in question.cells))
    seeded = [table.seeds(arm) for arm in arms if table.seeds(arm)]
    if check.seeds is not None:
        if seeded or not all(arm in table.arms for arm in arms):
            return check.seeds, None
        seeds = ", ".join(map(str, check.seeds))
        return check.seeds, f"no run of {' or '.join(arms)} says its seed (wanted: {seeds})"
    absent = next((cell for cell in question.cells if cell.arm not in table.arms), None)
    if absent is not None:
        return (), table.row(absent, None).reason
    if not seeded:
        return (None,), None
    shared = tuple(sorted(set(seeded[0]).intersection(*seeded[1:])))
    if shared:
        return shared, None
    seeds_of_arms = "; ".join(f"{arm} {', '.join(map(str, table.seeds(arm)))}" for arm in arms)
    return (), f"no seed in common ({seeds_of_arms})"


def _reading(quantity: Quantity | float, seeds: Seeds, table: MetricTable) -> Reading:
    """Read a quantity at seeds; its mean is exactly the same for any order of them."""
    if not isinstance(quantity, Quantity):
        return Reading(quantity, ())
    rows = tuple(table.row(quantity.cell, seed) for seed in seeds)
    values = [row.value for row in rows]
    minus: tuple[MetricRow, ...] = ()
    if quantity.minus is not None:
        minus = tuple(table.row(quantity.minus, seed) for seed in seeds)
        values = [value - row.value for value, row in zip(values, minus, strict=True)]
    infinite = {value for value in values if math.isinf(value)}
    if len(infinite) > 1 or any(math.isnan(value) for value in values):
        return Reading(math.nan, rows, minus)
    mean = next(iter(infinite)) if infinite else math.fsum(values) / len(values)
    return Reading(mean, rows, minus)


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
    settings = experiment.settings
    differences = RunDifferences(settings.rng, settings.resamples or _RESAMPLES)
    runs = experiment.all_runs
    facts = [run_facts(run.run) for run in runs]
    table = MetricTable(
        row
        for run in tracked(runs, "Computing metrics of runs", "runs")
        for row in _rows_of_run(experiment, run, differences)
    )
    for path in tables:
        table = table.with_rows(read_metric_table(path).rows)
        files = result_files(path) or [path]
        facts += (RunFacts(file.name, None, None, sha256_of_file(file)) for file in files)
    return JudgedHypotheses(
        hypotheses=hypotheses,
        scorecard=judge(hypotheses, table, differences=differences),
        registration=check_lock(hypotheses, lock, facts),
        warnings=(
            *trained,
            *experiment.notices,
            *(warning for run in runs for warning in run.calibrator_warnings()),
        ),
    )


def _rows_of_run(
    experiment: Experiment, run: ExperimentRun, differences: RunDifferences
) -> Iterator[MetricRow]:
    """Evaluate a run under every possible decoding."""
    for decoding in decodings_of(run):
        views, calibrated = decoding.views, decoding.calibrated
        evaluation = experiment.evaluation(run, views, calibrated=calibrated)
        yield from rows_from_evaluation(run.arm, run.seed, evaluation)
        items = experiment.scored(run, views, calibrated=calibrated)
        if not run.ablated:
            # In an evaluation, view TV is raw; here, the calibrated decoding has its own.
            items = with_calibrated_tv(items)
            own_tv = ["view_tv"] if decoding == ENSEMBLE_CALIBRATED else []
            yield from rows_from_items(run.arm, run.seed, items, [MEAN_CONFIDENCE, *own_tv])
        differences.add(run.arm, run.seed, decoding, items)
