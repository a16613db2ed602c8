"""Load a tokenizer: the one part of scoring that needs transformers and no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from pact_eval.errors import AdapterError

__all__ = ["load_tokenizer"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a base-model folder.

    Raises:
        AdapterError: the folder has none, or it cannot be read.
    """
    if not any((folder / name).exists() for name in _TOKENIZER_FILES):
        # transformers 5 would make an empty tokenizer out of the model's type.
        message = f"{folder}: expected a tokenizer, found none of {', '.join(_TOKENIZER_FILES)}"
        raise AdapterError(message)
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # tokenizers raises a plain Exception
        reason = (str(error).strip().splitlines() or [""])[0]
        message = f"{folder}: its tokenizer cannot be loaded ({reason})"
        raise AdapterError(message) from error
