"""First screens of commands: one sentence, at most ten lines, in words that a newcomer knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner
from conclusions.planted import CASES, Case
from conclusions.random_runs import RandomRuns
from preregistration.checks import criteria
from run_frames import other_items, write_run
from spoiled_datasets import healthy

import pact_fixtures
from pact_cli.audit.main import main as audit
from pact_cli.main import main

FIXTURES = Path(pact_fixtures.__file__).parent
OURS = re.compile(
    r"(?i:\b(?:famil(?:y|ies)|arms?|view 0|single|raw|decodings?|contracts?|certificates?"
    r"|separation|noise floor|could hide|direction not shown|nats|seal(?:ed)?|digests?"
    r"|sign flips?|gates?|references?|views?)\b)|\b(?:K|TV)\b"
)
"""Words of ours that first screens do without; `--full`, JSON and the docs have them."""

COMMANDS = (
    "thresholds first --target-error 0.1",
    "thresholds first --target-escalation 0.3 --gates-by kind --together",
    "thresholds first --cost-wrong 5 --gate margin",
    "thresholds first --sets",
    "thresholds first --sets --confidence 0.9 --unit source_family",
    "calibrate first --force --out fitted.json",
    "calibrate first --holdout others --mode scalar --force --overwrite --out fitted.json",
    "report first --target-error 0.1",
    "report first --decoding ensemble",
    "compare first second --margin 0.02",
    "compare first second --gate --margin 0.02",
    "compare second first --gate --margin 0.3 --decoding ensemble",
    "report .",
    "report . --decoding ensemble",
    "sweep first",
    "sweep first --remedies",
    "sweep first --views 1..2 --remedies",
    "compare first others --gate --margin 0.02",
    "compare first second --not-worse 2 --require ece=8",
    "report first --require accuracy=60 --items 2",
    "verify first second --strict",
    "verify first --data nowhere.jsonl --thresholds gates.json",
    "register criteria.toml",
    "scorecard criteria.toml first second --resamples 200",
    "scorecard criteria.toml first second --demand shown --resamples 200",
)
"""Commands on planted runs. Those that a run cannot answer say so on standard error."""

QUICK = ("12 items, 90% sure, 2 right", "2 families")


def words_of_ours(text: str) -> list[str]:
    """Returns the words of ours in a text."""
    return OURS.findall(text)


def printed(program: object, words: str) -> str:
    result = CliRunner(env={"COLUMNS": "100"}).invoke(program, words.split())  # type: ignore[arg-type]
    assert "Traceback" not in result.output, result.output
    assert result.exit_code in range(6), result.output
    return result.stdout


def most_lines(command: str) -> int:
    """Six questions, most of them in two lines, are answered by `report`, and by `compare`."""
    if command.startswith("verify") or "--items" in command or "--views" in command:
        return 100  # a line per check or item; two screens
    return 10 if "--gate" in command or not command.startswith(("report", "compare")) else 16


def faults(screen: str, most: int = 10) -> Iterator[str]:
    """Yield what is wrong with a first screen of a width of 100."""
    if ours := words_of_ours(screen):
        yield f"our words {ours}: {screen}"
    lines = screen.splitlines()
    below = [number for number, line in enumerate(lines) if line.startswith("  ")]
    if below and not 1 <= below[0] <= 3:
        yield f"the answer is not one sentence: {screen}"
    shown = [line for line in lines if not line.startswith("wrote ")]
    if below and len(shown) - below[0] > most:
        yield f"{len(shown) - below[0]} lines below the answer: {screen}"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in QUICK else pytest.mark.slow)
        for case in CASES
    ],
)
def test_first_screens_of_planted_runs(case: Case, tmp_path: Path) -> None:
    case.first.write(tmp_path / "first", case.seeds[0])
    (case.second or case.first).write(tmp_path / "second", case.seeds[1])
    write_run(tmp_path / "others", other_items(case.first.rows(case.seeds[1])), arm="first", seed=1)
    (tmp_path / "criteria.toml").write_text(criteria(arm="first", than="{ arm = 'second' }"))
    with chdir(tmp_path):
        for command in COMMANDS:
            assert not [*faults(printed(main, command), most_lines(command))], command


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_first_screens_of_random_runs(seed: int, tmp_path: Path) -> None:
    written = RandomRuns.of(seed).write(tmp_path / "runs")
    runs = [str(folder.relative_to(tmp_path)) for folder in written]
    with chdir(tmp_path):
        for command in COMMANDS:
            words = command.replace("first", runs[0]).replace("second", runs[-1])
            assert not [*faults(printed(main, words), most_lines(command))], command


def test_first_screens_of_audits(tmp_path: Path) -> None:
    healthy(8).write(tmp_path / "data")
    with chdir(tmp_path):
        assert not [*faults(printed(audit, "data data"))]


@pytest.mark.slow
def test_first_screens_of_models(tmp_path: Path) -> None:
    adapter = FIXTURES / "adapters" / "pact"
    question = {"type": "choice", "instructions": "Do what?", "criteria": {"wait": "w", "go": "g"}}
    (tmp_path / "schema.json").write_text(json.dumps({"next": question}))
    with chdir(tmp_path):
        words = f"decide {adapter} --context Red. --schema schema.json --k 2"
        assert not [*faults(printed(main, words), 100)]
        assert not [*faults(printed(main, f"export {adapter} --out out --layout with-base"))]


def test_the_words_are_found() -> None:
    """A hand-made list: a test that finds nothing is no test."""
    ours = words_of_ours("K = 4 views, raw; view TV 3%; 3 Families")
    assert ours == ["K", "views", "raw", "view", "TV", "Families"]
    assert not words_of_ours("OK, an aggregate of 4 groups; delegates, armed, ranked")
