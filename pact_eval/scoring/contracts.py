"""Choice of the prompt contract of a model: the one that was named, or the one its files state.

In order: the contract in the adapter's `schema_config.json`; the decision files of the adapter's
folder; those of the base model's folder, which transformers itself would use; the Nimble contract.

The tokenizer of a base model and its longest prompt: the part of scoring without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from transformers import AutoTokenizer

from pact_eval._json import Json
from pact_eval.data.records import FieldKind
from pact_eval.errors import AdapterError
from pact_eval.models import SCHEMA_CONFIG, AdapterFiles, read_json_object
from pact_eval.prompts.contract import PromptContract
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.provenance import Provenance
from pact_eval.templates.contract import DecisionTemplate
from pact_eval.templates.files import (
    DecisionFiles,
    has_decision_files,
    named_decision_files,
    read_decision_files,
)

GENERIC: Final = "generic"
"""Name of the prompt that transformers gives any chat model."""


def find_contract(named: str | None, adapter: AdapterFiles | None, base: Path) -> PromptContract:
    """Return the contract of a model.

    Args:
        named: "nimble", "generic", "plain", or a folder or JSON file with a decision template; None
            takes the one that the files state.
        adapter: the adapter, or None.
        base: folder of the base model.

    Raises:
        AdapterError: the files cannot be read, or the model has a trained decision head.
    """
    if named is not None:
        return named_contract(named)
    stated: Mapping[str, Json] = (adapter.schema_config if adapter else None) or {}
    if stated.get("task") is not None and stated["task"] != DecisionTemplate.task:
        return NIMBLE
    if adapter is not None and has_decision_files(adapter.folder):
        return DecisionTemplate(read_decision_files(adapter.folder))
    if adapter is not None and stated.get("task") is not None:
        raise AdapterError(
            f"{adapter.folder}: {SCHEMA_CONFIG} states a decision template, and the folder has "
            "none; name it with --contract"
        )
    if has_decision_files(base):
        return DecisionTemplate(read_decision_files(base))
    return NIMBLE


def named_contract(name: str) -> PromptContract:
    """Return the contract of a name, folder or JSON file.

    Raises:
        AdapterError: there is no such contract, or its files cannot be read.

    Examples:
        >>> named_contract("nimble").name, named_contract("generic").name
        ('nimble', 'decision-template')
    """
    if name == NIMBLE.name:
        return NIMBLE
    if name == GENERIC:
        return DecisionTemplate(DecisionFiles())
    return DecisionTemplate(named_decision_files(name))


def recorded_contract(run: Provenance) -> PromptContract:
    """Return the contract of a run, read again from where its files were.

    Raises:
        AdapterError: the files of a decision template cannot be read.
    """
    if run.contract.name != DecisionTemplate.name:
        return NIMBLE
    named = run.contract_files
    return named_contract(GENERIC if named is None else named)


def shipped_temperatures(contract: PromptContract) -> dict[FieldKind, float]:
    """Return the temperatures that a contract ships, by field kind.

    Raises:
        AdapterError: only decision templates ship temperatures.
    """
    if not isinstance(contract, DecisionTemplate):
        raise AdapterError(f"{contract.label}: only decision templates ship temperatures")
    return contract.files.temperatures


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
