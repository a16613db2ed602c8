"""Encode views as token ids and letter tokens: one code path for scoring and for training.

An `Encoder` combines a tokenizer with a prompt contract. It refuses prompts over the limit; nothing
is truncated. An adapter states the prompts that it was trained on by hashes:

    "tokenizer_sha256": the vocabulary and the merges of the tokenizer
    "chat_template_sha256": the text of the chat template
    "prompts_sha256": a probe prompt through contract, chat template and tokenizer

`save_adapter` writes these keys of `schema_config.json`, scoring compares all of them, and the
audit compares the first two with the files of the base, without loading the tokenizer.
"""

from __future__ import annotations

import hashlib
import json
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from pact_eval._files import read_text
from pact_eval._json import Json, describe
from pact_eval.data.records import Field, Record
from pact_eval.errors import PromptError
from pact_eval.models import read_json_object
from pact_eval.progress import tracked
from pact_eval.prompts.contract import ChatTokenizer, PromptContract, PromptRequest

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


_CHECK_WINDOW = 256
_PROBLEMS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class EncodedView:
    """One view of a record, ready for a model.

    Attributes:
        record_id: id of the record.
        view: number of the view; 0 is canonical.
        token_ids: the prompt's token ids.
        code_tokens: token id of each letter shown, in order, C of them.
        code_order: the canonical index shown at each letter.
    """

    record_id: str
    view: int
    token_ids: tuple[int, ...]
    code_tokens: tuple[int, ...]
    code_order: tuple[int, ...]


_SPACE_SIGNS: Final = ("Ġ", "▁")


def other_letters(tokenizer: Any, tokens: Sequence[int]) -> tuple[int, ...] | None:
    """Return the tokens of letters with a space in front, or without it if they have one.

    Args:
        tokenizer: a Hugging Face tokenizer.
        tokens: token of each letter.

    Returns:
        As many tokens; None if the vocabulary does not have them all.
    """
    pieces = tokenizer.convert_ids_to_tokens([*tokens])
    vocabulary = tokenizer.get_vocab()
    for sign in _SPACE_SIGNS:
        spaced = all(piece.startswith(sign) for piece in pieces)
        others = [piece[1:] if spaced else sign + piece for piece in pieces]
        if all(piece in vocabulary for piece in others):
            return tuple(vocabulary[piece] for piece in others)
    return None


