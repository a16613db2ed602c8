from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tolerances import PRODUCT
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from pact_eval.scoring import shared_prefix_attention as shared_prefix
from pact_eval.scoring.fork_engine import forked_in_place, new_cache
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.shared_prefix_attention import (
    ExplicitProducts,
    FusedAttention,
    Segments,
    SharedLayer,
    can_share,
    shared_attention,
    shared_layer,
    shared_prefix_attention,
)

CPU = torch.device("cpu")
ROWS, HEADS, KEY_HEADS, WIDTH, PREFIX, NEW = 3, 4, 2, 16, 21, 5


@pytest.fixture(params=["fused", "products"])
def kernel(request: pytest.FixtureRequest) -> KernelName:
    name: KernelName = request.param
    return name


def _softmax_by_hand(
    query: Tensor, key: Tensor, value: Tensor, old: Sequence[tuple[Tensor, Tensor]]
) -> Tensor:
    """One query at a time in float64: every key before it, and its own. `old` has a pair a row."""
    n, heads, length, width = query.shape
    output = torch.empty(n, length, heads, width, dtype=torch.float64)
    for row in range(n):
        for head in range(heads):
            part = head // (heads // key.shape[1])
            keys, values = key[row, part].double(), value[row, part].double()
            if old:
                keys = torch.cat([old[row][0][part].double(), keys])
                values = torch.cat([old[row][1][part].double(), values])
            for step in range(length):
                seen = len(keys) - length + step + 1
                weights = (keys[:seen] @ query[row, head, step].double() / width**0.5).softmax(0)
                output[row, step, head] = weights @ values[:seen]
    return output


@dataclass
class Inputs:
    """As models lay them out: heads behind tokens, turned round."""

    query: Tensor
    key: Tensor
    value: Tensor
    prefixes: list[tuple[Tensor, Tensor]]


def _inputs(
    seed: int,
    *,
    rows: int = ROWS,
    new: int = NEW,
    prefixes: Sequence[int] = (PREFIX,),
    scale: float = 1.0,
) -> Inputs:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator)

    return Inputs(
        draw(rows, new, HEADS, WIDTH).transpose(1, 2),
        draw(rows, new, KEY_HEADS, WIDTH).transpose(1, 2),
        draw(rows, new, KEY_HEADS, WIDTH).transpose(1, 2),
        [(draw(KEY_HEADS, n, WIDTH), draw(KEY_HEADS, n, WIDTH)) for n in prefixes],
    )


def _layer(inputs: Inputs, segments: Segments) -> SharedLayer:
    layer = shared_layer(DynamicLayer(), segments, unread=False)
    layer.parts = list(inputs.prefixes)
    return layer


def _rows(prefixes: Sequence[int], lengths: Sequence[int] | None = None) -> Segments:
    """Rows of one width, of which nothing is kept unless lengths are given."""
    return Segments(lengths or [NEW] * len(prefixes), prefixes, NEW, final=lengths is None)


def _attended(
    inputs: Inputs, segments: Segments, kernel: KernelName, scaling: float | None = None
) -> Tensor:
    keys, values = _layer(inputs, segments).update(inputs.key, inputs.value)
    output, weights = shared_prefix_attention(
        None, inputs.query, keys, values, None, scaling, kernel=kernel
    )
    assert weights is None
    return output.double()


def _expected(inputs: Inputs, prefixes: Sequence[int]) -> Tensor:
    old = [inputs.prefixes[number] for number in prefixes] if inputs.prefixes else []
    return _softmax_by_hand(inputs.query, inputs.key, inputs.value, old)


@pytest.mark.parametrize(
    ("prefixes", "scale"),
    [
        ([0, 0, 0], 1.0),
        ([0, 0, 0], 6.0),  # one part of the keys takes nearly all weight
        ([0, 0, 1], 1.0),
        ([2, 0, 1], 1.0),
    ],
)
def test_rows_behind_prefixes_against_a_softmax_by_hand(
    prefixes: list[int], scale: float, kernel: KernelName
) -> None:
    inputs = _inputs(6, prefixes=(PREFIX, 2, 40), scale=scale)
    ours = _attended(inputs, _rows(prefixes), kernel)
    tolerance = PRODUCT * scale**2
    torch.testing.assert_close(ours, _expected(inputs, prefixes), atol=tolerance, rtol=0)


