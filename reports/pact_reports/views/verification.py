"""Checks of runs and of reports against what they record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pact_eval.plain_text import one_line
from pact_eval.verification import CheckedReport, CheckedRun, FamilyRoles, Outcome, RoleOfFamilies
from pact_reports.table import Cell, Column, Line, Part, Table, Tone, make_table
from pact_reports.tables.cells import count_cell
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import to_json


def present_verification(runs: Sequence[CheckedRun], roles: Sequence[FamilyRoles]) -> Presenter:
    """Present checked runs, and which families were used for what.

    Args:
        runs: the runs.
        roles: the roles of families, by adapter.
    """
    return Presenter(
        tables=lambda: (*(line for run in runs for line in checks_lines(run)), *roles_parts(roles)),
        to_json=lambda: {"runs": [*map(to_json, runs)], "roles": to_json(roles)},
        blocks=lambda _full: (*map(checks_lines, runs), roles_parts(roles)),
    )


def present_checked_report(report: CheckedReport) -> Presenter:
    """Present a report that was compared with runs."""
    return Presenter(
        tables=partial(report_lines, report), to_json=lambda: {"report": to_json(report)}
    )


_PLAIN: Final = {"seal": "files", "contract": "prompts"}
"""Checks that the terminal calls otherwise."""

_TONES: Final[dict[Outcome, Tone]] = {
    "ok": "good",
    "differs": "bad",
    "leak": "bad",
    "not stated": "caution",
    "not checked": "caution",
}


def checks_lines(run: CheckedRun) -> tuple[Line, ...]:
    """Lay out the checks of a run: its folder, a line per check, and what identifies it.

    Args:
        run: the run, checked.
    """
    if run.unreadable is not None:
        return (
            Line(one_line(run.place), "strong"),
            Line(f"  {'not readable':<13}{'run':<14}{one_line(run.unreadable)}", "bad"),
        )
    digest = run.digest or "none (its files differ)"
    quantised = "" if run.quantisation is None else f" ({run.quantisation})"
    return (
        Line(one_line(f"{run.place}{quantised}"), "strong"),
        *(
            Line(
                f"  {check.outcome:<13}{_PLAIN.get(check.subject, check.subject):<14}"
                f"{one_line(check.finding)}",
                _TONES[check.outcome],
            )
            for check in run.checks
        ),
        Line(f"  {'SHA-256':<27}{digest}"),
    )


def roles_parts(tables: Sequence[FamilyRoles]) -> tuple[Part, ...]:
    """Lay out the roles of families, one table per adapter.

    Args:
        tables: the roles; an adapter whose families have one role is left out.
    """
    return tuple(_roles_table(table) for table in tables if len(table.roles) > 1)


def _roles_table(table: FamilyRoles) -> Table:
    def also(role: RoleOfFamilies) -> Cell:
        """Count the families of a role that also have another role."""
        if not role.shared:
            return Cell("none")
        counts = ", ".join(f"{other} {count:,}" for other, count in role.shared.items())
        text = f"{counts} ({', '.join(role.names)}, ...)" if role.names else counts
        return Cell(one_line(text), tone="bad")

    named = f" of {one_line(table.adapter)}" if table.adapter else ""
    stated = "" if table.stated else "; training data not stated"
    return make_table(
        "roles",
        table.roles,
        (Column("role", "left"), lambda role: role.role),
        (Column("groups", numbers=("families",)), lambda role: count_cell(role.families)),
        (Column("also", "left", width=0.3), also),
        (Column("from", "left", width=0.4), lambda role: one_line(", ".join(role.sources))),
        title=f"Groups that belong together{named}, by role{stated}",
    )


def report_lines(report: CheckedReport) -> tuple[Line, ...]:
    """Lay out the comparison of a report with runs: what identifies it, and differences.

    Args:
        report: the report, compared.
    """
    outcome: Outcome = "differs" if report.reasons else "ok"
    sentences = report.reasons or (
        "names these runs, calibrators and settings; its numbers were not computed again",
    )
    return (
        Line(one_line(str(report.path)), "strong"),
        *(Line(f"  {outcome:<13}{one_line(sentence)}", _TONES[outcome]) for sentence in sentences),
        *(Line(f"  {'SHA-256':<13}{digest}") for digest in report.digests),
    )
