"""Adapter folders that tests spoil: a shipped one, copied, and ways to change it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

import pact_fixtures
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.findings import CODES

MODEL = Path(pact_fixtures.__file__).parent / "model"
SHIPPED = Path(pact_fixtures.__file__).parent / "adapters"
COMMIT = "c1899de289a04d12100db370d81485cdf75e47ca"

Tensors = dict[str, torch.Tensor]
Spoil = Callable[[Path], object]
"""Changes an adapter folder in place."""


def copied(folder: Path) -> Path:
    """A copy of a shipped adapter that finds its base wherever it lies."""
    shutil.copytree(SHIPPED / "nimble_recipe", folder)
    config(base_model_name_or_path=None)(folder)
    schema(model=str(MODEL))(folder)
    return folder


def key(layer: int, module: str, factor: str) -> str:
    return f"base_model.model.model.layers.{layer}.{module}.lora_{factor}.weight"


def config(**changes: Any) -> Spoil:
    return lambda folder: _edit(folder / "adapter_config.json", changes)


def schema(**changes: Any) -> Spoil:
    return lambda folder: _edit(folder / "schema_config.json", changes)


def tensors(change: Callable[[Tensors], object]) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "adapter_model.safetensors"
        loaded = load_file(path)
        change(loaded)
        save_file(loaded, path)

    return spoil


def with_tensor(name: str, tensor: torch.Tensor) -> Spoil:
    return tensors(lambda loaded: loaded.update({name: tensor}))


def file(name: str, content: bytes | str = b"") -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return spoil


def both(*spoils: Spoil) -> Spoil:
    return lambda folder: [spoil(folder) for spoil in spoils]


def without_base(folder: Path) -> None:
    """Let the adapter name a hub id, pinned, with no hash."""
    config(base_model_name_or_path="elsewhere/base")(folder)
    schema(model="elsewhere/base", revision=COMMIT, base_weights_sha256=None)(folder)


def counts(audit: AdapterAudit) -> Counter[str]:
    """Count the findings by code; those of the training record have their own tests (custody)."""
    checks = (check for check in audit.checks if check.check != "training")
    return Counter({code: n for check in checks for code, n in check.counts.items()})


def errors(audit: AdapterAudit) -> set[str]:
    return {code for code in counts(audit) if CODES[code].severity == "error"}


def texts(audit: AdapterAudit, code: str) -> list[str]:
    return [
        f"{finding.place}: expected {finding.expected}, found {finding.actual}"
        for check in audit.checks
        for finding in check.findings
        if finding.code == code
    ]


def _edit(path: Path, changes: dict[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
