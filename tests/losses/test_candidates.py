from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from losses.tiny import short_views, tiny_base, with_lora
from tolerances import BFLOAT16_LOGIT, LOGIT, NLL, PRODUCT
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    PreTrainedConfig,
    Qwen3_5TextConfig,
)

from pact_eval.prompts.encoding import EncodedView
from pact_eval.scoring.scorer import Scorer
from pact_losses import (
    BatchError,
    PactBatch,
    PactCollator,
    PactLoss,
    PactWeights,
    TrainingView,
    answer_logits,
    candidate_logits,
)

FAMILIES = 2
SMALL: dict[str, Any] = {
    "vocab_size": 400,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OTHERS: dict[str, PreTrainedConfig] = {
    "logits capped": Gemma2Config(**SMALL, final_logit_softcapping=0.5),
    "logits scaled": CohereConfig(**SMALL, logit_scale=0.25),
    "logits divided": GraniteConfig(**SMALL, logits_scaling=4.0),
    "hybrid layers": Qwen3_5TextConfig(
        **SMALL, layer_types=["linear_attention", "full_attention"], linear_num_value_heads=2,
        linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=16,
    ),
    "learned positions": GPT2Config(
        vocab_size=400, n_embd=32, n_layer=2, n_head=2, n_positions=96,
        bos_token_id=1, eos_token_id=2,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def views() -> list[TrainingView]:
    return list(short_views(FAMILIES))


@pytest.fixture(scope="module")
def batch(views: list[TrainingView]) -> PactBatch:
    return PactCollator(0, n_codes=7)(views)


@pytest.fixture(scope="module", params=["base", "adapter", "adapter on the head"])
def model(request: pytest.FixtureRequest) -> Any:
    base = tiny_base()
    return base if request.param == "base" else with_lora(base, head="head" in request.param)


@torch.no_grad()
def test_against_the_plain_forward_pass_of_one_prompt(
    model: Any, views: list[TrainingView], batch: PactBatch
) -> None:
    logits = candidate_logits(model, batch)
    assert logits.shape == (5 * FAMILIES, 7)
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, _one_by_one(model, views, 7), atol=LOGIT, rtol=0)
    assert len({len(view.token_ids) for view in views}) > 1


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_whatever_the_model_does_to_its_logits_is_done(name: str) -> None:
    torch.manual_seed(0)
    make: Any = AutoModelForCausalLM.from_config
    model = make(OTHERS[name]).eval()
    views = [
        replace(view, token_ids=tuple(token % 400 for token in view.token_ids))
        for view in short_views(1)
    ]
    batch = PactCollator(0)(views)
    width = batch.code_order.shape[1]
    expected = _one_by_one(model, views, width)
    torch.testing.assert_close(candidate_logits(model, batch), expected, atol=PRODUCT, rtol=NLL)
    assert float(expected.abs().max()) > 1e-3
    _check_rest(model, batch)


def _check_rest(model: Any, batch: PactBatch, *, exact: bool = True) -> None:
    """All tokens but the letters, against the full logits of the model; the letters stay equal."""
    read, expected_letters = answer_logits(model, batch), candidate_logits(model, batch)
    torch.testing.assert_close(read.letters, expected_letters, rtol=0, atol=0 if exact else LOGIT)
    assert read.rest is not None
    assert batch.code_tokens is not None
    full = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=_positions(batch),
    ).logits[:, -1]
    for row, tokens in enumerate(batch.code_tokens):
        letters = set(tokens[batch.mask[row]].tolist())
        others = [token for token in range(full.shape[1]) if token not in letters]
        expected = full[row, others].double().logsumexp(0)
        assert float(read.rest[row]) == pytest.approx(float(expected), abs=LOGIT)


@torch.no_grad()
def test_all_other_tokens_against_the_full_logits(model: Any, batch: PactBatch) -> None:
    _check_rest(model, batch)


@pytest.mark.parametrize("change", ["cuts padding off", "masks a token"])
@torch.no_grad()
def test_a_model_that_knows_its_columns(change: str, batch: PactBatch) -> None:
    """As Inkling and Chameleon of transformers do to the logits that they return."""
    model, last = tiny_base(), tiny_base().config.vocab_size - 9
    plain = model.forward

    def forward(**inputs: Any) -> Any:
        out = plain(**inputs)
        if change == "cuts padding off":
            out.logits = out.logits[..., :last]
        elif out.logits.shape[-1] > last:
            out.logits[..., last] = -1e4
        return out

    before = answer_logits(model, batch).rest
    model.forward = forward
    _check_rest(model, batch, exact=change == "masks a token")
    after = answer_logits(model, batch).rest
    assert before is not None
    assert after is not None
    assert not torch.equal(before, after)


@torch.no_grad()
def test_the_answer_mass_is_that_of_scoring(views: list[TrainingView]) -> None:
    labelled = [view for view in views if view.role != "ablated"]
    base = tiny_base()
    encoded = [
        EncodedView(v.record_id, v.view, v.token_ids, v.code_tokens, v.code_order) for v in labelled
    ]
    masses = [view.answer_mass for view in Scorer(base, 4096).score(encoded)]
    batch = PactCollator(0)(views)
    out = PactLoss()(answer_logits(base, batch), batch, progress=1.0)
    assert float(out.diagnostics["answer_mass"]) == pytest.approx(
        sum(masses) / len(masses), rel=1e-4
    )


def test_without_a_gradient_of_the_rest_that_of_the_letters_is_the_same_bit_for_bit(
    batch: PactBatch,
) -> None:
    model = with_lora(tiny_base()).train()

    def gradients(logits: Tensor) -> dict[str, Tensor]:
        model.zero_grad()
        logits.square().sum().backward()  # type: ignore[no-untyped-call]
        return {name: w.grad for name, w in model.named_parameters() if w.grad is not None}

    expected = gradients(candidate_logits(model, batch))
    with torch.no_grad():
        model.lm_head.weight[-1] = torch.nan  # such as a padding row of the vocabulary
    read = answer_logits(model, batch, train_rest=False)
    assert read.rest is not None
    assert read.rest.isnan().all()
    assert not read.rest.requires_grad
    now = gradients(read.letters)
    assert now.keys() == expected.keys()
    assert all(torch.equal(now[name], expected[name]) for name in expected)


def test_with_the_answer_mass_the_loss_is_cross_entropy_over_the_vocabulary(
    views: list[TrainingView],
) -> None:
    """Weight 1, without a ramp: value and gradient of what plain fine-tuning has."""
    labelled = [view for view in views if view.role == "primary"]
    batch = PactCollator(0, require_pairs=False)(labelled)
    model = with_lora(tiny_base(torch.float64)).train()
    weights = PactWeights(cf=0.0, pc=0.0, nr=0.0, emd=0.0, am=1.0)
    total = PactLoss(weights, ramp=0.0)(answer_logits(model, batch), batch, progress=0.0).total
    total.backward()  # type: ignore[no-untyped-call]
    ours = {name: w.grad for name, w in model.named_parameters() if w.grad is not None}
    model.zero_grad()
    full = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=_positions(batch),
    ).logits[:, -1]
    targets = [view.code_tokens[view.code_order.index(view.reference or 0)] for view in labelled]
    plain = nn.functional.cross_entropy(full, torch.tensor(targets))
    plain.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(total, plain)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            torch.testing.assert_close(ours[name], weight.grad)


