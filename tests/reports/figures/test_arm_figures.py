"""Main comparison, sweep, ECE by kind and differences: what is drawn, against numpy."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from messages import assert_says
from reports.figures.drawn_axes import drawn, legend_texts
from reports.figures.figure_runs import experiment_of, rows
from run_frames import write_run
from scipy.stats import t

from pact_eval import metrics
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics, MetricCell, MetricRow, MetricTable
from pact_eval.evaluation.arms.figure_results import arm_differences, main_comparison
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.registry import SINGLE
from pact_eval.evaluation.settings import Settings
from pact_eval.stats.rates import rate_estimate
from pact_reports.figures.arms import (
    draw_differences,
)
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import PAPER, Looks
from pact_reports.request import Request


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
    distances = np.array([run.scored().values["view_tv"].mean() for run in runs])
    np.testing.assert_allclose(np.array(tv.arms[0].values), distances)


def _dots(ax: Axes) -> list[PathCollection]:
    return [collection for collection in ax.collections if isinstance(collection, PathCollection)]


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
    built = FIGURES["differences"].build(Request(both))
    assert built.files == ()
    (reason,) = built.missing
    assert_says(reason, "pact and other", "no seed in common")
    with pytest.raises(ValueError, match="one arm only"):
        FIGURES["differences"].build(Request(one))


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
    result = arm_differences(numbers, "pact", "ce")
    assert (result.a, result.b, result.seeds, result.families) == ("pact", "ce", (17, 18), None)
    assert [(group.by, group.name, group.values) for group in result.groups] == [
        ("all", "all", (0.25, -0.25)),
        ("kind", "score", (0.25, 0.125)),
        ("domain", "travel", (-0.25, 0.0)),
    ]
    assert [group.mean.value for group in result.groups] == [0, 0.1875, -0.125]
    assert [group.sign.same for group in result.groups] == [False, True, False]
    empty = Experiment((), settings=Settings(method="pact"))
    (file,) = FIGURES["differences"].build(Request(empty, published=numbers)).files
    assert_says(file.note, "* same sign", "published values without intervals")
    ax = drawn(file.panels[0])
    assert legend_texts(ax) == ["mean over seeds", "one seed"]
    reverse = arm_differences(numbers, "ce", "pact")
    assert [group.mean.value for group in reverse.groups] == [0, -0.1875, 0.125]
    alone = ArmMetrics(MetricTable(table.rows[:2]))
    with pytest.raises(InputError, match="one arm only"):
        FIGURES["differences"].build(Request(empty, published=alone))
