"""Commands of a group, each imported when it is first used."""

from __future__ import annotations

import pkgutil
from collections import UserDict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from pact_cli.commands import PactCommand


class LazyCommands(UserDict[str, Any]):
    """Commands by name; `report` does not wait for the modules of `score`.

    Args:
        places: by name, in the order of `--help`, the module and the command in it.
        folder: folder of the modules of the group; a command of a module that is not named in
            `places` is found when it is asked for, and comes last.

    Examples:
        >>> commands = LazyCommands({"paper": "pact_cli.paper:paper"})
        >>> commands["paper"].name
        'paper'
    """

    def __init__(self, places: Mapping[str, str], folder: Path | None = None) -> None:
        super().__init__(places)
        modules = [] if folder is None else pkgutil.iter_modules([str(folder)])
        named = {place.partition(":")[0] for place in places.values()}
        self._others = [
            f"pact_cli.{module.name}"
            for module in modules
            if f"pact_cli.{module.name}" not in {*named, "pact_cli.main", "pact_cli.__main__"}
        ]

    def __getitem__(self, name: str) -> click.Command:
        if name not in self.data:
            self._find()
        entry = self.data[name]
        if isinstance(entry, click.Command):
            return entry
        module, _, attribute = entry.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        self.data[name] = command
        return command

    def __contains__(self, name: object) -> bool:
        if name not in self.data:
            self._find()
        return name in self.data

    def __iter__(self) -> Iterator[str]:
        self._find()
        return iter(self.data)

    def _find(self) -> None:
        """Import the modules that are not named, and add their commands."""
        while self._others:
            for member in vars(import_module(self._others.pop(0))).values():
                if isinstance(member, PactCommand) and member.name is not None:
                    self.data.setdefault(member.name, member)
