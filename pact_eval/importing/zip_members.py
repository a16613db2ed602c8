"""Members of a zip archive, stored, deflated or compressed with zstd, each checked by its CRC.

Inspect compresses the members of its logs with zstd (method 93), and older versions deflate them.
Python reads zstd members from 3.14 on; before, the package `zstandard` does (extra `inspect`).
"""

from __future__ import annotations

import importlib
import io
import zipfile
import zlib
from collections.abc import Callable, Set
from copy import copy
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from pact_eval._files import MOST_TEXT_BYTES, open_regular, reading
from pact_eval.errors import InputError, MissingExtraError, missing_extra

_ZSTD: Final = 93
_ENCRYPTED: Final = 1
_MOST_BYTES: Final = 16 * MOST_TEXT_BYTES


class ZipMembers:
    """The members of a zip archive, by name; a context manager.

    Args:
        path: the archive.

    Raises:
        InputError: it cannot be read, or is not a zip archive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(path):
            self._file = open_regular(path)
        try:
            self._archive = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            self._file.close()
            raise InputError(f"{path}: not a zip archive, or cut short ({error})") from None
        self._members = {member.filename: member for member in self._archive.infolist()}

    @property
    def names(self) -> Set[str]:
        """The names of the members, in the order of the archive."""
        return self._members.keys()

    def read(self, name: str) -> bytes:
        """Return the content of a member.

        Raises:
            InputError: it is missing, damaged, encrypted, too long, or compressed in another way.
            MissingExtraError: it is compressed with zstd, and nothing here can read that.
        """
        member = self._members.get(name)
        if member is None:
            raise InputError(f"{self._path}: {name}: no such member")
        if member.file_size > _MOST_BYTES or member.flag_bits & _ENCRYPTED:
            what = "is encrypted" if member.flag_bits & _ENCRYPTED else "is longer than 1 GiB"
            raise InputError(f"{self._path}: {name} {what}")
        try:
            content = self._unpacked(member)
        except MissingExtraError:
            raise
        except Exception as error:  # noqa: BLE001 - decompressors raise errors of their own types
            raise InputError(f"{self._path}: {name}: damaged ({error})") from None
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise InputError(f"{self._path}: {name}: damaged (its checksum differs)")
        return content

    def _unpacked(self, member: zipfile.ZipInfo) -> bytes:
        """Return at most one byte more of a member than the archive says."""
        packed = copy(member)
        if member.compress_type == _ZSTD:  # zipfile reads its bytes as they are
            packed.compress_type, packed.file_size = zipfile.ZIP_STORED, member.compress_size
        del packed.CRC
        with self._archive.open(packed) as file:
            if member.compress_type == _ZSTD:
                return _zstd_reader()(file.read(), member.file_size + 1)
            return file.read(member.file_size + 1)

    def __enter__(self) -> ZipMembers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._archive.close()
        self._file.close()


def _zstd_reader() -> Callable[[bytes, int], bytes]:
    """Return a function that decompresses zstd frames, at most so many bytes of them."""
    try:
        zstd: Any = importlib.import_module("compression.zstd")  # from Python 3.14 on
    except ModuleNotFoundError:
        return _zstandard_reader()

    def read(packed: bytes, most: int) -> bytes:
        content: bytes = zstd.ZstdFile(io.BytesIO(packed)).read(most)
        return content

    return read


def _zstandard_reader() -> Callable[[bytes, int], bytes]:
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ModuleNotFoundError:
        otherwise = "convert the log with `inspect log convert --to json`"
        raise missing_extra("a zstd log", "zstandard", "inspect", otherwise) from None

    def read(packed: bytes, most: int) -> bytes:
        stream = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        parts, left = [], most
        while left and (part := stream.read(left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    return read
