"""Which run or arm is better, in words: in full, and in the few of `compare` without `--full`.

No rule is here: a status has one finding, and the numbers are those that the conclusion holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pact_eval.evaluation.answers import PLANNED_DIFFERENCE
from pact_eval.evaluation.conclusions.better import BetterConclusion, BetterStatus, Claim
from pact_eval.evaluation.conclusions.data import DataLeak
from pact_eval.evaluation.metric_specs import Unit
from pact_eval.evaluation.registry import ANSWER_MASS
from pact_reports.arm_names import KEYS, ArmNames
from pact_reports.numbers import (
    at_views,
    estimate_parts,
    has_width,
    interval_text,
    p_value_text,
    value_text,
    views_words,
)
from pact_reports.plain_text import one_line
from pact_reports.sentences.brief import short_names
from pact_reports.sentences.conclusions import NOT_SHOWN, Said, beside_leak
from pact_reports.sentences.data import leak_prefix

_NOT_AT: Final = "not shown"
_SHORT: Final[dict[BetterStatus, str]] = {
    "better": "more accurate",
    "worse": "less accurate",
    "equivalent": "as accurate within the margin",
}
_MOST_NAMES: Final = 4


def better_words(conclusion: BetterConclusion, names: ArmNames = KEYS) -> Said:
    """Write the conclusion on which run or arm is better, at view 0 and over K views.

    Args:
        conclusion: on two runs or arms.
        names: display names of arms.

    Example:
        "pact is more accurate than base over 4 views, not shown at view 0: ..."
    """
    left, right = (one_line(names.arm(name)) for name in (conclusion.left, conclusion.right))
    if conclusion.status == "cannot be compared":
        return Said(f"{left} and {right} cannot be compared", one_line(str(conclusion.reason)))
    accuracy = conclusion.of("accuracy")
    differences = ", ".join(claim_text(claim, word=not at) for at, claim in enumerate(accuracy))
    numbers = f"{left} - {right} {differences}"
    pairs = conclusion.of("pair_accuracy")
    if pairs:
        numbers += f"; pair accuracy {', '.join(claim_text(claim, shown=True) for claim in pairs)}"
    masses = [claim_text(claim, shown=True) for claim in conclusion.of(ANSWER_MASS) if claim.shown]
    if masses:
        numbers += f"; answer mass {', '.join(masses)}"
    rest = f"{adjustment(conclusion)}{power_words(conclusion)}"
    if conclusion.seeds > 1:
        rest = f"Over {conclusion.seeds} seeds; tested for {conclusion.generalises_to}."
        rest = f"{adjustment(conclusion)}{rest}"
    return Said(better_finding(conclusion, left, right), f"{numbers}. {rest}".strip())


def better_finding(conclusion: BetterConclusion, left: str, right: str) -> str:
    """Write the finding on accuracy: the decoding of the settings first, then a different one.

    Args:
        conclusion: on two runs or arms that can be compared.
        left: what the first is called.
        right: what the second is called.

    Example:
        "pact is more accurate than base (p = 0.004, adjusted)"
    """
    first, *others = (claim for claim in conclusion.claims if claim.metric == "accuracy")
    phrases = {
        "better": f"{left} is more accurate than {right}",
        "worse": f"{left} is less accurate than {right}",
        "equivalent": f"{left} is as accurate as {right}, within the margin",
        "not shown": NOT_SHOWN,
    }
    differing = [claim for claim in others if claim.status != first.status]
    if not differing:
        return f"{phrases[first.status]}{_test(first)}"
    other = differing[0]
    if first.status == "not shown":
        return f"{phrases[other.status]} {_at(other)}{_test(other)}, {_NOT_AT} {_at(first)}"
    rest = f"{_NOT_AT} {_at(other)}"
    if other.status != "not shown":
        rest = f"but {_SHORT[other.status]} {_at(other)}"
    return f"{phrases[first.status]} {_at(first)}{_test(first)}, {rest}"


def adjustment(conclusion: BetterConclusion) -> str:
    """Name the adjustment for several tests, which may take the mark of an interval without 0."""
    tests = conclusion.claims[0].evidence.tests if conclusion.claims else 0
    return f"p-values are adjusted for {tests:,} tests (Holm). " if tests > 1 else ""


def _test(claim: Claim) -> str:
    """Give the p-value that decides: of a difference that is shown, or is not after adjustment."""
    adjusted = ", adjusted" if claim.evidence.tests > 1 else ""
    if claim.shown or (claim.status == "not shown" and claim.difference.excludes_zero):
        return f" ({p_value_text(claim.evidence.deciding)}{adjusted})"
    return ""


def claim_text(claim: Claim, *, word: bool = False, shown: bool = False, at: bool = True) -> str:
    """Write a difference; the finding says only of accuracy whether it is shown.

    Args:
        claim: on the difference.
        word: whether its unit follows.
        shown: whether to say if it is shown.
        at: whether to name its views.
    """
    difference, unit = claim.difference, " points" if word else ""
    remarks = [views_words(claim.k, claim.repeats)] if at else []
    if shown and claim.shown:
        remarks.append("shown")
    elif difference.excludes_zero and claim.status == "not shown":
        remarks.append(f"not shown after adjustment, {p_value_text(claim.evidence.deciding)}")
    text = interval_text(difference, "points", unit)
    if has_width(difference):
        value, interval = estimate_parts(difference, "points")
        text = f"{value}{unit} {interval}"
    return f"{text} ({', '.join(remarks)})" if remarks else text


def _at(claim: Claim) -> str:
    return at_views(claim.k, claim.repeats)


def power_words(conclusion: BetterConclusion) -> str:
    """Write the detectable difference, and the number of items that a small one needs.

    If a difference is shown, neither matters: the text is empty.
    """
    if conclusion.shown:
        return ""
    smallest = conclusion.detectable
    planned = value_text(PLANNED_DIFFERENCE, "percent").removesuffix(".0")
    parts = []
    if not math.isnan(smallest):
        parts.append(f"detectable here: {value_text(smallest, 'percent')} points")
    if conclusion.needed is not None and not smallest <= PLANNED_DIFFERENCE:
        parts.append(f"{planned} points would need about {_about(conclusion.needed)} items")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _about(number: int) -> str:
    """Round to two digits.

    Example:
        >>> _about(2688), _about(97)
        ('2,700', '97')
    """
    digits = max(0, len(str(number)) - 2)
    return f"{round(number, -digits):,}"


def better_line(
    conclusion: BetterConclusion, leak: DataLeak | None = None, names: ArmNames = KEYS
) -> str:
    """Write which of two runs or arms is better, the better one first, with its lead in points.

    Args:
        conclusion: on both.
        leak: of their data; it comes first.
        names: display names of arms.

    Example:
        "pact is more accurate than base (p = 0.004, adjusted): 5.1 points [2.0, 8.3]"
    """
    conclusion = conclusion.better_first
    left, right = short_names([names.arm(name) for name in (conclusion.left, conclusion.right)])
    claim = conclusion.leading
    if claim is None:
        reason = one_line(str(conclusion.reason))
        return f"{leak_prefix(leak)}{left} and {right} cannot be compared: {reason}"
    finding = beside_leak(Said(better_finding(conclusion, left, right)), leak).finding
    if claim.status == "better":
        return f"{finding}: {_points(claim, 'percent')}"
    return f"{finding}: {left} - {right} {_points(claim, 'points')}"


def several_line(
    conclusions: Sequence[BetterConclusion], leak: DataLeak | None = None, names: ArmNames = KEYS
) -> str:
    """Write how one run or arm compares with each of several others, in their accuracy.

    Args:
        conclusions: each of the same first run or arm.
        leak: of their data; it comes first.
        names: display names of arms.

    Example:
        "pact is more accurate than base and ce; is not shown to differ in accuracy from no_cf"
    """
    if len(conclusions) == 1:
        return better_line(conclusions[0], leak, names)
    keys = [conclusions[0].left, *(conclusion.right for conclusion in conclusions)]
    first, *others = short_names([names.arm(key) for key in keys])
    named: dict[tuple[BetterStatus, str], list[str]] = {}
    for conclusion, other in zip(conclusions, others, strict=True):
        named.setdefault((conclusion.status, _only_at(conclusion)), []).append(other)
    phrases: dict[BetterStatus, str] = {
        "better": "is more accurate{} than {}",
        "worse": "is less accurate{} than {}",
        "equivalent": "is as accurate{} as {}, within the margin",
        "not shown": "is not shown to differ in accuracy{} from {}",
        "cannot be compared": "cannot be compared{} with {}",
    }
    parts = [
        phrase.format(at, _listed(named[status, at]))
        for status, phrase in phrases.items()
        for named_status, at in named
        if named_status == status
    ]
    return f"{leak_prefix(leak)}{first} {'; '.join(parts)}"


def _only_at(conclusion: BetterConclusion) -> str:
    """Name the views of a difference that is not shown under the decoding of the settings."""
    leading = conclusion.leading
    if leading is None or leading is conclusion.claims[0]:
        return ""
    return f" {_at(leading)}"


def _listed(names: Sequence[str]) -> str:
    """List names; the first of many.

    Example:
        >>> _listed(["a", "b", "c"]), _listed(["a", "b", "c", "d", "e", "f"])
        ('a, b and c', 'a, b, c and 3 more')
    """
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[: _MOST_NAMES - 1])} and {len(names) - _MOST_NAMES + 1} more"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _points(claim: Claim, unit: Unit) -> str:
    """Write a difference in points; without signs if the unit is percent."""
    difference = claim.difference
    if not has_width(difference):
        return interval_text(difference, unit, " points")
    value, interval = estimate_parts(difference, unit)
    return f"{value} points {interval}"
