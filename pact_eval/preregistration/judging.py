"""Judging: hypotheses and numbers in, verdicts with their evidence out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable, refuse
from pact_eval.evaluation.arms.margins import Margin
from pact_eval.evaluation.decoding import MetricDecoding
from pact_eval.evaluation.registry import find_metric
from pact_eval.preregistration.criteria import Check, Hypotheses, Quantity, Question, Relation
from pact_eval.preregistration.evidence import (
    ShownBy,
    by_construction,
    by_interval,
)
from pact_eval.preregistration.scorecard import (
    CheckComparison,
    HypothesisResult,
    JudgedCheck,
    Reading,
    Scorecard,
    WeightedRow,
    weighted_rows,
)
from pact_eval.progress import tracked
from pact_eval.stats.estimate import LEVEL, Estimate

__all__ = ["Differences", "holds", "judge"]

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
        >>> from pact_eval.preregistration.parsing import read_hypotheses, write_example
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
    terms = weighted_rows(comparison.left, comparison.right)
    return by_interval(
        check.relation,
        check.margin,
        comparison.interval if level == LEVEL else differences.interval(terms, 1 - level),
        holds=comparison.holds,
        level=level,
    )


def _certain(comparison: CheckComparison) -> bool:
    """Return whether the difference is 0 whatever the data.

    Calibration changes no metric of the top answer, and a number equals itself.
    """
    if not abs(comparison.difference) <= _ROUNDING:
        return False
    weights: dict[tuple[str, str, MetricDecoding, str, int | None], float] = {}
    for term in weighted_rows(comparison.left, comparison.right):
        cell, decoding = term.row.cell, term.row.cell.decoding
        if find_metric(cell.metric).of_top_answer:
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
                return f"{_counted(one)}, but {_counted(other)}: arms must have the same items"
    return None


def _counted(row: MetricRow) -> str:
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
    interval = None
    if differences is not None:
        interval = differences.interval(weighted_rows(left, right), 1 - LEVEL)
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


def _reading(quantity: Quantity, seeds: Seeds, read: Rows) -> Reading:
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
