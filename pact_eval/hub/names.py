"""Names of repositories of the Hugging Face Hub, and of files in them.

    hf://datasets/owner/name[@revision][/path]      labelled data
    [hf://]owner/name[@revision]                    an adapter or a base model

Nothing is downloaded here. `pathlib` drops a slash of `hf://`; both spellings are the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import unquote

from pact_eval.errors import InputError

RepositoryKind = Literal["model", "dataset"]
"""Kinds of repositories that are read."""

_PART: Final = r"[A-Za-z0-9_-][A-Za-z0-9_.-]*"
_REPOSITORY: Final = re.compile(rf"{_PART}/{_PART}")
_SCHEME: Final = re.compile(r"hf://?", re.IGNORECASE)
_SPECIAL: Final = re.compile(r"(refs/(?:convert|pr)/[^/]+)(?:/(.*))?")
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
    return _REPOSITORY.fullmatch(repository) is not None and (not at or _is_revision(revision))


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
    parts = inside.split("/")
    if parts[0] != "datasets" or len(parts) < 3 or _TOKEN.search(unquote(inside)):
        raise _wrong(place, _EXPECTED_DATA)
    owner, name, rest = parts[1], parts[2], "/".join(parts[3:])
    name, at, revision = name.partition("@")
    if at:
        special = _SPECIAL.fullmatch(f"{revision}/{rest}" if rest else revision)
        revision, rest = (special[1], special[2] or "") if special else (unquote(revision), rest)
    repository = f"{owner}/{name}"
    is_path = not rest or all(part not in ("", ".", "..") for part in rest.split("/"))
    is_path = is_path and "?" not in rest
    if not _REPOSITORY.fullmatch(repository) or (at and not _is_revision(revision)) or not is_path:
        raise _wrong(place, _EXPECTED_DATA)
    return HubName("dataset", repository, revision if at else None, rest)


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
    has_token = _TOKEN.search(unquote(text)) is not None
    if is_hub_url(place) and (has_token or not is_hub_id(text)):
        raise _wrong(place, _EXPECTED_MODEL)
    if not is_hub_id(text):
        return None
    if has_token:
        raise _wrong(place, _EXPECTED_MODEL)
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
