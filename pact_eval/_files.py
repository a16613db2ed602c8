"""Files: their lines, text, JSON, TOML and hashes, and writing them atomically.

`read_lines` splits on the line feed alone: texts contain U+2028, U+2029 and U+0085, which
`str.splitlines` would split on.
"""

from __future__ import annotations

import errno
import hashlib
import io
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from pact_eval._json import Json, loads
from pact_eval.errors import InputError, Place
from pact_eval.progress import Step, step, wrote

if TYPE_CHECKING:
    import polars as pl

MOST_TEXT_BYTES: Final = 1 << 26
"""Longest text file, and longest line of a file of lines, that is read: 64 MiB."""

_CHUNK_BYTES: Final = 1 << 20
_PACKED: Final = {
    b"PAR1": ("a Parquet file", "write it as JSON lines, with polars: read_parquet, write_ndjson"),
    b"\x1f\x8b": ("a gzip file", "unpack it with gunzip"),
    b"PK\x03\x04": ("a zip file", "unpack it"),
}
_SIMILAR: Final = 0.8
_NAMES_SHOWN: Final = 5
OBJECT_STORES: Final = ("s3", "gs", "az", "hf")
"""How URLs begin that runs and logs may have: S3 and its like, Google, Azure, Hugging Face."""

_OTHER_SCHEMES: Final = ("abfs", "abfss", "adl", "azure", "file", "gcs", "http", "https", "s3a")
_URL: Final = re.compile(rf"({'|'.join((*OBJECT_STORES, *_OTHER_SCHEMES))}):/", re.IGNORECASE)
_TOML_PLACE: Final = re.compile(r" ?\(at line (\d+), column (\d+)\)")
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)
# A limit of the process on the size of files (`ulimit -f`) is EFBIG.
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", -1)})


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based line number, bytes) of the lines that are not blank, split on line feeds.

    Args:
        path: a file of JSON lines.

    Raises:
        InputError: the file is missing, a folder, or cannot be read.
    """
    for number, _, line in read_lines_at(path):
        yield number, line


@dataclass(frozen=True, slots=True)
class LineSpan:
    """Some neighbouring lines of a file.

    Attributes:
        number: 1-based number of the first.
        start: offset of the first, in bytes.
        stop: end of the last, in bytes.
    """

    number: int
    start: int
    stop: int


def line_spans(path: Path, n_bytes: int) -> tuple[str, list[LineSpan]]:
    """Divide a file into spans of full lines.

    Args:
        path: the file.
        n_bytes: bytes of each span but the last, without the rest of its last line.

    Returns:
        The SHA-256 of the file, because all of it is read, and the spans in order.

    Raises:
        InputError: the file is missing, a folder, or cannot be read.
    """
    digest, spans, number, start = hashlib.sha256(), [], 1, 0
    with reading(path), open_regular(path) as file, _bytes_of("Hashing", path, file) as hashed:
        while chunk := file.read(n_bytes) + file.readline(MOST_TEXT_BYTES + 1):
            digest.update(chunk)
            spans.append(LineSpan(number, start, start + len(chunk)))
            number, start = number + chunk.count(b"\n"), start + len(chunk)
            hashed.done = start
    return digest.hexdigest(), spans


def read_lines_at(path: Path, span: LineSpan | None = None) -> Iterator[tuple[int, int, bytes]]:
    """Yield (1-based line number, offset in bytes, bytes) as `read_lines` does.

    Args:
        path: a file of JSON lines.
        span: the lines that are read; None reads all of them.

    Raises:
        InputError: the file is missing, a folder, or cannot be read.
    """
    first, offset = (1, 0) if span is None else (span.number, span.start)
    with reading(path), open_regular(path) as file, _bytes_of("Reading", path, file, span) as read:
        file.seek(offset)
        for number in itertools.count(first):
            if span is not None and offset >= span.stop:
                return
            line = file.readline(MOST_TEXT_BYTES + 1)
            if not line:
                return
            if number == 1:
                _refuse_packed(path, line)
            if len(line) > MOST_TEXT_BYTES:
                raise _too_long(f"{path}:{number}", "a line")
            if line.strip():
                yield number, offset, line
            offset += len(line)
            read.done += len(line)


def _bytes_of(
    doing: str, path: Path, file: BinaryIO, span: LineSpan | None = None
) -> AbstractContextManager[Step]:
    """Return the step of reading a file or some of its lines, in bytes."""
    size = os.fstat(file.fileno()).st_size if span is None else span.stop - span.start
    return step(f"{doing} {Path(path).name}", size, "bytes")


def _refuse_packed(path: Path, line: bytes) -> None:
    """Refuse what people give in place of JSON lines, with what to do."""
    for start, (what, advice) in _PACKED.items():
        if line.startswith(start):
            raise InputError(f"{path}: expected JSON lines (plain text), got {what}; {advice}")


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading in binary; pipes and devices are refused instead of waited for.

    What was opened is checked, so nothing else can take its place between a check and a read.

    Raises:
        InputError: it is a pipe, a socket or a device, also behind a link.
        OSError: it is missing, a folder, or cannot be opened; see `reading`.

    Examples:
        >>> open_regular(Path(os.devnull))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: ...: expected a file, got a pipe or device
    """
    # Without waiting for the writer of a pipe.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT))  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InputError(f"{path}: expected a file, got a pipe or device")
    return file


