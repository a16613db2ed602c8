"""Main comparison, sweep, ECE by kind and differences: what is drawn, against numpy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from reports.figures.drawn_axes import all_text, drawn, legend_texts, points
from reports.figures.figure_runs import rows, simulated
from run_frames import write_run

from pact_eval import metrics
from pact_eval.evaluation import collect_runs, evaluate, sweep
from pact_reports.figures import FIGURES, FigureRequest
from pact_reports.figures.differences import (
    build_differences,
    difference_figure,
    draw_differences,
)
from pact_reports.figures.ece_by_kind import draw_ece_kind, ece_figure
from pact_reports.figures.files import draw_figures
from pact_reports.figures.main_comparison import build_main, draw_metric_bars, main_comparison
from pact_reports.figures.style import ARM_COLOURS, MORE_COLOURS
from pact_reports.figures.views_sweep import draw_sweep, sweep_figure


def test_main_comparison_against_numpy(request_: FigureRequest) -> None:
    accuracy, pairs, ece, tv = main_comparison(request_)
    runs = request_.collection.arms["pact"]
    right = [run.scored().correct for run in runs]
    values = [each.mean() for each in right]
    bar = accuracy.bars[0]
    np.testing.assert_allclose(bar.values, values)
    np.testing.assert_allclose(
        [bar.low, bar.mean, bar.high],
        [
            np.mean(values) - np.std(values, ddof=1),
            np.mean(values),
            np.mean(values) + np.std(values, ddof=1),
        ],
    )
    both = [each.reshape(-1, 2).all(axis=1).mean() for each in right]
    np.testing.assert_allclose(pairs.bars[0].values, both)
    after = [run.scored(calibrated=True) for run in runs]
    expected = np.mean([metrics.ece(each.confidence, each.correct) for each in after])
    assert ece.bars[0].calibrated == pytest.approx(expected)
    np.testing.assert_allclose(tv.bars[0].values, [run.scored().view_tv.mean() for run in runs])


def test_a_single_run_has_an_interval_over_families(request_: FigureRequest) -> None:
    accuracy, *_ = main_comparison(request_)
    base = accuracy.bars[2]
    assert (base.arm, base.whisker, base.seeds) == ("base", "interval", (None,))
    assert base.low < base.mean < base.high
    assert np.isnan(base.calibrated)


def test_main_draws_bars_dots_whiskers_and_diamonds(request_: FigureRequest) -> None:
    ece = main_comparison(request_)[2]
    ax = drawn(partial(draw_metric_bars, ece))
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    np.testing.assert_allclose([bar.get_width() for bar in bars], [100 * b.mean for b in ece.bars])
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [
        ARM_COLOURS["pact"],
        MORE_COLOURS[0],
        ARM_COLOURS["base"],
    ]
    seen = np.concatenate([each.get_offsets() for each in ax.collections])[:, 0]
    for bar in ece.bars[:2]:
        for value in (*bar.values, bar.calibrated):
            assert np.isclose(seen, 100 * value).any()
    assert ax.get_xlabel() == "ECE (%) ↓"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["pact", "other", "base"]
    plate = build_main(request_).plates[0]
    assert plate.note.startswith("n = 48 items, 24 families\ndots: seeds; whiskers: ± 1 s.d.")
    assert plate.width == 3.5


def test_an_interval_wholly_above_its_value_is_drawn_where_it_is(
    request_: FigureRequest,
) -> None:
    """Resampled bins are noisier than the sample's, so that of ECE can be; matplotlib refused."""
    ece = main_comparison(request_)[2]
    moved = tuple(
        replace(bar, low=bar.mean + 0.02, high=bar.mean + 0.05, whisker="interval")
        for bar in ece.bars
    )
    ends = _whisker_ends(drawn(partial(draw_metric_bars, replace(ece, bars=moved))), axis=0)
    for bar in moved:
        assert any(np.allclose(each, [bar.low, bar.high]) for each in ends)
    figure = ece_figure(request_)
    above = {
        name: (n, tuple(replace(a, low=a.mean + 0.02, high=a.mean + 0.05) for a in arms))
        for name, (n, arms) in figure.kinds.items()
    }
    ends = _whisker_ends(drawn(partial(draw_ece_kind, replace(figure, kinds=above))), axis=1)
    for arm in above["all"][1]:
        assert any(np.allclose(each, [arm.low, arm.high]) for each in ends)


def _whisker_ends(ax: Axes, axis: int) -> list[npt.NDArray[np.float64]]:
    return [
        np.asarray(segment)[:, axis] / 100
        for lines in ax.collections
        if isinstance(lines, LineCollection)
        for segment in lines.get_segments()
    ]


