"""Adapters and base models, in folders or named by a Hub id, read without torch.

Weights are data. Only safetensors are accepted. Pickled files (`.bin`, `.pt`, ...) are refused
before any library could unpickle them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal

from pact_eval._files import open_regular, read_json, sha256_of_file
from pact_eval._json import Json, describe, loads, short
from pact_eval.errors import AdapterError, InputError, PactError
from pact_eval.hub import (
    HubName,
    download,
    is_hub_id,
    is_hub_url,
    list_repository,
    model_name,
    snapshot_of,
)

ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
SCHEMA_CONFIG: Final = "schema_config.json"

PICKLED_SUFFIXES: Final = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
"""Suffixes of pickled files; unpickling can run code."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, dtype, shape and position of one stored tensor.

    Attributes:
        name: its key in the file.
        dtype: its dtype as named by safetensors: "F32", "BF16", ...
        shape: its dimensions.
        offset_bytes: position of its first byte in the file.
        size_bytes: number of bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """A LoRA adapter folder.

    Attributes:
        folder: its path.
        config: the parsed `adapter_config.json`.
        schema_config: the parsed `schema_config.json`, or None if there is none.
        tensors: the tensors of `adapter_model.safetensors`.
        sha256: SHA-256 of `adapter_model.safetensors`.
        config_sha256: SHA-256 of `adapter_config.json`, which sets the scale of the adapter.
    """

    folder: Path
    config: Mapping[str, Json]
    schema_config: Mapping[str, Json] | None
    tensors: tuple[TensorInfo, ...]
    sha256: str
    config_sha256: str

    @property
    def base_model(self) -> str | None:
        """The base model named in `schema_config.json`, else in `adapter_config.json`."""
        return named_base_model(self.config, self.schema_config)

    @property
    def base_revision(self) -> str | None:
        """The revision of the base model that the adapter names, if any."""
        return named_base_revision(self.config, self.schema_config)

    @property
    def weights(self) -> Path:
        """Path of the safetensors file."""
        return self.folder / ADAPTER_WEIGHTS


def require_adapter_folder(folder: Path) -> None:
    """Refuse an adapter folder that does not exist, with advice if its name is a Hub id.

    Raises:
        AdapterError: there is no such folder.

    Examples:
        >>> require_adapter_folder(Path("organisation/adapter"))
        Traceback (most recent call last):
            ...
        pact_eval.errors.AdapterError: organisation/adapter: no such adapter folder; to read it \
from the Hub, write hf://organisation/adapter
    """
    if not folder.is_dir():
        message = f"{folder}: no such adapter folder"
        if is_hub_id(folder.as_posix()):
            message += f"; to read it from the Hub, write hf://{folder.as_posix()}"
        raise AdapterError(message)


def refuse_other_folder(folder: Path) -> None:
    """Refuse a folder that is a dataset or a run, and not an adapter.

    Raises:
        AdapterError: it is; the message says what to do with it.
    """
    if not folder.is_dir() or (folder / ADAPTER_CONFIG).exists():
        return
    if (folder / "run.json").exists():
        message = f"{folder} is a run folder, not an adapter; `pact-eval report {folder}` shows it"
        raise AdapterError(message)
    if (folder / "manifest.json").exists() or any(folder.glob("*.jsonl")):
        raise AdapterError(
            f"{folder} is a dataset folder, not an adapter; use: pact-eval score ADAPTER --data "
            f"{folder}"
        )


def is_base_alone(folder: Path) -> bool:
    """Return whether a folder has a model and no adapter."""
    return not (folder / ADAPTER_CONFIG).exists() and (folder / "config.json").exists()


