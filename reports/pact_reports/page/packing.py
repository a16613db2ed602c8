"""Blocks of bytes in a page: compressed and in base64, with direct access to each block.

The browser unpacks a block when it shows one of its items. Equal blocks are stored once, so runs on
the same prompts share their letter orders and lengths.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._json import Json
from pact_reports.markup import Html

NOT_KNOWN: Final = 65_535
"""The step that encodes NaN."""

_STEPS: Final = 64
_LEVEL: Final = 6
# Base64 characters in one script element, which a browser parses in one piece.
_ELEMENT: Final = 1_000_000

_DTYPES: Final = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "i4": "<i4"}


def to_steps(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Convert fractions to steps of a 64th of a per mille, which sort finely and round exactly.

    The integer quotient of a step and 64 is the fraction rounded to a per mille. So a percentage
    with one decimal is rounded only once.

    Args:
        values: fractions in [0, 1]; NaN becomes `NOT_KNOWN`.

    Example:
        >>> steps = to_steps(np.array([0.0, 0.12345, 1.0, np.nan]))
        >>> steps.tolist(), (steps // 64).tolist()[:3]
        ([32, 7932, 64032, 65535], [0, 123, 1000])
    """
    fractions = np.clip(np.nan_to_num(values, nan=0.0), 0.0, 1.0)
    steps = np.floor((fractions * 1000 + 0.5) * _STEPS)
    return np.where(np.isnan(values), NOT_KNOWN, steps).astype(np.uint16)


def to_permille(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint16]:
    """Round fractions to a per mille; NaN becomes `NOT_KNOWN`.

    Example:
        >>> to_permille(np.array([0.1234, 0.9996])).tolist()
        [123, 1000]
    """
    steps = to_steps(values)
    return np.where(steps == NOT_KNOWN, NOT_KNOWN, steps // _STEPS).astype(np.uint16)


def bytes_of(values: npt.NDArray[np.generic], dtype: str) -> bytes:
    r"""Return numbers as little-endian bytes: first bytes of all numbers, then second bytes.

    Bytes of the same significance are similar, so they compress better next to each other.

    Args:
        values: integers.
        dtype: u1, u2, u4 or i4.

    Example:
        >>> bytes_of(np.array([1, 258]), "u2")
        b'\x01\x02\x00\x01'
    """
    flat = np.ascontiguousarray(values.astype(_DTYPES[dtype]))
    return flat.view(np.uint8).reshape(flat.size, flat.itemsize).T.tobytes()


class BlockStore:
    """Collects blocks and writes them as script elements in base64.

    Example:
        >>> store = BlockStore()
        >>> store.add(b"abc"), store.add(b"def"), store.add(b"abc")
        (0, 1, 0)
        >>> store.index
        [[16, 16]]
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._elements: list[list[str]] = []
        self._length = 0

    def add(self, raw: bytes) -> int:
        """Pack a block and return its number."""
        digest = hashlib.sha256(raw).digest()
        if digest in self._numbers:
            return self._numbers[digest]
        text = base64.b64encode(zlib.compress(raw, _LEVEL)).decode("ascii")
        if not self._elements or self._length + len(text) > _ELEMENT:
            self._elements.append([])
            self._length = 0
        self._elements[-1].append(text)
        self._length += len(text)
        self._numbers[digest] = len(self._numbers)
        return self._numbers[digest]

    def add_json(self, value: Json) -> int:
        """Pack JSON in UTF-8 and return the number of its block."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return self.add(text.encode("utf-8", errors="backslashreplace"))

    @property
    def index(self) -> list[Json]:
        """Lengths of the blocks of each element, in base64 characters."""
        return [[len(text) for text in texts] for texts in self._elements]

    @property
    def html(self) -> Html:
        """The elements; base64 needs no escaping."""
        return Html(
            "\n".join(
                f'<script type="text/plain" id="blocks-{number}">{"".join(texts)}</script>'
                for number, texts in enumerate(self._elements)
            )
        )
