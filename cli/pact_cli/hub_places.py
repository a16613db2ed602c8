"""Adapters and data that a user names: local, or downloaded from the Hub; stderr has the commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pact_cli.console import announce
from pact_eval._files import is_url
from pact_eval.hub.downloads import hub_place, snapshot_of

if TYPE_CHECKING:
    from pact_eval.models.hub_adapters import AdapterPlace

__all__ = ["adapter_here", "data_file_here", "data_here"]


def adapter_here(place: Path, *, audited: bool = False) -> AdapterPlace:
    """Return an adapter on this machine; one of the Hub is downloaded, and its commit is said.

    Args:
        place: a folder, or a Hub id.
        audited: as for `find_adapter`.

    Raises:
        AdapterError: the Hub cannot provide it.
    """
    from pact_eval.models.hub_adapters import find_adapter

    adapter = find_adapter(place, audited=audited)
    _say("Adapter", adapter.folder)
    return adapter


def data_file_here(place: Path) -> Path:
    """Return a data file on this machine; as `data_here`, of a snapshot its only data file.

    A folder with a manifest is returned as it is.

    Raises:
        InputError: the Hub cannot provide it.
        SeveralFilesError: nothing decides which of its files is meant.
    """
    if _is_plain(place):
        return place
    from pact_eval.data.opening import local_data, only_file_of

    path = only_file_of(local_data(place))
    _say("Data", path)
    return path


def data_here(place: Path) -> Path:
    """Return data on this machine; those of the Hub are downloaded, and their commit is said.

    Args:
        place: a file or folder, or `hf://datasets/owner/name[@revision][/path]`.

    Raises:
        InputError: the Hub cannot provide it.
        SeveralFilesError: nothing decides which of its files is meant.
    """
    if _is_plain(place):
        return place
    from pact_eval.data.opening import local_data

    path = local_data(place)
    _say("Data", path)
    return path


def _is_plain(place: Path) -> bool:
    """Return whether a place has nothing to do with the Hub: then nothing is imported for it."""
    return not is_url(place) and snapshot_of(place) is None


def _say(what: str, path: Path) -> None:
    name = hub_place(path)
    if name is not None:
        announce([f"{what}: {name}"])
