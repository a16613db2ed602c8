"""Object stores: content of a place, and the bytes of a file.

    class Store(Protocol):
        def size(self, url) -> int | None        # of a file; None if there is none
        def children(self, url) -> Children      # of a folder: names of folders, files with sizes
        def files(self, url) -> Iterator[File]   # of a folder and all folders in it
        def chunks(self, url) -> Iterator[bytes]

S3, Google and Azure are read through obstore. It binds the Rust library that polars uses, so both
take the same credentials from the environment. The Hugging Face Hub is read through its own client.
polars itself is not enough: a seal is a hash of exact bytes.

Messages never repeat what a store or a library says: it may hold keys and signatures.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies

from pact_eval.errors import InputError, MissingExtraError, missing_extra
from pact_eval.runs.remote.urls import Url

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ClientConfig

_CHUNK_BYTES: Final = 1 << 20
_CONNECT: Final = dt.timedelta(seconds=10)
_SILENCE: Final = dt.timedelta(seconds=30)
_WHOLE_FILE: Final = dt.timedelta(days=1)
_RETRIES: Final = 3
_CREDENTIALS: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a "
    "public bucket",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true for a public bucket",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "hf": "set HF_TOKEN, or log in with `hf auth login`",
}
_REACHING: Final = {
    "s3": "check AWS_ENDPOINT_URL and the network",
    "gs": "check the network",
    "az": "check AZURE_STORAGE_ACCOUNT_NAME and the network",
    "hf": "check HF_ENDPOINT, HF_HUB_OFFLINE and the network",
}
_ALLOW_HTTP: Final = {
    "s3": "AWS_ALLOW_HTTP",
    "gs": "GOOGLE_ALLOW_HTTP",
    "az": "AZURE_ALLOW_HTTP",
}
_TRUE: Final = ("1", "true", "on", "yes")
# As the Rust library prints it: the first is a part that may not be, the other one that is empty.
_REFUSED_KEY: Final = re.compile(
    r'Path "(.*?)"(?:: Encountered illegal| contained empty path)', re.DOTALL
)
_METADATA_ADDRESSES: Final = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
_METADATA_SERVERS: Final = (*_METADATA_ADDRESSES, "metadata.google.internal")
_NOWHERE: Final = "127.0.0.1:0"
"""Nothing can listen there."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file in an object store.

    Attributes:
        name: its path below the folder that was listed, with slashes.
        size: in bytes.
    """

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Children:
    """Content of a folder of an object store.

    Attributes:
        folders: names of the folders in it.
        files: the files in it, without those of its folders.
    """

    folders: tuple[str, ...]
    files: tuple[RemoteFile, ...]


class Store(Protocol):
    """An object store; every method raises `InputError` if it cannot be read."""

    def size(self, url: Url) -> int | None:
        """Return the size of a file in bytes; None if there is no such file."""
        ...

    def children(self, url: Url) -> Children:
        """Return what a folder holds; nothing if there is no such folder."""
        ...

    def files(self, url: Url) -> Iterator[RemoteFile]:
        """Yield the files of a folder and of all folders in it."""
        ...

    def chunks(self, url: Url) -> Iterator[bytes]:
        """Yield the bytes of a file, at most about 1 MiB at a time."""
        ...


def store_of(url: Url) -> Store:
    """Return the store that a URL leads to.

    Raises:
        MissingExtraError: the library that reads it is not installed.
        InputError: the environment does not configure it.
    """
    return Hub(url) if url.scheme == "hf" else Bucket(url)


class Bucket:
    """A bucket of S3, Google or Azure.

    Args:
        url: any place in it.
    """

    def __init__(self, url: Url) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ModuleNotFoundError:
            raise _missing(url, "obstore") from None
        self._obstore = obstore
        with self._explained(url):
            self._store = from_url(
                f"{url.scheme}://{url.bucket}",
                client_options={
                    "connect_timeout": _CONNECT,
                    "read_timeout": _SILENCE,
                    "timeout": _WHOLE_FILE,
                    # Options that are given here replace all of the environment.
                    "allow_http": os.environ.get(_ALLOW_HTTP[url.scheme], "").lower() in _TRUE,
                    **_no_other_hosts(url),
                },
                retry_config={"max_retries": _RETRIES, "retry_timeout": _SILENCE},
            )

    def size(self, url: Url) -> int | None:
        """Return the size of a file in bytes; None if there is no such file."""
        with self._explained(url):
            try:
                return int(self._obstore.head(self._store, url.path)["size"])
            except FileNotFoundError:
                return None

    def children(self, url: Url) -> Children:
        """Return what a folder holds; nothing if there is no such folder."""
        with self._explained(url):
            listing = self._obstore.list_with_delimiter(self._store, url.path or None)
        folders = (_below(url, prefix) for prefix in listing["common_prefixes"])
        return Children(tuple(folders), tuple(_file(url, entry) for entry in listing["objects"]))

    def files(self, url: Url) -> Iterator[RemoteFile]:
        """Yield the files of a folder and of all folders in it."""
        with self._explained(url):
            for listed in self._obstore.list(self._store, url.path or None, chunk_size=1000):
                yield from (_file(url, entry) for entry in listed)

    def chunks(self, url: Url) -> Iterator[bytes]:
        """Yield the bytes of a file, at most about 1 MiB at a time."""
        with self._explained(url):
            stream = self._obstore.get(self._store, url.path).stream(_CHUNK_BYTES)
            for chunk in stream:
                yield bytes(chunk)

    @contextmanager
    def _explained(self, url: Url) -> Iterator[None]:
        """Raise what prevents reading as one line, without the words of the store."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError:
            message = f"{url}: no such bucket, folder or file"
        except (BaseError, ValueError, OSError) as error:
            message = f"{url}: {_reason(url, error)}"
        else:
            return
        raise InputError(message)


