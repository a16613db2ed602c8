"""Our readers of adapter files beside safetensors and torch, on files that these wrote."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file

from pact_eval.audit.adapter import tensors as values
from pact_eval.audit.adapter.tensors import read_values, relative_difference
from pact_eval.errors import AdapterError
from pact_eval.models import TensorInfo, safetensors_header

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


# Against the safetensors library and torch.


@pytest.mark.parametrize("dtype", [*DTYPES.values(), torch.float8_e4m3fn, torch.int8, torch.bool])
def test_the_header_against_safetensors(dtype: torch.dtype, tmp_path: Path) -> None:
    shapes: list[tuple[int, ...]] = [(), (0,), (3,), (4, 5), (2, 3, 4)]
    path = tmp_path / "x.safetensors"
    save_file({f"t{i}": torch.zeros(shape).to(dtype) for i, shape in enumerate(shapes)}, path)
    header = safetensors_header(path)
    with safe_open(path, "pt") as theirs:
        assert {tensor.name for tensor in header} == set(theirs.keys())
        for tensor in header:
            there = theirs.get_slice(tensor.name)
            assert (tensor.dtype, list(tensor.shape)) == (there.get_dtype(), there.get_shape())
            assert tensor.size == theirs.get_tensor(tensor.name).numel()


def packed(header: Any, data: bytes = bytes(8)) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


BROKEN = {
    "empty": b"",
    "no header": struct.pack("<Q", 0),
    "too long a header": struct.pack("<Q", 1 << 60) + b"{}",
    "no JSON": packed(b"{" * 20),
    "no object": packed([], b""),
    "no UTF-8": packed(b'{"\xff": 1}'),
    "nested": packed(b"[" * 100_000),
    "entry no object": packed({"a": 1}),
    "no dtype": packed({"a": {"shape": [2], "data_offsets": [0, 8]}}),
    "other dtype": packed({"a": entry(dtype="F31")}),
    "no shape": packed({"a": entry(shape=None)}),
    "negative shape": packed({"a": entry(shape=[-2])}),
    "fractional shape": packed({"a": entry(shape=[2.0])}),
    "huge shape": packed({"a": entry(shape=[1 << 62, 1 << 62])}),
    "other size": packed({"a": entry(shape=[3])}),
    "half a number": packed({"a": entry(dtype="F4", shape=[3], data_offsets=[0, 1])}, bytes(1)),
    "one offset": packed({"a": entry(data_offsets=[8])}),
    "negative offset": packed({"a": entry(data_offsets=[-8, 0])}),
    "backwards": packed({"a": entry(data_offsets=[8, 0])}),
    "beyond the end": packed({"a": entry()}, bytes(7)),
    "bytes left over": packed({"a": entry()}, bytes(9)),
    "gap at the start": packed({"a": entry(data_offsets=[4, 12])}, bytes(12)),
    "gap": packed({"a": entry(), "b": entry(data_offsets=[9, 17])}, bytes(17)),
    "overlap": packed({"a": entry(), "b": entry(data_offsets=[4, 12])}, bytes(12)),
    "twice the same data": packed({"a": entry(), "b": entry()}),
    "metadata": packed({"__metadata__": {"format": 1}, "a": entry()}),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_broken_headers_are_refused_by_both(broken: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(broken)
    with pytest.raises((SafetensorError, OSError)):
        load(broken)
    with pytest.raises(AdapterError, match="damaged or cut short"):
        safetensors_header(path)


def test_a_tensor_named_twice_is_refused_though_the_library_takes_it(tmp_path: Path) -> None:
    twice = packed(b'{"a": %b, "a": %b}' % ((json.dumps(entry()).encode(),) * 2))
    assert list(load(twice)) == ["a"]
    (tmp_path / "x.safetensors").write_bytes(twice)
    with pytest.raises(AdapterError, match='duplicate key "a"'):
        safetensors_header(tmp_path / "x.safetensors")


@given(st.data())
@settings(max_examples=60)
def test_random_headers_against_safetensors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    good = bytearray(save({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16)}))
    for _ in range(data.draw(st.integers(1, 2))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(good)
    theirs = ours = None
    with suppress(SafetensorError):
        theirs = {name: tuple(tensor.shape) for name, tensor in load(bytes(good)).items()}
    with suppress(AdapterError):
        ours = {tensor.name: tensor.shape for tensor in safetensors_header(path)}
    assert ours == theirs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [7, (1 << 18) + 5])
def test_values_against_torch(dtype: str, n: int, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    rng = torch.Generator().manual_seed(n)
    numbers = torch.randn(n, generator=rng).to(DTYPES[dtype])
    numbers[n // 2] = float("nan")
    numbers[-1] = float("-inf")
    other = torch.randn(n, generator=rng).to(DTYPES[dtype])
    zeros = torch.zeros(n, dtype=DTYPES[dtype])
    save_file({"odd": numbers, "zero": zeros, "minus": -zeros, "other": other}, path)
    tensors = {tensor.name: tensor for tensor in safetensors_header(path)}
    numbers_read = read_values(path, tensors["odd"])
    assert numbers_read.nans == int(numbers.isnan().sum())
    assert numbers_read.infinities == int(numbers.isinf().sum())
    assert read_values(path, tensors["zero"]).is_zero
    assert read_values(path, tensors["minus"]).is_zero
    assert not read_values(path, tensors["other"]).is_zero
    assert read_values(path, tensors["other"]).largest == float(other.double().abs().max())
    assert (numbers_read.largest, read_values(path, tensors["zero"]).largest) == (inf, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_relative_difference_against_torch(dtype: str, tmp_path: Path) -> None:
    rng = torch.Generator().manual_seed(17)
    left = torch.randn(600, 500, generator=rng).to(DTYPES[dtype])
    right = (left.double() + 0.1 * torch.randn(600, 500, generator=rng)).float()
    save_file({"a": left}, tmp_path / "left")
    save_file({"a": right}, tmp_path / "right")
    paths = tmp_path / "left", tmp_path / "right"
    infos = [safetensors_header(path)[0] for path in paths]
    difference = torch.linalg.norm(left.double() - right.double())
    larger = max(torch.linalg.norm(left.double()), torch.linalg.norm(right.double()))
    difference_read = relative_difference(paths[0], infos[0], paths[1], infos[1])
    assert difference_read == pytest.approx(float(difference / larger), rel=1e-9)
    assert relative_difference(paths[0], infos[0], paths[0], infos[0]) == 0


def test_relative_difference_of_zeros_and_opposites(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_file({"0": torch.zeros(3), "1": torch.ones(3), "2": -torch.ones(3)}, path)
    zero, one, minus = sorted(safetensors_header(path), key=lambda tensor: tensor.name)
    assert relative_difference(path, zero, path, zero) == 0
    assert relative_difference(path, one, path, zero) == 1
    assert relative_difference(path, one, path, minus) == 2


# Blocks, by hand.


def stored(folder: Path, *numbers: float) -> tuple[Path, Any]:
    path = folder / f"{len(numbers)}.safetensors"
    save_file({"a": torch.tensor([9.0]), "t": torch.tensor(numbers)}, path)
    return path, next(tensor for tensor in safetensors_header(path) if tensor.name == "t")


@pytest.mark.parametrize("n_numbers", [1, 2, 3, 100])
def test_numbers_of_blocks_add_up(
    tmp_path: Path, n_numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "_BLOCK_NUMBERS", n_numbers)
    summary = read_values(*stored(tmp_path, 1.0, -3.0, 0.0, 2.0, 0.5))
    assert summary == values.TensorValues(nans=0, infinities=0, is_zero=False, largest=3.0)
    summary = read_values(*stored(tmp_path, nan, -3.0, -inf, nan, inf, 0.0, nan))
    assert summary == values.TensorValues(nans=3, infinities=2, is_zero=False, largest=inf)
    assert read_values(*stored(tmp_path, 0.0, -0.0)).is_zero
    assert not read_values(*stored(tmp_path, 0.0, 0.0, 1e-30)).is_zero
    assert read_values(*stored(tmp_path)) == values.TensorValues(0, 0, is_zero=False, largest=0)
    left = stored(tmp_path, 3.0, 0.0, 4.0)
    assert relative_difference(*left, *left) == 0
    doubled = tmp_path / "doubled.safetensors"
    save_file({"t": torch.tensor([3.0, 0.0, 0.0])}, doubled)
    (other,) = safetensors_header(doubled)
    # The difference is (0, 0, 4), the larger norm 5.
    assert relative_difference(*left, doubled, other) == pytest.approx(4 / 5)
    assert relative_difference(doubled, other, *left) == pytest.approx(4 / 5)


def test_a_file_that_ends_inside_a_tensor(tmp_path: Path) -> None:
    path, tensor = stored(tmp_path, 1.0, 2.0, 3.0)
    raw = path.read_bytes()
    for n_lost in (1, 4, 12):
        path.write_bytes(raw[:-n_lost])
        with pytest.raises(ValueError, match="ends inside the tensor t"):
            read_values(path, tensor)


def test_numbers_that_are_not_finite_have_no_difference(tmp_path: Path) -> None:
    left, right = stored(tmp_path, 1.0, 2.0), tmp_path / "x.safetensors"
    for number in (nan, inf):
        save_file({"t": torch.tensor([1.0, number])}, right)
        (other,) = safetensors_header(right)
        assert isnan(relative_difference(*left, right, other))
        assert isnan(relative_difference(right, other, *left))


def test_types_that_can_be_read() -> None:
    readable = {"F64", "F32", "F16", "BF16"}
    for dtype in [*readable, "I8", "BOOL", "F4", "F8_E4M3", "C64"]:
        tensor = TensorInfo("t", dtype, (1,), 0, 1)
        assert values.is_readable(tensor) is (dtype in readable)
