"""The item browser on runs that differ: in calibrator, in names, in what can be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from reports.figures.figure_runs import rows, write_calibrator
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of, frame_of
from run_frames import write_run

from pact_eval.evaluation.experiment import Experiment
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest


@dataclass(frozen=True)
class Uneven:
    """A page and what it was made of."""

    path: Path
    experiment: Experiment


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Uneven:
    """Runs of which one has a calibrator, one has a long name, and one has ties after rounding."""
    folder = tmp_path_factory.mktemp("uneven")
    first = write_run(folder / "a", rows(1, families=20), arm="a", seed=1)
    write_calibrator(first)
    second = write_run(folder / "b", rows(2, families=20), arm="b", seed=1)
    wrong = [{"logits": [0.0, 4.0 + 0.1 * at], "id": f"w{at}"} for at in range(6)]
    arm = f"c\u202e{'long' * 60}"
    third = write_run(folder / "c", frame_of(wrong), arm=arm, seed=1)
    ties = [{"logits": [0.0, 1e-6]} for _ in range(4)]
    fourth = write_run(folder / "d", frame_of(ties), arm="tied", seed=1)
    experiment = experiment_of([first, second, third, fourth])
    request = PageRequest(experiment, figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    return Uneven(folder / "page.html", experiment)


def test_the_top_answer_is_that_before_rounding(page: Page, uneven: Uneven) -> None:
    """Both answers print as 50.0%; the second is the more probable by a millionth."""
    page.open(uneven.path)
    page.sort("item")
    page.choose("run", "tied, seed 1")
    page.open_item()
    tops = [cell.text for cell in page.all(".answers td.top")]
    assert tops == ["B 50.0%"]
    bold = page.one(".answers tr:has(td.top) th").text
    assert "answer" in bold.split("\n")[0]
