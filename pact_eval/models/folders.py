"""What lies in an adapter or base-model folder, read without torch.

Weights are data: only safetensors are accepted, their header is read here as plain JSON, and
pickled files (`.bin`, `.pt`, ...) are refused before a library that would unpickle them is called.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps, loads
from pact_eval.errors import AdapterError

__all__ = [
    "ADAPTER_CONFIG",
    "ADAPTER_WEIGHTS",
    "PICKLED_SUFFIXES",
    "SCHEMA_CONFIG",
    "AdapterFiles",
    "TensorInfo",
    "named_base_model",
    "named_base_revision",
    "read_adapter_files",
    "read_json_object",
    "safetensors_header",
    "sha256_of_weights",
    "weight_files",
]

ADAPTER_CONFIG: Final = "adapter_config.json"
ADAPTER_WEIGHTS: Final = "adapter_model.safetensors"
SCHEMA_CONFIG: Final = "schema_config.json"

PICKLED_SUFFIXES: Final = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib")
"""Endings of files that Python would unpickle, and so run."""

# Bits a number, for every dtype that safetensors knows.
_DTYPE_BITS: Final = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_MAX_JSON_BYTES = 1 << 26
_MAX_HEADER_BYTES = 100_000_000
_MAX_DIMENSIONS = 64
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, dtype, shape and place of one stored tensor.

    Attributes:
        name: its key in the file.
        dtype: as safetensors spells it: "F32", "BF16", ...
        shape: its dimensions.
        offset_bytes: where its numbers start in the file.
        size_bytes: how long they are.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """A LoRA adapter folder.

    Attributes:
        folder: where it lies.
        config: the parsed `adapter_config.json`.
        schema_config: the parsed `schema_config.json`, or None where there is none.
        tensors: the tensors of `adapter_model.safetensors`.
        sha256: of `adapter_model.safetensors`.
        config_sha256: of `adapter_config.json`, which holds the scale of the adapter.
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


