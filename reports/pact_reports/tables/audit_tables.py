"""The terminal report of an audit: findings, one table of checks, one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.box import ASCII2, SIMPLE_HEAD, Box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pact_eval.audit import (
    CODES,
    SEVERITIES,
    CheckResult,
    Finding,
    Severity,
    count,
    failed,
    failed_checks,
)
from pact_eval.data import WordDiff
from pact_reports.plain_text import cell, lines, one_line
from pact_reports.tables.audit_measures import measured_line

__all__ = ["checks_table", "finding_lines", "verdict_line"]

_STYLE: Mapping[Severity, str] = {
    "error": "bold red",
    "warning": "bold yellow",
    "note": "bold cyan",
}
_WORDS_KEPT = 6


def finding_lines(checks: Sequence[CheckResult], *, plain: bool) -> Iterator[RenderableType]:
    """Lay out the findings, worst first, with a count of those that are not shown.

    Args:
        checks: results of the checks.
        plain: mark words with signs instead of colours, for output that is piped.

    Yields:
        Renderables, one a finding.
    """
    for severity in SEVERITIES:
        for check in checks:
            for code in (each for each in CODES if CODES[each].severity == severity):
                if code in check.counts:
                    yield from _findings_of(check, code, plain=plain)


def _findings_of(check: CheckResult, code: str, *, plain: bool) -> Iterator[RenderableType]:
    shown = [finding for finding in check.findings if finding.code == code]
    for finding in shown:
        yield _finding(finding, plain=plain)
    rest = check.counts[code] - len(shown)
    if rest and shown:
        yield Text(f"  ... and {rest:,} more of {code}\n", style="dim")
    elif rest:
        yield _head(code).append(f": {rest:,}")


def _head(code: str) -> Text:
    severity = CODES[code].severity
    head = Text(f"{severity} ", style=_STYLE[severity])
    return head.append(f"{CODES[code].check}/{code}", style="bold")


def _finding(finding: Finding, *, plain: bool) -> RenderableType:
    head = _head(finding.code).append(f"  {one_line(str(finding.place))}")
    told = lines([f"  expected  {finding.expected}", f"  found     {finding.found}"])
    parts: list[RenderableType] = [head, told]
    if finding.comparison is not None:
        parts.append(Padding(_side_by_side(finding.comparison, plain=plain), (0, 0, 0, 2)))
    return Group(*parts, Text())


def _side_by_side(diff: WordDiff, *, plain: bool) -> Table:
    """Show two texts beside each other, long common runs shortened, differing words marked."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    sides: tuple[list[Text], list[Text]] = ([], [])
    last = len(diff.segments) - 1
    for number, segment in enumerate(diff.segments):
        for side, words in zip(sides, (segment.left, segment.right), strict=True):
            if segment.kind == "same":
                side.append(Text(_shortened(words, first=number == 0, last=number == last)))
            elif words:
                shown = f"[[{one_line(words)}]]" if plain else one_line(words)
                side.append(Text(shown, style="bold reverse"))
    table.add_row(*(Text(" ").join(side) for side in sides))
    return table


def _shortened(words: str, *, first: bool, last: bool) -> str:
    parts = one_line(words).split(" ")
    if len(parts) <= 2 * _WORDS_KEPT:
        return " ".join(parts)
    head = [] if first else parts[:_WORDS_KEPT]
    tail = [] if last else parts[-_WORDS_KEPT:]
    return " ".join([*head, "...", *tail])


def checks_table(checks: Sequence[CheckResult], *, fail_on: Severity, plain: bool) -> Table:
    """Lay out one row a check: passed or failed, counts, and what it measured.

    Args:
        checks: results in the order of the rows.
        fail_on: a finding of this severity, or of a worse one, fails a check.
        plain: ASCII rules.
    """
    box: Box = ASCII2 if plain else SIMPLE_HEAD
    table = Table(box=box, pad_edge=False, header_style="bold")
    table.add_column("check")
    table.add_column("result")
    for severity in SEVERITIES:
        table.add_column(f"{severity}s", justify="right")
    table.add_column("looked at, and measured")
    for check in checks:
        table.add_row(
            Text(check.check),
            _result(check, fail_on),
            *(_count(check, severity) for severity in SEVERITIES),
            cell(_looked_at(check)),
        )
    return table


def _result(check: CheckResult, fail_on: Severity) -> Text:
    if check.skipped is not None:
        return Text("skipped", style="dim")
    if failed([check], fail_on):
        return Text("failed", style="bold red")
    return Text("passed", style="green")


def _count(check: CheckResult, severity: Severity) -> Text:
    n = check.count(severity)
    return Text(f"{n:,}" if n else "", style=_STYLE[severity])


def _looked_at(check: CheckResult) -> str:
    if check.skipped is not None:
        return check.skipped
    line = measured_line(check.measured)
    return f"{check.scope}: {line}" if line else check.scope


def verdict_line(
    checks: Sequence[CheckResult], *, subject: str, fail_on: Severity, tampered: str | None
) -> Text:
    """Say in one line whether the subject can be trusted, as far as the checks see.

    Args:
        checks: all results.
        subject: what was audited: "data" or "adapter".
        fail_on: the severity that fails.
        tampered: what a hash that does not match shows, or None where all match.
    """
    counts = {severity: count(checks, severity) for severity in SEVERITIES}
    tally = ", ".join(
        f"{n:,} {severity}{'s' if n != 1 else ''}" for severity, n in counts.items() if n
    )
    failing = [check.check for check in failed_checks(checks, fail_on)]
    skipped = [c.check for c in checks if c.skipped is not None]
    unseen = f" Not checked: {', '.join(skipped)}." if skipped else ""
    if tampered is not None:
        text = f"TAMPERED: {tampered} ({tally})."
        return Text(text + unseen, style="bold red")
    if failing:
        text = f"NOT TO BE TRUSTED: {tally} ({', '.join(failing)})."
        return Text(text + unseen, style="bold red")
    found = tally or "no finding"
    return Text(f"The {subject} passed: {found}.{unseen}", style="bold green")
