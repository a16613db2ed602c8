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


def test_the_costs_of_fork_follow_from_the_measured_seconds() -> None:
    seconds = _number(r"Fork takes ([\d.]+) s per item", PERFORMANCE)
    assert f"{seconds} s per item" in PAGE
    assert _hours("one process, engine fork") == pytest.approx(RECORDS * seconds / 3600, rel=0.02)


def test_the_costs_of_others_follow_from_their_ratios() -> None:
    fork = _hours("one process, engine fork")
    batched = _number(r"our batched / fork, pairs \| ([\d.]+) ", PERFORMANCE)
    assert _hours("one process, full prompts") == pytest.approx(fork * batched, rel=0.02)
    ratio = _number(r"Qwen3, 1,100 tokens, pairs \| 157 M .+\| ([\d.]+) \(1e-05\) \|", PERFORMANCE)
    assert _hours("vLLM on the CPU") == pytest.approx(fork * ratio, rel=0.03)


def test_the_cost_on_a_gpu_follows_from_the_measured_items_per_second() -> None:
    rate = _number(r"\| fork, K = 4 \| ([\d.]+) \|", PERFORMANCE)
    assert f"| {rate} items per second |" in PAGE
    assert _hours("H200") == pytest.approx(RECORDS / rate / 3600, rel=0.02)


def _hours(name: str) -> float:
    """Return the wall time of a way."""
    (row,) = re.findall(rf"^\| {re.escape(name)}.+$", PAGE, re.MULTILINE)
    return float(row.strip("|").split("|")[2].strip().removesuffix(" h"))
