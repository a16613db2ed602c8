"""Check "files": missing files, and files that could run.

Every file below the folder is listed and hashed, including those in subfolders; links that lead out
of the folder are not followed, and only ordinary files are opened. The content of a file is judged
by its name and by its first bytes, since a pickle does as much harm under another name. Pickles of
the protocols 2 to 5 start with a mark of their own. Those of the protocols 0 and 1 are nearly plain
text: they are recognised by reading their opcodes, none of which is executed.
"""

from __future__ import annotations

import io
import os
import pickletools
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pact_eval._files import sha256_of_file
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.registry import Check
from pact_eval.errors import Place, counted
from pact_eval.hub.snapshots import stays_inside
from pact_eval.models.folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS, PICKLED_SUFFIXES

if TYPE_CHECKING:
    from pact_eval.audit.adapter.context import AdapterContext

Kind = Literal["pickled", "not-safetensors", "code-file", "archive", "other"]

_CODE_SUFFIXES: Final = {
    ".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".exe", ".sh", ".bash", ".bat",
    ".cmd", ".ps1", ".js", ".jar", ".ipynb", ".pl", ".rb", ".lua",
}  # fmt: skip
_CODE_MAGIC: Final = (b"#!", b"\x7fELF", b"MZ\x90", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")
_ARCHIVE_MAGIC: Final = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf\x27\x1c")
_ARCHIVE_SUFFIXES: Final = {".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z", ".npz", ".whl"}
# Protocols 2 to 5; older pickles are recognised by their opcodes.
_PICKLE_MAGIC: Final = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))
_LFS_POINTER: Final = b"version https://git-lfs"
_NUMPY_OBJECTS: Final = re.compile(rb"['\"][|<>=]?O[0-9]*['\"]")

# Kept by git and by the hub's downloader next to the adapter; no library loads them.
_SKIPPED_FOLDERS: Final = {".git", ".cache"}
_HEAD_BYTES = 4096
_LONGEST_SHOWN = 160

HEAD_BYTES: Final = 1 << 16
"""How much of a file is read as opcodes."""

_CALLS: Final = {"REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD"}
_IMPORTS: Final = {"GLOBAL", "STACK_GLOBAL"}
_NAMES: Final = re.compile(r"[\w.\-]+ [\w.\-]+")  # of a module, and of what is in it
# Fewer can occur in a text by chance: "Git v2.31.7" is a float, and the end.
_ENOUGH_OPCODES: Final = 8

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
        size_bytes: its size, or None if it was not opened.
        sha256: of its bytes, or None if it was not opened.
    """

    name: str
    size_bytes: int | None
    sha256: str | None


def list_files(
    folder: Path, collector: Collector, others: Iterable[str] | None = ()
) -> tuple[FileRecord, ...]:
    """List and hash every file of an adapter folder, by name.

    Args:
        folder: the adapter folder.
        collector: takes findings about files that could run, lead elsewhere or cannot be read.
        others: names of files of its repository that are not in the folder; only the names tell
            what they are. None if the Hub was not asked.
    """
    records = [_record(folder, name, collector) for name in sorted(_names(folder, collector))]
    if others is None:
        expected, actual = "a listing by the Hub", "HF_HUB_OFFLINE is set: only the cache was read"
        collector.add("not-looked-into", Place("other files"), expected, actual)
    elsewhere = sorted({*(others or ())} - {record.name for record in records})
    return (*records, *(_record_of_name(name, collector) for name in elsewhere))


def check_files(files: Iterable[FileRecord], collector: Collector) -> CheckResult:
    """Check that the files that PEFT needs are among those listed.

    Args:
        files: the files of an adapter folder.
        collector: holds the findings of `list_files`.
    """
    sizes = {record.name: record.size_bytes or 0 for record in files}
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        if name not in sizes:
            collector.add("file-missing", Place(name), f"{name} as PEFT writes it", "no such file")
    sharded = sorted(name for name in sizes if re.fullmatch(r"adapter_model.+safetensors.*", name))
    if sharded and ADAPTER_WEIGHTS not in sizes:
        expected = f"one {ADAPTER_WEIGHTS}: PEFT reads no adapter in parts"
        collector.add("file-missing", Place(sharded[0]), expected, f"{len(sharded)} parts of one")
    return collector.result(f"{counted(len(sizes), 'file')}, {sum(sizes.values()):,} bytes")


def shown(text: str) -> str:
    r"""Return a name from a foreign file in printable form: no control characters, not too long.

    Examples:
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
    """Yield the relative paths of everything below a folder that is not itself a folder."""

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
        # Links to folders inside ("last" for "checkpoint-30") are not listed twice.
        linked = [name for name in folders if (here / name).is_symlink()]
        leaving = [name for name in linked if not stays_inside(folder, here / name)]
        yield from ((here / name).relative_to(folder).as_posix() for name in [*files, *leaving])


