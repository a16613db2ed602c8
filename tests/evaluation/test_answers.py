"""The answers that commands give first, against the reports that hold the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from messages import assert_says
from run_frames import edit_run, rows, write_run
from statsmodels.stats.multitest import multipletests

from pact_eval._choices import Decoding
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.settings import Settings
from pact_reports.sentences.better import better_words

SETTINGS = Settings(resamples=200)


def experiment(home: Path, settings: Settings = SETTINGS, *, k: int = 3) -> Experiment:
    folders = [
        write_run(home / "a", rows(1, k=k, skill=2.0), arm="a", seed=1),
        write_run(home / "b", rows(2, k=k), arm="b", seed=1),
    ]
    return Experiment.read(folders, settings)


def pair(compared: Experiment) -> tuple[ExperimentRun, ExperimentRun]:
    a, b = compared.runs
    return a, b


@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_both_decodings_are_those_of_the_comparisons(tmp_path: Path, decoding: Decoding) -> None:
    compared = experiment(tmp_path, replace(SETTINGS, decoding=decoding))
    answer = compared.comparisons.answer(*pair(compared))
    assert [views_answer.k for views_answer in answer.by_views] == [1, 3]
    assert answer.chosen.decoding == decoding
    for views_answer in answer.by_views:
        views: Decoding = "single" if views_answer.k == 1 else "ensemble"
        chosen = Experiment(compared.runs, settings=replace(SETTINGS, decoding=views))
        group = chosen.comparisons.of(*pair(chosen)).groups[0]
        for metric in (views_answer.accuracy, views_answer.pair_accuracy):
            adjusted = group.metrics[metric.spec.name]
            assert metric.difference == adjusted.difference
            assert metric.evidence.p_value == adjusted.evidence.p_value
        assert views_answer.detectable == group.accuracy.detectable


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


def test_runs_of_one_view_have_one_answer(tmp_path: Path) -> None:
    compared = experiment(tmp_path, k=1)
    assert compared.comparisons.answer(*pair(compared)).other is None
    assert len(compared.rates(compared.runs[0])) == 1


def test_runs_of_different_k_are_compared_on_the_views_of_both(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / "a", rows(1, k=4), arm="a", seed=1),
        write_run(tmp_path / "b", rows(2, k=2), arm="b", seed=1),
    ]
    compared = Experiment.read(folders, SETTINGS)
    answer = compared.comparisons.answer(*pair(compared))
    assert [views_answer.k for views_answer in answer.by_views] == [1, 2]


def test_an_answer_says_what_is_shown_and_what_would_be_needed(tmp_path: Path) -> None:
    compared = experiment(tmp_path)
    a, b = pair(compared)
    better, same = compared.comparisons.better(a, b), compared.comparisons.better(a, a)
    assert better.status == "better"
    assert_says(better_words(better).finding, "a is more accurate", "than b (p ")
    worse = compared.comparisons.better(b, a)
    assert worse.status == "worse"
    assert_says(better_words(worse).finding, "b is less accurate", "than a")
    assert same.status == "not shown"
    text = better_words(same).numbers
    assert text.index("(view 0)") < text.index("(3 views)")
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
    assert [repr(one.claims) for one in of_arms] == [
        repr(one.claims) for one in comparisons.better_runs
    ]


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
        expected = same.comparisons.seeds("a", "b").differences["all"]
        for metric in ("accuracy", "pair_accuracy"):
            assert claims[metric, k].difference == expected[metric].tested
            assert claims[metric, k].evidence.p_value == expected[metric].evidence.p_value


def test_two_seeds_of_the_same_weights(tmp_path: Path) -> None:
    compared = experiment(tmp_path)
    folders = [run.folder for run in compared.runs]
    weights = {"adapter": {"sha256": "c" * 64}}
    for folder, seed in zip(folders, (17, 18), strict=True):
        edit_run(folder, settings=weights, arm="pact", seed=seed)
    (same,) = Experiment.read(folders, SETTINGS).same_weights
    assert same.seeds == (17, 18)
    assert (same.first, same.other) == tuple(map(str, folders))
    edit_run(folders[1], settings=weights, arm="other", seed=17)
    assert not Experiment.read(folders, SETTINGS).same_weights
