"""Remedies as drawn: the values and costs of the comparison, and fills that follow its verdicts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from remedies.planted_orders import planted_run
from reports.figures.drawn_axes import drawn, points

from pact_eval.remedies.comparison import RemedyComparison, compare_remedies
from pact_eval.remedies.costs import ItemTokens
from pact_reports.figures.remedies import draw_remedies
from pact_reports.figures.style import PAPER

_TOKENS = ItemTokens((100.0, 130.0, 150.0, 165.0), (200.0, 400.0, 600.0, 800.0), None)


@pytest.fixture(scope="module")
def comparison() -> RemedyComparison:
    run = planted_run(np.random.default_rng(2), k=4, order_noise=1.5, choices=(3, 4))
    rng = np.random.default_rng(0)
    return compare_remedies(run, rng=rng, resamples=100, tokens=_TOKENS, scope="raw")


def test_marks_are_filled_only_if_the_remedy_is_shown_to_help(
    comparison: RemedyComparison,
) -> None:
    ax = drawn(partial(draw_remedies, comparison, "accuracy"))
    fills = {
        round(100 * row.metric("accuracy").value.value, 9): row.helps("k1")
        for row in comparison.rows
    }
    marks = [line for line in ax.lines[1:] if len(points(line)[1]) == 1 and _is_mark(line)]
    assert len(marks) == len(comparison.rows)
    assert any(row.helps("k1") for row in comparison.rows)
    for mark in marks:
        value = round(float(points(mark)[1][0]), 9)
        hollow = to_hex(mark.get_markerfacecolor()) == to_hex(PAPER)
        assert hollow != fills[value]


def _is_mark(line: Line2D) -> bool:
    return line.get_marker() not in ("", "None", "|", "_")
