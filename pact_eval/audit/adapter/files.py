"""Checks "files" and "config": files that could run, and a configuration that makes sense.

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
    size_bytes: int | None = None
    sha256: str | None = None


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
    for name in sorted({*(others or ())} - {record.name for record in records}):
        kind, actual = _kind(name, b"")
        if kind in ("pickled", "code-file", "archive"):
            collector.add(kind, Place(shown(name)), _EXPECTED[kind], f"{actual}; not downloaded")
        records.append(FileRecord(name))
    return tuple(records)


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
        place = Place(shown(Path(error.filename).relative_to(folder).as_posix()))
        collector.add("unreadable", place, "a readable folder", error.strerror or "an error")

    for parent, folders, files in os.walk(folder, onerror=unreadable, followlinks=False):
        here = Path(parent).relative_to(folder)
        for name in sorted(set(folders) & _SKIPPED_FOLDERS):
            folders.remove(name)
            place = Place(shown((here / name).as_posix()))
            collector.add("not-looked-into", place, "an adapter's own files", "a tool's folder")
        # Links to folders inside ("last" for "checkpoint-30") are not listed twice.
        paths = {name: Path(parent) / name for name in folders}
        leaving = [
            name
            for name, path in paths.items()
            if path.is_symlink() and not stays_inside(folder, path)
        ]
        yield from ((here / name).as_posix() for name in [*files, *leaving])


def _record(folder: Path, name: str, collector: Collector) -> FileRecord:
    path, place, expected = folder / name, Place(shown(name)), "an ordinary file"
    try:
        if path.is_symlink() and not stays_inside(folder, path):
            link = f"a link to {shown(str(path.readlink()))}"
            collector.add("link-outside", place, "a file of the folder itself", link)
            return FileRecord(name)
        if not path.is_file():
            collector.add("unreadable", place, expected, "a pipe, a device or a broken link")
            return FileRecord(name)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        record = FileRecord(name, path.stat().st_size, sha256_of_file(path))
    except (OSError, RuntimeError) as error:  # Python 3.11 raises RuntimeError for a loop of links
        reason = getattr(error, "strerror", None) or error
        collector.add("unreadable", place, expected, f"it cannot be read ({reason})")
        return FileRecord(name)
    kind, actual = _kind(name, head)
    if kind != "other":
        collector.add(kind, place, _EXPECTED[kind], actual)
    return record


def _kind(name: str, beginning: bytes) -> tuple[Kind, str]:
    """Return the kind of a file, and what shows it: of several signs, the first of a list."""
    suffix, head = Path(name).suffix.lower(), beginning[:_HEAD_BYTES]
    pickled = head.startswith(_PICKLE_MAGIC) or b"data.pkl" in head or is_pickle(beginning)
    is_code, is_archive = head.startswith(_CODE_MAGIC), head.startswith(_ARCHIVE_MAGIC)
    objects = head.startswith(b"\x93NUMPY") and _NUMPY_OBJECTS.search(head) is not None
    code = "code, which an adapter does not need; it was not run"
    signs: list[tuple[bool, Kind, str]] = [
        (suffix in PICKLED_SUFFIXES, "pickled", f"a {suffix} file"),
        (objects, "pickled", "numpy objects, which are pickled"),
        (pickled, "pickled", "a pickle by its bytes"),
        (suffix in _CODE_SUFFIXES or is_code, "code-file", code),
        (suffix in _ARCHIVE_SUFFIXES or is_archive, "archive", "an archive; it was not opened"),
    ]
    if suffix == ".safetensors":
        # The length of a header may read like another format's magic: 640 is a pickle's 80 02.
        is_header, is_pointer = head[4:9] == b"\x00\x00\x00\x00{", head.startswith(_LFS_POINTER)
        pointer = "a Git LFS pointer; the weights were not downloaded"
        program = "an archive or a program under another name"
        signs = [
            (is_header, "other", ""),
            (is_pointer, "not-safetensors", pointer),
            (pickled, "not-safetensors", "a pickle under another name"),
            (is_archive or is_code, "not-safetensors", program),
        ]
    return next(((kind, shows) for is_there, kind, shows in signs if is_there), ("other", ""))


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
    stream, n_read, imports = io.BytesIO(head), 0, False
    depths = [0]  # values on the unpickler's stack, between its marks
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for opcode, argument, _ in pickletools.genops(stream):
                _apply(opcode, depths)
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


def _apply(opcode: pickletools.OpcodeInfo, depths: list[int]) -> None:
    """Take what an opcode takes and put what it puts; ValueError if there is too little."""
    takes, is_pop = opcode.stack_before, opcode.name == "POP"
    n_taken = len(takes)
    if pickletools.markobject in takes or (is_pop and depths[-1] == 0):
        if len(depths) == 1:
            raise ValueError("no mark")
        depths.pop()
        n_taken = 0 if is_pop else takes.index(pickletools.markobject)
    if depths[-1] < n_taken:
        raise ValueError("too little on the stack")
    depths[-1] -= n_taken
    for value in opcode.stack_after:
        if value is pickletools.markobject:
            depths.append(0)
        else:
            depths[-1] += 1


FILES: Final[Check[AdapterContext]] = Check(
    name="files",
    question="Is everything there, and nothing that could run?",
    run=lambda context, collector: check_files(context.files, collector),
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
            "A folder of a tool, or other files of the Hub, were not read.",
        ),
    },
)


ALL_LINEAR: Final = "all-linear"
"""PEFT's word for every linear module but the output layer."""

