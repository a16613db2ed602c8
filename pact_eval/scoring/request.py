"""Request to score a model. It needs no torch: a wrong path is found before torch is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pact_eval.errors import AdapterError

EngineName = Literal["auto", "fork", "batched", "naive"]
"""Names of engines; auto is the first of the others that works with the model."""


DtypeName = Literal["auto", "fp32", "bf16", "fp16", "float32", "bfloat16", "float16"]
"""Names of precisions; auto is that of the device."""

KernelName = Literal["fused", "products"]
"""Names of the kernels that attend to shared prefixes on a CPU."""

AttentionName = Literal["auto", KernelName]
"""Names of kernels that a user may choose; auto is the faster one of a probe."""

DEVICES: Final = ("auto", "cpu", "cuda", "mps", "xpu")
"""Devices that a user may choose; auto is the accelerator that torch offers, or else the CPU."""


@dataclass(frozen=True)
class ModelRequest:
    """Model to score, and settings, as the user requested them.

    Attributes:
        adapter: adapter folder, or a full decision model of transformers; None for a base model
            alone.
        base_model: folder or hub id; None takes the one that the adapter names.
        apply_adapter: False scores the base model that the adapter names.
        device: one of `DEVICES`.
        dtype: precision of weights and computation.
        batch_tokens: tokens per pass, padding included; None takes the device's default.
        allow_contract_mismatch: score an adapter that was trained on another prompt contract,
            tokenizer or chat template.
        engine: name of the engine; auto takes the fastest one that agrees with the plain forward
            pass.
        attention: kernel that attends to shared prefixes on a CPU; auto takes the faster one of a
            probe, and a resumed run the one that it has recorded.
        merge: add the adapter to the weights before scoring, and record how much logits change.
        contract: prompt contract: "nimble", "generic", or a folder or JSON file with a decision
            template; None takes the one that the files state.
        quantize: "nf4" stores the linear layers of the base in four bits; see `quantisation`.

    Raises:
        AdapterError: there is no adapter to add to the weights, or a pass has no token.
    """

    adapter: Path | None
    base_model: str | None = None
    apply_adapter: bool = True
    device: str = "auto"
    dtype: DtypeName = "auto"
    batch_tokens: int | None = None
    allow_contract_mismatch: bool = False
    engine: EngineName = "auto"
    attention: AttentionName = "auto"
    merge: bool = False
    contract: str | None = None
    quantize: str | None = None

    def __post_init__(self) -> None:
        if self.merge and (self.adapter is None or not self.apply_adapter):
            message = "--merge adds the adapter to the weights, --no-adapter leaves it out"
            raise AdapterError(message)
        if self.batch_tokens is not None and self.batch_tokens < 1:
            message = f"--batch-tokens: expected at least 1, got {self.batch_tokens}"
            raise AdapterError(message)
