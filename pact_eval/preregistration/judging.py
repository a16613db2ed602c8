"""Judging: hypotheses and numbers in, verdicts with their evidence out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from pact_eval.preregistration.criteria import (
    Check,
    Hypotheses,
    Margin,
    Quantity,
    Question,
    Relation,
)
from pact_eval.preregistration.scorecard import (
    CheckResult,
    Comparison,
    HypothesisResult,
    Reading,
    Scorecard,
    WeightedRow,
    weighted_rows,
)
from pact_eval.preregistration.table import MetricRow, MetricTable
from pact_eval.stats import Estimate

__all__ = ["DifferenceInterval", "holds", "judge"]

DifferenceInterval: TypeAlias = Callable[[tuple[WeightedRow, ...]], Estimate | None]
"""Returns the interval of a weighted sum of numbers, such as 1 x accuracy of A - 1 x accuracy of B
at one seed; None if there is no interval."""

Seeds: TypeAlias = tuple[int | None, ...]

# Differences of equal numbers that were summed in another order.
_ROUNDING: Final = 1e-12


def judge(
    hypotheses: Hypotheses, table: MetricTable, *, interval: DifferenceInterval | None = None
) -> Scorecard:
    """Judge hypotheses on a table of metrics.

    Verdicts depend on the values alone; intervals are shown with them.

    Args:
        hypotheses: the claims and their checks.
        table: the numbers.
        interval: returns intervals of differences, if the caller can compute them.

    Returns:
        One result per hypothesis. If the table lacks an arm, seed, decoding, group or metric, this
        is not an error: the comparison lacks data, with the reason.

    Example:
        >>> from pact_eval.preregistration import MetricTable, judge, pact_hypotheses
        >>> judge(pact_hypotheses(), MetricTable([])).verdicts["H1"]
        'UNTESTED'
    """

    def results(checks: Iterable[Check]) -> tuple[CheckResult, ...]:
        return tuple(
            CheckResult(check, tuple(_comparisons(check, table, interval))) for check in checks
        )

    return Scorecard(
        tuple(
            HypothesisResult(each, results(each.checks), results(each.beside))
            for each in hypotheses.hypotheses
        )
    )


def holds(relation: Relation, margin: Margin, difference: float) -> bool:
    r"""Return whether a difference satisfies a relation.

    "higher" by m is d > m and "lower" by m is d < -m; "not higher" and "not lower" are their
    opposites; "similar" within m is \|d\| <= m. Differences within 1e-12 of a bound are on it.

    Args:
        relation: relation that d must satisfy.
        margin: m.
        difference: d, first quantity minus second.

    Example:
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


def _comparisons(
    check: Check, table: MetricTable, interval: DifferenceInterval | None
) -> Iterator[Comparison]:
    for question in check.questions():
        seeds, reason = _seeds(check, question, table)
        if reason is not None:
            nothing = Reading(math.nan, ())
            yield Comparison(question, seeds, nothing, nothing, math.nan, None, reason)
        elif check.judged_on == "means":
            yield _comparison(check, question, seeds, table, interval)
        else:
            for seed in seeds:
                yield _comparison(check, question, (seed,), table, interval)


def _seeds(check: Check, question: Question, table: MetricTable) -> tuple[Seeds, str | None]:
    """Return the seeds to compare at, or the reason why there are none."""
    arms = tuple(dict.fromkeys(cell.arm for cell in question.cells))
    seeded = [table.seeds(arm) for arm in arms if table.seeds(arm)]
    if check.seeds is not None:
        if seeded or not all(arm in table.arms for arm in arms):
            return check.seeds, None
        wanted = ", ".join(map(str, check.seeds))
        return check.seeds, f"no run of {' or '.join(arms)} says its seed (wanted: {wanted})"
    absent = next((cell for cell in question.cells if cell.arm not in table.arms), None)
    if absent is not None:
        return (), table.row(absent, None).reason
    if not seeded:
        return (None,), None
    shared = tuple(sorted(set(seeded[0]).intersection(*seeded[1:])))
    if shared:
        return shared, None
    found = "; ".join(f"{arm} {', '.join(map(str, table.seeds(arm)))}" for arm in arms)
    return (), f"no seed in common ({found})"


def _comparison(
    check: Check,
    question: Question,
    seeds: Seeds,
    table: MetricTable,
    interval: DifferenceInterval | None,
) -> Comparison:
    left, right = (_reading(each, seeds, table) for each in (question.left, question.right))
    rows = (*left.rows, *left.minus, *right.rows, *right.minus)
    absent = tuple(dict.fromkeys(row.reason for row in rows if math.isnan(row.value)))
    difference = left.value - right.value
    if math.isnan(difference):
        reason = "; ".join(filter(None, absent)) or "a difference of infinite numbers"
        return Comparison(question, seeds, left, right, math.nan, None, reason)
    return Comparison(
        question=question,
        seeds=seeds,
        left=left,
        right=right,
        difference=difference,
        holds=holds(check.relation, check.margin, difference),
        interval=None if interval is None else interval(weighted_rows(left, right)),
    )


def _reading(quantity: Quantity, seeds: Seeds, table: MetricTable) -> Reading:
    rows = tuple(table.row(quantity.cell, seed) for seed in seeds)
    values = [row.value for row in rows]
    minus: tuple[MetricRow, ...] = ()
    if quantity.minus is not None:
        minus = tuple(table.row(quantity.minus, seed) for seed in seeds)
        values = [value - row.value for value, row in zip(values, minus, strict=True)]
    return Reading(_mean(values), rows, minus)


def _mean(values: list[float]) -> float:
    """Return the mean, exactly the same for any order of seeds; NaN if one value is NaN."""
    infinite = {value for value in values if math.isinf(value)}
    if len(infinite) > 1 or any(math.isnan(value) for value in values):
        return math.nan
    return next(iter(infinite)) if infinite else math.fsum(values) / len(values)