def _no_other_hosts(url: Url) -> ClientConfig:
    """Return options that let the client reach the hosts that S3 needs, and no others.

    The client follows redirects and sends a session token along. No option forbids that. But if the
    proxy cannot be reached, neither can a host that may not bypass it.
    """
    if url.scheme != "s3" or getproxies():  # the user's own proxy is needed
        return {}
    return {"proxy_url": f"http://{_NOWHERE}", "proxy_excludes": ",".join(_s3_hosts(os.environ))}


def _s3_hosts(environment: Mapping[str, str]) -> list[str]:
    """Return the hosts that S3 may need: endpoints, and where credentials come from.

    Examples:
        >>> _s3_hosts({"AWS_ENDPOINT_URL": "https://s3.example.org:9000"})[-1]
        's3.example.org'
        >>> _s3_hosts({})[-1]
        'amazonaws.com'
    """
    urls = {name: text for name, text in environment.items() if name.startswith("AWS_")}
    hosts = {name: urlsplit(text).hostname for name, text in urls.items() if "://" in text}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    token_servers = ["sts.amazonaws.com", f"sts.{region}.amazonaws.com"]
    elsewhere = any(name.startswith("AWS_ENDPOINT") for name in hosts)
    usual = [] if elsewhere else ["amazonaws.com"]  # with the names below it, such as s3.REGION
    return [*_METADATA_ADDRESSES, *token_servers, *usual, *sorted(filter(None, hosts.values()))]


def _file(url: Url, entry: ObjectMeta) -> RemoteFile:
    return RemoteFile(_below(url, entry["path"]), int(entry["size"]))


def _below(url: Url, key: str) -> str:
    return key.removeprefix(f"{url.path}/" if url.path else "")


