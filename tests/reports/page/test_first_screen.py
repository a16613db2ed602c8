"""The first screens of pages of 1, 2 and 6 runs, at three widths and in both schemes, and axe."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run

from pact_reports.page.assembly import make_page, write_page
from pact_reports.request import Request

SKILLS = {"pact": 2.0, "nimble_recipe": 1.55, "ce_only": 1.8, "a": 0.9, "b": 1.2, "c": 1.4}
PHONE, DESKTOP = 844, 900
"""Heights of screens, in pixels."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Path]:
    """Pages by their number of runs."""
    home = tmp_path_factory.mktemp("pages")
    folders = [
        write_run(home / arm, rows(n, k=4, families=60, skill=skill), arm=arm, seed=17)
        for n, (arm, skill) in enumerate(SKILLS.items())
    ]
    pages = {}
    for runs in (1, 2, 6):
        pages[runs] = home / f"{runs}.html"
        request = Request(experiment_of(folders[:runs]), figures=(), tables=("splits", "main"))
        write_page(make_page(request), pages[runs])
    return pages


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("runs", [1, 2, 6])
def test_first_screens(
    page: Page, made: Mapping[int, Path], runs: int, width: int, scheme: str
) -> None:
    height = PHONE if width == 390 else DESKTOP
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.cdp("Emulation.setDeviceMetricsOverride", **size)
    try:
        page.open(made[runs], scheme=scheme)
        assert page.js("return document.documentElement.scrollWidth") <= width
        bottoms = page.js(
            "return ['.answer', '.picture, #runs table', '.examples'].map("
            "s => document.querySelector(s).getBoundingClientRect().bottom)"
        )
        headline, picture, items = bottoms
        assert headline < height / 2
        assert picture < (2 if width == 390 and runs == 6 else 1) * height
        assert items < (2 if width == 390 else 1) * height + (height if runs == 6 else 0)
        ticks = (
            "return [...document.querySelectorAll('#summary .ticks')]"
            ".filter(svg => svg.getBoundingClientRect().width > 100).map(svg => "
            "[...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect())"
            ".map(r => [r.left, r.right]))"
        )
        for places in page.js(ticks):
            assert all(right <= left for (_, right), (left, _) in pairwise(places))
        assert not page.one("#outcome").is_displayed(), "filters are folded"
        outcome = Axe().run(page.driver)
        assert [violation["id"] for violation in outcome["violations"]] == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")


def test_a_link_into_what_is_folded_opens_it(page: Page, made: Mapping[int, Path]) -> None:
    page.open(made[1], "#table-main")
    assert page.one("#table-main table").is_displayed()
