from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model

from pact_eval.contract import NIMBLE, canonical_code_order
from pact_eval.encoding import EncodedView, Encoder, prompt_text
from pact_eval.errors import AdapterError
from pact_eval.model_files import read_adapter_files
from pact_eval.records import Record, read_records
from pact_eval.scoring.engine import Engine, EngineName, largest_difference, one_by_one
from pact_eval.scoring.heads import PlainHead
from pact_eval.scoring.scored import ScoredView
from pact_eval.scoring.subject import SubjectRequest, identify
from pact_eval.views import code_orders
from scoring.conftest import HOLDOUT, Make


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_records(HOLDOUT)[::40]


@pytest.fixture(scope="module")
def views(tokenizer: Any, records: list[Record]) -> list[EncodedView]:
    return Encoder(tokenizer, NIMBLE).encode(records, k=3, seed=1)


@pytest.mark.parametrize("base", ["qwen3", "qwen3_5_shell"])
@pytest.mark.parametrize("batch_tokens", [1, 1000, 100_000])
@pytest.mark.parametrize("engine", ["fork", "batched"])
def test_logits_against_one_plain_forward_pass_a_prompt(
    base: str,
    batch_tokens: int,
    engine: EngineName,
    views: list[EncodedView],
    request: pytest.FixtureRequest,
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(request.getfixturevalue(base)).eval()
    plain = [_plain(model, view) for view in views]
    chosen = Engine(model, batch_tokens, engine)
    for ours, theirs in zip(chosen.score(views), plain, strict=True):
        assert ours.logits.dtype == np.float32
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-4, rtol=0)
        assert ours.code_mass == pytest.approx(theirs.code_mass, abs=1e-5)
    spread = np.ptp(np.concatenate([view.logits for view in plain]))
    assert spread > 0.1  # the comparison would be empty on constant logits
    assert chosen.facts["name"] == engine


def _plain(model: Any, view: EncodedView) -> ScoredView:
    """All logits of one prompt, and what is needed of them picked by hand: no code of ours."""
    with torch.inference_mode():
        last = model(input_ids=torch.tensor([view.token_ids])).logits[0, -1].double()
    logits = np.empty(len(view.code_order), np.float32)
    for position, answer in enumerate(view.code_order):
        logits[answer] = float(last[view.code_tokens[position]])
    return ScoredView(logits, float(last.softmax(-1)[list(view.code_tokens)].sum()))


def test_permuted_views_against_letters_read_by_hand(
    qwen3: Path, tokenizer: Any, records: list[Record]
) -> None:
    """The letter beside an answer, read from the prompt's own JSON, gives the answer's logit."""
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    encoder = Encoder(tokenizer, NIMBLE)
    record = next(one for one in records if one.n_choices >= 4)
    views = encoder.encode([record], k=4, seed=1)
    assert [view.code_order for view in views] == code_orders(1, record.id, record.n_choices, 4)
    assert views[1].code_order != encoder.encode([record], k=2, seed=2)[1].code_order
    scored = Engine(model, 4000).score(views)
    for view, result in zip(views, scored, strict=True):
        prompt = tokenizer.decode(list(view.token_ids))
        payload = prompt[prompt.index('{"context"') : prompt.index("\n\nRequested field")]
        choices = json.loads(payload)["schema"][0]["choices"]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([view.token_ids])).logits[0, -1]
        for index, answer in enumerate(record.field.answers):
            letter = next(c["code"] for c in choices if str(c["value"]).lower() == answer.key)
            expected = float(logits[tokenizer.convert_tokens_to_ids(letter)])
            assert result.logits[index] == pytest.approx(expected, abs=1e-4)


def test_a_logit_that_is_no_number_is_told_with_its_record(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    with torch.no_grad():
        model.lm_head.weight[:] = float("nan")
    with pytest.raises(AdapterError, match=f"record {views[0].record_id}, view .: the model gives"):
        Engine(model, 100_000).score(views[:3])


def test_the_shell_itself_against_one_plain_forward_pass_a_prompt(
    qwen3_5_shell: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3_5_shell, shell=True)
    assert any(".language_model." in t.name for t in read_adapter_files(adapter).tensors)
    loaded = identify(SubjectRequest(adapter, str(qwen3_5_shell))).load()
    inner = loaded.model.get_base_model()
    assert type(inner).__name__ == "Qwen3_5ForConditionalGeneration"
    plain = one_by_one(loaded.model, views)
    for ours, theirs in zip(loaded.engine.score(views), plain, strict=True):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-4, rtol=0)


def test_an_adapter_of_the_language_model_loads_on_a_shell_checkpoint(
    qwen3_5_shell: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3_5_shell)
    loaded = identify(SubjectRequest(adapter, str(qwen3_5_shell))).load()
    assert type(loaded.model.get_base_model()).__name__ == "Qwen3_5ForCausalLM"
    assert loaded.engine.prove_adapter(views[:3]) > 0


def test_an_adapter_against_its_delta_added_to_the_weights_by_hand(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3)
    loaded = identify(SubjectRequest(adapter, str(qwen3))).load()
    tensors = {
        name.removeprefix("base_model.model."): tensor for name, tensor in _load(adapter).items()
    }
    merged = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    with torch.no_grad():
        for name, a in tensors.items():
            if name.endswith("lora_A.weight"):
                b = tensors[name.replace("lora_A", "lora_B")]
                module = merged.get_submodule(name.removesuffix(".lora_A.weight"))
                module.weight += (8 / 4) * b @ a  # alpha / rank
    for ours, theirs in zip(loaded.engine.score(views), one_by_one(merged, views), strict=True):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=1e-4, rtol=0)