@pytest.mark.parametrize("block", [1, 4, 20, 512])
@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("prefixes", [(), (PREFIX, 3)])
def test_segments_side_by_side_against_a_softmax_by_hand(
    monkeypatch: pytest.MonkeyPatch,
    block: int,
    final: bool,
    prefixes: tuple[int, ...],
    kernel: KernelName,
) -> None:
    """Blocks smaller than a segment, of one, of some with a rest, and of all."""
    kernels = {"fused": FusedAttention(block), "products": ExplicitProducts(block)}
    monkeypatch.setattr(shared_prefix, "KERNELS", kernels)
    lengths, numbers = [4, 1, 9, 2, 2, 6], [0, 0, 0, 1, 1, 1]
    inputs = _inputs(7, rows=1, new=sum(lengths), prefixes=prefixes)
    ours = _attended(inputs, Segments(lengths, numbers, final=final), kernel)
    start = 0
    for length, number in zip(lengths, numbers, strict=True):
        here = slice(start, start + length)
        expected = _softmax_by_hand(
            inputs.query[:, :, here],
            inputs.key[:, :, here],
            inputs.value[:, :, here],
            [inputs.prefixes[number]] if prefixes else [],
        )
        torch.testing.assert_close(ours[:, here], expected, atol=PRODUCT, rtol=0)
        start += length


def test_products_in_bfloat16_are_added_up_in_float32(kernel: KernelName) -> None:
    inputs = _inputs(8)
    inputs.query, inputs.key, inputs.value = (
        part.bfloat16() for part in (inputs.query, inputs.key, inputs.value)
    )
    inputs.prefixes = [(keys.bfloat16(), values.bfloat16()) for keys, values in inputs.prefixes]
    layer = _layer(inputs, _rows([0] * ROWS))
    keys, values = layer.update(inputs.key, inputs.value)
    output, _ = shared_prefix_attention(None, inputs.query, keys, values, None, kernel=kernel)
    assert output.dtype == torch.bfloat16
    # Nothing but the rounding of the result, 2^-9 of it, and that of float32 sums near 0.
    expected = _expected(inputs, [0] * ROWS)
    torch.testing.assert_close(output.double(), expected, atol=PRODUCT, rtol=2**-8)


def test_the_first_pass_has_no_prefix_and_leaves_one_a_row_without_its_padding(
    kernel: KernelName,
) -> None:
    inputs = _inputs(2, prefixes=())
    layer = _layer(inputs, _rows([0] * ROWS, [NEW, 2, 1]))
    keys, values = layer.update(inputs.key, inputs.value)
    ours, _ = shared_prefix_attention(None, inputs.query, keys, values, None, kernel=kernel)
    torch.testing.assert_close(ours.double(), _expected(inputs, []), atol=PRODUCT, rtol=0)
    for row, length in enumerate([NEW, 2, 1]):
        assert torch.equal(layer.parts[row][0], inputs.key[row, :, :length])
        assert torch.equal(layer.parts[row][1], inputs.value[row, :, :length])
    assert layer.get_seq_length() == NEW


def test_a_pass_that_is_gone_on_from_puts_its_keys_behind_the_old_ones() -> None:
    inputs = _inputs(3, prefixes=(PREFIX, 4))
    layer = _layer(inputs, _rows([0, 1, 1], [NEW, NEW, 3]))
    old = layer.parts
    layer.update(inputs.key, inputs.value)
    for row, (prefix, length) in enumerate([(0, NEW), (1, NEW), (1, 3)]):
        longer = torch.cat([inputs.prefixes[prefix][0], inputs.key[row, :, :length]], dim=1)
        assert torch.equal(layer.parts[row][0], longer)
    assert layer.get_seq_length() == PREFIX + NEW
    again = shared_layer(layer, _rows([0, 1, 2]), unread=False)
    assert again.parts is layer.parts
    last = _layer(inputs, _rows([0, 1, 1]))
    last.update(inputs.key, inputs.value)
    assert all(torch.equal(a[0], b[0]) for a, b in zip(last.parts, old, strict=True))


