"""The most bytes that a prompt of so many tokens can have: longer ones are not tokenised at all.

Tokenising 10 MB takes gigabytes. With a byte-level BPE, every byte of a text is in one token, and
no token holds more bytes than the longest of the vocabulary. So a text of more than

    tokens x (bytes of the longest token + bytes that normalisation can take away at a token)

bytes has more tokens than that. Other tokenizers may drop or join any amount of text; they have no
such bound, and their prompts are tokenised whatever their length.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

# Every byte has a printable sign in the vocabulary of a byte-level BPE, as GPT-2 introduced it.
_BYTE_SIGNS: Final = frozenset(
    map(chr, [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)])
)
# Added tokens are cut out of a text before it is normalised: at each, a sign may stay decomposed.
_SLACK_BYTES: Final = 16
_LOSSLESS: Final = ("ByteLevel", "Split", "Digits", "Punctuation")


class PromptBytes:
    """Bound on the tokens of a text, by its bytes alone.

    Args:
        tokenizer: a Hugging Face tokenizer, fast or not.
        max_tokens: the largest number of tokens allowed.

    Attributes:
        most: the most bytes, after normalisation; None if the tokenizer has no bound.
    """

    def __init__(self, tokenizer: Any, max_tokens: int) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        spec = {} if backend is None else json.loads(backend.to_str())
        longest = _bytes_of_longest_token(spec)
        self.most = None if longest is None else max_tokens * (longest + _SLACK_BYTES)
        # What a token holds is counted after normalisation, which may shorten the text.
        normalised = _kind(spec.get("normalizer")) == "NFC"
        self._normal: Callable[[str], str] = _nfc if normalised else str

    def excess(self, text: str) -> int | None:
        """Return the bytes of a text that has too many tokens; None if that is not certain."""
        # No character has more than four bytes.
        if self.most is None or 4 * len(text) <= self.most:
            return None
        size = len(self._normal(text).encode("utf-8", errors="replace"))
        return size if size > self.most else None


def _bytes_of_longest_token(spec: Mapping[str, Any]) -> int | None:
    """Return the bytes of the longest token; None if a token may stand for any amount of text."""
    model = spec.get("model") or {}
    vocabulary = model.get("vocab") or {}
    affixes = (model.get("continuing_subword_prefix"), model.get("end_of_word_suffix"))
    added = spec.get("added_tokens") or []
    if (
        model.get("type") != "BPE"
        or any(affixes)
        or not vocabulary.keys() >= _BYTE_SIGNS
        or _kind(spec.get("normalizer")) not in (None, "NFC")
        or not _keeps_every_byte(spec.get("pre_tokenizer"))
        or any(token["lstrip"] or token["rstrip"] for token in added)
    ):
        return None
    sizes = [len(token["content"].encode("utf-8")) for token in added]
    return max([*map(len, vocabulary), *sizes])  # one sign per byte


def _keeps_every_byte(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    parts = [pre_tokenizer or {}]
    if _kind(pre_tokenizer) == "Sequence":
        parts = (pre_tokenizer or {})["pretokenizers"]
    lossless = all(_kind(part) in _LOSSLESS and part.get("behavior") != "Removed" for part in parts)
    return lossless and any(_kind(part) == "ByteLevel" for part in parts)


def _kind(part: Mapping[str, Any] | None) -> str | None:
    return None if part is None else part.get("type")


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)
