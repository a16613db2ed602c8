"""The prompts that an adapter was trained on: hashes that it states, and how a base differs.

    "tokenizer_sha256": the vocabulary and the merges of the tokenizer
    "chat_template_sha256": the text of the chat template
    "prompts_sha256": a probe prompt through contract, chat template and tokenizer

`save_adapter` writes these keys of `schema_config.json`, scoring compares all of them, and the
audit compares the first two with the files of the base, without loading the tokenizer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

from pact_eval._files import read_text
from pact_eval._json import Json, describe
from pact_eval.models.folders import read_json_object
from pact_eval.prompts.contract import ChatTokenizer
from pact_eval.prompts.encoding import Encoder

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
