"""The page about many devices: its costs follow from the measured numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
PERFORMANCE = (ROOT / "benchmarks" / "performance.md").read_text(encoding="utf-8")
RECORDS = 100_000


def _number(pattern: str, text: str) -> float:
    (digits,) = re.findall(pattern, text)
    return float(digits)


@pytest.mark.parametrize("name", ["one process, engine fork", "8 such machines"])
def test_the_costs_of_fork_follow_from_the_measured_seconds(name: str) -> None:
    seconds = _number(r"Fork takes ([\d.]+) s per item", PERFORMANCE)
    wall, hours = _costs(name)
    machines = 8 if name.startswith("8") else 1
    assert f"{seconds} s per item" in PAGE
    assert hours == pytest.approx(RECORDS * seconds / 3600, rel=0.02)
    assert wall == pytest.approx(hours / machines, rel=0.02)


def test_the_costs_of_others_follow_from_their_ratios() -> None:
    _, fork = _costs("one process, engine fork")
    batched = _number(r"our batched / fork, pairs \| ([\d.]+) \|", PERFORMANCE)
    assert _costs("one process, full prompts")[1] == pytest.approx(fork * batched, rel=0.02)
    ratio = _number(r"Qwen3, 1,100 tokens, pairs \| 157 M .+\| ([\d.]+) \(1e-05\) \|", PERFORMANCE)
    assert _costs("vLLM on the CPU")[1] == pytest.approx(fork * ratio, rel=0.03)
    assert _costs("8 such servers")[0] == pytest.approx(fork * ratio / 8, rel=0.05)


def _costs(name: str) -> tuple[float, float]:
    """Return wall time and machine-hours of a way, in hours."""
    (row,) = re.findall(rf"^\| {re.escape(name)}.+$", PAGE, re.MULTILINE)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    return float(cells[2].removesuffix(" h")), float(cells[3])