def _too_long(place: str, what: str) -> InputError:
    return InputError(f"{place}: expected {what} of at most {MOST_TEXT_BYTES:,} bytes, got more")


def _similar_file(path: Path) -> str:
    """Return an advice on a file that does not exist: the one of its folder with a similar name."""
    import difflib

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=_SIMILAR)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


@contextmanager
def reading(path: Path, *, missing: str = "no such file") -> Iterator[None]:
    """Raise what prevents reading a file as an `InputError` that names it.

    Args:
        path: the file that the block reads.
        missing: what to say if it does not exist.

    Raises:
        InputError: the block met a file that is missing, a folder, unreadable, or not UTF-8.

    Examples:
        >>> with reading(Path("lock.json"), missing="no such lock"):
        ...     text = Path("lock.json").read_text()
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: lock.json: no such lock
    """
    try:
        yield
    except FileNotFoundError:
        message = f"{path}: {missing}{_similar_file(path)}"
    except IsADirectoryError:
        inside = sorted(file.name for file in path.glob("*.jsonl"))[:_NAMES_SHOWN]
        named = f"; give one of its files: {', '.join(inside)}" if inside else ""
        message = f"{path}: expected a file, got a folder{named}"
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
        InputError: the file is missing, a pipe or a device, longer than `MOST_TEXT_BYTES`, cannot
            be read, or is not UTF-8.
    """
    with reading(path, missing=missing):
        # Not `Path.read_text`, which turns CRLF into LF: prompts are byte-exact.
        return read_bytes(path, missing=missing).decode("utf-8")


def read_bytes(path: Path, *, missing: str = "no such file") -> bytes:
    """Return the bytes of a text file; its size is not trusted, because it may grow.

    Raises:
        InputError: the file is missing, a pipe or a device, longer than `MOST_TEXT_BYTES`, or
            cannot be read.
    """
    chunks, left = [], MOST_TEXT_BYTES
    with reading(path, missing=missing), open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            chunks.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise _too_long(str(path), "a text file")
    return b"".join(chunks)


def read_json(path: Path, *, missing: str = "no such file") -> Json:
    """Return the JSON value in a file, read strictly.

    Raises:
        InputError: the file is missing, cannot be read, or is not strict JSON.
    """
    text = read_text(path, missing=missing)
    try:
        return loads(text)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def read_toml(path: Path, *, missing: str = "no such file") -> dict[str, Any]:
    """Return the values of a TOML file.

    Raises:
        InputError: the file is missing, cannot be read, or is not TOML.
    """
    text = read_text(path, missing=missing)
    try:
        return parse_toml(text)
    except TomlError as error:
        raise InputError(f"{Place(str(path), error.line)}: {error}") from None


class TomlError(ValueError):
    """A text is not TOML that can be used.

    Attributes:
        line: 1-based line number, or None if it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; a byte order mark is ignored.

    Python's own parser raises a plain `ValueError` for a number of thousands of digits, which tells
    users to change a setting of Python, and a `RecursionError` for tables that nest too deeply.

    Raises:
        TomlError: it is not TOML, nests too deeply, or has a number of thousands of digits.

    Examples:
        >>> parse_toml("margin = " + "1" * 5_000)
        Traceback (most recent call last):
            ...
        pact_eval._files.TomlError: not usable TOML (a number has more than 4,300 digits)
    """
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        what, line = str(error), None
        if place := _TOML_PLACE.search(what):
            what, line = what.replace(place[0], f" at column {place[2]}"), int(place[1])
        elif "end of document" in what:
            line = text.count("\n", 0, len(text.rstrip())) + 1
        raise TomlError(f"not valid TOML ({what})", line) from None
    except RecursionError:
        message = "not usable TOML (nested too deeply)"
    except ValueError:
        message = (
            f"not usable TOML (a number has more than {sys.get_int_max_str_digits():,} digits)"
        )
    raise TomlError(message)


def decoded(raw: bytes, number: int) -> str:
    """Decode one line of a file.

    Args:
        raw: its bytes.
        number: 1-based line number; a byte order mark is looked for on the first.

    Raises:
        ValueError: the bytes are not UTF-8, or start with a byte order mark.

    Examples:
        >>> decoded("é".encode(), 1)
        'é'
    """
    if number == 1 and raw.startswith(b"\xef\xbb\xbf"):
        raise ValueError("the file starts with a byte order mark; save it as plain UTF-8")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not valid UTF-8 (byte {error.start + 1} of the line)") from None


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits.

    Raises:
        InputError: it is a pipe or a device.
        OSError: it is missing or cannot be read.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file, _bytes_of("Hashing", path, file) as hashed:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            hashed.done += len(chunk)
    return digest.hexdigest()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise what prevents writing a file as an `InputError` that names it and says what to do.

    Args:
        path: the file that the block writes.

    Raises:
        InputError: the block met an error of the file system.
        BrokenPipeError: nobody reads the pipe any more, which is not a fault.

    Examples:
        >>> with writing(Path("page.html")):
        ...     _ = Path("no such folder", "page.html").write_text("page")
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: page.html: cannot be written (No such file or directory)
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or error
        message = f"{path}: cannot be written ({reason}){advice_on_full_disk(error)}"
        raise InputError(message) from None


def advice_on_full_disk(error: OSError) -> str:
    """Return the end of a message: what to do if the disk or a quota is full, otherwise nothing.

    Examples:
        >>> advice_on_full_disk(OSError(errno.ENOSPC, "No space left on device"))
        '; free some space or write to another disk, then repeat the command'
        >>> advice_on_full_disk(FileNotFoundError())
        ''
    """
    if error.errno not in _DISK_FULL:
        return ""
    return "; free some space or write to another disk, then repeat the command"


def is_url(place: str | Path) -> bool:
    """Tell URLs from paths. A path that was made of a URL has lost a slash.

    Examples:
        >>> is_url("s3://bucket/run"), is_url(Path("s3://bucket/run")), is_url("runs/s3")
        (True, True, False)
    """
    text = place if isinstance(place, str) else place.as_posix()
    # A folder may be called "file:".
    return _URL.match(text) is not None and not Path(text.partition("/")[0]).exists()


def nothing_is_written(name: str) -> InputError:
    """Return the error for an output in an object store."""
    message = f"{name}: nothing is written to object stores; give a local path, and copy the result"
    return InputError(message)


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder; at the end of the block it replaces `path`.

    Other processes see the old file or the complete new one, never a part of it. The bytes reach
    the disk before the rename, so a power cut does not leave an empty file. An exception in the
    block removes the temporary file and leaves `path` as it was.

    Args:
        path: the file to write; its folder exists.

    Raises:
        InputError: the file cannot be written, or is in an object store.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "counts.txt")
        ...     with atomic_path(path) as partial:
        ...         _ = partial.write_text("3")
        ...     path.read_text(), [file.name for file in Path(folder).iterdir()]
        ('3', ['counts.txt'])
    """
    if is_url(path):
        raise nothing_is_written(path.as_posix().replace(":/", "://", 1))
    if path.exists() and not path.is_file() and not path.is_dir():
        with writing(path):
            yield path  # a pipe or device, such as /dev/stdout, is written directly
        return
    if path.is_symlink():
        path = path.resolve()
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            yield partial
            with partial.open("r+b") as file:
                os.fsync(file.fileno())
            partial.replace(path)
            wrote(path)
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


