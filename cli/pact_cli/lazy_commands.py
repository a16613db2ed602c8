"""Commands of a group, each imported when it is first used."""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import click


class LazyCommands(UserDict[str, Any]):
    """Commands by name; `report` does not wait for the modules of `score`.

    Args:
        places: by name, in the order of `--help`, the module and the command in it.

    Examples:
        >>> commands = LazyCommands({"tables": "pact_cli.figures_and_tables:tables"})
        >>> commands["tables"].name
        'tables'
    """

    def __getitem__(self, name: str) -> click.Command:
        entry = self.data[name]
        if isinstance(entry, click.Command):
            return entry
        module, _, attribute = entry.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        self.data[name] = command
        return command
