"""Error rates by coverage, and chosen gates."""

from __future__ import annotations

import math
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.curves.distributions import run_risks
from pact_eval.evaluation.registry import MetricDecoding
from pact_eval.numbers import UNDEFINED, value_text
from pact_eval.stats.estimate import Estimate
from pact_eval.thresholds.checking import GateMark, gate_marks
from pact_eval.thresholds.gates import SIGNAL_NAMES
from pact_reports.request import Request
from pact_reports.table import Cell, Column, Table, columns_and_rows, table_row
from pact_reports.tables.cells import (
    RUN_COLUMNS,
    arm_cell,
    decoding_words,
    interval_column,
    seed_cell,
)
from pact_reports.views.thresholds import gate_notes, rule_text

_COVERAGES: Final = (0.25, 0.5, 0.75, 0.9, 1.0)


def build_risk_coverage(request: Request) -> Table:
    """Make the table of error rates among the most confident items of every run.

    Raises:
        InputError: the runs do not compare, or have no probabilities.
    """
    risks = run_risks(request.raw, _COVERAGES)
    decoding = MetricDecoding(request.decoding)
    first = risks[0][1][0]
    return Table(
        name="risk-coverage",
        title="Error rate among the most confident items",
        caption=(
            f"Error rate (%) if this share of the items is kept, with its "
            f"{first.method}; decoding: {decoding_words(decoding)}. "
            f"{first.n:,} items, {first.clusters:,} families."
        ),
        columns=(*RUN_COLUMNS, *(_rate_column(f"{100 * share:g}%") for share in _COVERAGES)),
        rows=tuple(
            table_row(arm_cell(run.arm, request.names), seed_cell(run.seed), *map(_rate, errors))
            for run, errors in risks
        ),
    )


def build_gates(request: Request) -> Table:
    """Make the table of chosen gates on the runs of their model.

    Raises:
        InputError: there are no thresholds, or none is of the model of a run.
    """
    if not request.thresholds:
        raise InputError("no thresholds were given (--thresholds FILE)")
    marks, told = gate_marks(request.experiment, request.thresholds)
    notes = gate_notes(told, request.names)
    if not marks:
        raise InputError("; ".join(notes))
    layout = columns_and_rows(
        marks,
        (Column("Arm", "left"), lambda mark: arm_cell(mark.arm, request.names)),
        ("Seed", lambda mark: seed_cell(mark.seed)),
        (Column("Target", "left"), lambda mark: mark.file.target.limit),
        (Column("Gates on", "left"), _gates_on),
        (_rate_column("Accepted"), lambda mark: _rate(mark.accepted)),
        (_rate_column("Error"), lambda mark: _rate(mark.error)),
    )
    caption = (
        "Items that the gates of a file accept, and the error among them (%), with 95% Wilson "
        "intervals over families. Items without an answer count as escalated."
    )
    return Table("gates", "Chosen gates", caption, *layout, notes=notes)


def _gates_on(mark: GateMark) -> str:
    rule = mark.file.rule
    return f"{SIGNAL_NAMES[rule.signal]}, by {rule.by}; {rule_text(rule)}"


def _rate_column(title: str) -> Column:
    low_high = interval_column(title, "fraction").numbers
    return Column(title, numbers=(f"{title} (fraction)", *low_high))


def _rate(estimate: Estimate) -> Cell:
    numbers = (estimate.value, estimate.low, estimate.high, estimate.n, estimate.clusters)
    if math.isnan(estimate.value):
        return Cell(UNDEFINED, numbers, reason=estimate.reason)
    ends = ""
    if estimate.low < estimate.high:
        ends = f"[{value_text(estimate.low, 'percent')}, {value_text(estimate.high, 'percent')}]"
    return Cell(value_text(estimate.value, "percent"), numbers, interval=ends)
