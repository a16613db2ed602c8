"""The tokenizer of a base model and its longest prompt: the part of scoring without torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from pact_eval._json import Json
from pact_eval.errors import AdapterError
from pact_eval.models.folders import read_json_object
from pact_eval.prompts.nimble import NIMBLE

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a base-model folder.

    Raises:
        AdapterError: the folder does not have a readable tokenizer.
    """
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        # transformers 5 would otherwise create an empty tokenizer from the model's type.
        message = f"{folder}: expected a tokenizer, found none of {', '.join(_TOKENIZER_FILES)}"
        raise AdapterError(message)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # tokenizers raises a plain Exception
        # It reads config.json, too.
        raise AdapterError(f"{folder}: the tokenizer cannot be loaded ({reason(error)})") from error


def longest_prompt(
    folder: Path, stated: Mapping[str, Json], limit: int | None = NIMBLE.max_prompt_tokens
) -> int:
    """Return the longest prompt in tokens: at most the positions of the base model.

    Args:
        folder: of the base model.
        stated: `schema_config.json` of an adapter; its limit comes before that of the contract.
        limit: that of the contract; None if it has none.
    """
    config = read_json_object(folder / "config.json")
    text_config = config.get("text_config")
    text = text_config if isinstance(text_config, dict) else config
    limits = [stated.get("max_length"), text.get("max_position_embeddings")]
    usable = [n for n in limits if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    if limits[0] not in usable and limit is not None:
        usable.append(limit)
    return min(usable, default=sys.maxsize)


def reason(error: Exception | None) -> str:
    r"""Return the first line of an error of transformers; two if the first introduces the second.

    Examples:
        >>> reason(ValueError("Validation error for field 'pad_token_id':\n  expected an int"))
        "Validation error for field 'pad_token_id': expected an int"
        >>> reason(KeyError())
        'KeyError'
    """
    lines = [line.strip() for line in str(error).strip().split("\n")]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1]) or type(error).__name__
