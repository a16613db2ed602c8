"""The first screen at 1440 x 900, with as many runs as an experiment of a paper has."""

from __future__ import annotations

from pathlib import Path

import pytest
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
        places = [page.js(top, each) for each in ("h1", ".answer", "#runs", ".forest", ".matrix")]
        assert places == sorted(places)
        assert places[2] < 300
        assert places[-1] < 2 * 900
        # What is folded is on the page: each other arm has an answer, and its rows in a plot.
        assert len(page.all(".in-full li")) == 3
        heads = [each.get_attribute("textContent") for each in page.all(".forest tbody th")]
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
    assert first == (
        "separation errors shared-id: 1,200 eval.jsonl:7 (id <i>); and 1,199 more 48 records "
        "largest within 0.91"
    )
    assert second == "hashes not checked no --manifest given"
