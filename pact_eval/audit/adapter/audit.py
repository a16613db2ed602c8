"""Is an adapter what it says, without loading it? The checks of one adapter folder, in their order.

An adapter is a stranger's data. Its files are listed, hashed and read as bytes and plain JSON;
nothing in it is unpickled, imported or run, and nothing is fetched. What is wrong becomes a finding
and never an exception. Neither torch nor the safetensors library is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pact_eval._json import Json
from pact_eval.audit.adapter.base import NamedBase, check_base, named_base
from pact_eval.audit.adapter.config import LoraSettings, check_config
from pact_eval.audit.adapter.contract import check_contract, max_length_tokens
from pact_eval.audit.adapter.files import FileRecord, check_files, shown
from pact_eval.audit.adapter.layers import layer_module
from pact_eval.audit.adapter.tensors import LoraTensors, check_tensors, group_tensors
from pact_eval.audit.codes import CheckName
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.errors import AdapterError, Place
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    TensorInfo,
    read_json_object,
    safetensors_header,
)

__all__ = ["AdapterAudit", "AdapterFacts", "audit_adapter"]

T = TypeVar("T")


@dataclass(frozen=True)
class AdapterFacts:
    """What an adapter says of itself, and what its files hold. None is "not known".

    Attributes:
        settings: rank, alpha, targets and all else of `adapter_config.json`.
        dtypes: number of tensors by dtype, as safetensors spells it.
        n_modules: adapted modules.
        n_layers: layers with an adapted module.
        n_parameters: numbers in all tensors.
        base_model: hub id or path of the base.
        base_revision: its revision.
        base_folder: where the base lies that the adapter was held against.
        contract_task: the task that `schema_config.json` names.
        contract_fingerprint: SHA-256 of the prompt contract's renderings.
        prompt_code_sha256: hash of someone's source of the prompt contract.
        max_length_tokens: the longest prompt.
        files: every file by name, with its size and SHA-256.
    """

    settings: LoraSettings | None
    dtypes: Mapping[str, int] | None
    n_modules: int | None
    n_layers: int | None
    n_parameters: int | None
    base_model: str | None
    base_revision: str | None
    base_folder: Path | None
    contract_task: str | None
    contract_fingerprint: str | None
    prompt_code_sha256: str | None
    max_length_tokens: int | None
    files: tuple[FileRecord, ...]

    @property
    def scale(self) -> float | None:
        """What the update is multiplied by: alpha/r, or alpha/sqrt(r) for rsLoRA."""
        return None if self.settings is None else self.settings.scale

    @property
    def weights_sha256(self) -> str | None:
        """SHA-256 of `adapter_model.safetensors`."""
        return next((file.sha256 for file in self.files if file.name == ADAPTER_WEIGHTS), None)


@dataclass(frozen=True)
class AdapterAudit:
    """The audit of one adapter folder.

    Attributes:
        folder: where it lies.
        facts: what it is.
        checks: one result a check, in the order of `ADAPTER_CHECKS`.
        config: the parsed `adapter_config.json`, or None where it cannot be read.
        schema_config: the parsed `schema_config.json`, likewise.
        tensors: those of `adapter_model.safetensors`, likewise.
    """

    folder: Path
    facts: AdapterFacts
    checks: tuple[CheckResult, ...]
    config: Mapping[str, Json] | None
    schema_config: Mapping[str, Json] | None
    tensors: tuple[TensorInfo, ...] | None


@dataclass(frozen=True)
class _Opened:
    """The three files that say what an adapter is; None and a failed check where one cannot."""

    config: dict[str, Json] | None
    schema_config: dict[str, Json] | None
    tensors: tuple[TensorInfo, ...] | None
    failed: Mapping[CheckName, CheckResult]


def audit_adapter(folder: Path, *, base_model: Path | None = None, keep: int) -> AdapterAudit:
    """Look at everything about an adapter that can be seen without running it.

    Args:
        folder: as PEFT writes it, with `adapter_config.json` and `adapter_model.safetensors`, and
            `schema_config.json` beside them.
        base_model: folder of the base model to hold it against; None takes the one that the adapter
            names, if it lies in a folder here.
        keep: findings kept whole of each code.

    Returns:
        The facts and the five checks. A check that another one's failure leaves nothing to look at
        is skipped, and says why.

    Raises:
        AdapterError: one of the two folders does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     audit = audit_adapter(Path(empty), keep=20)
        >>> for finding in audit.checks[0].findings:
        ...     print(finding.severity, finding.code, finding.place)
        error file-missing adapter_config.json
        error file-missing adapter_model.safetensors
    """
    for given in (folder, base_model):
        if given is not None and not given.is_dir():
            message = f"{given}: no such folder"
            raise AdapterError(message)
    files, records = check_files(folder, keep=keep)
    opened = _open(folder, records, keep)
    config, settings = opened.failed.get("config"), None
    if opened.config is not None:
        config, settings = check_config(opened.config, keep=keep)
    base = named_base(folder, opened.config, opened.schema_config)
    base_folder = base_model or base.folder
    lora = None if opened.tensors is None else group_tensors(opened.tensors)
    checks = (
        files,
        config,
        opened.failed.get("tensors")
        or check_tensors(
            folder / ADAPTER_WEIGHTS,
            lora or LoraTensors({}, ()),
            settings,
            compare_layers=base_model is None and (base.folder is None or base.is_brought),
            keep=keep,
        ),
        opened.failed.get("contract") or check_contract(opened.schema_config, keep=keep),
        check_base(base, base_model, lora, settings, keep=keep),
    )
    return AdapterAudit(
        folder=folder,
        facts=_facts(opened, settings, lora, base, base_folder, records),
        checks=tuple(check for check in checks if check is not None),
        config=opened.config,
        schema_config=opened.schema_config,
        tensors=opened.tensors,
    )


def _open(folder: Path, records: Sequence[FileRecord], keep: int) -> _Opened:
    """Read the configurations and the header of the weights; a failure fails its check."""
    failed: dict[CheckName, CheckResult] = {}
    usable = {record.name: record.sha256 is not None for record in records}

    def read(name: str, check: CheckName, code: str, reader: Callable[[Path], T]) -> T | None:
        if not usable.get(name):
            if name in usable or check != "contract":
                why = "cannot be opened" if name in usable else "is not there"
                failed[check] = Collector(check, keep).skipped(f"{name} {why}")
            return None
        try:
            return reader(folder / name)
        except AdapterError as error:
            collector = Collector(check, keep)
            collector.add(code, Place(name), "a file that can be read", shown(str(error)))
            failed[check] = collector.result(name)
            return None

    return _Opened(
        read(ADAPTER_CONFIG, "config", "config-unreadable", read_json_object),
        read(SCHEMA_CONFIG, "contract", "contract-unreadable", read_json_object),
        read(ADAPTER_WEIGHTS, "tensors", "weights-damaged", safetensors_header),
        failed,
    )


def _facts(
    opened: _Opened,
    settings: LoraSettings | None,
    lora: LoraTensors | None,
    base: NamedBase,
    base_folder: Path | None,
    files: tuple[FileRecord, ...],
) -> AdapterFacts:
    tensors, schema = opened.tensors, opened.schema_config or {}
    places = [layer_module(name) for name in (lora.modules if lora is not None else ())]
    layers = {(place.stack, place.layer) for place in places if place is not None}
    return AdapterFacts(
        settings=settings,
        dtypes=None if tensors is None else dict(Counter(tensor.dtype for tensor in tensors)),
        n_modules=None if lora is None else len(lora.modules),
        n_layers=None if lora is None else len(layers),
        n_parameters=None if tensors is None else sum(tensor.size for tensor in tensors),
        base_model=base.model,
        base_revision=base.revision,
        base_folder=base_folder,
        contract_task=_text(schema.get("task")),
        contract_fingerprint=_text(schema.get("contract_fingerprint")),
        prompt_code_sha256=_text(schema.get("prompt_code_sha256")),
        max_length_tokens=max_length_tokens(schema),
        files=files,
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
