"""Standard output and error whose readers may leave before the command ends."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import IO, Final

# Windows answers EINVAL where others answer EPIPE.
_LEFT: Final = frozenset({errno.EPIPE, *((errno.EINVAL,) if os.name == "nt" else ())})


class _Pipe(io.RawIOBase):
    """A stream that is dropped from the moment on when its reader has left (`| head`)."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.name = raw.name

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def isatty(self) -> bool:
        return self._raw.isatty()

    def write(self, data: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return self._raw.write(data)
        except OSError as error:
            if error.errno not in _LEFT:
                raise
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        return len(data)


def outlive_readers() -> None:
    """Let standard output and error be closed by their readers without an error."""
    sys.stdout, sys.stderr = _outliving(sys.stdout), _outliving(sys.stderr)


def _outliving(stream: IO[str]) -> IO[str]:
    """Return the stream, or another over the same file. Streams of tests have no file."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(raw, io.FileIO):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Pipe(raw)),  # type: ignore[type-var]
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