@contextmanager
def new_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield a temporary path for each new file; at the end of the block they get their names.

    All files are complete before the first gets its name, and they get their names in order. A file
    that is there already with the same bytes counts as written: a command that was killed between
    two names can be repeated.

    Args:
        paths: the files to write; the folder of each is made.

    Raises:
        InputError: a file is there with other bytes, or one cannot be written; then nothing is.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "counts.txt")
        ...     for text in "33":
        ...         with new_files([path]) as (partial,):
        ...             _ = partial.write_text(text)
        ...     path.read_text()
        '3'
    """
    for path in paths:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        partial = [stack.enter_context(atomic_path(path)) for path in reversed(paths)][::-1]
        yield partial
        others = [
            str(path)
            for path, new in zip(paths, partial, strict=True)
            if path.exists()
            and not (path.is_file() and sha256_of_file(path) == sha256_of_file(new))
        ]
        if others:
            raise InputError(
                f"expected a new file, or one with the same content, found {', '.join(others)}; "
                "nothing was written"
            )


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame as Parquet, to the temporary path of `atomic_path`.

    polars writes into memory. If it writes a file itself, its errors do not say what is wrong: on a
    full disk, "File out of specification: Invalid thrift: transport error".

    Raises:
        OSError: the file cannot be written.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    path.write_bytes(buffer.getbuffer())
