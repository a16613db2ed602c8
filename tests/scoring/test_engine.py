from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from messages import assert_says
from peft import LoraConfig, PeftModel, get_peft_model
from tolerances import LOGIT, NLL, PROBABILITY

from pact_eval.data.records import Record, read_records
from pact_eval.errors import AdapterError
from pact_eval.models import read_adapter_files
from pact_eval.prompts.contract import canonical_code_order, code_orders
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE, prompt_text
from pact_eval.scoring import fork_engine
from pact_eval.scoring.engine import ScoredView
from pact_eval.scoring.fork_engine import PlainHead
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import EngineName, ModelRequest
from pact_eval.scoring.scorer import Scorer, check_views, largest_difference, one_by_one
from scoring.conftest import HOLDOUT, SMALL, Make, random_model


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_records(HOLDOUT)[::80]


@pytest.fixture(scope="module")
def views(tokenizer: Any, records: list[Record]) -> list[EncodedView]:
    return Encoder(tokenizer, NIMBLE).encode(records, k=3, seed=1)


@pytest.mark.parametrize(
    ("base", "engine", "batch_tokens"),
    [
        ("qwen3", "fork", 1000),
        ("qwen3", "batched", 1000),
        *(
            pytest.param(base, engine, tokens, marks=pytest.mark.slow)
            for base in ("qwen3", "qwen3_5_shell")
            for engine in ("fork", "batched")
            for tokens in (1, 1000, 100_000)
            if (base, tokens) != ("qwen3", 1000)
        ),
    ],
)
def test_logits_against_one_plain_forward_pass_a_prompt(
    base: str,
    batch_tokens: int,
    engine: EngineName,
    views: list[EncodedView],
    request: pytest.FixtureRequest,
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(request.getfixturevalue(base)).eval()
    plain = [_plain(model, view) for view in views]
    chosen = Scorer(model, batch_tokens, engine)
    for ours, theirs in zip(chosen.score(views), plain, strict=True):
        assert ours.logits.dtype == np.float32
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=LOGIT, rtol=0)
        assert ours.answer_mass == pytest.approx(theirs.answer_mass, rel=NLL)
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
    scored = Scorer(model, 4000).score(views)
    for view, result in zip(views, scored, strict=True):
        prompt = tokenizer.decode(list(view.token_ids))
        payload = prompt[prompt.index('{"context"') : prompt.index("\n\nRequested field")]
        choices = json.loads(payload)["schema"][0]["choices"]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([view.token_ids])).logits[0, -1]
        for index, answer in enumerate(record.field.answers):
            letter = next(c["code"] for c in choices if str(c["value"]).lower() == answer.key)
            expected = float(logits[tokenizer.convert_tokens_to_ids(letter)])
            assert result.logits[index] == pytest.approx(expected, abs=LOGIT)


def test_a_logit_that_is_no_number_is_told_with_its_record(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3).eval()
    with torch.no_grad():
        model.lm_head.weight[:] = float("nan")
    with pytest.raises(
        AdapterError, match=f"record {views[0].record_id}, view .: expected finite logits"
    ):
        Scorer(model, 100_000).score(views[:3])


def test_the_shell_itself_against_one_plain_forward_pass_a_prompt(
    qwen3_5_shell: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3_5_shell, shell=True)
    assert any(".language_model." in t.name for t in read_adapter_files(adapter).tensors)
    loaded = identify(ModelRequest(adapter, str(qwen3_5_shell))).load()
    inner = loaded.model.get_base_model()
    assert type(inner).__name__ == "Qwen3_5ForConditionalGeneration"
    few = views[:6]
    plain = one_by_one(loaded.model, few)
    for ours, theirs in zip(loaded.scorer.score(few), plain, strict=True):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=LOGIT, rtol=0)


@pytest.mark.slow
def test_an_adapter_of_the_language_model_loads_on_a_shell_checkpoint(
    qwen3_5_shell: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3_5_shell)
    loaded = identify(ModelRequest(adapter, str(qwen3_5_shell))).load()
    assert type(loaded.model.get_base_model()).__name__ == "Qwen3_5ForCausalLM"
    assert loaded.scorer.check_adapter_effect(views[:3]) > 0


