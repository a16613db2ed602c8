"""The two pages of help. Source of truth: the commands and limits of issue 39, and the options."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pact_cli.audit.main import main as audit
from pact_cli.commands import ALL_OPTIONS, PactCommand
from pact_cli.main import main
from pact_cli.option_settings import option_values
from pact_cli.parameters import PactOption

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
