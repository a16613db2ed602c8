"""The bound in bytes, against the tokens of tokenizers: no prompt that fits is refused."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from adapters import MODEL
from builders import question, record
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer

from pact_eval.data.records import parse_field, parse_record
from pact_eval.errors import PromptError
from pact_eval.prompts.encoding import Encoder, PromptBytes
from pact_eval.prompts.nimble import NIMBLE

TINY = AutoTokenizer.from_pretrained(MODEL)
WITH_NFC = AutoTokenizer.from_pretrained(MODEL)
WITH_NFC.backend_tokenizer.normalizer = normalizers.NFC()
# Signs that are longer than what NFC makes of them, or that NFC joins.
SHRINKING = [*"\u212a\u2126\u1fef\u037e\u0301\u0308\u0345\u1100\u1161\u11a8", "<|im_end|>", " " * 9]


def tokens(tokenizer: Any, text: str) -> int:
    return len(tokenizer([text], add_special_tokens=False)["input_ids"][0])


@pytest.mark.parametrize("tokenizer", [TINY, WITH_NFC])
@settings(max_examples=30)
@given(parts=st.lists(st.sampled_from(SHRINKING) | st.text(max_size=8), max_size=12))
def test_what_is_refused_has_too_many_tokens(tokenizer: Any, parts: list[str]) -> None:
    text = "".join(parts) * 40
    for limit in (1, 2, 5):
        bound = PromptBytes(tokenizer, limit)
        assert bound.most is not None
        if bound.excess(text) is not None:
            assert tokens(tokenizer, text) > limit


def test_the_longest_text_of_so_many_tokens_fits() -> None:
    limit = 50
    longest = max(TINY.get_added_vocab(), key=len)
    assert len(longest) == max(map(len, TINY.get_vocab()))
    text = longest * limit
    assert tokens(TINY, text) == limit
    assert PromptBytes(TINY, limit).excess(text) is None
    assert PromptBytes(TINY, limit).excess(text * 4) == len(text) * 4


def test_bytes_are_counted_after_normalisation_against_theory() -> None:
    """The Kelvin sign has three bytes, and the K that NFC makes of it has one."""
    most = PromptBytes(WITH_NFC, 1).most
    assert most is not None
    text = "\u212a" * most
    assert len(text.encode()) == 3 * most
    assert PromptBytes(WITH_NFC, 1).excess(text) is None
    assert unicodedata.normalize("NFC", text) == "K" * most


def without_bound(change: str) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    backend = tokenizer.backend_tokenizer
    if change == "blanks belong to an added token":
        backend.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    elif change == "a normaliser drops text":
        backend.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Strip()])
    elif change == "a pre-tokeniser drops text":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), byte_level]
        )
    else:
        return object()
    return tokenizer


@pytest.mark.parametrize(
    "change",
    [
        "blanks belong to an added token",
        "a normaliser drops text",
        "a pre-tokeniser drops text",
        "not a fast tokenizer",
    ],
)
def test_tokenizers_that_may_drop_text_have_no_bound(change: str) -> None:
    bound = PromptBytes(without_bound(change), 1)
    assert bound.most is None
    assert bound.excess(" " * 1_000_000) is None


def test_a_context_of_ten_megabytes_is_refused_before_it_is_tokenised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = Encoder(TINY, NIMBLE)
    seen: list[int] = []
    bound: Any = encoder._bound
    tokenise = bound._tokenise

    def watched(texts: list[str]) -> list[list[int]]:
        seen.extend(map(len, texts))
        token_ids: list[list[int]] = tokenise(texts)
        return token_ids

    monkeypatch.setattr(bound, "_tokenise", watched)
    short = parse_record(record("short"), line=1)
    long = parse_record(record("long", state="The gate is open. " * 560_000), line=2)
    for refused in (encoder.check_lengths, encoder.encode):
        with pytest.raises(PromptError, match=r"line 2 \(id long\): 10,08\d,\d{3} bytes"):
            refused([short, long], 2, 0)
    with pytest.raises(PromptError, match=r"the prompt has 10,08\d,\d{3} bytes"):
        encoder.encode_request(long.state, [parse_field("a", question("noul"))], k=2, seed=0)
    assert max(seen) < 10_000


class _WithSpec:
    """A tokenizer of which only its `tokenizer.json` is read."""

    def __init__(self, vocabulary: list[str], pre_tokenizer: Any) -> None:
        tokenizer = Tokenizer(models.BPE({sign: at for at, sign in enumerate(vocabulary)}, []))
        tokenizer.pre_tokenizer = pre_tokenizer
        self.backend_tokenizer = tokenizer


def test_a_vocabulary_without_one_of_the_256_byte_signs_has_no_bound() -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert len(alphabet) == 256
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    assert PromptBytes(_WithSpec(alphabet, byte_level), 1).most is not None
    for sign in alphabet:
        others = [other for other in alphabet if other != sign]
        assert PromptBytes(_WithSpec(others, byte_level), 1).most is None


def test_text_that_is_not_split_into_bytes_has_no_bound() -> None:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert PromptBytes(_WithSpec(alphabet, pre_tokenizers.Whitespace()), 1).most is None
    assert PromptBytes(_WithSpec(alphabet, pre_tokenizers.Punctuation()), 1).most is None
    removed = pre_tokenizers.Split(" ", behavior="removed")
    bytes_then = pre_tokenizers.ByteLevel(add_prefix_space=False)
    both = pre_tokenizers.Sequence([removed, bytes_then])
    assert PromptBytes(_WithSpec(alphabet, both), 1).most is None


SIGNS = {sign: at for at, sign in enumerate(pre_tokenizers.ByteLevel.alphabet())}


@pytest.mark.parametrize(
    "model",
    [
        models.BPE(SIGNS, [], end_of_word_suffix="</w>"),
        models.BPE(SIGNS, [], continuing_subword_prefix="##"),
        models.WordLevel(SIGNS, unk_token="!"),
    ],
)
def test_models_with_tokens_for_more_than_their_bytes_have_no_bound(model: models.Model) -> None:
    """A suffix belongs to a token's spelling alone; an unknown word of any length is one token."""
    tokenizer = _WithSpec([*SIGNS], pre_tokenizers.ByteLevel(add_prefix_space=False))
    assert PromptBytes(tokenizer, 1).most is not None
    tokenizer.backend_tokenizer.model = model
    assert PromptBytes(tokenizer, 1).most is None
