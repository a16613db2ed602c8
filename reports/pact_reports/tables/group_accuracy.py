"""Accuracy of every run by kind and by domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pact_eval.errors import InputError
from pact_eval.evaluation import GroupBy, metric_spec
from pact_eval.preregistration import Cell as Place
from pact_eval.preregistration import (
    DecodingName,
    MetricRow,
    MetricTable,
    arms_in_order,
    collection_metrics,
    decoding_name,
    metric_row,
    run_seeds,
)
from pact_reports.table import Column, Row, Table, unique
from pact_reports.tables.cells import metric_column, text_cell, value_cell
from pact_reports.tables.metric_values import DECODING_WORDS
from pact_reports.tables.request import TableRequest

__all__ = ["GroupAccuracy", "build_domains", "build_kinds", "group_accuracy", "group_table"]

_ACCURACY: Final = metric_spec("accuracy")
_MAE: Final = metric_spec("score_mae")
_TITLES: Final = {"choice": "Choice", "boolean": "Boolean", "score": "Score"}


@dataclass(frozen=True)
class GroupAccuracy:
    """Accuracy of runs by group.

    Attributes:
        by: what the groups are.
        decoding: of all numbers.
        groups: names of the groups, each with its number of items as far as it is known.
        rows: by run, accuracy in each group, then Score MAE of all items.
    """

    by: GroupBy
    decoding: DecodingName
    groups: tuple[tuple[str, int | None], ...]
    rows: tuple[tuple[MetricRow, ...], ...]


def group_accuracy(table: MetricTable, by: GroupBy, decoding: DecodingName) -> GroupAccuracy:
    """Gather the accuracy of every run in every group.

    Args:
        table: the numbers, with groups of one sort beside all items.
        by: what those groups are.
        decoding: what all numbers are taken under.

    Raises:
        InputError: there is no group but all items.
    """
    names = unique(
        row.cell.group
        for row in table.rows
        if row.cell.metric == "accuracy" and row.cell.group != "all"
    )
    if not names:
        message = f"no numbers by {by}"
        raise InputError(message)
    runs = [(arm, seed) for arm in arms_in_order(table) for seed in run_seeds(table, arm)]
    asked = [*(("accuracy", name) for name in names), ("score_mae", "all")]
    rows = tuple(
        tuple(
            metric_row(table, Place(metric, arm, decoding, group), seed) for metric, group in asked
        )
        for arm, seed in runs
    )
    sizes = [next((row[at].n for row in rows if row[at].n), None) for at in range(len(names))]
    return GroupAccuracy(by, decoding, tuple(zip(names, sizes, strict=True)), rows)


def build_kinds(request: TableRequest) -> Table:
    """Make the table of accuracy by kind.

    Raises:
        InputError: the runs do not compare.
    """
    name = decoding_name(request.decoding, "raw")
    return group_table(group_accuracy(request.metrics, "kind", name))


def build_domains(request: TableRequest) -> Table:
    """Make the table of accuracy by domain.

    Raises:
        InputError: the runs do not compare, or their items have no domains.
    """
    runs = request.comparable
    if not any(runs[0].predictions.domain.tolist()):
        message = "the items name no domains"
        raise InputError(message)
    name = decoding_name(request.decoding, "raw")
    table = MetricTable(
        row for row in collection_metrics(runs, by="domain").rows if row.cell.decoding == name
    )
    return group_table(group_accuracy(table, "domain", name))


def group_table(result: GroupAccuracy) -> Table:
    """Lay out accuracy by group: a row a run, a column a group."""
    with_mae = result.by == "kind"
    rows = []
    before = None
    for found in result.rows:
        arm, seed = found[0].cell.arm, found[0].seed
        accuracies, mae = found[:-1], found[-1]
        cells = [text_cell(arm), text_cell("–" if seed is None else str(seed))]
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
            f"Accuracy (%) of each run; decoding: {DECODING_WORDS[result.decoding]}. "
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
