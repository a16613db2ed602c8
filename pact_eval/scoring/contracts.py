"""Choice of the prompt contract of a model: the one that was named, or the one its files state.

In order: the contract in the adapter's `schema_config.json`; the decision files of the adapter's
folder; those of the base model's folder, which transformers itself would use; the Nimble contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pact_eval._json import Json
from pact_eval.data.records import FieldKind
from pact_eval.errors import AdapterError
from pact_eval.models.folders import SCHEMA_CONFIG, AdapterFiles
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