def test_an_adapter_against_its_delta_added_to_the_weights_by_hand(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3)
    loaded = identify(ModelRequest(adapter, str(qwen3))).load()
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
    for ours, theirs in zip(loaded.scorer.score(views), one_by_one(merged, views), strict=True):
        np.testing.assert_allclose(ours.logits, theirs.logits, atol=LOGIT, rtol=0)


def _load(adapter: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(adapter / "adapter_model.safetensors")


def test_an_adapter_that_changes_nothing_is_fatal(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    loaded = identify(ModelRequest(make_adapter(qwen3, zero=True), str(qwen3))).load()
    with pytest.raises(AdapterError, match="no effect: on 3 views"):
        loaded.scorer.check_adapter_effect(views[:3])


def test_answer_mass_is_the_share_of_the_codes_in_the_whole_distribution(
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
    scored = Scorer(model, 2000).score(views[:1])[0]
    assert scored.answer_mass == pytest.approx(float(p[letters].sum()), rel=NLL)
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
    scorer = Scorer(model, 2000)
    plain = one_by_one(model, views)
    assert largest_difference(scorer.score(views), plain) < LOGIT
    assert scorer.facts["name"] == "batched"
    assert scorer.facts["passed_over"][0].startswith("fork: its logits differ")  # type: ignore[index, union-attr]
    with pytest.raises(AdapterError, match="no engine .*fork: its logits"):
        Scorer(model, 2000, "fork").score(views)


def test_the_check_is_recorded_and_counts_only_what_is_scored(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    scorer = Scorer(model, 2000)
    assert scorer.facts == {}
    scorer.prepare(views)
    scorer.reset_counts()
    scorer.score(views)
    check, tokens = scorer.facts["check"], scorer.facts["tokens"]
    assert isinstance(check, dict)
    assert isinstance(tokens, dict)
    assert check["views"] == 6 + 8
    assert 0 < float(check["largest_logit_difference"]) < LOGIT  # type: ignore[arg-type]
    assert tokens["prompts"] == sum(len(view.token_ids) for view in views)


def test_merging_against_the_delta_added_by_hand_and_its_drift(
    qwen3: Path, make_adapter: Make, views: list[EncodedView]
) -> None:
    adapter = make_adapter(qwen3)
    loaded = identify(ModelRequest(adapter, str(qwen3), merge=True)).load()
    apart = loaded.scorer.score(views)
    drift = loaded.scorer.merge_adapter(views)
    merged = loaded.scorer.score(views)
    assert not any("lora" in name for name, _ in loaded.scorer.model.named_modules())
    assert drift["views"] == len(views)
    assert drift["largest_logit_difference"] == largest_difference(apart, merged)
    assert 0 < largest_difference(apart, merged) < LOGIT
    assert drift["flips"] == 0
    base = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    assert largest_difference(merged, one_by_one(base, views)) > 1e-2


def test_an_adapter_on_the_output_head_is_scored_on_whole_prompts(
    qwen3: Path, views: list[EncodedView]
) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32).eval()
    config = LoraConfig(r=4, target_modules=["lm_head", "q_proj"], init_lora_weights=False)
    wrapped = get_peft_model(model, config).eval()
    scorer = Scorer(wrapped, 2000)
    plain = [_plain(wrapped, view) for view in views]
    assert largest_difference(scorer.score(views), plain) < LOGIT
    passed_over = scorer.facts["passed_over"]
    assert isinstance(passed_over, list)
    (reason,) = passed_over
    assert_says(reason, "fork:", "output head", "logits")


def test_a_model_that_our_attention_fails_is_forked_with_its_own(tokenizer: Any) -> None:
    """XGLM sizes its mask without regard to what is cached, and raised through `auto`."""
    config = transformers.XGLMConfig(
        vocab_size=len(tokenizer), d_model=32, ffn_dim=48, num_layers=2, attention_heads=2
    )
    torch.manual_seed(2)
    model = transformers.XGLMForCausalLM(config).eval()
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:4], 2, 5)
    scorer = Scorer(model, 4096)
    assert largest_difference(scorer.score(views), one_by_one(model, views)) < LOGIT
    assert (scorer.facts["name"], scorer.facts["shares_prefix"]) == ("fork", False)
    assert_says(scorer.facts["passed_over"], "fork: ValueError", "Attention mask")


@pytest.mark.slow
def test_a_recurrence_that_is_not_gone_on_from_rightly_is_noticed(tokenizer: Any) -> None:
    """Mamba 2 drops its state with several tokens behind it: 3.6 off, and 2e-4 at long leaves."""
    model = random_model(
        "Mamba2", 0.05, vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2,
        state_size=16, num_heads=4, head_dim=16, n_groups=1, chunk_size=32,
    )  # fmt: skip
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:4], 4, 5)
    scorer = Scorer(model, 4096)
    scorer.prepare(views)
    pieces = check_views(views)[6:]
    assert largest_difference(scorer.score(pieces), one_by_one(model, pieces)) < 10 * LOGIT
    assert scorer.facts["name"] != "fork"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_prompts_beyond_the_original_context_run_one_by_one(tokenizer: Any, kind: str) -> None:
    """Frequencies follow the longest prompt of a pass: 2.3 off beside a long one."""
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:12], 2, 5)
    lengths = sorted({len(view.token_ids) for view in views})
    original = lengths[len(lengths) // 2] - 1
    assert lengths[0] < original < lengths[-1]
    assert original not in lengths
    factors = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8} if kind == "longrope" else {}
    model = random_model(
        "Llama", vocab_size=len(tokenizer), num_hidden_layers=2,
        max_position_embeddings=4 * original if kind == "longrope" else original,
        rope_parameters={
            "rope_type": kind, "rope_theta": 10_000.0, "factor": 4.0,
            "original_max_position_embeddings": original, **factors,
        }, **SMALL,
    )  # fmt: skip
    short = [view for view in views if len(view.token_ids) <= original]
    scorer = Scorer(model, 4096)
    scorer.prepare(short)
    assert scorer.facts["name"] == "fork"
    done: list[int] = []
    ours = scorer.score(views, done.append)
    assert done[-1] == len(views)
    fresh = [one_by_one(model, [view])[0] for view in views]
    if kind == "dynamic":  # its frequencies also depend on the prompts before
        numbers = [n for n, view in enumerate(views) if len(view.token_ids) <= original]
        ours, fresh = [ours[n] for n in numbers], [fresh[n] for n in numbers]
    assert largest_difference(ours, fresh) < LOGIT


