"""Verdicts on registered hypotheses, as a template writes them."""

from __future__ import annotations

import math
from typing import Any

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.numbers import has_width, no_interval
from pact_eval.preregistration.run_scorecard import JudgedHypotheses
from pact_eval.preregistration.scorecard import CheckComparison, JudgedCheck
from pact_reports.tables.scorecard import (
    basis_text,
    check_summary,
    compared_text,
    scorecard_legend,
)


def verdicts(judged: JudgedHypotheses, names: ArmNames) -> dict[str, Any]:
    """Return the registration and every verdict with its checks, as a template writes them.

    Args:
        judged: the scorecard, and what the lock proves.
        names: display names of arms.
    """
    checks = [
        [
            *(_check(check, names, beside=False) for check in result.checks),
            *(_check(check, names, beside=True) for check in result.beside),
        ]
        for result in judged.scorecard.results
    ]
    return {
        "registration": judged.registration,
        "results": list(zip(judged.scorecard.results, checks, strict=True)),
        "legend": scorecard_legend(judged.scorecard),
    }


def _check(result: JudgedCheck, names: ArmNames, *, beside: bool) -> dict[str, Any]:
    """Return a check: its comparisons, or what it lacks."""
    measured = [
        comparison for comparison in result.comparisons if not math.isnan(comparison.difference)
    ]
    return {
        "says": result.check.says,
        "beside": beside,
        "summary": check_summary(result) if measured else result.summary,
        "lacks": "; ".join(dict.fromkeys([result.check.needs or "", *result.reasons])).strip("; "),
        "comparisons": [
            {
                "compared": compared_text(comparison, names),
                "difference": comparison.difference_text,
                "basis": _basis(comparison),
                "shown": comparison.shown,
            }
            for comparison in measured
        ],
    }


def _basis(comparison: CheckComparison) -> str:
    interval = comparison.interval
    if interval is None or has_width(interval):
        return basis_text(comparison)
    return f"{basis_text(comparison)}; {no_interval(interval)}"
