"""`pact-eval init`: write a `pact.toml` from the contents of the folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pact_cli.commands import command
from pact_cli.console import tell
from pact_eval.errors import InputError

if TYPE_CHECKING:
    from pact_cli.found_project import Found


@command(reads_settings=False)
def init() -> None:
    """Write a pact.toml from what is in this folder.

    It looks for data/manifest.json, adapters and the base model that they name, runs, and
    hypotheses.toml. A comment explains every line. What could be two things is left as a comment.
    An existing file of settings is not replaced.
    """
    from pact_cli.config import NAME, find_config
    from pact_cli.found_project import find_project, settings_text
    from pact_eval._files import write_atomically

    path = Path(NAME)
    there = path if path.exists() else find_config(Path.cwd())
    if there is not None and there.resolve().parent == Path.cwd().resolve():
        message = f"{there.name}: this folder has settings already; edit them, or remove the file"
        raise InputError(message)
    project = find_project(Path())
    write_atomically(path, settings_text(project))
    tell([f"wrote {NAME}; read it, and edit it", f"next: {_next(project)}"])


def _next(project: Found) -> str:
    if project.data is not None:
        return "pact-audit data"
    if project.adapters:
        return f"pact-eval score {project.adapters[0]} --data FILE"
    return "put your data into data/, then: pact-audit manifest data"
