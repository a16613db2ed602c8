"""A page of 100,000 items opens without freezing, and stays small enough to be sent around."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reports.page.chromium import Page
from reports.page.page_runs import experiment_of
from run_frames import edit_run, write_run

from pact_eval.data.records import Answer, Field, Record
from pact_eval.evaluation.item_records import ItemRecords
from pact_eval.evaluation.settings import Settings
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.rows import SCHEMA
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.item_blocks import to_steps
from pact_reports.request import Request

ITEMS = 100_000
VIEWS = 4
MEGABYTE = 1_000_000

# What a busy machine of two cores may need; the figures themselves are printed.
MOST_SECONDS = 30.0
LONGEST_TASK_MS = 1_500.0

WATCH = """
globalThis.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
  if (document.documentElement?.dataset.ready) globalThis.readyAt ??= performance.now();
}).observe(document, { attributes: true, subtree: true, childList: true });
"""


@dataclass(frozen=True)
class Large:
    """The page of a large run, and the numbers that it was made of."""

    path: Path
    keys: list[int]
    seconds: float


def large_frame() -> pl.DataFrame:
    """Returns a run of choices among three answers, made as arrays."""
    rng = np.random.default_rng(5)
    item = np.repeat(np.arange(ITEMS), VIEWS)
    view = np.tile(np.arange(VIEWS), ITEMS)
    reference = rng.integers(0, 3, ITEMS)
    logits = rng.normal(0, 1, (ITEMS, 1, 3)) + rng.normal(0, 0.4, (ITEMS, VIEWS, 3))
    logits[np.arange(ITEMS), :, reference] += 1.5
    orders = np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 2, 1]])
    text = pl.Series(item)
    family = (text // 2).cast(pl.String).str.zfill(6)
    base = text % 2 == 0
    variant = pl.select(pl.when(base).then(pl.lit("base")).otherwise(pl.lit("counterfactual")))
    return pl.DataFrame(
        {
            "id": "family-" + family + "-" + variant.to_series(),
            "family": "family-" + family,
            "source_family": "source-" + (text % 200).cast(pl.String),
            "domain": "domain-" + (text // 2 % 8).cast(pl.String),
            "kind": pl.Series(["choice"]).new_from_index(0, len(item)),
            "variant": variant.to_series(),
            "reference": reference[item],
            "n_choices": np.full(len(item), 3),
            "view": view,
            "code_order": pl.Series(orders[view]).arr.to_list(),
            "logits": pl.Series(logits.reshape(-1, 3).astype(np.float32)).arr.to_list(),
            "prompt_tokens": rng.integers(200, 900, ITEMS)[item],
            "answer_mass": rng.uniform(0.9, 1.0, len(item)).astype(np.float32),
        }
    ).cast(dict(SCHEMA))  # type: ignore[arg-type]


def large_records(frame: pl.DataFrame) -> dict[str, Record]:
    """Returns records whose contexts are sentences of words drawn at random, about 500 signs."""
    rng = np.random.default_rng(6)
    words = np.array([f"{a}{b}" for a in ("ra", "to", "mel", "vin") for b in ("dor", "shi", "nap")])
    field = Field("decision", "choice", "Which one?", tuple(Answer(k, f"Use {k}.") for k in "abc"))
    first = frame.filter(pl.col("view") == 0)
    records = {}
    for at, row in enumerate(first.select("id", "family", "variant", "reference").iter_rows()):
        if at % 2 == 0:
            sentence = " ".join(words[rng.integers(0, len(words), 80)].tolist())
        edited = "intact" if row[2] == "base" else "broken"
        state = f"Clerk {at // 2} said that the seal was {edited}. {sentence}"
        records[row[0]] = Record(
            *(
                row[0],
                row[1],
                "s",
                "validation",
                "d",
                row[2],
                state,
                field,
                row[3],
                None,
                {},
                at + 1,
            )
        )
    return records


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Large:
    folder = tmp_path_factory.mktemp("large")
    frame = large_frame()
    run = write_run(folder / "run", frame, arm="pact", seed=17)
    contract = {"name": NIMBLE.name, "fingerprint": NIMBLE.fingerprint}
    edit_run(run, settings={"contract": contract})
    experiment = experiment_of([run], Settings(resamples=100))
    request = Request(
        experiment,
        ItemRecords(large_records(frame)),
        figures=("confidence",),
        tables=("splits",),
    )
    start = time.monotonic()
    write_page(make_page(request), folder / "page.html")
    keys = to_steps(experiment.runs[0].scored().confidence).tolist()
    return Large(folder / "page.html", keys, time.monotonic() - start)


@pytest.fixture
def opened(page: Page, large: Large) -> Page:
    page.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    return page.open(large.path)


def longest_task(page: Page) -> float:
    """Returns the longest time that the page did nothing else, and forgets what was before."""
    longest: float = page.js(
        "const most = Math.max(0, ...longTasks); longTasks.length = 0; return most"
    )
    return longest


def test_opening_sorting_and_searching_do_not_freeze(
    opened: Page, large: Large, capsys: pytest.CaptureFixture[str]
) -> None:
    megabytes = large.path.stat().st_size / MEGABYTE
    seconds = opened.js("return readyAt") / 1000
    loading = longest_task(opened)
    opened.sort("confidence")
    assert opened.rows() == sorted(range(ITEMS), key=lambda row: (-large.keys[row], row))
    sorting = longest_task(opened)
    start = time.monotonic()
    opened.js("byId('search').value = 'clerk 49999 '; return search()")
    searched = time.monotonic() - start
    assert sorted(opened.rows()) == [99_998, 99_999]
    searching = longest_task(opened)
    opened.open_item()
    assert "Clerk 49999" in opened.one(".context").text
    assert "Clerk 49999" in str(opened.one(".prompt > div .message").get_attribute("textContent"))
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{ITEMS:,} items: {megabytes:.1f} MB, made in {large.seconds:.0f} s, opened in "
            f"{seconds:.1f} s, all texts searched in {searched:.1f} s; longest task "
            f"{loading:.0f} ms (opening), {sorting:.0f} ms (sorting), {searching:.0f} ms (search)"
        )
    assert megabytes < 30
    assert seconds < MOST_SECONDS
    assert max(loading, sorting, searching) < LONGEST_TASK_MS
    assert opened.console() == []
