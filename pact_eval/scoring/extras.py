"""Errors that name the extra to install if a library that scoring needs is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pact_eval.errors import MissingExtraError, missing_extra

_MODEL_MODULES: Final = (
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "jinja2",
    "huggingface_hub",
)


@contextmanager
def model_extra(purpose: str = "this command") -> Iterator[None]:
    """Name the extra `model` if the block cannot import torch or what comes with it.

    Args:
        purpose: what needs it, in the singular.

    Raises:
        MissingExtraError: a library is not installed, or is broken or of another version.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _MODEL_MODULES:
            raise
        raise missing_extra(purpose, error.name, "model") from error
    except ImportError as error:
        # Installed, but broken or of another version: what it says is the only clue.
        message = (
            f"{purpose} needs a model, and {error.name or 'a library'} cannot be imported: "
            f"{error}; install the versions of constraints.txt"
        )
        raise MissingExtraError(message) from error


@contextmanager
def server_extra() -> Iterator[None]:
    """Name the extra `server` if the block cannot import httpx2.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "httpx2":
            raise
        raise missing_extra("--server", "httpx2", "server") from error


@contextmanager
def ray_extra() -> Iterator[None]:
    """Name the extra `ray` if the block cannot import Ray.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise missing_extra("--workers (or --ray)", "Ray", "model,ray") from error
