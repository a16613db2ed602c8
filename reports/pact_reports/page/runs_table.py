"""The headline numbers of every run by itself, runs on other items too."""

from __future__ import annotations

from typing import Final

from pact_eval.evaluation import group_statistics, point_values
from pact_eval.hypotheses import METRIC_SPECS, decoding_name
from pact_eval.predictions import Decoding
from pact_reports.documents.cells import (
    count_cell,
    count_column,
    metric_column,
    text_cell,
    value_cell,
)
from pact_reports.documents.metric_values import DECODING_WORDS
from pact_reports.documents.model import Cell, Column, Row, Table
from pact_reports.page.item_columns import DecodedRun

__all__ = ["runs_table"]

_METRICS: Final = ("accuracy", "pair_accuracy", "nll_nats", "ece", "aurc", "tv", "flip_rate")


def runs_table(runs: tuple[DecodedRun, ...], decoding: Decoding) -> Table:
    """Lay out the headline numbers: a row a run.

    Args:
        runs: under the decoding.
        decoding: single or ensemble.
    """
    raw, calibrated = decoding_name(decoding, "raw"), decoding_name(decoding, "calibrated")
    columns = [Column("Run", "left"), count_column("Items")]
    for name in _METRICS:
        columns.append(metric_column(METRIC_SPECS[name], raw))
        if name == "ece":
            columns.append(metric_column(METRIC_SPECS[name], calibrated, "ECE after T(x)"))
    rows, before = [], None
    for run in runs:
        rows.append(Row(tuple(_cells(run)), rule=run.run.arm != before))
        before = run.run.arm
    return Table(
        name="runs",
        title="Every run",
        caption=(
            f"Decoding: {DECODING_WORDS[raw]}, but for ECE after T(x), which is calibrated; TV and "
            "flips are between the K views. Rates in %, AURC in %, NLL in nats."
        ),
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _cells(run: DecodedRun) -> list[Cell]:
    group = group_statistics(run.raw)
    values = point_values(group)
    after = None if run.calibrated is None else point_values(group_statistics(run.calibrated))
    cells = [text_cell(run.run.label), count_cell(len(run.views))]
    for name in _METRICS:
        basis = group.bases.get(name)
        reason = None if basis is None or basis.units else basis.reason_if_none
        cells.append(value_cell(values[name], METRIC_SPECS[name], reason))
        if name == "ece":
            cells.append(
                Cell("–", reason="no calibrator in the run's folder")
                if after is None
                else value_cell(after[name], METRIC_SPECS[name])
            )
    return cells
