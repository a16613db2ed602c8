"""TOML, with every fault as one message and its line.

Python's own parser raises a plain `ValueError` for a number of thousands of digits, which tells
users to change a setting of Python, and a `RecursionError` for tables that nest too deeply.
"""

from __future__ import annotations

import re
import sys
from typing import Any

_PLACE = re.compile(r" ?\(at line (\d+), column (\d+)\)")


class TomlError(ValueError):
    """A text is not TOML that can be used.

    Attributes:
        line: 1-based line number, or None if it is not known.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def loads(text: str) -> dict[str, Any]:
    """Return the values of a TOML text; a byte order mark is ignored.

    Raises:
        TomlError: it is not TOML, nests too deeply, or has a number of thousands of digits.

    Examples:
        >>> loads("margin = " + "1" * 5_000)
        Traceback (most recent call last):
            ...
        pact_eval._toml.TomlError: not usable TOML (a number has more than 4,300 digits)
    """
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), text) from None
    except RecursionError:
        message = "not usable TOML (nested too deeply)"
    except ValueError:
        message = (
            f"not usable TOML (a number has more than {sys.get_int_max_str_digits():,} digits)"
        )
    raise TomlError(message)


def _syntax_error(message: str, text: str) -> TomlError:
    place = _PLACE.search(message)
    if place is None:
        line = text.count("\n", 0, len(text.rstrip())) + 1 if "end of document" in message else None
        return TomlError(f"not valid TOML ({message})", line)
    what = message.replace(place[0], f" at column {place[2]}")
    return TomlError(f"not valid TOML ({what})", int(place[1]))
