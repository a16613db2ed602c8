"""The docs site builds without a warning, is complete, loads nothing, reads easily and is found.

The browser opens the site from its folder, without a server.
"""

from __future__ import annotations

import html
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
import site_console
import site_hooks
import site_terms
from axe_core_python.selenium import Axe
from markdown_it import MarkdownIt
from pygments.token import Generic
from reports.page.chromium import start
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

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
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if tag in ("img", "script", "iframe", "source"):
            self.loaded.append(values.get("src", ""))
        if tag == "link" and values.get("rel") not in ("prev", "next", "canonical"):
            self.loaded.append(values.get("href", ""))


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
        missing = {f"{module.__name__}.{exported}" for exported in module.__all__} - ids
        assert not missing, name
    shown = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluation), ("pact-audit", audit)):
        for name, command in group.commands.items():
            assert f"{program}-{name}" in pages["reference/command-line.html"].ids
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert f"<code>{option.opts[0]}" in shown, (name, option.opts)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = start(tmp_path_factory.mktemp("chromium"))
    driver.set_script_timeout(120)
    yield driver
    driver.quit()


SEARCHES = {
    "overconfident": "calibrate",
    "leak": "audit",
    "contamination": "audit",
    "position bias": "order",
    "install": "install",
    "significance": "compare",
    "p-value": "compare",
    "confidence interval": "compare",
    "hallucinated letter": "scoring",
    "temperature": "calibrate",
    "abstain": "thresholds",
}
"""Words that a reader types, and the guide that answers."""


def search(browser: Chrome, site: Path, words: str) -> list[str]:
    """Returns the pages that the search of the site lists for some words, the best first."""
    browser.get("about:blank")  # another query alone does not load a page again
    browser.get(f"{(site / 'index.html').as_uri()}?q={words.replace(' ', '%20')}")
    hits = "return [...document.querySelectorAll('.md-search-result__item > a')].map(a => a.href)"
    addresses: list[str] = WebDriverWait(browser, 60).until(
        lambda driver: driver.execute_script(hits)
    )
    start_of_site = f"{site.as_uri()}/"
    return [link.split("?")[0].split("#")[0].removeprefix(start_of_site) for link in addresses]


@pytest.mark.slow
@pytest.mark.parametrize("words", SEARCHES)
def test_a_search_leads_to_a_guide(browser: Chrome, site: Path, words: str) -> None:
    pages = list(dict.fromkeys(search(browser, site, words)))
    assert f"{SEARCHES[words]}.html" in pages[:3]
    generated = [place for place, page in enumerate(pages) if page.startswith("reference/")]
    assert all(place >= 3 for place in generated), pages


@pytest.mark.slow
def test_a_name_of_the_api_is_found_where_no_guide_has_it(browser: Chrome, site: Path) -> None:
    assert search(browser, site, "crossed_difference")[0] == "reference/arrays.html"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("index", "light"),
        ("index", "dark"),
        ("install", "light"),
        ("order", "dark"),
        ("commands", "light"),
        ("start/predictions", "dark"),
        ("hypotheses", "light"),
        ("drift", "dark"),
        ("glossary", "light"),
    ],
)
def test_axe_finds_no_violation_in_the_content(
    browser: Chrome, site: Path, name: str, scheme: str
) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    browser.get((site / f"{name}.html").as_uri())
    # On a busy machine, the page is not always there when `get` returns.
    underlines = WebDriverWait(browser, 20).until(
        lambda opened: opened.execute_script(
            "return [...document.querySelectorAll('article :is(p, li, td) a[href]')]"
            ".map(a => getComputedStyle(a).textDecorationLine)"
        )
    )
    assert set(underlines) == {"underline"}
    result = Axe().run(browser, "article", {})
    assert len(result["passes"]) > 5
    assert [violation["id"] for violation in result["violations"]] == []


def test_the_glossary_has_the_words_that_other_tools_use() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    table = glossary.partition("## Words of other tools")[2].lower()
    missing = [word for word in SEARCHES if word not in ("install", "leak") and word not in table]
    assert not missing


@pytest.mark.slow
def test_every_term_of_the_glossary_is_defined_on_hover(site: Path) -> None:
    meanings = site_terms.terms()
    assert len(meanings) > 50
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    titles = {title for page in pages for title in re.findall(r'<abbr title="([^"]*)"', page)}
    assert titles <= {html.escape(meaning) for meaning in meanings.values()}
    assert len(titles) > 30
    for path in ("glossary.html", "reference/pact_eval.html"):
        assert "<abbr" not in (site / path).read_text(encoding="utf-8")


def test_a_term_is_defined_once_in_a_section_and_not_in_code_or_links() -> None:
    page = "<h2>Views</h2><p>A <code>view</code>, a <a href='#'>view</a>, a view, two views.</p>"
    meanings = {"view": 'one "rendering"'}
    once = '<abbr title="one &quot;rendering&quot;">view</abbr>'
    expected = page.replace("a view, two", f"a {once}, two")
    assert site_terms.with_definitions(page * 2, meanings) == expected * 2


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("+13.0] points (p < 0.001); 38.0 [32.0, 44.3]% of the answers change.", Generic.Output),
        ("[32.0, 44.3]% of the items changes with the order.", Generic.Output),
        ("$ pact-eval report runs/demo-pact", Generic.Prompt),
    ],
)
def test_only_a_dollar_at_the_start_of_a_line_is_a_prompt(line: str, kind: object) -> None:
    tokens = list(site_console.ConsoleLexer().get_tokens(line))
    assert tokens[0][0] is kind


@pytest.mark.slow
def test_functions_come_before_classes(site: Path) -> None:
    for name in ("pact_eval", "arrays", "pact_losses"):
        page = (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        headings = re.findall(r'<h2 id="(pact_[\w.]+)"', page)
        assert len(headings) > 15
        for module in ("pact_eval.metrics", "pact_eval.stats", "pact_eval", "pact_losses"):
            titles = [heading.removeprefix(f"{module}.") for heading in headings]
            is_class = [not title.islower() for title in titles if "." not in title]
            assert is_class == sorted(is_class), (name, module)


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
        text = "".join(words.get(child.type, child.content) for child in token.children or ())
        yield from re.split(r"(?<=[.!?])[\")]?\s+", text)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_sentences_are_short(page: Path) -> None:
    text = page.read_text("utf-8")
    long_sentences = [sentence for sentence in sentences(text) if len(sentence.split()) >= LONG]
    assert not long_sentences, "\n".join(long_sentences)


def test_long_sentences_are_found() -> None:
    long = " ".join(["word"] * LONG)
    page = (
        f"# {long}\n\nA short one. `{long}` is code. {long}.\n\n- {long}\n\n```text\n{long}\n```\n"
    )
    is_long = [len(sentence.split()) >= LONG for sentence in sentences(page)]
    assert is_long == [False, False, True, True]


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
    "position": r"(?<!--)\bslots?\b",
    "threshold": r"\bgates?\b(?! for CI| failed)",
    "prediction set": r"\banswer sets?\b",
    "significan": r"\bshown to\b|\b(?:not|none|called|if|differences?|effect|error|gain) "
    r"(?:(?:is|are|can be) )?shown\b",
}
"""The field's words, each with the pattern of ours; a gate for CI and --slots are other senses."""


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
    text = "A gate for CI is shown next to the rate.\n\n```text\nslot\n```\n`gate`"
    assert not unexplained(text)
