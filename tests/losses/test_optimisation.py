from __future__ import annotations

import copy
import math
import sys
from typing import Any

import pytest
import torch
from adapters import MODEL
from losses.tiny import short_views, tiny_base
from needs import installed, needs
from torch import nn

from pact_losses import (
    NIMBLE_RECIPE_SETTINGS,
    PACT_SETTINGS,
    PactCollator,
    PactLossError,
    PactWeights,
    candidate_logits,
    language_targets,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
    nf4_config,
)
from pact_losses.optimisation import Schedule


def test_settings_against_the_table_of_the_paper() -> None:
    s = PACT_SETTINGS
    assert s.max_prompt_tokens == 2048
    assert (s.rank, s.alpha, s.dropout, s.rslora) == (16, 32, 0.05, True)
    short = [name.removesuffix("_proj") for name in s.targets]
    assert short == ["q", "k", "v", "o", "gate", "up", "down"]
    assert (s.learning_rate, s.weight_decay, s.lora_plus_ratio) == (5e-5, 0.0, 8.0)
    assert (s.schedule, s.warmup, s.epochs) == ("cosine", 0.1, 2)
    assert (s.pairs_per_batch, s.accumulation, s.pairs_per_step) == (2, 2, 4)
    assert s.max_gradient_norm == 1.0
    assert s.weights == PactWeights(cf=0.5, pc=0.5, nr=0.2, emd=0.3)
    assert (s.margin, s.epsilon, s.ramp) == (2.0, 0.0, 0.1)
    assert (s.bucket, s.select_share, s.evaluation_views) == (64, 0.25, 4)
    assert (s.permuted_views, s.ablated_view) == (1, True)
    # Not in the table: the sampler and the public mix of the released code.
    assert (s.pair_views, s.unpaired_weight, s.unpaired_permuted_views) == ("all", 0.3, 0)
    assert s.seeds == (17, 18, 19)


def test_steps_against_the_text_of_the_paper() -> None:
    assert PACT_SETTINGS.n_steps(1167) == 584
    assert PACT_SETTINGS.select_every(584) == 146
    assert NIMBLE_RECIPE_SETTINGS.n_steps(1167) == 292
    assert NIMBLE_RECIPE_SETTINGS.select_every(292) == 73
    assert PACT_SETTINGS.select_every(1) == 1
    assert PACT_SETTINGS.select_every(298) == 75  # 74 once: looks at 296 and again at 298


def test_the_published_recipe_differs_in_what_the_paper_says() -> None:
    recipe, pact = vars(NIMBLE_RECIPE_SETTINGS), vars(PACT_SETTINGS)
    assert {name: recipe[name] for name in recipe if recipe[name] != pact[name]} == {
        "epochs": 1,
        "schedule": "linear",
        "rslora": False,
        "lora_plus_ratio": 1.0,
        "permuted_views": 0,
        "ablated_view": False,
        "weights": PactWeights(cf=0.0, pc=0.0, nr=0.0, emd=0.0),
    }


@pytest.mark.parametrize(("rslora", "scaling"), [(True, 8.0), (False, 2.0)])
def test_lora_config_adapts_every_projection(rslora: bool, scaling: float) -> None:
    model = _with_lora(rslora=rslora)
    layers = [layer for layer in model.modules() if hasattr(layer, "lora_A") and len(layer.lora_A)]
    assert len(layers) == 7 * model.config.num_hidden_layers
    assert {layer.scaling["default"] for layer in layers} == {scaling}
    assert {layer.lora_dropout["default"].p for layer in layers} == {0.05}
    assert all("lora_" in name for name, weight in model.named_parameters() if weight.requires_grad)


