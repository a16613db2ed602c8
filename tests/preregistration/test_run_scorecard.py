"""Runs under every decoding, and intervals of what hypotheses compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from run_frames import predictions, rows, write_run

from pact_eval import metrics
from pact_eval.calibration import Calibrator, Weights, write_calibrator
from pact_eval.evaluation import ScoredItems, Settings, compare
from pact_eval.preregistration import judge_sources

CRITERIA = """
format = "pact-hypotheses-1"
[[hypothesis]]
id = "H"
title = "T"
claim = "C."
[[hypothesis.check]]
says = "check"
metric = "{metric}"
arm = "a"
decoding = "{decoding}"
is = "higher"
than = {{ arm = "b" }}
judged_on = "matched"
seeds = [1]
"""

HOT = Calibrator("scalar", Weights(bias=(3.0, 0.0, 0.0)))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    folders = [
        write_run(tmp_path / name, rows(seed, skill=skill), arm=name, seed=1)
        for name, seed, skill in (("a", 1, 1.5), ("b", 2, 0.5))
    ]
    for folder in folders:
        write_calibrator(folder / "calibration.json", HOT)
    return folders


def judged(tmp_path: Path, runs: list[Path], metric: str, decoding: str) -> tuple[float, ...]:
    """Returns the difference, its interval's value and ends."""
    path = tmp_path / "h.toml"
    path.write_text(CRITERIA.format(metric=metric, decoding=decoding))
    result = judge_sources(path, runs, Settings(resamples=300, seed=3))
    (comparison,) = result.scorecard["H"].checks[0].comparisons
    assert comparison.interval is not None
    interval = comparison.interval
    return comparison.difference, interval.value, interval.low, interval.high


@pytest.mark.parametrize("metric", ["accuracy", "pair_accuracy", "ece", "nll_nats", "score_mae"])
def test_intervals_are_those_of_a_comparison(tmp_path: Path, runs: list[Path], metric: str) -> None:
    a, b = (ScoredItems.of(predictions(s, skill=k), "single") for s, k in ((1, 1.5), (2, 0.5)))
    expected = (
        compare(a, b, by="kind", rng=Settings(seed=3).rng(), resamples=300)
        .groups[0]
        .metrics[metric]
        .difference
    )
    found = judged(tmp_path, runs, metric, "single")
    wanted = (expected.value, expected.value, expected.low, expected.high)
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_tv_under_a_calibrated_decoding_is_that_of_calibrated_views(
    tmp_path: Path, runs: list[Path]
) -> None:
    tv = []
    for seed, skill in ((1, 1.5), (2, 0.5)):
        run = predictions(seed, skill=skill)
        views = HOT.apply(run.log_probs_by_view, kind=run.kind, n_choices=run.n_choices)
        tv.append(metrics.pairwise_tv(views).mean())
    difference, value, *_ = judged(tmp_path, runs, "view_tv", "ensemble_calibrated")
    assert difference == pytest.approx(tv[0] - tv[1])
    assert value == pytest.approx(difference)
    raw, *_ = judged(tmp_path, runs, "view_tv", "ensemble")
    assert raw != pytest.approx(difference)


def test_calibrated_decodings_need_a_calibrator_in_the_folder(
    tmp_path: Path, runs: list[Path]
) -> None:
    (runs[0] / "calibration.json").unlink()
    path = tmp_path / "h.toml"
    path.write_text(CRITERIA.format(metric="ece", decoding="single_calibrated"))
    result = judge_sources(path, runs, Settings(resamples=100, seed=3))
    assert result.scorecard.verdicts == {"H": "UNTESTED"}
    assert any(
        "no single_calibrated numbers of a" in r for r in result.scorecard["H"].checks[0].reasons
    )


def test_the_fit_of_a_calibrator_is_not_judged_on_its_own_families(
    tmp_path: Path, runs: list[Path]
) -> None:
    fitted = HOT.with_provenance(families=["f3"], source_families=["s3"])
    write_calibrator(runs[0] / "calibration.json", fitted)
    path = tmp_path / "h.toml"
    path.write_text(CRITERIA.format(metric="ece", decoding="single"))
    with pytest.raises(ValueError, match="families it is applied to"):
        judge_sources(path, runs, Settings(resamples=100, seed=3))
    assert json.loads((runs[0] / "calibration.json").read_bytes())["mode"] == "scalar"
