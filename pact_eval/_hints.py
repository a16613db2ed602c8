"""Names in annotations that are imported when somebody reads the annotations.

A module names the types of its functions under `if TYPE_CHECKING:`, so that it is imported fast.
`typing.get_type_hints` imports these names when it reads the annotations of one of its functions.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any


class _Annotations(dict[str, Any]):
    """Annotations of a function, whose reading imports the types of its module."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function.__annotations__)
        self._function = function

    def _load(self) -> None:
        for name, value in _types_of(self._function.__module__):
            self._function.__globals__.setdefault(name, value)

    def __iter__(self) -> Iterator[str]:
        self._load()
        return super().__iter__()

    def keys(self) -> Any:
        """Return the names of the arguments."""
        self._load()
        return super().keys()


def readable_hints(members: Iterable[object]) -> None:
    """Let `typing.get_type_hints` read the annotations of functions, methods and properties.

    Args:
        members: values of a module or class; others than functions are passed over.

    Examples:
        >>> import typing
        >>> import pact_eval
        >>> typing.get_type_hints(pact_eval.read_run)["return"]
        <class 'pact_eval.runs.folder.Run'>
    """
    for member in members:
        function = _function(member)
        if function is not None:
            function.__annotations__ = _Annotations(function)


def _function(member: object) -> FunctionType | None:
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    return member if isinstance(member, FunctionType) else None


def _types_of(module: str) -> Iterator[tuple[str, Any]]:
    """Import what a module imports for type checkers only."""
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.module:
                    home = import_module(line.module)
                    for name in line.names:
                        yield name.asname or name.name, getattr(home, name.name)
