"""Precision of float32 products while we score, and two settings that make a CPU faster."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

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
    """Return whether oneDNN's products on this CPU are float32."""
    return onednn_error() <= FLOAT32_ERROR


def onednn_error() -> float:
    """Measure the largest error of oneDNN's products, relative to their largest entry.

    The inner dimension is that of small models. The shapes are not powers of two. Processors with
    AMX or the bfloat16 instructions of AVX-512 round the factors to bfloat16.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return math.inf
    rows, inner, columns = _SHAPE
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(rows, inner, generator=generator)
    b = torch.randn(columns, inner, generator=generator)
    exact = a.double() @ b.double().T
    with matmul_precision("medium"):
        product = torch.nn.functional.linear(a, b).double()
    return float((product - exact).abs().max() / exact.abs().max())


@contextmanager
def float32_products(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """Compute products of float32 tensors as float32, whatever precision the user has set.

    Scores are measurements: a precision that was set for training does not change them. A model of
    another dtype has such products too, as in the angles of its rotary embedding. On a CPU,
    float32 models use oneDNN if the probe allows it.

    Yields:
        The backend: "oneDNN, float32 by probe", or "default".
    """
    fast = device.type == "cpu" and dtype == torch.float32 and onednn_stays_float32()
    with matmul_precision("medium" if fast else "highest"):
        yield "oneDNN, float32 by probe" if fast else "default"


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Set the precision of float32 products; then restore what either interface of torch had.

    Args:
        name: "highest", "high" or "medium", as `torch.set_float32_matmul_precision` takes it.
    """
    name_before = _precision_name()
    before = [(operation, _own_precision(operation, parent)) for operation, parent in _settings()]
    torch.set_float32_matmul_precision(name)
    for operation, _precision in before[2:]:
        operation.fp32_precision = "ieee"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(name_before)
        for operation, precision in before:
            operation.fp32_precision = precision


def _precision_name() -> str:
    """Return the precision that was set by name; the default if torch's interfaces disagree."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _settings() -> list[tuple[Any, Any]]:
    """Return torch's settings by operation, each with the one that it inherits from.

    Setting a precision by name changes the first two. torch before 2.9 has names only.
    """
    if not hasattr(torch.backends.mkldnn, "matmul"):
        return []
    cpu: Any = torch.backends.mkldnn
    cuda: Any = torch.backends.cudnn
    return [(cpu.matmul, cpu), (torch.backends.cuda.matmul, cuda), (cpu.conv, cpu)]


def _own_precision(operation: Any, parent: Any) -> str:
    """Return the value that gives an operation its present precision: "none" inherits it."""
    precision: str = operation.fp32_precision
    return "none" if precision == parent.fp32_precision else precision


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