def test_lora_plus_gives_the_b_matrices_eight_times_the_rate() -> None:
    model = _with_lora()
    optimizer = lora_plus_optimizer(model)
    assert type(optimizer) is torch.optim.AdamW
    names = {id(weight): name for name, weight in model.named_parameters()}
    rates = {
        names[id(weight)]: group["lr"]
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    assert {rate for name, rate in rates.items() if "lora_A" in name} == {5e-5}
    assert {rate for name, rate in rates.items() if "lora_B" in name} == {8 * 5e-5}
    assert set(rates) == {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0}
    assert optimizer.param_groups[0]["lr"] == 5e-5
    plain = lora_plus_optimizer(model, learning_rate=1e-3, ratio=1.0, weight_decay=0.1)
    used = [group for group in plain.param_groups if group["params"]]
    assert {(group["lr"], group["weight_decay"]) for group in used} == {(1e-3, 0.1)}


def test_a_model_without_trained_lora_is_refused() -> None:
    model: Any = nn.Linear(2, 2)
    with pytest.raises(PactLossError, match="expected a model with trainable LoRA weights"):
        lora_plus_optimizer(model)
    frozen = _with_lora()
    for weight in frozen.parameters():
        weight.requires_grad_(False)
    with pytest.raises(PactLossError, match="trainable LoRA weights"):
        lora_plus_optimizer(frozen)


def released_share(step: int, n: int, warm: int, kind: str) -> float:
    """The released code: (step + 1) / warm-up, then a decay that would end at step n."""
    if step < warm:
        return (step + 1) / warm
    done = min(1.0, (step - warm) / max(1, n - warm))
    return 1 - done if kind == "linear" else 0.5 * (1 + math.cos(math.pi * done))


@pytest.mark.parametrize(
    ("schedule", "n", "warm"), [("cosine", 9, 0), ("cosine", 40, 4), ("linear", 47, 4)]
)
def test_schedule_against_the_released_formula_in_every_group(
    schedule: Schedule, n: int, warm: int
) -> None:
    weights = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    groups = [{"params": [weights[0]], "lr": 1.0}, {"params": [weights[1]], "lr": 8.0}]
    optimizer = torch.optim.AdamW(groups)
    rates = learning_rate_schedule(optimizer, schedule, n_steps=n)
    for step in range(n + 1):
        expected = released_share(step, n, warm, schedule)
        assert rates.get_last_lr() == pytest.approx([expected, 8 * expected])
        assert expected > 0 or step == n
        optimizer.step()
        rates.step()


def trained_names(model: nn.Module) -> list[str]:
    return [name for name, weight in model.named_parameters() if weight.requires_grad]


def test_only_the_language_part_of_a_shell_gets_lora() -> None:
    from peft import get_peft_model

    def block() -> nn.Module:
        parts = {"q_proj": nn.Linear(4, 4), "norm": nn.LayerNorm(4)}
        return nn.ModuleDict({"attention": nn.ModuleDict(parts)})

    shell = nn.ModuleDict({"visual": block(), "model": nn.ModuleDict({"language_model": block()})})
    other_shell = copy.deepcopy(shell)
    names = language_targets(shell)
    assert names == ("model.language_model.attention.q_proj",)
    config = lora_config(targets=names)
    config.task_type = None
    adapted: Any = get_peft_model(shell, config)
    assert len(trained_names(adapted)) == 2
    assert all(".language_model." in name for name in trained_names(adapted))
    everywhere = lora_config()
    everywhere.task_type = None
    other: Any = get_peft_model(other_shell, everywhere)
    assert any(
        "visual" in name for name, weight in other.named_parameters() if weight.requires_grad
    )


def test_a_language_model_gets_lora_by_the_names_of_its_modules() -> None:
    assert language_targets(tiny_base()) == PACT_SETTINGS.targets
    empty: Any = nn.ModuleDict({"language_model": nn.LayerNorm(2)})
    with pytest.raises(PactLossError, match="expected linear layers q_proj, .* found none"):
        language_targets(empty)


@pytest.mark.parametrize(
    ("schedule", "arguments", "message"),
    [
        ("cosine", {"n_steps": 0}, "got 0, 0.1 and cosine"),
        ("cosine", {"n_steps": 5, "warmup": 1.5}, "got 5, 1.5 and cosine"),
        ("steps", {"n_steps": 5}, "one of cosine, linear; got 5, 0.1 and steps"),
    ],
)
def test_a_schedule_that_is_none_is_refused(
    schedule: Any, arguments: dict[str, Any], message: str
) -> None:
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))])
    with pytest.raises(PactLossError, match=message):
        learning_rate_schedule(optimizer, schedule, **arguments)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ModuleNotFoundError, match=r"lora_config needs peft.*'pact-eval\[model\]'"):
        lora_config()


def test_nf4_config_is_that_of_the_paper() -> None:
    config = nf4_config()
    assert config.load_in_4bit
    assert config.bnb_4bit_quant_type == "nf4"
    assert config.bnb_4bit_use_double_quant
    assert config.bnb_4bit_compute_dtype == torch.bfloat16


@needs("a CUDA device", present=torch.cuda.is_available() and installed("bitsandbytes"))
def test_a_4_bit_model_trains_its_adapter() -> None:
    from peft import get_peft_model, prepare_model_for_kbit_training
    from transformers import AutoModelForCausalLM

    load: Any = AutoModelForCausalLM.from_pretrained
    base = load(MODEL, quantization_config=nf4_config(), device_map={"": 0})
    prepare: Any = prepare_model_for_kbit_training
    model = get_peft_model(prepare(base, use_gradient_checkpointing=False), lora_config()).train()
    logits = candidate_logits(model, PactCollator(0)(short_views(2)))
    assert bool(logits.isfinite().all())
    logits.sum().backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)


def _with_lora(**changes: Any) -> Any:
    from peft import get_peft_model

    return get_peft_model(tiny_base(), lora_config(**changes))
