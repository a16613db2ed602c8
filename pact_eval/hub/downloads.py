"""Downloads from the Hugging Face Hub into its cache, at a commit.

    listing = list_repository(HubName("model", "owner/adapter", "main"))
    folder = download(listing, ["adapter_config.json"])      # .../snapshots/<commit>

The client of the Hub does the work: it knows endpoint, token, cache and proxies. What it says is
never repeated, because its words may hold keys and signed addresses. The commit is asked for first,
so a branch that moves meanwhile is noticed, and an old copy is never taken for the newest one.
`HF_HUB_OFFLINE=1` reads what the cache has.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pact_eval._files import advice_on_full_disk
from pact_eval.errors import InputError, MissingExtraError, PactError, missing_extra
from pact_eval.hub.names import HubName
from pact_eval.hub.snapshots import COMMIT, files_below, stays_inside
from pact_eval.progress import step

__all__ = ["LOG_IN", "Listing", "download", "list_repository"]

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
    with _explained(name, error), step(f"Asking the Hub for {name}"):
        if client.constants.HF_HUB_OFFLINE:
            return _cached(client, name, needed)
        info = client.HfApi().repo_info(
            name.repository, repo_type=name.kind, revision=name.revision
        )
    commit = info.sha or ""
    if not COMMIT.fullmatch(commit):
        message = f"{name}: expected a commit of 40 hex digits from the Hub, got none"
        raise error(message)
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
        _check_name(name, file, error)
    folder = listing.folder
    if folder is None:
        folders = {_downloaded(name, file, error) for file in files}
        folder = folders.pop() if len(folders) == 1 else Path()
    if folder.name != listing.name.revision:
        message = f"{name}: the revision has moved meanwhile; repeat the command"
        raise error(message)
    for file in files:
        if not (folder / file).is_file() or not stays_inside(folder, folder / file):
            message = f"{name}: expected {file} in the snapshot {folder}, found none"
            raise error(message)
    return folder


def _downloaded(name: HubName, file: str, error: type[InputError]) -> Path:
    """Download a file, with a progress bar of the client; return the folder of its snapshot."""
    client = _client(name)
    with _explained(name, error):
        # Not at the commit: the cache then also knows what the branch is, for later, offline.
        path = client.hf_hub_download(
            name.repository, file, repo_type=name.kind, revision=name.revision
        )
    return Path(path).parents[file.count("/")]


def _cached(client: Any, name: HubName, needed: Sequence[str]) -> Listing:
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
        raise _missing(name) from None
    return huggingface_hub


def _missing(name: HubName) -> MissingExtraError:
    return missing_extra(
        f"{name}: downloading it", "huggingface_hub", "remote", "give the path of a local copy"
    )


def _check_name(name: HubName, file: str, error: type[InputError]) -> None:
    parts = file.split("/")
    strange = any(part in ("", ".", "..") or "\\" in part or ":" in part for part in parts)
    if strange or not file.isprintable():
        message = f"{name}: {file!r} cannot be the name of a local file inside its folder"
        raise error(message)


@contextmanager
def _explained(name: HubName, error: type[InputError]) -> Iterator[None]:
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
