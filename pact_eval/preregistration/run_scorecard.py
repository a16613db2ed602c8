"""Hypotheses judged on runs: from run folders, or a table of metrics, to a scorecard.

Every run is evaluated under each possible decoding: single and ensemble, raw and, if the run's
folder has a calibrator, calibrated. So it is under the remedies that hypotheses name, each fitted
on other families of the run. Differences between runs have intervals over families, with the same
resamples for every run. Runs on ablated contexts have other items and other metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import numpy as np

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval._typing import FloatArray, IntArray
from pact_eval.calibration.notes import CalibrationWarning
from pact_eval.calibration.temperatures import Calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import (
    MetricCell,
    MetricRow,
    MetricTable,
    decodings_of,
    refuse,
    rows_from_evaluation,
    rows_from_items,
)
from pact_eval.evaluation.arms.comparison import Margin
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
    GroupStatistics,
    ResampledGroup,
    StatisticSet,
    ece_difference,
    group_statistics,
    point_estimates,
    too_few,
)
from pact_eval.evaluation.settings import Settings
from pact_eval.notes import Note
from pact_eval.preregistration.criteria import (
    Check,
    Constant,
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
    CheckComparison,
    HypothesisResult,
    JudgedCheck,
    Reading,
    Scorecard,
    ShownBy,
    WeightedRow,
    by_construction,
    by_interval,
    weighted_rows,
)
from pact_eval.progress import tracked
from pact_eval.remedies.decodings import Remedy, remedied_items, remedy_of_name, why_undefined
from pact_eval.results import Result
from pact_eval.runs.custody import refuse_trained_on
from pact_eval.runs.folder import RunFolder, RunSource
from pact_eval.runs.places import url_of
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.bootstrap import Resampled, SampleStatistic, Statistic, resample
from pact_eval.stats.bounds import at_confidence
from pact_eval.stats.estimate import LEVEL, ClusterText, Estimate
from pact_eval.stats.permuted_slots import distinct_orders
from pact_eval.stats.proportions import without_interval

Terms = tuple[WeightedRow, ...]
# Arm, seed, decoding, and whether the contexts are ablated.
_Key = tuple[str, int | None, MetricDecoding, bool]
# The same, views (None for all), group and metric.
_Place = tuple[_Key, int | None, str, str]

_CONFIDENCE: Final = 0.95
# Resamples beyond each end of an interval of higher confidence.
_BEYOND: Final = 20


class RunDifferences:
    """Intervals of differences between runs on the same items.

    Args:
        rng: makes the source of the resamples; called for every difference, so that all see the
            same resamples.
        resamples: bootstrap resamples of families. Intervals of more than 95% confidence draw
            more if they need them.
    """

    def __init__(self, rng: Callable[[], np.random.Generator], resamples: int) -> None:
        self._rng = rng
        self._resamples = resamples
        self._items: dict[_Key, ScoredItems] = {}
        self._fewer: dict[tuple[_Key, int], ScoredItems] = {}
        self._groups: dict[_Place, GroupStatistics] = {}
        self._estimates: dict[_Place, Estimate] = {}
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
        groups = [self._group_of(term.row) for term in terms]
        found_groups = [group for group in groups if group is not None and group.sets]
        if len(found_groups) < len(terms):
            return None
        if [term.weight for term in terms] == [1.0]:
            metric = find_metric(terms[0].row.cell.metric)
            alone = self._alone(found_groups[0], metric.name)
            return at_confidence(metric.bounded(alone, 0.0, 1), confidence)
        resamples = self._resamples
        if confidence > _CONFIDENCE:
            resamples = max(resamples, math.ceil(2 * _BEYOND / (1 - confidence)))
        if (terms, resamples) not in self._inferences:
            self._inferences[terms, resamples] = self._inference(terms, found_groups, resamples)
        estimate = self._inferences[terms, resamples].estimate(confidence)
        return without_interval(estimate, _too_few(terms, found_groups))

    def _inference(
        self, terms: Terms, groups: Sequence[GroupStatistics], resamples: int
    ) -> Inference:
        first = terms[0].row.cell.metric
        basis = groups[0].bases.get(first)
        sets = [group.sets[0] for group in groups]
        n = sets[0].n if basis is None else basis.units
        runs = _resample(terms, sets, n=n, rng=self._rng(), resamples=resamples)
        drawn = Resampled.weighted_sum(
            [(term.weight, run) for term, run in zip(terms, runs, strict=True)]
        )
        metric = find_metric(first)
        if not metric.noise_floor or any(term.row.cell.metric != first for term in terms):
            return metric.difference(drawn)
        parts = [
            DifferencePart(term.weight, self._estimate(term.row, group), run)
            for term, group, run in zip(terms, groups, runs, strict=True)
        ]
        return ece_difference(drawn, parts)

    def _alone(self, group: GroupStatistics, metric: str) -> Estimate:
        """Return one number with the interval that the report of its run shows."""
        of_group = group.sets[0]
        drawn = resample(
            of_group.statistics,
            n_clusters=of_group.n_clusters,
            n=of_group.n,
            rng=self._rng(),
            resamples=self._resamples,
        )
        return ResampledGroup("", group, drawn, self._rng()).estimate(metric)

    def with_views(self, row: MetricRow, k: int) -> MetricRow | None:
        """Return the number as the first k views of its run give it; None if it is of no run."""
        items = self._items_of(replace(row, k=k))
        if items is None:
            return None
        cell = row.cell
        at_fewer_views = point_estimates(items, "kind", [cell.metric]).get(cell.group)
        if at_fewer_views is None:
            return None
        fewer = replace(row, k=k, value=at_fewer_views[cell.metric].value)
        group = self._group_of(fewer) if find_metric(cell.metric).noise_floor else None
        calibration = None if group is None else self._alone(group, cell.metric)
        return replace(
            MetricRow.of(cell, row.seed, calibration or at_fewer_views[cell.metric]), k=k
        )

    def _group_of(self, row: MetricRow) -> GroupStatistics | None:
        """Return the group of items that a number rests on, with its one metric."""
        items = self._items_of(row)
        rows = None if items is None else items.rows_by_group("kind").get(row.cell.group)
        if items is None or rows is None:
            return None
        place = self._place(row)
        if place not in self._groups:
            metric = find_metric(row.cell.metric)
            self._groups[place] = group_statistics(items.taken(rows), [metric])
        return self._groups[place]

    def _place(self, row: MetricRow) -> _Place:
        key = _key(row)
        fewer = row.k is not None and row.k != self._items[key].k
        return key, row.k if fewer else None, row.cell.group, row.cell.metric

    def _estimate(self, row: MetricRow, group: GroupStatistics) -> Estimate:
        """Return a metric of one run with its interval, from its evaluation if that has it."""
        if row.calibration is not None:
            return row.calibration
        place = self._place(row)
        if place not in self._estimates:
            self._estimates[place] = self._alone(group, row.cell.metric)
        return self._estimates[place]

    def _items_of(self, row: MetricRow) -> ScoredItems | None:
        key = _key(row)
        items = self._items.get(key)
        if items is None or row.k is None or row.k == items.k:
            return items
        if (key, row.k) not in self._fewer:
            self._fewer[key, row.k] = with_calibrated_tv(items.with_views(row.k))
        return self._fewer[key, row.k]


def with_calibrated_tv(items: ScoredItems) -> ScoredItems:
    """Return the items with the TV of their calibrated views, if they are a calibrated ensemble.

    In an evaluation, view TV is raw. Hypotheses ask for it under the calibrated decoding.
    """
    if items.decoding != "ensemble" or items.calibrator is None or items.contexts == "ablated":
        return items
    view_tv = _calibrated_tv(items.predictions, items.calibrator)
    return replace(items, values={**items.values, "view_tv": view_tv})


def _calibrated_tv(predictions: Predictions, calibrator: Calibrator) -> FloatArray:
    views = calibrator.apply(predictions.log_probs_by_view, predictions)
    return metrics.pairwise_tv(views, counted_views(distinct_orders(predictions.code_order)))


def _key(row: MetricRow) -> _Key:
    ablated = "ablated contexts" in find_metric(row.cell.metric).needs
    return row.cell.arm, row.seed, row.cell.decoding, ablated


def _too_few(terms: Terms, groups: Sequence[GroupStatistics]) -> ClusterText | None:
    """Return why a weighted sum has no interval; runs on the same items are judged together."""
    runs = [group.items for group in groups]
    together = [runs] if len({len(items) for items in runs}) == 1 else [[items] for items in runs]
    names = dict.fromkeys(term.row.cell.metric for term in terms)
    reasons = (
        too_few(find_metric(name), min(items.n_clusters for items in some), some)
        for name in names
        for some in together
    )
    return next(filter(None, reasons), None)


def _resample(
    terms: Terms,
    sets: Sequence[StatisticSet],
    *,
    n: int,
    rng: np.random.Generator,
    resamples: int,
) -> list[Resampled]:
    # Groups, and full and ablated contexts, may have different families: resample all together.
    families = np.unique(np.concatenate([statistic_set.families for statistic_set in sets]))
    statistics = {
        str(at): _over(
            statistic_set.statistics[term.row.cell.metric],
            np.searchsorted(families, statistic_set.families),
            len(families),
        )
        for at, (term, statistic_set) in enumerate(zip(terms, sets, strict=True))
    }
    drawn = resample(statistics, n_clusters=len(families), n=n, rng=rng, resamples=resamples)
    return list(drawn.values())


def _over(statistic: Statistic, codes: IntArray, n_families: int) -> Statistic:
    """Return a statistic of some families as one of more families, of which they are these."""
    if isinstance(statistic, SampleStatistic):
        return statistic.over(codes, n_families)
    return lambda weights: statistic(weights[:, codes])


Seeds: TypeAlias = tuple[int | None, ...]
Rows: TypeAlias = Callable[[MetricCell, int | None], MetricRow]


class Differences(Protocol):
    """Intervals of differences, and numbers at fewer views.

    A difference is a weighted sum of numbers, such as 1 x accuracy of A - 1 x accuracy of B at one
    seed.
    """

    def interval(self, terms: tuple[WeightedRow, ...], confidence: float, /) -> Estimate | None:
        """Return the interval of a weighted sum; None if there is none."""

    def with_views(self, row: MetricRow, k: int, /) -> MetricRow | None:
        """Return a number as the first k views give it; None if they are not known."""


# Differences of equal numbers that were summed in another order.
_ROUNDING: Final = 1e-12


def judge(
    hypotheses: Hypotheses, table: MetricTable, *, differences: Differences | None = None
) -> Scorecard:
    """Judge hypotheses on a table of metrics.

    Verdicts depend on the values alone. Next to them, comparisons and hypotheses say whether they
    are shown.

    Args:
        hypotheses: the claims and their checks.
        table: the numbers.
        differences: makes intervals of differences. Without it nothing is shown,
            except what holds by construction.

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

    def results(checks: Iterable[Check], *, jointly: bool) -> tuple[JudgedCheck, ...]:
        by_value = [
            JudgedCheck(check, tuple(_comparisons(check, table, differences))) for check in checks
        ]
        return _with_evidence(by_value, differences, jointly=jointly)

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
    refuse(_different_counts(scorecard))
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
    results: Iterable[JudgedCheck], differences: Differences | None, *, jointly: bool
) -> tuple[JudgedCheck, ...]:
    """Add the evidence to comparisons.

    Args:
        results: the checks of a hypothesis by value.
        differences: makes intervals.
        jointly: whether a failure of any of them refutes the hypothesis, so that its level is
            divided by their number (Bonferroni).
    """
    results = tuple(results)
    tested = [
        comparison
        for result in results
        for comparison in result.comparisons
        if comparison.holds is not None and not _certain(comparison)
    ]
    joint_level = LEVEL / max(1, len(tested)) if jointly else LEVEL
    with_evidence = []
    for result in results:
        comparisons = tuple(
            replace(
                comparison, evidence=_evidence(result.check, comparison, differences, joint_level)
            )
            for comparison in result.comparisons
        )
        with_evidence.append(replace(result, comparisons=comparisons))
    return tuple(with_evidence)