def read_adapter_files(folder: Path) -> AdapterFiles:
    """Read an adapter folder without loading its weights.

    Args:
        folder: a folder as PEFT writes it, with `adapter_config.json` and
            `adapter_model.safetensors`.

    Returns:
        Its configuration, tensors and hash.

    Raises:
        AdapterError: a file is missing or damaged, the weights are pickled, or it is no LoRA.
    """
    if not folder.is_dir():
        message = f"{folder}: no such adapter folder"
        raise AdapterError(message)
    config = read_json_object(folder / ADAPTER_CONFIG)
    if config.get("peft_type") != "LORA":
        message = (
            f"{folder / 'adapter_config.json'}: expected peft_type LORA, got "
            f"{config.get('peft_type')!r}"
        )
        raise AdapterError(message)
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
        config: the parsed `adapter_config.json`, or None where it cannot be read.
        schema_config: the parsed `schema_config.json`, which goes first; or None.

    Example:
        >>> named_base_model({"base_model_name_or_path": "Qwen/Qwen3-0.6B"}, {"model": ""})
        'Qwen/Qwen3-0.6B'
    """
    named = (schema_config or {}).get("model"), (config or {}).get("base_model_name_or_path")
    return next((name for name in named if isinstance(name, str) and name), None)


def named_base_revision(
    config: Mapping[str, Json] | None, schema_config: Mapping[str, Json] | None
) -> str | None:
    """Return the revision of the base model that an adapter names; as `named_base_model`.

    Example:
        >>> named_base_revision({"revision": "c1899de"}, None)
        'c1899de'
    """
    named = (schema_config or {}).get("revision"), (config or {}).get("revision")
    return next((revision for revision in named if isinstance(revision, str) and revision), None)


def read_json_object(path: Path) -> dict[str, Json]:
    """Read a configuration file that must hold one JSON object.

    Raises:
        AdapterError: it is missing, no JSON, no object, or far too long for a configuration.
    """
    try:
        size = path.stat().st_size
        if size > _MAX_JSON_BYTES or not path.is_file():
            message = f"{path}: expected a JSON file of at most {_MAX_JSON_BYTES:,} bytes"
            raise AdapterError(message)
        value = loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"{path.parent}: expected {path.name}, there is none"
        raise AdapterError(message) from None
    except AdapterError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        message = f"{path}: {error}"
        raise AdapterError(message) from None
    if not isinstance(value, dict):
        message = f"{path}: expected a JSON object"
        raise AdapterError(message)
    return value


def safetensors_header(path: Path) -> tuple[TensorInfo, ...]:
    """Read what a safetensors file holds, and check that its data are all there.

    The header is checked as strictly as the safetensors library does it, and a key that stands
    twice is refused too: dtypes are known, sizes fit shapes, and the tensors tile the data with no
    gap and no overlap.

    Args:
        path: the file: 8 bytes of header length, a JSON header, the data.

    Returns:
        One entry a tensor, in the order of the header.

    Raises:
        AdapterError: the header is damaged, the file is cut short, or it cannot be read.
    """
    try:
        raw, size = _header_bytes(path)
        tensors = _tensors(raw)
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise AdapterError(message) from None
    except (ValueError, RecursionError) as error:
        message = f"{path}: damaged or cut short ({error})"
        raise AdapterError(message) from None
    end = max((tensor.offset_bytes + tensor.size_bytes for tensor in tensors), default=8 + len(raw))
    if end != size:
        message = f"{path}: damaged or cut short (expected {end:,} bytes, got {size:,})"
        raise AdapterError(message)
    return tensors


def sha256_of_weights(folder: Path) -> str:
    """Return one SHA-256 for all the weight files of a base-model folder.

    One file: its own hash. Several shards: the hash of the lines `<sha256>  <name>` by name,
    as `sha256sum *.safetensors | sha256sum` gives it.

    Raises:
        AdapterError: there are no safetensors (the message says so where the weights are pickled),
            one of them is damaged, or the folder holds an adapter.
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
        AdapterError: there are none (the message says so where the weights are pickled), or the
            folder holds an adapter.
    """
    if (folder / ADAPTER_CONFIG).exists():
        # transformers would load the adapter, and the base that it names, in silence.
        message = f"{folder}: expected a base model, found an adapter ({ADAPTER_CONFIG})"
        raise AdapterError(message)
    files = tuple(sorted(folder.glob("*.safetensors")))
    if not files:
        raise AdapterError(_without_weights(folder, "*.safetensors"))
    return files


def _header_bytes(path: Path) -> tuple[bytes, int]:
    """Return the JSON header and the size of the whole file in bytes."""
    if path.exists() and not path.is_file():
        message = "expected a file, got a folder, pipe or device"
        raise ValueError(message)
    with path.open("rb") as file:
        size = path.stat().st_size
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
            message = "no safetensors header"
            raise ValueError(message)
        return file.read(length), size


def _tensors(raw: bytes) -> tuple[TensorInfo, ...]:
    header = loads(raw.decode("utf-8"))
    if not isinstance(header, dict):
        message = "its safetensors header is no JSON object"
        raise ValueError(message)
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not (
        isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values())
    ):
        message = "__metadata__ in its safetensors header is no object of texts"
        raise ValueError(message)
    tensors = tuple(_tensor(name, entry, 8 + len(raw)) for name, entry in header.items())
    end = 8 + len(raw)
    for tensor in sorted(tensors, key=lambda each: (each.offset_bytes, each.size_bytes)):
        if tensor.offset_bytes != end:
            message = f"there is a gap or an overlap before the tensor {dumps(tensor.name)}"
            raise ValueError(message)
        end += tensor.size_bytes
    return tensors


def _tensor(name: str, entry: Json, data_start: int) -> TensorInfo:
    entry = entry if isinstance(entry, dict) else {}
    dtype, shape = entry.get("dtype"), _counts(entry.get("shape"), _MAX_DIMENSIONS)
    offsets = _counts(entry.get("data_offsets"), 2)
    if not isinstance(dtype, str) or dtype not in _DTYPE_BITS or shape is None:
        message = f"its safetensors header gives {dumps(name)} no known dtype or no shape"
        raise ValueError(message)
    if (
        offsets is None
        or len(offsets) != 2
        or (offsets[1] - offsets[0]) * 8 != math.prod(shape) * _DTYPE_BITS[dtype]
    ):
        message = f"its safetensors header gives {dumps(name)} data that do not fit its shape"
        raise ValueError(message)
    return TensorInfo(name, dtype, shape, data_start + offsets[0], offsets[1] - offsets[0])


def _counts(value: Json, at_most: int) -> tuple[int, ...] | None:
    """Return a list of whole numbers from 0 on, or None where it is something else."""
    if not isinstance(value, list) or len(value) > at_most:
        return None
    counts = [n for n in value if isinstance(n, int) and not isinstance(n, bool) and n >= 0]
    return tuple(counts) if len(counts) == len(value) else None


def _without_weights(folder: Path, expected: str) -> str:
    pickled = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLED_SUFFIXES)
    if pickled:
        return (
            f"{folder}: expected {expected}, found {', '.join(pickled)}; pickled weights can run "
            "code and are refused: save the weights as safetensors"
        )
    return f"{folder}: expected weights ({expected}), there are none"
