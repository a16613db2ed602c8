"""The first screens of a page: of two runs, and of as many as an experiment of a paper has."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from messages import assert_says
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run

from pact_eval.errors import Place
from pact_eval.evaluation.conclusions.data import AuditedCheck, AuditedCode, DataConclusion
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest

AUDIT = DataConclusion(
    status="problems",
    records=48,
    errors=1_200,
    failed=("separation",),
    checks=(
        AuditedCheck(
            "separation",
            "48 records",
            (AuditedCode("shared-id", "error", 1_200, (Place("data/eval.jsonl", 7, "<i>"),)),),
            {"largest_within": 0.91},
        ),
        AuditedCheck("hashes", "", skipped="no --manifest given"),
    ),
)


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


@pytest.fixture(scope="module")
def ten_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of four arms with three, three, three and one seeds."""
    folder = tmp_path_factory.mktemp("ten")
    arms = [(arm, seed) for arm in ("pact", "nimble_recipe", "ce_only") for seed in (17, 18, 19)]
    folders = [
        write_run(folder / f"{arm}-{seed}", rows(n, k=2, families=24), arm=arm, seed=seed)
        for n, (arm, seed) in enumerate([*arms, ("no_cf", 17)])
    ]
    request = PageRequest(experiment_of(folders), audit=AUDIT, figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    return folder / "page.html"


def test_answer_matrix_and_differences_of_ten_runs_start_on_it(page: Page, ten_runs: Path) -> None:
    size = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.cdp("Emulation.setDeviceMetricsOverride", **size)
    try:
        page.open(ten_runs)
        top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
        selectors = ("h1", ".answer", "#runs", ".forest", ".matrix")
        places = [page.js(top, selector) for selector in selectors]
        assert places == sorted(places)
        assert places[2] < 300
        assert places[-1] < 2 * 900
        # What is folded is on the page: each other arm has an answer, and its rows in a plot.
        assert len(page.all(".in-full li")) == 3
        heads = [cell.get_attribute("textContent") for cell in page.all(".forest tbody th")]
        for arm in ("nimble_recipe", "ce_only", "no_cf"):
            assert sum(f"− {arm}" in str(head) for head in heads) == 1
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")


def test_the_data_of_a_run_lead_to_the_findings(page: Page, ten_runs: Path) -> None:
    page.open(ten_runs)
    assert not page.one("#data-audit table").is_displayed()
    page.one("#runs a[href='#data-audit']").click()
    page.until(lambda: page.one("#data-audit table").is_displayed())
    first, second = (" ".join(row.text.split()) for row in page.all("#data-audit tbody tr"))
    assert_says(first, "separation errors", "shared-id: 1,200", "eval.jsonl:7 (id <i>)")
    assert_says(first, "1,199 more", "48 records", "0.91")
    assert_says(second, "hashes not checked", "--manifest")


def test_a_finding_about_an_item_of_the_page_leads_to_it(page: Page, tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", rows(1, families=6), arm="a", seed=1)
    places = (Place("eval.jsonl", 3, "f1-base"), Place("train.jsonl", 4, "elsewhere"))
    checks = (AuditedCheck("labels", "12 records", (AuditedCode("odd", "warning", 2, places),)),)
    audit = DataConclusion(status="doubts", records=12, warnings=2, checks=checks)
    request = PageRequest(experiment_of([run]), audit=audit, figures=(), tables=("splits",))
    write_page(make_page(request), tmp_path / "page.html")
    page.open(tmp_path / "page.html")
    page.one("#data-audit summary").click()
    (link,) = page.all("#data-audit td a")
    assert link.text == "eval.jsonl:3 (id f1-base)"
    link.click()
    page.until(lambda: page.all(".detail-box .answers"))
    assert page.one(".detail-box h3").text == "f1-base"


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


def test_each_number_is_once_and_hollow_marks_have_a_p_value(page: Page, two: Path) -> None:
    page.open(two)
    above = "const [first] = document.querySelectorAll('#diagnostics'); let text = '';"
    script = (
        f"{above} for (const part of document.querySelectorAll('#answer, .cards'))"
        "text += part.innerText + '\\n'; return text"
    )
    decimals = re.findall(r"(?<![\d.])(?<!p = )[+-]?\d+\.\d+", page.js(script))
    assert len(decimals) > 8
    assert [number for number in set(decimals) if decimals.count(number) > 1] == []
    rows_of_plot = page.all(".cards .forest tbody tr:has(circle)")
    hollow = [row for row in rows_of_plot if row.find_elements("css selector", ".not-shown")]
    assert 0 < len(hollow) < len(rows_of_plot)
    for row in rows_of_plot:
        assert (" p " in row.text.replace("\n", " ")) == (row in hollow)
