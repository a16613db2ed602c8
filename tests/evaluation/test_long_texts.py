"""Texts of any length: memory, against the size of the texts themselves."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings


@pytest.mark.slow
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
        assert len(experiment.comparisons.of_first) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_a_long_domain_is_shown_with_its_beginning(tmp_path: Path) -> None:
    # A domain of 5 MB was printed in full.
    domain = pl.when(pl.col("family") == "f0").then(pl.lit("x" * 5_000_000)).otherwise("domain")
    frame = rows(1, families=12, k=1).with_columns(domain.alias("domain"))
    run = write_run(tmp_path / "run", frame, arm="a", seed=1)
    command = ["report", str(run), "--by", "domain", "--resamples", "100"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "xxxx" in result.output
    assert len(result.output) < 200_000  # its beginning, in every table