class Encoder:
    """Turns records into token ids under one contract and one tokenizer.

    Args:
        tokenizer: a Hugging Face tokenizer.
        contract: the prompt contract.
        max_prompt_tokens: longest prompt accepted; the contract's own limit by default.

    Attributes:
        fingerprint: SHA-256 of a probe's prompt, token ids and answer tokens: it changes with the
            contract, the chat template and the tokenizer.

    Raises:
        PromptError: the tokenizer cannot render the contract.
    """

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        contract: PromptContract,
        max_prompt_tokens: int | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.contract = contract
        self.max_prompt_tokens = max_prompt_tokens or contract.max_prompt_tokens or sys.maxsize
        self._bytes = PromptBytes(tokenizer, self.max_prompt_tokens)
        self._bound = contract.bind(tokenizer)
        self.fingerprint = self._bound.fingerprint

    def encode(self, records: Sequence[Record], k: int, seed: int) -> list[EncodedView]:
        """Encode views 0 to k - 1 of every record.

        Args:
            records: dataset records.
            k: views per record.
            seed: seed of the letter orders.

        Returns:
            `len(records) * k` views, record by record.

        Raises:
            PromptError: a prompt is over the limit, or a record has more answers than there are
                letters; the message names every such record with its line, up to 20.
        """
        self._refuse_too_many_answers(records)
        views, too_long = self._encode(records, k, seed)
        self._refuse(too_long)
        return views

    def check_lengths(
        self,
        records: Sequence[Record],
        k: int,
        seed: int,
        on_prompts: Callable[[Sequence[Sequence[int]]], None] = lambda _prompts: None,
    ) -> int:
        """Tokenise all prompts in windows, to find prompts that are too long before scoring starts.

        Args:
            records: dataset records.
            k: views per record.
            seed: seed of the letter orders.
            on_prompts: called in turn with the token ids of the K prompts of some records, record
                by record; records that are too long may be absent.

        Returns:
            Length of the longest prompt, in tokens.

        Raises:
            PromptError: as for `encode`, for all records together.
        """
        self._refuse_too_many_answers(records)
        longest = 0
        too_long: list[str] = []
        starts = range(0, len(records), _CHECK_WINDOW)
        for start in tracked(starts, "Measuring prompts", "parts"):
            window, beyond = self._by_bytes(records[start : start + _CHECK_WINDOW], seed)
            prompts = self._token_ids(window, k, seed)
            lengths = _longest(prompts, k)
            longest = max([longest, *lengths])
            on_prompts(prompts)
            too_long += [*beyond, *self._too_long(window, lengths)]
        self._refuse(too_long)
        return longest

    def prompt_tokens(self, records: Sequence[Record], k: int, seed: int) -> list[int]:
        """Return the length of the longest of the K prompts of each record, without a limit."""
        return _longest(self._token_ids(records, k, seed), k)

    def _token_ids(self, records: Sequence[Record], k: int, seed: int) -> Sequence[Sequence[int]]:
        requests = [request for record in records for request in self._requests(record, k, seed)]
        return self._bound.token_ids(requests)

    def excess_bytes(self, record: Record, seed: int) -> int | None:
        """Return the bytes of a prompt that has too many tokens; None if that is not certain.

        The views of a record show the same answers in different orders, with as many bytes.

        Args:
            record: a dataset record.
            seed: seed of the letter orders.
        """
        return self._excess(self._requests(record, 1, seed)[0])

    def _excess(self, request: PromptRequest) -> int | None:
        # A prompt is rendered only if its parts alone are about that long.
        if self._bytes.excess(f"{request.state}{request.fields}") is None:
            return None
        return self._bytes.excess(self._bound.text(request))

    def _encode(
        self, records: Sequence[Record], k: int, seed: int
    ) -> tuple[list[EncodedView], list[str]]:
        """Return the views, and one line per record with a prompt over the limit."""
        records, beyond = self._by_bytes(records, seed)
        requests = [request for record in records for request in self._requests(record, k, seed)]
        ids = self._bound.token_ids(requests)
        views = [
            self._view(record.id, view, record.field, ids[row * k + view], requests[row * k + view])
            for row, record in enumerate(records)
            for view in range(k)
        ]
        return views, [*beyond, *self._too_long(records, _longest(ids, k))]

    def _by_bytes(self, records: Sequence[Record], seed: int) -> tuple[list[Record], list[str]]:
        """Return the records that may fit, and one line per record with too many bytes."""
        fitting: list[Record] = []
        beyond: list[str] = []
        for record in records:
            excess = self.excess_bytes(record, seed)
            if excess is None:
                fitting.append(record)
            else:
                beyond.append(f"line {record.line} (id {record.id}): {self._too_many(excess)}")
        return fitting, beyond

    def _too_many(self, excess: int) -> str:
        return f"{excess:,} bytes, and the limit in tokens allows at most {self._bytes.most:,}"

    def _too_long(self, records: Sequence[Record], prompt_tokens: Sequence[int]) -> list[str]:
        """Return one line per record with a prompt over the limit."""
        return [
            f"line {record.line} (id {record.id}): {tokens:,} tokens"
            for record, tokens in zip(records, prompt_tokens, strict=True)
            if tokens > self.max_prompt_tokens
        ]

    def _refuse(self, too_long: Sequence[str]) -> None:
        if too_long:
            rest = len(too_long) - _PROBLEMS_SHOWN
            shown = "\n".join(too_long[:_PROBLEMS_SHOWN])
            message = (
                f"prompts over the limit of {self.max_prompt_tokens:,} tokens, which are never "
                f"truncated ({len(too_long):,} records):\n{shown}"
            ) + (f"\nand {rest:,} more" if rest > 0 else "")
            raise PromptError(message)

    def encode_request(
        self, state: Json, fields: Sequence[Field], *, k: int, seed: int
    ) -> list[EncodedView]:
        """Encode one request of several fields: K views of each field, field by field.

        The views carry the field's name as `record_id`; it also keys the letter orders.

        Raises:
            PromptError: a prompt is over the limit.
            RequestError: the fields do not fit the contract.
        """
        return self._encode_orders(
            state,
            fields,
            [
                (field, view, order)
                for field in fields
                for view, order in enumerate(self._bound.orders(field, field.name, k=k, seed=seed))
            ],
        )

    def encode_orders(
        self, state: Json, field: Field, orders: Sequence[tuple[int, ...]]
    ) -> list[EncodedView]:
        """Encode one question alone, with its answers in some orders.

        The views carry the field's name as `record_id`.

        Raises:
            PromptError: a prompt is over the limit.
            RequestError: the field does not fit the contract.
        """
        views = [(field, view, order) for view, order in enumerate(orders)]
        return self._encode_orders(state, [field], views)

    def text(self, state: Json, field: Field, order: tuple[int, ...]) -> str:
        """Return the text of the prompt of one question alone.

        Raises:
            PromptError: it cannot be rendered.
            RequestError: the field does not fit the contract.
        """
        return self._bound.text(PromptRequest(state, (field,), field.name, order))

    def answer_tokens(self, field: Field) -> tuple[int, ...]:
        """Return the token of the answer at each position of a question.

        Raises:
            PromptError: the contract has no distinct single token for each.
        """
        return self._bound.answer_tokens(field)

    def _encode_orders(
        self,
        state: Json,
        fields: Sequence[Field],
        views: Sequence[tuple[Field, int, tuple[int, ...]]],
    ) -> list[EncodedView]:
        """Encode requested fields of one request, each with the number of its view and an order."""
        requests = [
            PromptRequest(state, tuple(fields), field.name, order) for field, _, order in views
        ]
        excess = next(filter(None, map(self._excess, requests)), None)
        if excess is not None:
            raise PromptError(f"the prompt has {self._too_many(excess)}")
        ids = self._bound.token_ids(requests)
        longest = max((len(row) for row in ids), default=0)
        if longest > self.max_prompt_tokens:
            message = f"the prompt has {longest:,} tokens, the limit is {self.max_prompt_tokens:,}"
            raise PromptError(message)
        return [
            self._view(field.name, view, field, row, request)
            for (field, view, _), row, request in zip(views, ids, requests, strict=True)
        ]

    def _requests(self, record: Record, k: int, seed: int) -> list[PromptRequest]:
        field, where = record.field, f"line {record.line} (id {record.id})"
        orders = self._bound.orders(field, record.order_key or record.id, k=k, seed=seed)
        return [PromptRequest(record.state, (field,), field.name, order, where) for order in orders]

    def _refuse_too_many_answers(self, records: Sequence[Record]) -> None:
        problems = [
            f"line {record.line} (id {record.id}): {record.n_choices} answers"
            for record in records
            if record.n_choices > self._bound.most_answers(record.field)
        ]
        if problems:
            rest = len(problems) - _PROBLEMS_SHOWN
            message = (
                f"questions with more answers than {self.contract.label} has letters; only a "
                f"server that labels the answers itself can be asked ({len(problems):,} records):\n"
            ) + "\n".join(problems[:_PROBLEMS_SHOWN])
            raise PromptError(message + (f"\nand {rest:,} more" if rest > 0 else ""))

    def _view(
        self, record_id: str, view: int, field: Field, ids: Sequence[int], request: PromptRequest
    ) -> EncodedView:
        tokens = self._bound.answer_tokens(field)
        return EncodedView(record_id, view, tuple(ids), tokens, request.order)


