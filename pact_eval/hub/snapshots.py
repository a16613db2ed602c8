"""Snapshots of repositories in the cache of the Hub's client, recognised by their place.

    .../datasets--owner--name/snapshots/<commit>/data/test.parquet -> ../../../blobs/<hash>
    .../models--owner--name/snapshots/<commit>/adapter_config.json -> ../../blobs/<hash>

The commit is part of the path, so neither the network nor the client is needed to know it. Files
are links to the blobs of the same repository, or files where links are not supported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pact_eval._json import Json

if TYPE_CHECKING:
    from pact_eval.hub.names import HubName, RepositoryKind

__all__ = [
    "Snapshot",
    "files_below",
    "hub_json",
    "hub_place",
    "located",
    "short_name",
    "snapshot_of",
    "stays_inside",
]

COMMIT: Final = re.compile(r"[0-9a-f]{40}")
"""Form of a commit."""

_REPOSITORY: Final = re.compile(r"(model|dataset)s--(.+?)--(.+)")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A repository at a commit, as the cache of the Hub has it.

    Attributes:
        kind: kind of the repository.
        repository: its id, `owner/name`.
        commit: 40 hex digits.
        folder: folder of the snapshot.
        path: the place in it that was looked at, with slashes; empty for the folder.
    """

    kind: RepositoryKind
    repository: str
    commit: str
    folder: Path
    path: str = ""

    @property
    def name(self) -> HubName:
        """The place at its commit."""
        from pact_eval.hub.names import HubName  # most paths are not in a snapshot

        return HubName(self.kind, self.repository, self.commit, self.path)

    @property
    def blobs(self) -> Path:
        """Folder of the files that the snapshots of the repository share."""
        return self.folder.parents[1] / "blobs"

    def to_json(self) -> dict[str, Json]:
        """Return repository, commit and place, for records.

        Examples:
            >>> place = Path("/cache/datasets--a--b/snapshots", "0" * 40, "test.csv")
            >>> snapshot = snapshot_of(place)
            >>> snapshot.to_json() if snapshot else None  # doctest: +ELLIPSIS
            {'kind': 'dataset', 'repository': 'a/b', 'commit': '000...000', 'path': 'test.csv'}
        """
        value: dict[str, Json] = {
            "kind": self.kind,
            "repository": self.repository,
            "commit": self.commit,
        }
        return value | ({"path": self.path} if self.path else {})


def snapshot_of(path: Path) -> Snapshot | None:
    """Return the snapshot that a file or folder belongs to; None if it belongs to none.

    Args:
        path: a path here; links of its folders are followed.

    Examples:
        >>> snapshot = snapshot_of(Path("/cache/models--a--b/snapshots", "f" * 40))
        >>> (snapshot.repository, snapshot.commit[:4]) if snapshot else None
        ('a/b', 'ffff')
        >>> snapshot_of(Path("data/test.csv")) is None
        True
    """
    absolute = path.absolute()
    return _snapshot(absolute) or _snapshot(absolute.parent.resolve() / absolute.name)


def _snapshot(path: Path) -> Snapshot | None:
    for folder in (path, *path.parents):
        if COMMIT.fullmatch(folder.name) and folder.parent.name == "snapshots":
            match = _REPOSITORY.fullmatch(folder.parents[1].name)
            if match is None:
                return None
            kind: RepositoryKind = "model" if match[1] == "model" else "dataset"
            inside = path.relative_to(folder).as_posix()
            place = "" if inside == "." else inside
            return Snapshot(kind, f"{match[2]}/{match[3]}", folder.name, folder, place)
    return None


def hub_place(path: Path | None) -> str | None:
    """Return what a path in a snapshot is called on the Hub; None for any other path.

    Examples:
        >>> hub_place(Path("/cache/models--a--b/snapshots", "f" * 40))
        'a/b@ffffffffffffffffffffffffffffffffffffffff'
        >>> hub_place(Path("adapters/pact")) is None
        True
    """
    snapshot = None if path is None else snapshot_of(path)
    return None if snapshot is None else str(snapshot.name)


def hub_json(path: Path) -> dict[str, Json]:
    """Return `{"hub": {...}}` with repository and commit for a file in a snapshot, otherwise {}.

    Examples:
        >>> hub_json(Path("data/test.csv"))
        {}
    """
    snapshot = snapshot_of(path)
    return {} if snapshot is None else {"hub": snapshot.to_json()}


def short_name(path: Path) -> str:
    """Return a path for tables and lists: of a snapshot, repository and place without the commit.

    Examples:
        >>> short_name(Path("/cache/datasets--a--b/snapshots", "f" * 40, "data", "test.csv"))
        'a/b/data/test.csv'
        >>> short_name(Path("data/test.csv"))
        'data/test.csv'
    """
    snapshot = snapshot_of(path)
    if snapshot is None:
        return str(path)
    return f"{snapshot.repository}/{snapshot.path}".rstrip("/")


def located(path: Path) -> Path:
    """Return a path without links, except the one from a snapshot to its blob.

    A blob has neither the name of the file nor its neighbours, such as the manifest.

    Raises:
        OSError: links form a loop.
    """
    in_folder = path.parent.resolve() / path.name
    snapshot = _snapshot(in_folder)
    if snapshot is not None and path.resolve().is_relative_to(snapshot.blobs):
        return in_folder
    return path.resolve()


def stays_inside(folder: Path, path: Path) -> bool:
    """Tell whether a path leads to a place inside a folder, or to a blob of its snapshot.

    Args:
        folder: the folder.
        path: a path below it, which may be a link.

    Raises:
        OSError: links form a loop.
    """
    root, target = folder.resolve(), path.resolve()
    snapshot = _snapshot(root)
    homes = [root] if snapshot is None else [root, snapshot.blobs]
    return any(target.is_relative_to(home) for home in homes)


def files_below(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, by their paths in it with slashes; links count as files."""
    for parent, _, names in os.walk(folder):
        for name in names:
            yield Path(parent, name).relative_to(folder).as_posix()
