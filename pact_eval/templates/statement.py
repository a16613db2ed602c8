"""Contract that the files of an adapter state, or the user for trainers that record none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pact_eval._files import write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.errors import AdapterError, ContractMismatchError
from pact_eval.models.folders import SCHEMA_CONFIG, AdapterFiles, read_adapter_files
from pact_eval.prompts.contract import CONTRACT_KEYS, STATED_BY, PromptContract
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.templates.files import has_decision_files, read_decision_files


@dataclass(frozen=True)
class Statement:
    """Who states the contract of an adapter, and whether it is the one that it is scored on.

    Attributes:
        stated_by: "user" if the adapter's own files state none, or the user wrote them.
        difference: how the stated contract differs; None if it is this one.
        unknown: whether nobody states a contract.
    """

    stated_by: str | None = None
    difference: str | None = None
    unknown: bool = False


def check_statement(adapter: AdapterFiles, contract: PromptContract, *, named: bool) -> Statement:
    """Compare the contract that the files of an adapter state with the one that is used.

    A user who names a contract states what the files leave open. What they say still counts: it
    may not be another contract.

    Args:
        adapter: the adapter.
        contract: the contract that is used.
        named: whether the user has named it.

    Raises:
        AdapterError: the decision files of the adapter cannot be read.
    """
    config = adapter.schema_config or {}
    by_user = "user" if config.get(STATED_BY) == "user" else None
    if not any(config.get(key) is not None for key in CONTRACT_KEYS):
        return _statement_of_files(adapter, contract, named=named)
    difference = _difference(contract, config)
    if named and difference is not None:
        difference = _difference(contract, completed(contract, config))
        by_user = "user" if difference is None else by_user
    return Statement(by_user, difference)


def _statement_of_files(
    adapter: AdapterFiles, contract: PromptContract, *, named: bool
) -> Statement:
    """Return what the decision files of an adapter's folder state, or else the user."""
    if has_decision_files(adapter.folder):
        if read_decision_files(adapter.folder).fingerprint == contract.fingerprint:
            return Statement()
        return Statement(None, "its decision files state another prompt contract")
    if named:
        return Statement("user")
    if contract is not NIMBLE:
        return Statement()  # the decision files of the base, which transformers itself would use
    lacking = "has no" if adapter.schema_config is None else "names no contract in its"
    difference = f"it {lacking} {SCHEMA_CONFIG}, so its prompt contract is unknown"
    return Statement(None, difference, unknown=True)


def _difference(contract: PromptContract, config: Mapping[str, Json]) -> str | None:
    try:
        contract.check_adapter(config)
    except ContractMismatchError as error:
        return str(error)
    return None


def completed(contract: PromptContract, config: Mapping[str, Json]) -> dict[str, Json]:
    """Return a `schema_config.json` with the keys of a contract that it lacks.

    A hash of the code that made the prompts stands for the contract: it gets no fingerprint of ours
    next to it.
    """
    keys = contract.schema_config()
    if config.get("prompt_code_sha256") is not None:
        keys.pop("contract_fingerprint")
    return keys | {key: value for key, value in config.items() if value is not None}


def mismatch_remedy(adapter: AdapterFiles, statement: Statement, *, may_differ: bool) -> str:
    """Return what a user can do about a contract that is unknown or differs.

    Args:
        adapter: the adapter.
        statement: on its contract.
        may_differ: whether the command has `--allow other-contract`.
    """
    allow = "--allow other-contract scores it anyway" if may_differ else ""
    if not statement.unknown:
        return allow or "give the base model and the contract that it was trained with"
    write = f"pact-audit adapter {shlex.quote(str(adapter.folder))} --write-contract {NIMBLE.name}"
    option = f"--contract {NIMBLE.name}, or once and for all: " if may_differ else ""
    remedy = f"if it was trained on the contract {NIMBLE.name}, state this: {option}{write}"
    return f"{remedy}; {allow}" if allow else remedy


def write_contract(folder: Path) -> None:
    """Write into the folder of an adapter that the user states the Nimble contract.

    Keys that `schema_config.json` has already are kept.

    Args:
        folder: of the adapter.

    Raises:
        AdapterError: the folder is not an adapter, or its files state this contract.
        ContractMismatchError: its files state another contract.
    """
    adapter = read_adapter_files(folder)
    statement = check_statement(adapter, NIMBLE, named=True)
    if statement.difference is not None:
        raise ContractMismatchError(f"{folder}: {statement.difference}; nothing was written")
    config = adapter.schema_config or {}
    if statement.stated_by is None or config.get(STATED_BY) is not None:
        raise AdapterError(f"{folder}: its files state this contract already; nothing was written")
    stated = completed(NIMBLE, config) | {STATED_BY: "user"}
    write_atomically(folder / SCHEMA_CONFIG, dumps_indented(stated))
