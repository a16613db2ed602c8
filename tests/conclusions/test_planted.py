"""No surface contradicts another, or the truth: planted cases, read from what is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import runner
from conclusions import surfaces
from conclusions.planted import CASES, TARGET, Case, documented
from messages import assert_says

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.sentences.conclusions import probabilities_words

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_surface_says_what_is_true(case: Case, tmp_path: Path) -> None:
    runs = [case.first.write(tmp_path / "first", case.seeds[0])]
    if case.second is not None:
        runs.append(case.second.write(tmp_path / "second", case.seeds[1]))
    views = tuple(sorted(case.better))
    options = ("--resamples", "400")
    settings = Settings(resamples=400, margin=case.margin, target_error=TARGET)
    terminal, text = surfaces.terminal(runs, options, views, case.margin)
    printed = {
        "terminal": terminal,
        "JSON": surfaces.in_json(runs, options, case.margin),
        "Python": surfaces.python(runs, settings, views),
        "page": surfaces.page(runs, settings, tmp_path, views),
    }
    expected: dict[str, Any] = {
        "data": "not checked",
        "order": case.order,
        "probabilities": case.probabilities,
        "acting": case.acting,
    }
    expected |= {"better": case.better} if case.second is not None else {}
    told = {question: status for question, status in expected.items() if status}
    for surface, statuses in printed.items():
        assert {question: statuses[question] for question in told} == told, surface
    assert all(statuses == terminal for statuses in printed.values())
    if case.letter:
        last = {"last": "FOLLOWS THE LAST PLACE", "Z": "FOLLOWS Z, THE LAST PLACE"}
        finding = last.get(case.letter, f"FOLLOWS THE LETTER {case.letter}")
        assert finding in text.splitlines()[0]
        assert surfaces.facts(text)["order"].startswith(f"{finding}: chosen ")


SHOWN_GAPS = {
    "12 items, 90% sure, 2 right": True,
    "right only on average": False,
    "says 80% and is right in 66%, says 85% and is right in 99%": False,
    "over-confident": True,
}
"""Runs with a calibration error that is shown, and whether the sign of its mean gap is."""


@pytest.mark.parametrize("name", SHOWN_GAPS)
def test_a_mean_gap_that_is_not_shown_is_not_called_0(name: str, tmp_path: Path) -> None:
    """Theory: an interval that includes 0 shows neither a gap nor that there is none."""
    (case,) = (case for case in CASES if case.name == name)
    folder = case.first.write(tmp_path / "first", case.seeds[0])
    experiment = Experiment.read([folder])
    conclusion = experiment.probabilities(experiment.runs[0])
    assert conclusion.p_value <= 0.05, "the error itself is shown"
    gap = 100 * np.array([conclusion.gap.value, conclusion.gap.low, conclusion.gap.high])
    assert (gap[1] > 0 or gap[2] < 0) == SHOWN_GAPS[name]
    line = surfaces.facts(runner(main)("report", folder).stdout)["probabilities"]
    words = str(probabilities_words(conclusion))
    for text in (line, words):
        assert "right on average" not in text
        if not SHOWN_GAPS[name]:  # how large it may be
            assert_says(text, "gap {:+.1f} [{:+.1f}, {:+.1f}]".format(*gap), "points")


def test_an_error_that_cancels_in_a_bin_is_said_with_what_shows_it(tmp_path: Path) -> None:
    """The bins of ECE hide it; CORP is many times that of a calibrated model."""
    (case,) = (case for case in CASES if case.name.startswith("says 80%"))
    folder = case.first.write(tmp_path / "first", case.seeds[0])
    experiment = Experiment.read([folder])
    conclusion = experiment.probabilities(experiment.runs[0])
    assert conclusion.only_corp
    assert conclusion.corp.value > 10 * conclusion.corp.floor
    line = surfaces.facts(runner(main)("report", folder).stdout)["probabilities"]
    numbers = f"CORP miscalibration {conclusion.corp.value:.4f}, chance"
    assert_says(line, "MISCALIBRATED: says 82.5%", numbers, "p = 0.010")


def test_the_docs_have_these_cases() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conclusions.md").read_text(encoding="utf-8")
    assert f"<!-- planted -->\n{documented()}\n<!-- /planted -->" in page
