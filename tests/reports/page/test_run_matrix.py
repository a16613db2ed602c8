"""Runs by questions in a real browser, against the conclusions of the library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run

from pact_eval.evaluation.conclusions.better import turned
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.headline import conclude_runs
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.run_comparisons import run_differences
from pact_reports.page.assembly import make_page, write_page
from pact_reports.request import Request

SKILLS = {"pact": 2.0, "nimble_recipe": 1.2, "ce_only": 2.6, "weak": 0.3}


@dataclass(frozen=True)
class Made:
    """A page of several arms, one run each, and what it was made of."""

    path: Path
    experiment: Experiment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("matrix")
    folders = [
        write_run(folder / arm, rows(n, k=2, families=24, skill=skill), arm=arm, seed=17)
        for n, (arm, skill) in enumerate(SKILLS.items())
    ]
    experiment = experiment_of(folders)
    request = Request(experiment, figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    return Made(folder / "page.html", experiment)


def test_differences_from_the_first_run_are_those_of_compare(made: Made) -> None:
    """Those between other runs are adjusted over all pairs: each has one p-value."""
    rows = run_differences(made.experiment, range(len(made.experiment.runs)))
    for claim, conclusion in zip(rows[0][1:], made.experiment.comparisons.better_runs, strict=True):
        expected = conclusion.claims[0]
        assert claim is not None
        assert claim.status == turned(expected).status
        assert claim.difference.low == pytest.approx(-expected.difference.high)
        assert claim.evidence.deciding == pytest.approx(expected.evidence.deciding)
    others = []
    for reference, row in enumerate(rows):
        assert row[reference] is None
        for run, claim in enumerate(row):
            if claim is not None:
                assert repr(rows[run][reference]) == repr(turned(claim))
                others += [claim.evidence] if reference and run else []
    pairs = len(rows) * (len(rows) - 1) // 2
    assert {test.tests for test in others} == {2 * pairs}


def test_words_and_colours_are_those_of_the_conclusions(page: Page, made: Made) -> None:
    page.open(made.path)
    audit = DataConclusion.without_audit("no dataset was given")
    told = conclude_runs(made.experiment, audit)
    for line, run in zip(page.all("#runs tbody tr"), told, strict=True):
        cells = line.find_elements("css selector", "td")
        shown = cells[0].find_element("css selector", "strong").text
        assert shown == f"{100 * run.accuracy.value:.1f}"
        for cell, conclusion in zip(cells[2:], (run.order, run.probabilities), strict=True):
            word = cell.find_element("css selector", "a span")
            assert word.text == conclusion.words.finding
            assert word.get_attribute("class") == conclusion.tone
