"""From the options that choose a model to what the library asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pact_eval.errors import MissingExtraError

if TYPE_CHECKING:
    from pact_eval.scoring.engine import EngineName
    from pact_eval.scoring.model import ModelRequest

__all__ = ["needs_model_extra", "subject_request"]

_EXTRA_MODULES = ("torch", "transformers", "peft", "safetensors", "jinja2", "huggingface_hub")


def subject_request(
    *,
    adapter: Path | None,
    base_model: str | None,
    no_adapter: bool,
    device: str,
    dtype: str,
    batch_tokens: int | None,
    allow_contract_mismatch: bool,
    engine: EngineName,
    merge: bool,
) -> ModelRequest:
    """Check the options against each other and gather them.

    Raises:
        UsageError: neither an adapter nor a base model without one was asked for, or no adapter is
            there to be merged.
    """
    if merge and no_adapter:
        message = "--merge adds the adapter to the weights, --no-adapter leaves it out"
        raise click.UsageError(message)
    if adapter is None and not (no_adapter and base_model):
        message = "expected ADAPTER, or --base-model with --no-adapter for a base model alone"
        raise click.UsageError(message)
    with needs_model_extra():
        from pact_eval.scoring.model import ModelRequest
    return ModelRequest(
        adapter=adapter,
        base_model=base_model,
        apply_adapter=not no_adapter,
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        allow_contract_mismatch=allow_contract_mismatch,
        engine=engine,
        merge=merge,
    )


@contextmanager
def needs_model_extra() -> Iterator[None]:
    """Say what to install where torch or transformers is missing."""
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] not in _EXTRA_MODULES:
            raise
        message = (
            f"this command needs a model, and {error.name} is not installed; install the extra: "
            "pip install --constraint constraints.txt '.[model]'"
        )
        raise MissingExtraError(message) from error
