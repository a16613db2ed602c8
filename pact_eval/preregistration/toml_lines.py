"""Where the tables and keys of a TOML text stand: `tomllib` keeps no line numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

__all__ = ["TomlPath", "toml_lines"]

TomlPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead to a value."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\s-]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")
_QUOTES = ('"""', "'''")


def toml_lines(text: str) -> dict[TomlPath, int]:
    r"""Find the lines of the tables and plain keys of a TOML text.

    Args:
        text: a text that `tomllib` accepts.

    Returns:
        1-based line numbers by path. Quoted and dotted keys are not found, nor what stands inside
        an inline table.

    Example:
        >>> toml_lines('a = 1\n[[b]]\n[[b]]\nc = 2\n')
        {('a',): 1, ('b', 0): 2, ('b', 1): 3, ('b', 1, 'c'): 4}
    """
    lines: dict[TomlPath, int] = {}
    elements: dict[TomlPath, int] = {}
    table: TomlPath = ()
    for number, line in _outside_long_texts(text):
        if header := _HEADER.fullmatch(line):
            names = [name.strip() for name in header[2].split(".")]
            table = _table_path(names, header[1] == "[[", elements)
            lines[table] = number
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1]), number)
    return lines


def _table_path(names: list[str], is_element: bool, elements: dict[TomlPath, int]) -> TomlPath:
    path: TomlPath = ()
    for name in names[:-1]:
        path = (*path, name)
        if path in elements:
            path = (*path, elements[path] - 1)
    path = (*path, names[-1])
    if not is_element:
        return path
    elements[path] = elements.get(path, 0) + 1
    return (*path, elements[path] - 1)


def _outside_long_texts(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of the lines that do not begin inside a text of several lines."""
    inside: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if inside is None:
            if not line.lstrip().startswith("#"):
                yield number, line.rstrip("\r")
                inside = next((quotes for quotes in _QUOTES if line.count(quotes) % 2), None)
        elif line.count(inside) % 2:
            inside = None
