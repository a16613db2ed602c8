"""The item browser in a real browser, against Python on the same numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from reports.figures.figure_runs import rows as rows_of_run
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of, page_of, records_of, two_runs
from run_frames import edit_run, frame_of, write_run
from selenium.webdriver import ActionChains, Keys
from tool_logs.exchange_logs import QUESTIONS, system_one, tickets, write

import pact_eval
from pact_eval import metrics
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import read_item_records
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.html import items_href
from pact_reports.page.item_blocks import to_steps
from pact_reports.request import Request


@dataclass(frozen=True)
class Made:
    """A page and what it was made of."""

    path: Path
    experiment: Experiment


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("page")
    folders, data = two_runs(folder)
    experiment = experiment_of(folders)
    request = Request(
        experiment,
        read_item_records([data], experiment),
        figures=("confidence",),
        tables=("main",),
    )
    write_page(make_page(request), folder / "page.html")
    return Made(folder / "page.html", experiment)


@pytest.fixture
def opened(page: Page, made: Made) -> Page:
    """The items of the first run alone."""
    return page.open(made.path, items_href(0))


def test_no_error_and_no_request_but_the_file(page: Page, tmp_path: Path) -> None:
    """The one page that `make test` opens in Chromium."""
    frame = rows_of_run(17, families=6)
    path = page_of(tmp_path, frame, records_of(frame))
    opened = page.open(path, items_href(0))
    opened.open_item()
    opened.sort("view_tv")
    opened.choose("outcome", "wrong")
    opened.js("byId('search').value = 'seal'; return search()")
    assert opened.console() == []
    assert opened.requests() == [path.resolve().as_uri()]


@pytest.mark.parametrize(
    ("column", "calibrated"), [("confidence", False), ("calibrated", True), ("view_tv", False)]
)
def test_sorting_against_pythons_sort(
    opened: Page, made: Made, column: str, calibrated: bool
) -> None:
    items = made.experiment.runs[0].scored("single", calibrated=calibrated)
    keys = to_steps(items.values["view_tv"] if column == "view_tv" else items.confidence).tolist()
    opened.sort(column)
    assert opened.rows() == sorted(range(len(keys)), key=lambda row: (-keys[row], row))
    assert opened.one(f"th:has([data-sort={column}])").get_attribute("aria-sort") == "descending"
    opened.sort(column)
    assert opened.rows() == sorted(range(len(keys)), key=lambda row: (keys[row], row))
    assert opened.one(f"th:has([data-sort={column}])").get_attribute("aria-sort") == "ascending"
    values = items.values["view_tv"] if column == "view_tv" else items.confidence
    first = [f"{100 * values[row]:.1f}" for row in opened.rows()[:25]]
    assert opened.cells(column) == first


def test_the_top_answer_is_that_before_rounding(page: Page, tmp_path: Path) -> None:
    """Both answers print as 50.0%; the second is the more probable by a millionth."""
    frame = frame_of(id=["a", "b"], logits=[[0.0, 1e-6]] * 2, reference=[0, 0])
    page.open(page_of(tmp_path, frame, None))
    page.open_item()
    assert [cell.text for cell in page.all(".answers td.top")] == ["B 50.0%"]


def test_worst_first_against_hand_order(opened: Page, made: Made) -> None:
    items = made.experiment.runs[0].scored()
    confidence, tv = (
        to_steps(values).tolist() for values in (items.confidence, items.values["view_tv"])
    )

    def key(row: int) -> tuple[int, float, int]:
        if not items.correct[row] and items.confidence[row] >= 0.9:
            return 0, -confidence[row], row
        if items.values["flip_rate"][row]:
            return 1, -tv[row], row
        if not items.correct[row]:
            return 2, -confidence[row], row
        return 3, 0, row

    assert opened.rows() == sorted(range(len(items.correct)), key=key)


def test_filtering_against_numpy(opened: Page, made: Made) -> None:
    items = made.experiment.runs[0].scored()
    views = items.predictions
    answer = metrics.predicted(items.log_probs)
    pairs = metrics.pair_rows(views.family, views.variant == "base")
    both = items.correct[pairs.base] & items.correct[pairs.counterfactual]
    same = answer[pairs.base] == answer[pairs.counterfactual]

    def members(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> set[int]:
        return {*pairs.base[mask].tolist(), *pairs.counterfactual[mask].tolist()}

    rows_of_filter = {
        ("outcome", "wrong"): set(np.flatnonzero(~items.correct).tolist()),
        ("outcome", "flips between views"): set(
            np.flatnonzero(items.values["flip_rate"] == 1).tolist()
        ),
        ("outcome", "confident errors (90% or more)"): set(
            np.flatnonzero(~items.correct & (items.confidence >= 0.9)).tolist()
        ),
        ("pair", "both right"): members(both),
        ("pair", "both get the same answer"): members(same),
        ("kind", "score"): set(np.flatnonzero(views.kind == "score").tolist()),
        ("domain", "travel"): set(np.flatnonzero(views.domain == "travel").tolist()),
    }
    for (name, words), rows in rows_of_filter.items():
        opened.choose(name, words)
        assert set(opened.rows()) == rows, words
        opened.choose(name, "all")
    opened.choose("kind", "score")
    opened.choose("outcome", "wrong")
    wrong_scores = rows_of_filter["kind", "score"] & rows_of_filter["outcome", "wrong"]
    assert set(opened.rows()) == wrong_scores
    opened.settled(lambda: opened.one("#reset").click())
    assert len(opened.rows()) == len(views)


@pytest.mark.parametrize(
    ("words", "matches"),
    [
        ("F7-BASE", lambda name: name == "f7-base"),
        ("broken", lambda name: name.endswith("counterfactual")),
        ("no such words", lambda name: name == ""),
    ],
)
def test_search_in_ids_and_contexts(opened: Page, made: Made, words: str, matches: object) -> None:
    assert callable(matches)
    ids = made.experiment.runs[0].predictions.ids.tolist()
    box = opened.one("#search")
    opened.settled(lambda: box.send_keys(words, Keys.ENTER))
    opened.until(lambda: not opened.one("#searching").is_displayed())
    assert {ids[row] for row in opened.rows()} == {name for name in ids if matches(name)}
    box.clear()
    opened.settled(lambda: box.send_keys(Keys.ENTER))
    assert len(opened.rows()) == len(ids)


@pytest.mark.parametrize("place", [0, 3, 11])
def test_probabilities_against_numpys_softmax(opened: Page, made: Made, place: int) -> None:
    run = made.experiment.runs[0]
    opened.sort("item")
    opened.open_item(place)
    row = opened.rows()[place]
    n = int(run.predictions.n_choices[row])
    logits = run.predictions.logits[row, :, :n]
    views = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    together = np.exp(np.log(views).mean(axis=0))
    shown = [
        *views,
        together / together.sum(),
        np.exp(run.scored(calibrated=True).log_probs[row, :n]),
    ]
    lines = opened.all(".answers tbody tr")
    assert len(lines) == n
    for answer, line in enumerate(lines):
        cells = [cell.text.split()[-1] for cell in line.find_elements("css selector", "td")]
        assert cells == [f"{100 * view[answer]:.1f}%" for view in shown]
        letters = [cell.text.split()[0] for cell in line.find_elements("css selector", "td")[:4]]
        order = run.predictions.code_order[row, :, :n]
        assert letters == ["ABCDEF"[list(view).index(answer)] for view in order]
    heads = [head.text for head in opened.all(".answers thead th")]
    assert heads[1:] == [
        "view 0",
        "view 1",
        "view 2",
        "view 3",
        "mean of views",
        "single after T(x)",
    ]


def test_keyboard_alone(page: Page, made: Made) -> None:
    opened = page.open(made.path)

    def press(*keys: str) -> None:
        ActionChains(opened.driver).send_keys(*keys).perform()

    def focused() -> str:
        text: str = opened.js("return document.activeElement.innerText")
        return text

    press(Keys.TAB)
    assert focused() == "Skip to the answer"
    press(Keys.ENTER)
    opened.js("document.querySelector('[data-sort=item]').focus()")
    opened.settled(lambda: press(Keys.ENTER))
    assert focused() == "Item"
    opened.js("document.querySelector('#rows button.item').focus()")
    names = opened.cells("item")
    press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert focused() == names[2]
    press(Keys.ARROW_UP)
    assert focused() == names[1]
    press(Keys.ENTER)
    opened.until(lambda: opened.all(".detail-box .answers"))
    assert opened.one(".detail-box h3").text == names[1]
    press(Keys.ESCAPE)
    opened.until(lambda: not opened.all(".detail-box"))
    assert focused() == names[1]
    press(Keys.END)
    assert focused() == names[-1]
    press(Keys.PAGE_DOWN)
    opened.until(lambda: opened.one("#page").get_attribute("value") == "2")
    opened.until(lambda: focused() == opened.cells("item")[0])


@pytest.mark.parametrize("section", ["order-of-answers", "calibration"])
def test_a_finding_leads_to_its_items(opened: Page, made: Made, section: str) -> None:
    links = opened.all(f"#{section} .findings a")
    assert len(links) == len(made.experiment.runs)
    for run, link in zip(made.experiment.runs, links, strict=True):
        items = run.scored()
        mask = items.values["flip_rate"] == 1 if section == "order-of-answers" else ~items.correct
        opened.settled(partial(opened.js, "arguments[0].click()", link))
        assert set(opened.rows()) == set(np.flatnonzero(mask).tolist())


def test_the_items_of_the_first_screen_open_their_panels(opened: Page, made: Made) -> None:
    links = opened.all(".examples li a")
    assert len(links) == 3
    a, b = (run.scored() for run in made.experiment.runs)
    ids = made.experiment.runs[0].predictions.ids.tolist()
    for link in links:
        opened.js("arguments[0].click()", link)
        href = str(link.get_attribute("href"))
        (row,) = (at for at, name in enumerate(ids) if f"#item={name}&" in href)
        assert a.correct[row] != b.correct[row]
        panel = f"#rows tr[data-row='{row}'] + tr.detail .answers"
        opened.until(partial(opened.all, panel))


def test_every_question_of_a_log_names_its_own_answers(page: Page, tmp_path: Path) -> None:
    """The list, and the panel of an item, have the words of the question that was asked."""
    log = write(tmp_path / "log.jsonl", system_one(tickets(4)))
    pact_eval.import_run(log, tmp_path / "run")
    request = Request(experiment_of([tmp_path / "run"]), figures=(), tables=("splits",))
    write_page(make_page(request), tmp_path / "page.html")
    opened = page.open(tmp_path / "page.html", items_href(0))
    topics = QUESTIONS["topic"]["criteria"]
    rows = {row.text.split()[0]: row.text for row in opened.all("#rows tr")}
    assert len(rows) == 12
    for ticket in tickets(4):
        assert ticket.labels["topic"] in rows[f"{ticket.id}/topic"]
        refund = "true" if ticket.labels["refund"] else "false"
        assert refund in rows[f"{ticket.id}/refund"]
    at = next(at for at, item in enumerate(rows) if item.endswith("/topic"))
    opened.open_item(at)
    names = [cell.text.split()[0] for cell in opened.all(".answers tbody th")]
    assert names == sorted(topics)


def test_answers_of_an_import_are_its_options(page: Page, tmp_path: Path) -> None:
    """The list, and the panel of an item, name the options of `run.json` instead of letters."""
    frame = frame_of(id=["a", "b"], logits=[[0.0, 2.0, 1.0]] * 2, reference=[0, 1])
    options = ["refund", "replace", "<reject>"]
    folder = edit_run(write_run(tmp_path / "run", frame), log={"options": options})
    request = Request(experiment_of([folder]), figures=(), tables=("splits",))
    write_page(make_page(request), tmp_path / "page.html")
    opened = page.open(tmp_path / "page.html", items_href(0))
    row = opened.one("#rows tr").text
    assert "replace" in row
    assert "refund" in row
    assert not opened.one("#without-texts").is_displayed()
    opened.open_item()
    names = [cell.text.split()[0] for cell in opened.all(".answers tbody th")]
    assert names == options
