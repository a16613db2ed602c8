"""Detection of the format of a log: by its content, or by the name that the user gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Final

from pact_eval._files import open_regular, reading
from pact_eval.errors import InputError
from pact_eval.importing.registry import source_names, source_of, sources
from pact_eval.importing.source import Source, Start, unpacking

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
    start = start_of(path)
    recognising = next((source for source in sources() if source.recognises(start)), None)
    if name is None and recognising is not None:
        return recognising
    if name is None:
        with reading(path), open_regular(path):  # raises: a folder, and what is in it
            message = f"{path}: not a log of a known format ({', '.join(source_names())})"
            raise InputError(message)
    named = source_of(name)
    if recognising is not None and not recognising.own and not named.recognises(start):
        message = (
            f"{path}: --from {name}, but its content is that of {recognising.name}; use "
            f"--from {recognising.name}, or leave --from out"
        )
        raise InputError(message)
    return named


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
