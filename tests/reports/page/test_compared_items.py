"""Two runs next to each other in a real browser, and addresses that open items or list them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from axe_core_python.selenium import Axe
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of, two_runs
from run_frames import edit_run

from pact_eval import metrics
from pact_eval._typing import BoolArray
from pact_eval.data.records import Record
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import read_item_records
from pact_eval.prompts.nimble import NIMBLE
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.html import item_href, items_href
from pact_reports.request import Request

CONTRACT = {"name": NIMBLE.name, "fingerprint": NIMBLE.fingerprint}


@dataclass(frozen=True)
class Compared:
    """A page of two runs and what it was made of."""

    path: Path
    experiment: Experiment
    records: dict[str, Record]

    @property
    def right(self) -> tuple[BoolArray, BoolArray]:
        a, b = (run.scored().correct for run in self.experiment.runs)
        return a, b

    def rows(self, ids: list[str]) -> list[int]:
        names = self.experiment.runs[0].predictions.ids.tolist()
        return [names.index(name) for name in ids]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("compared")
    folders, data = two_runs(folder)
    for run_folder in folders:
        edit_run(run_folder, settings={"contract": CONTRACT})
    experiment = experiment_of(folders)
    records = read_item_records([data], experiment)
    request = Request(experiment, records, figures=(), tables=("main",))
    write_page(make_page(request), folder / "page.html")
    return Compared(folder / "page.html", experiment, dict(records.records))


@pytest.fixture
def opened(page: Page, made: Compared) -> Page:
    return page.open(made.path)


def address(page: Page) -> str:
    fragment: str = page.js("return location.hash")
    return fragment


def open_ids(page: Page) -> list[str]:
    return [head.text for head in page.all(".detail-box:has(.answers) h3")]


def test_which_run_is_right_against_numpy(opened: Page, made: Compared) -> None:
    a, b = made.right
    rows_of_button = {
        "only-a": a & ~b,
        "only-b": ~a & b,
        "both-wrong": ~a & ~b,
        "both-right": a & b,
        "": np.full(len(a), fill_value=True),
    }
    for name, mask in rows_of_button.items():
        button = opened.one(f"#compare [data-compare='{name}']")
        assert int(button.text.split()[-1]) == mask.sum()
        opened.settled(button.click)
        assert set(opened.rows()) == set(np.flatnonzero(mask).tolist()), name
        assert (
            opened.one("#compare [aria-pressed=true]").text
            == opened.one(f"#compare [data-compare='{name}']").text
        )
    opened.choose("kind", "score")
    kinds = made.experiment.runs[0].predictions.kind
    counted = int(opened.one("#compare [data-compare='only-a']").text.split()[-1])
    assert counted == (a & ~b & (kinds == "score")).sum()


def test_differences_first_against_hand_order(opened: Page, made: Compared) -> None:
    a, b = (run.scored() for run in made.experiment.runs)

    def key(row: int) -> tuple[int, float]:
        right = (bool(a.correct[row]), bool(b.correct[row]))
        if right == (True, True):
            return (2 if a.values["flip_rate"][row] or b.values["flip_rate"][row] else 3), 0
        if right == (False, False):
            return 1, -max(a.confidence[row], b.confidence[row])
        return 0, -(b if right[0] else a).confidence[row]

    assert opened.rows() == sorted(range(len(a.correct)), key=key)
    assert opened.one("#order").text.startswith("Differences first")


@pytest.mark.parametrize("calibrated", [False, True])
def test_a_bin_lists_its_items_against_the_reliability_curve(
    page: Page, made: Compared, calibrated: bool
) -> None:
    items = made.experiment.runs[1].scored(calibrated=calibrated)
    bins = metrics.reliability(items.confidence, items.correct)
    filled = int(np.argmax(bins.count))
    page.open(made.path, items_href(1, bin_=filled, calibrated=calibrated))
    assert len(page.rows()) == bins.count[filled]
    assert (metrics.bin_index(items.confidence)[page.rows()] == filled).all()
    assert f"{100 * bins.edges[filled]:.1f}% to" in page.one("#only").text
    page.settled(page.one("#only-reset").click)
    assert len(page.rows()) == len(items)


def test_an_address_opens_an_item_and_survives_a_reload(page: Page, made: Compared) -> None:
    for name in ("f17-counterfactual", "f0-base"):
        page.open(made.path, item_href(name))
        for again in (False, True):
            if again:
                page.driver.refresh()
                page.until(lambda: page.js("return document.documentElement.dataset.ready"))
            assert open_ids(page) == [name]
            assert page.js("return document.activeElement.innerText") == name
            top = page.js("return document.activeElement.getBoundingClientRect().top")
            assert 0 <= top < 1000
            assert address(page) == item_href(name)
    assert page.one(".tools a").get_attribute("href") == page.js("return location.href")
    assert page.console() == []


def test_addresses_that_name_nothing(page: Page, made: Compared) -> None:
    page.open(made.path, item_href("</p><b>gone\u202e"))
    assert 'has the id "</p><b>gone[U+202E]"' in page.one("#items-message").text
    for fragment in ("#item=%E0%A4%A", "#items&a=9&b=x&bin=99&kind=none", "#nowhere"):
        page.open(made.path, fragment)
        assert len(page.rows()) == 80
        assert page.console() == []


def test_the_prompt_of_every_view_is_that_of_the_contract(page: Page, made: Compared) -> None:
    run = made.experiment.runs[0].predictions
    for name in ("f0-counterfactual", "f5-base"):
        record = made.records[name]
        page.open(made.path, item_href(name))
        page.until(lambda: page.all(".prompt .message"))
        page.one(".prompt > summary").click()
        row = made.rows([name])[0]
        texts = "return [...document.querySelectorAll('.prompt .message')].map(m => m.textContent)"
        for view in range(run.k):
            change = (
                "const s = document.querySelector('.prompt select'); s.value = arguments[0];"
                "s.dispatchEvent(new Event('change'))"
            )
            page.js(change, view)
            order = run.code_order[row, view, : record.n_choices].tolist()
            messages = NIMBLE.messages(record.state, [record.field], record.field.name, order)
            assert page.js(texts) == [message["content"] for message in messages]
        edited = {"base": "intact", "counterfactual": "broken"}[record.variant]
        assert [mark.text for mark in page.all(".prompt mark")] == [edited]


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_axe_finds_no_violation_with_an_item_open(
    page: Page, made: Compared, width: int, scheme: str
) -> None:
    metrics_ = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    page.cdp("Emulation.setDeviceMetricsOverride", **metrics_)
    try:
        page.open(made.path, item_href("f0-base"), scheme=scheme)
        page.until(lambda: page.all(".prompt .message"))
        assert page.js("return document.documentElement.scrollWidth") <= width
        result = Axe().run(page.driver)
        assert len(result["passes"]) > 20
        assert [violation["id"] for violation in result["violations"]] == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")