def _longest(prompts: Sequence[Sequence[int]], k: int) -> list[int]:
    """Return the length of the longest of the K prompts of each record."""
    lengths = [len(ids) for ids in prompts]
    return [max(lengths[start : start + k]) for start in range(0, len(lengths), k)]


_TEMPLATE_FILE: Final = "chat_template.jinja"
_DEFAULT: Final = "default"
_SHOWN = 12

_WORDS: Final = {
    "tokenizer_sha256": "tokenizer",
    "chat_template_sha256": "chat template",
    "prompts_sha256": "probe prompt",
}


@dataclass(frozen=True, slots=True)
class TrainingPrompts:
    """Hashes of what makes prompts into token ids, as 64 hex digits; None if not known.

    Attributes:
        tokenizer_sha256: of the vocabulary and the merges.
        chat_template_sha256: of the text of the chat template.
        prompts_sha256: of a probe's text, token ids and letter tokens; see `Encoder`.
    """

    tokenizer_sha256: str | None = None
    chat_template_sha256: str | None = None
    prompts_sha256: str | None = None

    @classmethod
    def of(cls, encoder: Encoder) -> TrainingPrompts:
        """Return the hashes of a loaded tokenizer."""
        tokenizer = encoder.tokenizer
        return cls(
            sha256_of_tokenizer(tokenizer),
            _template_sha256(getattr(tokenizer, "chat_template", None)),
            encoder.fingerprint,
        )

    @classmethod
    def of_folder(cls, base: Path) -> TrainingPrompts:
        """Return the hashes that the files of a base model give, without loading its tokenizer.

        Raises:
            InputError: a file cannot be read.
        """
        tokenizer = base / "tokenizer.json"
        return cls(
            _tokenizer_sha256(read_json_object(tokenizer)) if tokenizer.exists() else None,
            _template_sha256(_template_of(base)),
        )

    def to_json(self) -> dict[str, Json]:
        """Return the keys of `schema_config.json` that are known."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def differences(self, stated: Mapping[str, Json], where: str) -> tuple[str, ...]:
        """Return how an adapter's `schema_config.json` differs; a key that is absent agrees.

        Args:
            stated: the parsed `schema_config.json`.
            where: name of the base in messages.

        Examples:
            >>> here = TrainingPrompts(chat_template_sha256="a" * 64)
            >>> here.differences({"chat_template_sha256": "b" * 64}, "model")
            ('trained with another chat template than that of model: schema_config.json has chat_template_sha256 bbbbbbbbbbbb..., expected aaaaaaaaaaaa...',)
            >>> here.differences({}, "model")
            ()
        """  # noqa: E501
        return tuple(
            f"trained with another {_WORDS[name]} than that of {where}: schema_config.json has "
            f"{name} {_short(stated[name])}, expected {_short(here)}"
            for name, here in asdict(self).items()
            if here is not None and stated.get(name) is not None and stated[name] != here
        )


STATED_PROMPTS: Final = tuple(field.name for field in fields(TrainingPrompts))
"""The keys of `schema_config.json`."""


def sha256_of_tokenizer(tokenizer: ChatTokenizer) -> str | None:
    """Hash the vocabulary and the merges of a loaded tokenizer; None if it is not a fast one."""
    return _tokenizer_sha256(_tokenizer_json(tokenizer))


def _short(value: Json) -> str:
    return f"{value[:_SHOWN]}..." if isinstance(value, str) else describe(value)


def _tokenizer_json(tokenizer: ChatTokenizer) -> Json:
    """Return the `tokenizer.json` of a tokenizer in memory; None if it has none (not "fast")."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parsed: Json = None if backend is None else json.loads(backend.to_str())
    return parsed


