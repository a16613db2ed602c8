"""Texts of any length: memory, against the size of the texts themselves."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from run_frames import rows, write_run

from pact_eval.evaluation import Experiment, Settings


@pytest.mark.parametrize("column", ["id", "family", "source_family", "domain"])
def test_one_long_text_does_not_make_every_item_long(tmp_path: Path, column: str) -> None:
    """With room for the longest text in every item, the column alone takes 400 MB."""
    long = "x" * 100_000
    runs = []
    for seed in (1, 2):
        frame = rows(seed, families=500, k=1).with_columns(
            pl.when(pl.col("family") == "f0")
            .then(pl.concat_str(pl.col(column), pl.lit(long)))
            .otherwise(pl.col(column))
            .alias(column)
        )
        runs.append(write_run(tmp_path / str(seed), frame, arm=f"a{seed}", seed=1))
    tracemalloc.start()
    try:
        experiment = Experiment.read(runs, Settings(resamples=100))
        assert len(experiment.comparisons) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6