_PLACE: Final = Place(ADAPTER_CONFIG)
_TOO_LARGE: Final = 2**31
_Whole = Annotated[int, msgspec.Meta(gt=0, lt=_TOO_LARGE)]
_Number = _Whole | Annotated[float, msgspec.Meta(gt=0, lt=_TOO_LARGE)]
_Layer = Annotated[int, msgspec.Meta(ge=0)]
_Layers = _Layer | list[_Layer]
_Bias = Literal["none", "all", "lora_only"]
_Names = str | list[str]

_FLAG: Final = (bool, "true or false")
_NAME_LIST: Final = (_Names, "a list of names")
_PATTERN: Final = (dict, "an object of numbers")
# By attribute of the settings: key of the file, type, and what is expected there.
_KEYS: Final[Mapping[str, tuple[str, Any, str]]] = {
    "rank": ("r", _Whole, "an integer above 0"),
    "alpha": ("lora_alpha", _Number, "a number above 0"),
    "rank_pattern": ("rank_pattern", *_PATTERN),
    "alpha_pattern": ("alpha_pattern", *_PATTERN),
    "use_rslora": ("use_rslora", *_FLAG),
    "use_dora": ("use_dora", *_FLAG),
    "targets": ("target_modules", *_NAME_LIST),
    "target_parameters": ("target_parameters", *_NAME_LIST),
    "excluded": ("exclude_modules", *_NAME_LIST),
    "layers": ("layers_to_transform", _Layers, "layer numbers"),
    "layers_patterns": ("layers_pattern", *_NAME_LIST),
    "modules_to_save": ("modules_to_save", *_NAME_LIST),
    "bias": ("bias", _Bias, f"one of {', '.join(get_args(_Bias))}"),
    "lora_bias": ("lora_bias", *_FLAG),
    "fan_in_fan_out": ("fan_in_fan_out", *_FLAG),
    "task_type": ("task_type", str, "text"),
    "peft_version": ("peft_version", str, "text"),
}
_COMPULSORY: Final = ("rank", "alpha")
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
    used = [key for key, value in config.items() if value not in (None, False, [], {})]
    settings: dict[str, Any] = {
        "trains_tokens": "trainable_token_indices" in used,
        "variants": tuple(key for key in _VARIANTS if key in used),
    }
    for attribute, (key, kind, expected) in _KEYS.items():
        value: Any = config.get(key)
        if value is None and attribute not in _COMPULSORY:
            continue
        is_sound = _fits(value, kind)
        if attribute in ("targets", "excluded") and isinstance(value, str):
            is_sound, expected = is_regex(value), "a regular expression that can be read"
        elif is_sound and kind in (_Names, _Layers):
            value = tuple(sorted({*(value if isinstance(value, list) else [value])}))
        elif is_sound and kind is dict:
            value = _read_pattern(key, value, collector)
        if is_sound:
            settings[attribute] = value
        else:
            collector.add("value-malformed", _PLACE, f"{key}: {expected}", _text(value))
    settings["layers"] = settings.get("layers") or None  # an empty list stands for all layers
    return LoraSettings(**settings)


