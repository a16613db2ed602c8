"""The audit of an adapter folder: every registered check, in order, without loading the adapter.

An adapter is foreign data. Its files are listed, hashed and read as bytes and plain JSON; nothing
in it is unpickled, imported or run, and nothing is fetched. Everything that is wrong becomes a
finding and never an exception. No check needs torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pact_eval._choices import NEAR_DUPLICATE
from pact_eval._json import Json
from pact_eval.audit.adapter.base import BASE
from pact_eval.audit.adapter.context import AdapterContext
from pact_eval.audit.adapter.contract import CONTRACT, max_length_tokens
from pact_eval.audit.adapter.files import CONFIG, FILES, FileRecord, LoraSettings
from pact_eval.audit.adapter.overlap import OVERLAP
from pact_eval.audit.adapter.prompts import PROMPTS
from pact_eval.audit.adapter.tensors import TENSORS, layer_module
from pact_eval.audit.adapter.training import TRAINING
from pact_eval.audit.findings import CheckResult, Leak
from pact_eval.audit.registry import Registry
from pact_eval.errors import AdapterError
from pact_eval.hub.snapshots import Snapshot, snapshot_of
from pact_eval.models.folders import ADAPTER_WEIGHTS, TensorInfo, require_adapter_folder
from pact_eval.prompts.contract import STATED_BY
from pact_eval.results import Framed
from pact_eval.templates.files import TEMPLATE_TASK

ADAPTER_CHECKS: Final = Registry[AdapterContext](
    FILES, CONFIG, TENSORS, CONTRACT, PROMPTS, BASE, TRAINING, OVERLAP
)
"""The checks of an adapter folder, in the order in which they run."""


@dataclass(frozen=True)
class AdapterFacts:
    """Statements of an adapter about itself, and contents of its files. None means "not known".

    Attributes:
        settings: rank, alpha, targets and everything else in `adapter_config.json`.
        dtypes: number of tensors by dtype, as safetensors spells it.
        n_modules: adapted modules.
        n_layers: layers with an adapted module.
        n_parameters: numbers in all tensors.
        base_model: hub id or path of the base.
        base_revision: its revision.
        base_folder: folder of the base that the adapter was compared with.
        contract_task: the task that `schema_config.json` names.
        contract_stated_by: "user" if the user wrote the contract down, not the training.
        contract_fingerprint: SHA-256 of the prompt contract's renderings.
        prompt_code_sha256: hash of someone's source of the prompt contract.
        max_length_tokens: the longest prompt.
        files: every file by name, with its size and SHA-256.
        hub: repository and commit of a snapshot of the Hub.
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
    contract_stated_by: str | None
    contract_fingerprint: str | None
    prompt_code_sha256: str | None
    max_length_tokens: int | None
    files: tuple[FileRecord, ...]
    hub: Snapshot | None = None

    @property
    def scale(self) -> float | None:
        """Factor of the update: alpha/r, or alpha/sqrt(r) for rsLoRA."""
        return None if self.settings is None else self.settings.scale

    @property
    def weights_sha256(self) -> str | None:
        """SHA-256 of `adapter_model.safetensors`."""
        return next((file.sha256 for file in self.files if file.name == ADAPTER_WEIGHTS), None)


@dataclass(frozen=True, repr=False)
class AdapterAudit(Framed):
    """The audit of one adapter folder.

    Attributes:
        folder: its path.
        facts: what it is.
        checks: one result per check, in the order of `ADAPTER_CHECKS`.
        config: the parsed `adapter_config.json`, or None if it cannot be read.
        schema_config: the parsed `schema_config.json`, likewise.
        tensors: those of `adapter_model.safetensors`, likewise.
    """

    folder: Path
    facts: AdapterFacts
    checks: tuple[CheckResult, ...]
    config: Mapping[str, Json] | None
    schema_config: Mapping[str, Json] | None
    tensors: tuple[TensorInfo, ...] | None

    @property
    def leaks(self) -> tuple[Leak, ...]:
        """Records to evaluate with that the adapter was trained or selected on, by file."""
        return tuple(leak for check in self.checks for leak in check.leaks)


def audit_adapter(
    folder: Path,
    *,
    base_model: Path | None = None,
    data: Sequence[Path] = (),
    near_duplicate: float = NEAR_DUPLICATE,
    others: Sequence[str] | None = (),
    keep: int,
) -> AdapterAudit:
    """Check everything about an adapter that can be checked without running it.

    Args:
        folder: as PEFT writes it, with `adapter_config.json` and `adapter_model.safetensors`, and
            `schema_config.json` next to them.
        base_model: folder of the base model to compare it with; None takes the one that the adapter
            names, if that is a folder here.
        data: dataset files and folders to compare with the training record: was the adapter
            trained or selected on what they evaluate with?
        near_duplicate: cosine from which two contexts are near duplicates, in (0, 1].
        others: names of files of its repository on the Hub that are not in the folder; they are
            judged by their names. None if they are not known.
        keep: findings of each code that are kept in full.

    Returns:
        The facts and one result per check. A check whose file is missing is skipped, with the
        reason.

    Raises:
        AdapterError: one of the two folders does not exist.
        InputError: a dataset cannot be read.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     audit = audit_adapter(Path(empty), keep=20)
        >>> for finding in audit.checks[0].findings:
        ...     print(finding.severity, finding.code, finding.place)
        error file-missing adapter_config.json
        error file-missing adapter_model.safetensors
    """
    require_adapter_folder(folder)
    if base_model is not None and not base_model.is_dir():
        message = f"{base_model}: no such folder"
        raise AdapterError(message)
    context = AdapterContext.open(folder, base_model=base_model, others=others, keep=keep)
    context = replace(context, data=data, near_duplicate=near_duplicate)
    return AdapterAudit(
        folder=folder,
        facts=_facts(context),
        checks=tuple(check.result(context) for check in ADAPTER_CHECKS.values()),
        config=context.config,
        schema_config=context.schema_config,
        tensors=context.tensors,
    )


def _facts(context: AdapterContext) -> AdapterFacts:
    tensors, lora, base = context.tensors, context.lora, context.base
    schema = context.schema_config or {}
    decision = context.decision
    places = [layer_module(name) for name in (lora.modules if lora is not None else ())]
    layers = {(place.stack, place.layer) for place in places if place is not None}
    return AdapterFacts(
        settings=context.settings,
        dtypes=None if tensors is None else dict(Counter(tensor.dtype for tensor in tensors)),
        n_modules=None if lora is None else len(lora.modules),
        n_layers=None if lora is None else len(layers),
        n_parameters=None if tensors is None else sum(tensor.size for tensor in tensors),
        base_model=base.model,
        base_revision=base.revision,
        base_folder=context.base_folder,
        contract_task=_text(schema.get("task")) or (TEMPLATE_TASK if decision else None),
        contract_stated_by=_text(schema.get(STATED_BY)),
        contract_fingerprint=_text(schema.get("contract_fingerprint"))
        or (decision.fingerprint if decision and not schema else None),
        prompt_code_sha256=_text(schema.get("prompt_code_sha256")),
        max_length_tokens=max_length_tokens(schema),
        files=context.files,
        hub=snapshot_of(context.folder),
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None
