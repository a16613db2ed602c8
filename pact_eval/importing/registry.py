"""Which format a log has: by its content, or by the name that the user gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

from pact_eval._files import open_regular, reading
from pact_eval.errors import InputError
from pact_eval.importing.formats.decision_index import DecisionIndex
from pact_eval.importing.formats.helm import Helm
from pact_eval.importing.formats.inspect import Inspect
from pact_eval.importing.formats.lm_eval import LmEval
from pact_eval.importing.formats.rows import JsonLines
from pact_eval.importing.source import Source, Start, unpacking

SOURCES: Final[tuple[Source, ...]] = (LmEval(), Inspect(), DecisionIndex(), Helm(), JsonLines())
"""The formats, in the order in which they are tried."""

SOURCE_NAMES: Final = tuple(source.name for source in SOURCES)
"""Their names, for `--from`."""

_START_BYTES: Final = 1 << 16
_GZIP: Final = b"\x1f\x8b"


def find_source(path: Path, name: str | None = None) -> Source:
    """Return the format of a log.

    Args:
        path: a file or folder.
        name: name of the format; None looks at the content.

    Raises:
        InputError: the path cannot be read, or has no known format, or there is no such name, or
            the content is that of another format than the named one.
    """
    if name is not None:
        found = [source for source in SOURCES if source.name == name]
        if not found:
            message = f"--from {name}: expected one of {', '.join(SOURCE_NAMES)}"
            raise InputError(message)
        _refuse_other_format(path, found[0])
        return found[0]
    start = start_of(path)
    for source in SOURCES:
        if source.recognises(start):
            return source
    with reading(path), open_regular(path):  # raises: a folder, and what is in it
        message = f"{path}: not a log of a known format"
        raise InputError(message)


def _refuse_other_format(path: Path, wanted: Source) -> None:
    """Refuse a log that does not look like the format that was named, but like another one."""
    start = start_of(path)
    if wanted.recognises(start):
        return
    for source in SOURCES:
        if source.name != "rows" and source.recognises(start):
            message = (
                f"{path}: --from {wanted.name}, but its content is that of {source.name}; use "
                f"--from {source.name}, or leave --from out"
            )
            raise InputError(message)


def start_of(path: Path) -> Start:
    """Return what a source is recognised by.

    Raises:
        InputError: the path cannot be read.
    """
    if path.is_dir():
        return Start(path, b"", frozenset())
    with reading(path), open_regular(path) as file:
        content = file.read(_START_BYTES)
    if content.startswith(_GZIP):
        with reading(path), unpacking(path), gzip.open(path) as unpacked:
            content = unpacked.read(_START_BYTES)
    return Start(path, content, _first_keys(content))


def _first_keys(content: bytes) -> frozenset[str]:
    """Return the keys of the object on the first line; of a long line, those that can be seen."""
    line = content.lstrip().split(b"\n", 1)[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # its source says what is wrong with the line
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()
