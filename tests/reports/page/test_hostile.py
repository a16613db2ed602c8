"""Hostile text in every place that data can reach does no harm, and is shown as it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import question
from reports.figures.figure_runs import rows
from reports.page.chromium import Page
from reports.page.page_runs import page_of, records_of
from selenium.common.exceptions import NoAlertPresentException

SCRIPT = "<script>window.harm = 1</script>"
IMAGE = "<img src=x onerror='window.harm = 1; alert(1)'>"
BREAK = "</script><script>window.harm = 1</script><!--"
TURNED = "abc \u202egnp.exe\u202c \u200b \u2028 \x07 end"
LONG = ("Long words. " * 8_600)[:102_400]
ID = f"{SCRIPT}&amp;\"'`$title-base"


def hostile(record: dict[str, Any], number: int) -> dict[str, Any]:
    """Returns a record whose texts attack the page."""
    criteria = record["input"]["questions"]["decision"]["criteria"]
    answers = [f"{SCRIPT}{at}" for at in range(len(criteria))]
    decision = question(instructions=f"{IMAGE} {BREAK}", criteria=dict.fromkeys(answers, IMAGE))
    state = [SCRIPT, IMAGE, BREAK, TURNED, "javascript:alert(1)", "${7*7} {{7*7}} $title"]
    record = json.loads(json.dumps(record))
    record["input"] = {
        "state": [*state, LONG] if number == 0 else state,
        "questions": {"decision": decision},
    }
    record["reference"]["target"] = answers[int(record["reference"]["target"].rpartition("_")[2])]
    return record


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = rows(3, families=9).filter(pl.col("kind") == "choice")
    first = frame["id"][0]
    named = pl.when(pl.col("id") == first).then(pl.lit(ID)).otherwise(pl.col("id"))
    frame = frame.with_columns(named.alias("id"), pl.lit(f"{IMAGE}{TURNED}").alias("domain"))
    records = [hostile(record, at) for at, record in enumerate(records_of(frame))]
    return page_of(tmp_path_factory.mktemp("hostile"), frame, records)


@pytest.fixture
def opened(page: Page, attacked: Path) -> Page:
    page.open(attacked)
    page.sort("item")
    return page


def unharmed(page: Page) -> bool:
    with pytest.raises(NoAlertPresentException):
        page.driver.switch_to.alert.dismiss()
    harmed: bool = page.js("return 'harm' in window || document.title.includes('harm')")
    return not harmed


def test_nothing_runs_and_nothing_is_asked_for(opened: Page, attacked: Path) -> None:
    for place in range(len(opened.cells("item"))):
        opened.js("document.querySelectorAll('#rows button.item')[arguments[0]].click()", place)
    opened.until(lambda: len(opened.all(".detail-box .answers")) == len(opened.rows()))
    opened.js("byId('search').value = '<script>'; return search()")
    assert unharmed(opened)
    assert opened.console() == []
    assert opened.requests() == [attacked.resolve().as_uri()]
    assert not opened.all(
        "main img, main script:not([type='application/json']), main iframe, #rows [onerror]"
    )


def test_text_is_shown_as_it_stands(opened: Page) -> None:
    assert ID in opened.cells("item")
    box = opened.open_item(opened.cells("item").index(ID))
    text = box.text
    for payload in (ID, SCRIPT, IMAGE, BREAK, "javascript:alert(1)", "${7*7} {{7*7}} $title"):
        assert payload in text
    assert IMAGE in opened.cells("domain")[0]
    assert unharmed(opened)


def test_what_cannot_be_seen_is_shown_as_a_badge(opened: Page) -> None:
    box = opened.open_item(opened.cells("item").index(ID))
    badges = [badge.text for badge in box.find_elements("css selector", ".control")]
    for code in ("U+202E", "U+202C", "U+200B", "U+2028", "U+0007"):
        assert code in badges
    script = "return arguments[0].textContent"
    assert not {"\u202e", "\u202c", "\u200b"} & set(opened.js(script, opened.one("main")))


def test_a_long_context_is_shortened_until_asked_for(opened: Page) -> None:
    box = opened.open_item(opened.cells("item").index(ID))
    context = box.find_element("css selector", ".context")
    assert len(context.text) < 5_000
    button = context.find_element("css selector", "button")
    assert button.text.startswith("Show all 102,")
    button.click()
    shown = opened.js("return arguments[0].textContent", context)
    assert LONG in shown


def test_the_policy_stops_a_script_that_gets_in(opened: Page) -> None:
    outcome = opened.js(
        "const s = document.createElement('script');"
        "try { s.textContent = 'window.harm = 1'; } catch (error) { return error.name; }"
        "document.body.append(s); return 'let in';"
    )
    assert outcome == "TypeError"
    refused = opened.js(
        "try { document.body.innerHTML = '<b>x</b>'; } catch (error) { return error.name; }"
    )
    assert refused == "TypeError"
    assert unharmed(opened)
    opened.console()


def test_the_file_itself_ends_no_script_early(attacked: Path) -> None:
    text = attacked.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>")
    data = text.split('<script type="application/json" id="page-data">')[1].split("</script>")[0]
    assert "<" not in data
    json.loads(data)
    assert "\u202e" not in text
    assert "<img" not in text
