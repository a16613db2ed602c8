"""Against the whole layer, by the positions that its parts see, and by what is put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tolerances import PRODUCT

from pact_eval.scoring.fork_engine import ForkEngine, LastLayer, fork_engine, new_cache
from pact_eval.scoring.scorer import one_by_one
from scoring.test_fork import CPU, SHAPES, _agree, _forked, _views


def _model(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def _layer(decoder: Any) -> LastLayer:
    return LastLayer(decoder, len(new_cache(decoder).layers))


@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_shell"])
def test_read_positions_are_those_of_the_whole_layer(
    request: pytest.FixtureRequest, name: str
) -> None:
    decoder = _model(request.getfixturevalue(name)).get_decoder()
    layer = _layer(decoder)
    assert layer.supported
    ids, rows, steps = torch.randint(5, 900, (3, 11)), torch.arange(3), torch.tensor([10, 4, 0])
    with torch.inference_mode():
        whole = decoder(input_ids=ids).last_hidden_state
        with layer.installed(), layer.read_at(rows * 11 + steps):
            narrow = decoder(input_ids=ids).last_hidden_state
        again = decoder(input_ids=ids).last_hidden_state
    largest = PRODUCT * float(whole.abs().max())
    torch.testing.assert_close(narrow[rows, steps], whole[rows, steps], atol=largest, rtol=0)
    assert float((narrow - whole).abs().max()) > 0.01  # elsewhere nothing was added
    assert torch.equal(again, whole)


def test_parts_see_answer_positions_alone(qwen3: Path) -> None:
    """Of the trunk none, of the leaves one each; layers before see every token."""
    model = _model(qwen3)
    seen: dict[str, int] = {}

    def count(name: str) -> Any:
        def hook(_module: Any, inputs: tuple[torch.Tensor, ...], _output: Any) -> None:
            seen[name] = seen.get(name, 0) + inputs[0].numel() // inputs[0].shape[-1]

        return hook

    layers = model.get_decoder().layers
    hooks = [
        module.register_forward_hook(count(name))
        for name, module in (
            ("last", layers[-1].mlp.down_proj),
            ("first", layers[0].mlp.down_proj),
            ("keys", layers[-1].self_attn.k_proj),
        )
    ]
    views = _views(SHAPES["branches on branches"])
    scored, executor = _forked(model, views)
    for hook in hooks:
        hook.remove()
    assert seen == {
        "last": len(views),
        "first": executor.count.passed,
        "keys": executor.count.passed,
    }
    _agree(scored, one_by_one(model, views))


def test_forwards_are_put_back_also_after_an_error(qwen3: Path) -> None:
    """A forward that a library hung on the module is taken, and put back, like its own."""
    decoder = _model(qwen3).get_decoder()
    mlp = decoder.layers[-1].mlp
    calls: list[int] = []
    plain = mlp.forward

    def hooked(states: torch.Tensor) -> torch.Tensor:
        calls.append(states.shape[0])
        result: torch.Tensor = plain(states)
        return result

    mlp.forward = hooked
    layer = _layer(decoder)
    with pytest.raises(KeyError):
        _fail_inside(layer, decoder)
    assert mlp.forward is hooked
    assert calls == [3]
    assert "forward" not in decoder.layers[-1].self_attn.o_proj.__dict__


def _fail_inside(layer: LastLayer, decoder: Any) -> None:
    ends = torch.tensor([1, 2, 3])
    with layer.installed(), layer.read_at(ends), torch.inference_mode():
        decoder(input_ids=torch.tensor([[5, 6], [7, 8]]))
        raise KeyError


def test_layers_of_experts_and_of_shared_keys_run_whole(tokenizer: Any) -> None:
    """The MLP of Mixtral takes positions apart; Gemma 3n's last layers read the keys of others."""
    config = transformers.MixtralConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        num_local_experts=4,
    )
    torch.manual_seed(5)
    model: Any = transformers.MixtralForCausalLM(config).eval()
    executor = fork_engine(model, CPU, 4096)
    assert isinstance(executor, ForkEngine)
    assert not _layer(model.get_decoder()).supported
    views = _views(SHAPES["branches of other lengths"])
    _agree(_forked(model, views)[0], one_by_one(model, views))
    qwen3 = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    decoder = transformers.Qwen3ForCausalLM(qwen3).get_decoder()
    assert LastLayer(decoder, 3).supported
    assert not LastLayer(decoder, 2).supported
