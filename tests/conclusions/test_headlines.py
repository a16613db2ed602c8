"""`headline` in JSON is the sentence that the terminal prints: the first one, or the verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from conclusions.planted import PLAIN, Plan, drawn_to

import pact_eval
import pact_fixtures
from pact_cli.audit.main import main as audit
from pact_cli.main import main
from pact_eval.evaluation.settings import Settings

pytestmark = pytest.mark.slow

RESAMPLES = ("--resamples", "200")
DATA = Path(pact_fixtures.__file__).parent / "data"
WIDE = {"COLUMNS": "2000"}
"""Columns at which no sentence is wrapped."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("headlines")
    PLAIN.write(home / "plain", 3)
    PLAIN.write(home / "alike", 4)
    Plan(change=drawn_to(0, 2.5)).write(home / "letters", 3)
    return home


def run(home: Path, words: tuple[str, ...], *more: str) -> Result:
    arguments = [
        str(home / word) if (home / word).is_dir() else word.replace("HOME", str(home))
        for word in (*words, *more)
    ]
    result = CliRunner().invoke(main, arguments, env=WIDE)
    assert result.exit_code in (0, 3, 4), result.output
    return result


@pytest.mark.parametrize(
    "words",
    [
        ("report", "letters"),
        ("report", "letters", "--full"),
        ("report", "plain", "--target-error", "0.1"),
        ("report", "letters", "--views", "1..3"),
        ("report", "letters", "--find-slices"),
        ("report", "letters", "--remedies"),
        ("compare", "plain", "letters"),
        ("compare", "plain", "letters", "--full"),
        ("compare", "plain", "alike", "letters"),
        ("compare", "--arms", "a=HOME/plain", "b=HOME/letters"),
        ("compare", "--gate", "plain", "letters", "--margin", "0.02"),
        ("thresholds", "plain", "--target-error", "0.1"),
        ("thresholds", "plain", "--target-error", "0.1", "--brief"),
        ("thresholds", "plain", "--sets", "--coverage", "0.8"),
    ],
    ids="-".join,
)
def test_headline_is_the_first_line(home: Path, words: tuple[str, ...]) -> None:
    more = () if words[0] == "thresholds" else RESAMPLES
    first = run(home, words, *more).stdout.splitlines()[0].strip()
    headline = json.loads(run(home, words, *more, "--json").stdout)["headline"]
    assert headline == first


def test_every_run_of_a_report_has_its_headline(home: Path) -> None:
    words = ("report", "plain", "letters", *RESAMPLES)
    lines = run(home, words).stdout.splitlines()
    runs = json.loads(run(home, words, "--json").stdout)["runs"]
    for name, value in zip(("plain", "letters"), runs, strict=True):
        assert value["headline"] in lines
        assert value["headline"].startswith(f"{name} answers ")


def test_headline_of_a_fit_is_a_line(home: Path, tmp_path: Path) -> None:
    words = ("calibrate", "plain", "--out", str(tmp_path / "T.json"), "--overwrite")
    lines = run(home, words).stdout.splitlines()
    assert json.loads(run(home, words, "--json").stdout)["headline"] in lines


def test_headline_of_an_audit_is_its_verdict() -> None:
    printed, as_json = (
        CliRunner().invoke(audit, ["data", str(DATA), *more], env=WIDE).stdout
        for more in ((), ("--json",))
    )
    assert json.loads(as_json)["headline"] == printed.splitlines()[-1]


def test_python_has_the_same_headline(home: Path) -> None:
    comparison = pact_eval.compare(home / "plain", home / "letters", Settings(resamples=200))
    words = ("compare", "plain", "letters", *RESAMPLES)
    first = run(home, words).stdout.splitlines()[0]
    assert comparison.to_json()["headline"] == first
    assert " ".join(str(comparison).split()).startswith(first)  # `print` wraps at 92 columns
