"""Quantisation: the base model in four bits, through bitsandbytes and transformers' configuration.

The linear layers of the base are stored in NF4 with double quantisation; embeddings, norms, the
output layer and the adapter keep the precision of the run. bitsandbytes computes the products.

On some processors bitsandbytes loads more compiled code from the Hugging Face Hub as soon as it is
imported, and importing PEFT imports it. Import PEFT within `no_code_from_the_hub`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal, cast

import torch
from transformers import BitsAndBytesConfig

from pact_eval._json import Json
from pact_eval.errors import AdapterError, missing_extra
from pact_eval.models import check_quantisation, stored_quantisation

_HUB_KERNELS: Final = "kernels"
_LIBRARIES: Final = ("bitsandbytes", "accelerate")
_BLOCK: Final = 64
"""Weights that bitsandbytes stores with one factor."""


@dataclass(frozen=True)
class Quantisation:
    """Storage of the weights of a base model.

    Attributes:
        method: "nf4", or what the configuration of a stored model says.
        compute: precision of the products; None if the stored model decides.
        stored: whether the base model on disk is already quantised.
    """

    method: str
    compute: torch.dtype | None = None
    stored: bool = False

    @property
    def settings(self) -> dict[str, Json]:
        """Settings for `run.json`.

        Examples:
            >>> Quantisation("nf4", torch.bfloat16).settings
            {'method': 'nf4', 'double': True, 'compute': 'bfloat16'}
        """
        if self.stored:
            return {"method": self.method, "stored": True}
        compute = str(self.compute).removeprefix("torch.")
        return {"method": self.method, "double": True, "compute": compute}

    @property
    def config(self) -> BitsAndBytesConfig | None:
        """The configuration for transformers; None for a stored model, which has its own."""
        if self.stored:
            return None
        return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
            load_in_4bit=True,
            bnb_4bit_quant_type=self.method,
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=self.compute,
        )


def asked_quantisation(
    name: str | None, base: Path, device: torch.device, dtype: torch.dtype
) -> Quantisation | None:
    """Return how to quantise a base model, checked before its weights are read.

    Args:
        name: what was asked for; None for nothing.
        base: folder of the base model.
        device: device that runs the model.
        dtype: precision of all else, and of the products.

    Raises:
        AdapterError: the method is refused, the base is already quantised, or the device cannot
            compute in that precision.
    """
    stored = stored_quantisation(base)
    if name is None:
        return None if stored is None else Quantisation(stored, stored=True)
    check_quantisation(name)
    if stored is not None:
        raise AdapterError(
            f"{base}: the base model is already quantised ({stored}); score it without "
            "--quantize, or give the base model in full precision"
        )
    if device.type == "cpu" and dtype != torch.bfloat16:
        raise AdapterError(
            "--quantize on a CPU computes in bf16: bitsandbytes rounds to bf16 there; leave out "
            "--dtype"
        )
    return Quantisation(name, dtype)


def check_kernels(device: torch.device) -> None:
    """Check that bitsandbytes can quantise on this machine.

    Args:
        device: device that runs the model.

    Raises:
        AdapterError: bitsandbytes has no kernels for the device, and the device needs them.
        MissingExtraError: bitsandbytes or accelerate is not installed.
    """
    if kernels() == "none" and device.type != "cpu":
        raise AdapterError(
            f"--quantize: bitsandbytes {metadata.version('bitsandbytes')} has no kernels for this "
            "device; `python -m bitsandbytes` says why. Use --device cpu, or score without "
            "--quantize"
        )


def check_layers(model: Any, device: torch.device) -> None:
    """Check that bitsandbytes can compute the layers of a loaded model on its device.

    On a CPU, a row of weights must consist of whole blocks of 64.

    Args:
        model: the quantised base model.
        device: device that runs the model.

    Raises:
        AdapterError: a quantised layer has other rows, with its name.
    """
    if device.type != "cpu":
        return
    for name, layer in model.named_modules():
        if hasattr(getattr(layer, "weight", None), "quant_state") and layer.in_features % _BLOCK:
            raise AdapterError(
                f"--quantize on a CPU: layer {name} has {layer.in_features:,} inputs, expected a "
                f"multiple of {_BLOCK}; score without --quantize"
            )


def quantisation_remarks(
    quantisation: Quantisation | None, *, elsewhere: bool = False
) -> tuple[str, ...]:
    """Return what to say before a quantised model is scored: its form, and missing kernels.

    Args:
        quantisation: how the base model is stored; None for full precision.
        elsewhere: whether other machines score, so that the kernels of this one do not matter.
    """
    if quantisation is None:
        return ()
    if quantisation.stored:
        return (f"Quantised: {quantisation.method}, as the base model is stored",)
    compute = str(quantisation.compute).removeprefix("torch.")
    remark = f"Quantised: {quantisation.method}, double quantisation, computed in {compute}"
    if elsewhere or kernels() == "compiled":
        return (remark,)
    return (
        remark,
        "bitsandbytes has no compiled kernels for this processor: the products are computed in "
        "plain torch, which is slower",
    )


def kernels() -> Literal["compiled", "none"]:
    """Return whether bitsandbytes has compiled kernels on this machine.

    Without them it computes in plain torch on a CPU, and not at all on other devices.

    Raises:
        MissingExtraError: bitsandbytes or accelerate is not installed.
    """
    for name in _LIBRARIES:
        if importlib.util.find_spec(name) is None:
            raise missing_extra("--quantize", name, "model,quantize")
    with no_code_from_the_hub():
        library: Any = importlib.import_module("bitsandbytes.cextension")
    mocked = isinstance(library.lib, library.ErrorHandlerMockBNBNativeLibrary)
    return "none" if mocked else "compiled"


@contextmanager
def no_code_from_the_hub() -> Iterator[None]:
    """Import bitsandbytes before the block, if it is installed, without code from the hub.

    Its first import otherwise downloads and runs `kernels-community/quantization-bitsandbytes` if
    the package `kernels` is installed. That code is not pinned, and its numbers may differ.
    """
    if "bitsandbytes" not in sys.modules and importlib.util.find_spec("bitsandbytes") is not None:
        _import_without_kernels()
    yield


def _import_without_kernels() -> None:
    modules, compiler = cast("dict[str, Any]", sys.modules), cast("Any", torch)
    module, compiled = modules.get(_HUB_KERNELS), torch.compile
    log = logging.getLogger("bitsandbytes.backends.cpu.ops")
    disabled = log.disabled
    # An entry of None makes `import kernels` fail. bitsandbytes then warns, and uses its own code.
    modules[_HUB_KERNELS] = None
    log.disabled = True
    compiler.compile = _compile_at_first_call
    try:
        importlib.import_module("bitsandbytes")
    finally:
        compiler.compile = compiled
        log.disabled = disabled
        del modules[_HUB_KERNELS]
        if module is not None:
            modules[_HUB_KERNELS] = module


def _compile_at_first_call(function: Callable[..., Any] | None = None, **settings: Any) -> Any:
    """`torch.compile` at the first call: it loads torch's compiler, a second of every start."""
    if function is None:
        return partial(_compile_at_first_call, **settings)

    @cache
    def compiled() -> Any:
        return torch.compile(function, **settings)

    @wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        return compiled()(*values, **named)

    return call
