"""Paths of published metrics: CSV tables, and released result folders.

It imports nothing of ours, because commands look at their arguments before they load anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

RESULT_FILES: Final = ("results.json", "baselines.json")
"""Names of the files of a released result folder."""

_DEEPEST: Final = 3


def is_published(path: Path) -> bool:
    """Return whether a path holds published metrics, and is no run.

    Examples:
        >>> is_published(Path("run_metrics.csv")), is_published(Path("runs/pact-17"))
        (True, False)
    """
    return bool(result_files(path)) or (path.suffix.lower() == ".csv" and not path.is_dir())


def result_files(path: Path) -> list[Path]:
    """Return the result files that a path names: itself, or those in a folder, sorted.

    Folders up to three levels below are searched. A run folder of ours has none.
    """
    if path.name in RESULT_FILES:
        return [path]
    if not path.is_dir() or (path / "run.json").exists():
        return []
    levels = ("*/" * level for level in range(_DEEPEST + 1))
    return sorted(
        file for level in levels for name in RESULT_FILES for file in path.glob(level + name)
    )
