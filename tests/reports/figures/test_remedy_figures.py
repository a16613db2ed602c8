"""Remedies as drawn: the values and costs of the comparison, and fills that follow its verdicts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from remedies.planted_orders import planted_run
from reports.figures.drawn_axes import drawn, legend_texts, points
from run_frames import rows, write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.remedies.comparison import RemedyComparison, RemedyRow, compare_remedies
from pact_eval.remedies.costs import ItemTokens
from pact_reports.figures.registry import FIGURES
from pact_reports.figures.remedies import draw_remedies
from pact_reports.figures.style import PAPER, Looks

_TOKENS = ItemTokens((100.0, 130.0, 150.0, 165.0), (200.0, 400.0, 600.0, 800.0), None)


@pytest.fixture(scope="module")
def comparison() -> RemedyComparison:
    run = planted_run(np.random.default_rng(2), k=4, order_noise=1.5, choices=(3, 4))
    return compare_remedies(run, rng=np.random.default_rng(0), resamples=100, tokens=_TOKENS)


def test_views_are_a_line_from_their_costs_to_their_values(
    comparison: RemedyComparison,
) -> None:
    ax = drawn(partial(draw_remedies, comparison, "nll_nats"))
    line = points(ax.lines[0])
    assert line[0] == pytest.approx([100.0, 130.0, 150.0, 165.0])
    expected = [comparison.row(f"k{k}").metric("nll_nats").value.value for k in (1, 2, 3, 4)]
    assert line[1] == pytest.approx(expected)
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "Computed tokens per item"
    assert {text.get_text() for text in ax.texts} >= {"1", "2", "3", "4"}


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


def test_a_metric_leaves_out_remedies_that_have_none(
    comparison: RemedyComparison,
) -> None:
    nll, accuracy = (
        drawn(partial(draw_remedies, comparison, name)) for name in ("nll_nats", "accuracy")
    )
    assert "majority" in legend_texts(accuracy)
    assert "majority" not in legend_texts(nll)
    assert nll.get_xlim() == accuracy.get_xlim()


def test_a_value_far_beyond_is_a_number_at_the_edge(comparison: RemedyComparison) -> None:
    def far(row: RemedyRow) -> RemedyRow:
        metrics = tuple(
            replace(metric, value=replace(metric.value, value=9.25))
            if metric.spec.name == "nll_nats" and not metric.tempered
            else metric
            for metric in row.metrics
        )
        return replace(row, metrics=metrics)

    rows_with_one_far = tuple(
        far(row) if row.remedy.name == "k1_pride" else row for row in comparison.rows
    )
    ax = drawn(partial(draw_remedies, replace(comparison, rows=rows_with_one_far), "nll_nats"))
    assert ax.get_ylim()[1] < 4
    assert "9.25 ↑" in {text.get_text() for text in ax.texts}


def test_the_cost_is_the_best_that_is_known() -> None:
    run = planted_run(np.random.default_rng(3), families=40, k=2)
    sent = ItemTokens((), (200.0, 400.0), "served")
    for tokens, words in ((sent, "Sent tokens"), (None, "Prompts")):
        result = compare_remedies(run, rng=np.random.default_rng(0), resamples=100, tokens=tokens)
        ax = drawn(partial(draw_remedies, result, "ece"))
        assert ax.get_xlabel() == f"{words} per item"
        low, high = ax.get_xlim()
        assert 0 < low < high < math.inf


def test_one_file_per_run_of_several_views(tmp_path: Path) -> None:
    write_run(tmp_path / "two", rows(1, families=20, k=2))
    write_run(tmp_path / "one", rows(1, families=20, k=1))
    experiment = Experiment.read([tmp_path / "two", tmp_path / "one"])
    built = FIGURES["remedies"].build(experiment, Looks.of(experiment))
    (file,) = built.files
    assert file.name.startswith("remedies-")
    assert len(file.panels) == 5
    (missing,) = built.missing
    assert "--k 4" in missing
    assert not FIGURES["remedies"].on_page


def _is_mark(line: Line2D) -> bool:
    return line.get_marker() not in ("", "None", "|", "_")
