"""Groups of any column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from run_frames import rows

from pact_eval._choices import Bins
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.evaluation.labels import column_labels, parse_bins
from pact_eval.runs.identity import MISSING
from pact_eval.runs.predictions import Predictions


@pytest.mark.parametrize(
    ("values", "bins", "names"),
    [
        (["b", None, "a"], None, ["b", MISSING, "a"]),
        ([10.0, 2.0, None], None, ["10", "2", MISSING]),
        ([0.0, 1.0, 2.0, 3.0], 2, ["[0, 1)", "[1, 3]", "[1, 3]", "[1, 3]"]),
        ([0.0, 10.0, 20.0], (10.0, 15.0), ["[0, 10)", "[10, 15)", "[15, 20]"]),
        ([5.0, 5.0, 5.0], 4, ["[5, 5]"] * 3),
    ],
)
def test_groups_of_a_column(values: list[Any], bins: Bins | None, names: list[str]) -> None:
    labels = column_labels(pl.Series(values), "column", bins)
    assert labels.names[labels.codes].tolist() == names


def test_many_values_need_bins() -> None:
    with pytest.raises(InputError, match="21 different numbers.*--by days:4"):
        column_labels(pl.Series([float(n) for n in range(21)]), "days")
    assert len(column_labels(pl.Series([float(n) for n in range(20)]), "days")) == 20
    with pytest.raises(InputError, match="at most 200 different texts, got 201"):
        column_labels(pl.Series([str(n) for n in range(201)]), "name")
    with pytest.raises(InputError, match="text, which has none"):
        column_labels(pl.Series(["a"]), "name", 2)
    for text in ("1", "x", "2,1", "", "nan,1"):
        with pytest.raises(InputError, match="bins"):
            parse_bins(text)


@pytest.mark.parametrize(("by", "bins"), [("days", 3), ("shop", None)])
def test_columns_of_a_file_group_as_columns_in_memory(
    tmp_path: Path, by: str, bins: Bins | None
) -> None:
    frame = rows(1, families=30, k=1)
    number = pl.int_range(len(frame))
    columns = {"metadata.days": number.cast(pl.Float64), "metadata.shop": (number % 3).cast(str)}
    path = tmp_path / "predictions.parquet"
    frame.with_columns(**columns).write_parquet(path)
    from_file = read_items(path, "single", by=by, bins=bins).rows_by_group(by)
    predictions = Predictions.from_frame(pl.read_parquet(path))
    in_memory = ScoredItems.of(predictions, "single").grouped(by, bins).rows_by_group(by)
    assert list(from_file) == list(in_memory)
    assert len(in_memory) == 4
    assert all(np.array_equal(from_file[name], in_memory[name]) for name in in_memory)
    with pytest.raises(InputError, match="shop"):
        read_items(path, "single", by="nope")
