"""Conclusion on which of two runs, or of two arms over their seeds, is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal

from pact_eval.evaluation.arm_names import ArmNames
from pact_eval.evaluation.arms.arm_differences import arm_difference
from pact_eval.evaluation.comparison import GroupPairs, detectable_accuracy, only_first
from pact_eval.evaluation.conclusions.conclusion import (
    NOT_SHOWN,
    Conclusion,
    Question,
    Sentence,
    Unchecked,
)
from pact_eval.evaluation.notes import LOW_ANSWER_MASS
from pact_eval.evaluation.registry import ANSWER_MASS, DecodingName
from pact_eval.evaluation.report import COMPARED, HEADLINE
from pact_eval.evaluation.resampled_groups import Evidence, adjusted, sign_of
from pact_eval.numbers import (
    Unit,
    about,
    at_views,
    estimate_parts,
    has_width,
    interval_text,
    p_value_text,
    value_text,
    views_words,
)
from pact_eval.plain_text import one_line, upper_first
from pact_eval.stats.estimate import Estimate
from pact_eval.stats.power import EquivalenceVerdict, equivalence_verdict

BetterStatus = Literal["better", "worse", "equivalent", "not shown", "cannot be compared"]
"""Of the first run or arm. equivalent: only with a margin."""

PLANNED_DIFFERENCE: Final = 0.02
"""The difference in accuracy for which a conclusion says how many items would show it."""

LARGE_MASS_DIFFERENCE: Final = 1 - LOW_ANSWER_MASS
"""A difference in answer mass that first screens always have: what a run that puts everything on
the letters loses before it is said of the run itself."""

_NOT_AT: Final = "not shown"
_SHORT: Final[Mapping[BetterStatus, str]] = {
    "better": "more accurate",
    "worse": "less accurate",
    "equivalent": "as accurate within the margin",
}


@dataclass(frozen=True)
class Claim:
    """Finding on the difference in one metric under one decoding.

    Attributes:
        metric: accuracy, pair_accuracy or answer_mass.
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0, and for the mean over repeats.
        repeats: number of repeats per item; 1 if the views are not repeats.
        status: better or worse if the evidence shows the difference, else equivalent if the verdict
            says so; more of the metric is better.
        difference: the first minus the second, with its interval.
        evidence: the test behind the status, adjusted with all that one first line may name.
        verdict: the difference compared with the margin; None without a margin.
    """

    metric: str
    decoding: DecodingName
    k: int
    repeats: int
    status: BetterStatus = field(init=False)
    difference: Estimate
    evidence: Evidence
    verdict: EquivalenceVerdict | None = None

    def __post_init__(self) -> None:
        status: BetterStatus = "not shown"
        if math.isnan(self.difference.value):
            status = "cannot be compared"
        elif self.evidence.marked:
            status = "better" if sign_of(self.difference) > 0 else "worse"
        elif self.verdict is not None and self.verdict.conclusion == "equivalent":
            status = "equivalent"
        object.__setattr__(self, "status", status)

    @property
    def shown(self) -> bool:
        """Whether one of the two is shown to be better."""
        return self.status in ("better", "worse")


@dataclass(frozen=True, kw_only=True, repr=False)
class BetterConclusion(Conclusion):
    """Conclusion on whether the first run, or arm, is better than the second.

    Attributes:
        status: of the claim that the first line names, see `leading`.
        left: name of the first run or arm.
        right: name of the second.
        claims: accuracy and pair accuracy by decoding, the decoding of the settings first; then the
            answer mass, which is the mean over all views.
        seeds: number of seeds that both arms have; 1 for two runs.
        generalises_to: what an interval over seeds is about; "" for one seed, and for two runs.
        detectable: smallest difference in accuracy that the items show with 80% power; NaN over
            seeds, without an interval, and if the families are worth fewer than 30 of equal size.
        needed: number of such items that would show a small difference, or None.
        reason: why the two cannot be compared, or None.
    """

    question: ClassVar[Question] = "better"

    status: BetterStatus = field(init=False)
    left: str
    right: str
    claims: tuple[Claim, ...] = ()
    seeds: int = 1
    generalises_to: str = ""
    detectable: float = math.nan
    needed: int | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        status = "cannot be compared" if self.leading is None else self.leading.status
        object.__setattr__(self, "status", status)

    def of(self, metric: str) -> tuple[Claim, ...]:
        """Return the claims about a metric: view 0, or the mean over repeats, then K views."""
        claims = (claim for claim in self.claims if claim.metric == metric)
        return tuple(sorted(claims, key=lambda claim: claim.k))

    @property
    def by_metric(self) -> dict[str, Claim]:
        """The claims by metric, under the decoding of the settings."""
        return {
            claim.metric: claim
            for claim in self.claims
            if claim.decoding == self.claims[0].decoding or claim.metric == ANSWER_MASS
        }

    @property
    def leading(self) -> Claim | None:
        """The claim on accuracy to name first; None if the two cannot be compared.

        It is that of the settings, unless only the other decoding shows a difference.
        """
        accuracy = [claim for claim in self.claims if claim.metric == "accuracy"]
        shown = (claim for claim in accuracy if claim.shown)
        if not accuracy or accuracy[0].status != "not shown":
            return next(iter(accuracy), None)
        return next(shown, accuracy[0])

    @property
    def shown(self) -> bool:
        """Whether a difference in accuracy is shown under any decoding."""
        return self.leading is not None and self.leading.shown

    @property
    def better_first(self) -> BetterConclusion:
        """The same conclusion, turned so that the run or arm that is shown to be better is first.

        Examples:
            >>> not_comparable(("a", "b"), "item sets differ").better_first.left
            'a'
        """
        if self.leading is None or self.leading.status != "worse":
            return self
        claims = tuple(map(turned, self.claims))
        return replace(self, left=self.right, right=self.left, claims=claims)

    def named(self, names: ArmNames) -> BetterConclusion:
        """Return the same with the display names of its arms."""
        return replace(self, left=names.arm(self.left), right=names.arm(self.right))

    @property
    def words(self) -> Sentence:
        """The differences at view 0 and over K views.

        Example:
            "pact is more accurate than base over 4 views, not shown at view 0: ..."
        """
        left, right = (one_line(name) for name in (self.left, self.right))
        if self.status == "cannot be compared":
            return Sentence(f"{left} and {right} cannot be compared", one_line(str(self.reason)))
        accuracy = self.of("accuracy")
        differences = ", ".join(claim_text(claim, word=not at) for at, claim in enumerate(accuracy))
        parts = [f"{left} - {right} {differences}"]
        pairs = self.of("pair_accuracy")
        masses = [claim for claim in self.of(ANSWER_MASS) if claim.shown]
        for name, claims in (("pair accuracy", pairs), ("answer mass", masses)):
            if claims:
                parts.append(f"{name} {', '.join(claim_text(one, shown=True) for one in claims)}")
        rest = self.power_words
        if self.seeds > 1:
            rest = f"Over {self.seeds} seeds; tested for {self.generalises_to}."
        numbers = f"{'; '.join(parts)}. {self.adjustment}{rest}"
        return Sentence(self.finding(left, right), numbers.strip())

    @property
    def large_mass_difference(self) -> Claim | None:
        """The claim on answer mass, if a large difference is shown."""
        claims = (claim for claim in self.of(ANSWER_MASS) if claim.shown)
        large = (one for one in claims if abs(one.difference.value) >= LARGE_MASS_DIFFERENCE)
        return next(large, None)

    def finding(self, left: str, right: str) -> str:
        """Write the finding on accuracy: the decoding of the settings first, then a different one.

        Args:
            left: what the first is called.
            right: what the second is called.

        Example:
            "pact is more accurate than base (p = 0.004, adjusted)"
        """
        first, *others = (claim for claim in self.claims if claim.metric == "accuracy")
        phrases = {
            "better": f"{left} is more accurate than {right}",
            "worse": f"{left} is less accurate than {right}",
            "equivalent": f"{left} is as accurate as {right}, within the margin",
            "not shown": NOT_SHOWN,
        }
        differing = [claim for claim in others if claim.status != first.status]
        if not differing:
            return f"{phrases[first.status]}{p_words(first)}"
        other = differing[0]
        if first.status == "not shown":
            return f"{phrases[other.status]} {_at(other)}{p_words(other)}, {_NOT_AT} {_at(first)}"
        rest = f"{_NOT_AT} {_at(other)}"
        if other.status != "not shown":
            rest = f"but {_SHORT[other.status]} {_at(other)}"
        return f"{phrases[first.status]} {_at(first)}{p_words(first)}, {rest}"

    @property
    def adjustment(self) -> str:
        """The adjustment for several tests, which may take the mark of an interval without 0."""
        tests = self.claims[0].evidence.tests if self.claims else 0
        return f"p-values are adjusted for {tests:,} tests (Holm). " if tests > 1 else ""

    @property
    def power_words(self) -> str:
        """The detectable difference, and the number of items that a small one needs.

        If a difference is shown, neither matters: the text is empty.
        """
        if self.shown:
            return ""
        smallest = self.detectable
        planned = value_text(PLANNED_DIFFERENCE, "percent").removesuffix(".0")
        parts = []
        if not math.isnan(smallest):
            parts.append(f"detectable here: {value_text(smallest, 'percent')} points")
        if self.needed is not None and not smallest <= PLANNED_DIFFERENCE:
            parts.append(f"{planned} points would need about {about(self.needed):,} items")
        return upper_first(f"{'; '.join(parts)}.") if parts else ""


def turned(claim: Claim) -> Claim:
    """Return the claim on the second minus the first."""
    return replace(claim, difference=claim.difference.negated)


@dataclass(frozen=True)
class DecodedPairs:
    """Pairs of runs under one decoding: one pair per shared seed, or two runs.

    Attributes:
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        pairs: all items of both runs, with their resamples.
    """

    decoding: DecodingName
    k: int
    repeats: int
    pairs: GroupPairs


def better_of_pairs(
    names: tuple[str, str], decoded: Sequence[DecodedPairs], margin: float | None = None
) -> BetterConclusion:
    """Return whether the first of two runs, or arms, is better; not adjusted for other tests.

    Two runs, and arms with one shared seed, are one pair: their items say how many would be needed.

    Args:
        names: of both.
        decoded: the runs in pairs, those under the decoding of the settings first.
        margin: largest difference that does not matter, as a fraction.
    """
    claims = [claim_of(metric, pairs, margin) for pairs in decoded for metric in HEADLINE]
    most, (first, other) = max(decoded, key=lambda pairs: pairs.k), decoded[0].pairs[0]
    claims.append(claim_of(ANSWER_MASS, replace(most, pairs=decoded[0].pairs), margin))
    seeds = len(decoded[0].pairs)
    if seeds > 1:
        scope = arm_difference("accuracy", decoded[0].pairs).generalises_to
        return concluded(names, claims, seeds=seeds, generalises_to=scope)
    detectable, needed = detectable_accuracy(claims[0].difference, first.items), None
    if not math.isnan(detectable):
        needed = math.ceil(first.items.n_items * (detectable / PLANNED_DIFFERENCE) ** 2)
    items = (*only_first(first.items, other.items), *only_first(other.items, first.items))
    return concluded(names, claims, detectable=detectable, needed=needed, items=items)


def claim_of(metric: str, decoded: DecodedPairs, margin: float | None) -> Claim:
    """Return the finding on a metric in pairs of runs, not adjusted for other tests.

    Args:
        metric: accuracy, pair_accuracy or answer_mass.
        decoded: the runs.
        margin: largest difference that does not matter, as a fraction; None gives no verdict.
    """
    found = arm_difference(metric, decoded.pairs, margin)
    views = decoded.decoding, decoded.k, decoded.repeats
    return Claim(metric, *views, found.tested, found.evidence, found.verdict)


def concluded(names: tuple[str, str], claims: Sequence[Claim], **fields: Any) -> BetterConclusion:
    """Conclude from claims, of which the first is on accuracy.

    Undefined ones are left out, and so is an answer mass that does not differ beyond rounding.
    """
    if math.isnan(claims[0].difference.value):
        reason = claims[0].difference.reason or "the difference in accuracy is undefined"
        return not_comparable(names, reason)
    defined = tuple(
        claim
        for claim in claims
        if not math.isnan(claim.difference.value)
        and (claim.metric != ANSWER_MASS or not math.isnan(claim.difference.low))
    )
    return BetterConclusion(left=names[0], right=names[1], claims=defined, **fields)


def adjusted_claims(conclusions: Sequence[BetterConclusion]) -> tuple[BetterConclusion, ...]:
    """Adjust all claims of conclusions that are shown together; see `adjusted_together`."""
    together = iter(
        adjusted_together([claim for conclusion in conclusions for claim in conclusion.claims])
    )
    return tuple(
        replace(conclusion, claims=tuple(next(together) for _ in conclusion.claims))
        for conclusion in conclusions
    )


def adjusted_together(claims: Sequence[Claim]) -> list[Claim]:
    """Adjust the claims that one first line may name, by Holm.

    The line may name any comparison under any decoding. So the claims on accuracy are one family of
    tests: other runs times decodings. Those on pair accuracy and those on answer mass, which it
    does not name, are two others.

    Args:
        claims: all that are shown together, not adjusted.
    """
    tests = {
        name: iter(adjusted([claim.evidence for claim in claims if claim.metric == name]))
        for name in COMPARED
    }
    changed = []
    for claim in claims:
        difference, test, verdict = claim.difference, next(tests[claim.metric]), claim.verdict
        if verdict is not None and not test.marked:
            verdict = equivalence_verdict(difference, verdict.margin, shown=False)
        changed.append(replace(claim, evidence=test, verdict=verdict))
    return changed


def not_comparable(names: tuple[str, str], reason: str) -> BetterConclusion:
    """Return the conclusion on two runs, or arms, that cannot be compared.

    Args:
        names: of both.
        reason: why.

    Examples:
        >>> not_comparable(("a", "b"), "item sets differ: 3 items only in a").status
        'cannot be compared'
    """
    return BetterConclusion(
        left=names[0],
        right=names[1],
        reason=reason,
        unchecked=(Unchecked("accuracy", reason),),
    )


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
    text = points_text(difference, "points", unit)
    return f"{text} ({', '.join(remarks)})" if remarks else text


def p_words(claim: Claim) -> str:
    """Give the p-value that decides: of a difference that is shown, or is not after adjustment.

    Example:
        " (p = 0.004, adjusted)"
    """
    adjusted = ", adjusted" if claim.evidence.tests > 1 else ""
    if claim.shown or (claim.status == "not shown" and claim.difference.excludes_zero):
        return f" ({p_value_text(claim.evidence.deciding)}{adjusted})"
    return ""


def _at(claim: Claim) -> str:
    return at_views(claim.k, claim.repeats)


def points_text(difference: Estimate, unit: Unit, word: str = " points") -> str:
    """Write a difference, with its unit before the interval; without signs if it is a percentage.

    Example:
        >>> points_text(Estimate(0.051, 0.02, 0.083, 400, 200), "percent")
        '5.1 points [2.0, 8.3]'
    """
    if not has_width(difference):
        return interval_text(difference, unit, word)
    value, interval = estimate_parts(difference, unit)
    return f"{value}{word} {interval}"