def read_adapter_files(folder: Path) -> AdapterFiles:
    """Read an adapter folder without loading its weights.

    Args:
        folder: a folder as PEFT writes it, with `adapter_config.json` and
            `adapter_model.safetensors`.

    Returns:
        Its configuration, tensors and hash.

    Raises:
        AdapterError: a file is missing or damaged, the weights are pickled, or it is not a LoRA.
    """
    require_adapter_folder(folder)
    refuse_other_folder(folder)
    if is_base_alone(folder):
        raise AdapterError(
            f"{folder}: expected an adapter, found a base model (config.json); to score it alone, "
            f"use --base-model {folder} --no-adapter without ADAPTER"
        )
    config = read_json_object(folder / ADAPTER_CONFIG)
    if config.get("peft_type") != "LORA":
        raise AdapterError(
            f"{folder / 'adapter_config.json'}: expected peft_type LORA, got "
            f"{config.get('peft_type')!r}"
        )
    weights = folder / ADAPTER_WEIGHTS
    if not weights.exists():
        raise AdapterError(_without_weights(folder, ADAPTER_WEIGHTS))
    schema = folder / SCHEMA_CONFIG
    return AdapterFiles(
        folder=folder,
        config=config,
        schema_config=read_json_object(schema) if schema.exists() else None,
        tensors=safetensors_header(weights),
        sha256=sha256_of_file(weights),
        config_sha256=sha256_of_file(folder / ADAPTER_CONFIG),
    )


def named_base_model(
    config: Mapping[str, Json] | None, schema_config: Mapping[str, Json] | None
) -> str | None:
    """Return the base model that an adapter names.

    Args:
        config: the parsed `adapter_config.json`, or None if it cannot be read.
        schema_config: the parsed `schema_config.json`, which takes precedence; or None.

    Examples:
        >>> named_base_model({"base_model_name_or_path": "Qwen/Qwen3-0.6B"}, {"model": ""})
        'Qwen/Qwen3-0.6B'
    """
    named = (schema_config or {}).get("model"), (config or {}).get("base_model_name_or_path")
    return next((name for name in named if isinstance(name, str) and name), None)


def base_folders(name: str, adapter: Path) -> tuple[Path, ...]:
    r"""Return the folders where a base that an adapter names is looked for, in this order.

    A relative path starts from the adapter's folder or the one that holds it, or from the working
    folder, as in the training that recorded it.

    Args:
        name: the path or hub id.
        adapter: the adapter's folder.

    Examples:
        >>> for folder in base_folders("models/base", Path("out/adapter")):
        ...     print(os.path.normpath(folder))
        out/adapter/models/base
        out/models/base
        models/base
        >>> base_folders("\x00", Path("out/adapter")), base_folders("\ud800", Path("out"))
        ((), ())
    """
    places = (start / name for start in (adapter, adapter / "..", Path()))
    try:
        return tuple({os.path.realpath(place): place for place in places}.values())
    except ValueError:  # a null byte, or half of a surrogate pair: no file has such a name
        return ()


def find_base_folder(name: str, adapter: Path) -> Path | None:
    """Return the first of the folders of `base_folders` that exists; None if there is none."""
    # os.path: False, not an error, for a name that is too long.
    return next(filter(os.path.isdir, base_folders(name, adapter)), None)


def named_base_revision(
    config: Mapping[str, Json] | None, schema_config: Mapping[str, Json] | None
) -> str | None:
    """Return the revision of the base model that an adapter names; as `named_base_model`.

    Examples:
        >>> named_base_revision({"revision": "c1899de"}, None)
        'c1899de'
    """
    named = (schema_config or {}).get("revision"), (config or {}).get("revision")
    return next((revision for revision in named if isinstance(revision, str) and revision), None)


def read_json_object(path: Path) -> dict[str, Json]:
    """Read a configuration file that must hold one JSON object.

    Raises:
        AdapterError: it is missing, is not a JSON object, or is far too long for a configuration.
    """
    try:
        value = read_json(path, missing=f"expected {path.name}, found none")
    except InputError as error:
        raise AdapterError(str(error)) from None
    if not isinstance(value, dict):
        raise AdapterError(f"{path}: expected a JSON object, got {describe(value)}")
    return value


MOST_TENSORS: Final = 100_000
"""Most tensors of a file. An adapter of 256 experts in 60 layers has 92,000."""


