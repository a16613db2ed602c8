"""Typical mistakes of the first hour. Source of truth: the remedy, which each message names.

What was typed, the exit code, and the parts of the message: the place, what was expected, what to
do. Every mistake is made in one project with two runs, an adapter and a dataset.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pact_fixtures"

MISTAKES: list[tuple[str, int, tuple[str, ...]]] = [
    # Names that are nearly right.
    ("repot letters", 2, ("repot", "Did you mean", "report")),
    ("report letters --ful", 2, ("--ful", "Did you mean", "--full")),
    ("report leters", 1, ("runs/leters: no such run folder", "did you mean runs/letters?")),
    ("score adapter --data data/holdot.jsonl", 1, ("no such file", "data/holdout.jsonl?")),
    # Options of other commands.
    ("compare letters b --html p.html", 2, ("--html", "pact-eval report A B --html page.html")),
    ("report letters --latex tex", 2, ("--latex", "pact-eval paper RUN... --tables all")),
    ("report letters --k 2", 2, ("--k", "pact-eval sweep RUN --views 1..4")),
    ("report letters --views 2", 2, ("--views", "pact-eval sweep RUN --views 1..4")),
    ("report letters --criteria h.toml", 2, ("criteria =", "[options.report] in pact.toml")),
    ("report letters --multi any", 2, ("--multi", "pact-eval import LOG --multi")),
    # Options without the one that they belong to.
    ("compare letters b --gate", 2, ("--gate", "--margin 0.02")),
    ("thresholds letters", 2, ("give one of --target-error", "--cost-wrong")),
    ("thresholds letters --target-accuracy 0.9", 2, ("--target-error 0.05",)),
    ("thresholds letters --sets --target-error 0.1", 2, ("a target", "Leave out --sets")),
    ("score --probe", 2, ("--server URL and --model NAME",)),
    ("score --base-model model", 2, ("expected ADAPTER, or --base-model with --no-adapter",)),
    # Values.
    ("score adapter --k four", 2, ("--k", "expected a whole number from 1, got 'four'")),
    ("thresholds letters --target-error 5%", 2, ("a number above 0 and below 1, got '5%'",)),
    ("sweep letters --views 1..9", 1, ("from 1 to 3, got 1 to 9",)),
    ("paper letters --figures relibility", 2, ("expected one or more of", "reliability")),
    ("decide adapter --context x.txt --schema bool.json", 1, ('got "bool"', "boolean")),
    # Folders of another kind.
    ("score data/", 2, ("data is a dataset folder, not an adapter", "ADAPTER --data data")),
    ("score runs/letters", 2, ("is a run folder, not an adapter", "pact-eval report runs/letters")),
    ("score adapter --data two", 2, ("two/a.jsonl, two/b.jsonl", "give --data FILE")),
    ("report x.txt", 1, ("x.txt",)),
    ("compare letters bool.json", 2, ("no column", "compare runs/letters bool.json --columns")),
    ("compare letters", 2, ("expected two or more runs, got 1", "pact-eval compare A B")),
    ("import holdout.jsonl", 1, ("holdout.jsonl: no such file",)),
    # Words that people type.
    ("ls", 2, ("ls is not a command", "pact-eval report runs/")),
    ("eval letters", 2, ("eval is not a command", "pact-eval report FILE")),
    ("init", 2, ("init is not a command", "pact.toml")),
    ("probe --server x", 2, ("probe is not a command", "score --server URL", "--probe")),
    ("bool.json", 2, ("expected a command, got a path", "pact-eval report bool.json")),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two runs, an adapter, a dataset, and another without a manifest."""
    home = tmp_path_factory.mktemp("project")
    for seed, name in enumerate(("letters", "b")):
        write_run(home / "runs" / name, rows(seed, families=4), arm=name)
    shutil.copytree(FIXTURES / "data", home / "data")
    shutil.copytree(FIXTURES / "adapters" / "pact", home / "adapter")
    (home / "two").mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        shutil.copy(FIXTURES / "data" / "holdout.jsonl", home / "two" / name)
    (home / "x.txt").write_text("A clerk.")
    question = {"q": {"type": "bool", "instructions": "Is it open?"}}
    (home / "bool.json").write_text(json.dumps(question))
    (home / "pact.toml").write_text('runs = "runs"\n')
    return home


@pytest.mark.parametrize(("line", "code", "parts"), MISTAKES, ids=[line for line, *_ in MISTAKES])
def test_the_message_names_the_remedy(
    line: str, code: int, parts: tuple[str, ...], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    result = CliRunner().invoke(main, line.split(), prog_name="pact-eval")
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert_says(result.stderr, "Error: ", *parts)
    assert result.stdout == ""
