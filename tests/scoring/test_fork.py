"""The forking executor against one plain forward pass a prompt, on attention and hybrid models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from messages import assert_says
from tolerances import LOGIT, NLL

from pact_eval.data.records import read_records
from pact_eval.prompts.contract import code_orders
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.engine import ScoredView
from pact_eval.scoring.fork_engine import ForkEngine, can_fork, fork_engine, forked, new_cache
from pact_eval.scoring.scorer import Scorer, largest_difference, one_by_one
from scoring.conftest import HOLDOUT, SMALL, random_model

CPU = torch.device("cpu")
MODELS = ("qwen3", "qwen3_5_shell", "sliding")


@pytest.fixture(scope="module")
def sliding(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers that see the last 24 tokens only, among layers that see all."""
    model = random_model(
        "Qwen3", seed=3, vocab_size=len(tokenizer), num_hidden_layers=3, use_sliding_window=True,
        sliding_window=24, max_window_layers=1, tie_word_embeddings=False, **SMALL,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("sliding")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {
        name: transformers.AutoModelForCausalLM.from_pretrained(
            request.getfixturevalue(name), dtype=torch.float32
        ).eval()
        for name in MODELS
    }


def _views(ids: list[list[int]]) -> list[EncodedView]:
    codes = tuple(range(5, 5 + 3))
    return [EncodedView(f"r{n}", 0, tuple(row), codes, (0, 1, 2)) for n, row in enumerate(ids)]


def _forked(
    model: Any, views: list[EncodedView], *, shares: bool = True, batch_tokens: int = 4096
) -> tuple[list[ScoredView], ForkEngine]:
    executor = fork_engine(model, CPU, batch_tokens)
    assert isinstance(executor, ForkEngine)
    executor.passes.shares_prefix &= shares
    scored: dict[int, ScoredView] = {}

    def keep(numbers: Any, results: Any) -> None:
        assert not set(numbers) & set(scored)
        scored.update(zip(numbers, results, strict=True))

    executor.score(views, keep)
    return [scored[number] for number in range(len(views))], executor


def _agree(ours: list[ScoredView], theirs: list[ScoredView]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.logits, other.logits, atol=LOGIT, rtol=0)
        assert mine.logits.argmax() == other.logits.argmax()
        assert mine.answer_mass == pytest.approx(other.answer_mass, rel=NLL)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("k", [1, 4])
def test_real_prompts_of_mixed_sizes_against_one_plain_pass_a_prompt(
    models: dict[str, Any], tokenizer: Any, name: str, k: int
) -> None:
    records = read_records(HOLDOUT)
    picked = [*records[:4], *records[100:103], records[-1]]
    assert len({record.n_choices for record in picked}) > 1
    views = Encoder(tokenizer, NIMBLE).encode(picked, k, 5)
    plain = one_by_one(models[name], views)
    for shares, batch_tokens in ((True, 4096), (True, 300), (False, 4096), (False, 300)):
        ours, executor = _forked(models[name], views, shares=shares, batch_tokens=batch_tokens)
        _agree(ours, plain)
        assert executor.count.passed <= 1.06 * executor.count.floor
    spread = np.ptp(np.concatenate([view.logits for view in plain]))
    assert spread > 0.1  # the comparison would be empty on constant logits


RNG = np.random.default_rng(11)
TRUNK = RNG.integers(10, 900, 70).tolist()


def _tail(n: int) -> list[int]:
    return [int(token) for token in RNG.integers(10, 900, n)]


SHAPES = {
    "one-token suffixes": [[*TRUNK, 11], [*TRUNK, 12], [*TRUNK, 13]],
    "one-token and long suffixes": [[*TRUNK, 11], TRUNK + _tail(40), TRUNK + _tail(39)],
    "identical views": [TRUNK, TRUNK, [*TRUNK, 9]],
    "one prompt": [TRUNK],
    "one token": [[7]],
    "prompts that share nothing": [_tail(30), _tail(31), _tail(5)],
    "a prompt that begins another": [TRUNK, TRUNK + _tail(3), TRUNK + _tail(30), TRUNK[:60]],
    "branches of other lengths": [
        TRUNK + branch + _tail(n) for branch in (_tail(20), _tail(33), _tail(34)) for n in (6, 7, 1)
    ],
    "branches on branches": [
        TRUNK + first + second + _tail(9)
        for first in (_tail(15), _tail(18))
        for second in (_tail(25), _tail(11))
        for _ in range(2)
    ],
    "longer than a chunk of the linear layers": [
        TRUNK + _tail(70) + _tail(n) for n in (64, 65, 130)
    ],
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_prompts_of_every_shape_against_one_plain_pass_a_prompt(
    models: dict[str, Any], name: str, shape: str
) -> None:
    views = _views(SHAPES[shape])
    plain = one_by_one(models[name], views)
    for shares, batch_tokens in ((True, 4096), (True, 1), (False, 4096), (False, 1)):
        ours, _ = _forked(models[name], views, shares=shares, batch_tokens=batch_tokens)
        _agree(ours, plain)


def _tokens_a_pass(model: Any, views: list[EncodedView], **options: Any) -> list[int]:
    seen: list[int] = []
    hook = model.get_decoder().embed_tokens.register_forward_hook(
        lambda _module, inputs, _output: seen.append(inputs[0].numel())
    )
    try:
        scored, executor = _forked(model, views, **options)
    finally:
        hook.remove()
    assert executor.count.passed == sum(seen)
    _agree(scored, one_by_one(model, views))
    return seen


def test_branches_and_leaves_of_several_prefixes_share_a_pass(models: dict[str, Any]) -> None:
    shared = _tail(60)
    views = _views(
        [shared + branch + _tail(5) for branch in (_tail(39), _tail(40)) for _ in range(2)]
    )
    assert _tokens_a_pass(models["qwen3"], views) == [60, 39 + 40, 4 * 5]
    # As rows one of them is padded; within 60 tokens they run one after the other.
    assert _tokens_a_pass(models["qwen3"], views, shares=False) == [60, 2 * 40, 4 * 5]
    for shares in (True, False):
        narrow = _tokens_a_pass(models["qwen3"], views, shares=shares, batch_tokens=60)
        assert sorted(narrow) == [10, 10, 39, 40, 60]
    # A recurrent state would take padding in.
    assert sorted(_tokens_a_pass(models["qwen3_5_shell"], views)) == [10, 10, 39, 40, 60]


def test_leaves_of_mixed_lengths_share_a_pass(models: dict[str, Any]) -> None:
    branches = [TRUNK[:40] + _tail(n) for n in (11, 30, 19)]
    views = _views([branch + _tail(n) for branch in branches for n in (1, 14, 3)])
    assert _tokens_a_pass(models["qwen3"], views) == [40, 11 + 30 + 19, 3 * (1 + 14 + 3)]


@pytest.mark.parametrize("name", MODELS)
def test_a_forked_cache_leaves_the_first_one_as_it_was(models: dict[str, Any], name: str) -> None:
    """Linear layers overwrite their states in place: shared, the second row would begin wrong."""
    decoder = models[name].get_decoder()
    cache = new_cache(decoder)
    with torch.inference_mode():
        decoder(input_ids=torch.tensor([TRUNK]), past_key_values=cache, use_cache=True)
        ends = []
        for _ in range(2):
            twin = forked(cache, torch.tensor([0, 0]), final=False)
            ids = torch.tensor([[5, 6, 7], [8, 9, 3]])
            states = decoder(input_ids=ids, past_key_values=twin, use_cache=True)
            ends.append(states.last_hidden_state)
        plain = decoder(input_ids=torch.tensor([[*TRUNK, 8, 9, 3]])).last_hidden_state
    assert torch.equal(ends[0], ends[1])
    assert float((ends[0][1, -1] - plain[0, -1]).abs().max()) < LOGIT


def test_keys_of_a_prefix_are_shared_and_not_copied(models: dict[str, Any]) -> None:
    decoder = models["qwen3"].get_decoder()
    cache = new_cache(decoder)
    with torch.inference_mode():
        decoder(input_ids=torch.tensor([TRUNK]), past_key_values=cache, use_cache=True)
    twin = forked(cache, torch.zeros(5, dtype=torch.long), final=True)
    old: Any = cache.layers[0]
    new: Any = twin.layers[0]
    keys = new.keys
    assert keys.shape[0] == 5
    assert keys.data_ptr() == old.keys.data_ptr()
    with torch.inference_mode():
        ids = torch.full((5, 2), 4)
        decoder(input_ids=ids, past_key_values=twin, use_cache=True)
    assert new.keys is keys  # the last pass keeps nothing


def test_a_cache_layer_that_is_not_known_is_not_forked(models: dict[str, Any]) -> None:
    from transformers.cache_utils import DynamicLayer

    class Later(DynamicLayer):
        """A layer of some later version, with state of its own."""

    cache = new_cache(models["qwen3"].get_decoder())
    assert can_fork(cache)
    cache.layers[1] = Later()
    assert not can_fork(cache)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_records_a_window_changes_no_logit_beyond_rounding(
    models: dict[str, Any], tokenizer: Any, name: str
) -> None:
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:8], 2, 5)
    together, _ = _forked(models[name], views)
    for size in (1, 5):
        parts = [views[start : start + size] for start in range(0, len(views), size)]
        apart = [one for part in parts for one in _forked(models[name], part)[0]]
        assert largest_difference(together, apart) < LOGIT


