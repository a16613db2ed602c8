"""Files: their lines, their text, their hashes, and writing them atomically.

`read_lines` splits on the line feed alone: texts contain U+2028, U+2029 and U+0085, which
`str.splitlines` would split on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pact_eval.errors import InputError

_CHUNK_BYTES: Final = 1 << 20


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based line number, bytes) of the lines that are not blank, split on line feeds.

    Args:
        path: a file of JSON lines.

    Raises:
        InputError: the file is missing, a folder, or cannot be read.
    """
    for number, _, line in read_lines_at(path):
        yield number, line


def read_lines_at(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yield (1-based line number, offset in bytes, bytes) as `read_lines` does.

    Raises:
        InputError: the file is missing, a folder, or cannot be read.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        message = f"{path}: expected a file, got a pipe or device (its bytes are hashed later)"
        raise InputError(message)
    try:
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, offset, line
                offset += len(line)
    except FileNotFoundError:
        message = f"{path}: no such file"
        raise InputError(message) from None
    except IsADirectoryError:
        message = f"{path}: expected a file of JSON lines, got a folder"
        raise InputError(message) from None
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise InputError(message) from None


def decoded(raw: bytes, number: int) -> str:
    """Decode one line of a file.

    Args:
        raw: its bytes.
        number: 1-based line number; a byte order mark is looked for on the first.

    Raises:
        ValueError: the bytes are not UTF-8, or start with a byte order mark.

    Example:
        >>> decoded("é".encode(), 1)
        'é'
    """
    if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
        message = "the file starts with a byte order mark; save it as plain UTF-8"
        raise ValueError(message)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"not valid UTF-8 (byte {error.start + 1} of the line)"
        raise ValueError(message) from None


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; at the end of the block it replaces `path`.

    Other processes see the old file or the complete new one, never a part of it. The bytes reach
    the disk before the rename, so a power cut does not leave an empty file. An exception in the
    block removes the temporary file and leaves `path` as it was.

    Args:
        path: the file to write; its folder exists.

    Raises:
        OSError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "counts.txt")
        ...     with atomic_path(path) as partial:
        ...         _ = partial.write_text("3")
        ...     path.read_text(), [each.name for each in Path(folder).iterdir()]
        ('3', ['counts.txt'])
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that other processes never see a part of it; as `atomic_path`.

    Args:
        path: the file to write; its folder exists.
        content: bytes, or text to be written as UTF-8 without changing line feeds.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
