"""Views one by one as drawn: the means and intervals of the replay, and runs that have none."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from remedies.planted_orders import planted_run
from reports.figures.drawn_axes import drawn, points

from pact_eval.remedies.sequential import (
    SequentialReplay,
    ViewSequence,
    replay_views,
)
from pact_reports.figures.adaptive_views import draw_adaptive_views
from pact_reports.figures.style import PAPER

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


def _is_hollow(line: Line2D) -> bool | None:
    """Whether the mark of a point is hollow; None of other lines."""
    if line.get_marker() in ("", "None", "|", "_", "D") or len(points(line)[0]) != 1:
        return None
    return to_hex(line.get_markerfacecolor()) == to_hex(PAPER)