def test_what_nothing_reads_is_not_computed() -> None:
    inputs = _inputs(9)
    layer = _layer(inputs, _rows([0] * ROWS, [NEW] * ROWS))
    layer.unread = True
    keys, values = layer.update(inputs.key, inputs.value)
    output, _ = shared_prefix_attention(None, inputs.query, keys, values, None)
    assert output.shape == (ROWS, NEW, HEADS, WIDTH)
    assert not output.any()
    assert layer.get_seq_length() == PREFIX + NEW  # keys and values are kept


def test_the_scale_of_the_products_is_the_models(kernel: KernelName) -> None:
    inputs = _inputs(4)
    ours = _attended(inputs, _rows([0] * ROWS), kernel, scaling=0.5)
    inputs.query = inputs.query * 0.5 * WIDTH**0.5
    torch.testing.assert_close(ours, _expected(inputs, [0] * ROWS), atol=PRODUCT, rtol=0)


def test_a_mask_is_refused_and_not_ignored() -> None:
    one = _inputs(5)
    with pytest.raises(RuntimeError, match="takes no mask"):
        shared_prefix_attention(None, one.query, one.key, one.value, torch.zeros(1, 1, NEW, NEW))


@pytest.mark.parametrize("name", ["softcap", "s_aux", "sliding_window"])
def test_an_option_that_changes_the_weights_is_refused_and_not_ignored(name: str) -> None:
    """Gemma 2 caps scores, GPT-OSS has sinks: ignored, they were up to 2.9 off."""
    one = _inputs(5)
    more: Any = {name: 30.0}
    with pytest.raises(RuntimeError, match=f"does not support {name}"):
        shared_prefix_attention(None, one.query, one.key, one.value, None, **more)


def test_values_narrower_than_keys_against_a_softmax_by_hand(kernel: KernelName) -> None:
    """As in multi-head latent attention."""
    inputs = _inputs(10)
    rows = [0] * ROWS
    expected = _expected(inputs, rows)[..., :6]
    inputs.value = inputs.value[..., :6]
    inputs.prefixes = [(keys, values[..., :6]) for keys, values in inputs.prefixes]
    torch.testing.assert_close(
        _attended(inputs, _rows(rows), kernel), expected, atol=PRODUCT, rtol=0
    )


def test_the_model_attends_as_before_afterwards_also_after_an_error(qwen3: Path) -> None:
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32)
    decoder = model.eval().get_decoder()
    before = decoder.config._attn_implementation
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        plain = decoder(input_ids=ids).last_hidden_state
        with pytest.raises(KeyError):
            _fail_inside(decoder, before)
        assert decoder.config._attn_implementation == before
        assert torch.equal(decoder(input_ids=ids).last_hidden_state, plain)


def _fail_inside(decoder: Any, before: str) -> None:
    with shared_attention(decoder):
        assert decoder.config._attn_implementation != before
        raise KeyError


def test_which_models_can_share(qwen3: Path, qwen3_5_shell: Path) -> None:
    for folder in (qwen3, qwen3_5_shell):
        decoder = transformers.AutoModelForCausalLM.from_pretrained(folder).get_decoder()
        assert can_share(new_cache(decoder), CPU, "sdpa")
        assert not can_share(new_cache(decoder), torch.device("cuda"), "sdpa")
        assert not can_share(new_cache(decoder), CPU, "flash_attention_2")
    cache = new_cache(decoder)
    twin = forked_in_place(cache, Segments([1], [0]))
    assert any(isinstance(layer, SharedLayer) for layer in twin.layers)