def _load(adapter: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(adapter / "adapter_model.safetensors")


def test_an_adapter_that_changes_nothing_is_fatal(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    loaded = identify(SubjectRequest(make_adapter(qwen3, zero=True), str(qwen3))).load()
    with pytest.raises(AdapterError, match="changes nothing: on 3 views every logit is identical"):
        loaded.engine.prove_adapter(views[:3])


@pytest.mark.parametrize("engine", ["batched", "naive"])
def test_only_the_last_position_is_asked_for(
    qwen3: Path, views: list[EncodedView], engine: EngineName
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    shapes: list[tuple[int, ...]] = []
    model.lm_head.register_forward_hook(lambda _m, _i, out: shapes.append(tuple(out.shape)))
    Engine(model, 2000, engine).score(views)
    assert shapes
    assert all(shape[1] == 1 for shape in shapes)


def test_code_mass_is_the_share_of_the_codes_in_the_whole_distribution(
    qwen3: Path, tokenizer: Any, records: list[Record], views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    record = records[0]
    text = prompt_text(
        tokenizer,
        NIMBLE,
        record.state,
        [record.field],
        "decision",
        canonical_code_order(record.field),
    )
    with torch.inference_mode():
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
        p = model(input_ids=ids).logits[0, -1].double().softmax(-1)
    letters = tokenizer.convert_tokens_to_ids(list("ABCDEFGHIJ")[: record.n_choices])
    scored = Engine(model, 2000).score(views[:1])[0]
    assert scored.code_mass == pytest.approx(float(p[letters].sum()), rel=1e-4)
    assert np.argsort(scored.logits).tolist() == p[letters].argsort().tolist()


def test_an_engine_that_disagrees_with_the_oracle_is_passed_over(
    qwen3: Path, views: list[EncodedView], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a change in transformers that makes forked caches silently wrong."""
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    whole = PlainHead.read

    def off(self: Any, views: Any, hidden: Any) -> Any:
        return whole(self, views, hidden * 1.5)

    monkeypatch.setattr(PlainHead, "read", off)
    engine = Engine(model, 2000)
    plain = one_by_one(model, views)
    assert largest_difference(engine.score(views), plain) < 1e-4
    assert engine.facts["name"] == "batched"
    assert engine.facts["passed_over"][0].startswith("fork: its logits differ")  # type: ignore[index, union-attr]
    with pytest.raises(AdapterError, match="no engine works with this model; fork: its logits"):
        Engine(model, 2000, "fork").score(views)


def test_the_check_is_recorded_and_counts_only_what_is_scored(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    engine = Engine(model, 2000)
    assert engine.facts == {}
    engine.prepare(views)
    engine.forget_counts()
    engine.score(views)
    check, tokens = engine.facts["check"], engine.facts["tokens"]
    assert isinstance(check, dict)
    assert isinstance(tokens, dict)
    assert check["views"] == 6
    assert 0 < float(check["largest_logit_difference"]) < 1e-4  # type: ignore[arg-type]
    assert tokens["prompts"] == sum(len(view.token_ids) for view in views)


def test_merging_against_the_delta_added_by_hand_and_its_drift(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3)
    loaded = identify(SubjectRequest(adapter, str(qwen3), merge=True)).load()
    apart = loaded.engine.score(views)
    drift = loaded.engine.merge_adapter(views)
    merged = loaded.engine.score(views)
    assert not any("lora" in name for name, _ in loaded.engine.model.named_modules())
    assert drift["views"] == len(views)
    assert drift["largest_logit_difference"] == largest_difference(apart, merged)
    assert 0 < largest_difference(apart, merged) < 1e-4
    assert drift["flips"] == 0
    base = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    assert largest_difference(merged, one_by_one(base, views)) > 1e-2


def test_an_adapter_on_the_output_head_is_scored_on_whole_prompts(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    config = LoraConfig(r=4, target_modules=["lm_head", "q_proj"], init_lora_weights=False)
    wrapped = get_peft_model(model, config).eval()
    engine = Engine(wrapped, 2000)
    plain = [_plain(wrapped, view) for view in views]
    assert largest_difference(engine.score(views), plain) < 1e-4
    assert engine.facts["passed_over"] == ["fork: the output head is not a plain linear layer"]


def test_a_model_whose_code_fails_behind_a_cache_is_left_to_whole_prompts(tokenizer: Any) -> None:
    """XGLM sizes its mask without regard to what is cached, and raised through `auto`."""
    config = transformers.XGLMConfig(
        vocab_size=len(tokenizer), d_model=32, ffn_dim=48, num_layers=2, attention_heads=2
    )
    torch.manual_seed(2)
    model = transformers.XGLMForCausalLM(config).eval()
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:4], 2, 5)
    engine = Engine(model, 4096)
    assert largest_difference(engine.score(views), one_by_one(model, views)) < 1e-4
    assert engine.facts["name"] == "batched"
    assert "fork: ValueError: Attention mask should be of size" in str(engine.facts["passed_over"])
    with pytest.raises(AdapterError, match="no engine works with this model; fork: ValueError"):
        Engine(model, 4096, "fork").score(views)


def test_memory_that_runs_out_in_the_first_prompt_is_an_error(
    qwen3: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32)
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:1], 1, 5)

    def full(*_args: Any, **_kwargs: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(type(model), "forward", full)
    with pytest.raises(AdapterError, match="out of memory with one prompt at a time"):
        Engine(model, 4096).score(views)
