from __future__ import annotations

import pytest
import torch

from pact_eval.scoring import cpu_tuning as precision
from pact_eval.scoring.cpu_tuning import FLOAT32_ERROR, fast_float32, onednn_stays_float32

CPU = torch.device("cpu")


def _error(a: torch.Tensor, b: torch.Tensor) -> float:
    exact = a.double() @ b.double().T
    product = torch.nn.functional.linear(a, b).double()
    return float((product - exact).abs().max() / exact.abs().max())


def test_products_inside_are_float32_against_float64() -> None:
    """Of other shapes than the probe's: a kernel is chosen by shape."""
    generator = torch.Generator().manual_seed(5)
    for rows, inner, columns in ((1, 192, 512), (7, 512, 192), (300, 192, 192), (64, 2000, 33)):
        a = torch.randn(rows, inner, generator=generator)
        b = torch.randn(columns, inner, generator=generator)
        with fast_float32(CPU, torch.float32):
            assert _error(a, b) < 2 * FLOAT32_ERROR


def test_the_bound_tells_float32_from_what_passes_for_it() -> None:
    generator = torch.Generator().manual_seed(5)
    a = torch.randn(192, 1024, generator=generator)
    b = torch.randn(160, 1024, generator=generator)
    assert _error(a, b) < FLOAT32_ERROR / 2
    exact = a.double() @ b.double().T
    for bits in (13, 16):  # TF32 and bfloat16 keep so many bits fewer of the mantissa
        mask = torch.tensor(-1 << bits, dtype=torch.int32)
        short_a = (a.view(torch.int32) & mask).view(torch.float32)
        short_b = (b.view(torch.int32) & mask).view(torch.float32)
        product = short_a.double() @ short_b.double().T
        assert float((product - exact).abs().max() / exact.abs().max()) > 10 * FLOAT32_ERROR


def test_the_setting_is_put_back_also_after_an_error() -> None:
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), fast_float32(CPU, torch.float32):
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


def test_a_processor_that_fails_the_probe_keeps_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr(precision, "onednn_stays_float32", lambda: False)
    with fast_float32(CPU, torch.float32) as products:
        assert products == "default"
        assert torch.get_float32_matmul_precision() == before


def test_other_dtypes_and_devices_are_left_alone() -> None:
    for device, dtype in ((CPU, torch.bfloat16), (torch.device("cuda"), torch.float32)):
        with fast_float32(device, dtype) as products:
            assert products == "default"
            assert torch.get_float32_matmul_precision() == "highest"


def test_what_is_said_is_what_is_set() -> None:
    with fast_float32(CPU, torch.float32) as products:
        fast = torch.get_float32_matmul_precision() == "medium"
    assert fast == onednn_stays_float32()
    assert (products != "default") == fast