def _read_pattern(key: str, pattern: Mapping[str, Any], collector: Collector) -> dict[str, Any]:
    """Return the sound entries of a rank or alpha pattern; each other one is a finding."""
    _, kind, expected = _KEYS[key.removesuffix("_pattern")]
    read = {}
    for name, number in pattern.items():
        if is_regex(name) and _fits(number, kind):
            read[name] = number
        else:
            expectation = f"{key}: a regular expression and {expected}"
            collector.add("value-malformed", _PLACE, expectation, _text({name: number}))
    return read


def _fits(value: Json, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def check_config(
    config: Mapping[str, Json], settings: LoraSettings, collector: Collector
) -> CheckResult:
    """Check that the configuration describes a LoRA adapter consistently.

    What scoring refuses before PEFT sees the configuration is an error here, as are values that
    contradict one another: PEFT refuses them.

    Args:
        config: the parsed `adapter_config.json`.
        settings: the same with types.
        collector: holds the findings of `read_settings`.
    """
    if config.get("peft_type") != "LORA":
        collector.add("not-lora", _PLACE, "peft_type LORA", _text(config.get("peft_type")))
    no_target = not settings.targets and not settings.target_parameters
    contradictions = {
        "layers_to_transform with a regular expression for targets": (
            isinstance(settings.targets, str) and settings.layers is not None
        ),
        "layers_pattern without layers_to_transform": (
            bool(settings.layers_patterns) and settings.layers is None
        ),
        "lora_bias with use_dora": settings.lora_bias and settings.use_dora,
        "no target_modules and no target_parameters": (
            no_target and config.get("target_modules") in (None, [], "")
        ),
    }
    for contradiction, is_there in contradictions.items():
        if is_there:
            collector.add("values-contradict", _PLACE, "settings that go together", contradiction)
    for setting in unsafe_settings(config):
        collector.add(setting.kind, _PLACE, setting.expected, shown(setting.actual))
    mapping = config.get("auto_mapping")
    if mapping is not None and not isinstance(mapping, dict):
        expected = "auto_mapping: an object, or nothing"
        collector.add("value-malformed", _PLACE, expected, _text(mapping))
    if settings.task_type not in (None, "CAUSAL_LM"):
        collector.add("other-task", _PLACE, "task_type CAUSAL_LM", shown(settings.task_type))
    if settings.variants:
        variants = ", ".join(settings.variants)
        collector.add("lora-variant", _PLACE, "LoRA, DoRA or rsLoRA", variants)
    return collector.result(f"{len(config)} keys of {ADAPTER_CONFIG}")


def _text(value: Json) -> str:
    return shown(short(value, _LONGEST_SHOWN))


def _run(context: AdapterContext, collector: Collector) -> CheckResult:
    if context.config is None or context.settings is None:
        return context.failed_to_read(collector, "config-unreadable", ADAPTER_CONFIG)
    return check_config(context.config, context.settings, collector)


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
        "base-changed": ("error", "The initialisation changes the base when it is loaded."),
        "other-task": ("warning", "The adapter was trained for another task than text generation."),
        "lora-variant": ("note", "A variant of LoRA is in use whose tensors are not checked."),
    },
)
