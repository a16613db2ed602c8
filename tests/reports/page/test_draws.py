"""A page draws no sample of families twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from commands import runner
from reports.figures.figure_runs import rows
from run_frames import write_run

from pact_cli.main import main
from pact_eval._typing import FloatArray
from pact_eval.stats import bootstrap
from pact_eval.stats.consistency_resampling import calibrated_gaps

run = runner(main, "report")

# All items and three kinds of two runs.
GROUPS = 2 * (1 + 3)


@pytest.mark.slow
def test_a_page_of_two_runs_draws_every_sample_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstraps: list[int] = []
    inferences: list[int] = []
    weight_batches = bootstrap.weight_batches

    def counted_batches(
        n_clusters: int, width: int, resamples: int, rng: np.random.Generator
    ) -> Iterator[tuple[slice, FloatArray]]:
        bootstraps.append(n_clusters)
        return weight_batches(n_clusters, width, resamples, rng)

    def counted_gaps(*arguments: object, **options: object) -> FloatArray:
        inferences.append(1)
        return calibrated_gaps(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(bootstrap, "weight_batches", counted_batches)
    error = "pact_eval.evaluation.calibration_error"
    monkeypatch.setattr(f"{error}.calibrated_gaps", counted_gaps)
    folders = [
        write_run(tmp_path / arm, rows(seed, arm=arm, families=162), arm=arm, seed=17)
        for seed, arm in ((17, "pact"), (18, "nimble_recipe"))
    ]
    run(*folders, "--html", tmp_path / "page.html", "--resamples", 200)
    assert len(bootstraps) <= GROUPS
    # ECE has draws of its own, also over K views.
    assert len(inferences) == GROUPS + 2
