"""Names of repositories and files of the Hugging Face Hub, and downloads into its cache.

    hf://datasets/owner/name[@revision][/path]      labelled data
    [hf://]owner/name[@revision]                    an adapter or a base model

    listing = list_repository(HubName("model", "owner/adapter", "main"))
    folder = download(listing, ["adapter_config.json"])      # .../snapshots/<commit>

`pathlib` drops a slash of `hf://`; both spellings are the same name. The client of the Hub does the
work: it knows endpoint, token, cache and proxies. What it says is never repeated, because its words
may hold keys and signed addresses. The commit is asked for first, so a branch that moves meanwhile
is noticed, and an old copy is never taken for the newest one. `HF_HUB_OFFLINE=1` reads the cache.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote

from pact_eval._files import advice_on_full_disk
from pact_eval._json import Json
from pact_eval.errors import InputError, PactError, missing_extra
from pact_eval.progress import step

RepositoryKind = Literal["model", "dataset"]
"""Kinds of repositories that are read."""

_PART: Final = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_HUB_NAME: Final = re.compile(rf"{_PART}/{_PART}")
_SCHEME: Final = re.compile(r"hf://?", re.IGNORECASE)
_DATASET: Final = re.compile(
    rf"datasets/({_PART}/{_PART})(?:@(refs/(?:convert|pr)/[^/]+|[^/]*))?(?:/(.*))?"
)
_REVISION: Final = re.compile(r"[\w.][\w./+-]*")
_PLAIN: Final = re.compile(r"[\w.~/-]*")
_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9]{30,}")
"""An access token of the Hub: no branch, tag or commit looks like one."""

_EXPECTED_DATA: Final = "expected hf://datasets/OWNER/NAME[@REVISION][/PATH]"
_EXPECTED_MODEL: Final = "expected OWNER/NAME[@REVISION]"


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository of the Hub, or a place in it.

    Attributes:
        kind: kind of the repository.
        repository: its id, `owner/name`.
        revision: branch, tag or commit; None for the default branch.
        path: file or folder in it, with slashes; empty for the full repository.

    Examples:
        >>> str(HubName("dataset", "owner/name", "main", "data/test.csv"))
        'hf://datasets/owner/name@main/data/test.csv'
        >>> str(HubName("model", "owner/adapter"))
        'owner/adapter'
    """

    kind: RepositoryKind
    repository: str
    revision: str | None = None
    path: str = ""

    def __str__(self) -> str:
        start = "hf://datasets/" if self.kind == "dataset" else ""
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{start}{self.repository}{revision}/{self.path}".rstrip("/")

    def at(self, revision: str | None, path: str | None = None) -> HubName:
        """Return the same place at a revision, or another place there.

        Args:
            revision: the revision.
            path: the place; None keeps it.
        """
        return replace(self, revision=revision, path=self.path if path is None else path)


def is_hub_url(place: str | Path) -> bool:
    """Tell whether a place begins with `hf://`.

    Examples:
        >>> is_hub_url(Path("hf://datasets/owner/name")), is_hub_url("s3://bucket/run")
        (True, False)
    """
    return _SCHEME.match(_text(place)) is not None


def is_hub_id(name: str) -> bool:
    """Tell whether a name has the form of a Hub id, `owner/name`, with or without a revision.

    Examples:
        >>> is_hub_id("owner/name"), is_hub_id("owner/name@v1"), is_hub_id("./name"), is_hub_id("a")
        (True, True, False, False)
    """
    repository, at, revision = name.partition("@")
    return _HUB_NAME.fullmatch(repository) is not None and (not at or _is_revision(revision))


def dataset_name(place: str | Path) -> HubName | None:
    """Return the place in a dataset repository that a URL names; None for anything else.

    Args:
        place: what was given; a path that was a URL has lost a slash.

    Raises:
        InputError: it is a URL of the Hub, but not of a dataset.

    Examples:
        >>> dataset_name("hf://datasets/owner/name@refs/convert/parquet/data/test.parquet")
        HubName(kind='dataset', repository='owner/name', revision='refs/convert/parquet', \
path='data/test.parquet')
        >>> dataset_name("data/test.parquet") is None
        True
        >>> dataset_name("hf://owner/name")
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: hf://owner/name: expected hf://datasets/OWNER/NAME[@REVISION]\
[/PATH]
    """
    if not is_hub_url(place):
        return None
    inside = _without_scheme(place).rstrip("/")
    match = _DATASET.fullmatch(inside)
    if match is None or _TOKEN.search(unquote(inside)):
        raise _wrong(place, _EXPECTED_DATA)
    repository, revision, path = match.groups()
    is_path = not path or ("?" not in path and not {"", ".", ".."} & {*path.split("/")})
    if not is_path or not (revision is None or _is_revision(revision)):
        raise _wrong(place, _EXPECTED_DATA)
    return HubName("dataset", repository, revision and unquote(revision), path or "")


