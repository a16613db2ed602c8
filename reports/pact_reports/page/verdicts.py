"""Verdicts on the criteria, with their evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.numbers import has_width, no_interval
from pact_reports.markup import Child, Html, data_text, element, joined
from pact_reports.tables.scorecard import (
    basis_text,
    check_summary,
    compared_text,
    scorecard_legend,
)

if TYPE_CHECKING:  # without criteria, there are none
    from pact_eval.preregistration.registration import Registration
    from pact_eval.preregistration.scorecard import (
        CheckComparison,
        HypothesisResult,
        JudgedCheck,
        Scorecard,
    )

_OPEN_COMPARISONS: Final = 2


def criteria_html(
    scorecard: Scorecard | str, registration: Registration | None, names: ArmNames
) -> Html:
    """Write the registration, then every verdict with a line for each of its checks.

    Args:
        scorecard: scorecard of the criteria; or the reason that they cannot be judged, "" if no
            criteria were given.
        registration: status of the registration; if it is broken, verdicts are muted.
        names: display names of arms.
    """
    if isinstance(scorecard, str):
        return _no_verdict(scorecard)
    broken = registration is not None and registration.broken
    items = [_verdict(result, names, muted=broken) for result in scorecard.results]
    caption = f"Differences are first minus second. {scorecard_legend(scorecard)}"
    return joined(
        [
            None if registration is None else _registration(registration),
            element("ul", *items, class_="verdicts"),
            element("p", caption, class_="caption"),
        ]
    )


def _no_verdict(reason: str) -> Html:
    if reason:
        return element("p", "The criteria cannot be judged: ", data_text(reason), ".")
    return element(
        "p",
        "No criteria were given (",
        element("code", "--criteria HYPOTHESES.toml"),
        "), so there are no verdicts. Differences below were not registered.",
    )


def _registration(registration: Registration) -> Html:
    status = registration.status
    look = "bad" if registration.broken else "good" if registration.holds else "open"
    why: Child = None
    if registration.reasons and not registration.holds:
        why = joined([" ", data_text("; ".join(registration.reasons)), "."])
    warns = " The verdicts below prove nothing." if registration.broken else None
    badge = element("span", status, class_=f"verdict {look}")
    return element("p", "Registration: ", badge, why, warns, class_="registration")


def _verdict(result: HypothesisResult, names: ArmNames, *, muted: bool) -> Html:
    look = {"SUPPORTED": "good", "CONTRADICTED": "bad"}.get(result.verdict, "open")
    words = result.shown_words
    lines = [_check(check, names, beside=False) for check in result.checks]
    lines += [_check(check, names, beside=True) for check in result.beside]
    return element(
        "li",
        element("span", result.verdict, class_=f"verdict {'muted' if muted else look}"),
        " ",
        joined([element("strong", data_text(words)), ". "]) if words else None,
        data_text(result.hypothesis.id),
        ": ",
        data_text(result.hypothesis.claim),
        f" ({result.because})",
        element("ul", *lines, class_="evidence"),
    )


def _check(result: JudgedCheck, names: ArmNames, *, beside: bool) -> Html:
    measured = [
        comparison for comparison in result.comparisons if not math.isnan(comparison.difference)
    ]
    label = joined(["not decisive: " if beside else None, data_text(result.check.says), ": "])
    if not measured:
        lacks = "; ".join(dict.fromkeys([result.check.needs or "", *result.reasons]))
        why = joined([" (", data_text(lacks.strip("; ")), ")"]) if lacks.strip("; ") else None
        return element("li", label, result.summary, why)
    lines = [_comparison(comparison, names) for comparison in measured]
    if len(lines) <= _OPEN_COMPARISONS:
        return element("li", label, f"{check_summary(result)}: ", _listed(lines))
    listed = element("ul", *(element("li", line) for line in lines))
    more = element("details", element("summary", f"{len(lines):,} comparisons"), listed)
    return element("li", label, check_summary(result), more)


def _listed(lines: Sequence[Html]) -> Html:
    first, *more = lines
    return joined([first, *(joined(["; ", line]) for line in more)])


def _comparison(comparison: CheckComparison, names: ArmNames) -> Html:
    """Write a comparison: the quantities, the difference with its interval, and its basis."""
    basis = basis_text(comparison)
    interval = comparison.interval
    if interval is not None and not has_width(interval):
        basis += f"; {no_interval(interval)}"
    return joined(
        [
            data_text(compared_text(comparison, names)),
            " ",
            element("strong", data_text(comparison.difference_text)),
            f" ({basis}): {'shown' if comparison.shown else 'by value only'}",
        ]
    )
