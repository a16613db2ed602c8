"""Accuracy of every run by kind and by domain."""

from __future__ import annotations

from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.arms.single_runs import GroupAccuracy, group_accuracy
from pact_eval.evaluation.metric_specs import MetricDecoding
from pact_eval.evaluation.registry import metric_spec
from pact_reports.table import Column, Row, Table
from pact_reports.tables.cells import arm_cell, decoding_words, metric_column, text_cell, value_cell
from pact_reports.tables.request import TableRequest

_ACCURACY: Final = metric_spec("accuracy")
_MAE: Final = metric_spec("score_mae")
_TITLES: Final = {"choice": "Choice", "boolean": "Boolean", "score": "Score"}


def build_kinds(request: TableRequest) -> Table:
    """Make the table of accuracy by kind.

    Raises:
        InputError: the runs do not compare.
    """
    name = MetricDecoding(request.decoding)
    return group_table(group_accuracy(request.metrics, "kind", name), request.names)


def build_domains(request: TableRequest) -> Table:
    """Make the table of accuracy by domain.

    Raises:
        InputError: the runs do not compare, or their items have no domains.
    """
    metrics, name = request.metrics, MetricDecoding(request.decoding)
    if not metrics.published and not any(request.comparable[0].predictions.domain.tolist()):
        message = "the items name no domains"
        raise InputError(message)
    return group_table(group_accuracy(metrics, "domain", name), request.names)


def group_table(result: GroupAccuracy, names: ArmNames = KEYS) -> Table:
    """Lay out accuracy by group: one row per run, one column per group."""
    with_mae = result.by == "kind"
    rows = []
    before = None
    for run_rows in result.rows:
        arm, seed = run_rows[0].cell.arm, run_rows[0].seed
        accuracies, mae = run_rows[:-1], run_rows[-1]
        cells = [arm_cell(arm, names), text_cell("–" if seed is None else str(seed))]
        cells += [value_cell(row.value, _ACCURACY, row.reason) for row in accuracies]
        cells += [value_cell(mae.value, _MAE, mae.reason)] if with_mae else []
        rows.append(Row(tuple(cells), rule=arm != before))
        before = arm
    named = [_TITLES.get(name, name) or "(none)" for name, _ in result.groups]
    sizes = [
        f"{name} {size:,}" if size is not None else name
        for name, (_, size) in zip(named, result.groups, strict=True)
    ]
    levels = " Score MAE in levels, on Score items." if with_mae else ""
    return Table(
        name=f"{result.by}s",
        title=f"Accuracy by {result.by}",
        caption=(
            f"Accuracy (%) of each run; decoding: {decoding_words(result.decoding)}. "
            f"Items: {', '.join(sizes)}.{levels}"
        ),
        columns=(
            Column("Arm", "left"),
            Column("Seed"),
            *(metric_column(_ACCURACY, result.decoding, name) for name in named),
            *((metric_column(_MAE, result.decoding),) if with_mae else ()),
        ),
        rows=tuple(rows),
    )
