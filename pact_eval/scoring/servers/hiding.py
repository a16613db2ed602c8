"""The API key, hidden in everything that a server sends back and that is shown or written."""

from __future__ import annotations

import re
from typing import Final

from pact_eval._json import Json

_HIDDEN: Final = "[key]"


class KeyFilter:
    r"""Filter that replaces a key in texts and JSON values, however it is escaped.

    Args:
        key: printable ASCII; None replaces nothing.

    Examples:
        >>> hidden = KeyFilter("sk-1/2")
        >>> hidden.text("Bearer sk-1/2"), hidden.text(r"\u0073k-1\/2"), hidden.text("?k=SK-1%2F2")
        ('Bearer [key]', '[key]', '?k=[key]')
        >>> hidden.value({"model": ["x sk-1/2"], "sk-1/2": 1})
        {'model': ['x [key]'], '[key]': 1}
    """

    def __init__(self, key: str | None) -> None:
        self._key = None if key is None else key.lower()
        self._spellings = re.compile("".join(map(_spellings, key or "")), re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return a text without the key."""
        if self._key is None or not self._may_hold(text):
            return text
        return self._spellings.sub(_HIDDEN, text)

    def value(self, value: Json) -> Json:
        """Return a JSON value without the key, in texts, names and numbers."""
        if self._key is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(item) for name, item in value.items()}
        return _HIDDEN if str(value) == self._key else value

    def is_in(self, text: str) -> bool:
        """Return whether a text holds the key."""
        return self._key is not None and self.text(text) != text

    def _may_hold(self, text: str) -> bool:
        """Look for the key or an escape, which is much faster than the pattern."""
        return "\\" in text or "%" in text or str(self._key) in text.lower()


def _spellings(character: str) -> str:
    """Return the pattern of a character: as it is, or as JSON, Python and addresses escape it."""
    code = f"{ord(character):02x}"
    return rf"(?:\\*{re.escape(character)}|\\+(?:u00|x){code}|%{code})"
