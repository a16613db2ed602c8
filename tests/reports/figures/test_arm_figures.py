"""Main comparison, sweep, ECE by kind and differences: what is drawn, against numpy."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from commands import runner
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from messages import assert_says
from reports.figures.drawn_axes import all_text, drawn, legend_texts, points
from reports.figures.figure_runs import experiment_of, rows, simulated
from run_frames import write_run
from scipy.stats import t

from pact_cli.main import main
from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.arms.cells import MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.figure_results import ece_by_kind, main_comparison, views_sweep
from pact_eval.evaluation.arms.group_differences import arm_differences, published_differences
from pact_eval.evaluation.decoding import SINGLE
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.report import evaluate_items
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.predictions import Predictions
from pact_eval.stats.proportions import rate_estimate
from pact_reports.figures.arms import (
    draw_differences,
    draw_ece_by_kind,
    draw_means,
    draw_sweep,
)
from pact_reports.figures.files import draw_figures
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import PAPER, Looks


def test_main_comparison_against_numpy(experiment: Experiment, looks: Looks) -> None:
    accuracy, pairs, ece, tv = main_comparison(experiment)
    runs = experiment.arms["pact"]
    right = [run.scored().correct for run in runs]
    values = [correct.mean() for correct in right]
    bar = accuracy.arms[0]
    np.testing.assert_allclose(bar.values, values)
    assert bar.mean == pytest.approx(np.mean(values))
    # Wilson's interval of the rate of all rows, with the design effect of families.
    by_family = np.sum(right, axis=0).reshape(-1, 2).sum(axis=1)
    wilson = rate_estimate(by_family, np.full(24, 4))
    np.testing.assert_allclose([bar.low, bar.high], [wilson.low, wilson.high])
    spread = t.ppf(0.975, 23) * (by_family / 4).std(ddof=1) / math.sqrt(24)
    assert bar.high - bar.low == pytest.approx(2 * spread, rel=0.3)
    both = [correct.reshape(-1, 2).all(axis=1).mean() for correct in right]
    np.testing.assert_allclose(pairs.arms[0].values, both)
    after = [run.scored(calibrated=True) for run in runs]
    expected = np.mean([metrics.ece(scored.confidence, scored.correct) for scored in after])
    assert ece.arms[0].calibrated is not None
    assert ece.arms[0].calibrated.mean == pytest.approx(expected)
    base = ece.arms[2]
    assert 0 <= base.low <= base.high
    np.testing.assert_allclose(tv.arms[0].values, [run.scored().view_tv.mean() for run in runs])


def test_a_single_run_has_an_interval_over_families(experiment: Experiment, looks: Looks) -> None:
    accuracy, *_ = main_comparison(experiment)
    base = accuracy.arms[2]
    assert (base.arm, base.seeds, base.calibrated) == ("base", (None,), None)
    assert base.low < base.mean < base.high


def test_main_draws_dots_with_one_kind_of_interval(experiment: Experiment, looks: Looks) -> None:
    ece = main_comparison(experiment)[2]
    ax = drawn(partial(draw_means, ece, looks=looks))
    assert not ax.patches
    seen = np.concatenate([dots.get_offsets() for dots in _dots(ax)])[:, 0]
    ends = _whisker_ends(ax, axis=0)
    for arm in ece.arms:
        for value in (*arm.values, arm.mean, *((arm.calibrated.mean,) if arm.calibrated else ())):
            assert np.isclose(seen, 100 * value).any()
    # A run with fewer than five families with an error has no interval, nor has its arm.
    means = [mean for arm in ece.arms for mean in (arm, arm.calibrated) if mean is not None]
    intervals = [(mean.low, mean.high) for mean in means if not math.isnan(mean.low)]
    assert len(intervals) == len(ends) >= 1
    for interval in intervals:
        assert any(np.allclose(end, interval) for end in ends)
    assert ax.get_xlabel() == "ECE (%) ↓"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["pact", "other", "base"]
    assert legend_texts(ax) == ["mean over seeds", "95% over families", "one seed", "after T(x)"]
    file = FIGURES["main"].build(experiment, looks).files[0]
    assert file.basis == "n = 48 items, 24 families"


def test_the_legend_describes_only_what_is_drawn(tmp_path: Path) -> None:
    """One run per arm, without a calibrator: no seeds, and nothing after T(x)."""
    folders = [
        write_run(tmp_path / arm, rows(1, families=6), arm=arm, seed=1) for arm in ("a", "b")
    ]
    experiment = experiment_of(folders)
    for result in main_comparison(experiment):
        ax = drawn(partial(draw_means, result, looks=Looks.of(experiment)))
        assert legend_texts(ax) == ["95% over families"]
    (file,) = FIGURES["differences"].build(experiment, Looks.of(experiment)).files
    assert legend_texts(drawn(file.panels[0])) == [
        "difference, not shown",
        "95% over families",
    ]
    assert "same sign" not in file.note


def _dots(ax: Axes) -> list[PathCollection]:
    return [collection for collection in ax.collections if isinstance(collection, PathCollection)]


def _whisker_ends(ax: Axes, axis: int) -> list[npt.NDArray[np.float64]]:
    return [
        np.asarray(segment)[:, axis] / 100
        for lines in ax.collections
        if isinstance(lines, LineCollection)
        for segment in lines.get_segments()
    ]


def one_order(frame: pl.DataFrame, where: pl.Expr) -> pl.DataFrame:
    """Repeats view 0 in these rows, as a run of a server that letters answers itself does."""
    shown = ("code_order", "logits")
    return frame.with_columns(
        pl.when(where).then(pl.col(name).first().over("id")).otherwise(name).alias(name)
        for name in shown
    )


FRAMES = {
    "every item in every order": rows(1, families=12),
    "booleans in one order": one_order(rows(1, families=12), pl.col("kind") == "boolean"),
    "two orders from view 2 on": one_order(rows(1, families=12), pl.col("view") < 2),
    "one order": one_order(rows(1, families=12), pl.lit(value=True)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_figure_and_the_command_have_the_same_sweep(name: str, tmp_path: Path) -> None:
    frame = FRAMES[name]
    folder = write_run(tmp_path / "run", frame, arm="a", seed=1)
    done = runner(main)("report", "--views", folder, "--resamples", 200, "--json")
    printed = {
        (metric, point["k"]): [
            point["group"]["estimates"][metric][end] for end in ("value", "low", "high")
        ]
        for point in json.loads(done.stdout)["points"]
        for metric in ("accuracy", "view_tv")
        if point["group"]["estimates"][metric]["value"] is not None
    }
    results = views_sweep(experiment_of([folder]))
    drawn_points = {
        (sweep.spec.name, k): [mean.mean, mean.low, mean.high]
        for sweep in results
        for arm in sweep.arms
        for k, mean in zip(arm.views, arm.means, strict=True)
    }
    assert drawn_points.keys() == printed.keys()
    for point, values in printed.items():
        np.testing.assert_allclose(drawn_points[point], values, rtol=0, atol=1e-12)
    views_of_tv = {
        "every item in every order": [2, 3, 4],
        "booleans in one order": [2, 3, 4],
        "two orders from view 2 on": [3, 4],
        "one order": [],
    }
    assert [k for metric, k in printed if metric == "view_tv"] == views_of_tv[name]
    everything = Predictions.from_frame(frame)
    first = np.array(
        [
            [order not in item[:at] for at, order in enumerate(item)]
            for item in everything.code_order.tolist()
        ]
    )
    tv = metrics.pairwise_tv(everything.log_probs_by_view, first)
    counted = np.ones(len(tv), dtype=bool)
    if name == "booleans in one order":
        counted = everything.kind != "boolean"
    if name != "one order":
        assert printed["view_tv", 4][0] == pytest.approx(tv[counted].mean(), abs=1e-12)


def test_a_run_in_one_order_has_no_panel_of_view_tv(tmp_path: Path) -> None:
    experiment = experiment_of([write_run(tmp_path / "run", FRAMES["one order"], arm="a", seed=1)])
    (file,) = FIGURES["views"].build(experiment, Looks.of(experiment)).files
    assert "number of views K" in file.title
    (panel,) = file.panels
    assert drawn(panel).get_ylabel() == "Accuracy (%)"


def test_the_sweep_and_the_figure_have_the_units_of_the_experiment(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", FRAMES["booleans in one order"], arm="a", seed=1)
    settings = Settings(resamples=200, unit="source_family")
    experiment = Experiment.read([folder], settings)
    (run,) = experiment.runs
    full = evaluate_items(
        run.scored("ensemble").over("source_family"),
        by="kind",
        rng=settings.rng(),
        resamples=settings.resamples,
    )
    last = experiment.sweep(run)[-1].group
    assert last.clusters == 6
    for result in views_sweep(experiment):
        expected = full.groups[0].estimates[result.spec.name]
        assert last.estimates[result.spec.name] == expected
        mean = result.arms[0].means[-1]
        np.testing.assert_allclose(
            [mean.mean, mean.low, mean.high], [expected.value, expected.low, expected.high]
        )


def test_the_sweep_of_an_arm_is_the_mean_over_its_seeds(experiment: Experiment) -> None:
    for result in views_sweep(experiment):
        arm = result.arms[0]
        by_run = [experiment.sweep(run) for run in experiment.arms[arm.arm]]
        for k, mean in zip(arm.views, arm.means, strict=True):
            values = [points[k - 1].group.estimates[result.spec.name].value for points in by_run]
            np.testing.assert_allclose(mean.values, values, rtol=0, atol=1e-12)
            assert mean.mean == pytest.approx(np.mean(values), abs=1e-12)
    accuracy, tv = views_sweep(experiment)
    assert accuracy.arms[0].views == (1, 2, 3, 4)
    assert tv.arms[0].views == (2, 3, 4)


def test_sweep_is_drawn_with_whiskers(experiment: Experiment, looks: Looks) -> None:
    accuracy, tv = views_sweep(experiment)
    ax = drawn(partial(draw_sweep, tv, looks=looks))
    marks = ["mean over seeds", "95% over families", "one seed"]
    assert legend_texts(ax) == ["pact", "other", "base", *marks]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Views K", "View TV (%)")
    assert list(ax.get_xticks()) == [1, 2, 3, 4]
    line = ax.containers[0][0]
    np.testing.assert_allclose(points(line)[1], [100 * mean.mean for mean in tv.arms[0].means])
    above = drawn(partial(draw_sweep, accuracy, looks=looks))
    assert "n = 48 items, 24 families" in all_text(above)
    first = main_comparison(experiment)
    for result, everything in ((accuracy, first[0]), (tv, first[3])):
        ensemble = result.arms[0].means[0 if result is accuracy else -1]
        assert (ensemble.low, ensemble.high) == pytest.approx(
            (everything.arms[0].low, everything.arms[0].high)
        )


def test_ece_by_kind_against_the_metric(experiment: Experiment, looks: Looks) -> None:
    result = ece_by_kind(experiment)
    assert list(result.kinds) == ["all", "choice", "boolean", "score"]
    runs = experiment.arms["other"]
    kind = runs[0].predictions.kind == "score"
    values = [metrics.ece(r.scored().confidence[kind], r.scored().correct[kind]) for r in runs]
    items, entries = result.kinds["score"]
    assert items == kind.sum()
    np.testing.assert_allclose(entries[1].values, values)
    everything = result.kinds["all"][1][2]
    assert 0 <= everything.low <= everything.high <= 1
    ax = drawn(partial(draw_ece_by_kind, result, looks=looks))
    assert [label.get_text() for label in ax.get_xticklabels()][3] == f"score\nn = {items}"
    bars = [patch.get_height() for patch in ax.patches if isinstance(patch, Rectangle)]
    assert np.isclose(bars, 100 * np.mean(values)).any()
    chance = entries[1].chance
    assert chance is not None
    assert np.isclose(_whisker_ends(ax, 1), chance.floor).all(axis=1).any()
    assert legend_texts(ax)[:3] == ["pact", "other", "base"]


@pytest.mark.slow
def test_differences_against_numpy(experiment: Experiment, looks: Looks) -> None:
    result = arm_differences(experiment, "pact", "other")
    arms = experiment.arms
    lead = np.array(
        [
            a.scored().correct.astype(float) - b.scored().correct
            for a, b in zip(arms["pact"], arms["other"], strict=True)
        ]
    )
    travel = result.groups[-1]
    where = arms["pact"][0].predictions.domain == "travel"
    assert (travel.by, travel.name, travel.items) == ("domain", "travel", where.sum())
    np.testing.assert_allclose(travel.values, lead[:, where].mean(axis=1))
    assert travel.mean.value == pytest.approx(lead[:, where].mean())
    assert travel.mean.low <= travel.mean.value <= travel.mean.high
    assert [group.by for group in result.groups] == ["all", *["kind"] * 3, *["domain"] * 4]
    assert result.seeds == (17, 18)


@pytest.mark.slow
def test_differences_are_drawn_with_same_sign_marks(experiment: Experiment, looks: Looks) -> None:
    result = arm_differences(experiment, "pact", "base")
    everything = result.groups[0]
    assert all(value > 0 for value in everything.values)
    ax = drawn(partial(draw_differences, result, looks=looks))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "* all (48)"
    for label, group in zip(labels, result.groups, strict=True):
        signs = {np.sign(value) for value in group.values}
        assert label.startswith("* ") == (len(signs) == 1 and signs != {0.0})
    seen = np.concatenate([dots.get_offsets() for dots in _dots(ax)])[:, 0]
    for group in result.groups:
        for value in (group.mean.value, *group.values):
            assert np.isclose(seen, 100 * value).any()
    assert ax.get_xlabel() == "Difference in accuracy (points)"
    assert "pact − base" in all_text(ax)
    assert {"← base better", "pact better →"} <= set(all_text(ax).splitlines())
    drawn_marks = {group.shown for group in result.groups}
    words = [
        word for shown, word in ((True, "shown"), (False, "not shown")) if shown in drawn_marks
    ]
    assert legend_texts(ax) == [
        *(f"mean over seeds, {word}" for word in words),
        "95% over families",
        "one seed",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("other", ["base", "other"])
def test_filled_means_shown(experiment: Experiment, looks: Looks, other: str) -> None:
    """As on the page: a mark is filled if and only if the interval drawn with it excludes 0."""
    result = arm_differences(experiment, "pact", other)
    ax = drawn(partial(draw_differences, result, looks=looks))
    filled = {}
    for dots in _dots(ax):
        places, faces = np.asarray(dots.get_offsets()), np.asarray(dots.get_facecolor())
        if len(places) == 1:  # a mean; seeds are drawn together
            filled[round(places[0, 1])] = faces[0].tolist() != list(to_rgba(PAPER))
    assert filled == {at: group.mean.excludes_zero for at, group in enumerate(result.groups)}
    assert filled == {at: group.shown for at, group in enumerate(result.groups)}


def test_arms_without_a_common_seed_are_not_compared(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / arm, rows(seed, families=6), arm=arm, seed=seed)
        for arm, seed in (("pact", 1), ("other", 2))
    ]
    both, one = experiment_of(runs), experiment_of(runs[:1])
    built = FIGURES["differences"].build(both, Looks.of(both))
    assert built.files == ()
    (reason,) = built.missing
    assert_says(reason, "pact and other", "no seed in common")
    with pytest.raises(ValueError, match="one arm only"):
        FIGURES["differences"].build(one, Looks.of(one))


def test_no_runs_are_a_reason(tmp_path: Path) -> None:
    empty = simulated(tmp_path, arms=(), base=False)
    for name, spec in FIGURES.items():
        out = draw_figures(empty, [name], tmp_path / "out")
        assert out.files == {}
        assert out.skipped[name], spec.title


def test_intervals_are_those_of_the_report(experiment: Experiment) -> None:
    base = experiment.runs[-1]
    everything = experiment.evaluation(base).groups[0]
    for metric in main_comparison(experiment):
        expected = everything.estimates[metric.spec.name]
        assert (metric.arms[-1].low, metric.arms[-1].high) == (expected.low, expected.high)


@pytest.mark.slow
def test_differences_are_those_of_the_comparison(experiment: Experiment) -> None:
    result = arm_differences(experiment, "pact", "base")
    for seed, pact in zip((0, 1), experiment.arms["pact"], strict=True):
        compared = experiment.comparisons.of(pact, experiment.runs[-1])
        for group, drawn_group in zip(compared.groups, result.groups, strict=False):
            assert drawn_group.values[seed] == group.metrics["accuracy"].difference.value


def test_differences_of_published_metrics_by_hand() -> None:
    """Accuracies by seed of two arms in all items, a kind and two domains, one of one arm."""
    accuracy = {
        ("pact", "all"): (0.75, 0.5),
        ("ce", "all"): (0.5, 0.75),
        ("pact", "score"): (0.75, 0.75),
        ("ce", "score"): (0.5, 0.625),
        ("pact", "travel"): (0.25, 0.25),
        ("ce", "travel"): (0.5, 0.25),
        ("pact", "media"): (0.5, 0.5),
    }
    table = MetricTable(
        MetricRow(MetricCell("accuracy", arm, SINGLE, group), seed, value, 8)
        for (arm, group), values in accuracy.items()
        for seed, value in zip((17, 18), values, strict=True)
    )
    numbers = ArmMetrics(table)
    (result,) = published_differences(numbers, "pact")
    assert (result.a, result.b, result.seeds, result.families) == ("pact", "ce", (17, 18), None)
    assert [(group.by, group.name, group.values) for group in result.groups] == [
        ("all", "all", (0.25, -0.25)),
        ("kind", "score", (0.25, 0.125)),
        ("domain", "travel", (-0.25, 0.0)),
    ]
    assert [group.mean.value for group in result.groups] == [0, 0.1875, -0.125]
    assert [group.sign.same for group in result.groups] == [False, True, False]
    looks = Looks.of_published(numbers)
    (file,) = FIGURES["differences"].published(numbers, Settings(method="pact"), looks).files
    assert_says(file.note, "* same sign", "published values without intervals")
    ax = drawn(file.panels[0])
    assert legend_texts(ax) == ["mean over seeds", "one seed"]
    (reverse,) = published_differences(numbers, "ce")
    assert [group.mean.value for group in reverse.groups] == [0, -0.1875, 0.125]
    with pytest.raises(InputError, match="no other arm has a seed in common with pact"):
        published_differences(ArmMetrics(MetricTable(table.rows[:2])), "pact")