def safetensors_header(path: Path) -> tuple[TensorInfo, ...]:
    """Read the header of a safetensors file, and check that its data are complete.

    The safetensors library checks the header: dtypes are known, sizes fit shapes, and the tensors
    cover the data without gaps or overlaps. It accepts duplicate names, which are refused here. It
    does not give the offsets of the data, so the JSON of a valid header is read again.

    Args:
        path: the file: 8 bytes with the header length, a JSON header, the data.

    Returns:
        One entry per tensor, in the order of the header.

    Raises:
        AdapterError: the header is damaged or has more than `MOST_TENSORS` tensors, the file is
            cut short, or it cannot be read.
    """
    from safetensors import SafetensorError, safe_open  # reports read no weights: no import

    try:
        open_regular(path).close()  # safetensors would wait for the writer of a pipe
        with safe_open(path, framework="np") as opened:
            n_tensors = len(opened.keys())
        if n_tensors > MOST_TENSORS:  # before the header becomes objects of Python
            message = f"{path}: expected at most {MOST_TENSORS:,} tensors, got {n_tensors:,}"
            raise AdapterError(message)
        with open_regular(path) as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: Any = loads(file.read(length).decode("utf-8"))
    except InputError as error:
        raise AdapterError(str(error)) from None
    except OSError as error:
        raise AdapterError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (SafetensorError, ValueError, struct.error) as error:
        raise AdapterError(f"{path}: damaged or cut short ({error})") from None
    return tuple(
        TensorInfo(
            name=name,
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            offset_bytes=8 + length + entry["data_offsets"][0],
            size_bytes=entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    )


def sha256_of_weights(folder: Path) -> str:
    """Return one SHA-256 for all weight files of a base-model folder.

    For one file, it is the hash of that file. For several shards, it is the hash of the lines
    `<sha256>  <name>`, sorted by name, as computed by `sha256sum *.safetensors | sha256sum`.

    Raises:
        AdapterError: there are no safetensors (the message names pickled weights), one of them is
            damaged, or the folder is an adapter.
    """
    files = weight_files(folder)
    for file in files:
        safetensors_header(file)
    hashes = [sha256_of_file(file) for file in files]
    if len(files) == 1:
        return hashes[0]
    lines = "".join(f"{sha}  {file.name}\n" for sha, file in zip(hashes, files, strict=True))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Return the safetensors files of a base-model folder, by name.

    Raises:
        AdapterError: there are none (the message names pickled weights), or the folder is an
            adapter.
    """
    if (folder / ADAPTER_CONFIG).exists():
        # transformers would silently load the adapter and the base that it names.
        raise AdapterError(f"{folder}: expected a base model, found an adapter ({ADAPTER_CONFIG})")
    files = tuple(sorted(folder.glob("*.safetensors")))
    if not files:
        raise AdapterError(_without_weights(folder, "*.safetensors"))
    return files


def _without_weights(folder: Path, expected: str) -> str:
    pickled = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLED_SUFFIXES)
    if pickled:
        return (
            f"{folder}: expected {expected}, found {', '.join(pickled)}; pickled weights can run "
            "code and are refused: save the weights as safetensors"
        )
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if files:
        return f"{folder}: expected {expected}, found {', '.join(files)}; {GGUF_REMEDY}"
    return f"{folder}: expected weights ({expected}), found none"


GGUF_REMEDY: Final = (
    "load model and tokenizer with gguf_file= of transformers, delete config.quantization_config, "
    "set hf_quantizer to None, and save both"
)
"""What to do with a model that is a GGUF: its weights have to be dequantised once."""


METHODS: Final = ("nf4",)
"""Values of `--quantize`."""

_INT8: Final = "it flipped 12 answers in 80 where bf16 flipped 3; use nf4"
_INT8_NAMES: Final = frozenset({"int8", "8bit", "llmint8"})


def check_quantisation(name: str) -> None:
    """Refuse a method of quantisation that is not supported.

    Args:
        name: a value of `--quantize`.

    Raises:
        AdapterError: it is not supported; the message gives the reason.

    Examples:
        >>> check_quantisation("nf4")
    """
    if name in METHODS:
        return
    plain = "".join(filter(str.isalnum, name.lower()))
    reason = f"int8 is refused: {_INT8}" if plain in _INT8_NAMES else f"expected nf4, got {name!r}"
    raise AdapterError(f"--quantize: {reason}")


def stored_quantisation(base: Path) -> str | None:
    """Return how the weights of a base model on disk are quantised.

    Args:
        base: folder of the base model, with a `config.json`.

    Returns:
        The method, such as "nf4" or "gptq"; None if they are not quantised.

    Raises:
        AdapterError: they are integers of 8 bits, or the file cannot be read.
    """
    settings = read_json_object(base / "config.json").get("quantization_config")
    if not isinstance(settings, dict):
        return None
    if settings.get("load_in_8bit"):
        raise AdapterError(f"{base}: the base model is stored in int8, which is refused: {_INT8}")
    four_bits = settings.get("load_in_4bit")
    return str(settings.get("bnb_4bit_quant_type" if four_bits else "quant_method") or "unknown")


_SECONDS: Final = 10.0
_REPEATS: Final = re.compile(r"[*+?{(]")
_SCRIPT: Final = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
patterns, names = json.load(sys.stdin)
json.dump([[n for n in names if re.fullmatch(p, n)] for p in patterns], sys.stdout)
"""


class PatternError(PactError):
    """The regular expressions of a configuration cannot be tried within some seconds."""


def full_matches(patterns: Sequence[str], names: Sequence[str]) -> list[frozenset[str]]:
    """Return the names that each regular expression matches from end to end.

    Args:
        patterns: regular expressions that Python can read.
        names: what they are tried on.

    Returns:
        One set per pattern.

    Raises:
        PatternError: they fail together, or take longer than some seconds.

    Examples:
        >>> [sorted(matches) for matches in full_matches(["q.proj", "v.*"], ["q_proj", "v_proj"])]
        [['q_proj'], ['v_proj']]
    """
    if not any(_REPEATS.search(pattern) for pattern in patterns):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = [re.compile(pattern) for pattern in patterns]
        return [frozenset(filter(pattern.fullmatch, names)) for pattern in compiled]
    try:
        # -I: nothing in the current folder is imported.
        done = subprocess.run(  # noqa: S603 - our own interpreter and script; the data go to stdin
            [sys.executable, "-I", "-c", _SCRIPT],
            input=json.dumps([patterns, names]),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        raise PatternError(f"they fail, or take longer than {_SECONDS:.0f} seconds") from None
    return [frozenset(names_of_pattern) for names_of_pattern in json.loads(done.stdout)]


def is_regex(text: str) -> bool:
    """Return whether Python can read a text as a regular expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def ending(key: str) -> str:
    """Return the expression by which PEFT looks for a key of a rank or alpha pattern."""
    return rf"(.*\.)?({key})"


def refuse_costly_patterns(adapter: AdapterFiles, names: Sequence[str]) -> None:
    """Try every regular expression of a configuration, as PEFT will, within some seconds.

    Args:
        adapter: the adapter.
        names: the names of the base model's modules.

    Raises:
        AdapterError: they take longer. What Python cannot read is left to PEFT, which refuses it.
    """
    try:
        full_matches(list(filter(is_regex, _peft_patterns(adapter.config))), names)
    except PatternError as error:
        raise AdapterError(
            f"{adapter.folder / ADAPTER_CONFIG}: expected regular expressions that can be tried on "
            f"the {len(names):,} modules of the base model: {error}; name the modules in lists"
        ) from None


def _peft_patterns(config: Mapping[str, Json]) -> Iterator[str]:
    """Yield the expressions that PEFT makes of a configuration and matches with module names.

    PEFT matches some from the start of a name only; `(?s:.*)` at their end does the same.
    """
    for key in ("target_modules", "exclude_modules"):
        yield from (value for value in [config.get(key)] if isinstance(value, str))
    for key in ("rank_pattern", "alpha_pattern"):
        yield from (ending(module) for module in _texts(config.get(key)))
    for module in _texts(config.get("modules_to_save")):
        yield rf"(^|.*\.){module}($|\..*)(?s:.*)"
    for module in _texts(config.get("layers_pattern")):
        yield rf"(?:^|.*?\.){module}\.(?P<idx>\d+)\.(?s:.*)"


def _texts(value: Json) -> list[str]:
    """Return the text itself, or the texts among the items of a list or the keys of an object."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | dict):
        return []
    return [text for text in texts if isinstance(text, str)]


SAFE_INITIALISATIONS: Final = ("gaussian", "orthogonal", "eva", "mica")
"""Names of `init_lora_weights` that leave the base as it is, in training and on loading.

`pissa`, `olora`, `corda` and `loftq` write other weights into the base, and so does `lora_ga` in
training. The base that is then scored is not the one whose hash the adapter and the run name.
"""

_CONVERT: Final = (
    "save it as a plain LoRA, with PEFT's "
    "save_pretrained(..., path_initial_model_for_weight_conversion=...)"
)


@dataclass(frozen=True, slots=True)
class UnsafeSetting:
    """A setting that is refused.

    Attributes:
        kind: whether PEFT would import a library, or change the base model.
        expected: what is allowed.
        actual: the setting, as JSON.
    """

    kind: Literal["imports-library", "base-changed"]
    expected: str
    actual: str


def unsafe_settings(config: Mapping[str, Json]) -> tuple[UnsafeSetting, ...]:
    """Return the settings of a LoRA configuration that are refused.

    Args:
        config: the parsed `adapter_config.json`.

    Examples:
        >>> [setting] = unsafe_settings({"peft_type": "LORA", "init_lora_weights": "pissa"})
        >>> setting.kind, setting.actual
        ('base-changed', 'init_lora_weights "pissa"')
    """
    unsafe: list[UnsafeSetting] = []
    if config.get("megatron_config") is not None:
        setting = f"megatron_config, with megatron_core {short(config.get('megatron_core'))}"
        unsafe.append(UnsafeSetting("imports-library", "no library to import", setting))
    mapping = config.get("auto_mapping")
    library = mapping.get("parent_library") if isinstance(mapping, dict) else None
    # Not transformers_modules: code from the hub, which transformers keeps under that name.
    if library is not None and not f"{library}.".startswith("transformers."):
        setting = f"auto_mapping, with parent_library {short(library)}"
        expected = "transformers, or no library to import"
        unsafe.append(UnsafeSetting("imports-library", expected, setting))
    value = config.get("init_lora_weights")
    is_safe = isinstance(value, str) and value.lower() in SAFE_INITIALISATIONS
    if not (value is None or isinstance(value, bool) or is_safe):
        expected = f"true, false, {', '.join(SAFE_INITIALISATIONS)}"
        setting = f"init_lora_weights {short(value)}"
        unsafe.append(UnsafeSetting("base-changed", expected, setting))
    return tuple(unsafe)


def refuse_unsafe_settings(adapter: AdapterFiles) -> None:
    """Refuse an adapter whose configuration names a library to import, or changes the base.

    Raises:
        AdapterError: with every such setting, and what to do.
    """
    unsafe = unsafe_settings(adapter.config)
    if not unsafe:
        return
    lines = [f"  {setting.actual} (expected {setting.expected})" for setting in unsafe]
    advice = {
        "imports-library": "remove these keys if you trust the adapter",
        "base-changed": _CONVERT,
    }
    kinds = dict.fromkeys(setting.kind for setting in unsafe)
    raise AdapterError(
        f"{adapter.folder / ADAPTER_CONFIG}: settings that run code or change the base model are "
        "refused:\n" + "\n".join([*lines, *(f"  {advice[kind]}" for kind in kinds)])
    )


ADAPTER_FILES: Final = (
    *(ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG),
    *("training_data.json", "training.json", "log.jsonl"),
    *("decision.json", "decision_template.jinja"),
    *("head.safetensors", "readout.safetensors", "judge_config.json", "decision_config.json"),
)
"""Files of an adapter that some command reads; no others are downloaded."""


@dataclass(frozen=True)
class AdapterPlace:
    """An adapter on this machine.

    Attributes:
        folder: its folder; for a Hub id, the snapshot in the cache.
        others: files of its repository that were not downloaded, by name; None if the Hub was not
            asked, because `HF_HUB_OFFLINE` is set.
    """

    folder: Path
    others: tuple[str, ...] | None = ()


def find_adapter(place: str | Path, *, audited: bool = False) -> AdapterPlace:
    """Find an adapter: a folder here, or a repository of the Hub, whose files are downloaded.

    A local folder wins over a Hub id. A name without a revision whose first part is a folder here
    is taken for a local path that does not exist; `hf://` before it says otherwise.

    Args:
        place: a folder, or `owner/name`, with `@revision` after it and `hf://` before it or not.
        audited: whether an adapter that lacks files is taken as well: an audit says so.

    Raises:
        AdapterError: the Hub cannot provide it, or the repository holds no adapter.
        InputError: it begins with `hf://`, and is not the name of a repository.
        MissingExtraError: the client of the Hub is not installed.

    Examples:
        >>> find_adapter("./adapters/pact").folder
        PosixPath('adapters/pact')
    """
    name = _hub_name(place)
    if name is None:
        return AdapterPlace(Path(place))
    try:
        listing = list_repository(name, ADAPTER_FILES, AdapterError)
    except AdapterError as error:
        if is_hub_url(place) or name.revision is not None:
            raise
        raise AdapterError(f"{error}. There is no local folder {place} either") from None
    present = [file for file in ADAPTER_FILES if file in listing.files]
    others = tuple(sorted(set(listing.files) - set(present)))
    _check_files(name, present, others, audited=audited)
    folder = download(listing, present, AdapterError)
    return AdapterPlace(folder, None if listing.folder is not None else others)


def _hub_name(place: str | Path) -> HubName | None:
    """Return the repository that an adapter's name stands for; None for a local path."""
    path = Path(place)
    if is_hub_url(place):
        return model_name(place)
    if _exists(path):
        return None
    name = model_name(place)
    if name is None or (name.revision is None and _exists(Path(path.parts[0]))):
        return None
    return name


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 -- False, not an error, for a name that is too long


def _check_files(
    name: HubName, present: Sequence[str], others: Sequence[str], *, audited: bool
) -> None:
    """Refuse a repository without an adapter; an audit needs one of its two files.

    Raises:
        AdapterError: a file is missing; the message says what the repository has.
    """
    needed = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
    missing = [file for file in needed if file not in present]
    if not missing or (audited and len(missing) < len(needed)):
        return
    pickled = [file for file in others if Path(file).suffix in PICKLED_SUFFIXES]
    message = f"{name}: expected an adapter with {' and '.join(missing)}, found none"
    if pickled and ADAPTER_CONFIG in present:
        message += (
            f"; {', '.join(pickled[:3])} can run code and is refused: ask for the weights as "
            "safetensors"
        )
    elif "config.json" in others:
        message += (
            "; the repository holds a full model: to score it alone, use --base-model "
            f"{name.repository} --no-adapter without ADAPTER"
        )
    elif inside := [file for file in others if file.endswith(f"/{ADAPTER_CONFIG}")]:
        folders = ", ".join(file.rpartition("/")[0] for file in inside[:3])
        message += (
            f"; it has adapters in folders ({folders}): download one with `hf download "
            f"{name.repository}`, and give its folder"
        )
    raise AdapterError(message)


def model_folder(name: HubName, patterns: Sequence[str]) -> Path:
    """Return the folder of a base model or tokenizer of the Hub, downloaded if it is not here yet.

    Args:
        name: the repository.
        patterns: which files are wanted, such as `*.json`.

    Raises:
        AdapterError: the Hub cannot provide it.
        MissingExtraError: the client of the Hub is not installed.
    """
    listing = list_repository(name, patterns, AdapterError)
    files = [
        file for file in listing.files if any(fnmatchcase(file, pattern) for pattern in patterns)
    ]
    if not files:
        message = f"{name}: expected a model with {', '.join(patterns)}, found none of them"
        raise AdapterError(message)
    return download(listing, files, AdapterError)


def label_of(adapter: Path) -> str:
    """Return the name of an adapter folder; of a snapshot, that of its repository.

    Examples:
        >>> label_of(Path("/cache/models--owner--pact/snapshots", "f" * 40))
        'pact'
    """
    snapshot = snapshot_of(adapter)
    return adapter.resolve().name if snapshot is None else snapshot.repository.rpartition("/")[2]
