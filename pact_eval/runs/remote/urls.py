"""URLs of object stores, and the local copies that stand for them.

Runs and logs may be URLs. `pact_eval.runs.remote` copies their files into a temporary folder, and
everything reads the copy. This module tells URLs from paths, says which URL a copy stands for, and
refuses to write to either: nothing is written to an object store.

`pathlib` drops a slash of `s3://bucket/run`. Both spellings are the same URL here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pact_eval._files import OBJECT_STORES, is_url, nothing_is_written
from pact_eval.errors import InputError, PactError, RecordError

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9]+):/(.*)", re.DOTALL)
_SLASH: Final = re.compile(rf"^({'|'.join(OBJECT_STORES)}):/(?!/)")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXPECTED: Final = "expected a path, or a URL that begins with s3://, gs://, az:// or hf://"
_PATTERN: Final = re.compile(r"[*?\[]")

_COPIES: dict[Path, Url] = {}


@dataclass(frozen=True, slots=True)
class Url:
    """A place in an object store.

    Attributes:
        scheme: one of `OBJECT_STORES`.
        bucket: the bucket or container; on Hugging Face, the first part (`datasets`, or an owner).
        path: the rest, without slashes at its ends; empty for the bucket itself.

    Examples:
        >>> url = url_of(Path("s3://bucket/runs/pact-*"))
        >>> str(url), url.name, url.is_pattern, str(url.folder)
        ('s3://bucket/runs/pact-*', 'pact-*', True, 's3://bucket/runs')
    """

    scheme: str
    bucket: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")

    def __truediv__(self, name: str) -> Url:
        return replace(self, path=f"{self.path}/{name}".lstrip("/"))

    @property
    def name(self) -> str:
        """The last part."""
        return self.path.rpartition("/")[2] or self.bucket

    @property
    def folder(self) -> Url:
        """The URL without its last part."""
        return replace(self, path=self.path.rpartition("/")[0])

    @property
    def is_pattern(self) -> bool:
        """Whether the last part has `*`, `?` or `[`, and stands for all names that match."""
        return bool(_PATTERN.search(self.name))


def url_of(place: str | Path) -> Url | None:
    """Return the URL that somebody gave; None for a local path.

    Args:
        place: what was given; a path that was a URL has lost a slash.

    Raises:
        InputError: it is a URL of another kind, holds credentials or a query, or has parts that
            are not names. The message does not repeat credentials.

    Examples:
        >>> str(url_of("s3://bucket/runs/pact/")), url_of(Path("runs/pact"))
        ('s3://bucket/runs/pact', None)
        >>> url_of("s3://AKIA:secret@bucket/runs/pact")
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: s3://...: expected a bucket after s3://; a URL may not hold \
credentials, which the environment gives (AWS_ACCESS_KEY_ID, ...)
    """
    match = _URL.fullmatch(place if isinstance(place, str) else place.as_posix())
    if match is None or not is_url(place):
        return None
    scheme = match[1].lower()
    if scheme not in OBJECT_STORES:
        message = f"{scheme}://...: {_EXPECTED}"
        raise InputError(message)
    bucket, _, path = match[2].removeprefix("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        message = (
            f"{scheme}://...: expected a bucket after {scheme}://; a URL may not hold credentials, "
            "which the environment gives (AWS_ACCESS_KEY_ID, ...)"
        )
        raise InputError(message)
    start, question, query = path.partition("?")
    if question and "=" in query:
        message = f"{scheme}://{bucket}/{start}?...: expected a URL without a query or signature"
        raise InputError(message)
    url = Url(scheme, bucket, path.rstrip("/"))
    _check_parts(url)
    return url


def _check_parts(url: Url) -> None:
    if url.path and not all(map(is_name, url.path.split("/"))):
        message = (
            f"{str(url)!r}: expected names between single slashes, without `.`, `..`, backslashes "
            "and control characters"
        )
        raise InputError(message)
    if _PATTERN.search(url.folder.path):
        message = f"{url}: expected `*`, `?` and `[` in the last part only"
        raise InputError(message)


def is_name(part: str) -> bool:
    """Return whether a part of a URL can be the name of a local file that stays in its folder.

    Examples:
        >>> [is_name(part) for part in ("run.json", "..", "", "a/b", "C:")]
        [True, False, False, False, False]
    """
    return part not in ("", ".", "..") and not re.search(r"[\x00-\x1f\x7f/\\]|^[A-Za-z]:", part)


def stands_for(copy: Path, url: Url) -> None:
    """Note that a local file or folder is the copy of a URL."""
    _COPIES[copy] = url


def shown(path: Path) -> str:
    """Return what a path is called in outputs: itself, or the URL that it is a copy of.

    Examples:
        >>> shown(Path("runs/pact")), shown(Path("s3://bucket/runs/pact"))
        ('runs/pact', 's3://bucket/runs/pact')
    """
    for folder in (path, *path.parents) if _COPIES else ():
        url = _COPIES.get(folder)
        if url is not None:
            return "/".join((str(url), *path.relative_to(folder).parts))
    return _SLASH.sub(r"\1://", str(path), count=1)


@contextmanager
def naming_urls() -> Iterator[None]:
    """Let errors of the block name URLs instead of their copies.

    Raises:
        PactError: what the block raises.
    """
    try:
        yield
    except RecordError as error:
        source = with_urls(error.source)
        problems = [
            replace(problem, message=with_urls(problem.message), remedy=with_urls(problem.remedy))
            for problem in error.problems
        ]
        raise RecordError(source, problems) from None
    except PactError as error:
        text = with_urls(str(error))
        if text == str(error):
            raise
        raise type(error)(text) from None


def with_urls(text: str) -> str:
    """Return a text with URLs in place of their copies."""
    for copy, url in _COPIES.items():
        text = text.replace(str(copy), str(url))
    return text


def refuse_remote(path: Path) -> None:
    """Refuse to write to an object store, or into a copy that is removed at the end.

    Args:
        path: the file or folder to write.

    Raises:
        InputError: it is a URL, or inside the copy of one.

    Examples:
        >>> refuse_remote(Path("s3://bucket/report.html"))
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: s3://bucket/report.html: nothing is written to object stores; \
give a local path, and copy the result
    """
    url = url_of(path)
    name = shown(path) if url is None else str(url)
    if url is not None or name != str(path):
        raise nothing_is_written(name)
