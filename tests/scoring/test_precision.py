from __future__ import annotations

import pytest
import torch

from pact_eval.scoring import cpu as precision
from pact_eval.scoring.cpu import (
    FLOAT32_ERROR,
    float32_products,
    onednn_error,
    onednn_stays_float32,
)
from scoring.user_precision import PLACES, settings, user_precision

CPU = torch.device("cpu")
DEFAULTS = settings()


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
        with float32_products(CPU, torch.float32):
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


@pytest.mark.parametrize("name", ["highest", "high", "medium"])
def test_a_name_that_was_set_is_put_back_also_after_an_error(name: str) -> None:
    with user_precision(name):
        before = settings()
        with pytest.raises(KeyError), float32_products(CPU, torch.float32):
            raise KeyError
        assert settings() == before
        assert torch.get_float32_matmul_precision() == name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", ["tf32", "ieee"])
def test_settings_of_the_newer_interface_are_put_back_as_they_were(place: str, value: str) -> None:
    """What a place inherits is inherited afterwards, too: it follows a later change."""
    with user_precision(f"{place}={value}"):
        before = settings()
        for dtype in (torch.float32, torch.bfloat16):
            with float32_products(CPU, dtype):
                inside = settings()
            assert inside["mkldnn.conv"] == "ieee"
            if dtype == torch.bfloat16:
                assert inside["mkldnn.matmul"] == inside["cuda.matmul"] == "ieee"
            assert settings() == before
    assert settings() == DEFAULTS


def test_a_processor_that_fails_the_probe_computes_as_torch_does_by_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision, "onednn_stays_float32", lambda: False)
    for name in ("highest", "high", "medium"):
        with user_precision(name), float32_products(CPU, torch.float32) as products:
            assert products == "default"
            assert torch.get_float32_matmul_precision() == "highest"


def test_other_dtypes_and_devices_never_use_shorter_factors() -> None:
    """A model of bfloat16 has products of float32, too: the angles of its rotary embedding."""
    for device, dtype in ((CPU, torch.bfloat16), (torch.device("cuda"), torch.float32)):
        for name in ("highest", "medium"):
            with user_precision(name), float32_products(device, dtype) as products:
                assert products == "default"
                assert torch.get_float32_matmul_precision() == "highest"


def test_what_is_said_is_what_is_set() -> None:
    with float32_products(CPU, torch.float32) as products:
        fast = torch.get_float32_matmul_precision() == "medium"
    assert fast == onednn_stays_float32()
    assert (products != "default") == fast


@pytest.mark.usefixtures("amx")
def test_the_probe_refuses_products_that_round_as_amx_does() -> None:
    """Planted: the factors of float32 products are rounded to bfloat16, if a user allows it."""
    assert onednn_error() > 100 * FLOAT32_ERROR
    assert not precision.onednn_stays_float32()
    a, b = torch.randn(8, 512), torch.randn(8, 512)
    with user_precision("medium"):
        assert _error(a, b) > 10 * FLOAT32_ERROR
        with float32_products(CPU, torch.float32):
            assert _error(a, b) < FLOAT32_ERROR
