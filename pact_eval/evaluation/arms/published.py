"""Published metrics, for experiments whose predictions nobody has any more.

They are tables as CSV (`published_csv.py`) or released result folders (`result_folders.py`), which
also say how their runs were trained (`released_training.py`). Their numbers have no intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import MetricTable
from pact_eval.evaluation.arms.published_csv import read_csv_rows
from pact_eval.evaluation.arms.published_paths import result_files
from pact_eval.evaluation.arms.published_rows import PublishedRow, metric_table
from pact_eval.evaluation.arms.released_training import read_released_training
from pact_eval.evaluation.arms.result_folders import read_result_rows


def read_published(paths: Sequence[Path]) -> ArmMetrics:
    """Read published metrics as the numbers of arms.

    Args:
        paths: CSV tables and result folders.

    Raises:
        InputError: a file is missing or cannot be read, lacks a column or key, or has no number; or
            two have different numbers for one place.
        RecordError: a row or a value cannot be understood; all of them with their places.
    """
    tables = [read_metric_table(path) for path in paths]
    table = MetricTable(row for table in tables for row in table.rows)
    trainings = {
        (training.arm, training.seed): training
        for path in paths
        for training in read_released_training(path)
    }
    return ArmMetrics(table, None, (*paths,), tuple(trainings.values()))


def read_metric_table(path: Path) -> MetricTable:
    """Read the published metrics of one path, under our names; raises as `read_published`."""
    table = metric_table(_rows(path))
    if not len(table):
        message = f"{path}: expected metrics of runs, got no number"
        raise InputError(message)
    return table


def _rows(path: Path) -> list[PublishedRow]:
    return read_result_rows(path) if result_files(path) else read_csv_rows(path)
