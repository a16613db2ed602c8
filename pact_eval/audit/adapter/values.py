"""The numbers of a safetensors file, read in blocks: an adapter of gigabytes needs little memory.

Blocks are read, not mapped: a file that is cut short meanwhile is then an error to report and not
a crash, and what was read does not stay in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from pact_eval.models.folders import TensorInfo

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float64]


def _float8(n_fraction: int, bias: int) -> npt.NDArray[np.float32]:
    """Return what each of the 256 bytes means: a sign, an exponent, a fraction of so many bits."""
    byte = np.arange(256)
    exponent = (byte & 0x7F) >> n_fraction
    fraction = (byte & ((1 << n_fraction) - 1)) / (1 << n_fraction)
    size = np.where(exponent == 0, 2 * fraction, 1 + fraction) * np.exp2(exponent - bias)
    numbers: npt.NDArray[np.float32] = np.where(byte < 0x80, size, -size).astype(np.float32)
    return numbers


def _with(numbers: npt.NDArray[np.float32], **special: Sequence[int]) -> npt.NDArray[np.float32]:
    for name, places in special.items():
        numbers[list(places)] = float(name)
    return numbers


# One table a type; E4M3 has no infinity, the FNUZ types no negative zero either.
_FLOAT8: Final = {
    "F8_E4M3": _with(_float8(3, 7), nan=[0x7F, 0xFF]),
    "F8_E5M2": _with(
        _float8(2, 15), nan=[*range(0x7D, 0x80), *range(0xFD, 0x100)], inf=[0x7C, 0xFC]
    ),
    "F8_E4M3FNUZ": _with(_float8(3, 8), nan=[0x80]),
    "F8_E5M2FNUZ": _with(_float8(2, 16), nan=[0x80]),
}
# BF16 is the upper half of a float32.
_READ_AS: Final = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", **dict.fromkeys(_FLOAT8, "u1"),
}  # fmt: skip
_BLOCK_NUMBERS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class TensorValues:
    """Summary of the numbers of one tensor.

    Attributes:
        nans: how many are NaN.
        infinities: how many are infinite.
        is_zero: whether all of them are 0; False for a tensor that holds none.
        largest: the largest absolute number, infinite if one is not finite; 0 for none at all.
    """

    nans: int
    infinities: int
    is_zero: bool
    largest: float


def is_readable(tensor: TensorInfo) -> bool:
    """Say whether the numbers of a tensor can be read: floating point of 8 to 64 bits."""
    return tensor.dtype in _READ_AS


def read_values(path: Path, tensor: TensorInfo) -> TensorValues:
    """Read a tensor once, block by block.

    Args:
        path: the safetensors file.
        tensor: one of its tensors, of a dtype that `is_readable` accepts.

    Returns:
        What its numbers are like.

    Raises:
        OSError: the file cannot be read.
        ValueError: it ends before the tensor does.
    """
    nans = infinities = 0
    largest = 0.0
    with path.open("rb") as file:
        for block in _blocks(file, tensor):
            # A NaN makes both of them NaN.
            top = max(abs(float(block.max())), abs(float(block.min())))
            if not math.isfinite(top):
                nans += int(np.isnan(block).sum())
                infinities += int(np.isinf(block).sum())
                top = math.inf
            largest = max(largest, top)
    is_zero = largest == 0 and tensor.size > 0
    return TensorValues(nans, infinities, is_zero=is_zero, largest=largest)


def relative_difference(
    left_path: Path, left: TensorInfo, right_path: Path, right: TensorInfo
) -> float:
    r"""Return how far two tensors are apart, as a fraction of the larger one.

    $$\frac{\lVert L - R \rVert_F}{\max(\lVert L \rVert_F, \lVert R \rVert_F)}$$

    Args:
        left_path: the safetensors file of the first.
        left: the first, of a dtype that `is_readable` accepts.
        right_path: the safetensors file of the second.
        right: the second, of the same shape; its dtype may be another.

    Returns:
        From 0 (equal; also if both are zero) to 2 (opposite); NaN if a number is not finite.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file ends before its tensor does.
    """
    between = of_left = of_right = 0.0
    with left_path.open("rb") as left_file, right_path.open("rb") as right_file:
        blocks = zip(_blocks(left_file, left), _blocks(right_file, right), strict=True)
        for left_block, right_block in blocks:
            # A float64 holds any square of a float32; those of a float64 may overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                a, b = left_block.astype(np.float64), right_block.astype(np.float64)
                between += float(np.square(a - b).sum())
                of_left += float(np.square(a).sum())
                of_right += float(np.square(b).sum())
    larger = max(of_left, of_right)
    if not math.isfinite(between + of_left + of_right):
        return math.nan
    return math.sqrt(between / larger) if larger > 0 else 0.0


def _blocks(file: BinaryIO, tensor: TensorInfo) -> Iterator[Floats]:
    """Yield the numbers of a tensor in order, some at a time."""
    kind = np.dtype(_READ_AS[tensor.dtype])
    file.seek(tensor.offset_bytes)
    left = tensor.size_bytes
    while left > 0:
        raw = file.read(min(left, _BLOCK_NUMBERS * kind.itemsize))
        if not raw or len(raw) % kind.itemsize:
            message = f"the file ends inside the tensor {tensor.name}"
            raise ValueError(message)
        left -= len(raw)
        yield _as_floats(np.frombuffer(raw, dtype=kind), tensor.dtype)


def _as_floats(numbers: npt.NDArray[np.generic], dtype: str) -> Floats:
    with np.errstate(invalid="ignore"):
        if dtype == "BF16":
            halves: npt.NDArray[np.uint32] = numbers.astype(np.uint32)
            return (halves << 16).view(np.float32)
        if dtype in _FLOAT8:
            return _FLOAT8[dtype][numbers.astype(np.uint8)]
        if dtype == "F64":
            return numbers.astype(np.float64)
        return numbers.astype(np.float32)
