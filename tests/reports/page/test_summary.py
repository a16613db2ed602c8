"""The first screen of the page: every number with its interval, its n and what it rests on."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from reports.tables.table_runs import run_of, share

from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.page.assembly import make_page
from pact_reports.page.request import PageRequest

CRITERIA = """
format = "pact-hypotheses-1"
[[hypothesis]]
id = "H1"
title = "Better"
claim = "a is better than b."
[[hypothesis.check]]
says = "accuracy is higher"
metric = "accuracy"
arm = "a"
decoding = "single"
than = { arm = "b" }
is = "higher"
judged_on = "matched"
[[hypothesis.beside]]
says = "AURC is lower"
metric = "aurc"
arm = "a"
decoding = "single"
than = { arm = "b" }
is = "lower"
judged_on = "matched"
"""


SETTINGS = ("resamples", "decoding", "method")


def page_of(folders: list[Path], **changes: object) -> str:
    settings = {"resamples": 200} | {k: v for k, v in changes.items() if k in SETTINGS}
    chosen: dict[str, object] = {"figures": (), "tables": ("main",)}
    chosen |= {k: v for k, v in changes.items() if k not in SETTINGS}
    experiment = Experiment.read(folders, Settings(**settings))  # type: ignore[arg-type]
    return unescape(make_page(PageRequest(experiment, **chosen)))  # type: ignore[arg-type]


def words(html: str) -> str:
    """Returns the text of HTML, blanks joined."""
    apart = re.sub(r"</(?:td|th|li|p|h3)>", " ", html)
    return " ".join(re.sub(r"<[^>]*>", "", apart).split())


def section(html: str, start: str, end: str) -> str:
    return words(html[html.index(start) : html.index(end, html.index(start))])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two arms of one run: 41 and 40 of 60 right."""
    folder = tmp_path_factory.mktemp("arms")
    right = {"a": share(41, 60), "b": [*share(38, 58), True, True]}
    return [run_of(folder / arm, right[arm], arm=arm, seed=17, k=2) for arm in right]


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "h.toml"
    path.write_text(CRITERIA)
    return path


def test_a_registration_that_does_not_hold_comes_first_and_mutes(
    folders: list[Path], criteria: Path
) -> None:
    assert CliRunner().invoke(main, ["register", str(criteria)]).exit_code == 0
    criteria.write_text(CRITERIA.replace('is = "higher"', 'is = "not lower"'))
    page = page_of(folders, criteria=criteria)
    assert page.index("Registration: ") < page.index('class="verdicts"')
    assert '<span class="verdict bad">TAMPERED</span>' in page
    assert "verdicts below prove nothing" in page
    assert '<span class="verdict muted">SUPPORTED</span>' in page
    assert "verdict good" not in page


def test_a_method_that_is_worse_is_a_diagnostic(tmp_path: Path) -> None:
    folders = [
        run_of(tmp_path / arm, share(right, 60), arm=arm, seed=17)
        for arm, right in (("a", 20), ("b", 50))
    ]
    diagnostic = section(page_of(folders), 'data-diagnostic="worse"', "</li></ul></li>")
    assert "The method is worse" in diagnostic
    assert "a is less accurate" in diagnostic
