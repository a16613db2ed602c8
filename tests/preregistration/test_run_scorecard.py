"""Runs under every decoding, and intervals of what hypotheses compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from evaluations import evaluate
from preregistration.checks import criteria
from run_frames import predictions, rows, write_run

from pact_eval import metrics
from pact_eval.calibration.temperatures import Calibrator, Weights, write_calibrator
from pact_eval.evaluation.arms.arm_metrics import MetricCell, MetricRow
from pact_eval.evaluation.comparison import GroupComparison, compare
from pact_eval.evaluation.items import ScoredItems
from pact_eval.evaluation.registry import SINGLE
from pact_eval.evaluation.settings import Settings
from pact_eval.preregistration.run_scorecard import RunDifferences, judge_sources
from pact_eval.preregistration.scorecard import HypothesisResult, WeightedRow
from pact_eval.stats.letter_preference import distinct_orders

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


def one_seed(metric: str, decoding: str) -> str:
    return criteria(metric, decoding=f'"{decoding}"', more="seeds = [1]")


def judged(tmp_path: Path, runs: list[Path], metric: str, decoding: str) -> tuple[float, ...]:
    """Returns the difference, its interval's value and ends."""
    path = tmp_path / "h.toml"
    path.write_text(one_seed(metric, decoding))
    result = judge_sources(path, runs, Settings(resamples=300, seed=3))
    (comparison,) = result.scorecard["H1"].checks[0].comparisons
    assert comparison.interval is not None
    interval = comparison.interval
    return comparison.difference, interval.value, interval.low, interval.high


@pytest.fixture(scope="module")
def compared() -> GroupComparison:
    """All items of both runs, as `compare` says."""
    a, b = (ScoredItems.of(predictions(s, skill=k), "single") for s, k in ((1, 1.5), (2, 0.5)))
    return compare(a, b, Settings(seed=3, resamples=100)).groups[0]


@pytest.mark.parametrize(
    ("metric", "n"),
    [
        ("accuracy", 60),
        ("ece", 60),
        *(
            pytest.param(metric, n, marks=pytest.mark.slow)
            for metric, n in (("pair_accuracy", 30), ("nll_nats", 60), ("score_mae", 20))
        ),
    ],
)
def test_intervals_are_those_of_a_comparison(
    tmp_path: Path, runs: list[Path], compared: GroupComparison, metric: str, n: int
) -> None:
    """The same ends, and the items, pairs or Score items that they rest on."""
    expected = compared.metrics[metric].difference
    text = one_seed(metric, "single")
    (comparison,) = result_on_runs(tmp_path, runs, text, 100).comparisons
    assert comparison.interval is not None
    assert comparison.interval.n == n
    np.testing.assert_allclose(
        [
            comparison.difference,
            comparison.interval.value,
            comparison.interval.low,
            comparison.interval.high,
        ],
        [expected.value, expected.value, expected.low, expected.high],
        atol=1e-12,
    )
    assert comparison.evidence is not None
    assert comparison.evidence.method == "interval"
    assert comparison.shown == (expected.low > 0 or expected.high < 0)


@pytest.mark.slow
def test_tv_under_a_calibrated_decoding_is_that_of_calibrated_views(
    tmp_path: Path, runs: list[Path]
) -> None:
    tv = []
    for seed, skill in ((1, 1.5), (2, 0.5)):
        run = predictions(seed, skill=skill)
        views = HOT.apply(run.log_probs_by_view, run)
        tv.append(metrics.pairwise_tv(views, distinct_orders(run.code_order)).mean())
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
    path.write_text(one_seed("ece", "single_calibrated"))
    result = judge_sources(path, runs, Settings(resamples=100, seed=3))
    assert result.scorecard.verdicts == {"H1": "UNTESTED"}
    reasons = result.scorecard["H1"].checks[0].reasons
    assert any("no single_calibrated numbers" in reason for reason in reasons)