def _record(folder: Path, name: str, collector: Collector) -> FileRecord:
    path, place = folder / name, Place(shown(name))
    try:
        if path.is_symlink() and not stays_inside(folder, path):
            expected = "a file of the folder itself"
            actual = f"a link to {shown(str(path.readlink()))}"
            collector.add("link-outside", place, expected, actual)
            return FileRecord(name, None, None)
        if not path.is_file():
            actual = "a pipe, a device or a broken link"
            collector.add("unreadable", place, "an ordinary file", actual)
            return FileRecord(name, None, None)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        record = FileRecord(name, path.stat().st_size, sha256_of_file(path))
    except (OSError, RuntimeError) as error:  # Python 3.11 raises RuntimeError for a loop of links
        actual = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
        collector.add("unreadable", place, "an ordinary file", actual)
        return FileRecord(name, None, None)
    kind, actual = _kind(name, head)
    if kind != "other":
        collector.add(kind, place, _EXPECTED[kind], actual)
    return record


def _record_of_name(name: str, collector: Collector) -> FileRecord:
    kind, actual = _kind(name, b"")
    if kind in ("pickled", "code-file", "archive"):
        place = Place(shown(name))
        collector.add(kind, place, _EXPECTED[kind], f"{actual}; not downloaded")
    return FileRecord(name, None, None)


def _kind(name: str, beginning: bytes) -> tuple[Kind, str]:
    """Return the kind of a file, and what shows it."""
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
        return "code-file", "code, which an adapter does not need; it was not run"
    if suffix in _ARCHIVE_SUFFIXES or head.startswith(_ARCHIVE_MAGIC):
        return "archive", "an archive; it was not opened"
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


def is_pickle(head: bytes) -> bool:
    r"""Return whether bytes read as a pickle: opcodes that find what they need on the stack.

    Args:
        head: the first `HEAD_BYTES` of a file, or all of it.

    Returns:
        True if the opcodes call something, import something and end, end where the file does, or
        are too many for a text.

    Examples:
        >>> is_pickle(b"cos\nsystem\n(S'id'\ntR."), is_pickle(b"cos and system.")
        (True, False)
    """
    stream, stack, n_read, imports = io.BytesIO(head), _Stack(), 0, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for opcode, argument, _ in pickletools.genops(stream):
                stack.apply(opcode)
                n_read += 1
                if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                    return False
                imports = imports or opcode.name in _IMPORTS
                if opcode.name in _CALLS:
                    return True
    except (ValueError, OverflowError):
        # It stopped at an invalid opcode, or where the head ends.
        is_cut = len(head) >= HEAD_BYTES and stream.tell() == len(head)
        return is_cut and n_read >= _ENOUGH_OPCODES
    return imports or n_read >= _ENOUGH_OPCODES or stream.tell() == len(head)


class _Stack:
    """The number of values on an unpickler's stack, between its marks."""

    def __init__(self) -> None:
        self._depths = [0]

    def apply(self, opcode: pickletools.OpcodeInfo) -> None:
        """Take what an opcode takes and put what it puts; ValueError if there is too little."""
        takes, puts = opcode.stack_before, opcode.stack_after
        n_taken = len(takes)
        if pickletools.markobject in takes or (opcode.name == "POP" and self._depths[-1] == 0):
            if len(self._depths) == 1:
                message = "no mark"
                raise ValueError(message)
            self._depths.pop()
            is_pop = opcode.name == "POP"
            n_taken = 0 if is_pop else takes.index(pickletools.markobject)
        if self._depths[-1] < n_taken:
            message = "too little on the stack"
            raise ValueError(message)
        self._depths[-1] -= n_taken
        for value in puts:
            if value is pickletools.markobject:
                self._depths.append(0)
            else:
                self._depths[-1] += 1


FILES: Final[Check[AdapterContext]] = Check(
    name="files",
    question="Is everything there, and nothing that could run?",
    run=lambda context: check_files(context.files, context.collector("files")),
    codes={
        "file-missing": ("error", "A file that PEFT needs is missing."),
        "pickled": ("error", "A file would be unpickled, which can run code."),
        "not-safetensors": ("error", "A file named .safetensors holds something else."),
        "link-outside": ("error", "A link leads out of the folder; it was not followed."),
        "unreadable": ("error", "A file is not an ordinary file, or it cannot be read."),
        "code-file": ("warning", "A file is code; nothing here would run it."),
        "archive": ("warning", "A file is an archive; it was not opened."),
        "not-looked-into": (
            "note",
            "A folder belongs to a tool, or the Hub was not asked for other files; not read.",
        ),
    },
)
