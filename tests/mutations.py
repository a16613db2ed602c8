"""Mutations of files: what accidents and people do to bytes, to texts and to JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Mutation = Callable[[random.Random, bytes], bytes]
"""Turns the bytes of a file into other bytes."""

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**63, -(2**63) - 1, 10**400, 0.5, -1e308, 1e-320),
    *("", " ", "\u202e", "\x00", "../../etc/passwd", "<script>alert(1)</script>", "a" * 20_000),
    *("\u2028", "=1+1", "${HOME}", "[bold]x[/]", "\\input{x}", "x\r\ny", "\ud7ff", "NaN"),
    *([], {}, [[]], [None], {"": {}}, [0] * 5_000, {"a": [{"b": None}]}),
)
"""Values that a reader must refuse, or show as they are."""


def flipped_bits(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 8))):
        if changed:
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(draw: random.Random, content: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def repeated(draw: random.Random, content: bytes) -> bytes:
    start, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    return content[:end] + content[start:]


def inserted(draw: random.Random, content: bytes) -> bytes:
    at = draw.randrange(len(content) + 1)
    odd = (b"\x00", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n\n", b"{", b'"', b"," * 9, b"[" * 300)
    return content[:at] + draw.choice(odd) + content[at:]


def replaced_file(draw: random.Random, content: bytes) -> bytes:
    odd = (
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b"0",
        b"PAR1",
        b"\x1f\x8b",
        b"\x80\x04.",
        b"[" * 5_000,
    )
    return draw.choice((*odd, content[::-1], b"9" * 5_000))


def other_value(draw: random.Random, content: bytes) -> bytes:
    """Put an odd value at a random place of one JSON document, or of one line of JSON lines."""
    lines = content.split(b"\n")
    at = draw.randrange(len(lines)) if _is_json(lines[0]) else None
    text = content if at is None else lines[at]
    try:
        value = json.loads(text)
    except ValueError:
        return flipped_bits(draw, content)
    changed = _with_other_value(draw, value)
    written = json.dumps(changed, ensure_ascii=False).encode("utf-8", errors="surrogatepass")
    if at is None:
        return written
    lines[at] = written
    return b"\n".join(lines)


def other_number(draw: random.Random, content: bytes) -> bytes:
    """Put an odd text where the file has a number."""
    digits = [at for at, sign in enumerate(content) if chr(sign).isdigit()]
    if not digits:
        return flipped_bits(draw, content)
    at = draw.choice(digits)
    odd = (b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"0x10", b"", b"true", b'"x"', b"1_0")
    return content[:at] + draw.choice(odd) + content[at + 1 :]


BYTES: tuple[Mutation, ...] = (flipped_bits, cut, repeated, inserted, replaced_file)
TEXT: tuple[Mutation, ...] = (*BYTES, other_number)
JSON: tuple[Mutation, ...] = (*TEXT, other_value, other_value, other_value)


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _with_other_value(draw: random.Random, value: Any) -> Any:
    """Return a copy in which one value, at any depth, is odd, gone, or under another name."""
    if isinstance(value, dict) and value and draw.random() < 0.85:
        key = draw.choice(list(value))
        action = draw.random()
        if action < 0.1:
            return {name: item for name, item in value.items() if name != key}
        if action < 0.15:
            return value | {f"{key}x": value[key]}
        return value | {key: _with_other_value(draw, value[key])}
    if isinstance(value, list) and value and draw.random() < 0.85:
        at = draw.randrange(len(value))
        return [*value[:at], _with_other_value(draw, value[at]), *value[at + 1 :]]
    return draw.choice(VALUES)
