"""Text from datasets and files, made safe to print."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pact_eval.errors import PactError, RecordError

_MOST_SHOWN = 2_000
_LONGEST_NAME = 32
_MAYBE_UNPRINTABLE = re.compile(r"[^ -~]")


def visible(text: str) -> str:
    r"""Show what is not printable but line feeds and tabs as escapes: for texts of several lines.

    Data shall neither steer the reader's terminal nor turn the order of its signs around. What is
    one line by its nature (an id, a name, a place) goes through `one_line`.

    Example:
        >>> print(visible("red \x1b[31m"))
        red \x1b[31m
    """
    return _escaped(text, kept="\n\t")


def one_line(text: str) -> str:
    r"""Show everything that is not printable as an escape, so that text from data stays one line.

    Line feeds and tabs, control and format characters (signs of direction, of no width), separators
    of lines, blanks but the ordinary one, and halves of surrogate pairs. Of a text that fills more
    than a screen, the beginning and its length are shown.

    Example:
        >>> print(one_line("x\nThe data passed.\u202e"))
        x\nThe data passed.\u202e
        >>> one_line("d" * 5_000_000).replace("d" * 2_000, "ddd")
        'ddd... (5,000,000 characters)'
    """
    if len(text) > _MOST_SHOWN:
        return f"{_escaped(text[:_MOST_SHOWN], kept='')}... ({len(text):,} characters)"
    return _escaped(text, kept="")


def lower_first(text: str) -> str:
    """Write the first letter small, to go on in a sentence.

    Example:
        >>> lower_first("No error shown")
        'no error shown'
    """
    return f"{text[:1].lower()}{text[1:]}"


def upper_first(text: str) -> str:
    """Write the first letter large, to begin a sentence.

    Example:
        >>> upper_first("no error shown")
        'No error shown'
    """
    return f"{text[:1].upper()}{text[1:]}"


def short_names(names: Sequence[str], longest: int = _LONGEST_NAME) -> tuple[str, ...]:
    """Cut the middle out of names that are too long for a line, if they still differ.

    Args:
        names: from data.
        longest: number of characters that a name may have.

    Example:
        >>> short_names(["pact", "a-recipe-with-a-long-name/and-a-seed-17"])
        ('pact', 'a-recipe-with-...and-a-seed-17')
    """
    side = (longest - 3) // 2
    safe = [one_line(name) for name in names]
    cut = [name if len(name) <= longest else f"{name[:side]}...{name[-side:]}" for name in safe]
    return tuple(cut if len(set(cut)) == len(set(safe)) else safe)


def first_of(names: Sequence[str], most: int = 4) -> str:
    """List names in a sentence, and count those that are left out.

    Example:
        >>> first_of(["choice", "boolean"]), first_of(list("abcdef"))
        ('choice, boolean', 'a, b, c, d and 2 more')
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def error_text(error: PactError) -> str:
    """Return an error's message, safe to print; each mistake of a file is on its own lines."""
    if not isinstance(error, RecordError):
        return visible(str(error))
    problems = [
        replace(
            problem,
            record_id=None if problem.record_id is None else one_line(problem.record_id),
            message=one_line(problem.message),
            remedy=one_line(problem.remedy),
        )
        for problem in error.problems
    ]
    return str(RecordError(one_line(error.source), problems))


def _escaped(text: str, *, kept: str) -> str:
    def escape(match: re.Match[str]) -> str:
        sign = match[0]
        if sign.isprintable() or sign in kept:
            return sign
        return sign.encode("unicode_escape").decode("ascii")

    return _MAYBE_UNPRINTABLE.sub(escape, text)
