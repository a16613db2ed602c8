"""The two pages of help. Source of truth: the commands and limits of issue 39, and the options."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from commands import runner

from pact_cli.audit.main import main as audit
from pact_cli.commands import ALL_OPTIONS, PactCommand
from pact_cli.main import main
from pact_cli.option_settings import option_values
from pact_cli.parameters import PactOption

GROUPS = {
    "Start": ["demo", "init"],
    "Score": ["score", "import", "probe", "experiment"],
    "Look": ["runs", "report", "compare"],
    "Decide": ["calibrate", "thresholds", "decide"],
    "Publish": ["paper", "export"],
    "Trust": ["register", "scorecard", "verify"],
}
OPTIONS_BEFORE = 337
"""Options of the 25 commands that these replace."""

COMMANDS = [
    (program, name)
    for program, group in (("pact-eval", main), ("pact-audit", audit))
    for name in group.commands
]


def context(program: str, name: str, *, full: bool = False) -> click.Context:
    group = {"pact-eval": main, "pact-audit": audit}[program]
    settings = {"terminal_width": 100, "max_content_width": 100}
    parent = click.Context(group, info_name=program, **settings)  # type: ignore[arg-type]
    ctx = click.Context(group.commands[name], parent, info_name=name)
    ctx.meta[ALL_OPTIONS] = full
    return ctx


def options_shown(text: str) -> set[str]:
    """Returns the long options that a page of help lists, in its first column."""
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, re.MULTILINE))


def long_names(command: click.Command) -> set[str]:
    return {
        next(name for name in option.opts if name.startswith("--"))
        for option in command.params
        if isinstance(option, click.Option)
    }


def test_the_commands_are_in_the_groups_of_a_user() -> None:
    text = run_help()
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.fullmatch(r"\w+:", line):
            sections[line[:-1]] = []
        elif sections and line.startswith("  "):
            sections[[*sections][-1]].append(line.split()[0])
    del sections["Options"]
    assert sections == GROUPS
    assert len(text.splitlines()) <= 40


def run_help() -> str:
    ctx = click.Context(main, info_name="pact-eval", terminal_width=100, max_content_width=100)
    return main.get_help(ctx)


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_the_first_page_is_short(program: str, name: str) -> None:
    ctx = context(program, name)
    text = ctx.command.get_help(ctx)
    assert len(text.splitlines()) <= 40
    assert 1 <= len(options_shown(text)) <= 15
    assert "--help-all" in options_shown(text)


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_the_full_page_has_every_option(program: str, name: str) -> None:
    ctx = context(program, name, full=True)
    text = ctx.command.get_help(ctx)
    assert options_shown(text) == long_names(ctx.command) | {
        *("--quiet", "--verbose", "--help-all", "--help"),
    }


def test_at_most_half_of_the_options_are_on_first_pages() -> None:
    shown = 0
    for program, name in COMMANDS:
        ctx = context(program, name)
        shown += len(options_shown(ctx.command.get_help(ctx)))
    assert len(COMMANDS) == 24
    assert shown <= OPTIONS_BEFORE / 2


def test_help_all_is_the_full_page() -> None:
    first, full = (runner(main)("score", name).stdout for name in ("--help", "--help-all"))
    assert options_shown(first) < options_shown(full)
    assert "--workers or --ray" in " ".join(full.split())
    assert "--workers or --ray" not in " ".join(first.split())
    assert "[from 1]" in full
    assert "[from 1]" not in first


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_the_settings_accept_every_option(program: str, name: str) -> None:
    command = context(program, name).command
    assert isinstance(command, PactCommand)
    for option in command.params:
        if not isinstance(option, PactOption):
            assert not isinstance(option, click.Option), option.opts
            continue
        value = value_of(option)
        for key in option.opts:
            if key.startswith("--"):
                config = _config(name, key.removeprefix("--"), value)
                assert str(option.name) in option_values(command, (), config)


def _config(command: str, key: str, value: object):  # type: ignore[no-untyped-def]
    from pact_cli.config import Config

    return Config(path=Path("pact.toml"), options={command: {key: value}})


def value_of(option: click.Option) -> object:
    """Returns a value of the option as a file of settings has it."""
    if option.is_flag:
        return True
    kind = option.type
    if isinstance(kind, click.Choice):
        return kind.choices[0]
    if isinstance(kind, click.types.IntParamType):
        return getattr(kind, "min", None) or 1
    if isinstance(kind, click.types.FloatParamType):
        return 0.5
    return "text"
