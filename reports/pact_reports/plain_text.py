"""Text from datasets and files, made safe to print."""

from __future__ import annotations

import re

from rich.text import Text

__all__ = ["cell", "visible"]

# C0, DEL and C1 control characters but the line feed and the tab: they steer terminals.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    r"""Show control characters as escapes, so that data cannot steer the reader's terminal.

    Example:
        >>> print(visible("red \x1b[31m"))
        red \x1b[31m
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def cell(text: str) -> Text:
    """Return text from data as a renderable: no markup, no control characters."""
    return Text(visible(text))
