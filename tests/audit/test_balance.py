"""Where the references stand."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import question, record, write_jsonl
from scipy.stats import binomtest

from pact_eval.audit.balance import Balance, check_balance
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.schema import SchemaScan
from pact_eval.data.files import DataFile
from pact_eval.data.index import build_index, index_of_records


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


# every threshold and count


def kinds_of(folder: Path, *files: list[tuple[str, Any]]) -> CheckResult:
    """Takes (kind, target) a record, file by file."""
    data = []
    for number, rows in enumerate(files):
        records = [
            record(f"f{number}.{n}", decision=question(kind, 2), reference={"target": target})
            for n, (kind, target) in enumerate(rows)
        ]
        path = write_jsonl(folder / f"{number}.jsonl", records)
        data.append(DataFile(path.name, "train", path))
    index = build_index(data, SchemaScan("schema", 5))  # takes empty files too
    return check_balance(index, Collector("balance", 5))


def test_a_kind_that_a_file_lacks(tmp_path: Path) -> None:
    choice, score, boolean = ("choice", "answer_0"), ("score", 0), ("noul", True)
    result = kinds_of(tmp_path, [choice, score, boolean], [choice], [boolean, choice, score])
    (finding,) = result.findings
    assert (finding.code, str(finding.place)) == ("kind-missing", "1.jsonl")
    assert finding.actual == "no boolean, score records"
    assert result.scope == "7 references"


def test_files_of_the_same_kinds_lack_none(tmp_path: Path) -> None:
    assert kinds_of(tmp_path, [("score", 0)], [("score", 1)], []).counts == {}


def test_groups_against_hand_computation(tmp_path: Path) -> None:
    """Two families of one domain, of three and four answers."""
    result: Balance = balance_of(tmp_path / "x.jsonl", [(3, 0, 2), (4, 2, 1)]).measured
    assert [(group.by, group.name, group.records, group.families) for group in result.groups] == [
        ("kind", "score", 4, 2),
        ("domain", "travel", 4, 2),
        ("source_family", "travel-01", 4, 2),
    ]
    assert {group.references for group in result.groups} == {(1, 1, 2, 0)}
    assert {group.file for group in result.groups} == {"x.jsonl"}


def test_positions_of_unpaired_records_against_binomtest(tmp_path: Path) -> None:
    """One record of three answers a family: 1/3 each."""
    rows = [
        record(f"f{n}", decision=question("score", 3), reference={"target": int(n > 8)})
        for n in range(12)
    ]
    path = write_jsonl(tmp_path / "x.jsonl", rows)
    index = index_of_records([DataFile("x.jsonl", "train", path)])
    balance: Balance = check_balance(index, Collector("balance", 5)).measured
    assert [position.position for position in balance.positions] == [0, 1, 2]
    assert [position.references for position in balance.positions] == [9, 3, 0]
    for position in balance.positions:
        tail = binomtest(position.references, 12, 1 / 3, alternative="greater").pvalue
        assert position.expected == pytest.approx(4)
        assert position.p_value == pytest.approx(tail, abs=1e-12)
        assert (position.file, position.kind) == ("x.jsonl", "score")


def test_a_position_that_only_some_records_have(tmp_path: Path) -> None:
    """The third position is one of two families': expected 2 of 3 of its pair."""
    balance: Balance = balance_of(tmp_path / "x.jsonl", [(2, 0, 1), (3, 0, 2)]).measured
    third = balance.positions[2]
    assert third.references == 1
    assert third.expected == pytest.approx(2 / 3)
    assert third.p_value == pytest.approx(2 / 3)
    assert balance.positions[0].expected == pytest.approx(1 + 2 / 3)


def test_a_position_a_fifth_above_expectation_is_not_favoured(tmp_path: Path) -> None:
    """720 of 1,200 pairs are 1.2 times the 600 expected, and not enough; 728 are."""
    counts = {}
    for favoured in (720, 728):
        pairs = [(4, 0, 1 + n % 3) for n in range(favoured)]
        pairs += [(4, 1 + n % 3, 1 + (n + 1) % 3) for n in range(1_200 - favoured)]
        result = balance_of(tmp_path / f"{favoured}.jsonl", pairs)
        balance: Balance = result.measured
        assert (balance.positions[0].references, balance.positions[0].expected) == (favoured, 600)
        assert balance.positions[0].p_value < 1e-10
        counts[favoured] = result.counts
    assert counts == {720: {}, 728: {"position-favoured": 1}}


def test_no_tail_is_negative(tmp_path: Path) -> None:
    """The Fourier transform alone gives -1e-17 for 94 or more of 105 at 1/2."""
    rows = [
        record(f"f{n}", decision=question("score", 2), reference={"target": int(n >= 94)})
        for n in range(105)
    ]
    path = write_jsonl(tmp_path / "x.jsonl", rows)
    index = index_of_records([DataFile("x.jsonl", "train", path)])
    balance: Balance = check_balance(index, Collector("balance", 5)).measured
    assert 0 <= balance.positions[0].p_value < 1e-12
