"""Folders of the Hugging Face hub, named by an id and copied to this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pact_eval.errors import AdapterError
from pact_eval.scoring.tokenizer import reason


def folder_from_hub(
    name: str, revision: str | None, patterns: Sequence[str], *, what: str = "base model"
) -> Path:
    """Return the folder of a hub id, downloaded if it is not here yet.

    Args:
        name: `organisation/name`.
        revision: the revision to request; None for the newest.
        patterns: which files are wanted, such as `*.json`.
        what: what it is, for messages.

    Raises:
        AdapterError: the hub cannot provide it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*patterns]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        message = f"{what} {name!r}: the hub cannot provide it ({reason(error)})"
        raise AdapterError(message) from error
