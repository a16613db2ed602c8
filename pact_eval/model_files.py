"""What lies in an adapter or base-model folder, read without torch.

Weights are data: only safetensors are accepted, their header is read here as plain JSON, and
pickled files (`.bin`, `.pt`, ...) are refused before a library that would unpickle them is called.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pact_eval.errors import AdapterError
from pact_eval.strict_json import Json, loads

__all__ = [
    "AdapterFiles",
    "TensorInfo",
    "read_adapter_files",
    "read_json_object",
    "safetensors_header",
    "sha256_of_file",
    "sha256_of_weights",
]

_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_PICKLED: Final = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_MAX_HEADER_BYTES = 100_000_000
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Name, dtype and shape of one stored tensor.

    Attributes:
        name: its key in the file.
        dtype: as safetensors spells it: "F32", "BF16", ...
        shape: its dimensions.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


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
        for config, key in (
            (self.schema_config, "model"),
            (self.config, "base_model_name_or_path"),
        ):
            name = config.get(key) if config is not None else None
            if isinstance(name, str) and name:
                return name
        return None

    @property
    def base_revision(self) -> str | None:
        """The revision of the base model that the adapter names, if any."""
        for config in (self.schema_config, self.config):
            revision = config.get("revision") if config is not None else None
            if isinstance(revision, str) and revision:
                return revision
        return None

    @property
    def weights(self) -> Path:
        """Path of the safetensors file."""
        return self.folder / _ADAPTER_WEIGHTS


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
    config = read_json_object(folder / "adapter_config.json")
    if config.get("peft_type") != "LORA":
        message = (
            f"{folder / 'adapter_config.json'}: expected peft_type LORA, got "
            f"{config.get('peft_type')!r}"
        )
        raise AdapterError(message)
    weights = folder / _ADAPTER_WEIGHTS
    if not weights.exists():
        raise AdapterError(_without_weights(folder, _ADAPTER_WEIGHTS))
    schema = folder / "schema_config.json"
    return AdapterFiles(
        folder=folder,
        config=config,
        schema_config=read_json_object(schema) if schema.exists() else None,
        tensors=safetensors_header(weights),
        sha256=sha256_of_file(weights),
        config_sha256=sha256_of_file(folder / "adapter_config.json"),
    )


def read_json_object(path: Path) -> dict[str, Json]:
    """Read a configuration file that must hold one JSON object.

    Raises:
        AdapterError: it is missing, no JSON, or no object.
    """
    try:
        value = loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        message = f"{path.parent}: expected {path.name}, there is none"
        raise AdapterError(message) from None
    except (OSError, ValueError) as error:
        message = f"{path}: {error}"
        raise AdapterError(message) from None
    if not isinstance(value, dict):
        message = f"{path}: expected a JSON object"
        raise AdapterError(message)
    return value


def safetensors_header(path: Path) -> tuple[TensorInfo, ...]:
    """Read names, dtypes and shapes from a safetensors file, and check that its data are all there.

    Args:
        path: the file: 8 bytes of header length, a JSON header, the data.

    Returns:
        One entry a tensor, in the order of the header.

    Raises:
        AdapterError: the header is damaged or the file is cut short.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
            message = f"{path}: damaged or cut short (no safetensors header)"
            raise AdapterError(message)
        raw = file.read(length)
    try:
        header = json.loads(raw)
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        tensors = tuple(
            TensorInfo(name, str(entry["dtype"]), tuple(int(n) for n in entry["shape"]))
            for name, entry in entries.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        message = f"{path}: damaged (its safetensors header cannot be read)"
        raise AdapterError(message) from None
    if 8 + length + end != size:
        message = (
            f"{path}: damaged or cut short (expected {8 + length + end:,} bytes, got {size:,})"
        )
        raise AdapterError(message)
    return tensors


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_of_weights(folder: Path) -> str:
    """Return one SHA-256 for all the weight files of a base-model folder.

    One file: its own hash. Several shards: the hash of the lines `<sha256>  <name>` by name,
    as `sha256sum *.safetensors | sha256sum` gives it.

    Raises:
        AdapterError: there are no safetensors (the message says so where the weights are pickled),
            one of them is damaged, or the folder holds an adapter.
    """
    if (folder / "adapter_config.json").exists():
        # transformers would load the adapter, and the base that it names, in silence.
        message = f"{folder}: expected a base model, found an adapter (adapter_config.json)"
        raise AdapterError(message)
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise AdapterError(_without_weights(folder, "*.safetensors"))
    for file in files:
        safetensors_header(file)
    hashes = [sha256_of_file(file) for file in files]
    if len(files) == 1:
        return hashes[0]
    lines = "".join(f"{sha}  {file.name}\n" for sha, file in zip(hashes, files, strict=True))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def _without_weights(folder: Path, expected: str) -> str:
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        return (
            f"{folder}: expected {expected}, found {', '.join(pickled)}; pickled weights can run "
            "code and are refused: save the weights as safetensors"
        )
    return f"{folder}: expected weights ({expected}), there are none"