def model_name(place: str | Path) -> HubName | None:
    """Return the model repository that a place names; None if it has not the form of one.

    An adapter is in a model repository. Whether a local folder has this name is not looked at.

    Args:
        place: `owner/name`, with `@revision` after it and `hf://` before it or not.

    Raises:
        InputError: it begins with `hf://`, and is not followed by the name of a repository.

    Examples:
        >>> model_name("owner/adapter@v1.0")
        HubName(kind='model', repository='owner/adapter', revision='v1.0', path='')
        >>> model_name("adapters/pact/seed-17") is None
        True
    """
    text = _without_scheme(place)
    repository, at, revision = text.partition("@")
    is_id, is_url = is_hub_id(text), is_hub_url(place)
    if (is_url and not is_id) or ((is_url or is_id) and _TOKEN.search(unquote(text))):
        raise _wrong(place, _EXPECTED_MODEL)
    if not is_id:
        return None
    return HubName("model", repository, unquote(revision) if at else None)


def _is_revision(text: str) -> bool:
    plain = unquote(text)
    return _REVISION.fullmatch(plain) is not None and ".." not in plain


def _text(place: str | Path) -> str:
    return place if isinstance(place, str) else place.as_posix()


def _without_scheme(place: str | Path) -> str:
    return _SCHEME.sub("", _text(place), count=1)


def _wrong(place: str | Path, expected: str) -> InputError:
    """Return the error for a name, which is not repeated if it may hold credentials.

    Examples:
        >>> str(_wrong("hf://owner/name?token=secret", _EXPECTED_MODEL))
        'hf://...: expected OWNER/NAME[@REVISION]; a name may not hold a token (set HF_TOKEN)'
    """
    inside = _without_scheme(place)
    plain = _PLAIN.fullmatch(inside) is not None and _TOKEN.search(inside) is None
    remedy = "" if plain else "; a name may not hold a token (set HF_TOKEN)"
    return InputError(f"hf://{inside if plain else '...'}: {expected}{remedy}")


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
        names = ("kind", "repository", "commit", *(("path",) if self.path else ()))
        return {name: getattr(self, name) for name in names}


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


