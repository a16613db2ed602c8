"""The answer and the matrix of a page as tables, for copying."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.conclusions.better import BetterConclusion, Claim
from pact_eval.evaluation.conclusions.experiment_conclusions import RunConclusions
from pact_eval.evaluation.registry import metric_spec
from pact_eval.evaluation.run_rates import COMPARED
from pact_eval.numbers import (
    UNDEFINED,
    Unit,
    estimate_parts,
    p_value_number,
    value_text,
    views_words,
)
from pact_eval.stats.estimate import Estimate
from pact_reports.table import Cell, Column, Row, Table

_ENDS: Final = ("value", "low", "high")


def answer_table(conclusions: Sequence[BetterConclusion], names: ArmNames) -> Table:
    """Lay out the differences behind an answer: a row per arm, metric and decoding.

    Args:
        conclusions: on an arm and each of the others.
        names: display names of arms.
    """
    rows = [
        Row(
            (
                Cell(names.arm(conclusion.left), data=conclusion.left),
                Cell(names.arm(conclusion.right), data=conclusion.right),
                Cell(metric_spec(claim.metric).title),
                Cell(views_words(claim.k, claim.repeats)),
                _estimate_cell(claim.difference, "points"),
                _p_value_cell(claim.evidence.deciding),
                Cell(claim.status),
            )
        )
        for conclusion in conclusions
        for name in COMPARED
        for claim in conclusion.of(name)
    ]
    return Table(
        name="answer",
        title="Is it better?",
        caption=" ".join(str(conclusion.named(names).words) for conclusion in conclusions),
        columns=(
            *(Column(title, "left") for title in ("Arm", "Other arm", "Metric", "Views")),
            _estimate_column("Difference (points)", "difference"),
            Column("p", numbers=("p",)),
            Column("Status", "left"),
        ),
        rows=tuple(rows),
    )


def matrix_table(
    conclusions: Sequence[RunConclusions],
    differences: Sequence[Claim | None],
    reference: str,
    names: ArmNames,
) -> Table:
    """Lay out runs by questions, with the differences from one reference.

    Args:
        conclusions: on every run, in their order.
        differences: by run, its accuracy minus that of the reference.
        reference: label of the reference.
        names: display names of arms.
    """
    rows = [
        Row(
            (
                Cell(names.run(run.run), data=run.run),
                _estimate_cell(run.accuracy, "percent"),
                *_difference_cells(difference),
                Cell(run.data.status.capitalize()),
                Cell(run.order.words.finding),
                _estimate_cell(run.order.flip_rate, "percent"),
                Cell(run.probabilities.words.finding),
                Cell(
                    value_text(run.probabilities.ece.value, "percent"),
                    (run.probabilities.ece.value,),
                ),
            )
        )
        for run, difference in zip(conclusions, differences, strict=True)
    ]
    return Table(
        name="runs-by-questions",
        title="Runs by questions",
        caption=f"Differences are points of accuracy, run minus {names.run(reference)}.",
        columns=(
            Column("Run", "left"),
            _estimate_column("Accuracy %", "accuracy"),
            _estimate_column("Difference", "difference"),
            Column("p", numbers=("p",)),
            *(Column(title, "left") for title in ("Status", "Data", "Order")),
            _estimate_column("Flips %", "flip_rate"),
            Column("Probabilities", "left"),
            Column("ECE %", numbers=("ece (fraction)",)),
        ),
        rows=tuple(rows),
    )


def _estimate_column(title: str, name: str) -> Column:
    return Column(title, numbers=tuple(f"{name} {end} (fraction)" for end in _ENDS))


def _estimate_cell(estimate: Estimate, unit: Unit) -> Cell:
    value, interval = estimate_parts(estimate, unit)
    return Cell(value, (estimate.value, estimate.low, estimate.high), interval=interval)


def _p_value_cell(p_value: float) -> Cell:
    text = UNDEFINED if math.isnan(p_value) else p_value_number(p_value)
    return Cell(text, (p_value,))


def _difference_cells(difference: Claim | None) -> tuple[Cell, Cell, Cell]:
    """Write difference, p-value and status; the reference has none."""
    if difference is None:
        return Cell(UNDEFINED, (None, None, None)), Cell(UNDEFINED, (None,)), Cell("reference")
    return (
        _estimate_cell(difference.difference, "points"),
        _p_value_cell(difference.evidence.deciding),
        Cell(difference.status),
    )
