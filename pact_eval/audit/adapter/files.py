"""Check "files": missing files, and files that could run.

Every file below the folder is listed and hashed, including those in subfolders; links that lead out
of the folder are not followed, and only ordinary files are opened. The content of a file is judged
by its name and by its first bytes, since a pickle does as much harm under another name. Pickles of
the protocols 2 to 5 start with a mark of their own. Those of the protocols 0 and 1 are nearly plain
text: they are recognised by reading their opcodes, none of which is executed.
"""

from __future__ import annotations

import io
import math
import os
import pickletools
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import msgspec

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, cut, short
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.errors import Place, counted
from pact_eval.hub import stays_inside
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    PICKLED_SUFFIXES,
    is_regex,
    unsafe_settings,
)

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
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in cut(text, _LONGEST_SHOWN)
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
                raise ValueError("no mark")
            self._depths.pop()
            is_pop = opcode.name == "POP"
            n_taken = 0 if is_pop else takes.index(pickletools.markobject)
        if self._depths[-1] < n_taken:
            raise ValueError("too little on the stack")
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


ALL_LINEAR: Final = "all-linear"
"""PEFT's word for every linear module but the output layer."""

_PLACE: Final = Place(ADAPTER_CONFIG)
_TOO_LARGE: Final = 2**31
_Bias = Literal["none", "all", "lora_only"]
_COMPULSORY: Final = ("r", "lora_alpha")
_Whole = Annotated[int, msgspec.Meta(gt=0, lt=_TOO_LARGE)]
_Number = _Whole | Annotated[float, msgspec.Meta(gt=0, lt=_TOO_LARGE)]
_Layer = Annotated[int, msgspec.Meta(ge=0)]

# Options that change what the tensors mean, or add tensors that we do not know.
_VARIANTS: Final = (
    "alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication",
    "monteclora_config", "use_bdlora", "use_qalora", "velora_config",
)  # fmt: skip


@dataclass(frozen=True)
class LoraSettings:
    """A LoRA adapter as its configuration describes it.

    Attributes:
        rank: r, or None if it is not known.
        alpha: lora_alpha, or None if it is not known.
        rank_pattern: other ranks, by a regular expression for the end of a module's name.
        alpha_pattern: other alphas, likewise.
        use_rslora: whether the scale is alpha/sqrt(r).
        use_dora: whether magnitudes were trained too.
        targets: the modules' names or ends of names, sorted; or one regular expression; or None.
        target_parameters: parameters that are adapted without a module of their own.
        excluded: modules that are left out, as `targets`.
        layers: numbers of the only layers that are adapted; None for all of them.
        layers_patterns: names of the list of layers that `layers` counts in.
        modules_to_save: modules that were trained in full.
        bias: "none", "all" or "lora_only".
        lora_bias: whether the B factors have a bias.
        fan_in_fan_out: whether the base stores weights as (in, out).
        trains_tokens: whether single embedding rows were trained.
        variants: options in use that this audit does not know.
        task_type: as PEFT spells it: "CAUSAL_LM", ...
        peft_version: that wrote the file.
    """

    rank: int | None = None
    alpha: float | None = None
    rank_pattern: Mapping[str, int] = field(default_factory=dict)
    alpha_pattern: Mapping[str, float] = field(default_factory=dict)
    use_rslora: bool = False
    use_dora: bool = False
    targets: tuple[str, ...] | str | None = None
    target_parameters: tuple[str, ...] = ()
    excluded: tuple[str, ...] | str | None = None
    layers: tuple[int, ...] | None = None
    layers_patterns: tuple[str, ...] = ()
    modules_to_save: tuple[str, ...] = ()
    bias: str = "none"
    lora_bias: bool = False
    fan_in_fan_out: bool = False
    trains_tokens: bool = False
    variants: tuple[str, ...] = ()
    task_type: str | None = None
    peft_version: str | None = None

    @property
    def scale(self) -> float | None:
        """The factor of the update, unless a pattern gives another."""
        if self.rank is None or self.alpha is None:
            return None
        return lora_scale(self.alpha, self.rank, rslora=self.use_rslora)


