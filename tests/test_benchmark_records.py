"""The page of the benchmarks shows every record that counts, of every processor."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def script(name: str) -> Any:
    """Load a script of `benchmarks` under a name of its own: `examples` has a `common` too."""
    spec = importlib.util.spec_from_file_location(
        f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module
    spec.loader.exec_module(module)
    return module


records = script("records")


def test_the_page_shows_every_record_that_counts() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    head, rows = records.records_table(records.read_records())
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    assert [line for line in page.splitlines() if line in lines] == lines
    entries = json.loads(records.RECORDS.read_text(encoding="utf-8"))
    assert {entry["processor"] for entry in entries} == {
        *re.findall(r"\| ([^|]+, \d+ cores) ", lines[0])
    }