def test_the_fit_of_a_calibrator_is_not_judged_on_its_own_families(
    tmp_path: Path, runs: list[Path]
) -> None:
    fitted = HOT.with_provenance(families=["f3"], source_families=["s3"])
    write_calibrator(runs[0] / "calibration.json", fitted)
    path = tmp_path / "h.toml"
    path.write_text(one_seed("ece", "single"))
    with pytest.raises(ValueError, match="families it is applied to"):
        judge_sources(path, runs, Settings(resamples=100, seed=3))
    assert json.loads((runs[0] / "calibration.json").read_bytes())["mode"] == "scalar"


def result_on_runs(
    tmp_path: Path, runs: list[Path], text: str, resamples: int = 300
) -> HypothesisResult:
    path = tmp_path / "h.toml"
    path.write_text(text)
    return judge_sources(path, runs, Settings(resamples=resamples, seed=3)).scorecard["H1"]


@pytest.mark.slow
def test_other_metrics_and_margins_are_decided_by_the_interval(
    tmp_path: Path, runs: list[Path]
) -> None:
    text = one_seed("nll_nats", "single").replace("higher", "lower")
    (comparison,) = result_on_runs(tmp_path, runs, text).comparisons
    assert comparison.evidence is not None
    assert comparison.interval is not None
    assert comparison.evidence.method == "interval"
    ends = (comparison.interval.low, comparison.interval.high)
    assert (comparison.evidence.low, comparison.evidence.high) == ends
    assert comparison.shown == (ends[1] < 0)
    text = one_seed("accuracy", "single")
    (with_margin,) = result_on_runs(tmp_path, runs, text + 'by_more_than = "1 point"\n').comparisons
    assert with_margin.evidence is not None
    assert with_margin.evidence.method == "interval"


@pytest.mark.parametrize("metric", ["accuracy", "pair_accuracy", "ece", "nll_nats", "score_mae"])
def test_a_number_alone_has_the_interval_of_the_report(metric: str) -> None:
    views, settings = predictions(1, skill=0.5, families=90), Settings(resamples=300, seed=3)
    differences = RunDifferences(settings.rng, 300)
    differences.add("a", 1, SINGLE, ScoredItems.of(views, "single"))
    row = MetricRow(MetricCell(metric, "a", SINGLE, "all"), 1, 0.0)
    report = evaluate(views, decoding="single", by="kind", rng=settings.rng(), resamples=300)
    expected = report.groups[0].estimates[metric]
    assert differences.interval((WeightedRow(1.0, row),), 0.95) == expected
    wider = differences.interval((WeightedRow(1.0, row),), 0.99)
    assert wider is not None
    assert wider.low < wider.value < wider.high


@pytest.mark.slow
def test_runs_of_different_k_are_compared_in_view_0_alone(tmp_path: Path) -> None:
    frame = rows(1, k=4)
    folders = [
        write_run(tmp_path / name, frame.filter(pl.col("view") < k), arm=name, seed=1)
        for name, k in (("a", 4), ("b", 2))
    ]
    (ensemble,) = result_on_runs(tmp_path, folders, one_seed("accuracy", "ensemble")).comparisons
    assert (ensemble.holds, ensemble.reason) == (
        None,
        "K differs: 4 and 2; score with the same --k",
    )
    (view_0,) = result_on_runs(tmp_path, folders, one_seed("accuracy", "single")).comparisons
    assert view_0.difference == 0.0


@pytest.mark.slow
def test_a_stricter_level_draws_the_resamples_that_it_needs(
    tmp_path: Path, runs: list[Path]
) -> None:
    """Of two checks a failure is judged at 97.5%: 20 resamples beyond each end are 1,600."""
    check = one_seed("brier", "single").split("[[hypothesis.check]]")[1]
    text = one_seed("nll_nats", "single") + "[[hypothesis.check]]"
    text += check
    result = result_on_runs(tmp_path, runs, text)
    assert result.verdict == "CONTRADICTED"
    for comparison in result.comparisons:
        assert comparison.evidence is not None
        assert comparison.interval is not None
        assert comparison.evidence.level == 0.025
        assert comparison.evidence.low < comparison.interval.low
        assert comparison.evidence.high > comparison.interval.high