def lora_scale(alpha: float, rank: int, *, rslora: bool) -> float:
    """Return alpha/r, or alpha/sqrt(r) for rank-stabilised LoRA (Kalajdzievski 2023).

    Examples:
        >>> lora_scale(32, 16, rslora=False), lora_scale(32, 16, rslora=True)
        (2.0, 8.0)
    """
    return alpha / (math.sqrt(rank) if rslora else rank)


def read_settings(config: Mapping[str, Json], collector: Collector) -> LoraSettings:
    """Read a configuration with types; a malformed value is a finding and counts as absent.

    Args:
        config: the parsed `adapter_config.json`.
        collector: of the check "config".

    Examples:
        >>> config = {"peft_type": "LORA", "r": 16, "lora_alpha": 32, "target_modules": ["q_proj"]}
        >>> read_settings(config, Collector("config", keep=5)).scale
        2.0
    """
    return _settings(_Reader(config, collector))


def check_config(
    config: Mapping[str, Json], settings: LoraSettings, collector: Collector
) -> CheckResult:
    """Check that the configuration describes a LoRA adapter consistently.

    Args:
        config: the parsed `adapter_config.json`.
        settings: the same with types.
        collector: holds the findings of `read_settings`.
    """
    if config.get("peft_type") != "LORA":
        collector.add("not-lora", _PLACE, "peft_type LORA", _text(config.get("peft_type")))
    _check_together(settings, config, collector)
    _check_safety(config, collector)
    if settings.task_type not in (None, "CAUSAL_LM"):
        collector.add("other-task", _PLACE, "task_type CAUSAL_LM", shown(settings.task_type))
    if settings.variants:
        variants = ", ".join(settings.variants)
        collector.add("lora-variant", _PLACE, "LoRA, DoRA or rsLoRA", variants)
    return collector.result(f"{len(config)} keys of {ADAPTER_CONFIG}")


class _Reader:
    """Reads values of a configuration; a malformed value is a finding and counts as absent."""

    def __init__(self, config: Mapping[str, Json], collector: Collector) -> None:
        self._config = config
        self._collector = collector

    def value(self, key: str, kind: Any, expected: str, default: Any = None) -> Any:
        """Return a value of a type; absent or malformed, the default."""
        value = self._config.get(key)
        if value is not None and _fits(value, kind):
            return value
        if value is not None or key in _COMPULSORY:
            self._refuse(key, expected, value)
        return default

    def flag(self, key: str) -> bool:
        """Return true or false; absent is false."""
        flag: bool = self.value(key, bool, "true or false", default=False)
        return flag

    def pattern(self, key: str, kind: Any, expected: str) -> dict[str, Any]:
        """Return numbers by regular expression; none if the key is absent."""
        read: dict[str, Any] = {}
        for name, number in self.value(key, dict, "an object of numbers", {}).items():
            if is_regex(name) and _fits(number, kind):
                read[name] = number
            else:
                self._refuse(key, f"a regular expression and {expected}", {name: number})
        return read

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, sorted; one text is a list of one; absent is none."""
        names = self.value(key, str | list[str], "a list of names", [])
        return tuple(sorted({names} if isinstance(names, str) else {*names}))

    def names_or_regex(self, key: str) -> tuple[str, ...] | str | None:
        """Return names, sorted; one regular expression; or None if the key is absent."""
        value = self._config.get(key)
        if isinstance(value, str):
            if is_regex(value):
                return value
            self._refuse(key, "a regular expression that can be read", value)
            return None
        return None if value is None else self.names(key)

    def layers(self, key: str) -> tuple[int, ...] | None:
        """Return layer numbers, sorted; None for all layers."""
        numbers = self.value(key, _Layer | list[_Layer], "layer numbers")
        if numbers in (None, []):
            return None
        return tuple(sorted({*(numbers if isinstance(numbers, list) else [numbers])}))

    def in_use(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the keys that are set to something."""
        return tuple(key for key in keys if self._config.get(key) not in (None, False, [], {}))

    def _refuse(self, key: str, expected: str, value: Json) -> None:
        self._collector.add("value-malformed", _PLACE, f"{key}: {expected}", _text(value))