class Hub:
    """The Hugging Face Hub: `hf://datasets/owner/name@revision/path`, as in polars.

    Args:
        url: any place in it.
    """

    def __init__(self, url: Url) -> None:
        try:
            from huggingface_hub import HfFileSystem
        except ModuleNotFoundError:
            raise _missing(url, "huggingface_hub") from None
        self._hub = HfFileSystem(skip_instance_cache=True)

    def size(self, url: Url) -> int | None:
        """Return the size of a file in bytes; None if there is no such file."""
        with self._explained(url):
            try:
                info = self._hub.info(_hub_path(url))
            except FileNotFoundError:
                return None
        return None if info["type"] == "directory" else int(info["size"])

    def children(self, url: Url) -> Children:
        """Return what a folder holds; nothing if there is no such folder."""
        with self._explained(url):
            try:
                entries: list[Any] = self._hub.ls(_hub_path(url), detail=True)
            except FileNotFoundError:
                entries = []
        folders = [_last(entry) for entry in entries if entry["type"] == "directory"]
        files = [entry for entry in entries if entry["type"] != "directory"]
        return Children(
            tuple(folders), tuple(RemoteFile(_last(file), int(file["size"])) for file in files)
        )

    def files(self, url: Url) -> Iterator[RemoteFile]:
        """Yield the files of a folder and of all folders in it."""
        with self._explained(url):
            entries: Any = self._hub.find(_hub_path(url), detail=True)
            for name, info in entries.items():
                # The Hub may write the revision into names: our own part has as many slashes.
                parts = name.split("/")[_hub_path(url).count("/") + 1 :]
                yield RemoteFile("/".join(parts), int(info["size"]))

    def chunks(self, url: Url) -> Iterator[bytes]:
        """Yield the bytes of a file, at most about 1 MiB at a time."""
        with self._explained(url), self._hub.open(_hub_path(url), block_size=0) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk

    @contextmanager
    def _explained(self, url: Url) -> Iterator[None]:
        """Raise what prevents reading as one line, without the words of the Hub."""
        try:
            yield
        except FileNotFoundError:
            message = f"{url}: no such repository, revision, folder or file{absence(url)}"
        except (ValueError, NotImplementedError):  # the client cannot list the root of the Hub
            message = f"{url}: expected hf://datasets/OWNER/NAME[@REVISION]/PATH"
        except Exception as error:  # noqa: BLE001 - of the library, and of the one for its requests
            message = f"{url}: {_reason(url, error)}"
        else:
            return
        raise InputError(message)


def absence(url: Url) -> str:
    """Return what else may be the reason if nothing is found; "" if there is nothing."""
    if url.scheme != "hf":  # other stores say whether access is denied
        return ""
    return f"; if the repository is private, {_CREDENTIALS['hf']}"


def _hub_path(url: Url) -> str:
    return f"{url.bucket}/{url.path}".rstrip("/")


def _last(entry: dict[str, Any]) -> str:
    return str(entry["name"]).rpartition("/")[2]


def _missing(url: Url, library: str) -> MissingExtraError:
    return missing_extra(f"{url}: reading it", library, "remote")


def _reason(url: Url, error: Exception) -> str:
    """Say why a store cannot be read, by the kind and status of an error."""
    text = str(error)
    if (key := _REFUSED_KEY.search(text)) is not None:
        return (
            f"the store lists the key {key[1][:200]!r}, which cannot be a path: it has an empty "
            'part, "." or "..", or a control character'
        )
    if _NOWHERE in text:
        return (
            "the store redirects to another host, which is refused; set AWS_ENDPOINT_URL to the "
            "address that it has now"
        )
    status = _status(error, text)
    if any(server in text for server in _METADATA_SERVERS):
        return f"no credentials in the environment; {_CREDENTIALS[url.scheme]}"
    if status in (401, 403) or "Unauthenticated" in type(error).__name__:
        return f"access denied; {_CREDENTIALS[url.scheme]}"
    if status == 404:
        return "no such bucket"
    if status in (301, 307, 400) and url.scheme == "s3":
        return f"the store refuses the request (HTTP {status}); check AWS_REGION"
    if status is not None:
        return f"the store fails (HTTP {status}); try again later"
    if "URL scheme is not allowed" in text or "BadScheme" in text:
        allow = _ALLOW_HTTP[url.scheme]
        return f"the store has an address without TLS; set {allow}=true if that is meant"
    return f"the store cannot be reached or does not answer; {_REACHING[url.scheme]}"


def _status(error: Exception, text: str) -> int | None:
    """Return the HTTP status of a reply; None if there was none."""
    response = getattr(error, "response", None)
    if response is not None:
        return int(response.status_code)
    if "PermissionDenied" in type(error).__name__:
        return 403
    match = re.search(r"status(?:_code)?\W{1,3}(\d{3})|\b([45]\d\d) [A-Z][a-z]+", text)
    return None if match is None else int(match[1] or match[2])
