"""Tests that need what not every machine has: one visible skip per need names all of them."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path

import pytest


def needs(what: str, *, present: bool) -> pytest.MarkDecorator:
    """Return the mark of tests that need something, which this machine has or lacks."""
    return pytest.mark.needs(what, present)


def installed(module: str) -> bool:
    """Say whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def optional_tool(present: bool) -> pytest.MarkDecorator:
    """Return the mark of tests that run another tool, which the lock does not have."""
    return needs(
        "a tool outside the lock (lm-eval, PACT_PEERS_PYTHON)",
        present=present,
    )


def python_with(module: str) -> str | None:
    """Return the Python that has a module: that of the tests, or one below PACT_SERVERS."""
    if installed(module):
        return sys.executable
    folders = Path(os.environ.get("PACT_SERVERS") or os.devnull)
    found = sorted(folders.glob(f"*/lib/python*/site-packages/{module}"))
    return str(found[0].parents[3] / "bin" / "python") if found else None


def leave_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Keep the first test of every need that is not met, as a skip, and return the others."""
    lacking: dict[str, list[pytest.Item]] = {}
    for item in items:
        unmet = [mark.args[0] for mark in item.iter_markers("needs") if not mark.args[1]]
        if unmet:
            lacking.setdefault(unmet[0], []).append(item)
    for what, (first, *others) in lacking.items():
        files = Counter(item.path.name for item in (first, *others))
        names = ", ".join(f"{count} of {name}" for name, count in sorted(files.items()))
        first.add_marker(pytest.mark.skip(reason=f"needs {what}: not run are {names}"))
    return [item for _, *others in lacking.values() for item in others]
