"""Commands in this process, or in one that a test may kill, as a user meets them."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from click import Group
from click.testing import CliRunner, Result


def runner(program: Group, *first: str) -> Callable[..., Result]:
    """Returns a function that runs the program with these words before its own."""

    def run(*words: object, code: int = 0, **env: Any) -> Result:
        result = CliRunner(env=env).invoke(program, [*first, *map(str, words)])
        assert result.exit_code == code, result.output or repr(result.exception)
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


def with_settings(folder: Path, command: str, **options: object) -> dict[str, str]:
    """Writes settings of a command, such as timeout=9; returns the environment that reads them."""
    lines = [f"{name.replace('_', '-')} = {json.dumps(value)}" for name, value in options.items()]
    path = folder / f"{command}.toml"
    path.write_text("\n".join([f"[options.{command}]", *lines, ""]))
    return {"PACT_EVAL_CONFIG": str(path)}


def command_line(program: str, *words: object) -> list[str]:
    """Returns the words that start `pact-eval`, `pact-audit` or `python`, as a user starts it."""
    modules = {"pact-eval": ["-m", "pact_cli"], "pact-audit": ["-m", "pact_cli.audit"]}
    return [sys.executable, *modules.get(program, []), *map(str, words)]


def started(*words: object) -> ForkServerProcess:
    """Starts `pact-eval` in a process that has imported what it needs: a start takes 0.1 s."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(
        ["pact_cli.main", "pact_cli.score", "pact_eval.scoring.servers.source"]
    )
    process = forks.Process(target=_run_silently, args=tuple(map(str, words)))
    process.start()
    return process


def _run_silently(*words: str) -> None:
    from pact_cli.main import main

    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        main(words)
