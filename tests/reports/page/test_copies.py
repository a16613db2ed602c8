"""Buttons that copy the answer and tables, in a real browser and from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run
from selenium.webdriver import ActionChains, Keys

from pact_eval.evaluation.experiment import Experiment
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest
from pact_reports.writers.csv import to_csv
from pact_reports.writers.files import build_tables
from pact_reports.writers.latex import to_latex
from pact_reports.writers.markdown import to_markdown

WRITERS = {"Markdown": to_markdown, "LaTeX": to_latex, "CSV": to_csv}


@dataclass(frozen=True)
class Made:
    """A page of three runs, and what it was made of."""

    path: Path
    experiment: Experiment
    request: PageRequest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("copies")
    folders = [
        write_run(folder / arm, rows(n, families=40, skill=2.0 - n), arm=arm, seed=17)
        for n, arm in enumerate(("pact", "b_%", "c"))
    ]
    experiment = experiment_of(folders)
    request = PageRequest(experiment, figures=(), tables=("main",))
    write_page(make_page(request), folder / "page.html")
    return Made(folder / "page.html", experiment, request)


@pytest.fixture(params=["clipboard", "no clipboard", "refused"])
def opened(page: Page, made: Made, request: pytest.FixtureRequest) -> Page:
    """The page, also in a browser whose clipboard is missing or may not be used."""
    page.open(made.path)
    if request.param == "no clipboard":
        page.js("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    elif request.param == "refused":
        page.js("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    return page


def copied(page: Page, target: str, name: str) -> str:
    """Presses a button, and returns what a paste brings."""
    (button,) = [b for b in page.all(f"#{target} .copies button") if b.text == name]
    page.js("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    page.until(lambda: page.one(f"#{target} .copied").text == f"Copied as {name}")
    page.js(
        "const field = document.createElement('textarea'); field.id = 'pasted';"
        "document.body.append(field); field.focus()"
    )
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys("v").key_up(Keys.CONTROL).perform()
    text: str = page.js(
        "const field = byId('pasted'); const { value } = field; field.remove(); return value"
    )
    return text


def test_a_table_is_copied_as_the_writers_write_it(opened: Page, made: Made) -> None:
    table = build_tables(made.request.for_tables, ["main"]).tables["main"]
    for name, write in WRITERS.items():
        assert copied(opened, "table-main", name) == write(table).replace("\r\n", "\n")
    assert opened.console() == []
