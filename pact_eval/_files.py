"""Files: their lines, text, JSON and hashes, and writing them atomically.

`read_lines` splits on the line feed alone: texts contain U+2028, U+2029 and U+0085, which
`str.splitlines` would split on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pact_eval._json import Json, loads
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
    with reading(path), path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, offset, line
            offset += len(line)


@contextmanager
def reading(path: Path, *, missing: str = "no such file") -> Iterator[None]:
    """Raise what prevents reading a file as an `InputError` that names it.

    Args:
        path: the file that the block reads.
        missing: what to say if it does not exist.

    Raises:
        InputError: the block met a file that is missing, a folder, unreadable, or not UTF-8.

    Example:
        >>> with reading(Path("lock.json"), missing="no such lock"):
        ...     text = Path("lock.json").read_text()
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: lock.json: no such lock
    """
    try:
        yield
    except FileNotFoundError:
        message = f"{path}: {missing}"
    except IsADirectoryError:
        message = f"{path}: expected a file, got a folder"
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror or error})"
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{path}:{line}: not valid UTF-8 (byte {error.start + 1} of the file)"
    else:
        return
    raise InputError(message)


def read_text(path: Path, *, missing: str = "no such file") -> str:
    """Return the text of a UTF-8 file with its line ends as they are.

    Raises:
        InputError: the file is missing, cannot be read, or is not UTF-8.
    """
    with reading(path, missing=missing):
        # Not `Path.read_text`, which turns CRLF into LF: prompts are byte-exact.
        return path.read_bytes().decode("utf-8")


def read_json(path: Path, *, missing: str = "no such file") -> Json:
    """Return the JSON value in a file, read strictly.

    Raises:
        InputError: the file is missing, cannot be read, or is not strict JSON.
    """
    text = read_text(path, missing=missing)
    try:
        return loads(text)
    except ValueError as error:
        message = f"{path}: {error}"
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
        InputError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "counts.txt")
        ...     with atomic_path(path) as partial:
        ...         _ = partial.write_text("3")
        ...     path.read_text(), [each.name for each in Path(folder).iterdir()]
        ('3', ['counts.txt'])
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path  # a pipe or device, such as /dev/stdout, is written directly
        return
    if path.is_symlink():
        path = path.resolve()
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield partial
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        message = f"{path}: cannot be written ({error.strerror or error})"
        raise InputError(message) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that other processes never see a part of it; as `atomic_path`.

    Args:
        path: the file to write; its folder exists.
        content: bytes, or text to be written as UTF-8 without changing line feeds.

    Raises:
        InputError: the file cannot be written.
    """
    with atomic_path(path) as partial:
        partial.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
