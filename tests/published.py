"""Finds the published records that tests compare with; they stay outside the project."""

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[1]


def published_path(name: str) -> Path:
    """Returns the path of a published file; skips the test where the folder is missing.

    The folder is `published` in $PACT_SHARED, or else in `shared` beside the repository. A folder
    that lacks the file is an error, not a reason to skip.
    """
    shared = os.environ.get("PACT_SHARED")
    folder = (Path(shared) if shared else _REPOSITORY.parent / "shared") / "published"
    if not folder.is_dir():
        pytest.skip(f"no published records at {folder}: set PACT_SHARED")
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path}: the folder of published records lacks this file")
    return path
