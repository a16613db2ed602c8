"""Context of the adapter checks: its folder, opened once, and the base that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from pact_eval._choices import FINDINGS_KEPT, NEAR_DUPLICATE
from pact_eval._json import Json
from pact_eval.audit.adapter.base import NamedBase, named_base
from pact_eval.audit.adapter.files import FileRecord, LoraSettings, list_files, read_settings, shown
from pact_eval.audit.adapter.tensors import LoraTensors, group_tensors
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.custody import TRAINING_RECORD, TrainingRecord, read_training_record
from pact_eval.errors import AdapterError, Place
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    TensorInfo,
    read_json_object,
    safetensors_header,
)
from pact_eval.templates.files import (
    DECISION_CONFIG,
    DecisionFiles,
    has_decision_files,
    is_decision_model,
    read_decision_files,
)

T = TypeVar("T")


@dataclass(frozen=True)
class AdapterContext:
    """An adapter folder as the checks see it. What cannot be read is None.

    Attributes:
        folder: the adapter's folder.
        base_model: folder of the base model that was given, or None.
        keep: findings of each code that are kept in full.
        files: every file by name.
        config: the parsed `adapter_config.json`.
        schema_config: the parsed `schema_config.json`.
        tensors: the tensors of `adapter_model.safetensors`.
        settings: the configuration with types.
        base: the base model that the adapter names.
        decision: what the decision files of transformers say, in this folder or the full model's.
        training: the training record of the adapter.
        full_model: folder of the full decision model that has the adapter as a subfolder, or None.
        unreadable: why a file with contents could not be read, by file name.
        data: dataset files and folders to compare with the training record.
        near_duplicate: cosine from which two contexts are near duplicates, in (0, 1].
    """

    folder: Path
    base_model: Path | None = None
    keep: int = FINDINGS_KEPT
    files: tuple[FileRecord, ...] = ()
    config: Mapping[str, Json] | None = None
    schema_config: Mapping[str, Json] | None = None
    tensors: tuple[TensorInfo, ...] | None = None
    settings: LoraSettings | None = None
    base: NamedBase = field(default_factory=NamedBase)
    decision: DecisionFiles | None = None
    training: TrainingRecord | None = None
    full_model: Path | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    data: Sequence[Path] = ()
    near_duplicate: float = NEAR_DUPLICATE
    _collectors: Mapping[str, Collector] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        base_model: Path | None,
        data: Sequence[Path] = (),
        near_duplicate: float = NEAR_DUPLICATE,
        others: Sequence[str] | None = (),
        keep: int,
    ) -> AdapterContext:
        """List and hash the files of an adapter; read its configurations, record and header.

        Raises:
            AdapterError: the folder is a full decision model without an adapter, or its decision
                files cannot be read.
        """
        full_model = folder if is_decision_model(folder) else None
        if full_model is not None:
            inside = read_decision_files(full_model).adapter
            if inside is None:
                raise AdapterError(
                    f"{full_model}: a full model (config.json) whose {DECISION_CONFIG} names no "
                    "adapter; there is none to audit"
                )
            folder, base_model = full_model / inside, base_model or full_model
        collectors = {check: Collector(check, keep) for check in ("files", "config")}
        files = list_files(folder, collectors["files"], others)
        usable = {record.name for record in files if record.sha256 is not None}
        unreadable: dict[str, str] = {}

        def read(name: str, reader: Callable[[Path], T], *, there: bool | None = None) -> T | None:
            try:
                return (
                    reader(folder / name) if (name in usable if there is None else there) else None
                )
            except AdapterError as error:
                unreadable[name] = str(error)
                return None

        config = read(ADAPTER_CONFIG, read_json_object)
        schema_config = read(SCHEMA_CONFIG, read_json_object)
        tensors = read(ADAPTER_WEIGHTS, safetensors_header)
        base = named_base(folder, config, schema_config)
        if base.model is None and full_model is not None:
            base = replace(base, folder=full_model)
        decided = full_model or folder
        return cls(
            folder=folder,
            base_model=base_model,
            keep=keep,
            files=files,
            config=config,
            schema_config=schema_config,
            tensors=tensors,
            settings=None if config is None else read_settings(config, collectors["config"]),
            base=base,
            decision=read(
                DECISION_CONFIG,
                lambda _: read_decision_files(decided),
                there=has_decision_files(decided),
            ),
            training=read(TRAINING_RECORD, lambda path: read_training_record(path.parent)),
            full_model=full_model,
            unreadable=unreadable,
            data=data,
            near_duplicate=near_duplicate,
            _collectors=collectors,
        )

    @cached_property
    def lora(self) -> LoraTensors | None:
        """The tensors by module."""
        return None if self.tensors is None else group_tensors(self.tensors)

    @property
    def base_folder(self) -> Path | None:
        """Folder of the base model that the adapter is compared with."""
        return self.base_model or self.base.folder

    def collector(self, check: str) -> Collector:
        """Return the collector of a check, with what was found while the folder was opened."""
        return self._collectors.get(check) or Collector(check, self.keep)

    def lacks(self, need: str) -> str | None:
        """Say why a file is not available; None if it is. No `schema_config.json` is a finding."""
        if need == "data":
            return None if self.data else "no --data given"
        record = next((record for record in self.files if record.name == need), None)
        if record is None:
            return None if need == SCHEMA_CONFIG else f"{need} is not there"
        return f"{need} cannot be opened" if record.sha256 is None else None

    def failed_to_read(self, collector: Collector, code: str, name: str) -> CheckResult:
        """Return the result of a check whose file has contents that cannot be read."""
        collector.add(code, Place(name), "a file that can be read", shown(self.unreadable[name]))
        return collector.result(name)
