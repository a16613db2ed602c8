"""The section of groups: against the report, on narrow screens, and against axe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import refuser, runner
from reports.figures.figure_runs import rows
from reports.page.chromium import Page
from run_frames import write_run

from pact_cli.main import main

run, refused = runner(main), refuser(main)
FAST = ("--resamples", 200)
REGIONS = ("north", "<b>south & east</b>", None, "a name of a region that fills a narrow screen")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs whose families have a region and a number of days."""
    home = tmp_path_factory.mktemp("groups")
    folders = []
    for seed, arm in ((17, "pact"), (18, "base")):
        frame = rows(seed, arm=arm, families=40)
        places = {name: at for at, name in enumerate(frame["family"].unique(maintain_order=True))}
        at = [places[family] for family in frame["family"]]
        regions = [REGIONS[place % len(REGIONS)] for place in at]
        extra: dict[str, list[Any]] = {
            "metadata.region": regions,
            "metadata.days": [float(place) for place in at],
        }
        frame = frame.with_columns(pl.Series(name, values) for name, values in extra.items())
        folders.append(write_run(home / arm, frame, arm=arm, seed=17))
    return folders


@pytest.fixture(scope="module")
def made(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    run("report", *runs, *FAST, "--html", path, "--by", "region")
    return path


@pytest.mark.slow
def test_the_numbers_are_those_of_the_report(runs: list[Path], made: Path, page: Page) -> None:
    page.open(made)
    script = (
        "return [...document.querySelectorAll('#table-groups tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.innerText))"
    )
    shown = page.js(script)
    expected = []
    for folder, label in zip(runs, ("pact, seed 17", "base, seed 17"), strict=True):
        report = json.loads(run("report", folder, *FAST, "--by", "region", "--json").stdout)
        for group in report["groups"]:
            accuracy = group["metrics"]["accuracy"]
            value = f"{100 * accuracy['value']:.1f}"
            ends = f"[{100 * accuracy['low']:.1f}, {100 * accuracy['high']:.1f}]"
            expected.append((label, group["name"], str(group["items"]), value, ends))
    assert len(shown) == len(expected) == 10
    for cells, (label, name, items, value, ends) in zip(shown, expected, strict=True):
        assert cells[:3] == [label, name, items]
        assert cells[4].split() == [value, *ends.split()]


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_bins_divide_numbers_and_are_in_the_digest(runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    by = ("report", runs[0], *FAST, "--html", path, "--by", "days")
    assert "--bins" in refused(*by)
    assert "no such column" in refused("report", runs[0], "--html", path, "--by", "nothing")
    assert not path.exists()
    digests = set()
    for bins in (4, 5):
        run(*by, "--bins", bins)
        text = path.read_text("utf-8")
        table = text[text.index('id="table-groups"') :]
        assert table[: table.index("</table>")].count("<tr") == bins + 2
        embedded = re.search(r'id="page-digest">(.*?)</script>', text, re.DOTALL)
        assert embedded is not None
        digest = json.loads(embedded[1])
        assert (digest["settings"]["by"], digest["settings"]["bins"]) == ("days", bins)
        digests.add(digest["sha256"])
        run("verify", path, runs[0])
    assert len(digests) == 2
