"""Adapters and data that a user names: local, or downloaded from the Hub; stderr has the commit."""

from __future__ import annotations

from pathlib import Path

from pact_cli.console import announce
from pact_eval._files import is_url
from pact_eval.data.opening import local_data, only_file_of
from pact_eval.hub.downloads import hub_location, snapshot_of
from pact_eval.models.hub_adapters import AdapterPlace, find_adapter


def resolve_adapter(place: Path, *, audited: bool = False) -> AdapterPlace:
    """Return an adapter on this machine; one of the Hub is downloaded, and its commit is said.

    Args:
        place: a folder, or a Hub id.
        audited: as for `find_adapter`.

    Raises:
        AdapterError: the Hub cannot provide it.
    """
    adapter = find_adapter(place, audited=audited)
    _say("Adapter", adapter.folder)
    return adapter


def resolve_dataset(place: Path, *, one_file: bool = False) -> Path:
    """Return data on this machine; those of the Hub are downloaded, and their commit is said.

    Args:
        place: a file or folder, or `hf://datasets/owner/name[@revision][/path]`.
        one_file: of a snapshot, return its only data file. A folder with a manifest is returned as
            it is.

    Raises:
        InputError: the Hub cannot provide it.
        SeveralFilesError: nothing decides which of its files is meant.
    """
    if not is_url(place) and snapshot_of(place) is None:
        return place
    path = local_data(place)
    path = only_file_of(path) if one_file else path
    _say("Data", path)
    return path


def resolve_data_file(place: Path) -> Path:
    """Return a data file on this machine, as `resolve_dataset` does."""
    return resolve_dataset(place, one_file=True)


def _say(what: str, path: Path) -> None:
    name = hub_location(path)
    if name is not None:
        announce([f"{what}: {name}"])
