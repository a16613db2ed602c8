"""A device that torch knows as an accelerator, without float64: a stand-in for those not at hand.

    python tests/stand_in_device.py ADAPTER BASE DATA RUN

The script registers the device in its process, and scores with `pact_eval.score`. Its tensors are
on a device of another type than "cpu". As on a GPU, an operation that mixes them with tensors of
the CPU is an error, and so is float64, as on Apple's MPS. The arithmetic is the CPU's: this tests
that code runs on any device that torch offers, not the kernels of one. torch can be given a device
once per process, so tests run this file in a process of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME: Final = "standin"

# What copies between devices, and indexing: as on CUDA, an index may be on the CPU.
_MIXED: Final = ("aten::copy_", "aten::_to_copy", "aten::index.Tensor", "aten::index_put_")


# Its kernels are removed with the last reference to a library.
_KEPT: Final[list[torch.library.Library]] = []


class StandInTensor(Tensor):
    """A tensor of the device; `raw` has its numbers."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> StandInTensor:
        made: StandInTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
            requires_grad=raw.requires_grad,
        )
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch's own stub names no operation
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run an operation on the numbers."""
        return _ran(func, args, kwargs or {})


def _ran(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    to_cpu = torch.device(kwargs.get("device") or NAME).type == "cpu"
    inputs = [part for part in pytree.tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
    name = func.name()
    strays = [part for part in inputs if not isinstance(part, StandInTensor) and part.dim()]
    if strays and not name.startswith(_MIXED):
        message = f"{name}: expected all tensors on {NAME}, found one on cpu"
        raise RuntimeError(message)
    raw_args, raw_kwargs = pytree.tree_map(_raw, (tuple(args), dict(kwargs)))
    if "device" in raw_kwargs:
        raw_kwargs["device"] = torch.device("cpu")
    # In inference mode, torch refuses a class of tensors that makes views of a module's weights.
    with torch.inference_mode(mode=False), torch.no_grad():
        result = func(*raw_args, **raw_kwargs)
        return _result(func, args[0] if args else None, result, to_cpu=to_cpu)


def _result(func: Any, first: Any, result: Any, *, to_cpu: bool) -> Any:
    """Return what an operation gives: its first input if that was changed in place."""
    parameters = func._schema.arguments
    alias = parameters[0].alias_info if parameters else None
    if alias is not None and alias.is_write:
        return first
    return result if to_cpu else pytree.tree_map(_wrapped, result)


def _copied(source: Tensor, target: Tensor, _non_blocking: bool = False) -> Tensor:
    """Copy for `torch.tensor(..., device=...)`, which leaves out the dispatch of classes."""
    _raw(target).copy_(_raw(source))
    return target


def _raw(part: Any) -> Any:
    return part.raw if isinstance(part, StandInTensor) else part


def _wrapped(part: Any) -> Any:
    if not isinstance(part, Tensor) or isinstance(part, StandInTensor):
        return part
    if part.dtype in (torch.float64, torch.complex128):
        message = f"{NAME} has no float64"
        raise TypeError(message)
    return StandInTensor(part)


def register() -> None:
    """Give torch the device; for the rest of the process, it is the accelerator."""
    module = SimpleNamespace(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        is_initialized=lambda: True,
        _is_in_bad_fork=lambda: False,
        manual_seed_all=lambda _seed: None,
    )
    _setup_privateuseone_for_python_backend(NAME, module)
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    for name in ("empty.memory_format", "empty_strided"):
        operator, overload = name.partition(".")[0], name.partition(".")[2] or "default"
        function = getattr(getattr(torch.ops.aten, operator), overload)

        def made(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
            return _ran(_function, args, kwargs)

        library.impl(name, made, "PrivateUse1")
    library.impl("_copy_from", _copied, "PrivateUse1")
    _KEPT.append(library)


def main() -> None:
    """Score a run of each adapter on the device, and print a line of what it recorded."""
    register()
    import pact_eval

    data, *words = sys.argv[1:]
    for adapter, base, out in zip(words[::3], words[1::3], words[2::3], strict=True):
        run = pact_eval.score(data, out, adapter=adapter, base_model=base, k=2, limit=8)
        recorded = run.provenance
        engine = recorded.engine
        facts = {
            "device": recorded.device,
            "dtype": recorded.dtype,
            "engine": engine.name,
            "largest": engine.largest_logit_difference,
            "kernel": engine.attention_kernel,
        }
        sys.stdout.write(f"{json.dumps(facts)}\n")


if __name__ == "__main__":
    main()
