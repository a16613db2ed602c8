"""What a test asks of a message: its parts, not its sentence."""

from __future__ import annotations


def assert_says(text: object, *parts: str) -> None:
    """Assert that a text has every part, in this order; line breaks count as spaces."""
    message, place = " ".join(str(text).split()), 0
    assert parts, "name at least one part of the message"
    for part in parts:
        start = message.find(part, place)
        assert start >= 0, f"expected {part!r} after {message[:place]!r} in {message!r}"
        place = start + len(part)