def _tokenizer_sha256(parsed: Json) -> str | None:
    """Hash vocabulary and merges. Saving a tokenizer again keeps them, and rewrites all else."""
    model = parsed.get("model") if isinstance(parsed, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        return None
    merges = model.get("merges")
    pairs = [
        merge.split(" ", 1) if isinstance(merge, str) else merge
        for merge in (merges if isinstance(merges, list) else [])
    ]
    text = json.dumps({"vocab": model["vocab"], "merges": pairs}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _template_of(base: Path) -> Json:
    file, config = base / _TEMPLATE_FILE, base / "tokenizer_config.json"
    if file.exists():
        return read_text(file)
    return read_json_object(config).get("chat_template") if config.exists() else None


def chat_template_of(base: Path) -> str | None:
    """Return the chat template in the folder of a base model; None without one.

    Raises:
        InputError: its file cannot be read.
    """
    return _text_of(_template_of(base))


def _text_of(template: Json) -> str | None:
    """Return the template that prompts use; a tokenizer may have several by name."""
    if isinstance(template, list):
        named = [template_entry for template_entry in template if isinstance(template_entry, dict)]
        template = {
            str(template_entry.get("name")): template_entry.get("template")
            for template_entry in named
        }
    text = template.get(_DEFAULT) if isinstance(template, dict) else template
    return text if isinstance(text, str) else None


def _template_sha256(template: Json) -> str | None:
    text = _text_of(template)
    if text is None:
        return None
    # Jinja and transformers read CRLF as LF.
    text = text.replace("\r\n", "\n")
    return hashlib.sha256(text.encode("utf-8", errors="replace")).hexdigest()
