"""The files of an adapter folder: what lies there, and could any of it run?

Every file below the folder is listed and hashed, those of checkpoints in subfolders too; no link is
followed that leads out of it, and nothing is opened that is not an ordinary file. What a file holds
is told by its name and by its first bytes, since a pickle does as much harm under another name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval._files import sha256_of_file
from pact_eval.audit.adapter.pickles import HEAD_BYTES, is_pickle
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.errors import Place
from pact_eval.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PICKLED_SUFFIXES

__all__ = ["FileRecord", "check_files", "shown"]

Kind = Literal["pickled", "not-safetensors", "code-file", "archive", "other"]

_CODE_SUFFIXES: Final = {
    ".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".exe", ".sh", ".bash", ".bat",
    ".cmd", ".ps1", ".js", ".jar", ".ipynb", ".pl", ".rb", ".lua",
}  # fmt: skip
_CODE_MAGIC: Final = (b"#!", b"\x7fELF", b"MZ\x90", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
_ARCHIVE_MAGIC: Final = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c")
_ARCHIVE_SUFFIXES: Final = {".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".npz", ".whl"}
# Protocols 2 to 5; older pickles are plain text and told by their opcodes.
_PICKLE_MAGIC: Final = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_LFS_POINTER: Final = b"version https://git-lfs"
_NUMPY_OBJECTS: Final = re.compile(rb"['\"][|<>=]?O[0-9]*['\"]")

# Kept by git and by the hub's downloader beside the adapter; no library loads them.
_SKIPPED_FOLDERS: Final = {".git", ".cache"}
_HEAD_BYTES = 4096
_LONGEST_SHOWN = 160

_EXPECTED: Final = {
    "pickled": "no pickled file: opening one can run code",
    "not-safetensors": "a safetensors file",
    "code-file": "weights and configuration only",
    "archive": "weights and configuration only",
}


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of an adapter folder.

    Attributes:
        name: its path inside the folder, with forward slashes.
        size_bytes: how long it is, or None where it was not opened.
        sha256: of its bytes, or None where it was not opened.
    """

    name: str
    size_bytes: int | None
    sha256: str | None


def check_files(folder: Path, *, keep: int) -> tuple[CheckResult, tuple[FileRecord, ...]]:
    """Is everything there, and nothing that could run?

    Args:
        folder: the adapter folder.
        keep: findings kept whole of each code.

    Returns:
        What was found, and every file by name.
    """
    collector = Collector("files", keep)
    records = tuple(_record(folder, name, collector) for name in sorted(_names(folder, collector)))
    present = {record.name for record in records}
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if name not in present:
            collector.add("file-missing", Place(name), f"{name} as PEFT writes it", "no such file")
    sharded = sorted(
        name for name in present if re.fullmatch(r"adapter_model.+safetensors.*", name)
    )
    if sharded and ADAPTER_WEIGHTS not in present:
        expected = f"one {ADAPTER_WEIGHTS}: PEFT reads no adapter in parts"
        collector.add("file-missing", Place(sharded[0]), expected, f"{len(sharded)} parts of one")
    n_bytes = sum(record.size_bytes or 0 for record in records)
    return collector.result(f"{len(records):,} files, {n_bytes:,} bytes"), records


def shown(text: str) -> str:
    r"""Make a name from a foreign file fit to be printed: no control characters, not too long.

    Example:
        >>> shown("q_proj\x1b[2J")
        'q_proj\\x1b[2J'
    """
    if len(text) > _LONGEST_SHOWN:
        text = f"{text[: _LONGEST_SHOWN - 3]}..."
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


def _names(folder: Path, collector: Collector) -> Iterator[str]:
    """Yield the relative paths of all that lies below a folder and is no folder itself."""

    def unreadable(error: OSError) -> None:
        name = Path(error.filename).relative_to(folder).as_posix()
        collector.add(
            "unreadable", Place(shown(name)), "a readable folder", error.strerror or "an error"
        )

    for parent, folders, files in os.walk(folder, onerror=unreadable, followlinks=False):
        here = Path(parent)
        for name in sorted(set(folders) & _SKIPPED_FOLDERS):
            folders.remove(name)
            place = Place(shown((here / name).relative_to(folder).as_posix()))
            collector.add("not-looked-into", place, "an adapter's own files", "a tool's folder")
        # A link to a folder beside it ("last" for "checkpoint-30") shows nothing twice.
        linked = [name for name in folders if (here / name).is_symlink()]
        leaving = [name for name in linked if not _stays_inside(folder, here / name)]
        yield from ((here / name).relative_to(folder).as_posix() for name in [*files, *leaving])


def _record(folder: Path, name: str, collector: Collector) -> FileRecord:
    path, place = folder / name, Place(shown(name))
    try:
        if path.is_symlink() and not _stays_inside(folder, path):
            expected = "a file of the folder itself"
            found = f"a link to {shown(str(path.readlink()))}"
            collector.add("link-outside", place, expected, found)
            return FileRecord(name, None, None)
        if not path.is_file():
            found = "a pipe, a device or a broken link"
            collector.add("unreadable", place, "an ordinary file", found)
            return FileRecord(name, None, None)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        record = FileRecord(name, path.stat().st_size, sha256_of_file(path))
    except (OSError, RuntimeError) as error:  # Python 3.11 raises RuntimeError for a loop of links
        found = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
        collector.add("unreadable", place, "an ordinary file", found)
        return FileRecord(name, None, None)
    kind, found = _kind(name, head)
    if kind != "other":
        collector.add(kind, place, _EXPECTED[kind], found)
    return record


def _stays_inside(folder: Path, path: Path) -> bool:
    root = folder.resolve()
    # The hub's cache links the files of a snapshot to the blobs beside it.
    blobs = [
        parent.parent / "blobs"
        for parent in root.parents
        if parent.name == "snapshots" and parent.parent.name.startswith("models--")
    ]
    target = path.resolve()
    return any(target.is_relative_to(home) for home in [root, *blobs])


def _kind(name: str, beginning: bytes) -> tuple[Kind, str]:
    """Say what a file is, and by which sign."""
    suffix, head = Path(name).suffix.lower(), beginning[:_HEAD_BYTES]
    pickled = head.startswith(_PICKLE_MAGIC) or b"data.pkl" in head or is_pickle(beginning)
    objects = head.startswith(b"\x93NUMPY") and _NUMPY_OBJECTS.search(head) is not None
    if suffix == ".safetensors":
        return _kind_of_safetensors(head, pickled=pickled)
    if suffix in PICKLED_SUFFIXES:
        return "pickled", f"a {suffix} file"
    if pickled or objects:
        return "pickled", "numpy objects, which are pickled" if objects else "a pickle by its bytes"
    if suffix in _CODE_SUFFIXES or head.startswith(_CODE_MAGIC):
        return "code-file", "code, which nothing here needs; it was not run"
    if suffix in _ARCHIVE_SUFFIXES or head.startswith(_ARCHIVE_MAGIC):
        return "archive", "an archive; it was not looked into"
    return "other", ""


def _kind_of_safetensors(head: bytes, *, pickled: bool) -> tuple[Kind, str]:
    # The length of a header may read like another format's magic: 640 is a pickle's 80 02.
    if head[4:9] == b"\x00\x00\x00\x00{":
        return "other", ""
    if head.startswith(_LFS_POINTER):
        return "not-safetensors", "a Git LFS pointer; the weights were not downloaded"
    if pickled:
        return "not-safetensors", "a pickle under another name"
    if head.startswith((*_ARCHIVE_MAGIC, *_CODE_MAGIC)):
        return "not-safetensors", "an archive or a program under another name"
    return "other", ""
