"""The checks of a run, and of a report: one line per check."""

from __future__ import annotations

from typing import Final

from pact_eval.verification import CheckedReport, CheckedRun, Outcome
from pact_reports.plain_text import one_line
from pact_reports.table import Line, Tone

_TONES: Final[dict[Outcome, Tone]] = {"ok": "good", "differs": "bad", "not checked": "caution"}


def checks_lines(run: CheckedRun) -> tuple[Line, ...]:
    """Lay out the checks of a run: its folder, a line per check, and its digest.

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
                f"  {check.outcome:<13}{check.subject:<14}{one_line(check.finding)}",
                _TONES[check.outcome],
            )
            for check in run.checks
        ),
        Line(f"  {'digest':<27}{digest}"),
    )


def report_lines(report: CheckedReport) -> tuple[Line, ...]:
    """Lay out the comparison of a report with runs: its digests, and what differs.

    Args:
        report: the report, compared.
    """
    outcome: Outcome = "differs" if report.reasons else "ok"
    found = report.reasons or (
        "names these runs, calibrators and settings; its numbers were not computed again",
    )
    return (
        Line(one_line(str(report.path)), "strong"),
        *(Line(f"  {outcome:<13}{one_line(each)}", _TONES[outcome]) for each in found),
        *(Line(f"  {'digest':<13}{each}") for each in report.digests),
    )
