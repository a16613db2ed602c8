"""The docs site: it builds without a warning, is complete, loads nothing, and reads easily."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import click
import pytest
import site_hooks
from markdown_it import MarkdownIt

import pact_eval
import pact_losses
from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation
from pact_eval import metrics, stats

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LONG = 25
"""Sentences have fewer words than this."""


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
        found = {name: value or "" for name, value in attrs}
        self.ids.add(found.get("id", ""))
        if tag in ("img", "script", "iframe", "source"):
            self.loaded.append(found.get("src", ""))
        if tag == "link" and found.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(found.get("href", ""))


@pytest.mark.slow
def test_the_site_is_complete_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.name != "demo.html"  # the page of a run has its own tests
    }
    for name, page in pages.items():
        assert not [each for each in page.loaded if "//" in each and "data:" not in each], name
    for module, name in (
        (pact_eval, "pact_eval"),
        (pact_losses, "pact_losses"),
        (metrics, "arrays"),
        (stats, "arrays"),
    ):
        ids = pages[f"reference/{name}.html"].ids
        missing = {f"{module.__name__}.{each}" for each in module.__all__} - ids
        assert not missing, name
    shown = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluation), ("pact-audit", audit)):
        for name, command in group.commands.items():
            assert f"{program}-{name}" in pages["reference/command-line.html"].ids
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert f"<code>{option.opts[0]}" in shown, (name, option.opts)


def test_the_tables_of_codes_are_those_of_the_registries() -> None:
    for path, blocks in site_hooks.pages().items():
        page = path.read_text(encoding="utf-8")
        assert page == site_hooks.with_blocks(page, blocks), "run: python docs/site_hooks.py"


def sentences(markdown: str) -> Iterator[str]:
    """Yields the sentences of paragraphs and lists; not those of code, tables and headings."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    for before, token in pairwise(tokens):
        if token.type != "inline" or before.type != "paragraph_open":
            continue
        words = {"code_inline": "Code", "softbreak": " ", "html_inline": ""}
        text = "".join(words.get(each.type, each.content) for each in token.children or ())
        yield from re.split(r"(?<=[.!?])[\")]?\s+", text)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_sentences_are_short(page: Path) -> None:
    found = [each for each in sentences(page.read_text("utf-8")) if len(each.split()) >= LONG]
    assert not found, "\n".join(found)


def test_long_sentences_are_found() -> None:
    long = " ".join(["word"] * LONG)
    page = (
        f"# {long}\n\nA short one. `{long}` is code. {long}.\n\n- {long}\n\n```text\n{long}\n```\n"
    )
    assert [len(each.split()) >= LONG for each in sentences(page)] == [False, False, True, True]


def test_the_essay_on_ece_has_the_numbers_of_the_statistics_page() -> None:
    essay = (DOCS / "why" / "ece.md").read_text(encoding="utf-8")
    measured = (DOCS / "statistics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+)% \| ([\d.]+)% \|$", essay, re.MULTILINE)
    assert len(rows) == 4
    for families, mean, covered in rows:
        (row,) = re.findall(rf"^\| {families} \| 0\.0 \| (.+) \|$", measured, re.MULTILINE)
        cells = row.split(" | ")
        assert (cells[0], float(cells[4])) == (mean, float(covered)), families


FIELD_WORDS = {
    "position": r"\bslots?\b",
    "threshold": r"\bgates?\b(?! for CI| failed)",
    "prediction set": r"\banswer sets?\b",
    "significan": r"\bshown to\b|\b(?:not|none|called|if|differences?|effect|error|gain) "
    r"(?:(?:is|are|can be) )?shown\b",
}
"""The field's words, each with the pattern of ours; a gate for CI is another sense."""


def blocks(markdown: str) -> Iterator[str]:
    """Yields paragraphs, list items and table rows; without headings, code and link targets."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^#.*$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:\||-|\d+\.))", text):
        yield " ".join(block.split())


def unexplained(markdown: str) -> list[str]:
    """Returns the first uses of our words that the field's word is not next to."""
    first_uses = {
        word: next(
            (block for block in blocks(markdown) if re.search(ours, block, re.IGNORECASE)), word
        )
        for word, ours in FIELD_WORDS.items()
    }
    return [block for word, block in first_uses.items() if word not in block.lower()]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_the_words_of_the_field_are_next_to_ours_at_first_use(page: Path) -> None:
    assert not unexplained(page.read_text("utf-8"))


@pytest.mark.parametrize(
    ("bare", "explained"),
    [
        ("Which slots are preferred?", "Which slots (positions) are preferred?"),
        ("| `gates` | the chosen gate |", "| `gates` | the chosen gate (threshold) |"),
        ("An answer set per item.", "An answer set (prediction set) per item."),
        ("No difference is shown.", "No difference is shown (significant)."),
    ],
)
def test_a_first_use_without_the_word_of_the_field_is_noticed(bare: str, explained: str) -> None:
    assert len(unexplained(f"# A position\n\n{bare}\n\n{explained}")) == 1
    assert not unexplained(f"# Title\n\n{explained}\n\n{bare}")


def test_other_senses_of_our_words_need_no_explanation() -> None:
    assert not unexplained("A gate for CI is shown next to the rate.\n\n```text\nslot\n```\n`gate`")
