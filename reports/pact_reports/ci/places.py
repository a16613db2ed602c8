"""Paths of annotated files, as a repository names them."""

from __future__ import annotations

import os
from pathlib import Path

_WORKSPACE = "GITHUB_WORKSPACE"


def repository_path(path: Path) -> Path:
    """Return a path relative to the repository that is checked.

    The repository is the folder of the variable `GITHUB_WORKSPACE`; without it, the working folder.

    Args:
        path: of a file, absolute or relative to the working folder.

    Returns:
        The relative path; the absolute path of a file outside the repository.

    Examples:
        >>> repository_path(Path("data") / ".." / "data" / "eval.jsonl").as_posix()
        'data/eval.jsonl'
    """
    absolute = _absolute(path)  # a link in a repository is annotated itself
    workspace = os.environ.get(_WORKSPACE)
    for root in (Path(workspace) if workspace else Path(), Path()):
        if absolute.is_relative_to(_absolute(root)):
            return absolute.relative_to(_absolute(root))
    return absolute


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(Path.cwd() / path))
