"""The first screens of a page of two runs, at three widths and in both schemes, against axe."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run

from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two arms, of whose differences some are shown."""
    folder = tmp_path_factory.mktemp("two")
    folders = [
        write_run(folder / arm, rows(n, k=4, families=60, skill=skill), arm=arm, seed=17)
        for n, (arm, skill) in enumerate((("pact", 2.0), ("nimble_recipe", 1.55)))
    ]
    request = PageRequest(experiment_of(folders), figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    return folder / "page.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_cards_of_two_runs_fit_two_screens_and_the_answer_three_lines(
    page: Page, two: Path, width: int, scheme: str
) -> None:
    height = 844 if width == 390 else 900
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.cdp("Emulation.setDeviceMetricsOverride", **size)
    try:
        page.open(two, scheme=scheme)
        assert page.js("return document.documentElement.scrollWidth") <= width
        bottom = "return document.querySelector('.cards').getBoundingClientRect().bottom"
        assert page.js(bottom) < 2 * height
        lines = (
            "const answer = document.querySelector('.answer');"
            "return answer.offsetHeight / parseFloat(getComputedStyle(answer).lineHeight)"
        )
        assert round(page.js(lines)) <= 3
        ticks = (
            "return [...document.querySelectorAll('.cards .ticks text')]"
            ".map(t => t.getBoundingClientRect()).map(r => [r.left, r.right])"
        )
        places = page.js(ticks)
        assert len(places) >= 3
        assert all(right < left for (_, right), (left, _) in pairwise(places))
        assert not page.one("#outcome").is_displayed(), "filters are folded"
        outcome = Axe().run(page.driver)
        assert [violation["id"] for violation in outcome["violations"]] == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")