@pytest.mark.slow
def test_tokens_through_the_model_are_within_two_percent_of_the_floor(
    models: dict[str, Any], tokenizer: Any
) -> None:
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:64], 4, 17)
    _, executor = _forked(models["qwen3"], views)
    assert executor.count.prompts == sum(len(view.token_ids) for view in views)
    assert executor.count.floor <= executor.count.passed <= 1.02 * executor.count.floor
    assert executor.count.prompts > 1.3 * executor.count.floor


def test_no_logits_but_those_of_answer_positions_are_made(
    models: dict[str, Any], tokenizer: Any
) -> None:
    model = models["qwen3"]
    views = Encoder(tokenizer, NIMBLE).encode(read_records(HOLDOUT)[:4], 4, 17)
    shapes: list[tuple[int, ...]] = []
    linear = torch.nn.functional.linear

    def watched(inputs: Any, weight: Any, bias: Any = None) -> Any:
        output = linear(inputs, weight, bias)
        if weight.shape[0] == model.config.vocab_size:
            shapes.append(tuple(output.shape))
        return output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "linear", watched)
        _forked(model, views)
    assert shapes
    assert sum(shape[0] for shape in shapes) == len(views)
    assert all(len(shape) == 2 for shape in shapes)


def test_a_head_that_is_more_than_a_linear_map_is_left_to_whole_prompts(
    tokenizer: Any,
) -> None:
    """Gemma 2 caps its logits behind the head, which the head's weights do not show."""
    model = random_model(
        "Gemma2", 0.3, seed=0, vocab_size=len(tokenizer), num_hidden_layers=2, sliding_window=24,
        final_logit_softcapping=2.0, attn_logit_softcapping=50.0, **SMALL,
    )  # fmt: skip
    views = _views([TRUNK + _tail(3), TRUNK + _tail(4)])
    scorer = Scorer(model, 4096)
    scored = scorer.score(views)
    assert scorer.facts["name"] == "batched"
    passed_over = scorer.facts["passed_over"]
    assert isinstance(passed_over, list)
    (reason,) = passed_over
    assert_says(reason, "fork:", "output head", "logits")
    _agree(scored, one_by_one(model, views))


