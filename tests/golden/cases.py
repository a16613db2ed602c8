"""The cases: those of `cases.toml`, the planted runs, and the help of all commands."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
from conclusions import planted

from golden.record import Case
from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation

TABLE: Final = Path(__file__).with_name("cases.toml")
RESAMPLES: Final = "--resamples 300"
_WORDS: Final = {
    "ARMS": "'pact=run-0-*' 'ce_only=run-1-*'",
    "DATA": "--data data/holdout.jsonl",
    "PAIR": "demo-nimble_recipe demo-pact",
    "RUNS": "run-0-17 run-0-18 run-0-19 run-1-17 run-1-18 run-1-19 run-base",
    "SERVER": "--server ADDRESS --model served-1 --wire systemone",
}
_HELP: Final = ("--help", "--help-all")
_RESAMPLED: Final = ("compare", "paper", "report", "sweep")


def every_case() -> tuple[Case, ...]:
    """Return all cases; their names differ."""
    return (*_of_the_table(), *_of_planted_runs(), _of_help())


def _of_the_table() -> Iterator[Case]:
    for name, row in tomllib.loads(TABLE.read_text("utf-8")).items():
        commands = row.pop("commands").strip().splitlines()
        yield Case(name, [_command(command) for command in commands], **row)


def _command(words: str) -> str:
    for name, value in _WORDS.items():
        words = re.sub(rf"\b{name}\b", value, words)
    drawn = words.startswith(_RESAMPLED) and "--resamples" not in words
    return f"{words} {RESAMPLES}" if drawn else words


def _of_planted_runs() -> Iterator[Case]:
    """The runs with a known truth of `tests/conclusions`."""
    for case in planted.CASES:
        commands = [f"report first --target-error {planted.TARGET}"]
        if case.second is None:
            commands.append("report first --full")
        else:
            margin = "" if case.margin is None else f" --margin {case.margin}"
            commands += [f"compare first second{margin}", f"compare first second{margin} --full"]
        name = "planted-" + re.sub(r"[^a-z0-9]+", "-", case.name.lower())
        made = f"planted_runs:{case.name}"
        yield Case(name, [_command(words) for words in commands], made, widths=["80"])


def _of_help() -> Case:
    """Every option of every command."""
    commands = ["--help", "audit --help"]
    for program, first in ((evaluation, ""), (audit, "audit ")):
        names = program.list_commands(click.Context(program))
        commands += [f"{first}{name} {option}" for name in names for option in _HELP]
    return Case("help", commands, widths=["80"])
