"""A page with `--calibration own`: every number of its first screen and sections is calibrated."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from reports.figures.figure_runs import rows, write_calibrator
from reports.page.page_runs import experiment_of
from run_frames import write_run

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.evaluation.wrong_items import confidence_text
from pact_reports.page.assembly import make_page
from pact_reports.request import Request
from pact_reports.views.report import present_run_report
from pact_reports.writers.terminal import to_text


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A run whose raw probabilities are right, and whose calibrator makes it over-confident."""
    folder = write_run(tmp_path_factory.mktemp("own") / "run", rows(1, k=1, families=40))
    write_calibrator(folder, a=4.0, b=0.0, c=0.0)
    return experiment_of([folder], Settings(resamples=100, calibrated=True))


@pytest.fixture(scope="module")
def text(experiment: Experiment) -> str:
    page = make_page(Request(experiment, figures=(), tables=("splits",)))
    body = re.sub(r"<(svg|script)\b.*?</\1>", "", page[page.index("<body") :], flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_probabilities_are_those_of_the_terminal_and_of_json(
    experiment: Experiment, text: str
) -> None:
    report = experiment.report()
    presenter = present_run_report(report)
    conclusion = experiment.probabilities(experiment.runs[0])
    raw = experiment.probabilities(experiment.runs[0], calibrated=False)
    assert conclusion.words != raw.words
    assert text.count(conclusion.words.numbers.removesuffix(".")) == 1
    assert f"Raw: {raw.words}" in text
    answer: Any = presenter.json()["answer"]
    assert answer["probabilities"]["text"] == str(conclusion.words)
    printed = to_text(*(part for block in presenter.printed() for part in block), width=5_000)
    assert str(conclusion.words).lower() in printed.lower()


def test_items_have_the_confidences_of_the_terminal(experiment: Experiment, text: str) -> None:
    wrong = experiment.report().wrong
    assert wrong is not None
    examples = text[text.index("Surest wrong answers") :]
    places = [examples.index(item.id) for item in wrong.items]
    assert places == sorted(places)
    for item, place in zip(wrong.items, places, strict=True):
        sure = confidence_text(item.confidence)
        assert sure in examples[place : place + 200], (item, examples[place : place + 200])


def test_the_page_says_that_it_is_calibrated(text: str) -> None:
    assert "calibrated; figures are raw" in text[: text.index("Surest wrong answers")]
    assert "confident errors (90% or more, calibrated)" in text
