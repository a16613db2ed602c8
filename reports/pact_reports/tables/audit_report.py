"""The whole terminal report of an audit, in reading order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import ASCII2, SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pact_eval.audit import Balance, DataAudit, Severity, Shortcuts
from pact_eval.data import DataFile, FileFacts, WrittenManifest
from pact_reports.plain_text import cell
from pact_reports.tables.audit_measures import balance_table, groups_table, shortcuts_table
from pact_reports.tables.audit_tables import checks_table, finding_lines, verdict_line

__all__ = ["data_audit_report", "manifest_report"]

_TAMPERED = "bytes are not those of the manifest"
_HASH_WIDTH = 17  # enough to tell files apart; --json has all of it


def data_audit_report(
    audit: DataAudit, *, fail_on: Severity, plain: bool
) -> Iterator[RenderableType]:
    """Lay out the audit of a dataset.

    Args:
        audit: what was found.
        fail_on: the severity that fails.
        plain: ASCII rules and marks, for output that is piped.

    Yields:
        Files, findings, measured tables, the table of checks, the verdict.
    """
    yield _files_table(audit.files, audit.facts, audit.families, plain=plain)
    if any(check.counts for check in audit.checks):
        yield Text("\nFindings\n", style="bold")
        yield from finding_lines(audit.checks, plain=plain)
    alone = len(audit.checks) == 1
    for check in audit.checks:
        if isinstance(check.measured, Balance):
            yield balance_table(check.measured, plain=plain)
            if alone:
                yield groups_table(check.measured, plain=plain)
        elif isinstance(check.measured, Shortcuts):
            yield shortcuts_table(check.measured, plain=plain)
    yield checks_table(audit.checks, fail_on=fail_on, plain=plain)
    tampered = _TAMPERED if audit.tampered else None
    yield verdict_line(audit.checks, subject="data", fail_on=fail_on, tampered=tampered)


def manifest_report(written: WrittenManifest, *, plain: bool) -> RenderableType:
    """Lay out what a manifest says, and whether it was written anew."""
    table = _files_table(written.files, written.facts, None, plain=plain)
    done = "wrote" if written.changed else "unchanged:"
    table.title = cell(f"{done} {written.path}", style="italic")
    table.title_justify = "left"
    return table


def _files_table(
    files: Sequence[DataFile],
    facts: Sequence[FileFacts],
    families: Sequence[int] | None,
    *,
    plain: bool,
) -> Table:
    table = Table(box=ASCII2 if plain else SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("file", overflow="fold")
    table.add_column("for")
    table.add_column("records", justify="right")
    if families is not None:
        table.add_column("families", justify="right")
    table.add_column("SHA-256", overflow="ellipsis", no_wrap=True, max_width=_HASH_WIDTH)
    for row, (file, fact) in enumerate(zip(files, facts, strict=True)):
        counts = [f"{fact.rows:,}", *([f"{families[row]:,}"] if families is not None else [])]
        table.add_row(cell(file.name), file.role, *counts, fact.sha256)
    return table
