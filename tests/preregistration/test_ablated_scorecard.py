"""Hypotheses about ablated contexts, judged on run folders."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from interval_oracles import outer_interval
from messages import assert_says
from preregistration.checks import criteria
from run_frames import ablated_predictions, ablated_rows, edit_run, predictions, rows, write_run

from pact_eval import metrics
from pact_eval._files import sha256_of_file
from pact_eval.calibration.temperatures import Calibrator, Weights, write_calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.registration import Registration, register
from pact_eval.preregistration.run_scorecard import JudgedHypotheses, judge_sources
from pact_fixtures.paper import HYPOTHESES

FLAT = Calibrator("scalar", Weights(bias=(3.0, 0.0, 0.0)))


def both_runs(folder: Path, arm: str, seed: int, lean: float) -> list[Path]:
    """Writes the run on whole contexts and that on ablated ones, of one arm."""
    return [
        write_run(folder / arm, rows(seed), arm=arm, seed=17),
        write_run(folder / f"{arm}-ablated", ablated_rows(seed, lean=lean), arm=arm, seed=17),
    ]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [*both_runs(tmp_path, "no_nr", 1, 3.0), *both_runs(tmp_path, "pact_full", 2, 0.5)]


def judged(
    tmp_path: Path,
    runs: list[Path],
    metric: str,
    *,
    decoding: str = '"single"',
    group: str = "all",
    than: str = '{ arm = "pact_full" }',
) -> JudgedHypotheses:
    path = tmp_path / "h.toml"
    more = f'group = "{group}"\nseeds = [17]'
    path.write_text(criteria(metric, than, arm="no_nr", decoding=decoding, more=more))
    return judge_sources(path, runs, Settings(resamples=300, seed=3))


@pytest.mark.slow
def test_h3_of_the_paper_is_fully_tested_from_run_folders(tmp_path: Path, runs: list[Path]) -> None:
    criteria = HYPOTHESES
    result = judge_sources(criteria, runs, Settings(resamples=300, seed=3))
    h3 = result.scorecard["H3"]
    assert len(h3.checks) == 2
    assert all(
        comparison.holds is not None for check in h3.checks for comparison in check.comparisons
    )
    (confidence,) = h3.checks[0].comparisons
    expected = [
        metrics.confidence(ablated_predictions(seed, lean=lean).log_probs("single")).mean()
        for seed, lean in ((1, 3.0), (2, 0.5))
    ]
    assert confidence.holds
    assert confidence.left.value == pytest.approx(expected[0])
    assert confidence.right.value == pytest.approx(expected[1])
    alone = judge_sources(criteria, [runs[0], runs[2]], Settings(resamples=300, seed=3))
    reasons = alone.scorecard["H3"].checks[0].reasons
    assert_says(" ".join(reasons), "no ablated_confidence", "no_nr seed 17", "(single, all)")


@pytest.mark.parametrize(
    ("metric", "group"), [("ablated_confidence", "all"), ("ablated_gap", "choice")]
)
def test_differences_and_intervals_against_numpy(
    tmp_path: Path, runs: list[Path], metric: str, group: str
) -> None:
    values = []
    for seed, lean in ((1, 3.0), (2, 0.5)):
        items = ScoredItems.of(ablated_predictions(seed, lean=lean), "single")
        values.append(items.confidence if metric == "ablated_confidence" else items.values[metric])
    contexts = ablated_predictions(1)
    of_group = np.flatnonzero((contexts.kind == group) | (group == "all"))
    in_order = of_group[np.argsort(contexts.family[of_group])]
    difference = (values[0] - values[1])[in_order]
    n = len(difference)
    expected = outer_interval(difference)
    result = judged(tmp_path, runs, metric, group=group)
    (comparison,) = result.scorecard["H1"].checks[0].comparisons
    assert comparison.difference == pytest.approx(difference.mean())
    assert comparison.interval is not None
    np.testing.assert_allclose([comparison.interval.low, comparison.interval.high], expected)
    assert comparison.interval.clusters == n


def test_a_calibrator_of_its_own_families_is_refused(tmp_path: Path, runs: list[Path]) -> None:
    fitted = FLAT.with_provenance(families=["f3"], source_families=["s3"])
    write_calibrator(runs[1] / "calibration.json", fitted)
    with pytest.raises(InputError, match="families it is applied to"):
        judged(tmp_path, runs, "ablated_gap")


@pytest.mark.slow
def test_ablated_runs_are_aligned_among_themselves_only(tmp_path: Path, runs: list[Path]) -> None:
    shuffled = ablated_rows(2, lean=0.5).sort("id", descending=True, maintain_order=True)
    runs[3] = write_run(tmp_path / "shuffled", shuffled, arm="pact_full", seed=17)
    straight = judged(tmp_path, [runs[3], runs[1]], "ablated_gap").scorecard["H1"]
    again = judged(tmp_path, runs, "ablated_gap").scorecard["H1"]
    one, other = (hypothesis.checks[0].comparisons[0].interval for hypothesis in (straight, again))
    assert one is not None
    assert one == other
    fewer = ablated_rows(2, families=29)
    runs[3] = write_run(tmp_path / "fewer", fewer, arm="pact_full", seed=17)
    with pytest.raises(InputError, match=r"1 item only in .*no_nr-ablated"):
        judged(tmp_path, runs, "ablated_gap")
    swapped = ablated_rows(2).with_columns(pl.col("answers").list.reverse())
    runs[3] = write_run(tmp_path / "swapped", swapped, arm="pact_full", seed=17)
    with pytest.raises(InputError, match="answers for 30 items"):
        judged(tmp_path, runs, "ablated_gap")


def test_whole_and_ablated_contexts_are_drawn_together(tmp_path: Path, runs: list[Path]) -> None:
    """A pair and its ablated context move together; the interval is that of their differences."""
    result = judged(tmp_path, runs, "ablated_confidence", than='{ metric = "accuracy" }')
    (comparison,) = result.scorecard["H1"].checks[0].comparisons
    ablated = ScoredItems.of(ablated_predictions(1, lean=3.0), "single")
    whole = ScoredItems.of(predictions(1), "single")
    families = np.unique(whole.predictions.family)
    difference = [
        ablated.confidence[ablated.predictions.family == family].mean()
        - whole.correct[whole.predictions.family == family].mean()
        for family in families
    ]
    expected = outer_interval(np.array(difference))
    assert comparison.interval is not None
    assert comparison.interval.value == pytest.approx(comparison.difference)
    np.testing.assert_allclose([comparison.interval.low, comparison.interval.high], expected)


def registration(tmp_path: Path, runs: list[Path], data: list[Path]) -> Registration:
    """Registers on some files; whole contexts were scored on the first, ablated ones on another."""
    path = tmp_path / "h.toml"
    path.write_text(
        criteria("ablated_gap", '{ arm = "pact_full" }', arm="no_nr", more="seeds = [17]")
    )
    register(path, data=data, now=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    files = [tmp_path / "holdout.jsonl", tmp_path / "ablated.jsonl"]
    for number, folder in enumerate(runs):
        scored = {"data": {"sha256": sha256_of_file(files[number % 2])}}
        edit_run(folder, source="score", settings=scored)
    return judge_sources(path, runs, Settings(resamples=100, seed=3)).registration


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "holdout.jsonl", tmp_path / "ablated.jsonl"]
    for path in paths:
        path.write_text(path.name)
    return paths


@pytest.mark.slow
def test_a_registered_ablated_file_is_fine(
    tmp_path: Path, runs: list[Path], files: list[Path]
) -> None:
    assert registration(tmp_path, runs, files).status == "REGISTERED BEFORE THE RUNS"


def test_an_ablated_file_that_was_not_registered_is_told(
    tmp_path: Path, runs: list[Path], files: list[Path]
) -> None:
    status = registration(tmp_path, runs, files[:1])
    assert status.status == "TAMPERED"
    assert len(status.reasons) == 2
    scored, registered = (sha256_of_file(path)[:12] for path in files[::-1])
    place, expected = "no_nr seed 17 on ablated contexts", f"registered: holdout.jsonl {registered}"
    assert_says(status.reasons[0], place, f"data {scored}", expected, "`register --data`")
