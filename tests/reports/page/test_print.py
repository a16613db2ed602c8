"""The printed page: its length, its columns and its headings."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of, two_runs

from pact_eval.evaluation.item_records import read_item_records
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest

SIZES = {"A4": (8.27, 11.69), "Letter": (8.5, 11.0)}
MARGIN_MM = 22
PIXELS_PER_INCH = 96


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two runs with every figure and table."""
    folder = tmp_path_factory.mktemp("print")
    folders, data = two_runs(folder, families=60)
    experiment = experiment_of(folders)
    records = read_item_records([data], experiment)
    write_page(make_page(PageRequest(experiment, records)), folder / "page.html")
    return folder / "page.html"


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_two_runs_take_at_most_eight_pages(page: Page, made: Path, size: str) -> None:
    page.open(made)
    width, height = SIZES[size]
    printed = page.cdp("Page.printToPDF", paperWidth=width, paperHeight=height)
    pages = re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(printed["data"]))
    assert 3 < len(pages) <= 8


@pytest.mark.slow
def test_columns_are_as_wide_as_their_words_and_headings_stay_with_what_follows(
    page: Page, made: Path
) -> None:
    width = round((SIZES["A4"][0] - MARGIN_MM / 25.4) * PIXELS_PER_INCH)
    page.open(made)
    page.js("dispatchEvent(new Event('beforeprint'))")
    metrics_ = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.cdp("Emulation.setDeviceMetricsOverride", **metrics_)
    page.cdp("Emulation.setEmulatedMedia", media="print")
    try:
        cells = "[...document.querySelectorAll('td, th')].filter(c => c.offsetWidth)"
        cut = f"return {cells}.filter(c => c.scrollWidth > c.clientWidth + 1).map(c => c.innerText)"
        assert page.js(cut) == []
        wide = (
            "return [...document.querySelectorAll('table')].filter(t => t.offsetWidth)"
            ".filter(t => t.getBoundingClientRect().right > innerWidth + 1)"
            ".map(t => t.closest('[aria-label]')?.ariaLabel ?? t.id)"
        )
        assert page.js(wide) == []
        breaks = (
            "return [...document.querySelectorAll('h1, h2, h3, h4, summary, .caption')]"
            ".filter(h => getComputedStyle(h).breakAfter !== 'avoid').map(h => h.innerText)"
        )
        assert page.js(breaks) == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")
        page.cdp("Emulation.setEmulatedMedia", media="")
