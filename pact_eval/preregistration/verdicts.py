"""From the outcomes of the checks to the verdict on a hypothesis.

Each comparison of a check holds, fails or lacks data. A check *holds* where all of its comparisons
with data hold, *fails* where they all fail, and is *mixed* where it points both ways (over seeds,
decodings, arms or groups). A check some of whose comparisons lack data counts both as what it
shows and as *lacking*. The verdict depends on which of the four occur, and on nothing else:

    holds  fails  mixed  lacks  verdict           why
    -----  -----  -----  -----  ----------------  -------------------------------------------------
    yes    -      -      -      SUPPORTED         all checks hold
    yes    yes    -      -      PARTLY SUPPORTED  some hold, some fail
    yes    yes    -      yes    PARTLY SUPPORTED  likewise, and further data undo neither
    yes    yes    yes    -      PARTLY SUPPORTED  likewise, whichever way the mixed check would fall
    yes    yes    yes    yes    PARTLY SUPPORTED  likewise
    -      -      yes    -      INCONCLUSIVE      all checks point both ways
    yes    -      yes    -      INCONCLUSIVE      supported or partly so: the mixed check decides
    -      yes    yes    -      INCONCLUSIVE      contradicted or partly so: the mixed check decides
    -      -      yes    yes    INCONCLUSIVE      what was tested points both ways
    yes    -      yes    yes    INCONCLUSIVE      as without the missing data
    -      yes    yes    yes    INCONCLUSIVE      as without the missing data
    -      yes    -      -      CONTRADICTED      all checks fail
    -      yes    -      yes    CONTRADICTED      all that was tested fails: missing data must not
                                                  soften a failure
    yes    -      -      yes    PARTLY TESTED     all that was tested holds, the rest lacks data
    -      -      -      yes    UNTESTED          no check has data

Read as rules, the first that applies: UNTESTED where nothing was tested; PARTLY SUPPORTED where a
check holds and another fails; INCONCLUSIVE where a check is mixed; CONTRADICTED where one fails;
PARTLY TESTED where one lacks data; else SUPPORTED.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

__all__ = ["OUTCOMES", "VERDICTS", "Outcome", "Verdict", "outcomes_of", "verdict_on"]

Outcome = Literal["holds", "fails", "mixed", "lacks"]
"""What a check shows."""

OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)

Verdict = Literal[
    "SUPPORTED",
    "PARTLY SUPPORTED",
    "PARTLY TESTED",
    "INCONCLUSIVE",
    "CONTRADICTED",
    "UNTESTED",
]
"""What the checks of a hypothesis say together."""

VERDICTS: Final[dict[frozenset[Outcome], Verdict]] = {
    frozenset({"holds"}): "SUPPORTED",
    frozenset({"holds", "fails"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "lacks"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "mixed"}): "PARTLY SUPPORTED",
    frozenset({"holds", "fails", "mixed", "lacks"}): "PARTLY SUPPORTED",
    frozenset({"mixed"}): "INCONCLUSIVE",
    frozenset({"holds", "mixed"}): "INCONCLUSIVE",
    frozenset({"fails", "mixed"}): "INCONCLUSIVE",
    frozenset({"mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"holds", "mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"fails", "mixed", "lacks"}): "INCONCLUSIVE",
    frozenset({"fails"}): "CONTRADICTED",
    frozenset({"fails", "lacks"}): "CONTRADICTED",
    frozenset({"holds", "lacks"}): "PARTLY TESTED",
    frozenset({"lacks"}): "UNTESTED",
}
"""The table above."""


def outcomes_of(comparisons: Iterable[bool | None]) -> frozenset[Outcome]:
    """Return what a check shows: one of holds, fails and mixed, and whether it lacks data.

    Args:
        comparisons: for each, whether it holds; None where it lacks data.

    Example:
        >>> sorted(outcomes_of([True, True])), sorted(outcomes_of([True, False, None]))
        (['holds'], ['lacks', 'mixed'])
    """
    seen = frozenset(comparisons)
    shown: set[Outcome] = set()
    if {True, False} <= seen:
        shown.add("mixed")
    elif True in seen:
        shown.add("holds")
    elif False in seen:
        shown.add("fails")
    if None in seen or not seen:
        shown.add("lacks")
    return frozenset(shown)


def verdict_on(checks: Iterable[frozenset[Outcome]]) -> Verdict:
    """Return the verdict on a hypothesis whose checks show these outcomes.

    Raises:
        ValueError: there are no checks.

    Example:
        >>> verdict_on([frozenset({"holds"}), frozenset({"lacks"})])
        'PARTLY TESTED'
    """
    shown = frozenset[Outcome]().union(*checks)
    if not shown:
        message = "expected at least one check"
        raise ValueError(message)
    return VERDICTS[shown]