@pytest.mark.parametrize("head", [pytest.param(False, marks=pytest.mark.slow), True])
def test_gradient_flows_to_the_adapter_only_and_is_that_of_the_full_head(
    views: list[TrainingView], head: bool
) -> None:
    batch = PactCollator(0)(views[:3])
    model = with_lora(tiny_base(torch.float64), head=head).train()
    picked = candidate_logits(model, batch)
    (picked * batch.mask).square().sum().backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }
    assert gradients
    assert all("lora_" in name for name in gradients)
    assert any("lm_head" in name for name in gradients) == head
    assert all(bool((grad != 0).any()) for grad in gradients.values())
    model.zero_grad()
    assert batch.input_ids is not None
    assert batch.code_tokens is not None
    full = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=_positions(batch),
    ).logits[:, -1]
    (full.gather(-1, batch.code_tokens) * batch.mask).square().sum().backward()
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            torch.testing.assert_close(gradients[name], weight.grad)


def test_no_logits_but_those_of_the_codes_are_made(batch: PactBatch) -> None:
    base = tiny_base()
    shapes: list[tuple[int, ...]] = []
    base.lm_head.register_forward_hook(lambda _head, _inputs, out: shapes.append(tuple(out.shape)))
    model = with_lora(base)
    candidate_logits(model, batch)
    with_lora_on_head = with_lora(tiny_base(), head=True)
    with_lora_on_head.base_model.model.lm_head.register_forward_hook(
        lambda _head, _inputs, out: shapes.append(tuple(out.shape))
    )
    candidate_logits(with_lora_on_head, batch)
    n = len(batch)
    assert shapes == [(n, 1, 7), (n, 1, base.config.vocab_size)]