def test_a_merge_that_changes_more_than_rounding_is_an_error(
    qwen3: Path, tokenizer: Any, make_adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:2], 2, 5)
    base: Any = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.float32)
    model = PeftModel.from_pretrained(base, str(make_adapter(qwen3))).eval()

    def unmerged(_self: Any) -> Any:
        return model.unload()

    monkeypatch.setattr(type(model), "merge_and_unload", unmerged, raising=False)
    with pytest.raises(AdapterError, match="changes a logit by .* without merge"):
        Scorer(model, 4096).merge_adapter(views)


def test_answer_mass_in_16_bits_is_no_more_than_one(qwen3: Path, tokenizer: Any) -> None:
    """The normaliser was rounded to bfloat16 and the codes were not: 1.02 on the shipped model."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(qwen3, dtype=torch.bfloat16)
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:1], 1, 5)
    with torch.no_grad():  # nearly all mass on the codes
        model.lm_head.weight[list(views[0].code_tokens)] *= 40
    scored = Scorer(model.eval(), 4096).score(views)
    assert max(view.answer_mass for view in scored) > 0.9
    assert all(view.answer_mass <= 1 + PROBABILITY for view in scored)


def test_padded_branches_that_shift_positions_are_noticed(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BART counts positions by slot: the six prompts agreed to 6e-7, others were 2.5 off."""
    model = random_model(
        "Bart", vocab_size=len(tokenizer), d_model=32, decoder_layers=2,
        decoder_attention_heads=2, decoder_ffn_dim=48, encoder_layers=1,
        encoder_attention_heads=2, encoder_ffn_dim=48,
    )  # fmt: skip
    monkeypatch.setattr(fork_engine, "can_share", lambda *_args: False)
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:8], 2, 5)
    scorer = Scorer(model, 4096)
    assert largest_difference(scorer.score(views), one_by_one(model, views)) < LOGIT
    assert scorer.facts["name"] != "fork"
