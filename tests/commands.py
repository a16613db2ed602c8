"""Commands in this process, as a user meets them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from click import Group
from click.testing import CliRunner, Result


def runner(program: Group, *first: str) -> Callable[..., Result]:
    """Returns a function that runs the program with these words before its own."""

    def run(*words: object, code: int = 0, **env: Any) -> Result:
        result = CliRunner(env=env).invoke(program, [*first, *map(str, words)])
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return run


def refuser(program: Group) -> Callable[..., str]:
    """Returns a function that runs a command that fails, with nothing on standard output."""

    def refused(*words: object, code: int = 1) -> str:
        result = runner(program)(*words, code=code)
        assert result.stdout == ""
        return result.stderr

    return refused
