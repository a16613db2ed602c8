"""Local folders and files of the places that a user gives: paths, or URLs of object stores.

This is the one place where what a user gives becomes a local folder or file. What copies is loaded
for a URL only.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pact_eval.errors import RunError
from pact_eval.runs.remote.urls import url_of


def run_folder(place: str | Path) -> Path:
    """Return the local folder of a run: the one that was given, or the copy of a URL.

    Args:
        place: a run folder, or its URL.

    Raises:
        RunError: there is no complete run at the URL.
        InputError: the URL cannot be read, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.

    Examples:
        >>> run_folder("runs/pact")
        PosixPath('runs/pact')
    """
    url = url_of(place)
    if url is None:
        return Path(place)
    if url.is_pattern:
        message = f"{url}: expected one run folder, got a pattern"
        raise RunError(message)
    from pact_eval.runs.remote.copies import copied_runs

    (folder,) = copied_runs(url)
    return folder


def run_folders(places: Iterable[str | Path]) -> list[Path]:
    """Return the local folders of runs; a pattern stands for the folders that match, by name.

    Args:
        places: run folders, URLs, or URLs with `*`, `?` or `[` in the last part.

    Raises:
        RunError: there is no complete run at a URL, or nothing matches a pattern.
        InputError: a URL cannot be read, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.
    """
    folders: list[Path] = []
    for place in places:
        url = url_of(place)
        if url is None or not url.is_pattern:
            folders.append(run_folder(place))
            continue
        from pact_eval.runs.remote.copies import copied_runs

        folders += copied_runs(url)
    return folders


def log_path(place: str | Path) -> Path:
    """Return the local file or folder of a log: the one that was given, or the copy of a URL.

    Args:
        place: a file or folder, a URL, or a URL with a pattern: a folder of the files that match.

    Raises:
        InputError: the URL cannot be read, has too many files or names that lead out of their
            folder, or there is no space for the copy.
        MissingExtraError: the library that reads it is not installed.
    """
    url = url_of(place)
    if url is None:
        return Path(place)
    from pact_eval.runs.remote.copies import copied_log

    return copied_log(url)
