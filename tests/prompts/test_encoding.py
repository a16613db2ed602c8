from __future__ import annotations

from typing import Any

import pytest
from adapters import MODEL
from builders import question, record
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import assert_says
from test_strict_json import json_values
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from pact_eval._json import Json
from pact_eval.data.records import LETTERS, parse_field, parse_record, read_records
from pact_eval.errors import PromptError, RequestError
from pact_eval.prompts.encoding import Encoder, other_letters
from pact_eval.prompts.nimble import NIMBLE, ChatPrompts, prompt_text

HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
PLAIN_TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]\n{% endif %}"
)


def character_tokenizer(
    template: str | None = PLAIN_TEMPLATE, merges: tuple[tuple[str, str], ...] = (), **changes: Any
) -> PreTrainedTokenizerFast:
    """A tokenizer of single characters, whose merges a test may spoil."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocabulary = {character: index for index, character in enumerate(sorted(alphabet))}
    for a, b in merges:
        vocabulary[a + b] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocabulary, list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **changes)
    fast.chat_template = template
    return fast


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL)


def test_ids_are_those_of_the_whole_prompt(tokenizer: Any) -> None:
    # Tokenising a prefix and a suffix apart changed the ids of 42 prompts in 400.
    records = read_records(HOLDOUT)[:20]
    views = Encoder(tokenizer, NIMBLE).encode(records, k=2, seed=0)
    assert [(v.record_id, v.view) for v in views] == [(r.id, k) for r in records for k in (0, 1)]
    for view, one in zip(views[::2], records, strict=True):
        text = prompt_text(tokenizer, NIMBLE, one.state, [one.field], "decision", view.code_order)
        assert list(view.token_ids) == tokenizer(text, add_special_tokens=False)["input_ids"]
        assert view.code_order == tuple(range(one.n_choices))


def test_code_tokens_are_the_letters(tokenizer: Any) -> None:
    letters = ChatPrompts(tokenizer, NIMBLE).code_tokens
    assert tokenizer.convert_ids_to_tokens(list(letters)) == list(LETTERS)
    encoder = Encoder(tokenizer, NIMBLE)
    view = encoder.encode([parse_record(record(decision=question(n=5)))], k=1, seed=0)[0]
    assert view.code_tokens == letters[:5]


@settings(max_examples=25)
@given(state=json_values)
def test_any_state_is_encoded_and_decodes_to_its_prompt(state: Json) -> None:
    encoder = Encoder(character_tokenizer(), NIMBLE, max_prompt_tokens=100_000)
    one = parse_record(record(state=state))
    view = encoder.encode([one], k=1, seed=0)[0]
    text = prompt_text(encoder.tokenizer, NIMBLE, state, [one.field], "decision", (0, 1, 2))
    assert encoder.tokenizer.decode(list(view.token_ids)) == text  # type: ignore[attr-defined]


def test_the_thinking_switch_is_turned_off_where_there_is_one(tokenizer: Any) -> None:
    field = parse_field("decision", question("noul"))
    with_switch = prompt_text(tokenizer, NIMBLE, "x", [field], "decision", (0, 1))
    assert with_switch.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    without = prompt_text(character_tokenizer(), NIMBLE, "x", [field], "decision", (0, 1))
    assert without.endswith('Requested field: "decision"\n[assistant]\n')


def test_codes_that_merge_with_the_boundary_are_refused() -> None:
    newline = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("\n")[0][0]
    spoilt = character_tokenizer(merges=((newline, "B"),))
    with pytest.raises(PromptError, match="fails: B: not a single token$"):
        Encoder(spoilt, NIMBLE)


def test_codes_that_are_special_tokens_are_refused() -> None:
    with pytest.raises(PromptError, match="C: a special token"):
        Encoder(character_tokenizer(eos_token="C"), NIMBLE)


def test_codes_that_share_a_token_are_refused() -> None:
    vocabulary = {"<unk>": 0, "[assistant]": 1}
    word_level = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    word_level.pre_tokenizer = pre_tokenizers.Split(Regex(r"[A-Z]$|\n"), "isolated")
    shared = PreTrainedTokenizerFast(tokenizer_object=word_level)
    shared.chat_template = PLAIN_TEMPLATE
    with pytest.raises(PromptError, match="B, C, .*: the same token as A"):
        Encoder(shared, NIMBLE)


def test_the_other_form_of_a_letter_has_a_space_in_front_or_none() -> None:
    tokenizer = character_tokenizer(merges=(("Ġ", "A"), ("Ġ", "B")))
    vocabulary = tokenizer.get_vocab()
    bare, spaced = ([vocabulary[sign + letter] for letter in "AB"] for sign in ("", "Ġ"))
    assert spaced == [tokenizer(f" {letter}")["input_ids"][0] for letter in "AB"]
    assert other_letters(tokenizer, bare) == tuple(spaced)
    assert other_letters(tokenizer, spaced) == tuple(bare)
    assert other_letters(tokenizer, [*bare, vocabulary["C"]]) is None


@pytest.mark.parametrize(
    ("template", "remedy"),
    [
        (None, "has no chat template"),
        ("{{ raise_exception('no system role') }}", "no system role; .*--contract generic"),
    ],
)
def test_a_chat_template_that_cannot_render_is_told(template: str | None, remedy: str) -> None:
    with pytest.raises(PromptError, match=remedy) as refusal:
        Encoder(character_tokenizer(template), NIMBLE)
    assert_says(str(refusal.value), "cannot render the contract", "--contract plain")


def test_a_template_that_ends_prompts_in_different_ways_is_refused() -> None:
    template = PLAIN_TEMPLATE + "{{ messages[1]['content'][13] }}"
    encoder = Encoder(character_tokenizer(template), NIMBLE)
    with pytest.raises(PromptError, match="end every prompt"):
        encoder.encode([parse_record(record(state="zzz"))], k=1, seed=0)


@pytest.mark.parametrize(
    "template",
    [
        PLAIN_TEMPLATE.replace("m['content']", "m['content'] | upper"),
        "{{ messages[1]['content'] }}\n[assistant]\n",
    ],
)
def test_a_template_that_alters_or_drops_the_system_message_is_refused(template: str) -> None:
    with pytest.raises(PromptError, match="alters the system message"):
        Encoder(character_tokenizer(template), NIMBLE)


@pytest.mark.parametrize(("count", "rest"), [(20, None), (21, "1"), (1_221, "1,201")])
def test_of_many_records_with_too_many_answers_twenty_are_listed(
    tokenizer: Any, count: int, rest: str | None
) -> None:
    wide = parse_record(record(decision=question(n=27)), line=1)
    with pytest.raises(PromptError) as refused:
        Encoder(tokenizer, NIMBLE).check_lengths([wide] * count, 2, 0)
    _, *lines = str(refused.value).splitlines()
    assert lines[:20] == ["line 1 (id f1-base): 27 answers"] * 20
    assert lines[20:] == ([] if rest is None else [f"and {rest} more"])


def test_prompts_over_the_limit_are_refused_all_together(tokenizer: Any) -> None:
    encoder = Encoder(tokenizer, NIMBLE)
    long = [
        parse_record(record(f"f{number}-base", state="word " * 2100), line=number + 1)
        for number in range(21)
    ]
    short = parse_record(record("short-base"), line=99)
    with pytest.raises(PromptError) as caught:
        encoder.check_lengths([short, *long], 2, 0)
    lines = str(caught.value).splitlines()
    assert_says(lines[0], "over the limit", "2,048 tokens", "(21 records)")
    assert lines[1].startswith("line 1 (id f0-base): ")
    assert lines[-1] == "and 1 more"
    assert len(lines) == 22
    with pytest.raises(PromptError, match="line 7"):
        encoder.encode([short, long[6]], 1, 0)


def test_the_limit_itself_is_allowed(tokenizer: Any) -> None:
    one = parse_record(record())
    longest = Encoder(tokenizer, NIMBLE).check_lengths([one], 3, 0)
    assert Encoder(tokenizer, NIMBLE).check_lengths([], 2, 0) == 0
    assert Encoder(tokenizer, NIMBLE, longest).check_lengths([one], 3, 0) == longest
    with pytest.raises(PromptError, match=f"over the limit of {longest - 1:,} tokens"):
        Encoder(tokenizer, NIMBLE, longest - 1).check_lengths([one], 3, 0)


@given(st.integers(1, 4))
def test_a_request_has_k_views_a_field(k: int) -> None:
    encoder = Encoder(character_tokenizer(), NIMBLE, 10_000)
    fields = [parse_field("a", question(n=4)), parse_field("b", question("noul"))]
    views = encoder.encode_request("x", fields, k=k, seed=0)
    assert [(v.record_id, v.view) for v in views] == [(n, j) for n in "ab" for j in range(k)]
    assert len(views[-1].code_tokens) == 2


def test_a_request_over_the_limit_or_with_a_name_twice_is_refused(tokenizer: Any) -> None:
    encoder = Encoder(tokenizer, NIMBLE)
    field = parse_field("a", question())
    with pytest.raises(PromptError, match="the limit is 2,048"):
        encoder.encode_request("word " * 3000, [field], k=1, seed=0)
    with pytest.raises(RequestError, match="must be unique"):
        encoder.encode_request("x", [field, field], k=1, seed=0)
