"""Where the references stand."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from builders import question, record, write_jsonl
from scipy.stats import binomtest

from pact_eval.audit.balance import Balance, check_balance
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records


def balance_of(path: Path, pairs: list[tuple[int, int, int]]) -> CheckResult:
    """Takes (number of answers, reference of base, reference of counterfactual) a pair."""
    rows = [
        record(
            f"f{number}-{variant}",
            decision=question("score", n),
            reference={"target": reference},
        )
        for number, (n, *references) in enumerate(pairs)
        for variant, reference in zip(("base", "counterfactual"), references, strict=True)
    ]
    write_jsonl(path, rows)
    return check_balance(
        index_of_records([DataFile(path.name, "train", path)]), Collector("balance", 5)
    )


def test_tails_against_all_outcomes_of_a_few_pairs(tmp_path: Path) -> None:
    sizes = [3, 3, 4, 5]
    result: Balance = balance_of(tmp_path / "x.jsonl", [(n, 0, 1) for n in sizes]).measured
    outcomes = product(*([(a, b) for a in range(n) for b in range(n) if a != b] for n in sizes))
    counts = [sum(0 in pair for pair in outcome) for outcome in outcomes]
    first = result.positions[0]
    assert first.references == 4
    assert first.expected == pytest.approx(np.mean(counts))
    assert first.p_value == pytest.approx(np.mean(np.array(counts) >= 4))


def test_tails_against_binomtest(tmp_path: Path) -> None:
    pairs = [(5, 0, 1 + n % 4) for n in range(60)] + [(5, 1, 2)] * 20
    result: Balance = balance_of(tmp_path / "x.jsonl", pairs).measured
    p_value = binomtest(60, 80, 2 / 5, alternative="greater").pvalue
    assert result.positions[0].p_value == pytest.approx(p_value, abs=1e-12)
    assert math.isclose(sum(position.expected for position in result.positions), 160)


def test_a_position_that_always_holds_the_reference_is_told(tmp_path: Path) -> None:
    result = balance_of(tmp_path / "x.jsonl", [(4, 0, 1 + n % 3) for n in range(30)])
    assert [str(finding.actual) for finding in result.findings] == ["30 (2.00 times as many)"]
    assert "at position A" in result.findings[0].expected


def test_pairs_of_two_answers_cannot_favour_one(tmp_path: Path) -> None:
    assert balance_of(tmp_path / "x.jsonl", [(2, 0, 1)] * 40).counts == {}


@pytest.mark.slow
def test_balanced_references_are_seldom_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    flagged = 0
    for number in range(40):
        pairs = [
            (n := int(rng.integers(3, 7)), *rng.permutation(n)[:2].tolist()) for _ in range(80)
        ]
        flagged += bool(balance_of(tmp_path / f"{number}.jsonl", pairs).counts)
    assert flagged <= 1


def test_groups_count_every_record_once(tmp_path: Path) -> None:
    result: Balance = balance_of(tmp_path / "x.jsonl", [(3, 0, 2), (4, 3, 1)]).measured
    for by in ("kind", "domain", "source_family"):
        groups = [group for group in result.groups if group.by == by]
        assert sum(group.records for group in groups) == 4
        assert [sum(group.references) for group in groups] == [group.records for group in groups]
    assert result.groups[0].references == (1, 1, 1, 1)


def test_of_many_positions_each_is_tested_at_its_share_of_the_level(tmp_path: Path) -> None:
    """Bonferroni: 4 positions are tested at 0.1% together."""
    told_by_p_value = {}
    for count in range(10, 31):
        pairs = [(4, 0, 1 + n % 3) for n in range(count)]
        pairs += [(4, 1 + n % 3, 1 + (n + 1) % 3) for n in range(30 - count)]
        result = balance_of(tmp_path / f"{count}.jsonl", pairs)
        balance: Balance = result.measured
        first = balance.positions[0]
        if first.references > 1.3 * first.expected:
            told_by_p_value[first.p_value] = bool(result.counts)
    told = [p for p, is_told in told_by_p_value.items() if is_told]
    quiet = [p for p, is_told in told_by_p_value.items() if not is_told]
    assert max(told) < 0.001 / 4 <= min(quiet) < 0.001
