"""Adapters and base models that are named by a Hub id: their folders in the cache of the Hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pact_eval.errors import AdapterError
from pact_eval.hub.downloads import download, list_repository, snapshot_of
from pact_eval.hub.names import HubName, is_hub_url, model_name
from pact_eval.models.folders import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    PICKLED_SUFFIXES,
    SCHEMA_CONFIG,
)

ADAPTER_FILES: Final = (
    *(ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG),
    *("training_data.json", "training.json", "log.jsonl"),
    *("decision.json", "decision_template.jinja"),
    *("head.safetensors", "readout.safetensors", "judge_config.json", "decision_config.json"),
)
"""Files of an adapter that some command reads; no others are downloaded."""


@dataclass(frozen=True)
class AdapterPlace:
    """An adapter on this machine.

    Attributes:
        folder: its folder; for a Hub id, the snapshot in the cache.
        others: files of its repository that were not downloaded, by name; None if the Hub was not
            asked, because `HF_HUB_OFFLINE` is set.
    """

    folder: Path
    others: tuple[str, ...] | None = ()


def find_adapter(place: str | Path, *, audited: bool = False) -> AdapterPlace:
    """Find an adapter: a folder here, or a repository of the Hub, whose files are downloaded.

    A local folder wins over a Hub id. A name without a revision whose first part is a folder here
    is taken for a local path that does not exist; `hf://` before it says otherwise.

    Args:
        place: a folder, or `owner/name`, with `@revision` after it and `hf://` before it or not.
        audited: whether an adapter that lacks files is taken as well: an audit says so.

    Raises:
        AdapterError: the Hub cannot provide it, or the repository holds no adapter.
        InputError: it begins with `hf://`, and is not the name of a repository.
        MissingExtraError: the client of the Hub is not installed.

    Examples:
        >>> find_adapter("./adapters/pact").folder
        PosixPath('adapters/pact')
    """
    name = _hub_name(place)
    if name is None:
        return AdapterPlace(Path(place))
    try:
        listing = list_repository(name, ADAPTER_FILES, AdapterError)
    except AdapterError as error:
        if is_hub_url(place) or name.revision is not None:
            raise
        raise AdapterError(f"{error}. There is no local folder {place} either") from None
    present = [file for file in ADAPTER_FILES if file in listing.files]
    others = tuple(sorted(set(listing.files) - set(present)))
    _check_files(name, present, others, audited=audited)
    folder = download(listing, present, AdapterError)
    return AdapterPlace(folder, None if listing.folder is not None else others)


def _hub_name(place: str | Path) -> HubName | None:
    """Return the repository that an adapter's name stands for; None for a local path."""
    path = Path(place)
    if is_hub_url(place):
        return model_name(place)
    if _exists(path):
        return None
    name = model_name(place)
    if name is None or (name.revision is None and _exists(Path(path.parts[0]))):
        return None
    return name


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 -- False, not an error, for a name that is too long


def _check_files(
    name: HubName, present: Sequence[str], others: Sequence[str], *, audited: bool
) -> None:
    """Refuse a repository without an adapter; an audit needs one of its two files.

    Raises:
        AdapterError: a file is missing; the message says what the repository has.
    """
    needed = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
    missing = [file for file in needed if file not in present]
    if not missing or (audited and len(missing) < len(needed)):
        return
    pickled = [file for file in others if Path(file).suffix in PICKLED_SUFFIXES]
    message = f"{name}: expected an adapter with {' and '.join(missing)}, found none"
    if pickled and ADAPTER_CONFIG in present:
        message += (
            f"; {', '.join(pickled[:3])} can run code and is refused: ask for the weights as "
            "safetensors"
        )
    elif "config.json" in others:
        message += (
            "; the repository holds a full model: to score it alone, use --base-model "
            f"{name.repository} --no-adapter without ADAPTER"
        )
    elif inside := [file for file in others if file.endswith(f"/{ADAPTER_CONFIG}")]:
        folders = ", ".join(file.rpartition("/")[0] for file in inside[:3])
        message += (
            f"; it has adapters in folders ({folders}): download one with `hf download "
            f"{name.repository}`, and give its folder"
        )
    raise AdapterError(message)


def model_folder(name: HubName, patterns: Sequence[str]) -> Path:
    """Return the folder of a base model or tokenizer of the Hub, downloaded if it is not here yet.

    Args:
        name: the repository.
        patterns: which files are wanted, such as `*.json`.

    Raises:
        AdapterError: the Hub cannot provide it.
        MissingExtraError: the client of the Hub is not installed.
    """
    listing = list_repository(name, patterns, AdapterError)
    files = [
        file for file in listing.files if any(fnmatchcase(file, pattern) for pattern in patterns)
    ]
    if not files:
        message = f"{name}: expected a model with {', '.join(patterns)}, found none of them"
        raise AdapterError(message)
    return download(listing, files, AdapterError)


def label_of(adapter: Path) -> str:
    """Return the name of an adapter folder; of a snapshot, that of its repository.

    Examples:
        >>> label_of(Path("/cache/models--owner--pact/snapshots", "f" * 40))
        'pact'
    """
    snapshot = snapshot_of(adapter)
    return adapter.resolve().name if snapshot is None else snapshot.repository.rpartition("/")[2]
