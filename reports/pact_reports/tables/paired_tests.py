"""Paired tests: one arm against each of the others, seed by seed, on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.diagnostics import MatchedRuns, matched_runs
from pact_eval.evaluation.metric_specs import DIFFERENCE, MetricDecoding
from pact_eval.evaluation.registry import metric_spec
from pact_reports.table import Cell, Column, Row, Table
from pact_reports.tables.cells import (
    arm_cell,
    decoding_words,
    interval_cell,
    interval_column,
    metric_column,
    p_value_cell,
    text_cell,
    unit_of,
    value_cell,
)
from pact_reports.tables.request import TableRequest

_ACCURACY: Final = metric_spec("accuracy")


def build_paired(request: TableRequest) -> Table:
    """Make the table of paired tests of runs.

    Raises:
        InputError: the runs do not compare or lack the decoding, or no other arm has a seed in
            common with the method.
    """
    decoding = MetricDecoding(request.decoding)
    _ = request.comparable
    method = request.experiment.main_arm
    return paired_table(matched_runs(request.raw, method), method, decoding, request.names)


def paired_table(
    tests: Sequence[MatchedRuns], method: str, decoding: MetricDecoding, names: ArmNames = KEYS
) -> Table:
    """Lay out paired tests: one row per seed, the others in blocks.

    Args:
        tests: one or more, those of an arm together.
        method: the arm that is tested against the others.
        decoding: what accuracies rest on.
        names: display names of arms.
    """
    unit = unit_of(DIFFERENCE, decoding)
    first, difference = tests[0].result.accuracy, tests[0].result.metrics["accuracy"].difference
    intervals = f"{first.item_interval.method}, and over families next to it"
    rows, before = [], None
    for test in tests:
        rows.append(Row(_cells(test, names), rule=test.control != before))
        before = test.control
    return Table(
        name="paired",
        title=f"Paired tests of {names.arm(method)}",
        caption=(
            f"Accuracy (%) of A = {names.arm(method)} and of the other arm B on the same "
            f"{first.items.n:,} items of {first.families.clusters:,} families; "
            f"decoding: {decoding_words(decoding)}. "
            "Only A, only B: items that only one of them answers correctly. McNemar: exact, "
            "two-sided, treats items as independent, as papers do; sign flip: exact, over "
            "families, the one to use if families have several members. Intervals of A - B in "
            f"points: {intervals} (n = {difference.n:,}, clusters = {difference.clusters:,}). "
            "No p-value is adjusted for the number of tests."
        ),
        columns=(
            Column("B", "left"),
            Column("Seed"),
            metric_column(_ACCURACY, decoding, "Acc. A"),
            metric_column(_ACCURACY, decoding, "Acc. B"),
            metric_column(DIFFERENCE, decoding, "A - B"),
            Column("Only A/B", numbers=("only A right (items)", "only B right (items)")),
            Column("McNemar p", numbers=("McNemar p",)),
            interval_column("95% items", unit),
            interval_column("95% families", unit),
            Column("Sign flip p", numbers=("sign flip p",)),
        ),
        rows=tuple(rows),
        legend=(("significant", "p below 0.05"),),
    )


def _cells(test: MatchedRuns, names: ArmNames) -> tuple[Cell, ...]:
    accuracy, tests = test.result.metrics["accuracy"], test.result.accuracy
    items, families = tests.items, tests.families
    return (
        arm_cell(test.control, names),
        text_cell("–" if test.seed is None else str(test.seed)),
        value_cell(accuracy.a.value, _ACCURACY),
        value_cell(accuracy.b.value, _ACCURACY),
        value_cell(items.difference, DIFFERENCE),
        Cell(f"{items.b:,}/{items.c:,}", (items.b, items.c)),
        p_value_cell(items.p_value, items.reason),
        interval_cell(tests.item_interval, DIFFERENCE),
        interval_cell(accuracy.difference, DIFFERENCE),
        p_value_cell(families.p_value, families.reason),
    )