MIXED = ["sliding_attention", "sliding_attention", "full_attention"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Mistral", {"sliding_window": 24}),
        ("Ministral", {"sliding_window": 24, "layer_types": MIXED}),
        ("Phi3", {"sliding_window": 24, "pad_token_id": 0}),
        ("GptOss", {"sliding_window": 24, "num_local_experts": 4, "num_experts_per_tok": 2}),
        ("Cohere2", {"sliding_window": 24}),
        ("Gemma", {"tie_word_embeddings": True}),
        ("Llama", {"tie_word_embeddings": True}),
    ],
)
def test_windows_shorter_than_a_prompt_and_tied_embeddings(
    tokenizer: Any, kind: str, config: dict[str, Any]
) -> None:
    """Random prompts, with branches inside the window, at its edge and far behind it."""
    shape = {"vocab_size": len(tokenizer), "num_hidden_layers": 3, **SMALL, **config}
    model = random_model(kind, **shape)
    draw = np.random.default_rng(0)
    trunk = draw.integers(5, 2000, 60).tolist()
    cuts, tails = (60, 37, 36, 35, 12, 3), (1, 23, 24, 25, 40)
    rows = [trunk[:cut] + draw.integers(5, 2000, tail).tolist() for cut in cuts for tail in tails]
    views = _views(rows)
    _agree(Scorer(model, 4096).score(views), one_by_one(model, views))


def test_code_orders_of_equal_prompts_stay_their_own(models: dict[str, Any]) -> None:
    """With two answers and K = 4 there are two prompts, and each is read for two views."""
    orders = code_orders(0, "x", 2, 4)
    views = [
        EncodedView("x", number, (*TRUNK, 50 + order[0]), (5, 6), order)
        for number, order in enumerate(orders)
    ]
    scored, executor = _forked(models["qwen3"], views)
    assert executor.count.passed == len(TRUNK) + 2
    _agree(scored, one_by_one(models["qwen3"], views))
    np.testing.assert_allclose(scored[0].logits, scored[2].logits, atol=LOGIT)
    mixed = [EncodedView("y", 0, tuple(TRUNK), (5, 6), order) for order in ((0, 1), (1, 0))]
    first, second = _forked(models["qwen3"], mixed)[0]
    np.testing.assert_allclose(first.logits, second.logits[::-1], atol=LOGIT)
