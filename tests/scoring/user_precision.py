"""What users set of torch's precision, and a processor that rounds float32 products to bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
import torch

PLACES: Final = ("all", "mkldnn", "mkldnn.matmul", "mkldnn.conv", "cudnn", "cuda.matmul")
"""Settings of torch's newer interface: `torch.backends.fp32_precision`, and below it."""


def _place(name: str) -> Any:
    place: Any = torch.backends
    for part in [] if name == "all" else name.split("."):
        place = getattr(place, part)
    return place


def settings() -> dict[str, str]:
    """The precision of each place."""
    return {name: _place(name).fp32_precision for name in PLACES}


@contextmanager
def user_precision(setting: str) -> Iterator[None]:
    """Set a precision as a user would: by name, or as `place=value` of the newer interface."""
    place, _, value = setting.rpartition("=")
    if place:
        _place(place).fp32_precision = value
    else:
        torch.set_float32_matmul_precision(value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        for name in PLACES:
            _place(name).fp32_precision = "none"


def plant_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round the factors of linear layers to bfloat16 where a processor with AMX would."""
    from pact_eval.scoring import cpu

    linear = torch.nn.functional.linear

    def rounding(x: Any, weight: Any, bias: Any = None) -> Any:
        if x.dtype == torch.float32 and _place("mkldnn.matmul").fp32_precision == "bf16":
            x, weight = x.bfloat16().float(), weight.bfloat16().float()
        return linear(x, weight, bias)

    monkeypatch.setattr(torch.nn.functional, "linear", rounding)
    monkeypatch.setattr(
        cpu,
        "onednn_stays_float32",
        lambda: cpu.onednn_error() <= cpu.FLOAT32_ERROR,
    )
