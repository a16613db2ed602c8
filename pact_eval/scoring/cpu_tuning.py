"""Two settings that make scoring on a CPU faster: oneDNN for float32 products, and kept memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Final

import torch

FLOAT32_ERROR: Final = 5e-6
"""Largest error of a product, relative to its largest entry, that counts as float32.

On the probe's sums of 1,024 products, the error of float32 was 4e-7 (MKL) and 6e-7 (oneDNN), which
leaves room for other orders of summation. With factors rounded to TF32 it was 3e-4, and with
factors rounded to bfloat16 2e-3.
"""

_SHAPE: Final = (192, 1024, 160)


@cache
def onednn_stays_float32() -> bool:
    """Probe whether oneDNN's products on this CPU are float32.

    The inner dimension is that of small models. The shapes are not powers of two.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    rows, inner, columns = _SHAPE
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(rows, inner, generator=generator)
    b = torch.randn(columns, inner, generator=generator)
    exact = a.double() @ b.double().T
    with _matmul_precision("medium"):
        product = torch.nn.functional.linear(a, b).double()
    return float((product - exact).abs().max() / exact.abs().max()) <= FLOAT32_ERROR


@contextmanager
def fast_float32(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """Compute float32 products on a CPU with oneDNN, if the probe allows it.

    Yields:
        The backend: "oneDNN, float32 by probe", or "default".
    """
    if device.type != "cpu" or dtype != torch.float32 or not onednn_stays_float32():
        yield "default"
        return
    with _matmul_precision("medium"):
        yield "oneDNN, float32 by probe"


@contextmanager
def _matmul_precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# <malloc.h>: blocks up to the first size come from the heap, which is trimmed at the second.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_LARGEST_KEPT: Final = 1 << 30
_NEVER: Final = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks of up to 1 GiB until the process ends.

    The peak memory in use does not change; freed memory stays with the process.

    Returns:
        Whether the C library accepted the setting; False on systems without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) and mallopt(_TRIM_THRESHOLD, _NEVER))