def _evidence(
    check: Check, comparison: CheckComparison, differences: Differences | None, joint_level: float
) -> ShownBy | None:
    if comparison.holds is None:
        return None
    if _certain(comparison):
        return by_construction()
    level = LEVEL if comparison.holds else joint_level
    if differences is None:
        return ShownBy(shown=False, level=level, reason="no interval")
    return by_interval(
        check.relation,
        check.margin,
        comparison.interval if level == LEVEL else _interval(comparison, differences, 1 - level),
        holds=comparison.holds,
        level=level,
    )


def _interval(
    comparison: CheckComparison, differences: Differences, confidence: float
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


def _different_counts(scorecard: Scorecard) -> list[str]:
    """Say which numbers of tables of metrics are compared with those of other items."""
    compared = [
        comparison
        for result in scorecard.results
        for check in (*result.checks, *result.beside)
        for comparison in check.comparisons
    ]
    problems = [_different_count(comparison.rows) for comparison in compared]
    return list(dict.fromkeys(problem for problem in problems if problem))


def _different_count(rows: tuple[MetricRow, ...]) -> str | None:
    counted_rows = [row for row in rows if row.n is not None]
    for one in counted_rows:
        for other in counted_rows:
            alike = (one.cell.metric, one.cell.group) == (other.cell.metric, other.cell.group)
            if alike and one.n != other.n and (one.source or other.source):
                return f"{_count(one)}, but {_count(other)}: arms must have the same items"
    return None


def _count(row: MetricRow) -> str:
    where = f"{row.source}: " if row.source else ""
    return f"{where}{row.cell.metric} of {row.run} ({row.cell.group}) is of n = {row.n:,}"


def _comparisons(
    check: Check, table: MetricTable, differences: Differences | None
) -> Iterator[CheckComparison]:
    for question in check.questions():
        seeds, reason = _seeds(check, question, table)
        if reason is not None:
            nothing = Reading(math.nan, ())
            yield CheckComparison(question, seeds, nothing, nothing, math.nan, None, reason)
        elif check.judged_on == "means":
            yield _comparison(check, question, seeds, table, differences)
        else:
            for seed in seeds:
                yield _comparison(check, question, (seed,), table, differences)


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


def _comparison(
    check: Check,
    question: Question,
    seeds: Seeds,
    table: MetricTable,
    differences: Differences | None,
) -> CheckComparison:
    left, right = (_reading(side, seeds, table.row) for side in (question.left, question.right))
    views = _views((left, right))
    if len(views) > 1:
        at_fewest = _at_views(table, differences, views)
        left, right = (_reading(side, seeds, at_fewest) for side in (question.left, question.right))
    difference = left.value - right.value
    compared = CheckComparison(question, seeds, left, right, difference, None, views=views)
    if math.isnan(difference):
        absent = dict.fromkeys(row.reason for row in compared.rows if math.isnan(row.value))
        reason = "; ".join(filter(None, absent)) or "a difference of infinite numbers"
        return replace(compared, reason=reason)
    interval = None if differences is None else _interval(compared, differences, 1 - LEVEL)
    holding = holds(check.relation, check.margin, difference)
    return replace(compared, holds=holding, interval=interval)


def _views(readings: Iterable[Reading]) -> tuple[int, ...]:
    """Return the numbers of views that numbers rest on, largest first, if they differ."""
    rows = [row for reading in readings for row in (*reading.rows, *reading.minus)]
    view_counts = sorted({row.k for row in rows if row.k is not None}, reverse=True)
    return tuple(view_counts) if len(view_counts) > 1 else ()


def _at_views(table: MetricTable, differences: Differences | None, views: tuple[int, ...]) -> Rows:
    """Return a function that reads numbers of the table at the smallest number of views."""
    reason = f"K differs: {' and '.join(map(str, views))}"

    def row(cell: MetricCell, seed: int | None) -> MetricRow:
        original, common = table.row(cell, seed), min(views)
        if original.k is None or original.k == common:
            return original
        fewer = None if differences is None else differences.with_views(original, common)
        return fewer or replace(original, value=math.nan, reason=reason)

    return row


def _reading(quantity: Quantity | Constant, seeds: Seeds, read: Rows) -> Reading:
    if isinstance(quantity, Constant):
        return Reading(quantity.value, ())
    rows = tuple(read(quantity.cell, seed) for seed in seeds)
    values = [row.value for row in rows]
    minus: tuple[MetricRow, ...] = ()
    if quantity.minus is not None:
        minus = tuple(read(quantity.minus, seed) for seed in seeds)
        values = [value - row.value for value, row in zip(values, minus, strict=True)]
    return Reading(_mean(values), rows, minus)


def _mean(values: list[float]) -> float:
    """Return the mean, exactly the same for any order of seeds; NaN if one value is NaN."""
    infinite = {value for value in values if math.isinf(value)}
    if len(infinite) > 1 or any(math.isnan(value) for value in values):
        return math.nan
    return next(iter(infinite)) if infinite else math.fsum(values) / len(values)


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
    runs = _Numbers(experiment, _remedy_cells(hypotheses))
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


def _remedy_cells(hypotheses: Hypotheses) -> tuple[MetricCell, ...]:
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
