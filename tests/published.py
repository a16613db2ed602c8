"""Finds the published records that tests compare with; they stay outside the project."""

import os
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parents[1]


def shared_path(name: str) -> Path:
    """Returns the path of a file in the shared folder; skips the test where its folder is missing.

    The shared folder is $PACT_SHARED, or else `shared` beside the repository. A folder that lacks
    the file is an error, not a reason to skip.
    """
    shared = os.environ.get("PACT_SHARED")
    path = (Path(shared) if shared else _REPOSITORY.parent / "shared") / name
    if not path.parent.is_dir():
        pytest.skip(f"no published records at {path.parent}: set PACT_SHARED")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: the folder of published records lacks this file")
    return path


def published_path(name: str) -> Path:
    """Returns the path of a file of the published experiment; see `shared_path`."""
    return shared_path(f"published/{name}")
