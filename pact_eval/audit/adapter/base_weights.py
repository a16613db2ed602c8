"""The weights of a base model by the modules that have them, from safetensors headers alone.

A module's name in memory is not always its tensor's name on disk: a checkpoint of a multimodal
shell can be loaded as the shell or as the language model alone, and older checkpoints are stored
under older names. Every such reading is tried, and the one is taken that knows most of the modules
that are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pact_eval.errors import AdapterError
from pact_eval.models import TensorInfo, read_json_object, safetensors_header, weight_files

__all__ = ["as_loaded", "read_base_weights"]

Rename = Callable[[str], str | None]

_INDEX: Final = "model.safetensors.index.json"
_SUFFIXES: Final = (".weight", ".qweight", ".weight_packed")
# Heads for speculative decoding, which transformers leaves on disk.
_NOT_LOADED: Final = ("mtp.", "model.mtp.")


def read_base_weights(folder: Path) -> dict[str, TensorInfo]:
    """Return the matrices of a base model by the stored name of the module that has them.

    Args:
        folder: of the model; one safetensors file or several, with or without an index.

    Returns:
        Weights of two and more dimensions.

    Raises:
        AdapterError: there are none, one of the files is missing or damaged, or the folder holds
            an adapter.
    """
    weights: dict[str, TensorInfo] = {}
    for file in _shards(folder):
        for tensor in safetensors_header(file):
            suffix = next((end for end in _SUFFIXES if tensor.name.endswith(end)), None)
            if suffix is not None and len(tensor.shape) > 1:
                weights[tensor.name.removesuffix(suffix)] = tensor
    return weights


def as_loaded(stored: Mapping[str, TensorInfo], wanted: Iterable[str]) -> dict[str, TensorInfo]:
    """Return weights under the names that their modules have once the model is loaded.

    Args:
        stored: weights by the stored names of their modules.
        wanted: names of modules in memory, by which the reading is chosen.

    Returns:
        The weights by module; a part that this reading does not load is left out.

    Example:
        >>> weight = TensorInfo("model.language_model.layers.0.q.weight", "F32", (4, 4), 0, 64)
        >>> stored = {"model.language_model.layers.0.q": weight}
        >>> list(as_loaded(stored, ["model.layers.0.q"]))
        ['model.layers.0.q']
    """
    asked = frozenset(wanted)
    readings = [_renamed(stored, rename) for rename in _READINGS]
    return max(readings, key=lambda reading: len(asked & reading.keys()))


def _renamed(stored: Mapping[str, TensorInfo], rename: Rename) -> dict[str, TensorInfo]:
    kept = {name: tensor for name, tensor in stored.items() if not name.startswith(_NOT_LOADED)}
    renamed = ((rename(name), tensor) for name, tensor in kept.items())
    reading = {name: tensor for name, tensor in renamed if name is not None}
    embedding = next((name for name in reading if name.endswith("embed_tokens")), None)
    if embedding is not None:
        # Tied to the embedding, the output layer is a module without a tensor of its own.
        reading.setdefault("lm_head", reading[embedding])
    return reading


def _shards(folder: Path) -> tuple[Path, ...]:
    """Return the files that transformers would load: those of the index, where there is one."""
    files = {file.name: file for file in weight_files(folder)}
    if "model.safetensors" in files:
        return (files["model.safetensors"],)
    index = folder / _INDEX
    if not index.exists():
        return tuple(files.values())
    by_tensor = read_json_object(index).get("weight_map")
    parts = by_tensor.values() if isinstance(by_tensor, dict) else ()
    named = sorted({part for part in parts if isinstance(part, str)})
    missing = [name for name in named if name not in files]
    if missing or not named:
        message = f"{index}: expected the parts of a model, lacks {', '.join(missing[:5]) or 'all'}"
        raise AdapterError(message)
    return tuple(files[name] for name in named)


def _as_stored(name: str) -> str | None:
    return name


def _as_language_model(name: str) -> str | None:
    """The language model of a shell, alone."""
    for prefix, loaded in (
        ("model.language_model.", "model."),
        ("language_model.model.", "model."),
        ("language_model.lm_head", "lm_head"),
    ):
        if name.startswith(prefix):
            return loaded + name.removeprefix(prefix)
    return "lm_head" if name == "lm_head" else None


def _as_shell(name: str) -> str | None:
    """A shell whose checkpoint has the older names."""
    alone = _as_language_model(name)
    if alone == "lm_head":
        return alone
    if alone is not None or name.startswith("model."):
        return f"model.language_model.{(alone or name).removeprefix('model.')}"
    return f"model.{name}"


def _with_prefix(name: str) -> str | None:
    """A checkpoint of GPT-2's time, which leaves the first part of the names out."""
    return f"transformer.{name}"


_READINGS: Final[tuple[Rename, ...]] = (_as_stored, _as_language_model, _as_shell, _with_prefix)
