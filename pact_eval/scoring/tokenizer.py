"""Load a tokenizer: the one part of scoring that does not need torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from pact_eval.errors import AdapterError

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
        message = f"{folder}: the tokenizer cannot be loaded ({reason(error)})"
        raise AdapterError(message) from error


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
