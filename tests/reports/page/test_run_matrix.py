"""Runs by questions in a real browser, against the conclusions of the library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from axe_core_python.selenium import Axe
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import rows, write_run

from pact_eval.evaluation.conclusions.better import turned
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.experiment_conclusions import conclude_runs
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.run_differences import run_differences
from pact_reports.numbers import p_value_text, value_text
from pact_reports.page import run_matrix
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.item_links import items_href
from pact_reports.page.request import PageRequest
from pact_reports.sentences.conclusions import order_words, probabilities_words

SKILLS = {"pact": 2.0, "nimble_recipe": 1.2, "close": 1.9, "ce_only": 2.6, "weak": 0.3}


@dataclass(frozen=True)
class Made:
    """A page of several arms, one run each, and what it was made of."""

    path: Path
    experiment: Experiment


def made_of(folder: Path, skills: dict[str, float]) -> Made:
    folders = [
        write_run(folder / arm, rows(n, k=3, families=40, skill=skill), arm=arm, seed=17)
        for n, (arm, skill) in enumerate(skills.items())
    ]
    experiment = experiment_of(folders)
    request = PageRequest(experiment, figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    return Made(folder / "page.html", experiment)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made_of(tmp_path_factory.mktemp("matrix"), SKILLS)


def follow(page: Page, row: int, href: str) -> None:
    """Follows the link of a row of the matrix."""
    line = page.all("#runs tbody tr")[row]
    page.js("arguments[0].click()", line.find_element("css selector", f"a[href='{href}']"))


def visible(page: Page) -> list[str]:
    """Returns the visible text of the differences, by run."""
    cells = "[...document.querySelectorAll('#runs tbody td:nth-child(3)')]"
    script = f"return {cells}.map(td => td.innerText)"
    texts: list[str] = page.js(script)
    return [" ".join(text.split()) for text in texts]


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


def test_a_click_makes_a_run_the_reference(page: Page, made: Made) -> None:
    page.open(made.path)
    compared = run_differences(made.experiment, range(len(SKILLS)))
    assert {one.status for row in compared for one in row if one} >= {
        "better",
        "worse",
        "not shown",
    }
    for reference in (0, 3, 1):
        page.all("#runs th button")[reference].click()
        texts = visible(page)
        assert texts[reference] == "reference"
        pressed = page.all("#runs [aria-pressed=true]")
        assert [button.text for button in pressed] == [made.experiment.runs[reference].label]
        assert page.one("#runs thead").text.count("from ") == 1
        for at, difference in enumerate(compared[reference]):
            if difference is None:
                continue
            assert texts[at].startswith(value_text(difference.difference.value, "points"))
            assert texts[at].endswith(difference.status)
            tested = p_value_text(difference.evidence.deciding)
            assert (tested in texts[at]) == (not difference.shown), "p next to a hollow mark alone"
    assert page.console() == []


def test_words_and_colours_are_those_of_the_conclusions(page: Page, made: Made) -> None:
    page.open(made.path)
    audit = DataConclusion.without_audit("no dataset was given")
    told = conclude_runs(made.experiment, audit)
    for line, run in zip(page.all("#runs tbody tr"), told, strict=True):
        words = (
            (run.data, run.data.status.capitalize()),
            (run.order, order_words(run.order).finding),
            (run.probabilities, probabilities_words(run.probabilities).finding),
        )
        cells = [
            cell.find_element("css selector", "a span")
            for cell in line.find_elements("css selector", "td")[2:]
        ]
        for cell, (conclusion, word) in zip(cells, words, strict=True):
            assert cell.text == word
            assert cell.get_attribute("class") == conclusion.tone


def test_a_planted_letter_and_confidence_are_named_in_the_row_of_their_run(
    page: Page, tmp_path: Path
) -> None:
    sound = [rows(n, k=3, families=60, skill=9.0) for n in range(2)]
    first = pl.col("code_order").list.first()
    towards_a = pl.concat_list(
        *(pl.when(first == at).then(9.0).otherwise(0.0) for at in range(6))
    ).list.head(pl.col("n_choices"))
    biased = rows(2, k=3, families=60, skill=0.5)
    biased = biased.with_columns((pl.col("logits") + towards_a).cast(pl.List(pl.Float32)))
    folders = [
        write_run(tmp_path / arm, frame, arm=arm, seed=1)
        for arm, frame in zip(("a", "b", "biased"), [*sound, biased], strict=True)
    ]
    request = PageRequest(experiment_of(folders), figures=(), tables=("splits",))
    write_page(make_page(request), tmp_path / "page.html")
    page.open(tmp_path / "page.html")
    *others, line = page.all("#runs tbody tr")
    for words in ("Follows the letter A", "Over-confident", "worse"):
        assert line.find_elements("xpath", f".//span[@class='bad' and text()='{words}']"), words
        assert not any(words in other.text for other in others)


def test_every_cell_links_to_its_items(page: Page, made: Made) -> None:
    page.open(made.path)
    for at, run in enumerate(made.experiment.runs):
        items = run.scored()
        wrong, flips = items_href(at, outcome="wrong"), items_href(at, outcome="flips")
        for href, mask in ((wrong, ~items.correct), (flips, items.flipped == 1)):
            page.settled(partial(follow, page, at, href))
            assert set(page.rows()) == set(np.flatnonzero(mask).tolist())
    cells = page.all("#runs tbody td")
    assert all(
        cell.find_elements("css selector", "a") for cell in cells if cell.text != "reference"
    )


def test_of_many_runs_the_reference_is_fixed(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_matrix, "MOST_REFERENCES", 2)
    page.open(made_of(tmp_path, dict(list(SKILLS.items())[:3])).path)
    assert not page.all("#runs th button")
    assert visible(page)[0] == "reference"
    assert "With more than 2 runs" in page.one("#runs .hint").text


def test_runs_on_different_items_have_no_differences(page: Page, tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, rows(1, families=families), arm=arm, seed=1)
        for arm, families in (("a", 6), ("b", 9), ("c", 9))
    ]
    request = PageRequest(experiment_of(folders), figures=(), tables=("splits",))
    write_page(make_page(request), tmp_path / "page.html")
    page.open(tmp_path / "page.html")
    assert visible(page) == ["other items"] * 3
    assert len(re.findall(r"\[\d", page.one("#runs tbody").text)) == 3, "accuracies"


def lines_of_answer(page: Page) -> int:
    """Returns the number of lines that the answer takes."""
    script = (
        "const answer = document.querySelector('.answer');"
        "return answer.offsetHeight / parseFloat(getComputedStyle(answer).lineHeight)"
    )
    lines: float = page.js(script)
    return round(lines)


@pytest.fixture(scope="module", params=[5, 7], ids=["five runs", "seven runs"])
def of_many(
    request: pytest.FixtureRequest, made: Made, tmp_path_factory: pytest.TempPathFactory
) -> Made:
    """The page of five runs, and that of seven."""
    if request.param == len(SKILLS):
        return made
    skills = SKILLS | {"strong": 3.0, "an-arm-with-a-long-name": 1.0}
    return made_of(tmp_path_factory.mktemp("seven"), skills)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_matrix_fits_two_screens_without_violations_of_axe(
    page: Page, of_many: Made, width: int, scheme: str
) -> None:
    height = 844 if width == 390 else 900
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.cdp("Emulation.setDeviceMetricsOverride", **size)
    try:
        page.open(of_many.path, scheme=scheme)
        assert len(page.all("#runs tbody tr")) == len(of_many.experiment.runs)
        assert page.js("return document.documentElement.scrollWidth") <= width
        hidden = "const s = document.querySelector('#runs .scroll'); "
        hidden += "return s.scrollWidth - s.clientWidth"
        assert page.js(hidden) == 0
        bottom = "return document.querySelector('#runs').getBoundingClientRect().bottom"
        assert page.js(bottom) < 2 * height
        assert lines_of_answer(page) <= 3
        outcome = Axe().run(page.driver)
        assert len(outcome["passes"]) > 20
        assert [violation["id"] for violation in outcome["violations"]] == []
    finally:
        page.cdp("Emulation.clearDeviceMetricsOverride")