def _settings(read: _Reader) -> LoraSettings:
    whole, number = "an integer above 0", "a number above 0"
    return LoraSettings(
        rank=read.value("r", _Whole, whole),
        alpha=read.value("lora_alpha", _Number, number),
        rank_pattern=read.pattern("rank_pattern", _Whole, whole),
        alpha_pattern=read.pattern("alpha_pattern", _Number, number),
        use_rslora=read.flag("use_rslora"),
        use_dora=read.flag("use_dora"),
        targets=read.names_or_regex("target_modules"),
        target_parameters=read.names("target_parameters"),
        excluded=read.names_or_regex("exclude_modules"),
        layers=read.layers("layers_to_transform"),
        layers_patterns=read.names("layers_pattern"),
        modules_to_save=read.names("modules_to_save"),
        bias=read.value("bias", _Bias, f"one of {', '.join(get_args(_Bias))}", "none"),
        lora_bias=read.flag("lora_bias"),
        fan_in_fan_out=read.flag("fan_in_fan_out"),
        trains_tokens=bool(read.in_use(("trainable_token_indices",))),
        variants=read.in_use(_VARIANTS),
        task_type=read.value("task_type", str, "text"),
        peft_version=read.value("peft_version", str, "text"),
    )


def _check_together(
    settings: LoraSettings, config: Mapping[str, Json], collector: Collector
) -> None:
    """Find values that contradict one another; PEFT refuses such a file."""
    by_regex = isinstance(settings.targets, str)
    faults = {
        "layers_to_transform with a regular expression for targets": (
            by_regex and settings.layers is not None
        ),
        "layers_pattern without layers_to_transform": (
            bool(settings.layers_patterns) and settings.layers is None
        ),
        "lora_bias with use_dora": settings.lora_bias and settings.use_dora,
        "no target_modules and no target_parameters": (
            not settings.targets
            and not settings.target_parameters
            and config.get("target_modules") in (None, [], "")
        ),
    }
    for fault, there in faults.items():
        if there:
            collector.add("values-contradict", _PLACE, "settings that go together", fault)


def _check_safety(config: Mapping[str, Json], collector: Collector) -> None:
    """Find what scoring refuses before PEFT sees the configuration."""
    for setting in unsafe_settings(config):
        collector.add(setting.kind, _PLACE, setting.expected, shown(setting.actual))
    mapping = config.get("auto_mapping")
    if mapping is not None and not isinstance(mapping, dict):
        expected = "auto_mapping: an object, or nothing"
        collector.add("value-malformed", _PLACE, expected, _text(mapping))


def _fits(value: Json, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _text(value: Json) -> str:
    return shown(short(value, _LONGEST_SHOWN))


def _run(context: AdapterContext) -> CheckResult:
    if context.config is None or context.settings is None:
        return context.failed_to_read("config", "config-unreadable", ADAPTER_CONFIG)
    return check_config(context.config, context.settings, context.collector("config"))


CONFIG: Final[Check[AdapterContext]] = Check(
    name="config",
    question="Is it a LoRA adapter whose configuration makes sense?",
    run=_run,
    needs=(ADAPTER_CONFIG,),
    codes={
        "config-unreadable": ("error", "adapter_config.json is not an object of strict JSON."),
        "not-lora": ("error", "The adapter is not a LoRA."),
        "value-malformed": ("error", "A value is missing, or of another type than PEFT writes."),
        "values-contradict": ("error", "Two values contradict one another."),
        "imports-library": ("error", "The configuration names a library that PEFT would import."),
        "base-changed": (
            "error",
            "The initialisation changes the base when the adapter is loaded.",
        ),
        "other-task": ("warning", "The adapter was trained for another task than text generation."),
        "lora-variant": ("note", "A variant of LoRA is in use whose tensors are not checked."),
    },
)
