"""Was an adapter trained on our prompt contract? `schema_config.json` held against ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pact_eval._json import Json, describe
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.errors import ContractMismatchError, Place
from pact_eval.models import SCHEMA_CONFIG
from pact_eval.prompts import NIMBLE

__all__ = ["check_contract", "max_length_tokens"]

_PLACE: Final = Place(SCHEMA_CONFIG)
_TEXTS: Final = ("task", "system_prompt", "contract_fingerprint", "prompt_code_sha256")


def check_contract(schema_config: Mapping[str, Json] | None, *, keep: int) -> CheckResult:
    """Was it trained on our prompt contract?

    The answer is the one that scoring gives: what it would refuse without
    `--allow-contract-mismatch` is an error here.

    Args:
        schema_config: the parsed `schema_config.json`, or None where there is none.
        keep: findings kept whole of each code.

    Returns:
        What was found.

    Example:
        >>> found = check_contract({"task": NIMBLE.task, "max_length": 2048}, keep=5).findings
        >>> found[0].code, found[0].found  # doctest: +ELLIPSIS
        ('contract-mismatch', '...prompt_code_sha256 nothing, expected...')
    """
    collector = Collector("contract", keep)
    if schema_config is None:
        collector.add("contract-unknown", _PLACE, "the contract it was trained on", "no such file")
        return collector.result(f"no {SCHEMA_CONFIG}")
    malformed = [key for key in _TEXTS if not isinstance(schema_config.get(key), str | None)]
    for key in malformed:
        found = f"{key} is {describe(schema_config[key])}"
        collector.add("contract-mismatch", _PLACE, "text", found)
    try:
        if not malformed:
            NIMBLE.check_adapter(schema_config)
    except ContractMismatchError as error:
        expected = f"the contract {NIMBLE.name!r}"
        collector.add("contract-mismatch", _PLACE, expected, str(error))
    _check_max_length(schema_config, collector)
    return collector.result(f"{len(schema_config)} keys of {SCHEMA_CONFIG}")


def max_length_tokens(schema_config: Mapping[str, Json]) -> int | None:
    """Return the longest prompt that an adapter names, in tokens; None where it names none.

    Example:
        >>> max_length_tokens({"max_length": 2048}), max_length_tokens({"max_length": "2048"})
        (2048, None)
    """
    value = schema_config.get("max_length")
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count and isinstance(value, int) else None


def _check_max_length(schema_config: Mapping[str, Json], collector: Collector) -> None:
    value, tokens = schema_config.get("max_length"), max_length_tokens(schema_config)
    if tokens is None and value is not None:
        found = f"max_length is {describe(value) if not isinstance(value, int) else value}"
        collector.add("max-length-malformed", _PLACE, "a number of tokens above 0", found)
    elif tokens is not None and tokens != NIMBLE.max_prompt_tokens:
        expected = f"max_length {NIMBLE.max_prompt_tokens:,}, as the contract has it"
        collector.add("max-length-differs", _PLACE, expected, f"{tokens:,}")
