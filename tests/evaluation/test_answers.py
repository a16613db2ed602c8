"""The answers that commands give first, against the reports that hold the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from messages import assert_says
from run_frames import edit_rows, rows, write_run
from statsmodels.stats.multitest import multipletests

from pact_eval._choices import Decoding
from pact_eval._typing import BoolArray, IntArray
from pact_eval.evaluation.conclusions.better import (
    BetterConclusion,
    Claim,
    adjusted_together,
)
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.resampled_groups import Evidence
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.rate_differences import paired_rates

SETTINGS = Settings(resamples=50)


def experiment(home: Path, settings: Settings = SETTINGS, *, k: int = 3) -> Experiment:
    folders = [
        write_run(home / "a", rows(1, k=k, skill=2.0), arm="a", seed=1),
        write_run(home / "b", rows(2, k=k), arm="b", seed=1),
    ]
    return Experiment.read(folders, settings)


def better(*runs: ExperimentRun) -> BetterConclusion:
    """Whether the first of two runs is better than the second."""
    return Experiment(runs, settings=SETTINGS).comparisons.better_runs[0]


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_both_decodings_are_those_of_the_comparisons(tmp_path: Path, decoding: Decoding) -> None:
    compared = experiment(tmp_path, replace(SETTINGS, decoding=decoding))
    conclusion = compared.comparisons.better_runs[0]
    assert [claim.k for claim in conclusion.of("accuracy")] == [1, 3]
    assert conclusion.claims[0].decoding == decoding
    for claim in (*conclusion.of("accuracy"), *conclusion.of("pair_accuracy")):
        views: Decoding = "single" if claim.k == 1 else "ensemble"
        chosen = Experiment(compared.runs, settings=replace(SETTINGS, decoding=views))
        group = chosen.comparisons.of_first[0].groups[0]
        assert claim.difference == group.metrics[claim.metric].difference
        assert claim.evidence.p_value == group.metrics[claim.metric].evidence.p_value
        if views == decoding:
            assert conclusion.detectable == group.accuracy.detectable


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_rates_are_those_of_the_reports(tmp_path: Path, decoding: Decoding) -> None:
    compared = experiment(tmp_path, replace(SETTINGS, decoding=decoding))
    run = compared.runs[0]
    rates = compared.rates(run)
    assert [rates_of_views.k for rates_of_views in rates] == [1, 3]
    for rates_of_views in rates:
        views: Decoding = "single" if rates_of_views.k == 1 else "ensemble"
        assert rates_of_views.decoding == views
        estimates = compared.evaluation(run, views, calibrated=False).groups[0].estimates
        assert rates_of_views.accuracy == estimates["accuracy"]
        assert rates_of_views.pair_accuracy == estimates["pair_accuracy"]


def test_runs_of_different_k_are_compared_on_the_views_of_both(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "a", rows(1, k=4), arm="a", seed=1),
        write_run(tmp_path / "b", rows(2, k=2), arm="b", seed=1),
    ]
    compared = Experiment.read(folders, SETTINGS)
    conclusion = compared.comparisons.better_runs[0]
    assert [claim.k for claim in conclusion.of("accuracy")] == [1, 2]


def test_an_answer_says_what_is_shown_and_what_would_be_needed(tmp_path: Path) -> None:
    compared = experiment(tmp_path)
    a, b = compared.runs
    ahead, same, worse = better(a, b), better(a, a), better(b, a)
    assert ahead.status == "better"
    assert_says(ahead.words.finding, "a is more accurate", "than b (p ")
    assert worse.status == "worse"
    assert_says(worse.words.finding, "b is less accurate", "than a")
    assert same.status == "not shown"
    text = same.words.numbers
    assert text.index("(first order)") < text.index("(3 orders)")
    assert "2 points would need" in text


def test_what_one_line_may_name_is_adjusted_by_holm_over_runs_and_decodings(tmp_path: Path) -> None:
    """Against statsmodels: three other runs at view 0 and over 3 views are six tests."""
    folders = [
        write_run(tmp_path / name, rows(seed, skill=1 + seed / 4), arm=name, seed=1)
        for seed, name in enumerate("dabc")
    ]
    comparisons = Experiment.read(folders, SETTINGS).comparisons
    for metric in ("accuracy", "pair_accuracy"):
        claims = [claim for one in comparisons.better_runs for claim in one.of(metric)]
        raw = [claim.evidence.p_value for claim in claims]
        together = multipletests(raw, method="holm")[1]
        assert [claim.evidence.adjusted_p_value for claim in claims] == pytest.approx(
            list(together)
        )
        assert [claim.shown for claim in claims] == [p <= 0.05 for p in together]
        assert {claim.evidence.tests for claim in claims} == {6}
    for comparison, conclusion in zip(comparisons.of_first, comparisons.better_runs, strict=True):
        accuracy = comparison.groups[0].metrics["accuracy"]
        assert accuracy.evidence == conclusion.claims[0].evidence, "the table has the same mark"
    of_arms = comparisons.better_than("d").values()
    assert [repr(vars(one)) for one in of_arms] == [
        repr(vars(one)) for one in comparisons.better_runs
    ], "two runs are two arms with one seed"
    for pair, comparison in zip(comparisons.of_arms.pairs, comparisons.of_first, strict=True):
        ((seed, of_seed),) = pair.seeds.items()
        assert seed == 1
        for group, of_group in zip(comparison.groups, of_seed.groups, strict=True):
            over_seeds = pair.differences[group.name]
            for name, of_two in group.metrics.items():
                same = [of_two, of_group.metrics[name], over_seeds[name]]
                assert len({repr((one.a, one.b, one.difference)) for one in same}) == 1, name
                assert repr(over_seeds[name].evidence) == repr(of_two.evidence)


@pytest.mark.slow
def test_five_harmless_runs_are_rarely_told_apart() -> None:
    """120 draws of 5 exchangeable runs, two correlated decodings: each test alone names 23%.

    At 5%, more than 12 of 120 are named in 1% of such tests.
    """
    named = 0
    family = np.repeat(np.arange(80), 2)
    for seed in range(120):
        rng = np.random.default_rng([53, seed])
        hard = rng.normal(size=160) + rng.normal(size=80)[family]
        noise = rng.normal(size=(5, 160))
        right = [noise + 0.7 * rng.normal(size=(5, 160)) + hard > -1 for _ in range(2)]
        claims = [_claim_of(views[0], views[run], family) for views in right for run in range(1, 5)]
        named += any(claim.shown for claim in adjusted_together(claims))
    assert named <= 12


def _claim_of(first: BoolArray, other: BoolArray, family: IntArray) -> Claim:
    rates = paired_rates(first.astype(int) - other, family, 80)
    test = Evidence("interval", rates.p_value(), marked=rates.estimate().excludes_zero)
    return Claim("accuracy", "single", 1, 1, rates.estimate(), test)


def test_a_difference_of_answer_mass_is_told(tmp_path: Path) -> None:
    """A model that hardly says a letter, next to one that does: 0.008% and 98.8%."""
    folders = [write_run(tmp_path / name, rows(seed)) for seed, name in enumerate("abc")]
    for folder, mass in zip(folders, (0.00008, 0.988, None), strict=True):
        value = pl.lit(mass).cast(pl.Float64) * (1 - 0.001 * pl.col("prompt_tokens"))
        edit_rows(folder, value.cast(pl.Float32).alias("answer_mass"))
    comparisons = Experiment.read(folders, SETTINGS).comparisons
    with_mass, without = (one.by_metric.get("answer_mass") for one in comparisons.better_runs)
    assert without is None, "the third run records none"
    assert with_mass is not None
    assert with_mass.status == "worse"
    assert with_mass.difference.value == pytest.approx((0.00008 - 0.988) * 0.7855, rel=1e-3)


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_over_seeds_a_conclusion_has_the_mean_of_both_decodings(
    tmp_path: Path, decoding: Decoding
) -> None:
    folders = [
        write_run(tmp_path / f"{arm}{seed}", rows(at + seed, k=3), arm=arm, seed=seed)
        for at, arm in enumerate("ab")
        for seed in (1, 5)
    ]
    compared = Experiment.read(folders, replace(SETTINGS, decoding=decoding))
    conclusion = compared.comparisons.better_than("a")["b"]
    assert repr(conclusion.claims) == repr(compared.comparisons.better_arms[0].claims)
    claims = {(claim.metric, claim.k): claim for claim in conclusion.claims}
    assert conclusion.claims[0].k == {"single": 1, "ensemble": 3}[decoding]
    assert conclusion.seeds == 2
    views: dict[Decoding, int] = {"single": 1, "ensemble": 3}
    for other, k in views.items():
        same = Experiment.read(folders, replace(SETTINGS, decoding=other))
        expected = same.comparisons.of_arms.pairs[0].differences["all"]
        for metric in ("accuracy", "pair_accuracy"):
            assert claims[metric, k].difference == expected[metric].tested
            assert claims[metric, k].evidence.p_value == expected[metric].evidence.p_value
