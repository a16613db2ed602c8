"""The docs site builds without a warning, is complete and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest
import site_hooks

import pact_eval
import pact_losses
from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation
from pact_eval import metrics, stats

ROOT = Path(__file__).resolve().parents[1]
PAPER = ROOT / "docs" / "reference" / "paper.md"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. With --strict, a broken link, anchor or docstring fails the build."""
    made = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", made],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return made


class Page(HTMLParser):
    """The ids of a page, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if tag in ("img", "script", "iframe", "source"):
            self.loaded.append(values.get("src", ""))
        if tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(values.get("href", ""))


FIRST_HITS = {
    "threshold": "thresholds.html",
    "csv": "predictions.html",
    "excel": "predictions.html",
    "cost": "scoring.html",
    "GPU": "scoring.html",
    "OVER-CONFIDENT": "messages.html#over-confident-under-confident-miscalibrated",
    "where is it wrong": "report.html#where-is-it-wrong",
    "position bias": "order.html",
    "leak": "data.html",
    "calibrate": "thresholds.html",
    "adapter": "adapter.html",
    "exit code": "messages.html#exit-codes",
}
"""What people type, and what the search of the site shows first."""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the search of the site")
def test_the_search_shows_first_what_people_look_for(site: Path) -> None:
    command = ["node", str(ROOT / "tests" / "search.js"), str(site), *FIRST_HITS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == FIRST_HITS


@pytest.mark.slow
def test_the_site_is_complete_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.name != "demo.html"  # the page of a run has its own tests
    }
    for name, page in pages.items():
        assert not [url for url in page.loaded if "//" in url and "data:" not in url], name
    for module, name in (
        (pact_eval, "pact_eval"),
        (pact_losses, "pact_losses"),
        (metrics, "arrays"),
        (stats, "arrays"),
    ):
        ids = pages[f"reference/{name}.html"].ids
        names = {f"{module.__name__}.{exported}" for exported in site_hooks.exported(module)}
        assert not names - ids, name
    shown = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluation), ("pact-audit", audit)):
        for name, command in group.commands.items():
            assert f"{program}-{name}" in pages["reference/command-line.html"].ids
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert f"<code>{option.opts[0]}" in shown, (name, option.opts)


def test_the_docs_can_be_read() -> None:
    """Their size, so that a new page or paragraph takes the place of another."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    assert len(pages) <= 25
    assert sum(len(page.split()) for page in pages) <= 40_000
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 900
    first_answer = readme[: readme.index("```\n", readme.index("```console"))]
    assert len(first_answer.split()) <= 450


def test_the_tables_of_codes_are_those_of_the_registries() -> None:
    for path, blocks in site_hooks.pages().items():
        page = path.read_text(encoding="utf-8")
        assert page == site_hooks.with_blocks(page, blocks), "run: python docs/site_hooks.py"


def test_at_least_110_items_of_the_paper_work() -> None:
    rows = PAPER.read_text(encoding="utf-8").split("| ---", 1)[1].splitlines()[1:]
    states = [row.rsplit(" | ", 1)[1].removesuffix(" |") for row in rows]
    assert len(states) == 115
    assert states.count("works") >= 110
    assert not [state for state in states if "does not work" in state]


@pytest.mark.slow
def test_the_states_of_the_papers_items_are_from_what_runs(tmp_path: Path) -> None:
    made = tmp_path / "paper.md"
    paths = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(ROOT / "docs" / "paper_items.py"), str(made)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert made.read_text(encoding="utf-8") == PAPER.read_text(encoding="utf-8")
