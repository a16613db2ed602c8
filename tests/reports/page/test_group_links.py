"""Bars of groups: their links list the wrong answers, and only worse groups are red."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qs, unquote

import numpy as np
import polars as pl
import pytest
from conclusions.grouped_runs import broken_domains, frame_of_groups, texts
from reports.page.page_runs import experiment_of
from run_frames import write_run

from pact_reports.page.assembly import make_page
from pact_reports.request import Request


def page_on(frame: pl.DataFrame, home: Path) -> str:
    experiment = experiment_of([write_run(home / "run", frame, arm="a")])
    return make_page(Request(experiment, figures=(), tables=("splits",)))


def bars(page: str) -> dict[str, tuple[str, bool]]:
    """The link of each bar of the first screen, and whether it is red, by the name of the row."""
    picture = page[page.index('<div class="picture">') : page.index('<div class="examples">')]
    rows = re.findall(r"<tr>\s*<th scope=\"row\".*?</tr>", picture, re.DOTALL)
    named = {}
    for row in rows:
        name = re.sub("<.*?>", "", row[: row.index("</th>")]).strip()
        (href,) = re.findall(r'href="(.*?)"', row) or [""]
        named[name] = html.unescape(href), "bar-to differs" in row
    return named


def test_bars_of_any_column_lead_to_their_wrong_answers(tmp_path: Path) -> None:
    frame = broken_domains(1)
    shown = bars(page_on(frame, tmp_path))
    wrong = frame.filter(pl.col("reference") == 1)
    for topic in range(3, 8, 4):
        href, red = shown[f"d{topic} (30)"]
        ids = [
            unquote(name) for name in parse_qs(href.removeprefix("#items&"))["ids"][0].split(",")
        ]
        assert ids == wrong.filter(pl.col("metadata.topic") == f"d{topic}")["id"].to_list()
        assert red
    assert [name for name, (href, _) in shown.items() if not href] == []


@pytest.mark.parametrize("rates", [(0.98, 0.5), (0.3, 0.8)])
def test_only_a_group_that_is_worse_is_red(tmp_path: Path, rates: tuple[float, float]) -> None:
    """One topic of four is better than the others, or worse; both are shown to differ."""
    rng, topic = np.random.default_rng(2), np.repeat(np.arange(4), 60)
    right = rng.random(240) < np.where(topic == 1, *rates)
    frame = frame_of_groups(right, np.full(240, 0.75), {"topic": texts("t", topic)})
    page = page_on(frame, tmp_path)
    red = [name for name, (_, differs) in bars(page).items() if differs]
    better = rates[0] > rates[1]
    assert red == ([] if better else ["t1 (60)"])
    assert ("Red: shown to be worse" in page) != better