def test_sweep_against_the_sweep(request_: FigureRequest) -> None:
    accuracy, tv = sweep_figure(request_)
    run = request_.collection.runs[0]
    found = sweep(run.predictions, range(1, 5), rng=np.random.default_rng(0), resamples=100)
    expected = [point.group.estimates["accuracy"].value for point in found]
    np.testing.assert_allclose(accuracy.arms[0].values[0], expected)
    assert accuracy.arms[0].views == (1, 2, 3, 4)
    assert tv.arms[0].views == (2, 3, 4)
    base = accuracy.arms[2]
    predictions = request_.collection.runs[-1].predictions
    found = sweep(predictions, range(4, 5), rng=np.random.default_rng(0), resamples=200)
    assert base.low[-1] == pytest.approx(found[0].group.estimates["accuracy"].low)


def test_sweep_is_drawn_with_whiskers(request_: FigureRequest) -> None:
    accuracy, tv = sweep_figure(request_)
    ax = drawn(partial(draw_sweep, tv))
    assert legend_texts(ax) == ["pact", "other", "base"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Views K", "View TV (%)")
    assert list(ax.get_xticks()) == [1, 2, 3, 4]
    line = ax.containers[0][0]
    np.testing.assert_allclose(points(line)[1], [100 * mean for mean in tv.arms[0].mean])
    above = drawn(partial(draw_sweep, accuracy, names=False))
    assert "n = 48 items, 24 families" in all_text(above)
    values = np.array(accuracy.arms[0].values)
    np.testing.assert_allclose(
        np.array(accuracy.arms[0].high) - accuracy.arms[0].mean, values.std(axis=0, ddof=1)
    )


def test_ece_by_kind_against_the_metric(request_: FigureRequest) -> None:
    result = ece_figure(request_)
    assert list(result.kinds) == ["all", "choice", "boolean", "score"]
    runs = request_.collection.arms["other"]
    kind = runs[0].predictions.kind == "score"
    values = [metrics.ece(r.scored().confidence[kind], r.scored().correct[kind]) for r in runs]
    items, entries = result.kinds["score"]
    assert items == kind.sum()
    np.testing.assert_allclose(entries[1].values, values)
    assert entries[1].high - entries[1].mean == pytest.approx(np.std(values, ddof=1))
    ax = drawn(partial(draw_ece_kind, result))
    widths = sorted({round(patch.get_width(), 6) for patch in ax.patches})  # type: ignore[attr-defined]
    assert len(widths) == 2
    assert [label.get_text() for label in ax.get_xticklabels()][3] == f"score\nn = {items}"
    heights = {round(patch.get_height(), 6) for patch in ax.patches}  # type: ignore[attr-defined]
    assert round(100 * np.mean(values), 6) in heights
    assert legend_texts(ax) == ["pact", "other", "base"]


def test_differences_against_numpy(request_: FigureRequest) -> None:
    result = difference_figure(request_, "pact", "other")
    arms = request_.collection.arms
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
    assert travel.mean == pytest.approx(lead[:, where].mean())
    assert travel.low <= travel.mean <= travel.high
    assert [group.by for group in result.groups] == ["all", *["kind"] * 3, *["domain"] * 4]
    assert result.pairs == ("seed 17", "seed 18")


def test_differences_are_drawn_with_same_sign_marks(request_: FigureRequest) -> None:
    result = difference_figure(request_, "pact", "base")
    everything = result.groups[0]
    assert all(value > 0 for value in everything.values)
    ax = drawn(partial(draw_differences, result))
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "* all (48)"
    for label, group in zip(labels, result.groups, strict=True):
        signs = {np.sign(value) for value in group.values}
        assert label.startswith("* ") == (len(signs) == 1 and signs != {0.0})
    bars = [patch.get_width() for patch in ax.patches]  # type: ignore[attr-defined]
    np.testing.assert_allclose(bars, [100 * group.mean for group in result.groups])
    assert ax.get_xlabel() == "Difference in accuracy (points)"
    assert "pact − base" in all_text(ax)
    assert legend_texts(ax) == ["seed 17", "seed 18"]


def test_arms_without_a_common_seed_are_not_compared(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / arm, rows(seed, families=6), arm=arm, seed=seed)
        for arm, seed in (("pact", 1), ("other", 2))
    ]
    built = build_differences(FigureRequest(collect_runs(runs), resamples=100))
    assert built.plates == ()
    assert built.missing == ("pact and other have no seed in common",)
    with pytest.raises(ValueError, match="one arm only"):
        build_differences(FigureRequest(collect_runs(runs[:1]), resamples=100))


def test_no_runs_are_a_reason(tmp_path: Path) -> None:
    empty = simulated(tmp_path, arms=(), base=False)
    for name, spec in FIGURES.items():
        out = draw_figures(empty, [name], tmp_path / "out")
        assert out.files == {}
        assert out.skipped[name], spec.title


def test_intervals_are_those_of_the_report(request_: FigureRequest) -> None:
    base = request_.collection.runs[-1]
    report = evaluate(
        base.predictions,
        decoding="single",
        by="kind",
        rng=np.random.default_rng(0),
        resamples=200,
    )
    for each in main_comparison(request_):
        expected = report.groups[0].estimates[each.spec.name]
        assert (each.bars[-1].low, each.bars[-1].high) == (expected.low, expected.high)
