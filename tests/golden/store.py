"""The files of the record: one per case, the same bytes for the same record."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Final

from golden.compare import Difference, differences
from golden.record import Case, outcomes

RECORD: Final = Path(__file__).with_name("record")


def recorded(name: str) -> dict[str, Any]:
    """Return the record of a case; an empty one if there is none."""
    path = RECORD / f"{name}.json.xz"
    if not path.exists():
        return {}
    content: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return content


def write_record(name: str, record: dict[str, Any]) -> None:
    """Write the record of a case: the same bytes for the same record."""
    RECORD.mkdir(exist_ok=True)
    text = json.dumps(record, indent=0, ensure_ascii=False).encode("utf-8", "surrogatepass")
    (RECORD / f"{name}.json.xz").write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))


def compared(case: Case) -> tuple[list[Difference], dict[str, Any]]:
    """Run a case, and return its differences from the record and its new record."""
    new = json.loads(json.dumps(outcomes(case)))
    return list(differences(case.name, recorded(case.name), new)), new
