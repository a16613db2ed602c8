"""The record of ratios: changes by hand computation, and the page that shows every processor."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
AMD, INTEL = "AMD EPYC, 2 cores", "Intel Xeon, 2 cores"
TWO = "two scorings at once / one scoring"
EARLIER = [
    records.Record("scoring", AMD, "aaaaaaa", "2026-01-01", {"peer / fork": 5.0}),
    records.Record("scoring", AMD, "bbbbbbb", "2026-01-02", {"peer / fork": 4.0}),
    records.Record("scoring", INTEL, "ccccccc", "2026-01-03", {"peer / fork": 8.0}),
    records.Record("shared-machine", AMD, "bbbbbbb", "2026-01-02", {TWO: 2.0}),
]


@pytest.mark.parametrize(
    ("benchmark", "name", "ratio", "line"),
    [
        ("scoring", "peer / fork", 4.2, "4.20, was 4.00 (bbbbbbb, 2026-01-02): +5%"),
        ("scoring", "peer / fork", 3.61, "3.61, was 4.00 (bbbbbbb, 2026-01-02): -10%"),
        (
            *("scoring", "peer / fork", 3.59),
            "3.59, was 4.00 (bbbbbbb, 2026-01-02): -10% LOSS of more than 10%",
        ),
        ("shared-machine", TWO, 1.5, "1.50, was 2.00 (bbbbbbb, 2026-01-02): -25%"),
        (
            *("shared-machine", TWO, 2.3),
            "2.30, was 2.00 (bbbbbbb, 2026-01-02): +15% LOSS of more than 10%",
        ),
        ("startup", "peer / fork", 4.0, "4.00, the first record on AMD EPYC, 2 cores"),
    ],
)
def test_changes_by_hand(benchmark: str, name: str, ratio: float, line: str) -> None:
    """The last record of the same benchmark and processor counts, not the best one."""
    record = records.Record(benchmark, AMD, "ddddddd", "2026-02-01", {name: ratio})
    assert [*records.changes(EARLIER, record)] == [f"{name}: {line}"]


def test_a_record_names_the_commit_that_was_measured(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    path = tmp_path / "records.json"
    path.write_text("[]", encoding="utf-8")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "a")
    assert "the first record" in records.add_record("scoring", AMD, {"peer / fork": 4.0}, path)
    assert "+50%" in records.add_record("scoring", AMD, {"peer / fork": 6.0}, path)
    first, second = records.read_records(path)
    assert first.commit == git("rev-parse", "--short", "HEAD")
    assert second.commit == f"{first.commit}+"  # the first record has changed the file
    assert (first.ratios, second.ratios) == ({"peer / fork": 4.0}, {"peer / fork": 6.0})


def test_the_page_shows_every_record_that_counts() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    head, rows = records.records_table(records.read_records())
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    assert [line for line in page.splitlines() if line in lines] == lines
    entries = json.loads(records.RECORDS.read_text(encoding="utf-8"))
    assert {entry["processor"] for entry in entries} == {
        *re.findall(r"\| ([^|]+, \d+ cores) ", lines[0])
    }
