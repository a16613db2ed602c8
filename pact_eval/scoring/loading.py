"""Load a base model and a LoRA adapter, and prove that the adapter is what runs.

The base model comes from a folder, or from the hub where an id was given. Checkpoints whose
language model sits in a multimodal shell load as the language model alone where transformers can,
and as the shell where the adapter was trained on it. Every tensor of the adapter must find its
place: a key that is missing, unexpected or of another shape is fatal.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers.utils import logging as transformers_logging

from pact_eval.errors import AdapterError
from pact_eval.models import AdapterFiles, sha256_of_weights

__all__ = [
    "DTYPES",
    "BaseModel",
    "attach_adapter",
    "load_base",
    "resolve_base",
    "resolve_device",
    "resolve_dtype",
]

DTYPES: Final = {
    "fp32": torch.float32,
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
}
"""Names that `--dtype` takes, beside "auto"."""

_SHELL_KEY = ".language_model."
_KEYS_SHOWN = 8


@dataclass(frozen=True)
class BaseModel:
    """A base model on disk.

    Attributes:
        name: as the user or the adapter named it.
        folder: where its files lie.
        revision: the commit, where it came from the hub.
        sha256: of its weights; see `model_files.sha256_of_weights`.
    """

    name: str
    folder: Path
    revision: str | None
    sha256: str

    @property
    def label(self) -> str:
        """The hub id and revision, or the folder: what a reader finds it by."""
        if self.revision is not None:
            return f"{self.name} ({self.revision})"
        return os.path.normpath(self.folder)


def resolve_base(name: str, start: Path, revision: str | None) -> BaseModel:
    """Find a base model: a folder, or a hub id.

    Args:
        name: path, or `organisation/name` of a hub model.
        start: where a relative path starts: the current folder for a name that the user gave, the
            adapter's folder for a name that the adapter gives.
        revision: revision to ask the hub for.

    Returns:
        Where the model lies.

    Raises:
        AdapterError: there is no such folder and the name is no hub id, the hub does not give it,
            or the folder has no safetensors.
    """
    folder = start / name
    if os.path.isdir(folder):  # noqa: PTH112 - a name too long for the system is no folder
        return BaseModel(name, folder, None, sha256_of_weights(folder))
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        message = (
            f"base model {name!r}: no such folder, and no hub id (organisation/name); give "
            "--base-model"
        )
        raise AdapterError(message)
    folder = _from_hub(name, revision)
    return BaseModel(name, folder, folder.name, sha256_of_weights(folder))


def resolve_device(name: str) -> torch.device:
    """Turn auto, cpu or cuda into a device; auto takes CUDA where there is one.

    Raises:
        AdapterError: CUDA was asked for and is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        message = "--device cuda: this machine has no CUDA device that torch can use"
        raise AdapterError(message)
    return torch.device(name)


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """Turn a dtype's name into a dtype; auto is float32 on a CPU and bfloat16 on CUDA."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return DTYPES[name]


def load_base(
    base: BaseModel, adapter: AdapterFiles | None, device: torch.device, dtype: torch.dtype
) -> Any:
    """Load the base model in evaluation mode.

    Args:
        base: the model on disk.
        adapter: decides whether a multimodal shell is needed; None for the base alone.
        device: where to put it.
        dtype: of weights and computation.

    Returns:
        A causal language model, or the multimodal shell around one.

    Raises:
        AdapterError: transformers cannot load it, or weights are missing.
    """
    needs_shell = adapter is not None and any(_SHELL_KEY in t.name for t in adapter.tensors)
    classes = [transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText]
    failure: Exception | None = None
    for auto_class in reversed(classes) if needs_shell else classes:
        try:
            with _quiet():
                model, report = auto_class.from_pretrained(
                    base.folder,
                    dtype=dtype,
                    use_safetensors=True,
                    trust_remote_code=False,
                    output_loading_info=True,
                )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
            failure = failure or error
            continue
        _refuse_incomplete(base, report)
        return model.to(device).eval()
    message = f"{base.folder}: the base model cannot be loaded ({_first_line(failure)})"
    raise AdapterError(message) from failure


def attach_adapter(model: Any, adapter: AdapterFiles) -> Any:
    """Put a LoRA adapter on a loaded base model.

    Args:
        model: the base model.
        adapter: the adapter's files.

    Returns:
        The PEFT model, in evaluation mode.

    Raises:
        AdapterError: a tensor is missing, unexpected or of another shape than the base needs; the
            message names them.
    """
    with warnings.catch_warnings():
        # PEFT warns about keys that do not match; below they are fatal, with their names.
        warnings.simplefilter("ignore")
        try:
            config = LoraConfig.from_pretrained(str(adapter.folder))
            config.inference_mode = True
            wrapped = PeftModel(model, config)
        except Exception as error:  # PEFT meets a malformed configuration wherever it reads it
            message = f"{adapter.folder}: does not fit this base model ({_first_line(error)})"
            raise AdapterError(message) from error
        # Left at "auto", PEFT asks the hub for the configuration of the base that is named there.
        wanted = get_peft_model_state_dict(wrapped, save_embedding_layers=False)
        _refuse_misfit(adapter, wanted)
        try:
            set_peft_model_state_dict(wrapped, load_file(adapter.weights))
        except SafetensorError as error:
            message = f"{adapter.weights}: cannot be read ({_first_line(error)})"
            raise AdapterError(message) from error
    return wrapped.eval()


def _refuse_misfit(adapter: AdapterFiles, wanted: dict[str, torch.Tensor]) -> None:
    found = {tensor.name: tensor.shape for tensor in adapter.tensors}
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    faults = {
        "missing in the adapter": sorted(set(shapes) - set(found)),
        "unexpected in the adapter": sorted(set(found) - set(shapes)),
        "of another shape": [
            f"{name} {list(found[name])} for {list(shapes[name])}"
            for name in sorted(set(found) & set(shapes))
            if found[name] != shapes[name]
        ],
    }
    lines = [f"  {len(names)} {fault}: {_some(names)}" for fault, names in faults.items() if names]
    if lines:
        message = (
            f"{adapter.folder}: the adapter does not fit this base model (is it for another one?)\n"
            + "\n".join(lines)
        )
        raise AdapterError(message)


def _refuse_incomplete(base: BaseModel, report: Any) -> None:
    missing = sorted(report["missing_keys"])
    if missing:
        message = f"{base.folder}: the weights lack {len(missing)} tensors: {_some(missing)}"
        raise AdapterError(message)


def _from_hub(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=["*.safetensors", "*.json", "*.jinja", "*.txt", "*.model"],
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        message = f"base model {name!r}: the hub does not give it ({_first_line(error)})"
        raise AdapterError(message) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the weight-loading bars and notes; what matters of them is checked afterwards."""
    before = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _some(names: list[str]) -> str:
    more = f", ... ({len(names)} in all)" if len(names) > _KEYS_SHOWN else ""
    return ", ".join(names[:_KEYS_SHOWN]) + more


def _first_line(error: Exception | None) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
