"""How the weights of a base model may be quantised, and whether those on disk are already."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pact_eval.errors import AdapterError
from pact_eval.models.folders import read_json_object

METHODS: Final = ("nf4",)
"""Values of `--quantize`."""

_INT8: Final = "it flipped 12 answers in 80 where bf16 flipped 3; use nf4"
_INT8_NAMES: Final = frozenset({"int8", "8bit", "llmint8"})


def check_quantisation(name: str) -> None:
    """Refuse a method of quantisation that is not supported.

    Args:
        name: a value of `--quantize`.

    Raises:
        AdapterError: it is not supported; the message gives the reason.

    Examples:
        >>> check_quantisation("nf4")
    """
    if name in METHODS:
        return
    plain = "".join(filter(str.isalnum, name.lower()))
    reason = f"int8 is refused: {_INT8}" if plain in _INT8_NAMES else f"expected nf4, got {name!r}"
    message = f"--quantize: {reason}"
    raise AdapterError(message)


def stored_quantisation(base: Path) -> str | None:
    """Return how the weights of a base model on disk are quantised.

    Args:
        base: folder of the base model, with a `config.json`.

    Returns:
        The method, such as "nf4" or "gptq"; None if they are not quantised.

    Raises:
        AdapterError: they are integers of 8 bits, or the file cannot be read.
    """
    found = read_json_object(base / "config.json").get("quantization_config")
    if not isinstance(found, dict):
        return None
    if found.get("load_in_8bit"):
        message = f"{base}: the base model is stored in int8, which is refused: {_INT8}"
        raise AdapterError(message)
    four_bits = found.get("load_in_4bit")
    return str(found.get("bnb_4bit_quant_type" if four_bits else "quant_method") or "unknown")