def test_the_head_is_whole_again_afterwards_even_after_an_error(batch: PactBatch) -> None:
    model = tiny_base()
    candidate_logits(model, batch)
    assert "forward" not in vars(model.lm_head)
    model.model.register_forward_hook(_fail)
    with pytest.raises(RuntimeError, match="broken"):
        candidate_logits(model, batch)
    assert "forward" not in vars(model.lm_head)


def test_gradient_checkpointing_changes_nothing(batch: PactBatch) -> None:
    model = with_lora(tiny_base()).train()
    plain = candidate_logits(model, batch)
    model.base_model.model.activation_checkpointing_enable()
    checkpointed = candidate_logits(model, batch)
    torch.testing.assert_close(plain, checkpointed, atol=LOGIT, rtol=0)
    checkpointed.sum().backward()  # type: ignore[no-untyped-call]
    assert any(weight.grad is not None for weight in model.parameters())


@torch.no_grad()
def test_logits_are_of_float32_or_more_whatever_the_precision_of_the_model(
    views: list[TrainingView],
) -> None:
    batch = PactCollator(0)(views[:5])
    single = candidate_logits(tiny_base(), batch)
    exact = candidate_logits(tiny_base(torch.float64), batch)
    assert exact.dtype == torch.float64
    torch.testing.assert_close(single.double(), exact, atol=LOGIT, rtol=0)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = candidate_logits(tiny_base(), batch)
    for logits in (rounded, candidate_logits(tiny_base(torch.bfloat16), batch)):
        assert logits.dtype == torch.float32
        assert not torch.equal(logits, single)
        torch.testing.assert_close(logits, single, atol=BFLOAT16_LOGIT, rtol=0)


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    where = f"file://{tmp_path}/store"
    dist.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.usefixtures("process_group")
def test_a_distributed_model_is_called_as_a_whole(batch: PactBatch) -> None:
    model = with_lora(tiny_base())
    expected = candidate_logits(model, batch).detach()
    distributed = nn.parallel.DistributedDataParallel(model)
    calls: list[int] = []
    distributed.register_forward_hook(lambda *_: calls.append(1))
    logits = candidate_logits(distributed, batch)
    torch.testing.assert_close(logits, expected, atol=LOGIT, rtol=0)
    logits.sum().backward()  # type: ignore[no-untyped-call]
    assert calls == [1]


class Wrapped(nn.Module):
    """Some wrapper that we know nothing of."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, **inputs: Any) -> Any:
        return self.module(**inputs)


@torch.no_grad()
def test_a_wrapper_that_we_do_not_know_gets_the_whole_head(batch: PactBatch) -> None:
    base = tiny_base()
    expected = candidate_logits(base, batch)
    shapes: list[tuple[int, ...]] = []
    base.lm_head.register_forward_hook(lambda _head, _inputs, out: shapes.append(tuple(out.shape)))
    logits = candidate_logits(Wrapped(base), batch)
    torch.testing.assert_close(logits, expected, atol=LOGIT, rtol=0)
    assert shapes == [(len(batch), 1, base.config.vocab_size)]


def test_bad_batches_are_refused(views: list[TrainingView], batch: PactBatch) -> None:
    model = tiny_base()
    with pytest.raises(BatchError, match="expected input_ids, attention_mask and code_tokens"):
        candidate_logits(model, PactBatch.of([[0, 1]], [0]))
    assert batch.attention_mask is not None
    right = replace(batch, attention_mask=batch.attention_mask.flip(-1))
    row = next(k for k in range(len(batch)) if not bool(batch.attention_mask[k, 0]))
    message = rf"record {views[row].record_id} \(row {row}\): expected padding on the left"
    with pytest.raises(BatchError, match=message):
        candidate_logits(model, right)


@torch.no_grad()
def _one_by_one(model: Any, views: list[TrainingView], width: int) -> Tensor:
    rows = torch.zeros(len(views), width)
    for row, view in enumerate(views):
        full = model(input_ids=torch.tensor([view.token_ids])).logits[0, -1]
        rows[row, : view.n_choices] = full[list(view.code_tokens)]
    return rows


def _positions(batch: PactBatch) -> Tensor:
    assert batch.attention_mask is not None
    return (batch.attention_mask.cumsum(-1) - 1).clamp(min=0)


def _fail(*_: object) -> None:
    message = "broken"
    raise RuntimeError(message)