def hub_location(path: Path | None) -> str | None:
    """Return what a path in a snapshot is called on the Hub; None for any other path.

    Examples:
        >>> hub_location(Path("/cache/models--a--b/snapshots", "f" * 40))
        'a/b@ffffffffffffffffffffffffffffffffffffffff'
        >>> hub_location(Path("adapters/pact")) is None
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


LOG_IN: Final = "set HF_TOKEN, or log in with `hf auth login`"
"""What to do if the Hub wants to know who asks."""

_UNREACHABLE: Final = (
    "the Hub cannot be reached, or the download was cut off; repeat the command, which goes on "
    "with the rest, or check HF_ENDPOINT and the network. HF_HUB_OFFLINE=1 takes what was "
    "downloaded before"
)


@dataclass(frozen=True)
class Listing:
    """The files of a repository at a commit.

    Attributes:
        requested: the place as it was given.
        name: the same at its commit.
        files: paths of its files.
        folder: the snapshot, if the network is not used.
    """

    requested: HubName
    name: HubName
    files: tuple[str, ...]
    folder: Path | None = None


def list_repository(
    name: HubName, needed: Sequence[str] = (), error: type[InputError] = InputError
) -> Listing:
    """List the files of a repository, and resolve its revision to a commit.

    Args:
        name: the repository.
        needed: files that will be downloaded, if the repository has them. Offline, a cache that
            lacks one of them is refused where the client can tell.
        error: class of the error.

    Raises:
        InputError: there is no such repository or revision, access is denied, or the Hub cannot be
            reached; of the class `error`.
        MissingExtraError: the client of the Hub is not installed.
    """
    client = _client(name)
    with _explain(name, error), step(f"Asking the Hub for {name}"):
        if client.constants.HF_HUB_OFFLINE:
            return _cached_listing(client, name, needed)
        info = client.HfApi().repo_info(
            name.repository, repo_type=name.kind, revision=name.revision
        )
    commit = info.sha or ""
    if not COMMIT.fullmatch(commit):
        raise error(f"{name}: expected a commit of 40 hex digits from the Hub, got none")
    return Listing(name, name.at(commit), tuple(file.rfilename for file in info.siblings or ()))


def download(listing: Listing, files: Sequence[str], error: type[InputError] = InputError) -> Path:
    """Return the snapshot of a repository, with some of its files.

    Args:
        listing: the repository at its commit.
        files: paths of files in it.
        error: class of the error.

    Returns:
        The folder `.../snapshots/<commit>` in the cache of the Hub.

    Raises:
        InputError: a name would lead out of the folder, the branch has moved meanwhile, or a file
            cannot be downloaded or written; of the class `error`.
        MissingExtraError: the client of the Hub is not installed.
    """
    name = listing.requested
    for file in files:
        parts = file.split("/")
        strange = any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts)
        if strange or not file.isprintable():
            raise error(f"{name}: {file!r} cannot be the name of a local file inside its folder")
    folder = listing.folder
    if folder is None:
        client, folders = _client(name), set()
        with _explain(name, error):
            for file in files:
                # Not at the commit: the cache then also knows what the branch is, for later,
                # offline. The client shows a progress bar.
                path = client.hf_hub_download(
                    name.repository, file, repo_type=name.kind, revision=name.revision
                )
                folders.add(Path(path).parents[file.count("/")])
        folder = folders.pop() if len(folders) == 1 else Path()
    if folder.name != listing.name.revision:
        raise error(f"{name}: the revision has moved meanwhile; repeat the command")
    for file in files:
        if not (folder / file).is_file() or not stays_inside(folder, folder / file):
            raise error(f"{name}: expected {file} in the snapshot {folder}, found none")
    return folder


def _cached_listing(client: Any, name: HubName, needed: Sequence[str]) -> Listing:
    folder = Path(
        client.snapshot_download(
            name.repository,
            repo_type=name.kind,
            revision=name.revision,
            allow_patterns=[*needed],
            local_files_only=True,
        )
    )
    return Listing(name, name.at(folder.name), tuple(files_below(folder)), folder)


def _client(name: HubName) -> Any:
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors  # noqa: F401 - attributes of the package
    except ModuleNotFoundError:
        doing, remedy = f"{name}: downloading it", "give the path of a local copy"
        raise missing_extra(doing, "huggingface_hub", "remote", remedy) from None
    return huggingface_hub


@contextmanager
def _explain(name: HubName, error: type[InputError]) -> Iterator[None]:
    """Raise what prevents a download as one line, without the words of the Hub."""
    logging: Any = importlib.import_module("huggingface_hub.utils.logging")  # untyped
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # it would log addresses, which may be signed
    try:
        yield
    except PactError:
        raise
    except Exception as reason:  # noqa: BLE001 - of the client, and of the library for its requests
        message = f"{name}: {_reason(name, reason)}"
    else:
        return
    finally:
        logging.set_verbosity(verbosity)
    raise error(message)


def _reason(name: HubName, error: Exception) -> str:
    """Say why a repository cannot be read, and what to do."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.GatedRepoError):
        return f"access must be granted: ask for it on the page of the repository, then {LOG_IN}"
    if isinstance(error, errors.RepositoryNotFoundError):
        return (
            "the Hub shows no such repository; check the name. If the repository is private, "
            f"{LOG_IN}"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        revision = "" if name.revision is None else f" {name.revision}"
        return (
            f"the repository has no branch, tag or commit{revision}; leave @REVISION out for the "
            "default branch"
        )
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        return f"the Hub refuses the token, or fails (HTTP {status}); {LOG_IN}, or try again later"
    if constants.HF_HUB_OFFLINE:
        kind = " --repo-type dataset" if name.kind == "dataset" else ""
        revision = "" if name.revision is None else f" --revision {name.revision}"
        return (
            "HF_HUB_OFFLINE is set, and the cache lacks files of it; unset it, or download them "
            f"once with the network: hf download {name.repository}{kind}{revision}"
        )
    if isinstance(error, errors.HFValidationError):
        return "not the name of a repository, OWNER/NAME"
    if isinstance(error, OSError) and (advice_on_full_disk(error) or error.filename is not None):
        place = error.filename or constants.HF_HUB_CACHE
        return f"{place} cannot be written ({error.strerror}){advice_on_full_disk(error)}"
    return _UNREACHABLE
