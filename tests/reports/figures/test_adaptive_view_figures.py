"""Views one by one as drawn: the means and intervals of the replay, and runs that have none."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from adaptive_runs import full_rows, write_adaptive
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from messages import assert_says
from remedies.planted_orders import planted_run
from reports.figures.drawn_axes import drawn, legend_texts, points
from run_frames import rows, write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.remedies.sequential import (
    FixedPoint,
    SequentialPoint,
    SequentialReplay,
    ViewSequence,
    replay_views,
)
from pact_reports.figures.adaptive_views import draw_adaptive_views
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.style import PAPER, Looks

RUN = planted_run(np.random.default_rng(2), k=16, order_noise=1.5, choices=(2, 4, 5))


@pytest.fixture(scope="module")
def replay() -> SequentialReplay:
    return replay_views(RUN, rng=np.random.default_rng(0), resamples=200)


@pytest.fixture(scope="module")
def ax(replay: SequentialReplay) -> Axes:
    return drawn(partial(draw_adaptive_views, replay))


def test_fixed_views_are_the_first_orders_against_hand_computation(
    replay: SequentialReplay,
) -> None:
    sequence = ViewSequence.of(RUN)
    assert [point.k for point in replay.fixed] == [1, 2, 4, 8]
    for point in replay.fixed:
        taken = np.minimum(sequence.most, point.k)
        answers = sequence.means[np.arange(len(taken)), taken - 1].argmax(axis=1)
        assert point.views.value == pytest.approx(taken.mean())
        assert point.agreement.value == pytest.approx((answers == sequence.final).mean())
        assert point.agreement.low < point.agreement.value < point.agreement.high


def test_lines_go_through_the_means_to_all_views(ax: Axes, replay: SequentialReplay) -> None:
    drawn_marks: list[tuple[FixedPoint | SequentialPoint, ...]]
    drawn_marks = [replay.fixed, replay.points]
    for line, marks in zip(ax.lines[:2], drawn_marks, strict=True):
        x, y = points(line)
        expected = sorted((point.views.value, 100 * point.agreement.value) for point in marks)
        assert x == pytest.approx([*(views for views, _ in expected), replay.most])
        assert y == pytest.approx([*(share for _, share in expected), 100.0])
    assert ax.get_xscale() == "log"
    assert ax.get_ylabel() == "Answer of K = 16 (%)"
    assert legend_texts(ax) == ["rule, by risk", "fixed", "all, K = 16"]


def test_marks_are_named_and_only_the_chosen_risk_is_filled(
    ax: Axes, replay: SequentialReplay
) -> None:
    names = {text.get_text() for text in ax.texts}
    assert names >= {"1%", "2%", "5%", "10%", "K = 1", "K = 2", "K = 4", "K = 8"}
    marks = [line for line in ax.lines if _is_hollow(line) is not None]
    assert len(marks) == 8
    (filled,) = (line for line in marks if not _is_hollow(line))
    chosen = replay.point(replay.risk)
    assert points(filled)[0][0] == pytest.approx(chosen.views.value)
    assert points(filled)[1][0] == pytest.approx(100 * chosen.agreement.value)


def test_intervals_of_both_means_are_drawn(ax: Axes, replay: SequentialReplay) -> None:
    bars = [drawing for drawing in ax.collections if isinstance(drawing, LineCollection)]
    segments = np.concatenate([np.asarray(bar.get_segments()) for bar in bars])
    marks: tuple[FixedPoint | SequentialPoint, ...] = (*replay.points, *replay.fixed)
    for point in marks:
        views = (point.views.low, point.views.high)
        for end in filter(np.isfinite, views):
            assert np.isclose(segments[:, :, 0], end).any()
        for end in (point.agreement.low, point.agreement.high):
            assert np.isclose(segments[:, :, 1], 100 * end).any()
    assert np.isnan(replay.fixed[0].views.low)  # one view of every item: no spread


def test_one_file_per_run_and_reasons_for_the_others(tmp_path: Path) -> None:
    write_run(tmp_path / "four", full_rows(1, families=30))
    write_run(tmp_path / "one", rows(1, families=30, k=1))
    write_adaptive(tmp_path / "adaptive", full_rows(1, families=30))
    names = ("four", "one", "adaptive")
    experiment = Experiment.read([tmp_path / name for name in names], Settings(resamples=100))
    figure = FIGURES["adaptive-views"]
    built = figure.build(experiment, Looks.of(experiment))
    (file,) = built.files
    assert file.name == "adaptive-views-four"
    assert_says(file.full_title, "four", "agreement with 4 views", "95% intervals")
    without = {text.partition(":")[0]: text for text in built.missing}
    assert_says(without["one"], "two orders", "--k 16")
    assert_says(without["adaptive"], "all 4 views", "--views adaptive")
    assert not figure.on_page


def test_too_few_families_for_a_risk_take_all_views() -> None:
    few = replay_views(
        planted_run(np.random.default_rng(3), k=4, families=24, choices=(3,)),
        rng=np.random.default_rng(0),
        resamples=100,
        risks=(0.02, 0.1),
    )
    ax = drawn(partial(draw_adaptive_views, few))
    x, y = points(ax.lines[1])
    assert x[-2:].tolist() == [few.most, few.most]
    assert y[-2:].tolist() == [100.0, 100.0]


def _is_hollow(line: Line2D) -> bool | None:
    """Whether the mark of a point is hollow; None of other lines."""
    if line.get_marker() in ("", "None", "|", "_", "D") or len(points(line)[0]) != 1:
        return None
    return to_hex(line.get_markerfacecolor()) == to_hex(PAPER)
