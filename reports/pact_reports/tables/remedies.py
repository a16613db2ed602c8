"""Remedies of order effects: their values and prices, and differences from one and K views."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.marks import sign_of
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.numbers import UNDEFINED, interval_text, methods_text
from pact_eval.remedies.comparison import (
    RemedyComparison,
    RemedyDifference,
    RemedyMetric,
    RemedyRow,
)
from pact_eval.remedies.decodings import NO_PROBABILITIES
from pact_reports.sentences.remedies import balance_sentence
from pact_reports.table import Cell, Column, Line, Mark, Part, Row, Table, Tone
from pact_reports.tables.cells import estimate_cell, unit_of, value_cell
from pact_reports.tables.letter_balance import balance_table
from pact_reports.tables.remedy_costs import costs_table

_VALUES = (
    ("accuracy", False),
    ("pair_accuracy", False),
    ("nll_nats", False),
    ("nll_nats", True),
    ("ece", False),
    ("ece", True),
    ("flip_rate", False),
)
_SHORT: Final = {"Pair accuracy": "Pairs", "Flip rate": "Flips"}
_DIFFERENCES = ("accuracy", "nll_nats")
_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("significant", "shown to differ at 5%, adjusted by Holm over all remedies"),
)


def remedies_parts(comparison: RemedyComparison) -> Iterator[Part]:
    """Lay out remedies: values and prices, differences, and what was fitted on what."""
    yield _values_table(comparison)
    yield _differences_table(comparison)
    yield costs_table(comparison)
    without: dict[str, list[str]] = {}
    for row in comparison.rows:
        if row.without_prior:
            reason = f"{row.without_prior:,} of {comparison.items:,} items stay as they are, "
            reason += f"because {_why_untouched(row)}"
            without.setdefault(reason, []).append(row.remedy.title)
    for reason, titles in without.items():
        yield Line(f"Note: {'; '.join(titles)}: {reason}.", "caution")
    if not comparison.content_free:
        yield Line(
            "Contextual calibration needs prompts without a context: repeat the scoring command "
            "with --content-free, which adds them to the run."
        )
    yield from _reverse_lines(comparison)
    if any(row.remedy.prior == "batch" for row in comparison.rows):
        tone: Tone | None = "caution" if comparison.balance == "unbalanced" else None
        yield Line(balance_sentence(comparison), tone)
        yield balance_table(comparison)


def _reverse_lines(comparison: RemedyComparison) -> Iterator[Line]:
    """Yield the comparison of a reverse second order with another one, or why there is none."""
    if comparison.reverse_against_other:
        texts = [
            _difference_text(comparison.row("k2").metric(name), against)
            for name, against in comparison.reverse_against_other.items()
        ]
        yield Line(f"K = 2, reverse order minus other order: {'; '.join(texts)}.")
        return
    counts = comparison.second_orders
    if counts is not None and counts.several and comparison.k > 1:
        yield Line(
            f"A reverse second order is not compared with another one: of {counts.items:,} items, "
            f"{counts.with_reverse:,} have the reverse of their first order among their views, and "
            f"{counts.with_other:,} another order. Score the run with --orders antithetic --k 3."
        )


def _difference_text(metric: RemedyMetric, against: RemedyDifference) -> str:
    unit = metric.spec.difference_unit
    word = " points" if unit == "points" else " nats"
    number = interval_text(against.difference, unit, word)
    return f"{metric.spec.title} {number}"


def _why_untouched(row: RemedyRow) -> str:
    if row.remedy.contextual:
        return "they have no content-free probabilities, or one of 0"
    return "the fit has no items, or too few orders, of their number of answers"


def _values_table(comparison: RemedyComparison) -> Table:
    specs = [comparison.rows[0].metric(name).spec for name, _ in _VALUES]
    folds = f"{comparison.folds} folds by {comparison.fold_unit}"
    return Table(
        name="remedies",
        title=f"Remedies, the cheapest in {comparison.price} first",
        caption=(
            f"{comparison.items:,} items, {comparison.families:,} families. Priors and "
            f"temperatures are fitted on other families ({folds}).\n"
            "K: views per item. Rates in %, NLL in nats. At T: after a temperature.\n"
            "Flips: another answer from the next views.\n"
            "On itself: fitted on the evaluated items, as published."
        ),
        columns=(
            Column("Remedy", "left"),
            *map(_value_column, specs, (tempered for _, tempered in _VALUES)),
        ),
        rows=tuple(map(_values_row, comparison.rows)),
    )


def _value_column(spec: MetricSpec, tempered: bool) -> Column:
    title = f"{spec.title} at T" if tempered else spec.title
    return Column(
        _SHORT.get(title, title),
        numbers=(f"{title} ({unit_of(spec, SINGLE)})",),
        better=spec.better,
    )


def _values_row(row: RemedyRow) -> Row:
    def value(name: str, tempered: bool) -> Cell:
        if tempered and not row.remedy.has_probabilities:
            return Cell(UNDEFINED, (math.nan,), reason=NO_PROBABILITIES)
        try:
            metric = row.metric(name, tempered=tempered)
        except KeyError:
            return Cell(UNDEFINED, (math.nan,), reason="no temperature can be fitted")
        return value_cell(metric.value.value, metric.spec, metric.value.reason)

    return Row(
        (
            Cell(row.remedy.title, data=row.remedy.name),
            *(value(name, tempered) for name, tempered in _VALUES),
        )
    )


def _differences_table(comparison: RemedyComparison) -> Table:
    references = comparison.references
    metrics = [comparison.rows[0].metric(name).spec for name in _DIFFERENCES]
    columns = [
        Column(f"{spec.title} − {_views(reference)}", "left", better=spec.better)
        for reference in references
        for spec in metrics
    ]
    others = [row for row in comparison.rows if row.remedy.name != references[0]]
    estimates = [
        against.difference
        for row in others
        for name in _DIFFERENCES
        for against in row.metric(name).differences.values()
    ]
    return Table(
        name="remedies-differences",
        title="Differences on the same items",
        caption=f"Differences of rates in points; in brackets the {methods_text(estimates)}.\n"
        "Fits are held fixed in the resamples.",
        columns=(Column("Remedy", "left"), *columns),
        rows=tuple(
            Row(
                (
                    Cell(row.remedy.title, data=row.remedy.name),
                    *(
                        _difference_cell(row.metric(name), reference)
                        for reference in references
                        for name in _DIFFERENCES
                    ),
                )
            )
            for row in others
        ),
        legend=_LEGEND,
    )


def _difference_cell(metric: RemedyMetric, reference: str) -> Cell:
    against = metric.differences.get(reference)
    if against is None:
        return Cell(UNDEFINED)
    cell = estimate_cell(against.difference, metric.spec.difference_unit)
    mark: Mark | None = "significant" if against.marked and sign_of(against.difference) else None
    reason = NO_PROBABILITIES if math.isnan(against.difference.value) else cell.reason
    return Cell(cell.text, cell.numbers, mark, reason, cell.interval, cell.below)


def _views(reference: str) -> str:
    return f"K = {reference.removeprefix('k')}"
