"""Findings are counted and kept, sorted by severity, and fail an audit; by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pact_eval.audit.findings import (
    CODES,
    Check,
    CheckResult,
    Collector,
    codes_of,
    count,
    failed,
    failed_checks,
)
from pact_eval.errors import Place

ERROR, WARNING, NOTE = "not-json", "descriptions-alike", "no-eval-file"


def collected(*codes: str, keep: int = 2) -> Collector:
    collector = Collector("schema", keep)
    for line, code in enumerate(codes, start=1):
        collector.add(code, Place("x", line), "a", "b")
    return collector


def lines(collector: Collector) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.place.line) for finding in collector.result("").findings]


def test_the_first_findings_of_each_code_are_kept_and_all_are_counted() -> None:
    collector = collected(NOTE, ERROR, WARNING, ERROR, ERROR, "malformed")
    assert lines(collector) == [
        (ERROR, 2), (ERROR, 4), ("malformed", 6), (WARNING, 3), (NOTE, 1)
    ]  # fmt: skip
    assert collector.errors == 4
    assert collector.result("").counts == {NOTE: 1, ERROR: 3, WARNING: 1, "malformed": 1}
    assert [collector.wants(code) for code in (ERROR, WARNING, NOTE)] == [False, True, True]


def test_codes_of_a_severity_are_in_the_order_of_their_entry() -> None:
    result = collected("malformed", "duplicate-id", ERROR, ERROR).result("")
    assert result.codes("error") == [ERROR, "malformed", "duplicate-id"]
    assert (result.count("error"), result.count("note")) == (4, 0)
    assert codes_of("schema", "error")[:2] == (ERROR, "malformed")
    assert {CODES[code].severity for code in codes_of("schema", "error")} == {"error"}


@pytest.mark.parametrize(("left", "right"), [(0, 3), (1, 3), (2, 1), (3, 3)])
def test_a_joined_collector_is_as_if_all_were_added_to_it(left: int, right: int) -> None:
    joined, part = collected(*[ERROR] * left), Collector("schema", 2)
    for line in range(left + 1, left + right + 1):
        part.add(ERROR, Place("x", line), "a", "b")
    joined.join(part)
    assert lines(joined) == lines(collected(*[ERROR] * (left + right)))
    assert joined.result("").counts == {ERROR: left + right}


def test_a_joined_collector_keeps_what_is_new_in_the_other() -> None:
    joined = collected(ERROR, ERROR, ERROR)
    joined.join(collected(NOTE, WARNING))
    assert lines(joined) == [(ERROR, 1), (ERROR, 2), (WARNING, 2), (NOTE, 1)]


@pytest.mark.parametrize("code", ["family-size", "no such code"])
def test_a_collector_refuses_codes_of_other_checks(code: str) -> None:
    with pytest.raises(ValueError, match="not a code of the check schema"):
        Collector("schema", 1).add(code, Place("x"), "a", "b")


def test_checks_fail_on_a_severity_or_a_worse_one() -> None:
    checks = [CheckResult("schema", "", counts={code: 2}) for code in (ERROR, WARNING, NOTE)]
    expected = {"error": 1, "warning": 2, "note": 3}
    for severity, n_failed in expected.items():
        assert failed_checks(checks, severity) == checks[:n_failed]  # type: ignore[arg-type]
        assert count(checks, severity) == 2  # type: ignore[arg-type]
    assert not failed(checks[1:], "error")
    assert failed(checks[1:], "warning")


class Lacking:
    """A context that has "a" and nothing else."""

    def lacks(self, need: str) -> str | None:
        return f"no {need}" if need != "a" else None

    def collector(self, check: str) -> Collector:
        return Collector(check, 1)


def test_an_entry_needs_every_one_of_its_needs() -> None:
    needs = ("a", "b", "c")
    check: Check[Lacking] = Check("own", "?", lambda _, own: own.result("ran"), {}, needs=needs)
    assert check.result(Lacking()).skipped == "no b"
    assert replace(check, needs=("a",)).result(Lacking()).scope == "ran"
