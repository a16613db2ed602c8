"""The first sentence on two runs, of the terminal, JSON and page, against their numbers."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from messages import assert_says
from reports.page.page_runs import experiment_of
from run_frames import frame_of, rows, write_run

from pact_eval.drift.run_comparison import compare_runs
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.page.assembly import make_page
from pact_reports.page.request import PageRequest
from pact_reports.views.comparison import present_run_comparison
from pact_reports.writers.terminal import to_text


def said(experiment: Experiment) -> str:
    """The first sentence, which is the same on the three surfaces."""
    comparisons = compare_runs(experiment)
    brief = present_run_comparison(*comparisons, full=False)
    parts = [part for block in brief.printed() for part in block]
    line = to_text(*parts, width=5_000).splitlines()[0]
    page = make_page(PageRequest(experiment, figures=(), tables=("splits",)))
    (headline,) = re.findall(r'<h1 class="answer">(.*?)</h1>', page)
    assert line == brief.json()["headline"] == html.unescape(re.sub("<.*?>", "", headline))
    full = present_run_comparison(*comparisons, full=True)
    assert line in to_text(*(part for block in full.printed() for part in block), width=5_000)
    return line


def two(home: Path, skills: tuple[float, float], **settings: object) -> Experiment:
    """Two runs of the arms a and b on the same items."""
    folders = [
        write_run(home / arm, rows(seed, k=1, families=60, skill=skill), arm=arm, seed=None)
        for seed, (arm, skill) in enumerate(zip("ab", skills, strict=True))
    ]
    return experiment_of(folders, Settings(resamples=200, **settings))  # type: ignore[arg-type]


def test_a_difference_has_its_accuracies_points_and_p_value(tmp_path: Path) -> None:
    experiment = two(tmp_path, (0.3, 3.0))
    (comparison,) = compare_runs(experiment)
    metric = comparison.groups[0].metrics["accuracy"]
    lead = 100 * (metric.b.value - metric.a.value)
    accuracies = (f"a {100 * metric.a.value:.1f}%, b {100 * metric.b.value:.1f}%: ",)
    points = f"b is more accurate, by {lead:.1f} points ["
    assert_says(said(experiment), *accuracies, points, "(p < 0.001)")


def test_a_margin_makes_runs_equivalent(tmp_path: Path) -> None:
    experiment = two(tmp_path, (2.0, 2.0), margin=0.3)
    assert_says(said(experiment), ": as accurate, within the margin of 30.0 points.")


def test_a_difference_that_is_not_shown_has_its_half_width(tmp_path: Path) -> None:
    experiment = two(tmp_path, (2.0, 2.0))
    (comparison,) = compare_runs(experiment)
    ends = comparison.groups[0].metrics["accuracy"].difference
    side = 100 * max(ends.value - ends.low, ends.high - ends.value)
    assert_says(said(experiment), f": no difference shown (±{side:.0f} points).")


@pytest.mark.parametrize("low", [(0.5, 0.98), (0.98, 0.5), (0.5, 0.5)])
def test_a_low_answer_mass_is_in_the_headline(tmp_path: Path, low: tuple[float, float]) -> None:
    frames = [
        frame_of(
            id=list("abcd"), logits=[[0.0, 1.0]] * 4, reference=[0, 1] * 2, answer_mass=[m] * 4
        )
        for m in low
    ]
    folders = [
        write_run(tmp_path / arm, frame, arm=arm) for arm, frame in zip("ab", frames, strict=True)
    ]
    line = said(experiment_of(folders))
    if low[0] == low[1]:
        assert_says(line, "Both", "have an ANSWER MASS OF 50.0%")
    else:
        name = "a" if low[0] < low[1] else "b"
        assert_says(line, f"{name} ", "has an ANSWER MASS OF 50.0%")
        assert line.count("ANSWER MASS") == 1
