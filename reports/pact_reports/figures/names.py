"""Names of files, from names in data."""

from __future__ import annotations

import re

from pact_eval.evaluation import CollectedRun

__all__ = ["run_stem", "stem"]

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 80


def stem(*parts: str) -> str:
    """Join parts into the stem of a file's name: letters, digits, dashes and underscores.

    Example:
        >>> stem("reliability", "../pact, seed 17")
        'reliability-pact-seed-17'
    """
    plain = [_UNSAFE.sub("-", part).strip("-") for part in parts]
    return "-".join(part for part in plain if part)[:_LONGEST]


def run_stem(figure: str, run: CollectedRun) -> str:
    """Return the stem of a figure of one run.

    Example:
        "reliability-pact-17"
    """
    return stem(figure, run.arm, "" if run.seed is None else str(run.seed))
