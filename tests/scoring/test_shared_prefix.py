from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from pact_eval.scoring.caches import forked, new_cache
from pact_eval.scoring.shared_prefix import (
    SharedLayer,
    can_share,
    shared_attention,
    shared_prefix_attention,
)

CPU = torch.device("cpu")
ROWS, HEADS, KEY_HEADS, WIDTH, PREFIX, NEW = 3, 4, 2, 16, 21, 5


def _softmax_by_hand(
    query: Tensor, key: Tensor, value: Tensor, old: tuple[Tensor, Tensor] | None
) -> Tensor:
    """One query at a time in float64: every key before it, and its own."""
    n, heads, length, width = query.shape
    output = torch.empty(n, length, heads, width, dtype=torch.float64)
    for row in range(n):
        for head in range(heads):
            part = head // (heads // key.shape[1])
            keys, values = key[row, part].double(), value[row, part].double()
            if old is not None:
                keys = torch.cat([old[0][0, part].double(), keys])
                values = torch.cat([old[1][0, part].double(), values])
            for step in range(length):
                seen = len(keys) - length + step + 1
                weights = (keys[:seen] @ query[row, head, step].double() / width**0.5).softmax(0)
                output[row, step, head] = weights @ values[:seen]
    return output


def _inputs(seed: int, *, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator)

    # As models lay them out: heads behind tokens, turned round.
    query = draw(ROWS, NEW, HEADS, WIDTH).transpose(1, 2)
    key, value = (draw(ROWS, NEW, KEY_HEADS, WIDTH).transpose(1, 2) for _ in range(2))
    return query, key, value, draw(1, KEY_HEADS, PREFIX, WIDTH), draw(1, KEY_HEADS, PREFIX, WIDTH)


def _layer(old: tuple[Tensor, Tensor] | None, *, final: bool) -> SharedLayer:
    layer = SharedLayer()
    layer.final = final
    if old is not None:
        layer.keys, layer.values = old
        layer.is_initialized = True
    return layer


@pytest.mark.parametrize("scale", [1.0, 6.0])  # 6: one part of the keys takes nearly all weight
def test_rows_behind_one_prefix_against_a_softmax_by_hand(scale: float) -> None:
    query, key, value, old_keys, old_values = _inputs(1, scale=scale)
    keys, values = _layer((old_keys, old_values), final=True).update(key, value)
    ours, weights = shared_prefix_attention(None, query, keys, values, None)
    assert weights is None
    expected = _softmax_by_hand(query, key, value, (old_keys, old_values))
    torch.testing.assert_close(ours.double(), expected, atol=3e-6 * scale**2, rtol=0)


def test_the_first_pass_has_no_prefix_and_leaves_one() -> None:
    query, key, value, _, _ = _inputs(2)
    layer = _layer(None, final=False)
    keys, values = layer.update(key[:1], value[:1])
    ours, _ = shared_prefix_attention(None, query[:1], keys, values, None)
    expected = _softmax_by_hand(query[:1], key[:1], value[:1], None)
    torch.testing.assert_close(ours.double(), expected, atol=3e-6, rtol=0)
    assert layer.keys is not None
    assert torch.equal(layer.keys, key[:1])


def test_a_pass_that_is_gone_on_from_puts_its_keys_behind_the_old_ones() -> None:
    _, key, value, old_keys, old_values = _inputs(3)
    layer = _layer((old_keys, old_values), final=False)
    layer.update(key[:1], value[:1])
    assert layer.keys is not None
    assert torch.equal(layer.keys, torch.cat([old_keys, key[:1]], dim=-2))
    assert layer.get_seq_length() == PREFIX + NEW
    last = _layer((old_keys, old_values), final=True)
    last.update(key, value)
    assert last.keys is old_keys


def test_the_scale_of_the_products_is_the_models() -> None:
    query, key, value, old_keys, old_values = _inputs(4)
    keys, values = _layer((old_keys, old_values), final=True).update(key, value)
    ours, _ = shared_prefix_attention(None, query, keys, values, None, scaling=0.5)
    expected = _softmax_by_hand(query * 0.5 * WIDTH**0.5, key, value, (old_keys, old_values))
    torch.testing.assert_close(ours.double(), expected, atol=3e-6, rtol=0)


def test_a_mask_is_refused_and_not_ignored() -> None:
    query, key, value, _, _ = _inputs(5)
    with pytest.raises(RuntimeError, match="takes no mask"):
        shared_prefix_attention(None, query, key, value, torch.zeros(1, 1, NEW, NEW))


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
    twin = forked(cache, torch.tensor([0]), final=False, shared=True)
    assert any(isinstance(layer, SharedLayer) for layer in twin.layers)
